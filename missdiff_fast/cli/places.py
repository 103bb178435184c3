"""Where a command reads a table: a file, stdin or a database. Nothing heavy is imported here."""

from __future__ import annotations

import io
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from missdiff_fast._urls import is_url, shown_url


@dataclass(frozen=True)
class Elsewhere:
    """A place that is no file: stdin, or the URL of a database.

    Parameters
    ----------
    name : str
        What messages call it: a URL without its password.
    url : str
        The URL; empty for stdin.
    """

    name: str
    url: str = field(default="", repr=False)

    def __str__(self) -> str:
        return self.name


Place = Path | Elsewhere


class _Stdin(io.BytesIO):
    """The bytes of stdin, under the name that messages have."""

    name = "stdin"


def open_place(place: Place) -> Path | str | IO[bytes]:
    """What `missdiff_fast.table.read_table` reads at a place."""
    if isinstance(place, Path):
        return place
    return place.url or _Stdin(sys.stdin.buffer.read())


def read_place(text: str) -> Place:
    """The place that an argument names: ``-`` is stdin, a text with ``://`` a URL, all else a file.

    >>> read_place("-").name, read_place("a/b.csv").name, read_place("mysql://me:secret@host/stays").name
    ('stdin', 'b.csv', 'mysql://me:***@host/stays')
    """
    if text == "-":
        return Elsewhere("stdin")
    return Elsewhere(shown_url(text), text) if is_url(text) else Path(text)


def read_output(text: str) -> Path | None:
    """Where a table goes: ``-`` is stdout, which commands call None.

    >>> read_output("-"), read_output("a.csv").name
    (None, 'a.csv')
    """
    return None if text == "-" else Path(text)
