"""The names of the columns of delimited text: whether the first row has them, and which."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from missdiff_fast.errors import DataWarning, warn
from missdiff_fast.remedies import Do, Pass
from missdiff_fast.table.fields import MISSING_TEXTS, content, splitter
from missdiff_fast.table.limits import is_limit
from missdiff_fast.table.odd_texts import looks_numeric
from missdiff_fast.table.sources import refuse_twice
from missdiff_fast.table.text_lines import Lines
from missdiff_fast.table.text_rows import WHITESPACE, Rows, make_even
from missdiff_fast.table.usual_marks import is_usual_mark

_ROWS, _LEAST_ROWS, _CELLS = 300, 40, 30_000  # rows looked at; of wide tables fewer, so that they have so many cells
LEAST = 5  # rows below the first one that tell what the columns hold
_NUMERIC = 0.95  # of a column's cells, so many at least are numbers or limits

Cells = list[list[str]]


def first_cells(lines: Lines, rows: Rows, separator: str) -> tuple[Cells, list[int]]:
    """The cells of the first rows that are not blank, and the lines that these begin with."""
    split = splitter(separator)
    width = max(1, int(rows.fields[rows.filled(1)[0]]))
    full = rows.filled(max(_LEAST_ROWS, min(_ROWS, _CELLS // width)))
    places = [(int(rows.first[at]), int(rows.last[at])) for at in full]
    cells = [[content(one).strip() for one in split(lines.text(*place))] for place in places]
    return cells, [first for first, _ in places]


def has_header(cells: Cells, source: str) -> bool:
    """Whether the first row names the columns; a warning tells where it does not.

    It is data where it has a number, or a missing cell, in every column of numbers, and in at least half of the columns
    of text a text that other rows have, too. Numbers with equal steps all along the row, such as years, are names.

    >>> has_header([["age", "sex"], *[["31", "f"]] * 6], "t.csv")
    True
    """
    first = cells[0]
    others = [row for row in cells[1:] if len(row) == len(first) and row != first]
    if len(others) < LEAST:
        return True
    columns = list(zip(*others, strict=True))
    numeric = [is_numeric(column) for column in columns]
    numbers = [name for name, number in zip(first, numeric, strict=True) if number and not is_missing(name)]
    texts = [(name, set(column)) for name, column, number in zip(first, columns, numeric, strict=True) if not number]
    texts = [(name, known) for name, known in texts if not is_missing(name)]
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


def is_missing(text: str) -> bool:
    """Whether a cell's text means, or usually means, that it is missing."""
    return text in MISSING_TEXTS or is_usual_mark(text)


def is_numeric(column: Sequence[str]) -> bool:
    """Whether nearly all cells of a column that are not missing are numbers or limits."""
    observed = [text for text in column if not is_missing(text)]
    like_numbers = sum(looks_numeric(text) or is_limit(text) for text in observed)
    return bool(observed) and like_numbers >= _NUMERIC * len(observed)


def _is_sequence(numbers: Sequence[str]) -> bool:
    """Whether numbers are names such as years: they rise or fall by equal steps, two of them by 1."""
    steps = np.diff([float(text.replace(",", ".")) for text in numbers])
    equal = len(steps) > 0 and steps[0] != 0 and bool(np.allclose(steps, steps[0]))
    return equal and (len(steps) > 1 or abs(steps[0]) == 1)


@dataclass(frozen=True)
class ColumnNames:
    """The columns' names, and how many fields the header has, those at its end without a name and column left out."""

    names: list[str] | list[int]
    given: int

    @property
    def width(self) -> int:
        """The number of columns."""
        return len(self.names)


def name_columns(lines: Lines, rows: Rows, separator: str, header: bool, source: str) -> tuple[ColumnNames, Rows]:
    """The columns' names, and the rows made even; ValueError where a name comes twice, or as of `make_even`."""
    full = rows.filled()
    fields = rows.fields[full]
    if not header:
        width = int(fields[0])
        rows = make_even(lines, rows, full, width, "the first row has", separator, source)
        return ColumnNames(list(range(width)), width), rows
    first, last = int(rows.first[full[0]]), int(rows.last[full[0]])
    head = [f"{lines.line(number)}\n" for number in range(first, last + 1)]  # a name in quotes may span lines
    if separator == WHITESPACE:
        names = head[0].split()
    else:
        names = [name.strip() for name in next(csv.reader(head, delimiter=separator, skipinitialspace=True))]
    given = len(names)
    width = _commonest(fields[1:]) if len(fields) > 1 else given
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
    refuse_twice(called, source, f"in line {first}{ours}", Do("give each column a name of its own"), no_header)
    return ColumnNames(called, given), rows


def _commonest(numbers: np.ndarray) -> int:
    least = int(numbers.min())
    return least if least == numbers.max() else int(np.bincount(numbers).argmax())


def drop_unnamed_columns(
    frame: pd.DataFrame, columns: ColumnNames, rows: Rows, header: bool, source: str
) -> pd.DataFrame:
    """The frame without empty columns that have no name; ValueError if one beyond the header has a cell."""
    given, width = columns.given, columns.width
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
