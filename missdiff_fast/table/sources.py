"""Where a table is read from, and with which options."""

from __future__ import annotations

import lzma
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import IO

import pandas as pd
import pyarrow as pa

from missdiff_fast.errors import DataError
from missdiff_fast.remedies import Remedy
from missdiff_fast.table.cells import Markers
from missdiff_fast.table.fields import WrittenTable
from missdiff_fast.table.files import read_bytes

_DAMAGE = (pa.ArrowException, EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, ValueError)


@dataclass(frozen=True)
class Source:
    """Where a table is: in a file, in bytes that were read from a stream, or in a database.

    Parameters
    ----------
    name : str
        What messages call it.
    suffix : str
        The suffix of the format, such as ``".csv"``; empty for a URL.
    compression : str
        The suffix of its compression, or "".
    path : Path, optional
        The file.
    data : bytes, optional
        The content, if it is no file.
    url : str
        The URL of a database.
    """

    name: str
    suffix: str = ""
    compression: str = ""
    path: Path | None = None
    data: bytes | None = None
    url: str = field(default="", repr=False)  # it may hold a password

    def content(self) -> bytes:
        """All bytes, decompressed; ValueError if they are damaged."""
        if self.path is None:
            return self.data or b""
        with self.told_if_damaged():
            return read_bytes(self.path, self.compression)

    def open(self) -> IO[bytes]:
        """The bytes as a stream."""
        # Several libraries open no name that is not UTF-8.
        return BytesIO(self.data or b"") if self.path is None else open(self.path, "rb")

    @contextmanager
    def told_if_damaged(self, *errors: type[Exception]) -> Iterator[None]:
        """Turn the errors of a library that reads, those named and the usual ones, into a ValueError with the name."""
        try:
            yield
        except DataError:
            raise
        except (*_DAMAGE, *errors) as error:
            raise ValueError(f"{self.name} is damaged, cut short or not what its name says: {error}") from error
        except OSError as error:
            # gzip, bz2 and Arrow report damage by an OSError without a number; those with one are the system's.
            if error.errno is None:
                raise ValueError(f"{self.name} is damaged, cut short or not what its name says: {error}") from error
            raise


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """The arguments of `missdiff_fast.table.read_table`; a format uses those that concern it."""

    separator: str | None = None
    decimal: str | None = None
    encoding: str | None = None
    missing_values: Sequence[object] = ()
    header: bool | None = None
    skip_rows: int = 0
    skip_lines: Collection[int] | None = None
    string_columns: Collection[str] = ()
    keep_na_columns: Collection[str] = ()
    keep_blank_rows: bool = False
    date_order: str | None = None
    known_forms: Mapping[str, str] = field(default_factory=dict)  # see `missdiff_fast.table.text_columns`
    quiet_marks: Collection[object] = ()  # missing values of which no warning is given where no cell has them
    sheet: str | None = None
    query: str | None = None

    @property
    def markers(self) -> Markers:
        """The values that mean missing; TypeError where they are no list of strings and numbers."""
        return Markers.of(self.missing_values)


class AsRead:
    """What a file holds beside the frame that was read from it; writes it too, to a file of its kinds."""

    suffixes: tuple[str, ...] = ()

    def write(self, frame: pd.DataFrame, path: Path) -> None:
        """Write a frame of the rows and columns that were read, with other cells."""
        raise NotImplementedError


# The frame, and what gives its cells as text that was read has them, or what a file of another format holds beside it.
Reading = tuple[pd.DataFrame, Callable[[], WrittenTable] | AsRead | None]


def refuse_twice(names: Sequence[str], source: str, where: str, *remedies: Remedy) -> None:
    """Refuse a table in which several columns have one name."""
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        each = ", ".join(map(repr, twice))
        problem = f"{source} has the column name{'s' if len(twice) > 1 else ''} {each} more than once {where}"
        raise DataError("duplicate", problem, columns=twice, remedy=remedies)
