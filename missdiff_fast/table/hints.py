"""Warnings for text files that were probably misread: header lines taken for rows, marks of missing cells."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from typing import Any

import pandas as pd

from missdiff_fast.errors import DataWarning
from missdiff_fast.remedies import Do, LeaveOut, Pass, Remedy
from missdiff_fast.table.dates import DATE
from missdiff_fast.table.dtypes import holds_text
from missdiff_fast.table.literals import find_unheld
from missdiff_fast.table.schema import Name

_STACK = 4  # stack level of the caller of read_table
_SHOWN = 3
_PADDED = re.compile(r"[+-]?0\d")
_MOST_MARKS = 3  # with more texts among its numbers, a column holds codes


def warn_of_header(frame: pd.DataFrame, source: str) -> None:
    """Warn if the line taken for the header looks like data: numbers, or texts that recur below it."""
    names = [str(name) for name in frame.columns]
    numbers = [name for name in names if _looks_numeric(name)]
    again = [name for name in names if holds_text(frame[name].dtype) and (frame[name] == name).any()]
    if len(numbers) + len(again) <= len(names) / 4:
        return
    what = f"numbers such as {numbers[0]!r}" if numbers else f"{again[0]!r}, which comes again below it,"
    problem = f"{source}: the first line holds {what} and was read as the header"
    remedy = Pass("header", False, when="if it is not the header")
    warnings.warn(DataWarning("header", problem, remedy=remedy, joint="; "), stacklevel=_STACK)


def warn_of_marks(frame: pd.DataFrame, source: str, *, header: bool, skip_rows: int) -> None:
    """Warn of texts among numbers, and of question marks: a second header line, or marks of missing cells."""
    found = {name: _odd_texts(frame[name]) for name in frame.columns if holds_text(frame[name].dtype)}
    first = {name: frame[name].iloc[0] for name in found}
    first = {name: text for name, text in first.items() if found[name].get(text) == 1}
    # A header among the rows leaves no column of numbers; a second one may have gaps.
    alone = not header and not any(pd.api.types.is_numeric_dtype(dtype) for dtype in frame.dtypes)
    if first and (alone or len(set(first.values())) > frame.shape[1] / 4):
        found = {
            name: {text: count for text, count in texts.items() if text == "?" or (header and text != first.get(name))}
            for name, texts in found.items()
        }
        text = next(iter(first.values()))
        problem = f"{source}: the first row holds texts such as {text!r} where all others hold numbers"
        remedy: Remedy = LeaveOut("header", False, when="if it is the header")
        if header:
            when = "if it is the header and the line before it is not"
            remedy = Pass("skip_rows", skip_rows + 1, when=when)
        warnings.warn(DataWarning("header", problem, value=text, remedy=remedy, joint="; "), stacklevel=_STACK)
    _warn_of_texts(found, source)


def warn_of_texts(frame: pd.DataFrame, source: str) -> None:
    """Warn of texts among numbers, and of question marks, wherever they are."""
    _warn_of_texts({name: _odd_texts(frame[name]) for name in frame.columns if holds_text(frame[name].dtype)}, source)


def _warn_of_texts(found: Mapping[Any, dict[str, int]], source: str) -> None:
    marks: dict[str, list[Name]] = {}
    for name, texts in found.items():
        # V45 among 250 and 401 is a code, and so may be the column's other texts.
        codes = any(re.search(r"\d", text) for text in texts)
        for text in texts:
            if codes and text != "?":
                continue
            marks.setdefault(text, []).append(name)
    if marks:
        often = sorted(marks, key=lambda text: -len(marks[text]))
        each = "; ".join(f"{text!r} in {_columns(marks[text])}" for text in often[:_SHOWN])
        more = f"; and {len(often) - _SHOWN} more" if len(often) > _SHOWN else ""
        problem = f"{source} holds {each}{more}: such texts are categories, and so are the numbers or dates beside them"
        columns = list(dict.fromkeys(name for text in often for name in marks[text]))
        remedy = Pass("missing_values", often[:_SHOWN], goal="name them,", when="if they stand for missing cells")
        warning = DataWarning("marks", problem, columns=columns, value=often, remedy=remedy, joint="; ")
        warnings.warn(warning, stacklevel=_STACK + 1)


def warn_of_unheld(frame: pd.DataFrame, source: str, decimal: str) -> None:
    """Warn of cells that make text of a column of numbers or of dates, since no dtype holds them."""
    for name in frame.columns:
        at = frame[name].first_valid_index() if holds_text(frame[name].dtype) else None
        first = "" if at is None else frame[name][at]
        if not isinstance(first, str) or not (_looks_numeric(first) or DATE.fullmatch(first)):
            continue  # most columns of text end here, at little cost
        kind, cells = find_unheld(frame[name].dropna().unique().tolist(), decimal)
        if cells:
            more = f" and {len(cells) - 1:,} more" if len(cells) > 1 else ""
            problem = f"{source}: column {name!r} holds {cells[0]!r}{more}, {kind}, so that the whole column is text"
            remedies: list[Remedy] = [Do("mend it")]
            remedies.append(Pass("missing_values", cells[:_SHOWN], goal="have it count as missing,"))
            if "whole" in kind:
                amounts = "if they are amounts"
                remedies.append(Do("write one of the numbers with a decimal point", when=amounts))
            warning = DataWarning("unheld", problem, columns=[name], value=cells[0], remedy=remedies)
            warnings.warn(warning, stacklevel=_STACK)


def warn_of_zeros(texts: pd.DataFrame, source: str) -> None:
    """Warn of leading zeros in columns that were read as numbers; `texts` are their cells as written."""
    cells = {name: texts[name].dropna().astype(str).str.strip().unique() for name in texts.columns}
    padded = {name: next((text for text in column if _PADDED.match(text)), None) for name, column in cells.items()}
    found = {name: text for name, text in padded.items() if text is not None}
    if found:
        each = ", ".join(f"{text!r} in column {name!r}" for name, text in list(found.items())[:_SHOWN])
        more = f", and in {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        problem = f"{source}: columns of numbers lose leading zeros ({each}{more})"
        names = [str(name) for name in found]
        remedy = Pass("string_columns", names, goal="read them as text,", when="if they are codes")
        warnings.warn(DataWarning("zeros", problem, columns=list(found), remedy=remedy), stacklevel=_STACK)


def _odd_texts(column: pd.Series) -> dict[str, int]:
    """Counts of the few texts among numbers or dates; where there are none, the count of the question mark."""
    counts = column.value_counts()
    if not all(isinstance(text, str) for text in counts.index):
        return {}
    odd = [text for text in counts.index if not _looks_numeric(text) and not DATE.fullmatch(text)]
    numbers = counts.drop(odd)
    if not (len(odd) <= _MOST_MARKS and len(odd) < len(numbers) and 2 * numbers.sum() > counts.sum()):
        odd = ["?"] if "?" in odd else []
    return {text: int(counts[text]) for text in odd}


def _looks_numeric(text: str) -> bool:
    return re.fullmatch(r"[+-]?(\d+[.,]?\d*|[.,]\d+)(e[+-]?\d+)?", text, re.IGNORECASE) is not None


def _columns(names: list[Name]) -> str:
    shown = ", ".join(map(repr, names[:_SHOWN]))
    return f"column {shown}" if len(names) == 1 else f"{len(names)} columns ({shown}{', ...' * (len(names) > _SHOWN)})"
