"""Warnings about text that can be read, but probably not as it was: header lines and marks of missing cells."""

from __future__ import annotations

import re
import warnings

import pandas as pd

from missdiff_fast.table.dtypes import holds_text

_STACK = 4  # from a warning here up to whoever called read_table
_SHOWN = 3
_MOST_MARKS = 3  # with more texts among its numbers, a column is one of codes


def warn_of_header(frame: pd.DataFrame, source: str) -> None:
    """Warn if the line taken for the header looks like data: numbers, or cells that come again below it."""
    names = [str(name) for name in frame.columns]
    numbers = [name for name in names if _looks_numeric(name)]
    again = [name for name in names if holds_text(frame[name].dtype) and (frame[name] == name).any()]
    if len(numbers) + len(again) <= len(names) / 4:
        return
    what = f"numbers such as {numbers[0]!r}" if numbers else f"{again[0]!r}, which comes again below it,"
    warnings.warn(
        f"{source}: the first line holds {what} and was read as the header; if it is none, pass header=False",
        stacklevel=_STACK,
    )


def warn_of_marks(frame: pd.DataFrame, source: str, *, header: bool, skip_rows: int) -> None:
    """Warn of texts among numbers, and of question marks: a second header line, or marks of missing cells."""
    found = {name: _odd_texts(frame[name]) for name in frame.columns if holds_text(frame[name].dtype)}
    first = {name: frame[name].iloc[0] for name, texts in found.items() if list(texts.values()) == [1]}
    first = {name: text for name, text in first.items() if text in found[name]}
    if header and len(set(first.values())) > frame.shape[1] / 4:
        found = {name: texts for name, texts in found.items() if name not in first}
        warnings.warn(
            f"{source}: the first row holds texts such as {next(iter(first.values()))!r} where all others hold "
            f"numbers; if it is the header and the line before it is none, pass skip_rows={skip_rows + 1}",
            stacklevel=_STACK,
        )
    marks: dict[str, list[object]] = {}
    for name, texts in found.items():
        # V45 among 250 and 401 is a code like them, and so may be what else stands there.
        codes = any(re.search(r"\d", text) for text in texts)
        for text in texts:
            if codes and text != "?":
                continue
            marks.setdefault(text, []).append(name)
    if marks:
        often = sorted(marks, key=lambda text: -len(marks[text]))
        each = "; ".join(f"{text!r} in {_columns(marks[text])}" for text in often[:_SHOWN])
        more = f"; and {len(often) - _SHOWN} more" if len(often) > _SHOWN else ""
        warnings.warn(
            f"{source} holds {each}{more}. What stands for a missing cell has to be named, "
            f"missing_values={often[:_SHOWN]!r}; otherwise it counts as a category, and so do the numbers beside it",
            stacklevel=_STACK,
        )


def _odd_texts(column: pd.Series) -> dict[str, int]:
    """How often each of the few texts comes that stand among numbers; failing those, the question mark."""
    counts = column.value_counts()
    if not all(isinstance(text, str) for text in counts.index):
        return {}
    odd = [text for text in counts.index if not _looks_numeric(text)]
    numbers = counts.drop(odd)
    if not (len(odd) <= _MOST_MARKS and len(odd) < len(numbers) and 2 * numbers.sum() > counts.sum()):
        odd = ["?"] if "?" in odd else []
    return {text: int(counts[text]) for text in odd}


def _looks_numeric(text: str) -> bool:
    return re.fullmatch(r"[+-]?(\d+[.,]?\d*|[.,]\d+)(e[+-]?\d+)?", text, re.IGNORECASE) is not None


def _columns(names: list[object]) -> str:
    shown = ", ".join(map(repr, names[:_SHOWN]))
    return f"column {shown}" if len(names) == 1 else f"{len(names)} columns ({shown}{', ...' * (len(names) > _SHOWN)})"
