"""Excel workbooks (.xlsx), through openpyxl."""

from __future__ import annotations

import datetime
import re
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from missdiff_fast.errors import DataError, DataWarning, argument_error, warn
from missdiff_fast.remedies import Do, Pass, Remedy
from missdiff_fast.table.fields import MISSING_TEXTS
from missdiff_fast.table.formats.base import Format, require
from missdiff_fast.table.formats.excel_writing import write
from missdiff_fast.table.limits import is_limit
from missdiff_fast.table.literals import read_numbers
from missdiff_fast.table.objects import as_column, as_text
from missdiff_fast.table.sources import AsRead, Reading, ReadOptions, Source, refuse_twice
from missdiff_fast.table.usual_marks import is_usual_mark, warn_of_usual_marks

_EXTRA, _WHAT = "excel", "an Excel file"
_ESCAPED = re.compile(r"_x([0-9A-Fa-f]{4})_")
_WORDS = frozenset(MISSING_TEXTS)


def read(source: Source, options: ReadOptions) -> Reading:
    """Read one sheet; see `missdiff_fast.table.read_table`."""
    openpyxl = require("openpyxl", _EXTRA, _WHAT)
    zip_errors = (KeyError, openpyxl.utils.exceptions.InvalidFileException)
    with source.open() as stream, source.told_if_damaged(*zip_errors), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of styles and the like, which the cells do not need
        book = openpyxl.load_workbook(stream, read_only=True)
        sheet = _choose([one.title for one in book.worksheets], options.sheet, source.name)
        rows = list(_rows(book[sheet]))
        if any(cell.formula for row in rows for cell in row):
            results = openpyxl.load_workbook(stream, read_only=True, data_only=True)
            rows = _with_results(rows, list(_rows(results[sheet])), source.name)
    return _as_frame(rows, source.name, options)


@dataclass(slots=True)
class _Cell:
    """A cell: its value, None if it is empty, and whether the value is a formula, or is a text in any case."""

    value: Any
    formula: bool = False
    quoted: bool = False


_EMPTY = _Cell(None)


def _choose(sheets: list[str], wanted: str | None, source: str) -> str:
    """The sheet to read."""
    if wanted in sheets:
        return str(wanted)
    if wanted is None and len(sheets) == 1:
        return sheets[0]
    known = ", ".join(map(repr, sheets))
    if wanted is not None:
        raise argument_error("sheet", f"{wanted!r} is not in {source}; its sheets are {known}", wanted, kind="sheet")
    if not sheets:
        raise DataError("sheet", f"{source} has no sheet of cells")
    problem = f"{source} has {len(sheets)} sheets ({known})"
    raise DataError("sheet", problem, value=sheets, remedy=Pass("sheet", sheets[0], goal="choose one, such as"))


def _rows(sheet: Any) -> Iterator[list[_Cell]]:
    """The rows of cells, without empty ones at their ends."""
    sheet.reset_dimensions()  # some programs note wrong ones
    for row in sheet.iter_rows():
        cells = [_cell(cell) for cell in row]
        while cells and cells[-1].value is None:
            cells.pop()
        yield cells


def _cell(cell: Any) -> _Cell:
    value = cell.value
    if value is None:
        return _EMPTY
    if cell.data_type == "f":
        return _Cell(value, formula=True)
    if isinstance(value, str):
        value = _ESCAPED.sub(lambda found: chr(int(found[1], 16)), value) if "_x" in value else value
        # An apostrophe before a text tells that it is one.
        return _Cell(value, quoted=_has_apostrophe(cell)) if value.strip() in _WORDS else _Cell(value)
    return _Cell(value)


def _has_apostrophe(cell: Any) -> bool:
    try:
        return bool(cell.style_array.quotePrefix)
    except IndexError:  # the file has no styles
        return False


def _with_results(rows: list[list[_Cell]], results: list[list[_Cell]], source: str) -> list[list[_Cell]]:
    """The rows with the results of formulas, which Excel stores beside them."""
    found = 0
    for row, row_results in zip(rows, results, strict=True):
        for place, cell in enumerate(row):
            if cell.formula:
                row[place] = row_results[place] if place < len(row_results) else _EMPTY
                found += row[place].value is not None
    if not found:  # a single formula may have an empty result
        problem = f"{source} holds formulas without results"
        raise DataError("formula", problem, remedy=Do("open it in Excel or LibreOffice and save it"))
    return rows


