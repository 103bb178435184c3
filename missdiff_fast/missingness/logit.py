"""Columns of any kind as inputs of random logistic models."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from missdiff_fast.errors import DataError
from missdiff_fast.remedies import Convert, Do, Drop, Remedy
from missdiff_fast.table.cells import Markers, RefusedError
from missdiff_fast.table.reading import read_cells

_TOLERANCE = 1e-6  # of an intercept; the mean probability is then within a quarter of it


@dataclass(frozen=True)
class Input:
    """A column as an input.

    Parameters
    ----------
    values : ndarray
        Standardised numbers ``[N]``, 0 where missing; or, with ``shares``, codes ``[N]``, -1 where missing.
    varies : bool
        Whether the column has two different cells.
    shares : ndarray, optional
        Of each category among the observed cells, ``[V]``.
    """

    values: np.ndarray
    varies: bool
    shares: np.ndarray | None = None

    def weigh(self, random: np.random.Generator) -> np.ndarray:
        """Draw weights and compute the column's term of a logit ``[N]``, of mean 0 and, on average, variance 1."""
        if self.shares is None:
            return random.standard_normal() * self.values
        weights = random.standard_normal(len(self.shares))
        if not self.varies:
            return np.zeros(len(self.values))
        # One-hot columns have a total variance of 1 - sum of squared shares.
        scores = (weights - self.shares @ weights) / np.sqrt(1 - self.shares @ self.shares)
        return np.append(scores, 0.0)[self.values]


def read_input(column: pd.Series) -> Input:
    """Read a column; ValueError, naming it, if its cells are infinite, or of mixed or unknown types."""
    try:
        cells = read_cells(column, Markers(), parse="never", limits="auto")
    except RefusedError as refused:
        wrong, remedies = _FAULTS[refused.kind]
        problem = f"column {column.name!r} has {wrong} ({refused.detail})"
        raise DataError(
            refused.kind,
            problem,
            columns=[column.name],
            remedy=(*remedies, Drop((column.name,), what="it")),
            joint="; ",
        ) from None
    if cells.codes is not None:
        codes = cells.codes
        counts = np.bincount(codes[codes >= 0], minlength=1)
        return Input(codes, int((counts > 0).sum()) > 1, counts / max(int(counts.sum()), 1))
    values = np.where(cells.missing, 0, cells.keys).astype(np.float64)
    seen = values[~cells.missing]
    # Halves, whose differences are finite.
    values = values / 2 - (seen.min() / 2 if len(seen) else 0)
    peak = values[~cells.missing].max(initial=0)
    if peak == 0:
        return Input(np.zeros(len(values)), varies=False)
    values = values / peak
    seen = values[~cells.missing]
    return Input(np.where(cells.missing, 0.0, (values - seen.mean()) / seen.std(ddof=1)), varies=True)


_FAULTS: dict[str, tuple[str, tuple[Remedy, ...]]] = {
    "infinite": ("infinite cells", (Do("replace them"), Do("make them missing"))),
    "mixed": ("cells of several types", (Convert("one type"),)),
    "zones": ("times with zones in a column of objects", (Convert("utc"),)),
    "unsupported": ("cells that are no numbers, strings, booleans, dates or durations", (Convert("plain"),)),
    "reach": ("values out of reach", (Convert("coarser unit"),)),
    "fine": ("nanoseconds as Python objects", (Convert("microseconds"),)),
}


def draw_inputs(X: pd.DataFrame, count: int, random: np.random.Generator) -> dict[int, Input]:
    """Draw columns as inputs, by their positions in ascending order: those that vary first.

    Raises
    ------
    ValueError
        No column varies, or one cannot be read.
    """
    columns = [read_input(X.iloc[:, j]) for j in range(X.shape[1])]
    varying = [j for j, column in enumerate(columns) if column.varies]
    if not varying:
        raise ValueError("no column varies, so that no mask can depend on one; choose row, column or independent")
    constant = [j for j, column in enumerate(columns) if not column.varies]
    drawn = [*random.permutation(varying), *random.permutation(constant)][:count]
    return {int(j): columns[j] for j in sorted(drawn)}


def sigmoid(logit: np.ndarray) -> np.ndarray:
    """The logistic function, without overflow."""
    return 0.5 * (1 + np.tanh(0.5 * logit))


def fit_intercept(logit: np.ndarray, rate: float) -> float:
    """Find by bisection the b with which the mean of ``sigmoid(logit + b)`` is `rate`, in (0, 1)."""
    wanted = np.log(rate) - np.log1p(-rate)
    low, high = float(wanted - logit.max()), float(wanted - logit.min())
    while high - low > _TOLERANCE:
        middle = (low + high) / 2
        if not low < middle < high:
            break
        if sigmoid(logit + middle).mean() < rate:
            low = middle
        else:
            high = middle
    return (low + high) / 2
