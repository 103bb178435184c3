"""Warnings for text files that were probably misread: header lines taken for rows, marks of missing cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from pandas.api.types import infer_dtype

from missdiff_fast.errors import DataWarning, warn
from missdiff_fast.remedies import Do, Pass, Remedy
from missdiff_fast.table.date_forms import is_date_or_time
from missdiff_fast.table.dates import DATE
from missdiff_fast.table.dtypes import holds_text
from missdiff_fast.table.label_lines import warn_of_label_lines
from missdiff_fast.table.limit_reading import decimal_of
from missdiff_fast.table.literals import find_unheld, marks_dates
from missdiff_fast.table.odd_texts import (
    MOST_NAMED,
    SHOWN,
    as_missing,
    by_text,
    has_note,
    is_mark,
    listed,
    listed_with_columns,
    looks_numeric,
    texts_among_numbers,
)
from missdiff_fast.table.schema import Name

_CATEGORIES = "such texts are categories, and so are the numbers or dates beside them"


def warn_of_header(frame: pd.DataFrame, source: str) -> None:
    """Warn if the line taken for the header looks like data: numbers, or texts that recur below it."""
    names = [str(name) for name in frame.columns]
    numbers = [name for name in names if looks_numeric(name)]
    again = [name for name in names if holds_text(frame[name].dtype) and (frame[name] == name).any()]
    if len(numbers) + len(again) <= len(names) / 4:
        return
    what = f"numbers such as {numbers[0]!r}" if numbers else f"{again[0]!r}, which comes again below it,"
    problem = f"{source}: the first line holds {what} and was read as the header"
    remedy = Pass("header", False, when="if it is not the header")
    warn(DataWarning("header", problem, remedy=remedy, joint="; "))


def warn_of_marks(frame: pd.DataFrame, source: str, lines: Sequence[int], *, header: bool, skip_rows: int) -> None:
    """Warn of texts among numbers, and of question marks: lines of units, or marks of missing cells.

    ``lines`` are the lines of the file in which the first rows stand.
    """
    found = warn_of_label_lines(_find_texts(frame), frame, lines, source, header=header, skip_rows=skip_rows)
    _warn_of_texts(found, source)


def warn_of_texts(frame: pd.DataFrame, source: str, *, marks: bool = False) -> None:
    """Warn of texts among numbers, and of question marks, wherever they are.

    With ``marks`` only those are told that are neither words nor codes, as of columns that the user calls categories.
    """
    found = _find_texts(frame)
    if marks:
        found = {name: {text: count for text, count in texts.items() if is_mark(text)} for name, texts in found.items()}
    _warn_of_texts(found, source)


def _find_texts(frame: pd.DataFrame) -> dict[Any, dict[str, int]]:
    """The texts among the numbers or dates of each column of texts; elsewhere the question mark alone."""
    texts = {name: frame[name] for name in frame.columns if holds_text(frame[name].dtype)}
    strings = {name: cells for name, cells in texts.items() if infer_dtype(cells, skipna=True) == "string"}
    found = {}
    for name, cells in strings.items():
        counts = {str(text): count for text, count in cells.value_counts().items()}
        odd = texts_among_numbers(counts, decimal_of(frame))
        found[name] = odd or {text: count for text, count in counts.items() if text == "?"}
    return found


def _warn_of_texts(found: Mapping[Any, dict[str, int]], source: str) -> None:
    """Warn of marks, of other texts that are few in a column, and of those that are too many to be named."""
    words = {name: {text: n for text, n in texts.items() if not is_mark(text)} for name, texts in found.items()}
    few = {name: texts for name, texts in words.items() if len(texts) <= MOST_NAMED}
    marks = {name: {text: n for text, n in texts.items() if is_mark(text)} for name, texts in found.items()}
    for each in (marks, few):
        if any(each.values()):
            warn(_few_texts(each, source))
    many = {name: texts for name, texts in words.items() if name not in few}
    if many:
        warn(_many_texts(many, source))


def _few_texts(found: Mapping[Any, dict[str, int]], source: str) -> DataWarning:
    places = by_text(found)
    often = list(places)
    problem = f"{source} holds {listed_with_columns(places)}: {_CATEGORIES}"
    remedies = as_missing(often)
    if any(map(has_note, often)):
        limits = "if they are limits or notes"
        remedies.append(Do("write numbers in their place, such as the limit or half of it", when=limits))
    columns = list(dict.fromkeys(name for text in often for name in places[text]))
    if any("24:00" in text for text in often):
        remedies.append(Do("write 24:00 as 00:00 of the next day", when="if it ends a day"))
    if not any(map(is_mark, often)):
        remedies.append(_read_as_text(columns))
    return DataWarning("marks", problem, columns=columns, value=often, remedy=remedies, joint="; ")


def _many_texts(found: Mapping[Any, dict[str, int]], source: str) -> DataWarning:
    each = "; ".join(f"{listed(texts)} of column {name!r}" for name, texts in list(found.items())[:SHOWN])
    more = f"; and more in {len(found) - SHOWN} other columns" if len(found) > SHOWN else ""
    problem = f"{source} holds texts among numbers or dates ({each}{more}): {_CATEGORIES}"
    remedies = _read_as_text(list(found)), Do("write numbers or dates in their place")
    texts = list(dict.fromkeys(text for texts in found.values() for text in texts))
    return DataWarning("marks", problem, columns=list(found), value=texts, remedy=remedies, joint="; ")


def _read_as_text(columns: Sequence[Name]) -> Pass:
    goal = f"read the column{'s' if len(columns) > 1 else ''} as text,"
    return Pass("string_columns", [str(name) for name in columns], goal=goal, when="if they are codes")


def warn_of_unheld(frame: pd.DataFrame, source: str, decimal: str) -> None:
    """Warn of cells that make text of a column of numbers or of dates, since no dtype holds them."""
    for name in frame.columns:
        at = frame[name].first_valid_index() if holds_text(frame[name].dtype) else None
        first = "" if at is None else frame[name][at]
        if not isinstance(first, str) or not (looks_numeric(first) or DATE.fullmatch(first) or is_date_or_time(first)):
            continue  # most columns of text end here, at little cost
        counts = {str(text): int(count) for text, count in frame[name].value_counts(sort=False).items()}
        kind, cells = find_unheld(list(counts), decimal)
        if cells:
            shown = listed({text: counts[text] for text in cells})
            problem = f"{source}: column {name!r} holds {shown}, {kind}, so that the whole column is text"
            several = len(cells) > 1
            remedies: list[Remedy] = [Do("mend them" if several else "mend it")]
            if any("24:00" in text for text in cells):
                remedies.append(Do("write 24:00 as 00:00 of the next day", when="if it ends a day"))
            if any(map(marks_dates, cells)):
                remedies.append(
                    Do("leave them empty" if several else "leave it empty", when="if it stands for a missing cell")
                )
            elif len(cells) <= MOST_NAMED:
                goal = f"have {'them' if several else 'it'} count as missing,"
                remedies.append(Pass("missing_values", cells, goal=goal))
            if "whole" in kind:
                amounts = "if they are amounts"
                remedies.append(Do("write one of the numbers with a decimal point", when=amounts))
            warning = DataWarning("unheld", problem, columns=[name], value=cells[0], remedy=remedies)
            warn(warning)
