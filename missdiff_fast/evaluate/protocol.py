"""The protocol of papers on tabular generators: errors of marginals and pairs, a classifier's AUROC, whole rows."""

from __future__ import annotations

import time
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from missdiff_fast._checks import check_boolean, check_share
from missdiff_fast._frames import Frame, all_to_pandas
from missdiff_fast.evaluate._distances import Pair, contingency_variation, kolmogorov_smirnov, total_variation
from missdiff_fast.evaluate._limits import limits_as_numbers
from missdiff_fast.evaluate._tables import (
    as_numbers,
    check_complete,
    check_same_categories,
    check_same_columns,
    check_same_kinds,
    continuous_columns,
    times_as_dtypes,
)
from missdiff_fast.evaluate.detection import detection
from missdiff_fast.evaluate.precision_recall import precision_recall
from missdiff_fast.evaluate.utility import utility

if TYPE_CHECKING:
    from collections.abc import Sequence

    from missdiff_fast.model import MissDiff

_BINS = 10  # of a number's real range, in a contingency table


def protocol_errors(real: Frame, synthetic: Frame, continuous: Sequence[str] | None = None) -> dict[str, float]:
    """Errors of marginals and of all pairs of columns, as the papers on TabSyn and TabDiff report them.

    Unlike `fidelity`, whose trends leave out pairs that hardly depend on one another, all pairs count.

    Parameters
    ----------
    real, synthetic : DataFrame
        Complete tables with the same columns; any number of rows each.
    continuous : sequence of str, optional
        The columns taken as numbers; dates and durations always are. Default: all with a numeric dtype.

    Returns
    -------
    dict
        ``shape_error``: the mean over columns of the Kolmogorov-Smirnov distance (numbers) or the total variation
        (categories). ``trend_error``: the mean over pairs of columns of half the difference of the correlations (two
        numbers), or of the total variation of the contingency tables (else; numbers in ten equal bins of the real
        range, beyond which the outer bins reach). NaN without a pair. Both in per cent; 0 is best. A constant number
        has a correlation of 0.

    Raises
    ------
    TypeError, ValueError
        No tables or rows; different columns or kinds of them; missing or infinite cells.

    References
    ----------
    Zhang et al. (2024), Mixed-type tabular data synthesis with score-based diffusion in latent space (TabSyn). Shi et
    al. (2025), TabDiff.

    Examples
    --------
    >>> real = pd.DataFrame({"x": [0.0, 1.0, 2.0, 3.0], "y": ["a", "a", "b", "b"]})
    >>> protocol_errors(real, real)
    {'shape_error': 0.0, 'trend_error': 0.0}
    >>> protocol_errors(real, real.assign(y=["b", "a", "b", "b"]))
    {'shape_error': 12.5, 'trend_error': 25.0}
    """
    names = ("real", "synthetic")
    real, synthetic = all_to_pandas(real, synthetic)
    check_same_columns(real, synthetic, names)
    real, synthetic = limits_as_numbers(times_as_dtypes(real), times_as_dtypes(synthetic))
    for name, table in zip(names, (real, synthetic), strict=True):
        check_complete(table, name)
    numbers = set(continuous_columns(real, continuous))
    check_same_kinds(real, synthetic, names)
    check_same_categories(real, synthetic, [column for column in real.columns if column not in numbers], names)
    values: dict[str, Pair] = {}
    codes: dict[str, Pair] = {}
    shapes = []
    for column in real.columns:
        if column in numbers:
            pair = as_numbers(real[column]), as_numbers(synthetic[column])
            edges = np.linspace(pair[0].min(), pair[0].max(), _BINS + 1)[1:-1]
            values[column], codes[column] = pair, tuple(np.digitize(x, edges) for x in pair)
            shapes.append(kolmogorov_smirnov(pair))
        else:
            both = pd.factorize(pd.concat([real[column].astype(object), synthetic[column].astype(object)]))[0]
            codes[column] = both[: len(real)], both[len(real) :]
            shapes.append(total_variation(codes[column]))
    trends = []
    for a, b in combinations(real.columns, 2):
        if a in numbers and b in numbers:
            trends.append(_correlation_error(values[a], values[b]))
        else:
            trends.append(contingency_variation(codes[a], codes[b]))
    return {
        "shape_error": 100 * float(np.mean(shapes)),
        "trend_error": 100 * float(np.mean(trends)) if trends else float("nan"),
    }


