"""The score of SDMetrics' Quality Report, for machines without SDMetrics: its definitions of release 0.32.

Column shapes: 1 - the Kolmogorov-Smirnov distance of numbers, 1 - the total variation of categories. Pair trends: of
two columns of numbers 1 - half the difference of their correlations; else 1 - the total variation of their contingency
tables, numbers in ten bins between the least and the greatest of each table. Pairs that are hardly associated in the
real table do not count. Missing cells are not provided for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pandas as pd

from missdiff_fast.evaluate._distances import Pair, contingency_variation, kolmogorov_smirnov, total_variation

LEAST_CORRELATION, LEAST_ASSOCIATION = 0.5, 0.3
BINS = 10


def fidelity(real: pd.DataFrame, synthetic: pd.DataFrame, continuous: Sequence[str]) -> dict[str, float]:
    """``overall``, ``shapes`` and ``trends`` in per cent.

    Parameters
    ----------
    real, synthetic : DataFrame
        Complete tables with the same columns.
    continuous : sequence of str
        The columns that are numbers; the others are categories.
    """
    numbers, codes, shapes = {}, {}, []
    for name in real.columns:
        pair = real[name], synthetic[name]
        if any(column.isna().any() for column in pair):
            raise ValueError(f"column {name!r} has missing cells")
        if name in continuous:
            numbers[name] = tuple(column.to_numpy(float) for column in pair)
            codes[name] = tuple(np.digitize(x, np.histogram_bin_edges(x, BINS)) for x in numbers[name])
            shapes.append(1 - kolmogorov_smirnov(tuple(x.round(15) for x in numbers[name])))
        else:
            both = pd.factorize(pd.concat([column.astype(object) for column in pair]))[0]
            codes[name] = both[: len(real)], both[len(real) :]
            shapes.append(1 - total_variation(codes[name]))
    trends = []
    for a, b in combinations(real.columns, 2):
        both_numbers = a in numbers and b in numbers
        trends.append(_correlation(numbers[a], numbers[b]) if both_numbers else _contingency(codes[a], codes[b]))
    known = [trend for trend in trends if not math.isnan(trend)]
    scores = {"shapes": float(np.mean(shapes)), "trends": float(np.mean(known)) if known else math.nan}
    overall = float(np.nanmean(list(scores.values())))
    return {name: 100 * value for name, value in {"overall": overall, **scores}.items()}


def _correlation(first: Pair, second: Pair) -> float:
    if any(np.ptp(x) == 0 for x in (*first, *second)):
        return math.nan
    real, synthetic = (float(np.corrcoef(a, b)[0, 1]) for a, b in zip(first, second, strict=True))
    return 1 - abs(real - synthetic) / 2 if abs(real) > LEAST_CORRELATION else math.nan


def _contingency(first: Pair, second: Pair) -> float:
    associated = _cramer(first[0], second[0]) > LEAST_ASSOCIATION
    return 1 - contingency_variation(first, second) if associated else math.nan


def _cramer(first: np.ndarray, second: np.ndarray) -> float:
    """Cramer's V; 0 where one of both has but one value."""
    table = pd.crosstab(first, second).to_numpy(float)
    least = min(table.shape) - 1
    if least < 1:
        return 0.0
    expected = table.sum(1, keepdims=True) * table.sum(0, keepdims=True) / table.sum()
    return math.sqrt(((table - expected) ** 2 / expected).sum() / table.sum() / least)
