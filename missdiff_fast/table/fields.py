"""The fields of delimited text as they are written: with their quotes, white space and line ends."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from missdiff_fast.table.files import UTF_8, Encoding
from missdiff_fast.table.text_lines import Lines
from missdiff_fast.table.text_rows import WHITESPACE

# Texts that count as missing. The word None is not among them: data sets use it as a category.
MISSING_TEXTS = ("", "NA", "NaN", "nan", "NULL", "null", "<NA>", "N/A", "n/a", "#N/A")
_WORDS = frozenset(MISSING_TEXTS[1:])
_QUOTED = re.compile(r' *"([^"]*(?:""[^"]*)*)"(.*)', re.DOTALL)


def content(field: str) -> str:
    """The text that a field stands for, with the white space around it.

    >>> content('"6"" wide"'), content(" NA ")
    ('6" wide', ' NA ')
    """
    found = _QUOTED.fullmatch(field) if '"' in field else None
    return field if found is None else found[1].replace('""', '"') + found[2]


def is_quoted(field: str) -> bool:
    """Whether a field is in quotes."""
    return field.lstrip(" ").startswith('"')


def quoted(text: str, separator: str) -> str:
    r"""A field that holds a text; in quotes where a reader would take the bare text for something else.

    These are texts with a separator, a quote or a line end, and words such as ``NA``, which mean "missing" if bare.

    >>> print(quoted("a b", ","), quoted("a, b", ","), quoted('1" x', ","), quoted("NA", ","))
    a b "a, b" "1"" x" "NA"
    """
    return in_quotes(text) if text.strip() in _WORDS else bare(text, separator)


def bare(text: str, separator: str) -> str:
    """A field that holds a text, in quotes only if its characters need them."""
    special = separator in text or '"' in text or "\n" in text or "\r" in text
    return in_quotes(text) if special else text


def in_quotes(text: str) -> str:
    """A field that holds a text, in quotes."""
    return '"' + text.replace('"', '""') + '"'


@lru_cache(maxsize=8)
def splitter(separator: str) -> Callable[[str], list[str]]:
    """A function that splits the text of one row into its fields, which joined by the separator are the text again.

    >>> splitter(";")(' a;"b;""c";')
    [' a', '"b;""c"', '']
    """
    if separator == WHITESPACE:
        return str.split
    mark = re.escape(separator)
    field = re.compile(rf'( *"[^"]*(?:""[^"]*)*"[^{mark}]*|[^{mark}]*)(?:{mark}|\Z)', re.DOTALL)

    def split(row: str) -> list[str]:
        if '"' not in row:
            return row.split(separator)
        fields, at = [], 0
        while True:
            found = field.match(row, at)
            assert found is not None
            fields.append(found[1])
            if found.end() == found.end(1):  # no separator follows
                return fields
            at = found.end()

    return split


@dataclass(frozen=True)
class WrittenTable:
    r"""A table's cells as its file has them.

    Parameters
    ----------
    lines : Lines
        The lines of the file.
    first, last : ndarray
        The 1-based first and last line of each row, int32 ``[N]``; a field in quotes may span lines.
    header : tuple of int or None
        The first and last line of the header.
    places : tuple of int
        The place of each column among the fields of a row.
    width : int
        How many fields each row has.
    separator, decimal : str
        As of `missdiff_fast.table.read_table`.
    beside : mapping
        Rows of the file that are none of the table, such as one of units: the number of rows above them, to their text.
    encoding : Encoding
        That of the file.
    """

    lines: Lines
    first: np.ndarray
    last: np.ndarray
    header: tuple[int, int] | None
    places: tuple[int, ...]
    width: int
    separator: str
    decimal: str
    beside: Mapping[int, Sequence[str]] = field(default_factory=dict)
    encoding: Encoding = UTF_8

    @property
    def line_end(self) -> str:
        """The line end of the rows: that of the first one."""
        at = self.header[1] if self.header else int(self.last[0]) if len(self.last) else 0
        return self.lines.end(at) if at else "\n"

    @property
    def last_line_end(self) -> str:
        """The line end after the last row; "" where the file's last line has text and no end."""
        count = len(self.lines)
        return "" if self.lines.written(count, count) else self.line_end

    def names(self) -> list[str] | None:
        """The fields of the header, one for each column; None if there is no header."""
        if self.header is None:
            return None
        fields = splitter(self.separator)(self.lines.written(*self.header))
        fields += [""] * (self.width - len(fields))
        return [fields[place] for place in self.places]

    def rows(self) -> Iterator[list[str]]:
        """The fields of each row, one for each column."""
        split, whole = splitter(self.separator), self.places == tuple(range(self.width))
        for text in self.lines.each_written(self.first, self.last):
            fields = split(text)
            if len(fields) != self.width:  # a row without a cell
                fields = [*fields, *[""] * self.width][: self.width]
            yield fields if whole else [fields[place] for place in self.places]
