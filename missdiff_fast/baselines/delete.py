"""Diff-delete: a diffusion model of the rows without a hole."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from missdiff_fast.baselines._completed import CompletedModel
from missdiff_fast.model import MissDiff
from missdiff_fast.table import TableCells, read_frame


class NoCompleteRowError(ValueError):
    """Too few rows without a hole are left to learn from: none, or for `DiffDelete` none that differ.

    Examples
    --------
    >>> delete_incomplete(pd.DataFrame({"x": [1.0, None], "y": [None, "b"]}))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    missdiff_fast.baselines.delete.NoCompleteRowError: no row is complete: each of the 2 has a hole. Use a method ...
    """


def delete_incomplete(
    X: pd.DataFrame, missing_values: Sequence[object] = (), categorical_columns: Sequence[str] | None = None
) -> pd.DataFrame:
    """The rows of a table that have no hole.

    Parameters
    ----------
    X : DataFrame
        N rows.
    missing_values : sequence
        Values that stand for a missing cell beside NaN, None, NaT and pd.NA: strings among strings, numbers among
        numbers.
    categorical_columns : sequence of str, optional
        Columns whose values are names, even where they look like numbers.

    Returns
    -------
    DataFrame
        At most N rows, with their index. Strings that are numbers except for markers of missing cells become
        numbers, as in `MissDiff`.

    Raises
    ------
    NoCompleteRowError
        A ValueError: every row has a hole.
    ValueError, TypeError
        A column that no model can take; the message names it and the remedy.

    Examples
    --------
    >>> delete_incomplete(pd.DataFrame({"x": [1.0, None, 3.0], "y": ["a", "b", None]}))
         x  y
    0  1.0  a
    """
    cells = read_frame(X, categorical_columns=categorical_columns, missing_values=missing_values)
    cells.check()
    complete = complete_rows(cells)
    kept = X[complete].copy()
    for name, column in cells.found.items():
        if column.parsed:
            kept[name] = column.per_cell()[complete]
    return kept


def complete_rows(cells: TableCells) -> np.ndarray:
    """Mask of the rows without a hole, bool ``[N]``; NoCompleteRowError if there are rows, but all have one."""
    complete = np.ones(len(cells), dtype=bool)
    for column in cells.found.values():
        complete &= ~column.missing
    if len(cells) and not complete.any():
        raise NoCompleteRowError(
            f"no row is complete: each of the {len(cells):,} has a hole. Use a method that keeps incomplete rows, "
            "or drop the columns with the most holes"
        )
    return complete


class DiffDelete(CompletedModel):
    """The paper's Diff-delete: the same model as `MissDiff`, fitted on the complete rows alone.

    `fit` raises `NoCompleteRowError`, a ValueError, where no row is complete, or those that are do not differ.

    Parameters
    ----------
    preset : str
        As of `MissDiff`.
    **settings
        Further settings of `MissDiff`, such as ``random_state`` and ``verbose``.

    Attributes
    ----------
    model_ : MissDiff
        The fitted model.

    Examples
    --------
    >>> table = pd.DataFrame({"x": [1.0, 2.0, 3.0, 4.0] * 8, "y": ["a", None, "b", "b"] * 8})
    >>> model = DiffDelete(preset="default", steps=2, random_state=0, verbose=False).fit(table)
    >>> model.sample(3).shape
    (3, 2)
    """

    def _complete(self, X: pd.DataFrame, model: MissDiff, categorical_columns: Sequence[str] | None) -> pd.DataFrame:
        complete = delete_incomplete(X, model.missing_values, categorical_columns)
        if len(complete.drop_duplicates()) == 1:
            raise NoCompleteRowError(
                f"the complete rows ({len(complete):,} of {len(X):,}) are all the same: nothing can be learnt from them"
            )
        return complete
