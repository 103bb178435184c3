"""The rows of delimited text: on which lines each stands, and how many fields it has."""

from __future__ import annotations

import csv
from array import array
from collections.abc import Collection, Iterable

import numpy as np

from missdiff_fast.errors import argument_error
from missdiff_fast.table.text_lines import Lines
from missdiff_fast.table.text_rows import WHITESPACE, Rows

_QUOTE, _SPACE = b'" '
_BEFORE_FIELDS = b"\n\r"  # and the separator


def skip_lines(lines: Lines, rows: int, numbers: Collection[int], source: str) -> None:
    """Have nothing read of the first lines, so many as ``rows``, and of those of some numbers.

    Raises
    ------
    ValueError
        If ``rows`` is negative, there is no line of a number, or nothing is left.
    """
    if rows < 0:
        raise argument_error("skip_rows", f"must be 0 or more, got {rows}", rows)
    lines.blank(1, min(rows, len(lines)))
    for number in numbers:
        if not 1 <= number <= len(lines):
            rule = f"must name lines from 1 to {len(lines):,}, the last of {source}, got {number}"
            raise argument_error("skip_lines", rule, number)
        lines.blank(number, number)
    if not any(line.strip() for line in lines):
        raise ValueError(f"{source} is empty")


def find_rows(lines: Lines, separator: str, source: str) -> Rows:
    """The rows of a text; ValueError where a quote is not closed. A quoted field may span several lines."""
    if separator == WHITESPACE:
        fields = np.fromiter((len(line.split()) for line in lines), dtype=np.int32, count=len(lines))
        return _one_line_each(fields, fields == 0)
    if not any((piece == _QUOTE).any() for _, piece, _ in lines.blocks()):
        return _without_quotes(lines, separator)
    rows = _with_regular_quotes(lines, separator) if separator != " " else None
    return _with_any_quotes(lines, separator, source) if rows is None else rows


def _one_line_each(fields: np.ndarray, blank: np.ndarray) -> Rows:
    number = np.arange(1, len(fields) + 1, dtype=np.int32)
    return Rows(number, number, fields, blank)


def _solid(*others: str) -> np.ndarray:
    """For each byte whether it is a visible character, but for others; bool ``[256]``."""
    solid = np.zeros(256, dtype=bool)
    solid[33:127] = True
    solid[[ord(other) for other in others]] = False
    return solid


def _without_quotes(lines: Lines, separator: str) -> Rows:
    mark, fields, blank = ord(separator), np.empty(len(lines), dtype=np.int32), np.empty(len(lines), dtype=bool)
    empty = np.zeros(256, dtype=bool)
    empty[[mark, *b" \t\n\r"]] = True
    for at, piece, begins in lines.blocks():
        fields[at] = _count(piece == mark, begins) + 1
        blank[at] = empty[piece[begins]]
        if blank[at].any():
            blank[at] = _count(~empty[piece], begins) == 0
    return _one_line_each(fields, blank)


def _count(marked: np.ndarray, begins: np.ndarray) -> np.ndarray:
    """How many bytes of each line are marked, int32."""
    return np.add.reduceat(marked, begins, dtype=np.int32)


def _with_regular_quotes(lines: Lines, separator: str) -> Rows | None:
    """The rows of a text in which quotes open at the beginning of fields alone and all are closed; None of another.

    There a byte is within quotes if the number of quotes before it is odd.
    """
    mark, solid = ord(separator), _solid(separator, '"')
    separators, open_ = np.empty(len(lines), dtype=np.int32), np.empty(len(lines), dtype=bool)
    visible = np.empty(len(lines), dtype=bool)
    within = np.uint8(0)
    for at, piece, begins in lines.blocks():
        quotes = piece == _QUOTE
        inside = np.cumsum(quotes, dtype=np.uint8)
        inside += within
        inside &= 1
        if not _open_fields(piece, np.flatnonzero(quotes & (inside == 1)), mark):
            return None
        separators[at] = _count((piece == mark) & (inside == 0), begins)
        visible[at] = solid[piece[begins]]
        if not visible[at].all():
            visible[at] |= _count(solid[piece], begins) > 0
        open_[at] = inside[np.append(begins[1:], len(piece)) - 1]
        within = inside[-1]
    if within:
        return None
    places = np.flatnonzero(~np.append(False, open_[:-1]))
    first = (places + 1).astype(np.int32)
    last = np.append(first[1:] - 1, np.int32(len(lines)))
    if lines.lengths(first, last).max() > csv.field_size_limit():
        return None
    fields = np.add.reduceat(separators, places, dtype=np.int32) + np.int32(1)
    blank = ~np.logical_or.reduceat(visible, places)
    for row in np.flatnonzero(blank):  # these have no visible character, or only such as are not in ASCII
        texts = [lines.line(number) for number in range(int(first[row]), int(last[row]) + 1)]
        cells = next(csv.reader(texts, delimiter=separator, skipinitialspace=True)) if any(texts) else []
        fields[row], blank[row] = len(cells), not any(cell.strip() for cell in cells)
    return Rows(first, last, fields, blank)


def _open_fields(text: np.ndarray, quotes: np.ndarray, mark: int) -> bool:
    """Whether quotes, given by their places, each open a field, after spaces at most, or come after one that closes."""
    starts = np.array([mark, *_BEFORE_FIELDS], dtype=np.uint8)
    before = quotes[quotes > 0] - 1
    before = before[text[before] != _QUOTE]
    while len(before):
        byte = text[before]
        spaces = byte == _SPACE
        if not np.isin(byte[~spaces], starts).all():
            return False
        before = before[spaces & (before > 0)] - 1
    return True


def _with_any_quotes(lines: Lines, separator: str, source: str) -> Rows:
    """The rows as the csv module finds them, one by one."""
    found, last, start = array("i"), 0, 1
    reader = csv.reader(lines, delimiter=separator, skipinitialspace=True)
    try:
        for row in reader:
            start, last = last + 1, reader.line_num
            found.extend((start, last, len(row), not any(cell.strip() for cell in row)))
    except csv.Error as error:
        if "field larger than" not in str(error):
            raise ValueError(f"{source}, line {last + 1}: {error}: mend the line") from error
        raise _unclosed(source, last + 1) from error
    _require_closed_quotes(map(lines.line, range(start, len(lines) + 1)), start, separator, source)
    first, last_, fields, blank = np.array(found, dtype=np.int32).reshape(-1, 4).T.copy()
    return Rows(first, last_, fields, blank.astype(bool))


def _require_closed_quotes(texts: Iterable[str], start: int, separator: str, source: str) -> None:
    """Refuse a last row that ends within quotes; it may contain any number of rows."""
    try:
        list(csv.reader(texts, delimiter=separator, skipinitialspace=True, strict=True))
    except csv.Error as error:
        if "unexpected end of data" in str(error):
            raise _unclosed(source, start) from error


def _unclosed(source: str, line: int) -> ValueError:
    return ValueError(
        f'{source}, line {line}: a quote (") opens in the row that begins here and is not closed: close it, or write '
        'one that belongs to the text twice ("") within quotes'
    )
