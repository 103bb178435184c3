"""Files of SAS, SPSS and Stata, through pyreadstat.

Codes stay codes. A column whose observed values all have value labels is read as a category of its codes. The labels
are written with the same table only. User-defined missing values are missing.
"""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from missdiff_fast.errors import DataError
from missdiff_fast.remedies import Do, Give
from missdiff_fast.table.dates import as_text
from missdiff_fast.table.dtypes import family_of, holds_text
from missdiff_fast.table.formats.base import OTHER_FILE, Format, check_time, require, unheld
from missdiff_fast.table.literals import EXACT
from missdiff_fast.table.objects import as_column, times_of_day
from missdiff_fast.table.sources import AsRead, Reading, ReadOptions, Source

_DAY = 86_400  # seconds
_EXTRA, _WHAT = "stats", "a file of SAS, SPSS or Stata"
_READERS = {
    ".sas7bdat": "read_sas7bdat",
    ".xpt": "read_xport",
    ".sav": "read_sav",
    ".zsav": "read_sav",
    ".dta": "read_dta",
}
_WRITERS = {".xpt": "write_xport", ".sav": "write_sav", ".zsav": "write_sav", ".dta": "write_dta"}
_LONGEST = {".xpt": 32_767, ".sav": 32_767, ".zsav": 32_767, ".dta": 2_045}


def read(source: Source, options: ReadOptions) -> Reading:
    """Read a file; see `missdiff_fast.table.read_table`."""
    pyreadstat = require("pyreadstat", _EXTRA, _WHAT)
    reader = getattr(pyreadstat, _READERS[source.suffix])
    arguments = {} if options.encoding is None else {"encoding": options.encoding}
    errors = (pyreadstat.ReadstatError, pyreadstat.PyreadstatError)
    with source.open() as stream:
        try:
            frame, notes = reader(stream, **arguments)
            times = [] if source.suffix == ".dta" else times_of_day(frame)
            if times:  # of longer ones pyreadstat gives what is left of whole days
                stream.seek(0)
                seconds, _ = reader(stream, usecols=times, disable_datetime_conversion=True, **arguments)
                for name in times:
                    if not seconds[name].dropna().between(0, _DAY, inclusive="left").all():
                        frame[name] = pd.to_timedelta(seconds[name].round(6), unit="s")
        except UnicodeDecodeError as error:
            problem = f"{source.name} holds text that is not in the encoding that it names ({error})"
            raise DataError("encoding", problem, value=options.encoding, remedy=Give("encoding")) from error
        except errors as error:
            raise ValueError(f"{source.name} is damaged, cut short or not what its name says: {error}") from error
    labels = notes.variable_value_labels
    for name in frame.columns:
        frame[name] = _as_read(frame[name], labels.get(name, {}))
    return frame, _Labels(notes.column_names_to_labels, labels)


def _as_read(column: pd.Series, labels: dict[Any, str]) -> pd.Series:
    """A column of the file: whole numbers as integers, empty texts and marks as missing, labelled codes as category."""
    if holds_text(column.dtype):
        # These files have no other missing texts than empty ones.
        cells = [None if cell == "" or pd.isna(cell) else cell for cell in column.tolist()]
        column = as_column(cells)[0]
    elif column.dtype == np.float64:
        seen = column.dropna()
        if len(seen) and bool((seen.mod(1) == 0).all() and (seen.abs() < EXACT).all()):
            column = column.astype("Int64" if len(seen) < len(column) else "int64")
    if column.dtype.kind == "M":
        return column.dt.round("ms")  # as seconds since 1582 in float64, times are a few microseconds off
    codes = column.dropna().unique().tolist()
    if codes and len(labels) > 1 and set(codes) <= set(labels):
        return column.astype(pd.CategoricalDtype(pd.Index(sorted(codes))))
    return column


