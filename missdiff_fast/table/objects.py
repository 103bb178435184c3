"""Columns of Python's objects, as spreadsheets and databases give them, in the dtype that holds them."""

from __future__ import annotations

import datetime
import re
from collections.abc import Hashable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd

from missdiff_fast.table.date_forms import split, to_nanoseconds
from missdiff_fast.table.dtypes import text_dtype
from missdiff_fast.table.limits import is_limit
from missdiff_fast.table.literals import EXACT

TIME_OF_DAY = "hh:mm:ss"  # the form of `datetime.time` objects, see missdiff_fast.table.date_forms
_OWN = pd.to_datetime(["2024-02-29"]).dtype  # in nanoseconds before pandas 3
_MOST_DIGITS = 15  # of a decimal number that float64 holds for sure


def as_column(cells: Sequence[Any]) -> tuple[pd.Series, bool]:
    """A column of cells, None where missing, and whether cells that are no texts had to become texts.

    Whole numbers with missing cells are Int64, truth values with such boolean, decimal numbers float64. Times of day
    stay objects. Cells of several types are texts: numbers beside texts, for example.

    Examples
    --------
    >>> as_column([1, None, 3])[0].dtype, as_column([True, False])[0].dtype, as_column([1, 2.5])[0].tolist()
    (Int64Dtype(), dtype('bool'), [1.0, 2.5])
    >>> column, mixed = as_column([1, 2.0, "<0.1", None])
    >>> column.tolist(), mixed
    (['1', '2', '<0.1', None], True)
    """
    seen = [cell for cell in cells if cell is not None]
    kinds = {type(cell) for cell in seen}
    if not kinds:
        return pd.Series([np.nan] * len(cells), dtype="float64"), False
    if kinds == {bool}:
        return pd.Series(cells, dtype="boolean" if len(seen) < len(cells) else "bool"), False
    if kinds == {str}:
        return pd.Series(cells, dtype=text_dtype()), False
    if kinds <= {int, float, Decimal} and (numbers := _as_numbers(cells, seen, kinds)) is not None:
        return numbers, False
    if kinds in ({datetime.date}, {datetime.time}):
        return pd.Series(cells, dtype=object), False
    if kinds <= {datetime.date, datetime.datetime, pd.Timestamp}:
        return _as_dates(cells), False
    if kinds == {datetime.timedelta}:
        return pd.Series(pd.to_timedelta(pd.Series(cells, dtype=object))), False
    if not all(isinstance(cell, _PLAIN) for cell in seen):
        return pd.Series(cells, dtype=object), False  # fit tells what they are
    return pd.Series([None if cell is None else as_text(cell) for cell in cells], dtype=text_dtype()), True


def times_of_day(frame: pd.DataFrame) -> list[Hashable]:
    """The columns of a frame whose observed cells are `datetime.time` objects.

    >>> times_of_day(pd.DataFrame({"at": [None, datetime.time(7, 30)], "x": [1, 2], "s": ["a", "b"]}))
    ['at']
    """
    objects = ((name, column) for name, column in frame.items() if column.dtype == object)
    return [name for name, column in objects if pd.api.types.infer_dtype(column, skipna=True) == "time"]


def read_time(text: str) -> datetime.time | None:
    """The time of day that a text writes, or None.

    >>> read_time("7:30"), read_time("2:05 PM"), read_time("24:00"), read_time("7")
    (datetime.time(7, 30), datetime.time(14, 5), None, None)
    """
    written = split(text.strip())
    if written is None or written.style != "time":
        return None
    microseconds, rest = divmod(to_nanoseconds(written), 1000)
    if rest or microseconds >= 86_400_000_000:
        return None
    return (datetime.datetime.min + datetime.timedelta(microseconds=microseconds)).time()


def is_mixed(column: pd.Series) -> bool:
    """Whether a column has objects of several types, such as numbers beside texts."""
    return column.dtype == object and pd.api.types.infer_dtype(column, skipna=True).startswith("mixed")


def without_mixed(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with columns of numbers beside limits of measurement as texts.

    >>> without_mixed(pd.DataFrame({"crp": ["<0.6", 4.5, None], "n": [1, 2, 3]}))["crp"].tolist()
    ['<0.6', '4.5', None]
    """
    frame = frame.copy(deep=False)
    for name, column in frame.items():
        if is_mixed(column):
            cells = [None if hole else cell for cell, hole in zip(column.tolist(), column.isna().tolist(), strict=True)]
            others = {
                type(cell) for cell in cells if cell is not None and not (isinstance(cell, str) and is_limit(cell))
            }
            if others <= {int, float}:
                frame[name] = as_column(cells)[0].set_axis(frame.index)
    return frame


def as_text(cell: Any) -> str:
    """A cell as text, as it would stand in a CSV file.

    >>> as_text(2.0), as_text(True), as_text(datetime.datetime(2024, 2, 29)), as_text(datetime.time(7, 30))
    ('2', 'True', '2024-02-29', '07:30:00')
    """
    if isinstance(cell, float):
        return str(int(cell)) if cell.is_integer() and abs(cell) < EXACT else repr(cell)
    if isinstance(cell, datetime.datetime):
        return re.sub(r" 00:00:00$", "", cell.isoformat(sep=" "))
    return cell.isoformat() if isinstance(cell, (datetime.date, datetime.time)) else str(cell)


_PLAIN = (str, bool, int, float, Decimal, datetime.date, datetime.time, datetime.timedelta)


def _as_numbers(cells: Sequence[Any], seen: Sequence[Any], kinds: set[type]) -> pd.Series | None:
    """A column of numbers; None if no dtype holds them all exactly."""
    if kinds == {int}:
        if min(seen) >= -(2**63) and max(seen) < 2**64:
            name = "UInt64" if max(seen) >= 2**63 else "Int64"
            if name == "UInt64" and min(seen) < 0:
                return None
            return pd.Series(cells, dtype=name if len(seen) < len(cells) else name.lower())
        return None
    if any(isinstance(cell, int) and abs(cell) > EXACT for cell in seen):
        return None
    if any(isinstance(cell, Decimal) and not _is_held(cell) for cell in seen):
        return None
    return pd.Series([np.nan if cell is None else float(cell) for cell in cells], dtype="float64")


def _is_held(number: Decimal) -> bool:
    """Whether float64 tells a decimal number from all others of its digits."""
    return len(number.as_tuple().digits) <= _MOST_DIGITS or Decimal(repr(float(number))) == number


def _as_dates(cells: Sequence[Any]) -> pd.Series:
    """A column of dates and times: in pandas' unit where it reaches, else in microseconds; of several zones in UTC."""
    seen = [cell for cell in cells if isinstance(cell, datetime.datetime) and cell.tzinfo is not None]
    if seen:
        offsets = {cell.utcoffset() for cell in seen}
        column = pd.Series(cells, dtype=object)
        return pd.Series(pd.to_datetime(column, utc=len(offsets) > 1))
    times = np.array([np.datetime64("NaT" if cell is None else cell, "us") for cell in cells], "M8[us]")
    column = pd.Series(times)
    known = column.dropna()
    fits = known.between(pd.Timestamp.min.ceil("us"), pd.Timestamp.max.floor("us")).all() if len(known) else True
    return column.astype(_OWN) if fits else column