def protocol(
    train: Frame,
    test: Frame,
    target: str,
    *,
    model: MissDiff | None = None,
    missing: float = 0.0,
    seeds: Sequence[int] = (0, 1, 2),
    continuous: Sequence[str] | None = None,
    whole_rows: bool = False,
) -> pd.DataFrame:
    """Fit, draw as many rows as the table has, and compare them with it: the protocol of TabSyn and TabDiff.

    Those papers have complete tables, "?" a category. With ``missing`` a share of the training table's cells is hidden
    before the fit; synthetic rows are compared with the complete table all the same.

    Parameters
    ----------
    train, test : DataFrame
        Complete real tables with the same columns. ``test`` takes no part in training or choice.
    target : str
        The column that a classifier is to predict.
    model : MissDiff, optional
        Whose parameters the fits have, apart from ``random_state``. Default: `MissDiff` with its defaults.
    missing : float
        Share of cells hidden before the fit, independently of one another.
    seeds : sequence of int
        A fit for each.
    continuous : sequence of str, optional
        As in `protocol_errors`.
    whole_rows : bool
        Whether to add the figures of `detection` and `precision_recall`, of all rows.

    Returns
    -------
    DataFrame
        A row for the real test table in place of synthetic rows (``rows`` "real test": the floor of both errors; its
        AUROC is that of real training rows), then one for each seed: ``rows``, ``shape_error``, ``trend_error``,
        ``auroc`` (XGBoost with its library's defaults, trained on the rows and tested on ``test``; the papers search a
        grid; NaN where the rows have one class), ``fit_s`` and ``sample_s``. With ``whole_rows`` also
        ``detection_auroc``, ``logistic_score``, ``alpha_precision``, ``beta_recall`` and ``authenticity``, in which the
        smaller table sets the number of rows that are compared: those of the test table are of fewer rows, if it is
        smaller.

    Raises
    ------
    ImportError
        Without scikit-learn or xgboost, or, with ``whole_rows``, sdmetrics.
    TypeError, ValueError
        As in `protocol_errors`, `utility` and `detection`; a target of numbers.

    Examples
    --------
    >>> from missdiff_fast import MissDiff
    >>> table = pd.DataFrame({"age": range(20, 80), "smoker": ["no", "yes", "yes"] * 20})
    >>> found = protocol(table[::2], table[1::2], "smoker", model=MissDiff(steps=20), seeds=[0])
    >>> found["rows"].tolist()
    ['real test', 'seed 0']
    """
    # Here, because the other measures do without: the command's `evaluate` would start later.
    from missdiff_fast.missingness import hide
    from missdiff_fast.model import MissDiff

    train, test = all_to_pandas(train, test)
    check_share("missing", missing)
    check_boolean("whole_rows", whole_rows)
    parameters = {} if model is None else model.get_params()
    floor = {**protocol_errors(train, test, continuous), "auroc": _auroc(train, test, target)}
    if whole_rows:
        floor |= _whole_rows(train, test, continuous)
    rows = [{"rows": "real test", **floor}]
    for seed in seeds:
        table = hide(train, "independent", missing, seed)[0] if missing else train
        began = time.perf_counter()
        fitted = MissDiff(**{**parameters, "random_state": seed}).fit(table)
        fit_s = time.perf_counter() - began
        began = time.perf_counter()
        synthetic = fitted.sample(len(train))
        sample_s = time.perf_counter() - began
        errors, auroc = protocol_errors(train, synthetic, continuous), _auroc(synthetic, test, target)
        rows.append({"rows": f"seed {seed}", **errors, "auroc": auroc, "fit_s": fit_s, "sample_s": sample_s})
        if whole_rows:
            rows[-1] |= _whole_rows(train, synthetic, continuous)
    return pd.DataFrame(rows)


def _whole_rows(real: pd.DataFrame, synthetic: pd.DataFrame, continuous: Sequence[str] | None) -> dict[str, float]:
    scores = detection(real, synthetic, continuous=continuous, max_rows=None)
    return {
        "detection_auroc": scores["auroc"],
        "logistic_score": scores["logistic_score"],
        **precision_recall(real, synthetic, continuous=continuous, max_rows=None),
    }


def _auroc(train: pd.DataFrame, test: pd.DataFrame, target: str) -> float:
    if train[target].nunique() < 2:
        return float("nan")
    scores = utility(train, test, target, task="classification", models="xgboost")
    return float(scores.set_index("metric").loc["auroc", "value"])


def _correlation_error(first: Pair, second: Pair) -> float:
    real, synthetic = (_correlation(a, b) for a, b in zip(first, second, strict=True))
    return abs(real - synthetic) / 2


def _correlation(a: np.ndarray, b: np.ndarray) -> float:
    return 0.0 if np.ptp(a) == 0 or np.ptp(b) == 0 else float(np.corrcoef(a, b)[0, 1])
