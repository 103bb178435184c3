"""A column's missing cells filled."""

from __future__ import annotations

import numpy as np
import pandas as pd
from pandas.api.extensions import ExtensionArray

from missdiff_fast.table.cells import Cells
from missdiff_fast.table.dtypes import NUMBERS, Dtype, as_series
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
        return as_series(_placed(filled.astype(dtype), read, ~missing), series.index)
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
    if not kept and cells.family in NUMBERS and column.family in NUMBERS:
        array = _placed(filled, series[~missing], ~missing)
    elif not kept:
        array = filled.array.copy()
        array[~missing] = series.array[~missing]
    return as_series(array, series.index)


def _placed(filled: pd.Series, observed: pd.Series, where: np.ndarray) -> ExtensionArray:
    """Filled numbers with the observed ones in their places: as objects if the filled ones' dtype would change any."""
    array, values = filled.array.copy(), observed.astype(object).to_numpy()
    try:
        array[where] = observed.astype(filled.dtype).array
    except (TypeError, ValueError):
        kept = False
    else:
        kept = bool((pd.Series(array[where]).astype(object).to_numpy() == values).all())
    if not kept:
        array = filled.astype(object).array.copy()
        array[where] = values
    return array


def _with_categories(series: pd.Series, new: list[object]) -> pd.Series:
    """The series with further categories, whose dtype stays if it can hold them."""
    dtype = series.cat.categories.dtype
    try:
        return series.cat.add_categories(pd.Index(new, dtype=dtype))
    except (TypeError, ValueError):
        return series.cat.add_categories(new)
