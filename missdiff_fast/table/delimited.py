"""Delimited text (CSV and its kin) with detection of its separator, decimal mark and encoding."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from missdiff_fast.errors import argument_error, warn
from missdiff_fast.remedies import Do, Pass
from missdiff_fast.table.dates import read_dates, with_forms
from missdiff_fast.table.dtypes import holds_text
from missdiff_fast.table.fields import MISSING_TEXTS, WrittenTable, joined
from missdiff_fast.table.heading import first_cells, has_header, label_rows, warn_of_labels
from missdiff_fast.table.hints import padded_identifiers, warn_of_header, warn_of_marks, warn_of_unheld, warn_of_zeros
from missdiff_fast.table.limit_reading import with_decimal
from missdiff_fast.table.literals import EXACT, are_whole_texts, large_number, read_numbers, with_room
from missdiff_fast.table.na_words import keep_na_words
from missdiff_fast.table.schema import Name
from missdiff_fast.table.sniffing import decode_text, find_decimal, find_separator
from missdiff_fast.table.sources import ReadOptions, Source, refuse_twice
from missdiff_fast.table.text_columns import read_text_columns
from missdiff_fast.table.text_rows import (
    WHITESPACE,
    Rows,
    find_rows,
    find_rows_of_holes,
    join_lines,
    make_even,
    split_lines,
    warn_of_blank_rows,
)

_TELLS_SEPARATOR = re.compile(r"sep=([,;\t|])\s*", re.IGNORECASE)  # the first line of files for Excel
_SEPARATORS = {".tsv": "\t", ".tab": "\t", ".psv": "|"}  # of those kinds that have no other


def read_delimited(place: Source, options: ReadOptions) -> tuple[pd.DataFrame, Callable[[], WrittenTable]]:
    """A frame from text, and a function that gives its cells as written; see `missdiff_fast.table.read_table`."""
    source, skip_rows, skip_lines = place.name, options.skip_rows, set(options.skip_lines or ())
    separator, decimal, markers = options.separator, options.decimal, options.markers.strings
    if separator is None:
        separator = _SEPARATORS.get(place.suffix)
    string_columns, keep_na_columns = set(options.string_columns), set(options.keep_na_columns)
    text, encoding = decode_text(place.content(), options.encoding, source)
    if skip_rows < 0:
        raise argument_error("skip_rows", f"must be 0 or more, got {skip_rows}", skip_rows)
    lines, ends = split_lines(text)
    as_written = lines.copy()
    lines[:skip_rows] = [""] * min(skip_rows, len(lines))
    for number in skip_lines:
        if not 1 <= number <= len(lines):
            rule = f"must name lines from 1 to {len(lines):,}, the last of {source}, got {number}"
            raise argument_error("skip_lines", rule, number)
        lines[number - 1] = ""
    if not any(line.strip() for line in lines):
        raise ValueError(f"{source} is empty")
    if separator is None and (told := _TELLS_SEPARATOR.fullmatch(lines[0])):
        separator, lines[0] = told[1], ""
    if separator is None:
        separator = find_separator(lines)
    elif separator != WHITESPACE and (len(separator) != 1 or not separator.isascii() or separator in '"\n\r'):
        rule = (
            f"must be one character of ASCII, no quote and no line break, or '{WHITESPACE}' for white space, got "
            f"{separator!r}"
        )
        raise argument_error("separator", rule, separator)
    if decimal is None:
        decimal = find_decimal(lines, separator)
    elif decimal not in (".", ","):
        raise argument_error("decimal", f"must be '.' or ',', got {decimal!r}", decimal)
    rows = find_rows(lines, separator, source)
    blank = rows.blank
    if blank.all():
        raise ValueError(f"{source} is empty")
    cells, begin = first_cells(lines, ends, rows, separator)
    header = has_header(cells, source) if options.header is None else options.header
    names, widths, rows = _names(lines, rows, separator, header, source)
    if options.skip_lines is None and (labels := label_rows(cells, header=header)):
        places = [begin[at] for at in labels]
        warn_of_labels(next(iter(labels.values())), places, cells[0], source, skip_rows)
        rows = rows.without(np.isin(rows.first, places), lines)
    strings = {name for name in names if str(name) in string_columns}
    kept = {name for name in names if str(name) in keep_na_columns}
    holes = find_rows_of_holes(lines, rows, len(names), header, options.keep_blank_rows, skip_rows)
    skipped = [number for number in skip_lines if as_written[number - 1].strip()]
    gone = (rows.blank & ~blank) | np.isin(rows.first, skipped)
    holes &= ~np.isin(rows.first, list(skip_lines)) & ~gone
    warn_of_blank_rows(rows, holes, len(names), source)
    # The parser skips an empty line, but not one with an empty cell in quotes.
    hole = (" " if separator == WHITESPACE else separator).join(['""'] * len(names))
    for at in np.flatnonzero(rows.blank):
        first, last = rows.first[at], rows.last[at]
        lines[first - 1 : last] = [hole if holes[at] else ""] + [""] * (last - first)
    rows = replace(rows, blank=rows.blank & ~holes)
    table = join_lines(lines, ends, rows)
    own = [mark for mark in markers if large_number(mark) is None]
    empty_texts = {name: MISSING_TEXTS if name not in kept else ("",) for name in names}
    missing = {name: [*texts, *own] for name, texts in empty_texts.items()}

    def parse(
        columns: Sequence[Name] | None, as_text: Collection[Name], na: Mapping[Any, list[str]] = missing
    ) -> pd.DataFrame:
        return pd.read_csv(
            io.StringIO(table),
            sep=separator,
            decimal=decimal,
            header=0 if header else None,
            names=names,
            usecols=None if columns is None else list(columns),
            index_col=False,
            skipinitialspace=True,
            keep_default_na=False,
            na_values=na,
            dtype=dict.fromkeys(as_text, object),
            low_memory=False,
            float_precision="round_trip",
        )

    try:
        frame = parse(None, strings)
    except (pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        raise ValueError(f"{source} can't be read as a table: {error}") from error
    with_decimal(frame, decimal if decimal == "," else None)
    # The parser makes floats of whole numbers with holes, and floats cannot represent all large ones.
    rounded = [name for name in frame.columns if frame[name].dtype == "float64" and (frame[name].abs() >= EXACT).any()]
    if rounded:
        texts = parse(rounded, rounded)
        whole = [name for name in rounded if are_whole_texts(map(str.strip, texts[name].dropna().unique()))]
        frame[whole] = texts[whole]
    forms: dict[Hashable, str] = {}
    for name in frame.columns:
        frame[name], form = _tidied(frame[name], (*empty_texts[name], *markers), decimal, parse=name not in strings)
        if form:
            forms[name] = form
    again = read_text_columns(frame, source, decimal=decimal, options=options, as_text=strings | kept)
    forms |= again.forms
    for marked, marks in again.marks.items():
        empty_texts[marked], missing[marked] = (*empty_texts[marked], *marks), [*missing[marked], *marks]
    frame = _without_empty_columns(frame, widths, rows, header, source)
    columns = list(frame.columns)

    def write() -> WrittenTable:
        full = np.flatnonzero(~rows.blank)
        head, data = (full[:1], full[1:]) if header else (full[:0], full)
        assert len(data) == len(frame)
        at = {name: place for place, name in enumerate(names)}
        return WrittenTable(
            as_written,
            ends,
            rows.first[data],
            rows.last[data],
            (int(rows.first[head[0]]), int(rows.last[head[0]])) if header else None,
            tuple(at[name] for name in columns),
            len(names),
            separator,
            decimal,
            _beside(as_written, ends, rows, gone, header),
            encoding,
        )

    if len(frame):
        empty = {name: [""] for name in names}
        frame = keep_na_words(
            frame,
            table,
            source,
            kept=kept,
            markers=markers,
            read_texts=lambda columns: parse(columns, columns, empty),
            write=write,
        )
        if header and options.header is None:
            warn_of_header(frame, source)
        others = frame.drop(columns=list(strings))
        own = rows.first[~rows.blank][int(header) :].tolist()
        warn_of_marks(others, source, own, header=header, skip_rows=skip_rows)
        warn_of_unheld(others, source, decimal)
        numbers = list(others.select_dtypes("number").columns)
        if _has_zeros(table, separator, decimal):
            texts = parse(numbers, numbers)
            for name in padded_identifiers(texts):
                frame[name] = _tidied(texts.pop(name), (*empty_texts[name], *markers), decimal, parse=False)[0]
            warn_of_zeros(texts, source)
    return with_forms(frame, forms), write


def _beside(
    lines: list[str], ends: list[str] | None, rows: Rows, gone: np.ndarray, header: bool
) -> dict[int, list[str]]:
    """The text of rows that were left out, by the number of rows above; see `WrittenTable.beside`."""
    full, beside = np.flatnonzero(~rows.blank), dict[int, list[str]]()
    for at in np.flatnonzero(gone):
        above = int(np.searchsorted(full, at)) - header
        beside.setdefault(above, []).append(joined(lines, ends, int(rows.first[at]), int(rows.last[at])))
    return beside


def _has_zeros(table: str, separator: str, decimal: str) -> bool:
    """Whether there may be a number with leading zeros among the cells of a text."""
    end = r"\s" if separator == WHITESPACE else rf"{re.escape(separator)}\n"
    # The engine jumps from one zero to the next, and looks behind only those before a digit.
    start = rf'0\d(?:(?<=[{end} \t"]0\d)|(?<=[{end} \t"][+-]0\d))'
    rest = rf'\d*(?:{re.escape(decimal)}\d*)?(?:[eE][+-]?\d+)?[ \t"]*(?:$|[{end}])'
    return re.search(start + rest, f"\n{table}", re.ASCII) is not None


def _names(
    lines: list[str], rows: Rows, separator: str, header: bool, source: str
) -> tuple[list[str] | list[int], tuple[int, int], Rows]:
    """The columns' names, how many of them the header and the rows below it have, and the rows made even."""
    full = np.flatnonzero(~rows.blank)
    fields = rows.fields[full]
    if not header:
        width = int(fields[0])
        rows = make_even(lines, rows, full, width, "the first row has", separator, source)
        return list(range(width)), (width, width), rows
    at = full[0]
    head = [f"{line}\n" for line in lines[rows.first[at] - 1 : rows.last[at]]]  # a name in quotes may span lines
    if separator == WHITESPACE:
        names = head[0].split()
    else:
        names = [name.strip() for name in next(csv.reader(head, delimiter=separator, skipinitialspace=True))]
    given = len(names)
    width = int(np.bincount(fields[1:]).argmax()) if len(fields) > 1 else given
    if width < given and not any(names[width:]):
        names = names[:width]
    elif width != given + 1:
        width = given
    # One field more on every line is a separator at its end; whether it is empty is known after reading.
    than = "the header has" if width == given else "most lines have"
    rows = make_even(lines, rows, full[1:], width, than, separator, source)
    names += [""] * (width - len(names))
    called = [name or f"Unnamed: {i}" for i, name in enumerate(names)]
    own = [name for name in names if name]
    ours = "" if len(set(own)) < len(own) else " (a column without a name is called so)"
    no_header = Pass("header", False, when="if that line is no header")
    refuse_twice(called, source, f"in line {rows.first[at]}{ours}", Do("give each column a name of its own"), no_header)
    return called, (given, width), rows


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
    values: pd.Series | None = plain if changed else None
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


def _without_empty_columns(
    frame: pd.DataFrame, widths: tuple[int, int], rows: Rows, header: bool, source: str
) -> pd.DataFrame:
    given, width = widths
    for surplus in frame.columns[given:width]:
        filled = frame[surplus].notna().to_numpy()
        if filled.any():
            line = int(rows.first[~rows.blank][1 + int(np.argmax(filled))])
            raise ValueError(
                f"{source}, line {line}: {width} fields where the header has {given}: name every column in the header "
                "(a first column of row names too), or mend the lines"
            )
    empty = [
        name
        for name in frame.columns
        if header and str(name).startswith("Unnamed: ") and bool(frame[name].isna().all())
    ]
    if empty and len(frame):
        warn(f"{source}: empty columns without a name were dropped ({', '.join(map(str, empty))})")
        frame = frame.drop(columns=empty)
    return frame
