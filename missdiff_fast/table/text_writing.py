"""Writing of the text that a frame was read from, with some of its cells changed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator
from itertools import compress
from typing import IO, Any

import numpy as np
import pandas as pd

from missdiff_fast.table.date_writing import is_local
from missdiff_fast.table.dates import as_text, forms_of
from missdiff_fast.table.dialect import separator_of
from missdiff_fast.table.fields import WrittenTable, bare, content, in_quotes, is_quoted, quoted, splitter
from missdiff_fast.table.files import Encoding
from missdiff_fast.table.frame_writing import ROWS, is_text, line
from missdiff_fast.table.schema import Name
from missdiff_fast.table.text_rows import WHITESPACE

_NUMBER = re.compile(r"[+-]?\d*(?:[.,](\d*))?(?:[eE][+-]?\d+)?")


class Rewriter:
    """Writes a table as its file has it, but for cells that are new.

    All others keep their text: white space, quotes, digits, line ends. New cells are written as the column's others:
    a value that the column has is written as it is there most often.

    Parameters
    ----------
    frame : DataFrame
        The table as read.
    written : WrittenTable
        Its cells as the file has them.
    kind : str
        The file's suffix.
    """

    def __init__(self, frame: pd.DataFrame, written: WrittenTable, kind: str = ".csv") -> None:
        self._frame, self._written, self._kind = frame, written, kind
        self._styles: dict[int, _Style] = {}

    def separator(self, target: str) -> str:
        """The separator for a kind of file: that of the file that was read, if both kinds may have any."""
        own, decimal = self._written.separator, self._written.decimal
        if own == WHITESPACE:  # fields that hold it, or nothing, need another
            own = ";" if decimal == "," else ","
        return separator_of(target, self._kind, own, decimal)

    @property
    def encoding(self) -> Encoding:
        """The encoding of the file that was read."""
        return self._written.encoding

    def write(
        self,
        table: pd.DataFrame,
        stream: IO[str],
        separator: str,
        *,
        as_written: Collection[Name] = (),
        keep_missing: bool = False,
    ) -> None:
        """Write a table.

        Parameters
        ----------
        table : DataFrame
            The rows and columns of the frame that was read, with other cells; dates have their forms
            (`missdiff_fast.table.dates.with_forms`).
        stream : text stream
            Where to write it, without translation of line ends.
        separator : str
            The separator.
        as_written : collection of str
            Columns whose cells are all written as the file has them.
        keep_missing : bool
            Whether missing cells are written as the file has them (``NA``, ``?``), or empty.
        """
        written, end = self._written, self._written.line_end
        new = self._new_cells(table, as_written, keep_missing)
        lines: list[str] = []
        names = written.names()
        if names is not None:
            names = names if separator == written.separator else [_moved(cell, separator) for cell in names]
            lines.append(line(names, separator))
        for row, fields in enumerate(written.rows()):
            lines.extend(self._beside(row, separator))
            for place, cells in new.items():
                if row in cells:
                    fields[place] = cells[row]
            if separator != written.separator:
                fields = [_moved(cell, separator) for cell in fields]
            lines.append(separator.join(fields))
            if len(lines) > ROWS:  # the last one waits for what follows it
                stream.write(end.join([*lines[:-1], ""]))
                del lines[:-1]
        lines.extend(self._beside(len(self._frame), separator))
        if lines:
            stream.write(end.join(lines) + written.last_line_end)

    def _beside(self, row: int, separator: str) -> list[str]:
        """The rows of the file above this one that are none of the table."""
        texts, own = self._written.beside.get(row, ()), self._written.separator
        if separator == own:
            return list(texts)
        return [separator.join(_moved(field, separator) for field in splitter(own)(text)) for text in texts]

    def _new_cells(
        self, table: pd.DataFrame, as_written: Collection[Name], keep_missing: bool
    ) -> dict[int, dict[int, str]]:
        """The fields that are not written as the file has them, by the places of their columns and rows."""
        rows: dict[int, np.ndarray] = {}
        for place, name in enumerate(self._frame.columns):
            if name in as_written:
                continue
            before, after = self._frame[name], table[name]
            present = after.notna().to_numpy()
            same = before.notna().to_numpy() & present
            pair = [np.asarray(column[same].astype(object)) for column in (before.array, after.array)]
            same[same] = pair[0] == pair[1]
            rows[place] = np.flatnonzero(present & ~same if keep_missing else ~same)
        forms, shown = forms_of(table), as_text(table)
        filled = {}
        for place, at in rows.items():
            name = self._frame.columns[place]
            filled[place] = _shortened(shown[name].iloc[at], forms.get(name, ""))
        self._learn([place for place, values in filled.items() if values.notna().any()])
        empty = "" if len(self._frame.columns) > 1 else '""'  # an empty line is no row
        return {
            place: {
                row: empty if hole else self._styles[place].field(value)
                for row, value, hole in zip(rows[place].tolist(), values.tolist(), values.isna().tolist(), strict=True)
            }
            for place, values in filled.items()
            if len(values)
        }

    def _learn(self, places: list[int]) -> None:
        """Learn how the cells of columns are written."""
        places = [place for place in places if place not in self._styles]
        if not places:
            return
        counts: dict[int, Counter[tuple[Any, str]]] = {place: Counter() for place in places}
        values = {place: self._frame.iloc[:, place] for place in places}
        for start, rows in _pieces(self._written.rows()):
            columns = list(zip(*rows, strict=True))
            for place in places:
                part = values[place].iloc[start : start + len(rows)]
                pairs = zip(part.tolist(), columns[place], strict=True)
                counts[place].update(compress(pairs, part.notna().tolist()))
        self._styles |= {place: _Style(count, self._written) for place, count in counts.items()}


def _shortened(times: pd.Series, form: str) -> pd.Series:
    """Times as text without zone, each no longer than its column's form if nothing is lost by it."""
    if not form or is_local(form) or not is_text(times) or "Z" in form or "+" in form:
        return times
    length = len(form)
    return times.map(lambda text: text[:length] if not text[length:].strip("T:.0") else text, na_action="ignore")