class _Cells(AsRead):
    """The cells of columns that had to become texts, as numbers, dates and texts."""

    suffixes = (".xlsx",)

    def __init__(self, cells: dict[str, list[Any]]) -> None:
        self._cells = cells

    def write(self, frame: pd.DataFrame, path: Path) -> None:
        """Write a frame whose texts are numbers and dates again where the file had such."""
        columns = {name: frame[name] for name in frame.columns}
        for name, cells in self._cells.items():
            if name not in frame:
                continue
            known = {as_text(cell): cell for cell in cells if cell is not None}
            new = [
                cell if cell is not None and text == as_text(cell) else known.get(text, _as_number(text))
                for text, cell in zip(frame[name].astype(object).where(frame[name].notna(), None), cells, strict=True)
            ]
            columns[name] = pd.Series(new, dtype=object, index=frame.index)
        write(pd.DataFrame(columns), path)


def _as_number(text: str | None) -> Any:
    """A text among numbers as a number, if it is one."""
    numbers = None if text is None else read_numbers([text])
    return text if numbers is None else numbers[0].item()


def _are_limited(values: list[Any]) -> bool:
    """Whether cells are numbers beside limits such as ``<0.1``, which a fit takes as they are."""
    kinds = {type(value) for value in values if value is not None}
    texts = [value.strip() for value in values if isinstance(value, str)]
    return {str} < kinds <= {str, int, float} and all(map(is_limit, texts))


def _warn_of_ends_of_days(values: list[Any], name: object, source: str) -> None:
    """Warn of dates that make text of a column of times of day."""
    dates = [value for value in values if isinstance(value, datetime.datetime)]
    if not dates or not any(isinstance(value, datetime.time) for value in values):
        return
    several = "s" * (len(dates) > 1)
    problem = (
        f"{source}: column {name!r} holds times of day and {len(dates):,} date{several} such as {as_text(dates[0])!r}, "
        "as which Excel has 24:00 and later times: it is left as text"
    )
    remedy = Do("write 24:00 as 00:00 of the next day, or all cells as durations ([h]:mm)")
    warn(DataWarning("dates", problem, columns=[str(name)], value=as_text(dates[0]), remedy=remedy, joint="; "))


def _without_marks(values: list[Any]) -> tuple[list[Any], dict[str, int]]:
    """Cells among which texts that usually stand for a missing cell are missing, and these texts with their counts.

    They are left as they are unless all other cells are numbers, dates or limits, of which there are several.
    """
    odd = Counter(value.strip() for value in values if isinstance(value, str) and is_usual_mark(value.strip()))
    rest = [value for value in values if value is not None and not (isinstance(value, str) and value.strip() in odd)]
    plain = [value for value in rest if not isinstance(value, str)]
    if not odd or len(set(plain)) < 2 or not all(is_limit(value.strip()) for value in rest if isinstance(value, str)):
        return values, {}
    return [None if isinstance(value, str) and value.strip() in odd else value for value in values], dict(odd)


def _as_frame(rows: list[list[_Cell]], source: str, options: ReadOptions) -> Reading:
    if options.skip_rows < 0:
        raise argument_error("skip_rows", f"must be 0 or more, got {options.skip_rows}", options.skip_rows)
    left_out = options.skip_lines or ()
    for number in left_out:
        if not 1 <= number <= len(rows):
            rule = f"must name rows from 1 to {len(rows):,}, the last of {source}, got {number}"
            raise argument_error("skip_lines", rule, number)
    below = enumerate(rows[options.skip_rows :], options.skip_rows + 1)
    kept = [row for number, row in below if number not in left_out]
    while kept and not kept[-1]:
        kept.pop()
    while kept and not kept[0]:
        del kept[0]
    if not kept:
        raise ValueError(f"{source} is empty")
    width = max(map(len, kept))
    names: list[Any] = list(range(width))
    if options.header is not False:
        names = _names(kept.pop(0), width, source)
        _warn_of_title(names, kept, rows, source)
    columns: dict[Any, pd.Series] = {}
    mixed: dict[str, list[Any]] = {}
    marks: dict[Any, dict[str, int]] = {}
    for place, name in enumerate(names):
        cells = [row[place] if place < len(row) else _EMPTY for row in kept]
        if str(name).startswith("Unnamed: ") and all(cell.value is None for cell in cells):
            continue
        values = _values(cells, str(name), options)
        as_texts = str(name) in options.string_columns
        if not as_texts and str(name) not in options.keep_na_columns:
            values, marks[name] = _without_marks(values)
        if not as_texts and _are_limited(values):
            columns[name] = pd.Series(values, dtype=object)
            continue
        columns[name], differ = as_column([_text(value) for value in values] if as_texts else values)
        if differ:
            _warn_of_ends_of_days(values, name, source)
        if differ or (as_texts and not all(value is None or isinstance(value, str) for value in values)):
            mixed[str(name)] = values
    _warn_of_words(kept, names, source, options)
    warn_of_usual_marks({name: found for name, found in marks.items() if found}, source)
    return pd.DataFrame(columns), _Cells(mixed)


