"""Formats of tables: one module for each, and here the table of all by the ends of files' names.

To add a format, write a module with a `missdiff_fast.table.formats.base.Format`, and name that in `_ALL`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO

from missdiff_fast._urls import is_url, shown_url
from missdiff_fast.errors import DataError, DataWarning, argument_error, warn
from missdiff_fast.remedies import Do, LeaveOut, Pass, ReadWith, Remedy
from missdiff_fast.table.files import COMPRESSED, read_start
from missdiff_fast.table.formats.arff import ARFF
from missdiff_fast.table.formats.arrow import FEATHER, PARQUET
from missdiff_fast.table.formats.base import OTHER_FILE, Format
from missdiff_fast.table.formats.database import DATABASE
from missdiff_fast.table.formats.excel import EXCEL
from missdiff_fast.table.formats.readstat import READSTAT
from missdiff_fast.table.formats.text import TEXT
from missdiff_fast.table.sources import ReadOptions, Source

__all__ = ["FORMATS", "TEXT", "Format", "check_options", "file_kind", "find_source", "find_suffix", "writable"]

_ALL = (TEXT, ARFF, PARQUET, FEATHER, EXCEL, READSTAT, DATABASE)
FORMATS: dict[str, Format] = {suffix: one for one in _ALL for suffix in one.suffixes}

_NAMED = Pass("format", "csv", when="to silence this")
_CONVERT = Do("convert it to CSV or Parquet")
_ELSEWHERE: dict[str, tuple[Remedy, ...]] = {
    ".xls": (Do("save it as .xlsx"), ReadWith("pandas.read_excel")),
    ".ods": (Do("save it as .xlsx"), ReadWith("pandas.read_excel")),
    ".por": (Do("save it as .sav"), ReadWith("pyreadstat.read_por")),
    ".json": (ReadWith("pandas.read_json"), _CONVERT),
}
_RENAME = Do("rename it to end in .csv", when="if it is delimited text")


def file_kind(path: Path) -> tuple[str, str]:
    """The suffix that tells the kind of file, and that of its compression or ""; ValueError if it is not known."""
    suffixes = [suffix.lower() for suffix in path.suffixes[-2:]]
    last = suffixes[-1] if suffixes else ""
    if last in FORMATS:
        return last, ""
    base = suffixes[0] if len(suffixes) == 2 else ""
    if last in COMPRESSED and FORMATS.get(base) is TEXT:
        return base, path.suffix
    remedies = _ELSEWHERE.get(last) or _ELSEWHERE.get(base) or _RENAME
    problem = (
        f"{path.name}: files of this kind are not known (known are {', '.join(FORMATS)}; text also with "
        f"{', '.join(COMPRESSED)} at its end)"
    )
    raise DataError("file", problem, value=path.name, remedy=remedies)


def find_suffix(path: Path | None, format: str | None) -> str:
    """The suffix of a kind of file that ``format`` names, else the file's name; of a stream, None, CSV by default.

    An existing file of another name that holds text is taken for CSV.
    """
    if format is None:
        return ".csv" if path is None or _is_nameless_text(path) else file_kind(path)[0]
    suffix = f".{format.lower().removeprefix('.')}"
    if suffix not in FORMATS:
        known = ", ".join(name[1:] for name in FORMATS)
        raise argument_error("format", f"must be one of {known}, got {format!r}", format)
    return suffix


def _is_nameless_text(path: Path) -> bool:
    """Whether a file exists whose name tells no kind, not even one that is not read, and which begins as text does."""
    suffixes = [suffix.lower() for suffix in path.suffixes[-2:]]
    last = suffixes[-1] if suffixes else ""
    base = suffixes[0] if len(suffixes) == 2 and last in COMPRESSED else ""
    if not (FORMATS.keys() | _ELSEWHERE.keys()).isdisjoint((last, base)) or not path.is_file():
        return False
    try:
        start = read_start(path, path.suffix if last in COMPRESSED else "")
    except (OSError, ValueError, EOFError):
        return False
    return bool(start) and not any(byte < 9 or 13 < byte < 32 for byte in start)


def find_source(place: str | os.PathLike[str] | IO[bytes], format: str | None = None) -> Source:
    """Where to read: a file, the URL of a database, or a stream; its kind by ``format``, else by the file's name.

    Raises
    ------
    FileNotFoundError, IsADirectoryError
        If there is no such file.
    ValueError
        If the kind is not known.
    """
    if isinstance(place, str) and is_url(place):
        return Source(shown_url(place), url=place)
    if not isinstance(place, (str, os.PathLike)):
        name = str(getattr(place, "name", "")).strip("<>")
        data = place.read() if hasattr(place, "read") else None
        if not isinstance(data, bytes):
            kind = type(place).__name__ if data is None else f"a stream of text, {type(place).__name__}"
            raise TypeError(f"give a path, a URL or a stream opened in binary mode, not {kind}")
        return Source(name or "stream", find_suffix(None, format), data=data)
    path = Path(place)
    nameless = format is None and _is_nameless_text(path)
    suffix = ".csv" if nameless else find_suffix(path, format)
    if nameless:
        problem = f"{path.name}: its name does not tell its kind, so it was read as delimited text"
        warning = DataWarning("file", problem, value=path.name, remedy=_NAMED, joint="; ")
        warn(warning)
    compression = path.suffix if FORMATS[suffix] is TEXT and path.suffix.lower() in COMPRESSED else ""
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder: give a file")
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist: check the path (the current folder is {Path.cwd()})")
    return Source(path.name, suffix, compression, path)


def check_options(source: Source, options: ReadOptions) -> Format:
    """The format of a source; ValueError if it takes none of the options that are for one format alone."""
    found = DATABASE if source.url else FORMATS[source.suffix]
    for other in _ALL:
        for name in other.options:
            value = getattr(options, name)
            if value is not None and other is not found:
                rule = f"is for {other.title}, and {source.name} is {found.title}"
                raise argument_error(name, rule, value, remedy=LeaveOut(name, value))
    return found


def writable(path: Path) -> tuple[Format, str]:
    """The format of a file to write, and its suffix.

    Raises
    ------
    ValueError
        If the kind of file is not known, or can't be written.
    ImportError
        If packages that it needs are not installed.
    """
    suffix, _ = file_kind(path)
    found = FORMATS[suffix]
    if suffix not in found.written_suffixes:
        problem = f"{path.name}: {suffix} files are read, not written"
        raise DataError("file", problem, value=path.name, remedy=OTHER_FILE)
    if found.check is not None:
        found.check()
    return found, suffix
