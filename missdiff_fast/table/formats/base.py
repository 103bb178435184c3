"""What a format of tables is: its names of files, how it is read, and how it is written."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import pandas as pd

from missdiff_fast.errors import DataError
from missdiff_fast.remedies import Do, Remedy
from missdiff_fast.table.sources import Reading, ReadOptions, Source

OTHER_FILE = Do("write a .parquet or .csv file")


@dataclass(frozen=True)
class Format:
    """A format of tables.

    Parameters
    ----------
    title : str
        What it is called.
    suffixes : tuple of str
        The ends of its files' names, in lower case with the point.
    read : callable
        Gives the frame, and what else the file holds.
    write : callable, optional
        Writes a frame, whose columns have strings as names, to a path. None if it can't be written, or is text, which
        `missdiff_fast.table.frame_writing` writes.
    written_suffixes : tuple of str
        The suffixes for which ``write`` works.
    check : callable, optional
        Raises ImportError if the packages that the format needs are not installed.
    holds_empty_texts : bool
        Whether it tells empty texts from missing cells.
    holds_mixed : bool
        Whether a column may hold numbers and texts.
    options : tuple of str
        The arguments of `missdiff_fast.table.read_table` that no other format takes.
    """

    title: str
    suffixes: tuple[str, ...]
    read: Callable[[Source, ReadOptions], Reading]
    write: Callable[[pd.DataFrame, Path], None] | None = None
    written_suffixes: tuple[str, ...] = ()
    check: Callable[[], None] | None = None
    holds_empty_texts: bool = False
    holds_mixed: bool = False
    options: tuple[str, ...] = ()


def require(package: str, extra: str, what: str) -> Any:
    """Import an optional package, or raise an ImportError that names the extra to install.

    >>> require("json", "files", "JSON").dumps([1])
    '[1]'
    """
    try:
        return import_module(package)
    except ModuleNotFoundError as error:
        if (error.name or package).partition(".")[0] != package:
            raise
        raise ImportError(
            f"{what} needs the package '{package}': pip install 'missdiff_fast[{extra}]'", name=package
        ) from error


def unheld(name: Hashable, problem: str, suffix: str, remedy: Remedy | None = None) -> DataError:
    """The error of a column that a format can't hold."""
    remedies = (OTHER_FILE,) if remedy is None else (remedy, OTHER_FILE)
    told = f"a {suffix} file can't hold column {name!r}: {problem}"
    return DataError("format", told, columns=[name], remedy=remedies, joint="; ")


def check_time(time: datetime.time, name: Hashable, suffix: str) -> None:
    """Raise the error of a time of day that a format with milliseconds, and without zones, can't hold."""
    if time.microsecond % 1000:
        raise unheld(name, f"the time {time}, which is no whole number of milliseconds", suffix)
    if time.tzinfo is not None:
        raise unheld(name, f"the time zone of {time}", suffix)
