"""The user's marks of missing cells, applied to a frame as read."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator
from decimal import Decimal

import numpy as np
import pandas as pd

from missdiff_fast.errors import DataWarning, warn
from missdiff_fast.remedies import Do
from missdiff_fast.table.cells import Markers
from missdiff_fast.table.dates import forms_of
from missdiff_fast.table.dtypes import INSTANTS, NUMBERS, family_of, holds_text, key_dtype, to_keys, unit_of, zone_of
from missdiff_fast.table.fields import MISSING_TEXTS, WrittenTable
from missdiff_fast.table.literals import large_number, with_room
from missdiff_fast.table.objects import read_time
from missdiff_fast.table.odd_texts import looks_numeric
from missdiff_fast.table.text_rows import WHITESPACE

_SHOWN = 3


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
    file: WrittenTable | None = None,
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
    file : WrittenTable, optional
        The cells as the file has them, of which the parser has removed the missing values that are texts.
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
        if file is not None and _has_cells(file, values, frame):
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


def _has_cells(file: WrittenTable, values: Collection[str | float], frame: pd.DataFrame) -> bool:
    """Whether cells of a file have a missing value, given as a text, as a number or as both.

    The parser removes cells that are written as a text is, and in columns of decimal numbers those of its value too,
    such as ``1e3`` for ``1000``: then the file has more cells of the value than the frame. Numbers are removed later.
    """
    texts = [value for value in values if isinstance(value, str)]
    if any(next(file.lines.find(_literal(text, file.separator)), None) for text in texts):
        return True
    later = len(texts) < len(values) or any(large_number(text) is not None for text in texts)
    for number in {number for number in map(_number_of, values) if number is not None}:
        if next(_cells_of(number, file), None) is None:
            continue
        left = 0 if later else _count(number, frame)
        if left == 0 or len(list(_cells_of(number, file))) > left:
            return True
    return False


def _number_of(value: str | float) -> Decimal | None:
    """The number that a text writes, with either decimal mark, or that a float is; None if float64 can't hold it."""
    text = value.strip().replace(",", ".") if isinstance(value, str) else repr(value)
    return Decimal(text) if looks_numeric(text) and math.isfinite(float(text)) else None


def _count(number: Decimal, frame: pd.DataFrame) -> int:
    """How many cells of a frame read from text have a number, among numbers or texts."""
    count = 0
    for name in frame.columns:
        if family_of(frame[name].dtype) in NUMBERS:
            count += int((frame[name] == float(number)).sum())
        elif holds_text(frame[name].dtype):
            cells = frame[name].value_counts()
            count += sum(int(cells[text]) for text in cells.index if _number_of(text) == number)
    return count


def _around(separator: str) -> str:
    """The characters around a cell, for a set in a regular expression: white space, quotes and the separator."""
    return r"\s\"'" + ("" if separator == WHITESPACE else re.escape(separator))


def _literal(text: str, separator: str) -> re.Pattern[bytes]:
    """A regular expression of a cell with a text: only separators, quotes and white space stand around it."""
    mark, around = re.escape(text.strip().replace('"', '""')), _around(separator)
    # The engine jumps to the mark, and then looks what is around it.
    return re.compile(f"{mark}(?![^{around}])(?<![^{around}]{mark})".encode())


def _cells_of(number: Decimal, file: WrittenTable) -> Iterator[bytes]:
    """The texts in a file that may be cells with a number, however it is written: 1000, 01000.0, 1e3."""
    around, point = _around(file.separator), {",": r"\.", ".": ","}.get(file.separator, "[.,]")
    whole, _, fraction = f"{abs(number):f}".partition(".")
    whole, fraction = whole.lstrip("0"), fraction.rstrip("0")
    digits = (whole + fraction).strip("0")
    zeros, power = rf"(?:0|{point})*", r"[eE][+-]?\d{1,5}"
    if digits:
        plain = rf"0*{whole}" + (rf"{point}{fraction}0*" if fraction else rf"(?:{point}0*)?")
        scaled = rf"{zeros}{f'{point}?'.join(digits)}{zeros}{power}"
    else:
        plain, scaled = rf"(?:0+(?:{point}0*)?|{point}0+)", rf"0{zeros}{power}"
    # The engine jumps to a minus, and then looks what is before it. Most cells without one end at their first sign.
    begin = (
        rf"-(?<![^{around}]-)" if number < 0 else rf"(?:^|[{around}])(?=[-+.,0{digits[:1]}])[+{'' if digits else '-'}]?"
    )
    pattern = re.compile(rf"{begin}(?:{plain}|({scaled}))(?![^{around}])".encode())
    for found in file.lines.find(pattern):
        if found[1] is None or _number_of(found[1].decode()) == abs(number):
            yield found[0]
