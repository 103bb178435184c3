"""Filling missing cells from another table."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
from pandas.api.extensions import ExtensionArray

from missdiff_fast._progress import progress_bar
from missdiff_fast.errors import DataError
from missdiff_fast.remedies import Convert, Do
from missdiff_fast.table.cells import ColumnCells
from missdiff_fast.table.censored import Censored
from missdiff_fast.table.dtypes import NUMBERS, Dtype, as_frame, as_series, restore
from missdiff_fast.table.schema import Column, Name, Schema
from missdiff_fast.table.strings import factorize
from missdiff_fast.table.table_cells import TableCells
from missdiff_fast.table.threads import in_threads


def fill_table(cells: TableCells, filled: pd.DataFrame, schema: Schema, *, verbose: bool) -> pd.DataFrame:
    """Fill the missing cells of the frame that was read; see `missdiff_fast.table.Codec.fill`."""
    frame, names = cells.frame, [*cells.columns, *(name for name in schema.names if name not in cells.columns)]
    absent = [name for name in names if name not in filled.columns]
    if absent:
        problem = f"filled has no column {absent[0]!r}"
        raise DataError("columns", problem, columns=absent, remedy=Do(f"give all of {names}"))
    if len(filled) != len(frame):
        problem = f"filled has {len(filled):,} rows, the frame {len(frame):,}"
        raise DataError("rows", problem, value=len(filled), remedy=Do("give as many"))
    # Taken from the frame here, in one thread: pandas fills a cache as it looks columns up.
    sources = {name: filled[name] for name in names}

    def fill(name: Name) -> pd.Series | ValueError:
        if name not in cells.columns:
            own, censored = sources[name].array.copy(), schema[name].censored
            return as_series(own, frame.index) if censored is None else censored.column(own.to_numpy(), frame.index)
        try:
            return fill_column(cells.columns[name], sources[name], cells.found[name], schema[name])
        except ValueError as error:
            return error

    columns, errors = dict[Name, pd.Series](), list[ValueError]()
    with progress_bar(total=len(names), desc="filling columns", unit="column", verbose=verbose) as bar:
        for name, column in zip(names, in_threads(fill, names, len(frame)), strict=True):
            if isinstance(column, ValueError):
                errors.append(column)
            else:
                columns[name] = column
            bar.update()
    if errors:
        raise errors[0]
    result = as_frame(columns, frame.index)
    if len(names) == len(cells.columns):
        result.columns = frame.columns
    return result


def fill_column(series: pd.Series, filled: pd.Series, cells: ColumnCells, column: Column) -> pd.Series:
    """A column with its missing cells taken from another, which has the learnt dtype.

    Parameters
    ----------
    series, filled : Series
        The column, and the one that fills its missing cells, row by row.
    cells : ColumnCells
        The cells of ``series``.
    column : Column
        The schema's entry.

    Returns
    -------
    Series
        With the index of ``series``, and its dtype if that holds what is filled in, else the learnt one. New categories
        are appended to unordered ones.

    Raises
    ------
    ValueError
        The learnt order does not give the place of a category that an ordered column is filled with.
    """
    missing = cells.missing
    if column.censored is not None and missing.any():
        series, filled = _censored(series, filled, cells, column.censored)
    if cells.parsed:
        read = pd.Series(cells.observed)
        dtype: Dtype = column.dtype if column.family == "float" or cells.family == "integer" else "float64"
        return as_series(_placed(filled.astype(dtype), read, ~missing), series.index)
    if missing.all() and len(missing):
        return as_series(filled.array.copy(), series.index)
    if not missing.any():
        return series.copy()
    fills = filled.array[missing]
    if isinstance(series.dtype, pd.CategoricalDtype):
        _, values = factorize(pd.Series(fills).astype(object))
        new = [value for value in values if value not in series.cat.categories]
        if new and series.cat.ordered:
            series = _in_learnt_order(series, new, cells, column)
        elif new:
            series = _with_categories(series, new)
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


def _censored(
    series: pd.Series, filled: pd.Series, cells: ColumnCells, learnt: Censored
) -> tuple[pd.Series, pd.Series]:
    """A column, and what fills its missing cells, with limits as texts: where all is numbers, none becomes a text."""
    missing, values = cells.missing, filled.to_numpy()
    if missing.all():
        return series, learnt.column(values, series.index)
    if cells.censored is not None:
        own = learnt.as_in(cells.censored)
    elif learnt.are_limits(values[missing]).any():
        series, own = series.astype(object), replace(learnt, dtype=np.dtype(object), style=None, whole=False)
    else:
        return series, filled
    written = np.empty(len(values), dtype=object)
    written[missing] = own.write(values[missing])
    written[~missing] = series.array[~missing]
    return series, as_series(restore(written, own.dtype, "string"), series.index)


def _placed(filled: pd.Series, observed: pd.Series, where: np.ndarray) -> ExtensionArray:
    """Filled numbers with the observed ones in their places: as objects if the filled ones' dtype would change one."""
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


def _in_learnt_order(series: pd.Series, new: list[object], cells: ColumnCells, column: Column) -> pd.Series:
    """The ordered series with all learnt categories, whose order its own must not contradict."""
    learnt, own = column.dtype, series.cat.categories
    order = list(learnt.categories) if isinstance(learnt, pd.CategoricalDtype) and learnt.ordered else []
    given = list(restore(cells.keys, own.dtype, cells.family))  # without marks of missing cells
    if [value for value in order if value in given] != given:
        problem = (
            f"column {column.name!r} is filled with {new[0]!r}, whose place in its order {_chain(given)} is not known, "
            f"as fit saw {_chain(order) if order else 'no order'}"
        )
        remedies = Do(f"give its dtype the category {new[0]!r} where it belongs"), Convert("unordered")
        raise DataError("order", problem, columns=[column.name], value=new[0], remedy=remedies)
    try:
        return series.cat.set_categories(pd.Index(order, dtype=own.dtype))
    except (TypeError, ValueError):
        return series.cat.set_categories(order)


def _chain(order: list[object]) -> str:
    return " < ".join(map(str, order))
