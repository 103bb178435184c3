"""The hidden cells of a table, and how far fillings of them are from the truth."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd

from missdiff_fast.evaluate._common import as_numbers, check_same_columns, check_same_kinds, continuous_columns

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class HiddenCells(NamedTuple):
    """The H hidden cells of one column, in the truth and in each of M fillings.

    Parameters
    ----------
    column : str
        Its name.
    continuous : bool
        Whether cells are numbers, mapped so that the true column's range becomes [0, 1], or codes of categories.
    rows : ndarray
        int64 ``[H]``: in which rows they are.
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
        """Give the distance of each filling from the truth, float64 ``[M, H]``."""
        return self.between(self.draws, self.truth[None])

    def between(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """Give distances of cells: the absolute difference of numbers; 0 for equal categories and 1 for others."""
        return np.abs(first - second) if self.continuous else (first != second).astype(float)


def hidden_cells(
    truth: pd.DataFrame, fillings: Sequence[pd.DataFrame], observed: np.ndarray, continuous: Sequence[str] | None
) -> Iterator[HiddenCells]:
    """List the hidden cells column by column, or raise ValueError for what cannot be compared."""
    observed = np.asarray(observed, dtype=bool)
    numbers = set(continuous_columns(truth, continuous))
    for filled in fillings:
        check_same_columns(truth, filled, ("true", "filled"))
        check_same_kinds(truth[[column for column in truth if column in numbers]], filled, ("true", "filled"))
        if observed.shape != truth.shape or len(filled) != len(truth):
            raise ValueError(
                f"the true table is {truth.shape}, the filled one {filled.shape} and the mask {observed.shape}; "
                "they must have the same rows and columns"
            )
    for j, column in enumerate(truth.columns):
        hidden = ~observed[:, j]
        cells = [table[column][hidden] for table in (truth, *fillings)]
        if any(values.isna().any() for values in cells):
            raise ValueError(f"column {column!r} has hidden cells that are not filled or whose truth is not known")
        if column in numbers:
            whole = as_numbers(truth[column])
            low, span = np.nanmin(whole), np.nanmax(whole) - np.nanmin(whole)
            values = np.stack([(as_numbers(part) - low) / (span or np.nan) for part in cells])
        else:
            codes = pd.factorize(pd.concat([part.astype("object") for part in cells], ignore_index=True))[0]
            values = codes.reshape(len(cells), -1).astype(float)
        yield HiddenCells(str(column), column in numbers, np.flatnonzero(hidden), values[0], values[1:])
