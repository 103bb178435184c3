"""Kinds of files by their names, and compressed text."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

from missdiff_fast.errors import DataError
from missdiff_fast.remedies import Do, Pass, ReadWith, Remedy

DELIMITED = {".csv": ",", ".tsv": "\t", ".txt": ",", ".psv": "|", ".data": ","}
_COMPRESSED = (".gz", ".bz2", ".xz", ".zip", ".zst")
BINARY = (".parquet", ".feather", ".arrow")
_SHEET = Do("save the sheet as CSV"), ReadWith("pandas.read_excel")
_CONVERT = Do("convert it to CSV or Parquet")
_BELOW = "save the lines below @data as .csv and read that with"
_ELSEWHERE: dict[str, tuple[Remedy, ...]] = {
    ".arff": (Pass("header", False, goal=_BELOW, more=(Pass("missing_values", ["?"]),)),),
    ".xls": _SHEET,
    ".xlsx": _SHEET,
    ".sas7bdat": (ReadWith("pandas.read_sas"), _CONVERT),
    ".dta": (ReadWith("pandas.read_stata"), _CONVERT),
    ".json": (ReadWith("pandas.read_json"), _CONVERT),
}
_RENAME = Do("rename it to end in .csv", when="if it is delimited text")


def file_kind(path: Path) -> tuple[str, str]:
    """The suffix that tells the kind of file, and that of its compression or ""; ValueError if it is not known."""
    suffixes = [suffix.lower() for suffix in path.suffixes[-2:]]
    last = suffixes[-1] if suffixes else ""
    if last in DELIMITED or last in BINARY:
        return last, ""
    base = suffixes[0] if len(suffixes) == 2 else ""
    if last in _COMPRESSED and base in DELIMITED:
        return base, path.suffix
    remedies = _ELSEWHERE.get(last) or _ELSEWHERE.get(base) or _RENAME
    kinds = ", ".join([*DELIMITED, *BINARY])
    problem = (
        f"{path.name}: files of this kind are not known (known are {kinds}; text also with {', '.join(_COMPRESSED)} at "
        "its end)"
    )
    raise DataError("file", problem, value=path.name, remedy=remedies)


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


@contextmanager
def open_text(path: Path, compression: str, inner: str) -> Iterator[IO[str]]:
    """A file to write text to, compressed as the suffix ``compression`` tells; in an archive it is called ``inner``."""
    compression = compression.lower()
    if compression == ".zip":
        with (
            zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive,
            archive.open(inner.encode(errors="replace").decode(), "w") as raw,  # it must be UTF-8
            io.TextIOWrapper(raw, encoding="utf-8", newline="") as stream,
        ):
            yield stream
    elif compression == ".zst":
        with (
            open(path, "wb") as file,
            pa.output_stream(file, compression="zstd") as raw,
            io.TextIOWrapper(raw, encoding="utf-8", newline="") as stream,
        ):
            yield stream
    else:
        with _opener(compression)(path, "wt", encoding="utf-8", newline="") as stream:
            yield stream


def _opener(compression: str) -> Callable[..., Any]:
    openers: dict[str, Callable[..., Any]] = {"": open, ".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
    return openers[compression]
