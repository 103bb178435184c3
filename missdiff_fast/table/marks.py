"""The user's marks of missing cells, applied to a frame as read."""

from __future__ import annotations

import math
import re
from collections.abc import Collection

import numpy as np
import pandas as pd

from missdiff_fast.errors import DataWarning, warn
from missdiff_fast.remedies import Do
from missdiff_fast.table.cells import Markers
from missdiff_fast.table.dates import forms_of
from missdiff_fast.table.dtypes import INSTANTS, NUMBERS, family_of, holds_text, key_dtype, to_keys, unit_of, zone_of
from missdiff_fast.table.fields import MISSING_TEXTS
from missdiff_fast.table.literals import with_room
from missdiff_fast.table.objects import read_time
from missdiff_fast.table.text_lines import Lines

_SHOWN = 3
_AROUND = r"\s,;|\"'"  # what may be around a cell
_DIGITS = re.compile(r"([+-]?)(\d+)(?:\.(\d*))?", re.ASCII)


def _plain_forms(number: int | float) -> list[str]:
    """The spellings of a number in columns left as text: -9 and -9.0, but not -09."""
    if math.isfinite(number) and number == int(number):
        return [f"{int(number)}", f"{int(number)}.0"]
    return [repr(float(number))]


def _marked_instants(column: pd.Series, markers: Markers, form: str = "") -> np.ndarray:
    """Which cells are dates, times or durations that markers write."""
    family, none = family_of(column.dtype), np.zeros(len(column), dtype=bool)
    kind = pd.api.types.infer_dtype(column, skipna=True) if family == "object" and markers.strings else ""
    if kind == "time":
        return column.isin([time for text in markers.strings if (time := read_time(text)) is not None]).to_numpy()
    if kind == "date":
        family = "date"
    if family not in INSTANTS or not markers.strings:
        return none
    unit = unit_of(column.dtype, family)
    try:
        keys = to_keys(column, family, unit=unit)
    except (OverflowError, ValueError):  # dates out of reach, which fit refuses
        return none
    return markers.match(keys, family, unit, zone_of(column.dtype), form) & column.notna().to_numpy(dtype=bool)


def mark_missing(frame: pd.DataFrame, markers: Markers, string_columns: Collection[str] = ()) -> pd.DataFrame:
    """The frame with the user's missing values made missing."""
    written, forms = [form for number in markers.numbers for form in _plain_forms(number)], forms_of(frame)
    for name in frame.columns if markers.strings or markers.numbers else ():
        column = frame[name]
        if isinstance(column.dtype, pd.CategoricalDtype):
            gone = [value for value in column.cat.categories if value in (markers.strings + markers.numbers)]
            gone.extend(column.cat.categories[_marked_instants(column.cat.categories.to_series(), markers)])
            frame[name] = column.cat.remove_categories(gone)
            continue
        instants = _marked_instants(column, markers, forms.get(name, ""))
        if instants.any():
            frame[name] = column.mask(instants)
            continue
        family = family_of(column.dtype)
        values: list[object] | np.ndarray
        if family in NUMBERS:
            values = markers.within(key_dtype(column.dtype, family))
        elif holds_text(column.dtype):
            values = [*markers.strings, *(written if str(name) in string_columns else ())]
            values += markers.numbers if column.dtype == object else ()  # numbers beside limits, as of Excel
        else:
            values = []
        hit = column.isin(values) if len(values) else None
        if hit is not None and hit.any():
            frame[name] = with_room(column).mask(hit)
    return frame


def warn_of_idle_marks(
    frame: pd.DataFrame,
    markers: Markers,
    source: str,
    *,
    lines: Lines | None = None,
    quiet: Collection[object] = (),
    string_columns: Collection[str] = (),
) -> None:
    """Warn of the user's missing values that no cell has; a number and the text that writes it are one.

    Parameters
    ----------
    frame : DataFrame
        The table before `mark_missing`.
    markers : Markers
        The missing values.
    source : str
        The file's name.
    lines : Lines, optional
        The text of the file, from whose cells the reader has removed the missing values that are texts.
    quiet : collection
        Missing values of which nothing is told, as those that a model has from its own table.
    string_columns : collection of str
        As of `mark_missing`.
    """
    # NA and the like are missing without being given.
    quiet = [*quiet, *MISSING_TEXTS]
    given = [value for value in (*markers.strings, *markers.numbers) if value not in quiet]
    texts = [value for value in given if isinstance(value, str)]
    # In the command -9 is both a text and a number.
    written = {text: _numbers_of(text, markers.numbers) for text in texts}
    numbers = [
        value for value in given if not isinstance(value, str) and not any(value in one for one in written.values())
    ]
    holes = int(frame.isna().to_numpy().sum())

    def is_idle(*values: str | float) -> bool:
        if lines is not None and any(lines.holds(_as_cell(text)) for value in values for text in _spellings(value)):
            return False
        marked = mark_missing(frame.copy(deep=False), Markers.of(values), string_columns)
        return int(marked.isna().to_numpy().sum()) == holes

    idle: list[str | float] = [text for text, same in written.items() if is_idle(text, *same)]
    idle += [number for number in numbers if is_idle(number)]
    if idle:
        several = len(idle) > 1
        shown = ", ".join(map(repr, idle[:_SHOWN])) + (f" and {len(idle) - _SHOWN} more" if len(idle) > _SHOWN else "")
        problem = f"{source}: no cell is {shown}, given as {'missing values' if several else 'a missing value'}"
        remedy = Do(f"write {'them' if several else 'it'} as the cells have {'them' if several else 'it'}")
        warn(DataWarning("idle marks", problem, value=idle, remedy=remedy))


def _numbers_of(text: str, numbers: Collection[int | float]) -> list[int | float]:
    """Those of the numbers that a text writes."""
    try:
        return [number for number in numbers if number == float(text)]
    except ValueError:
        return []


def _spellings(value: str | float) -> list[str]:
    return [value] if isinstance(value, str) else _plain_forms(value)


def _as_cell(text: str) -> re.Pattern[bytes]:
    """A pattern of what may be a cell with a text: nothing but separators, quotes and white space is around it."""
    number = _DIGITS.fullmatch(text.strip())
    if number is not None:  # the parser takes -9.0 and -09 for the missing value -9
        sign, whole, fraction = number[1].replace("+", ""), number[2].lstrip("0") or "0", (number[3] or "").rstrip("0")
        rest = rf"[.,]{fraction}0*" if fraction else r"(?:[.,]0*)?"
        return re.compile(rf"(?:^|[{_AROUND}]){sign or '[+]?'}0*{whole}{rest}(?![^{_AROUND}])".encode())
    mark = re.escape(text.strip().replace('"', '""'))
    # The engine jumps to the mark, and then looks what is around it.
    return re.compile(f"{mark}(?![^{_AROUND}])(?<![^{_AROUND}]{mark})".encode())
