"""Rows of delimited text: their lines and fields, and the blank rows that belong to the table."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from missdiff_fast.errors import DataError, DataWarning, warn
from missdiff_fast.remedies import Do, Give

WHITESPACE = r"\s+"
_ODD = 0.01  # of the rows, at most this share may have another number of fields
_SHOWN = 3  # lines in a message


@dataclass(frozen=True)
class Rows:
    """The rows of a text: 1-based first and last line, number of fields, and whether they are blank."""

    first: np.ndarray
    last: np.ndarray
    fields: np.ndarray
    blank: np.ndarray

    def without(self, left_out: np.ndarray, lines: list[str]) -> Rows:
        """The rows, some of them left out: they are blank, and so are their ``lines``, which change."""
        blank, fields = self.blank.copy(), self.fields.copy()
        blank[left_out], fields[left_out] = True, 0
        for first, last in zip(self.first[left_out].tolist(), self.last[left_out].tolist(), strict=True):
            lines[first - 1 : last] = [""] * (1 + last - first)
        return Rows(self.first, self.last, fields, blank)


def split_lines(text: str) -> tuple[list[str], list[str] | None]:
    r"""The lines of a text, and what ends each but the last; None if that is a plain newline everywhere.

    >>> split_lines("a\r\nb\n"), split_lines("a\nb")
    ((['a', 'b', ''], ['\r\n', '\n']), (['a', 'b'], None))
    """
    if "\r" not in text:
        return text.split("\n"), None
    both = text.count("\r\n")
    if both == text.count("\r") == text.count("\n"):  # as in most files: one object stands for all ends
        return text.split("\r\n"), ["\r\n"] * both
    parts = re.split("(\r\n|\r|\n)", text)
    return parts[::2], parts[1::2]


def join_lines(lines: list[str], ends: list[str] | None, rows: Rows) -> str:
    """The text of lines: a plain newline ends each row, but line ends within quotes stay as they are."""
    if ends is None:
        return "\n".join(lines)
    between = ["\n"] * len(ends)
    for at in np.flatnonzero(rows.last > rows.first):
        within = slice(int(rows.first[at]) - 1, int(rows.last[at]) - 1)
        between[within] = ends[within]
    return "".join(line + end for line, end in zip(lines, [*between, ""], strict=True))


def find_rows(lines: list[str], separator: str, source: str) -> Rows:
    """The rows of a text; ValueError where a quote is not closed. A quoted field may span several lines."""
    if separator == WHITESPACE:
        spans = [(n, n, len(line.split()), not line.strip()) for n, line in enumerate(lines, 1)]
    elif not any('"' in line for line in lines):
        spans = [
            (n, n, line.count(separator) + 1, not line.strip(separator + " \t")) for n, line in enumerate(lines, 1)
        ]
    else:
        reader, spans, last = csv.reader(lines, delimiter=separator, skipinitialspace=True), [], 0
        try:
            for row in reader:
                spans.append((last + 1, reader.line_num, len(row), not any(cell.strip() for cell in row)))
                last = reader.line_num
        except csv.Error as error:
            if "field larger than" not in str(error):
                raise ValueError(f"{source}, line {last + 1}: {error}: mend the line") from error
            raise _unclosed(source, last + 1) from error
        _require_closed_quotes(lines, int(spans[-1][0]), separator, source)
    first, last_, fields, blank = np.array(spans, dtype=np.int64).reshape(-1, 4).T
    return Rows(first, last_, fields, blank.astype(bool))


def _require_closed_quotes(lines: list[str], start: int, separator: str, source: str) -> None:
    """Refuse a last row that ends within quotes; it may contain any number of rows."""
    try:
        list(csv.reader(lines[start - 1 :], delimiter=separator, skipinitialspace=True, strict=True))
    except csv.Error as error:
        if "unexpected end of data" in str(error):
            raise _unclosed(source, start) from error


def _unclosed(source: str, line: int) -> ValueError:
    return ValueError(
        f'{source}, line {line}: a quote (") opens in the row that begins here and is not closed: close it, or write '
        'one that belongs to the text twice ("") within quotes'
    )


def make_even(
    lines: list[str], rows: Rows, index: np.ndarray, width: int, than: str, separator: str, source: str
) -> Rows:
    """Rows that all have ``width`` fields, that of ``than``; what that costs is told.

    Separators at the end of a line with nothing after them are taken off. Of at most one row in a hundred that has
    another number of fields all the same, the lines are left out: they become empty, in ``lines`` too.

    Parameters
    ----------
    lines : list of str
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


def _without_ends(lines: list[str], rows: Rows, index: np.ndarray, width: int, separator: str, source: str) -> Rows:
    """The rows without surplus separators at the end of their line; told."""
    number, trimmed = rows.fields.copy(), list[int]()
    for at in index[(rows.fields[index] > width) & (rows.first[index] == rows.last[index])]:
        line = int(rows.first[at]) - 1
        surplus = int(number[at]) - width
        end = re.search(rf"(?:{re.escape(separator)}[ \t]*){{{surplus}}}\Z", lines[line])
        if separator != WHITESPACE and end is not None and lines[line].count('"') % 2 == 0:
            lines[line], number[at] = lines[line][: end.start()], width
            trimmed.append(line + 1)
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
    lines: list[str], rows: Rows, width: int, header: bool, keep_blank_rows: bool, skip_rows: int
) -> np.ndarray:
    """The blank rows that are rows of the table with all cells missing."""
    full = np.flatnonzero(~rows.blank)
    place = np.arange(len(rows.blank))
    below = place > full[0] if header else rows.first > skip_rows
    if width > 1:
        return rows.blank & below & (rows.fields > 1) & (keep_blank_rows | (place < full[-1]))
    # In a single column a missing cell is an empty line, unless it was written as a pair of quotes.
    quoted = np.array([bool(lines[first - 1].strip()) for first in rows.first])
    # The text after the last newline is empty and is no row.
    last = len(place) - 1 - (not lines[-1]) if keep_blank_rows else np.flatnonzero(~rows.blank | quoted)[-1]
    return rows.blank & below & (place <= last)


def warn_of_blank_rows(rows: Rows, holes: np.ndarray, width: int, source: str) -> None:
    """Warn of dropped blank rows: those not in ``holes``, as `find_rows_of_holes` gives them."""
    dropped = rows.blank & ~holes
    if width > 1:
        count = int((dropped & (rows.fields > 1)).sum())
        if count:
            warn(f"{source}: {count:,} blank rows were dropped")
        return
    count = int((dropped & (rows.first > rows.last[~dropped].max())).sum()) - 1
    if count > 0:
        warn(f"{source}: {count:,} blank lines at its end were dropped; if they are missing cells, write NA in them")
