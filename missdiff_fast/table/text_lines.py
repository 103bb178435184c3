"""The lines of a text, held once as bytes: where each begins, and what the reader takes some of them for."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

import numpy as np

_NEWLINE, _RETURN = b"\n\r"
_BLOCK = 2**19  # bytes looked at, or parsed, at a time
_FEW = 8  # lines that are looked up one by one


class Lines:
    r"""The lines of a text; a newline, a carriage return or both end each but the last.

    A line can be given another text, as one that is to be skipped; what was written stays known.

    Parameters
    ----------
    data : bytes
        The text in UTF-8.

    Examples
    --------
    >>> lines = Lines(b"a,b\r\n1,2\r\n")
    >>> lines.change(2, ""); list(lines), lines.written(1, 2), lines.end(1)
    (['a,b', '', ''], 'a,b\r\n1,2', '\r\n')
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._bytes = np.frombuffer(data, dtype=np.uint8)
        self._returns = b"\r" in data
        self._starts = _starts(self._bytes, self._returns)
        self._changed: dict[int, str] = {}
        self._in_order: list[int] | None = []

    def __len__(self) -> int:
        return len(self._starts)

    def __iter__(self) -> Iterator[str]:
        first = 1
        for last in self._block_ends():
            piece = self._plain(first, last)
            texts = piece.decode().split("\n")[: last - first + 1]
            for number in self._changed_between(first, last):
                texts[number - first] = self._changed[number]
            yield from texts
            first = last + 1

    def line(self, number: int) -> str:
        """A line, given by its 1-based number, as it is to be read."""
        changed = self._changed.get(number)
        return self.written(number, number) if changed is None else changed

    def change(self, number: int, text: str) -> None:
        """Give a line another text to be read."""
        if text or number in self._changed or self._stop(number) > int(self._starts[number - 1]):
            self._changed[number] = text
            self._in_order = None

    def blank(self, first: int, last: int) -> None:
        """Have nothing read of lines."""
        for number in range(first, last + 1):
            self.change(number, "")

    def written(self, first: int, last: int) -> str:
        """The lines from one to another, with the ends between them, as they are written."""
        return self._data[int(self._starts[first - 1]) : self._stop(last)].decode()

    def text(self, first: int, last: int) -> str:
        """The lines from one to another as they are to be read, with the ends between them."""
        if not self._changed_between(first, last):
            return self.written(first, last)
        between = [self.line(number) + self.end(number) for number in range(first, last)]
        return "".join(between) + self.line(last)

    def find(self, pattern: re.Pattern[bytes]) -> Iterator[re.Match[bytes]]:
        """Where a pattern is found in the whole text as written, in UTF-8."""
        return pattern.finditer(self._data)

    def end(self, number: int) -> str:
        """The line end of a line; a newline for the last."""
        if number == len(self):
            return "\n"
        return self._data[self._stop(number) : int(self._starts[number])].decode()

    def each_written(self, first: np.ndarray, last: np.ndarray) -> Iterator[str]:
        """What `written` gives for each pair of line numbers, int64 or int32 ``[N]`` each."""
        for at in range(0, len(first), 2**14):
            low, high = first[at : at + 2**14], last[at : at + 2**14]
            starts = self._starts[low - 1].tolist()
            for start, stop in zip(starts, self._stops(high).tolist(), strict=True):
                yield self._data[start:stop].decode()

    def lengths(self, first: np.ndarray, last: np.ndarray) -> np.ndarray:
        """The length in bytes of what `written` gives for each pair of line numbers, int64 ``[N]``."""
        return self._stops(last) - self._starts[first - 1]

    def blocks(self) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
        """The lines in blocks: their places, their bytes, and where in these each line begins.

        A newline ends the last line too. Lines that were changed consist of newlines.
        """
        first = 1
        for last in self._block_ends():
            start, stop = int(self._starts[first - 1]), self._after(last)
            piece = self._bytes[start:stop]
            begins = self._starts[first - 1 : last] - start
            changed = self._changed_between(first, last)
            if changed:
                piece = piece.copy()
            for number in changed:
                piece[int(self._starts[number - 1]) - start : self._stop(number) - start] = _NEWLINE
            if last == len(self):
                piece = np.append(piece, np.uint8(_NEWLINE))
            yield slice(first - 1, last), piece, begins
            first = last + 1

    def pieces(self, first: np.ndarray, last: np.ndarray) -> Iterator[bytes]:
        """The text to be read, in pieces of whole rows: a newline ends each row.

        Line ends within a row, which are within quotes, stay as they are.

        Parameters
        ----------
        first, last : ndarray
            The 1-based first and last line of each row ``[N]``; together they are all lines.
        """
        step = max(1, _BLOCK * len(first) // max(1, len(self._data)))
        for at in range(0, len(first), step):
            low, high = first[at : at + step], last[at : at + step]
            yield self._rows(low, high)

    def _rows(self, first: np.ndarray, last: np.ndarray) -> bytes:
        """Rows to be read, given by their lines; only those that are not read as written are taken one by one."""
        after, stop = int(first[0]), int(last[-1])
        changed = self._changed_between(after, stop)
        several = last > first
        if not self._returns or not several.any():
            return self._with_changes(after, stop, changed)
        ends = dict(zip(first[several].tolist(), last[several].tolist(), strict=True))
        parts = list[bytes]()
        for begin in sorted({*ends, *changed}):
            if begin < after:  # a line of the row above
                continue
            if begin > after:
                parts.append(self._plain(after, begin - 1))
            end = ends.get(begin, begin)
            parts.append(self.text(begin, end).encode() + b"\n")
            after = end + 1
        if after <= stop:
            parts.append(self._plain(after, stop))
        return b"".join(parts)

    def _with_changes(self, first: int, last: int, changed: Sequence[int]) -> bytes:
        """Lines as they are to be read, each with a newline as its end."""
        if not changed:
            return self._plain(first, last)
        parts, at = list[bytes](), int(self._starts[first - 1])
        for number, start in zip(changed, self._starts[np.array(changed) - 1].tolist(), strict=True):
            parts.append(self._data[at:start])
            parts.append(self._changed[number].encode() + b"\n")
            at = self._after(number)
        parts.append(self._data[at : self._after(last)])
        return _with_newlines(b"".join(parts)) if self._returns else b"".join(parts)

    def _plain(self, first: int, last: int) -> bytes:
        """Lines as written, but each with a newline as its end."""
        piece = self._data[int(self._starts[first - 1]) : self._after(last)]
        return _with_newlines(piece) if self._returns else piece

    def _changed_between(self, first: int, last: int) -> Sequence[int]:
        """The numbers of changed lines from one to another, in order."""
        if not self._changed:
            return ()
        if last - first < _FEW:
            return [number for number in range(first, last + 1) if number in self._changed]
        if self._in_order is None:
            self._in_order = sorted(self._changed)
        return self._in_order[bisect_left(self._in_order, first) : bisect_right(self._in_order, last)]

    def _block_ends(self) -> Iterator[int]:
        """The last line of each block."""
        last = 0
        while last < len(self):
            reach = int(self._starts[last]) + _BLOCK
            last = max(last + 1, int(np.searchsorted(self._starts, reach)))
            yield last

    def _stop(self, number: int) -> int:
        """Where a line's text ends."""
        if number == len(self):
            return len(self._data)
        start, stop = int(self._starts[number - 1]), int(self._starts[number]) - 1
        both = self._returns and stop > start and self._data[stop - 1 : stop + 1] == b"\r\n"
        return stop - both

    def _stops(self, numbers: np.ndarray) -> np.ndarray:
        """Where the texts of lines end, int64 ``[N]``."""
        final = numbers == len(self)
        ends = self._starts[np.where(final, 0, numbers)] - 1
        if self._returns:
            both = (self._bytes[ends] == _NEWLINE) & (self._bytes[ends - 1] == _RETURN)
            ends = ends - (both & (ends > self._starts[numbers - 1]))
        return np.where(final, len(self._data), ends).astype(np.int64)

    def _after(self, number: int) -> int:
        """Where a line ends, what ends it included."""
        return len(self._data) if number == len(self) else int(self._starts[number])


def _with_newlines(text: bytes) -> bytes:
    return text.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def _starts(text: np.ndarray, returns: bool) -> np.ndarray:
    """Where each line of a text begins, int32 ``[L]`` if that holds its length, else int64."""
    dtype = np.int32 if len(text) < np.iinfo(np.int32).max else np.int64
    found = [np.zeros(1, dtype=dtype)]
    for at in range(0, len(text), _BLOCK):
        piece = text[at : at + _BLOCK]
        ends = piece == _NEWLINE
        if returns:
            below = np.append(piece[1:], text[at + _BLOCK] if at + _BLOCK < len(text) else np.uint8(0))
            ends |= (piece == _RETURN) & (below != _NEWLINE)
        found.append((np.flatnonzero(ends) + (at + 1)).astype(dtype))
    return np.concatenate(found)
