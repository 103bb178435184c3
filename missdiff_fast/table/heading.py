"""Whether the first row of delimited text names the columns, and which rows below it hold labels such as units."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from missdiff_fast.errors import DataWarning, warn
from missdiff_fast.remedies import Pass
from missdiff_fast.table.fields import MISSING_TEXTS, content, joined, splitter
from missdiff_fast.table.hints import are_generic
from missdiff_fast.table.limits import is_limit
from missdiff_fast.table.odd_texts import is_mark, looks_numeric
from missdiff_fast.table.text_rows import Rows

_ROWS = 300  # rows looked at
_LEAST = 5  # rows below the first one that tell what the columns hold
_NUMERIC = 0.95  # of a column's cells, so many at least are numbers or limits
_MOST_LABELS = 3  # rows of units, types or labels
_LABELLED, _LEAST_LABELS = 0.25, 2  # of the columns, more than this share have a label, of which so many differ

Cells = list[list[str]]


def first_cells(lines: list[str], ends: list[str] | None, rows: Rows, separator: str) -> tuple[Cells, list[int]]:
    """The cells of the first rows that are not blank, and the lines that these begin with."""
    split = splitter(separator)
    full = np.flatnonzero(~rows.blank)[:_ROWS]
    places = [(int(rows.first[at]), int(rows.last[at])) for at in full]
    cells = [[content(one).strip() for one in split(joined(lines, ends, *place))] for place in places]
    return cells, [first for first, _ in places]


def has_header(cells: Cells, source: str) -> bool:
    """Whether the first row names the columns; a warning tells where it does not.

    It is data where it has a number, or a missing cell, in every column of numbers, and in at least half of the columns
    of text a text that other rows have, too. Numbers that rise or fall all along the row, such as years, are names.

    >>> has_header([["age", "sex"], *[["31", "f"]] * 6], "t.csv")
    True
    """
    first = cells[0]
    others = [row for row in cells[1:] if len(row) == len(first) and row != first]
    if len(others) < _LEAST:
        return True
    columns = list(zip(*others, strict=True))
    numeric = [_is_numeric(column) for column in columns]
    numbers = [name for name, number in zip(first, numeric, strict=True) if number and not _is_missing(name)]
    texts = [(name, set(column)) for name, column, number in zip(first, columns, numeric, strict=True) if not number]
    texts = [(name, known) for name, known in texts if not _is_missing(name)]
    if not all(map(looks_numeric, numbers)) or _is_sequence(numbers):
        return True
    known = [name for name, values in texts if name in values]
    if 2 * len(known) < len(texts) or not numbers + known:
        return True
    example = numbers[0] if numbers else known[0]
    what = f"{example!r}, as the rows below it do" if not numbers else f"numbers such as {example!r}"
    problem = f"{source}: the first line holds {what} and was read as data: the columns are called 0, 1, 2, ..."
    remedy = Pass("header", True, when="if it is the header")
    warn(DataWarning("header", problem, value=example, remedy=remedy, joint="; "))
    return False


def label_rows(cells: Cells, *, header: bool) -> dict[int, str]:
    """The rows below the header, up to three, that hold units, types or labels: places among ``cells``, to a label.

    In columns of numbers they have no number, and texts that no other row has: in more than a quarter of all columns,
    and not the same in all.

    >>> label_rows([["height", "weight"], ["cm", "kg"], *[["170", "61.5"]] * 7], header=True)
    {1: 'cm'}
    """
    if not header or len(cells) < 1 + _MOST_LABELS + _LEAST:
        return {}
    width, found = len(cells[0]), dict[int, str]()
    columns = list(zip(*[row for row in cells[1 + _MOST_LABELS :] if len(row) == width], strict=True))
    numeric = [place for place, column in enumerate(columns) if _is_numeric(column)]
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
    return not (_is_missing(text) or looks_numeric(text) or is_limit(text) or is_mark(text))


def _is_missing(text: str) -> bool:
    return text in MISSING_TEXTS or text == "?"


def _is_numeric(column: Sequence[str]) -> bool:
    observed = [text for text in column if not _is_missing(text)]
    like_numbers = sum(looks_numeric(text) or is_limit(text) for text in observed)
    return bool(observed) and like_numbers >= _NUMERIC * len(observed)


def _is_sequence(numbers: Sequence[str]) -> bool:
    """Whether numbers rise or fall all along."""
    steps = np.diff([float(text.replace(",", ".")) for text in numbers])
    return len(numbers) > 1 and bool((steps > 0).all() or (steps < 0).all())
