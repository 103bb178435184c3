"""Numbers with limits of measurement, such as ``<0.1``, for measures: a limit is a number just beyond its own."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np
import pandas as pd

from missdiff_fast.table.cells import ColumnCells, Markers, RefusedError
from missdiff_fast.table.dtypes import NUMBERS, holds_text, with_columns
from missdiff_fast.table.limit_reading import Limits, decimal_of
from missdiff_fast.table.reading import read_cells


def limits_as_numbers(*tables: pd.DataFrame) -> list[pd.DataFrame]:
    """Tables to be compared, in which columns of numbers with limits of measurement are numbers.

    A column is so if `missdiff_fast.MissDiff.fit` reads it so in one of the tables, and in all of them its cells are
    numbers and limits.

    Parameters
    ----------
    *tables : DataFrame
        All with the columns of the first.

    Examples
    --------
    >>> real = pd.DataFrame({"crp": ["<0.1", "0.1", "2.5", "7.0"]})
    >>> [table["crp"].round(3).tolist() for table in limits_as_numbers(real, pd.DataFrame({"crp": [0.1, 3.0]}))]
    [[0.1, 0.1, 2.5, 7.0], [0.1, 3.0]]
    """
    found: list[dict[Hashable, pd.Series]] = [{} for _ in tables]
    for name in tables[0].columns:
        if not any(_with_limits(table, name, "auto") for table in tables if holds_text(table[name].dtype)):
            continue
        cells = [_read(table, name, "learnt") for table in tables]
        numbers = [None if one is None else _numbers(one) for one in cells]
        if any(column is None for column in numbers):
            continue
        for own, table, column in zip(found, tables, numbers, strict=True):
            own[name] = pd.Series(column, index=table.index)
    return [with_columns(table, own) for table, own in zip(tables, found, strict=True)]


def _with_limits(table: pd.DataFrame, name: Hashable, limits: Limits) -> bool:
    cells = _read(table, name, limits)
    return cells is not None and cells.censored is not None


def _read(table: pd.DataFrame, name: Hashable, limits: Limits) -> ColumnCells | None:
    """A column's cells; None if it cannot be read."""
    try:
        return read_cells(table[name], Markers(), parse="never", limits=limits, decimal=decimal_of(table))
    except (RefusedError, TypeError):  # TypeError of cells that have no hash, such as lists
        return None


def _numbers(cells: ColumnCells) -> np.ndarray | None:
    """Cells as float64, NaN where missing; None if they are no numbers."""
    if cells.missing.all():
        return np.full(len(cells.missing), np.nan)
    return np.where(cells.missing, np.nan, cells.per_cell()) if cells.family in NUMBERS else None
