"""Delimited text (CSV and its kin), read in steps: its lines, separator and decimal mark, rows, names and cells."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Hashable, Sequence

import numpy as np
import pandas as pd

from missdiff_fast.table.dates import read_dates, with_forms
from missdiff_fast.table.dtypes import holds_text
from missdiff_fast.table.fields import MISSING_TEXTS, WrittenTable
from missdiff_fast.table.files import Encoding, fixed_separator
from missdiff_fast.table.heading import ColumnNames, drop_unnamed_columns, first_cells, has_header, name_columns
from missdiff_fast.table.hints import warn_of_header, warn_of_marks, warn_of_unheld
from missdiff_fast.table.label_lines import label_rows, warn_of_labels
from missdiff_fast.table.leading_zeros import padded_identifiers, texts_with_zeros, warn_of_zeros
from missdiff_fast.table.limit_reading import with_decimal
from missdiff_fast.table.literals import EXACT, are_whole_texts, large_number, read_numbers, with_room
from missdiff_fast.table.na_words import keep_na_words
from missdiff_fast.table.row_finding import find_rows, skip_lines
from missdiff_fast.table.schema import Name
from missdiff_fast.table.sniffing import as_utf_8, find_marks
from missdiff_fast.table.sources import ReadOptions, Source
from missdiff_fast.table.text_columns import read_text_columns
from missdiff_fast.table.text_lines import Lines
from missdiff_fast.table.text_parsing import TextParser, first_cell
from missdiff_fast.table.text_rows import Rows, fill_blank_rows, find_rows_of_holes, warn_of_blank_rows

_DIGIT = re.compile(r"\d")
_SHOWN = 10  # lines of rows that hints may name


def read_delimited(place: Source, options: ReadOptions) -> tuple[pd.DataFrame, Callable[[], WrittenTable]]:
    """A frame from text, and a function that gives its cells as written; see `missdiff_fast.table.read_table`."""
    source, markers = place.name, options.markers.strings
    content, encoding = as_utf_8(place.content(), options.encoding, source)
    lines = Lines(content)
    skip_lines(lines, options.skip_rows, set(options.skip_lines or ()), source)
    suggested = options.separator if options.separator is not None else fixed_separator(place.suffix)
    separator, decimal = find_marks(lines, suggested, options.decimal)
    found = find_rows(lines, separator, source)
    if found.blank.all():
        raise ValueError(f"{source} is empty")
    header, columns, rows = _read_heading(lines, found, separator, options, source)
    rows, left_out = _settle_blank_rows(lines, found, rows, columns, header, separator, options, source)
    keep_na, as_text = set(options.keep_na_columns), set(options.string_columns)
    kept = {name for name in columns.names if str(name) in keep_na}
    empty_texts = {name: MISSING_TEXTS if name not in kept else ("",) for name in columns.names}
    own = [mark for mark in markers if large_number(mark) is None]
    missing = {name: [*texts, *own] for name, texts in empty_texts.items()}
    parser = TextParser(lines, rows, columns.names, header, separator, decimal, missing)
    strings = {name for name in columns.names if str(name) in as_text}
    frame = _parse(parser, strings, source)
    with_decimal(frame, decimal if decimal == "," else None)
    forms: dict[Hashable, str] = {}
    for name in frame.columns:
        frame[name], form = _tidied(frame[name], (*empty_texts[name], *markers), decimal, parse=name not in strings)
        if form:
            forms[name] = form
    again = read_text_columns(frame, source, decimal=decimal, options=options, as_text=strings | kept)
    forms |= again.forms
    for marked, marks in again.marks.items():
        empty_texts[marked], missing[marked] = (*empty_texts[marked], *marks), [*missing[marked], *marks]
    frame = drop_unnamed_columns(frame, columns, rows, header, source)
    left = list(frame.columns)

    def write() -> WrittenTable:
        return _as_written(parser, left, left_out, len(frame), encoding)

    if not len(frame):
        return with_forms(frame, forms), write
    frame = keep_na_words(frame, parser, source, kept=kept, markers=markers, write=write)
    if header and options.header is None:
        warn_of_header(frame, source)
    others = frame.drop(columns=list(strings)) if strings else frame
    first = rows.first[rows.filled(_SHOWN)[int(header) :]].tolist()
    warn_of_marks(others, source, first, header=header, skip_rows=options.skip_rows)
    warn_of_unheld(others, source, decimal)
    texts = texts_with_zeros(parser, list(others.iloc[:0].select_dtypes("number", exclude="timedelta").columns))
    for name in padded_identifiers(texts):
        frame[name] = _tidied(texts.pop(name), (*empty_texts[name], *markers), decimal, parse=False)[0]
    warn_of_zeros(texts, source)
    return with_forms(frame, forms), write


def _read_heading(
    lines: Lines, rows: Rows, separator: str, options: ReadOptions, source: str
) -> tuple[bool, ColumnNames, Rows]:
    """Whether there is a header, the names, and the rows: made even, and without rows of labels."""
    cells, begin = first_cells(lines, rows, separator)
    header = has_header(cells, source) if options.header is None else options.header
    columns, rows = name_columns(lines, rows, separator, header, source)
    if options.skip_lines is None and (labels := label_rows(cells, header=header)):
        places = [begin[at] for at in labels]
        warn_of_labels(next(iter(labels.values())), places, cells[0], source, options.skip_rows)
        rows = rows.without(np.isin(rows.first, places), lines)
    return header, columns, rows


def _settle_blank_rows(
    lines: Lines,
    found: Rows,
    rows: Rows,
    columns: ColumnNames,
    header: bool,
    separator: str,
    options: ReadOptions,
    source: str,
) -> tuple[Rows, np.ndarray]:
    """The rows, those of holes not blank any more, and which of them hold text that is no row of the table."""
    numbers = set(options.skip_lines or ())
    holes = find_rows_of_holes(lines, rows, columns.width, header, options.keep_blank_rows, options.skip_rows)
    skipped = [number for number in numbers if lines.written(number, number).strip()]
    left_out = (rows.blank & ~found.blank) | np.isin(rows.first, skipped)
    holes &= ~np.isin(rows.first, list(numbers)) & ~left_out
    warn_of_blank_rows(rows, holes, columns.width, source)
    return fill_blank_rows(lines, rows, holes, columns.width, separator), left_out


def _parse(parser: TextParser, strings: Collection[Name], source: str) -> pd.DataFrame:
    """The cells as pandas parses them, but for numbers that floats round to others or to infinity: those stay texts."""
    try:
        frame = parser.read(strings)
    except (pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        raise ValueError(f"{source} can't be read as a table: {error}") from error
    large = [name for name in frame.columns if _is_large(frame[name])]
    if large:
        texts = parser.texts(large)
        whole = {name for name in large if are_whole_texts(map(str.strip, texts[name].dropna().unique()))}
        kept = [name for name in large if name in whole or _overflows(frame[name], texts[name])]
        frame[kept] = texts[kept]
    return frame


def _overflows(column: pd.Series, texts: pd.Series) -> bool:
    """Whether the parser made infinity of a number: since pandas 3 of all beyond float64, before of negative ones."""
    return column.dtype == "float64" and any(map(_DIGIT.search, texts[np.isinf(column)].unique()))


def _is_large(column: pd.Series) -> bool:
    """Whether the parser made floats that may be rounded of whole numbers with holes, or integers of more than 64 bits.

    The latter it makes since pandas 3.1.
    """
    if column.dtype == "float64":
        return bool((column.abs() >= EXACT).any())
    return bool(column.dtype == object) and type(first_cell(column)) is int


def _as_written(
    parser: TextParser, names: Sequence[Name], left_out: np.ndarray, number: int, encoding: Encoding
) -> WrittenTable:
    """The cells of the columns of some names as the file has them; there are so many rows of the table."""
    rows, lines = parser.rows, parser.lines
    full = rows.filled()
    head, data = (full[:1], full[1:]) if parser.header else (full[:0], full)
    assert len(data) == number
    beside = dict[int, list[str]]()  # the rows of the table above each row that was left out
    for at in np.flatnonzero(left_out):
        above = int(np.searchsorted(full, at)) - parser.header
        beside.setdefault(above, []).append(lines.written(int(rows.first[at]), int(rows.last[at])))
    at_name = {name: place for place, name in enumerate(parser.names)}
    return WrittenTable(
        lines,
        rows.first[data],
        rows.last[data],
        (int(rows.first[head[0]]), int(rows.last[head[0]])) if parser.header else None,
        tuple(at_name[name] for name in names),
        len(parser.names),
        parser.separator,
        parser.decimal,
        beside,
        encoding,
    )


def _tidied(column: pd.Series, missing: tuple[str, ...], decimal: str, *, parse: bool) -> tuple[pd.Series, str]:
    """A column of strings without white space around them; if parsed, as the numbers, dates or durations in it.

    With it comes the form of the dates, "" for other columns.
    """
    if not holds_text(column.dtype):
        return column, ""
    codes, uniques = pd.factorize(column)
    if not len(uniques) or not all(isinstance(value, str) for value in uniques):
        return column, ""
    plain = pd.Series([value.strip() for value in uniques], dtype=object)
    # The parser leaves markers as text among whole numbers beyond int64, and where white space surrounds them.
    plain[plain.isin(missing)] = np.nan
    known = plain.dropna()
    changed = len(known) < len(plain) or bool((plain.to_numpy() != np.asarray(uniques, dtype=object)).any())
    values: pd.Series | None = plain.astype(column.dtype) if changed else None
    numbers = read_numbers(known.tolist(), decimal) if parse else None
    if numbers is not None:
        values = pd.Series(numbers, index=known.index)
        values = with_room(values) if len(known) < len(plain) or (codes < 0).any() else values
    dates = read_dates(known.tolist()) if parse and numbers is None else None
    if dates is not None:
        values = dates[0].set_axis(known.index)
    if values is None:
        return column, ""
    values = values.reindex(plain.index)
    # One more element than there are values, so that code -1 selects a missing one.
    values = values if (codes >= 0).all() else values.reindex([*plain.index, len(plain)])
    cells = pd.Series(values.array.take(np.where(codes < 0, len(plain), codes)), index=column.index)
    return cells, "" if dates is None else dates[1]