class _Labels(AsRead):
    """The labels of columns and of values."""

    suffixes = (".sav", ".zsav", ".dta")

    def __init__(self, columns: dict[str, str | None], values: dict[str, dict[Any, str]]) -> None:
        self._columns, self._values = columns, values

    def write(self, frame: pd.DataFrame, path: Path) -> None:
        """Write a frame with the labels."""
        names = {str(name): label for name, label in self._columns.items() if label and name in frame}
        values = {str(name): labels for name, labels in self._values.items() if labels and name in frame}
        _write(frame, path, {"column_labels": names, "variable_value_labels": values})


def write(frame: pd.DataFrame, path: Path) -> None:
    """Write a file; `missdiff_fast.table.write_table` calls it."""
    _write(frame, path, {})


def _write(frame: pd.DataFrame, path: Path, labels: dict[str, Any]) -> None:
    pyreadstat = require("pyreadstat", _EXTRA, _WHAT)
    suffix = path.suffix.lower()
    frame = as_text(frame, durations_only=True)
    columns = {name: _as_written(frame[name], suffix) for name in frame.columns}
    arguments = labels | ({"compress": True} if suffix == ".zsav" else {})
    try:
        getattr(pyreadstat, _WRITERS[suffix])(pd.DataFrame(columns), str(path), **arguments)
    except (pyreadstat.ReadstatError, pyreadstat.PyreadstatError) as error:
        problem = f"a {suffix} file can't hold this table ({error})"
        raise DataError("format", problem, remedy=[Do("rename the column"), OTHER_FILE], joint="; ") from error


def _as_written(column: pd.Series, suffix: str) -> pd.Series:
    """A column as pyreadstat writes it; an error if a cell would change."""
    name, dtype = column.name, column.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        column = column.astype(dtype.categories.dtype if not column.isna().any() else object)
        column = as_column([None if pd.isna(cell) else cell for cell in column.tolist()])[0]
    family = family_of(column.dtype)
    cells = [None if hole else cell for cell, hole in zip(column.tolist(), column.isna().tolist(), strict=True)]
    seen = [cell for cell in cells if cell is not None]
    if family == "zoned":
        raise unheld(name, f"the time zone of {seen[0] if seen else dtype}", suffix)
    if family == "timedelta":
        raise unheld(name, "durations", suffix, Do("write them as numbers"))
    if family in ("integer", "float", "boolean"):
        far = next((cell for cell in seen if abs(cell) > EXACT and family == "integer"), None)
        if far is not None:
            raise unheld(name, f"it would round {far}", suffix, Do("write it as text"))
        return pd.Series([np.nan if cell is None else float(cell) for cell in cells], name=name)
    if family == "datetime":
        fine = next((cell for cell in seen if pd.Timestamp(cell) != pd.Timestamp(cell).round("ms")), None)
        if fine is not None:
            raise unheld(name, f"the time {fine}, which is no whole number of milliseconds", suffix)
        # pyreadstat takes nanoseconds, which do not reach all dates, or Python's own objects.
        return pd.Series([None if cell is None else pd.Timestamp(cell).to_pydatetime() for cell in cells], dtype=object)
    for cell in seen:
        if isinstance(cell, datetime.time):
            check_time(cell, name, suffix)
    long = next((cell for cell in seen if isinstance(cell, str) and len(cell.encode()) > _LONGEST[suffix]), None)
    if long is not None:
        raise unheld(name, f"a text of {len(long):,} characters", suffix)
    padded = next((cell for cell in seen if isinstance(cell, str) and cell.endswith(" ")), None)
    if padded is not None and suffix != ".dta":
        raise unheld(name, f"the spaces at the end of {padded!r}", suffix, Do("remove them"))
    if not seen:
        return pd.Series(np.full(len(cells), np.nan), name=name)
    if not all(isinstance(cell, (str, datetime.date, datetime.time)) for cell in seen):
        raise unheld(name, f"cells of type {type(seen[0]).__name__}", suffix)
    return pd.Series(cells, dtype=object, name=name)


def check() -> None:
    """Raise ImportError if pyreadstat is not installed."""
    require("pyreadstat", _EXTRA, _WHAT)


READSTAT = Format("SAS, SPSS or Stata", tuple(_READERS), read, write, tuple(_WRITERS), check)