def _pieces(rows: Iterator[list[str]]) -> Iterator[tuple[int, list[list[str]]]]:
    """Rows in pieces, each with the number of its first."""
    piece: list[list[str]] = []
    start = 0
    for row in rows:
        piece.append(row)
        if len(piece) == ROWS:
            yield start, piece
            start, piece = start + ROWS, []
    if piece:
        yield start, piece


def _moved(field: str, separator: str) -> str:
    """A field for another separator."""
    text = content(field)
    return in_quotes(text) if is_quoted(field) else bare(text, separator)


class _Style:
    """How a column's cells are written."""

    def __init__(self, counts: Counter[tuple[Any, str]], written: WrittenTable) -> None:
        self._separator, self._decimal = written.separator, written.decimal
        self._fields: dict[Any, str] = {}
        most: dict[Any, int] = {}
        for (value, field), count in counts.items():
            if count > most.get(value, 0):
                self._fields[value], most[value] = field, count
        fields = list(self._fields.values())
        texts = [content(field).strip() for field in fields]
        self._quoted = bool(fields) and all(map(is_quoted, fields))
        matches = [_NUMBER.fullmatch(text) for text in texts]
        self._decimals = min((len(found[1] or "") for found in matches if found), default=0)
        self._upper = bool(texts) and all(text.isupper() for text in texts)
        self._lower = bool(texts) and all(text.islower() for text in texts)
        self._joint = "T" if any("T" in text[10:11] for text in texts) else " "
        self._longest = max(map(len, texts), default=0)

    def field(self, value: Any) -> str:
        """The field for a value."""
        known = self._fields.get(value)
        if known is not None:
            return known
        text = self._text(value)
        return in_quotes(text) if self._quoted else quoted(text, self._separator)

    def _text(self, value: Any) -> str:
        value = value.item() if isinstance(value, np.generic) else value
        if isinstance(value, bool):
            return str(value).upper() if self._upper else str(value).lower() if self._lower else str(value)
        if isinstance(value, pd.Timestamp):
            return self._time(value)
        return self._number(repr(value)) if isinstance(value, (int, float)) else str(value)

    def _number(self, text: str) -> str:
        if "e" not in text:
            whole, _, rest = text.partition(".")
            rest = rest.rstrip("0").ljust(self._decimals, "0")
            text = f"{whole}.{rest}" if rest else whole
        return text.replace(".", self._decimal)

    def _time(self, value: pd.Timestamp) -> str:
        midnight = value.tz is None and value == value.normalize()
        if midnight and 0 < self._longest <= 10:
            return str(value.date())
        minutes = self._longest == 16 and value == value.floor("min")
        return value.isoformat(sep=self._joint, timespec="minutes" if minutes else "auto")
