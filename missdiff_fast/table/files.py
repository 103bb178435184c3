"""Kinds of delimited text by their names, and compressed files."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

import pyarrow as pa

# The separator of each kind of delimited text.
DELIMITED = {".csv": ",", ".tsv": "\t", ".tab": "\t", ".txt": ",", ".psv": "|", ".data": ","}
PLAIN_KINDS = (".csv", ".txt", ".data")  # those that may have any other
COMPRESSED = (".gz", ".bz2", ".xz", ".zip", ".zst")


class Encoding(NamedTuple):
    """The encoding of text: its name as Python knows it, and whether a byte-order mark begins the file."""

    name: str = "utf-8"
    mark: bool = False


UTF_8 = Encoding()


def fixed_separator(suffix: str) -> str | None:
    """The separator of a kind of file that has no other; None of other kinds.

    >>> fixed_separator(".psv"), fixed_separator(".csv")
    ('|', None)
    """
    return None if suffix in PLAIN_KINDS else DELIMITED.get(suffix)


def read_bytes(path: Path, compression: str) -> bytes:
    """The content of a file, decompressed as the suffix ``compression`` tells."""
    compression = compression.lower()
    if compression == ".zip":
        with zipfile.ZipFile(path) as archive:
            members = [member for member in archive.infolist() if not member.is_dir()]
            if len(members) != 1:
                raise ValueError(f"the archive holds {len(members)} files instead of one")
            return archive.read(members[0])
    if compression == ".zst":
        with open(path, "rb") as file, pa.input_stream(file, compression="zstd") as stream:
            return bytes(stream.read())
    with _opener(compression)(path, "rb") as stream:
        return bytes(stream.read())


def read_start(path: Path, compression: str, length: int = 4096) -> bytes:
    """The first bytes of a file's content; of an archive it is all read."""
    compression = compression.lower()
    if compression in (".zip", ".zst"):
        return read_bytes(path, compression)[:length]
    with _opener(compression)(path, "rb") as stream:
        return bytes(stream.read(length))


@contextmanager
def open_text(path: Path, compression: str, inner: str, encoding: str = "utf-8") -> Iterator[IO[str]]:
    """A file to write text to, compressed as the suffix ``compression`` tells; in an archive it is called ``inner``."""
    compression = compression.lower()
    if compression == ".zip":
        with (
            zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive,
            archive.open(inner.encode(errors="replace").decode(), "w") as raw,  # it must be UTF-8
            io.TextIOWrapper(raw, encoding=encoding, newline="") as stream,
        ):
            yield stream
    elif compression == ".zst":
        with (
            open(path, "wb") as file,
            pa.output_stream(file, compression="zstd") as raw,
            io.TextIOWrapper(raw, encoding=encoding, newline="") as stream,
        ):
            yield stream
    else:
        with _opener(compression)(path, "wt", encoding=encoding, newline="") as stream:
            yield stream


def _opener(compression: str) -> Callable[..., Any]:
    openers: dict[str, Callable[..., Any]] = {"": open, ".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
    return openers[compression]
