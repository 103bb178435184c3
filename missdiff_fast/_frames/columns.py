"""Columns of types that the inside of the package has no counterpart for, and back.

Inside, a dictionary of Arrow is a pandas category, a decimal a float or an integer, a time of day a duration since
midnight, and date64 a date. A NaN of Arrow, which Arrow does not count as missing, is missing.
"""

from __future__ import annotations

import datetime
import decimal
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

Cells: TypeAlias = Any  # pyarrow.ChunkedArray; pyarrow has no types
_DAYS = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}
_OBJECTS = (decimal.Decimal, datetime.time)  # Python's, which pandas keeps as objects


def is_plain(kind: pa.DataType) -> bool:
    """Whether the inside takes, or refuses, an Arrow type as it is.

    >>> is_plain(pa.int8()), is_plain(pa.decimal128(10, 2))
    (True, False)
    """
    types = pa.types
    changed = (types.is_dictionary, types.is_decimal, types.is_time, types.is_date64, types.is_null)
    return not any(test(kind) for test in changed) and not _is_view(kind)


def as_plain(cells: Cells) -> pd.Series:
    """Arrow cells ``[N]`` as a Series that the inside takes."""
    kind = cells.type
    if pa.types.is_dictionary(kind):
        if any(chunk.dictionary.null_count for chunk in cells.chunks):
            cells = cells.cast(kind.value_type).dictionary_encode()
        return cells.to_pandas()
    if pa.types.is_null(kind):
        return pd.Series([None] * len(cells), dtype=object)
    if pa.types.is_decimal(kind):
        cells = _numbers(cells)
    elif pa.types.is_time(kind):
        cells = cells.cast(pa.int32() if kind.bit_width == 32 else pa.int64()).cast(pa.int64())
        cells = cells.cast(pa.duration(kind.unit))
    elif pa.types.is_date64(kind):
        cells = cells.cast(pa.date32())
    elif _is_view(kind):
        cells = cells.cast(pa.large_string())
    elif pa.types.is_floating(kind):
        cells = without_nan(cells)
    return pd.Series(pd.arrays.ArrowExtensionArray(cells))


def without_nan(cells: Cells) -> Cells:
    """Floats ``[N]`` whose NaN are missing."""
    nan = pc.is_nan(cells)
    return pc.if_else(nan, pa.scalar(None, cells.type), cells) if pc.any(nan).as_py() else cells


def as_arrow(column: pd.Series, kind: pa.DataType) -> Cells:
    """A column ``[N]`` of the inside in an Arrow type; in its own where that cannot hold a cell."""
    try:
        if pa.types.is_dictionary(kind):
            return _chunked(_dictionary(column, kind))
        own = pa.array(column, from_pandas=True)
        if pa.types.is_time(kind):
            own = own.cast(pa.duration(kind.unit)).cast(pa.int64())
            # Arrow would take what is left of whole days.
            if pc.any(pc.or_(pc.less(own, 0), pc.greater_equal(own, _DAYS[kind.unit]))).as_py():
                raise pa.ArrowInvalid("a time of day lies before or after the day")
            own = own.cast(pa.int32()) if kind.bit_width == 32 else own
        elif pa.types.is_decimal(kind) and pa.types.is_integer(own.type):
            own = own.cast(pa.decimal256(min(kind.precision + 20, 76), 0))
        return _chunked(own.cast(kind))
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
        return _chunked(pa.array(column, from_pandas=True))


def arrow_of_objects(column: pd.Series) -> Cells | None:
    """Decimals or times of day as Python objects ``[N]`` in Arrow; None for cells of other types, or of several."""
    observed = column.notna().to_numpy()
    if not observed.any() or not isinstance(column.iloc[int(observed.argmax())], _OBJECTS):
        return None
    try:
        return _chunked(pa.array(column.where(observed, None), from_pandas=True))
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return None


def objects_of(column: pd.Series, kind: pa.DataType) -> np.ndarray:
    """A column ``[N]`` of the inside as Python's Decimals or times of day, of which `arrow_of_objects` made this type.

    >>> objects_of(pd.Series([1.5, 12.25, None]), pa.decimal128(2, 1)).tolist()
    [Decimal('1.5'), Decimal('12.25'), None]
    """
    found = as_arrow(column, kind).to_pylist()
    if pa.types.is_decimal(kind):  # where a number has more digits than the type, all come as floats
        found = [decimal.Decimal(repr(one)) if isinstance(one, (int, float)) else one for one in found]
    cells = np.empty(len(found), dtype=object)
    cells[:] = found
    return cells


def _numbers(cells: Cells) -> Cells:
    """Decimals as integers of 64 bits or float64 where these give the same decimals back; else the reader refuses."""
    kind = cells.type
    if kind.scale == 0:
        try:
            return cells.cast(pa.int64())
        except pa.ArrowInvalid:  # beyond 64 bits
            pass
    numbers = cells.cast(pa.float64())
    try:
        kept = numbers.cast(kind).equals(cells)
    except pa.ArrowInvalid:
        kept = False
    return numbers if kept else cells


def _dictionary(column: pd.Series, kind: pa.DictionaryType) -> pa.DictionaryArray:
    """A column as indices into its categories, or, without categories, into its distinct values."""
    if not isinstance(column.dtype, pd.CategoricalDtype):
        encoded = pa.array(column, from_pandas=True).cast(kind.value_type).dictionary_encode()
        return pa.DictionaryArray.from_arrays(encoded.indices.cast(kind.index_type), encoded.dictionary)
    codes = column.cat.codes.to_numpy()
    indices = pa.array(np.maximum(codes, 0), mask=codes < 0).cast(kind.index_type)
    values = pa.array(column.cat.categories, from_pandas=True).cast(kind.value_type)
    return pa.DictionaryArray.from_arrays(indices, values, ordered=kind.ordered)


def _is_view(kind: pa.DataType) -> bool:
    return str(kind) == "string_view"  # which pyarrow 15 lacks


def _chunked(cells: pa.Array | Cells) -> Cells:
    return cells if isinstance(cells, pa.ChunkedArray) else pa.chunked_array([cells])
