"""Writing of Excel workbooks: cells that Excel shows as they are in the frame, or an error."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

from missdiff_fast.errors import DataError
from missdiff_fast.remedies import Do
from missdiff_fast.table.fields import MISSING_TEXTS
from missdiff_fast.table.formats.base import OTHER_FILE, check_time, require, unheld
from missdiff_fast.table.literals import EXACT

_MOST_ROWS, _MOST_COLUMNS, _LONGEST = 1_048_576, 16_384, 32_767
_FIRST, _LAST = datetime.datetime(1900, 1, 1), datetime.datetime(9999, 12, 31, 23, 59, 59, 999000)
# Excel writes characters that XML lacks, and texts that look as if they were such, as _x000D_.
_TO_ESCAPE = re.compile(r"[\x00-\x08\x0b-\x1f\ufffe\uffff]|_(?=x[0-9A-Fa-f]{4}_)")


def write(frame: pd.DataFrame, path: Path) -> None:
    """Write a workbook of one sheet; `missdiff_fast.table.write_table` calls it."""
    openpyxl = require("openpyxl", "excel", "an Excel file")
    if len(frame) >= _MOST_ROWS or frame.shape[1] > _MOST_COLUMNS:
        problem = (
            f"a .xlsx file can't hold {len(frame):,} rows of {frame.shape[1]:,} columns: it holds at most "
            f"{_MOST_ROWS - 1:,} of {_MOST_COLUMNS:,}"
        )
        raise DataError("format", problem, remedy=OTHER_FILE, joint="; ")
    columns = [_values(frame.iloc[:, place], name) for place, name in enumerate(frame.columns)]
    book = openpyxl.Workbook(write_only=True)
    sheet = book.create_sheet("Sheet1")

    def cell(value: Any) -> Any:
        return _cell(value, lambda content: openpyxl.cell.WriteOnlyCell(sheet, content))

    sheet.append([cell(str(name)) for name in frame.columns])
    for row in zip(*columns, strict=True):
        sheet.append([cell(value) for value in row])
    book.save(path)


def _values(column: pd.Series, name: object) -> list[Any]:
    """The cells of a column as Excel has them, None where missing."""
    values = [None if hole else value for value, hole in zip(column.tolist(), column.isna().tolist(), strict=True)]
    times = any(isinstance(value, datetime.datetime) and value.time() != datetime.time() for value in values)
    return [None if value is None else _held(value, name, times) for value in values]


def _held(value: Any, name: object, times: bool) -> Any:
    """A value that Excel holds; an error if it would change it."""
    if isinstance(value, str):
        if len(_escaped(value)) > _LONGEST:
            raise unheld(name, f"a text of {len(value):,} characters; Excel has {_LONGEST:,}", ".xlsx")
        return value
    if isinstance(value, bool):
        return value
    if isinstance(value, datetime.time):
        check_time(value, name, ".xlsx")
        return value
    if isinstance(value, int):
        if abs(value) > EXACT:
            raise unheld(name, f"Excel would round {value}", ".xlsx", Do("write it as text"))
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise unheld(name, f"the number {value}", ".xlsx")
        return value
    if isinstance(value, datetime.datetime):
        return _time(value, name) if times else _time(value, name).date()
    if isinstance(value, datetime.date):
        return _time(datetime.datetime.combine(value, datetime.time()), name).date()
    if isinstance(value, datetime.timedelta):
        if value % datetime.timedelta(milliseconds=1) or (isinstance(value, pd.Timedelta) and value.nanoseconds):
            raise unheld(name, f"the duration {value}, which is no whole number of milliseconds", ".xlsx")
        if value < datetime.timedelta():
            raise unheld(name, f"the negative duration {value}", ".xlsx", Do("write it as a number"))
        return datetime.timedelta(value.days, value.seconds, value.microseconds)
    raise unheld(name, f"a cell of type {type(value).__name__}", ".xlsx")


def _time(value: datetime.datetime, name: object) -> datetime.datetime:
    if value.tzinfo is not None:
        raise unheld(name, f"the time zone of {value}", ".xlsx")
    if value.microsecond % 1000 or getattr(value, "nanosecond", 0):
        raise unheld(name, f"the time {value}, which is no whole number of milliseconds", ".xlsx")
    plain = value.to_pydatetime() if isinstance(value, pd.Timestamp) else value
    if not _FIRST <= plain <= _LAST:
        raise unheld(name, f"the date {plain.date()}; Excel's begin with 1900-01-01", ".xlsx")
    return plain


def _cell(value: Any, make: Callable[[Any], Any]) -> Any:
    """What openpyxl writes as this value, and not as a formula, an error or a rounded number."""
    if isinstance(value, str):
        cell = make(_escaped(value))
        cell.data_type = "s"
        if value.strip() in MISSING_TEXTS:
            cell.quotePrefix = True
        return cell
    if isinstance(value, float) and float(f"{value:.16g}") != value:
        cell = make(repr(value))  # openpyxl writes floats with 16 digits, which may be one too few
        cell.data_type = "n"
        return cell
    return value


def _escaped(text: str) -> str:
    return _TO_ESCAPE.sub(lambda found: f"_x{ord(found[0]):04X}_", text)