def _names(row: list[_Cell], width: int, source: str) -> list[str]:
    """The names of the columns, which the first row has."""
    found = ["" if cell.value is None else as_text(cell.value).strip() for cell in row]
    found += [""] * (width - len(found))
    names = [name or f"Unnamed: {place}" for place, name in enumerate(found)]
    give, skip = Do("give each column a name of its own"), Pass("header", False, when="if that row is no header")
    refuse_twice(names, source, "in its first row", give, skip)
    return names


def _warn_of_title(names: list[str], kept: list[list[_Cell]], rows: list[list[_Cell]], source: str) -> None:
    """Warn if most columns with cells have no name, as below a title."""
    filled = [
        place for place, _ in enumerate(names) if any(len(row) > place and row[place].value is not None for row in kept)
    ]
    unnamed = [names[place] for place in filled if names[place] == f"Unnamed: {place}"]
    if 2 * len(unnamed) > len(filled):
        full = next(
            (at for at, row in enumerate(rows) if sum(cell.value is not None for cell in row) == len(filled)), 0
        )
        problem = f"{source}: {len(unnamed)} of {len(filled)} columns have no name in the first row"
        remedy = Pass("skip_rows", full, when=f"if row {full + 1} has the names") if full else Do("name them")
        warn(DataWarning("header", problem, remedy=remedy, joint="; "))


def _values(cells: list[_Cell], name: str, options: ReadOptions) -> list[Any]:
    """The values of a column, None where missing."""
    gone = {*options.markers.strings, *(("",) if name in options.keep_na_columns else _WORDS)}
    return [None if _is_missing(cell, gone) else cell.value for cell in cells]


def _text(value: Any) -> str | None:
    return None if value is None else as_text(value)


def _is_missing(cell: _Cell, words: set[str]) -> bool:
    return isinstance(cell.value, str) and not cell.quoted and cell.value.strip() in words


def _warn_of_words(rows: list[list[_Cell]], names: list[Any], source: str, options: ReadOptions) -> None:
    """Warn of words such as NA that were read as missing in columns of texts, where they may be codes."""
    found = {}
    for place, name in enumerate(names):
        if str(name) in options.keep_na_columns:
            continue
        cells = [row[place] for row in rows if place < len(row) and row[place].value is not None]
        texts = [cell.value.strip() for cell in cells if isinstance(cell.value, str) and not cell.quoted]
        words = [text for text in texts if text and text in _WORDS and text not in options.markers.strings]
        if words and len(words) < len(texts) == len(cells):
            found[name] = f"{words[0]!r} in {len(words):,} cell{'s' * (len(words) > 1)} of column {name!r}"
    if found:
        each = "; ".join(list(found.values())[:3]) + (f"; and {len(found) - 3} more columns" if len(found) > 3 else "")
        remedy: Remedy = Pass(
            "keep_na_columns", list(map(str, found)), goal="keep them as texts,", when="if they are values"
        )
        problem = f"{source}: texts that usually mean missing were read as missing: {each}"
        warning = DataWarning("na", problem, columns=list(found), remedy=remedy, joint="; ")
        warn(warning)


def check() -> None:
    """Raise ImportError if openpyxl is not installed."""
    require("openpyxl", _EXTRA, _WHAT)


EXCEL = Format("Excel", (".xlsx", ".xlsm"), read, write, (".xlsx",), check, holds_mixed=True, options=("sheet",))
