"""Lines below the header, or above the rows, that hold units, types or labels: left out, or told."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from missdiff_fast.errors import DataWarning, warn
from missdiff_fast.remedies import LeaveOut, Pass, Remedy
from missdiff_fast.table.heading import LEAST, Cells, is_missing, is_numeric
from missdiff_fast.table.limits import is_limit
from missdiff_fast.table.odd_texts import is_mark, looks_numeric

_MOST_LABELS = 3  # rows of units, types or labels
_LABELLED, _LEAST_LABELS = 0.25, 2  # of the columns, more than this share have a label, of which so many differ
# Names that a program made, above which the header may come later: X1, Column 2, Unnamed: 3.
_GENERIC = re.compile(r"([a-z]{0,8}[ _.:-]*\d+)?|[a-z]", re.IGNORECASE)


def label_rows(cells: Cells, *, header: bool) -> dict[int, str]:
    """The rows below the header, up to three, that hold units, types or labels: places among ``cells``, to a label.

    In columns of numbers they have no number, and texts that no other row has: in more than a quarter of all columns,
    and not the same in all.

    >>> label_rows([["height", "weight"], ["cm", "kg"], *[["170", "61.5"]] * 7], header=True)
    {1: 'cm'}
    """
    if not header or len(cells) < 1 + _MOST_LABELS + LEAST:
        return {}
    width, found = len(cells[0]), dict[int, str]()
    columns = list(zip(*[row for row in cells[1 + _MOST_LABELS :] if len(row) == width], strict=True))
    numeric = [place for place, column in enumerate(columns) if is_numeric(column)]
    for at in range(1, 1 + _MOST_LABELS):
        row = cells[at]
        odd = _labels(row, numeric) if len(row) == width else []
        again = {text for other in cells[1:] if other is not row for text in other}
        if len(odd) <= _LABELLED * width or len(set(odd)) < _LEAST_LABELS or not again.isdisjoint(odd):
            break
        found[at] = odd[0]
    return found


def _labels(row: Sequence[str], numeric: Sequence[int]) -> list[str]:
    """The texts of a row in columns of numbers; none if it has a number there."""
    own = [row[place] for place in numeric]
    return [] if any(looks_numeric(text) or is_limit(text) for text in own) else list(filter(_is_label, own))


def warn_of_labels(text: str, lines: Sequence[int], names: Sequence[str], source: str, skip_rows: int) -> None:
    """Warn that rows of labels, such as ``text``, were left out: those that begin in these lines."""
    several = len(lines) > 1
    where = f"lines {lines[0]} to {lines[-1]} hold" if several else f"line {lines[0]} holds"
    left = "they were left out" if several else "it was left out"
    problem = f"{source}: {where} texts such as {text!r} where the others hold numbers, so {left}"
    remedies = [Pass("skip_lines", list(lines), when="to silence this")]
    if are_generic(names):
        when = "if it is the header and the line before it is not"
        remedies.insert(0, Pass("skip_rows", skip_rows + 1, when=when))
    warn(DataWarning("header", problem, value=text, remedy=remedies, joint="; "))


def _is_label(text: str) -> bool:
    return not (is_missing(text) or looks_numeric(text) or is_limit(text) or is_mark(text))


def warn_of_label_lines(
    found: Mapping[Any, dict[str, int]],
    frame: pd.DataFrame,
    lines: Sequence[int],
    source: str,
    *,
    header: bool,
    skip_rows: int,
) -> dict[Any, dict[str, int]]:
    """Warn of lines of labels that were read as rows; they are too few, or too unlike, to be left out unasked.

    Parameters
    ----------
    found : mapping
        The texts among the numbers of each column, with their counts.
    frame : DataFrame
        The table as read.
    lines : sequence of int
        The lines of the file in which the first rows stand.
    source : str
        The file's name.
    header : bool
        Whether the first row names the columns.
    skip_rows : int
        As of `missdiff_fast.table.read_table`.

    Returns
    -------
    dict
        The texts that were not told.
    """
    # A header among the rows leaves no column of numbers; a second one may have gaps.
    alone = not header and not any(pd.api.types.is_numeric_dtype(dtype) for dtype in frame.dtypes)
    found = {name: dict(texts) for name, texts in found.items()}
    texts: list[str] = []
    places: list[int] = []
    for row, line in zip(range(min(_MOST_LABELS, len(frame))), lines, strict=False):
        first = {name: frame[name].iloc[row] for name in found}
        first = {name: text for name, text in first.items() if found[name].get(text) == 1}
        if not first or not (alone or len(set(first.values())) > frame.shape[1] / 4):
            break
        texts.extend(first.values())
        places.append(line)
        for name, text in first.items():
            if text != "?":
                del found[name][text]
        if not header:
            found = {name: {text: count for text, count in odd.items() if text == "?"} for name, odd in found.items()}
            break
    if texts:
        _warn_of_lines(texts[0], source, places, list(map(str, frame.columns)), header=header, skip_rows=skip_rows)
    return found


def _warn_of_lines(text: str, source: str, lines: list[int], names: list[str], *, header: bool, skip_rows: int) -> None:
    """Warn of lines of units, types or labels below the header, or of a header among the rows."""
    several = len(lines) > 1
    where = f"lines {lines[0]} to {lines[-1]} hold" if several else f"line {lines[0]} holds"
    problem = f"{source}: {where} texts such as {text!r} where all others hold numbers"
    them = "them" if several else "it"
    units = f"if {'they hold' if several else 'it holds'} units, types or labels"
    remedies: list[Remedy] = [Pass("skip_lines", lines, goal=f"leave {them} out,", when=units)]
    if not header:
        remedies = [LeaveOut("header", False, when="if it is the header")]
    elif are_generic(names):
        when = "if it is the header and the line before it is not"
        remedies.insert(0, Pass("skip_rows", skip_rows + 1, when=when))
    warn(DataWarning("header", problem, value=text, remedy=remedies, joint="; "))


def are_generic(names: Sequence[str]) -> bool:
    """Whether most names are such as a program makes, like X1 or Column 2."""
    return sum(_GENERIC.fullmatch(name) is not None for name in names) > len(names) / 2
