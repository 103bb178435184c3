"""A column's missing cells filled."""

from __future__ import annotations

import pandas as pd

from missdiff_fast.table.cells import Cells
from missdiff_fast.table.dtypes import Dtype, as_series
from missdiff_fast.table.schema import Column


def fill_column(series: pd.Series, filled: pd.Series, cells: Cells, column: Column) -> pd.Series:
    """A column with its missing cells taken from another, which has the learnt dtype.

    Parameters
    ----------
    series, filled : Series
        The column and where its missing cells come from, row by row.
    cells : Cells
        What was read of ``series``.
    column : Column
        The schema's entry.

    Returns
    -------
    Series
        With the index of ``series``, and its dtype if that holds what is filled in, else the learnt one.
    """
    missing = cells.missing
    if cells.parsed:
        read = pd.Series(cells.observed())
        dtype: Dtype = column.dtype if column.family == "float" or cells.family == "integer" else "float64"
        array = filled.astype(dtype).array.copy()
        array[~missing] = read.astype(dtype).array
        return as_series(array, series.index)
    if missing.all() and len(missing):
        return as_series(filled.array.copy(), series.index)
    if not missing.any():
        return series
    fills = filled.array[missing]
    if isinstance(series.dtype, pd.CategoricalDtype):
        values = pd.unique(pd.Series(fills).astype(object))
        new = [value for value in values if value not in series.cat.categories]
        series = _with_categories(series, new) if new else series
    try:
        array = series.array.copy()
        array[missing] = as_series(fills).astype(series.dtype).array
        kept = series.dtype == filled.dtype or bool(
            (pd.Series(array[missing]).astype(object) == pd.Series(fills).astype(object)).all()
        )
    except (TypeError, ValueError):
        kept = False
    if not kept:
        array = filled.array.copy()
        array[~missing] = series.array[~missing]
    return as_series(array, series.index)


def _with_categories(series: pd.Series, new: list[object]) -> pd.Series:
    """The series with further categories, whose dtype stays if it can hold them."""
    dtype = series.cat.categories.dtype
    try:
        return series.cat.add_categories(pd.Index(new, dtype=dtype))
    except (TypeError, ValueError):
        return series.cat.add_categories(new)
