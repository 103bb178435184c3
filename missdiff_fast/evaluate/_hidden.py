"""Hidden cells of a table, and the distances of their fillings from the truth."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from missdiff_fast._frames import all_to_pandas, to_pandas
from missdiff_fast.errors import DataError
from missdiff_fast.evaluate._limits import limits_as_numbers
from missdiff_fast.evaluate._tables import (
    as_numbers,
    check_finite,
    check_same_categories,
    check_same_columns,
    check_same_kinds,
    continuous_columns,
    times_as_dtypes,
)
from missdiff_fast.remedies import Do
from missdiff_fast.table.strings import factorize

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_NAMES = "true", "filled"


class HiddenCells(NamedTuple):
    """The H hidden cells of one column, in the truth and in each of M fillings.

    Parameters
    ----------
    column : str
        Its name.
    continuous : bool
        Whether cells are numbers, mapped so that the true column's range becomes [0, 1], or codes of categories.
    rows : ndarray
        int64 ``[H]``: their row numbers.
    truth : ndarray
        float64 ``[H]``; NaN throughout for a column of numbers that is constant.
    draws : ndarray
        float64 ``[M, H]``.
    """

    column: str
    continuous: bool
    rows: np.ndarray
    truth: np.ndarray
    draws: np.ndarray

    def distances(self) -> np.ndarray:
        """Distance of each filling from the truth, float64 ``[M, H]``."""
        return self.between(self.draws, self.truth[None])

    def between(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """Distances of cells: the absolute difference of numbers; 0 for equal categories and 1 for others."""
        return np.abs(first - second) if self.continuous else (first != second).astype(float)

    def mean_over_pairs(self) -> np.ndarray:
        """Mean distance of two different fillings from one another, float64 ``[H]``."""
        total, count = np.zeros(len(self.truth)), len(self.draws)
        for m, n in combinations(range(count), 2):
            total += self.between(self.draws[m], self.draws[n])
        return 2 * total / (count * (count - 1))


def check_draws(draws: Sequence[pd.DataFrame]) -> None:
    """Raise ValueError unless there are two tables or more."""
    if hasattr(draws, "columns") or not hasattr(draws, "__len__") or len(draws) < 2:
        raise ValueError("draws must be a list of at least 2 tables; for a single one there are rmse and mae")


def hidden_cells(
    truth: pd.DataFrame, fillings: Sequence[pd.DataFrame], observed: np.ndarray, continuous: Sequence[str] | None
) -> Iterator[HiddenCells]:
    """List the hidden cells column by column, or raise TypeError or ValueError for what cannot be compared."""
    truth, *fillings = all_to_pandas(truth, *fillings)
    for filled in fillings:
        check_same_columns(truth, filled, _NAMES)
    hidden = ~_as_mask(observed, truth)
    for filled in fillings:
        if hidden.shape != truth.shape or len(filled) != len(truth):
            raise ValueError(
                f"the true table is {truth.shape}, the filled one {filled.shape} and the mask {hidden.shape}; "
                "they must have the same rows and columns"
            )
        if truth.index.is_unique and not filled.index.equals(truth.index) and filled.index.isin(truth.index).all():
            problem = "the filled table has the true one's rows in another order"
            raise DataError("order", problem, remedy=Do("give it filled.loc[truth.index]"), joint="; ")
    truth, *fillings = limits_as_numbers(*map(times_as_dtypes, (truth, *fillings)))
    check_finite(truth, _NAMES[0])
    numbers = set(continuous_columns(truth, continuous))
    for filled in fillings:
        check_finite(filled, _NAMES[1])
        check_same_kinds(truth[[column for column in truth if column in numbers]], filled, _NAMES)
        check_same_categories(truth, filled, [column for column in truth if column not in numbers], _NAMES)
    for j, column in enumerate(truth.columns):
        here = hidden[:, j]
        cells = [table[column][here] for table in (truth, *fillings)]
        if any(values.isna().any() for values in cells):
            problem = f"column {column!r} has hidden cells that are not filled or whose truth is not known"
            remedies = Do("fill them"), Do("have the mask say that they are observed")
            raise DataError("missing", problem, columns=[column], remedy=remedies, joint="; ")
        if not here.any():
            values = np.empty((len(cells), 0))
        elif column in numbers:
            whole = as_numbers(truth[column])
            low, span = np.nanmin(whole), np.nanmax(whole) - np.nanmin(whole)
            values = np.stack([(as_numbers(part) - low) / (span or np.nan) for part in cells])
        else:
            codes = factorize(pd.concat([part.astype("object") for part in cells], ignore_index=True))[0]
            values = codes.reshape(len(cells), -1).astype(float)
        yield HiddenCells(str(column), column in numbers, np.flatnonzero(here), values[0], values[1:])


def _as_mask(observed: Any, truth: pd.DataFrame) -> np.ndarray:
    """Read a mask of True and False, or 1 and 0, its columns by their names where it is a table that has them."""
    observed, kind = to_pandas(observed)
    if kind.name != "pandas":
        observed = observed.astype(bool)
    if isinstance(observed, pd.DataFrame) and set(observed.columns) == set(truth.columns):
        observed = observed[list(truth.columns)]
    mask = np.asarray(observed)
    if mask.dtype != bool and not (mask.dtype.kind in "iuf" and np.isin(mask, (0, 1)).all()):
        raise TypeError(f"observed must be an array of True and False, got one of dtype {mask.dtype}")
    return mask.astype(bool)
