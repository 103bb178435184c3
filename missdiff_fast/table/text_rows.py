"""Rows of delimited text: their lines and fields, and the blank rows that belong to the table."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from missdiff_fast.errors import DataError, DataWarning, warn
from missdiff_fast.remedies import Do, Give
from missdiff_fast.table.text_lines import Lines

WHITESPACE = r"\s+"
_ODD = 0.01  # of the rows, at most this share may have another number of fields
_SHOWN = 3  # lines in a message


@dataclass(frozen=True)
class Rows:
    """The rows of a text: 1-based first and last line, number of fields, and whether they are blank, each ``[N]``."""

    first: np.ndarray
    last: np.ndarray
    fields: np.ndarray
    blank: np.ndarray

    def filled(self, most: int | None = None) -> np.ndarray:
        """The places of the rows that are not blank, or of the first of them, so many as ``most``; int64."""
        reach = len(self.blank) if most is None else most
        while reach < len(self.blank) and np.count_nonzero(~self.blank[:reach]) < (most or 0):
            reach *= 2
        return np.flatnonzero(~self.blank[:reach])[:most]

    def without(self, left_out: np.ndarray, lines: Lines) -> Rows:
        """The rows, some of them left out: they are blank, and so are their ``lines``, which change."""
        blank, fields = self.blank.copy(), self.fields.copy()
        blank[left_out], fields[left_out] = True, 0
        for first, last in zip(self.first[left_out].tolist(), self.last[left_out].tolist(), strict=True):
            lines.blank(first, last)
        return Rows(self.first, self.last, fields, blank)


def make_even(lines: Lines, rows: Rows, index: np.ndarray, width: int, than: str, separator: str, source: str) -> Rows:
    """Rows that all have ``width`` fields, that of ``than``; what that costs is told.

    Separators at the end of a line with nothing after them are taken off. Of at most one row in a hundred that has
    another number of fields all the same, the lines are left out: they become empty, in ``lines`` too.

    Parameters
    ----------
    lines : Lines
        The text's lines; changed.
    rows : Rows
        Its rows.
    index : ndarray
        The places of those that are to be even.
    width : int
        How many fields they are to have.
    than : str
        What has as many fields, for messages.
    separator, source : str
        The separator, and what messages call the file.

    Raises
    ------
    ValueError
        If more than one row in a hundred has another number of fields; the message names their lines.
    """
    if (rows.fields[index] == width).all():
        return rows
    rows = _without_ends(lines, rows, index, width, separator, source)
    odd = index[rows.fields[index] != width]
    if not len(odd):
        return rows
    n, fields = int(rows.first[odd[0]]), int(rows.fields[odd[0]])
    others = f" (and {len(odd) - 1:,} more such: {_lines(rows.first[odd[1:]])})" if len(odd) > 1 else ""
    problem = f"{source}, line {n}: {fields} field{'s' if fields != 1 else ''} where {than} {width}{others}"
    mend = Do("mend the lines (a separator within a value needs quotes)")
    if len(odd) > _ODD * len(index):
        raise DataError("fields", problem, value=n, remedy=(mend, Give("separator")))
    warning = f"{problem}: no rows are read of these lines" if others else f"{problem}: no row is read of this line"
    warn(DataWarning("fields", warning, value=n, remedy=mend, joint="; "))
    return rows.without(odd, lines)


def _without_ends(lines: Lines, rows: Rows, index: np.ndarray, width: int, separator: str, source: str) -> Rows:
    """The rows without surplus separators at the end of their line; told."""
    number, trimmed = rows.fields.copy(), list[int]()
    for at in index[(rows.fields[index] > width) & (rows.first[index] == rows.last[index])]:
        line = int(rows.first[at])
        text, surplus = lines.line(line), int(number[at]) - width
        end = re.search(rf"(?:{re.escape(separator)}[ \t]*){{{surplus}}}\Z", text)
        if separator != WHITESPACE and end is not None and text.count('"') % 2 == 0:
            lines.change(line, text[: end.start()])
            number[at] = width
            trimmed.append(line)
    if trimmed:
        several = len(trimmed) > 1
        problem = f"{source}: {_lines(trimmed)} end{'' if several else 's'} with a separator after the last field"
        warning = DataWarning("fields", problem, value=trimmed[0], remedy=Do("nothing is lost"), joint="; ")
        warn(warning)
    return replace(rows, fields=number)


def _lines(numbers: Sequence[int] | np.ndarray) -> str:
    """Some numbers of lines in words."""
    shown = ", ".join(f"{int(number)}" for number in numbers[:_SHOWN]) + ", ..." * (len(numbers) > _SHOWN)
    return f"line{'s' if len(numbers) > 1 else ''} {shown}"


def find_rows_of_holes(
    lines: Lines, rows: Rows, width: int, header: bool, keep_blank_rows: bool, skip_rows: int
) -> np.ndarray:
    """The blank rows that are rows of the table with all cells missing."""
    below = rows.first > (rows.first[rows.filled(1)[0]] if header else skip_rows)
    place = np.arange(len(rows.blank), dtype=np.int32)
    if width > 1:
        last = len(place) if keep_blank_rows else len(place) - int(np.argmin(rows.blank[::-1]))
        return rows.blank & below & (rows.fields > 1) & (place < last)
    # In a single column a missing cell is an empty line, unless it was written as a pair of quotes.
    last = len(place) - 1
    if keep_blank_rows:
        last -= not lines.line(len(lines))  # the text after the last newline is empty and is no row
    else:
        while rows.blank[last] and not lines.line(int(rows.first[last])).strip():
            last -= 1
    return rows.blank & below & (place <= last)


def fill_blank_rows(lines: Lines, rows: Rows, holes: np.ndarray, width: int, separator: str) -> Rows:
    """Have the parser take blank rows for rows of empty cells, or skip them; those rows are blank no more."""
    # The parser skips an empty line, but not one with an empty cell in quotes.
    hole = (" " if separator == WHITESPACE else separator).join(['""'] * width)
    for at in np.flatnonzero(rows.blank):
        lines.blank(int(rows.first[at]), int(rows.last[at]))
        if holes[at]:
            lines.change(int(rows.first[at]), hole)
    return replace(rows, blank=rows.blank & ~holes)


def warn_of_blank_rows(rows: Rows, holes: np.ndarray, width: int, source: str) -> None:
    """Warn of dropped blank rows, those not in ``holes``, and of kept ones at the end; see `find_rows_of_holes`."""
    dropped = rows.blank & ~holes
    if width > 1:
        after = len(rows.blank) - int(np.argmin(rows.blank[::-1]))  # of the last row with a cell
        if kept := int(holes[after:].sum()):
            warn(f"{source}: its last rows, {kept:,}, have no cell and are taken as rows: delete them if they are none")
        count = int((dropped & (rows.fields > 1)).sum())
        if count:
            warn(f"{source}: {count:,} blank rows were dropped")
        return
    count = int((dropped & (rows.first > rows.last[~dropped].max())).sum()) - 1
    if count > 0:
        warn(f"{source}: {count:,} blank lines at its end were dropped; if they are missing cells, write NA in them")
