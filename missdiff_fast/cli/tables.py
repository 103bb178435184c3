"""Reading, checking and writing of the files that commands name. Each function raises UserError."""

from __future__ import annotations

import math
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from missdiff_fast.cli.given import read_number
from missdiff_fast.cli.user_error import UserError
from missdiff_fast.table.io import BINARY, check_writable, file_kind, read_table, write_table
from missdiff_fast.table.literals import are_whole_texts

if TYPE_CHECKING:
    import argparse
    from collections.abc import Collection, Sequence

    from missdiff_fast.model import MissDiff


def check_output(path: Path, *inputs: Path) -> None:
    """Refuse, before any work, a file that cannot be written in the end, or that would overwrite what is read.

    Raises
    ------
    UserError
        The folder is missing or cannot be written to, or the path is a folder or one of the inputs.
    """
    if path.is_dir():
        raise UserError(f"-o {path} is a folder; give the name of a file")
    if _is_stream(path):
        return
    for source in inputs:
        if path.exists() and source.exists() and os.path.samefile(path, source):
            raise UserError(f"-o {path} would overwrite {source}, which is read; give the output another name")
    # A link is followed when the file is written, so its target's folder is the one that counts.
    folder = Path(os.path.realpath(path)).parent if path.is_symlink() else path.parent
    if not folder.is_dir():
        raise UserError(f"-o {path}: there is no folder {folder}; make it first (mkdir -p {folder})")
    try:
        check_writable(folder)
    except OSError as error:
        raise UserError(f"-o {path}: {error}") from error


def read(
    args: argparse.Namespace,
    missing_values: Sequence[object],
    string_columns: Collection[str] = (),
    *,
    keep_blank_rows: bool = False,
) -> pd.DataFrame:
    """Read ``args.data`` as the options of `_options.add_reading` tell; whole numbers with holes become Int64."""
    check_input(args.data)
    try:
        frame = read_table(
            args.data,
            separator=args.separator,
            decimal=args.decimal,
            encoding=args.encoding,
            missing_values=missing_values,
            header=args.header,
            skip_rows=args.skip_rows,
            string_columns=string_columns,
            keep_blank_rows=keep_blank_rows,
        )
    except (ValueError, TypeError, LookupError) as error:
        text = str(error)
        raise UserError(text if args.data.name in text else f"{args.data} cannot be read: {text}") from error
    if not args.header:
        frame.columns = frame.columns.map(str)  # names as options give them, and as the tables we write have them
    return frame if file_kind(args.data)[0] in BINARY else frame.apply(_whole)


def _whole(column: pd.Series) -> pd.Series:
    """Make a column of whole numbers with holes one of integers: text has no dtypes, and pandas takes it for float."""
    if column.dtype != "float64" or not column.hasnans or not column.notna().any():
        return column
    seen = column.dropna()
    return column.astype("Int64") if bool((seen.mod(1) == 0).all() and (seen.abs() < 2**53).all()) else column


def markers(texts: list[str]) -> list[str | float]:
    """Each mark as it is written, and as a number too where it is one, so that -999 also stands for -999.0."""
    return [*texts, *(number for number in map(_number, texts) if number is not None)]


def _number(text: str) -> float | None:
    """A finite number, an integer of 64 bits as such: as a float it would stand for its neighbours too."""
    try:
        number = read_number(text)
    except ValueError:
        return None
    if not math.isfinite(number):
        return None
    return int(text) if abs(number) < 2**64 and are_whole_texts([text.strip()]) else number


def load(args: argparse.Namespace) -> MissDiff:
    """Load ``args.model``."""
    check_input(args.model)
    from missdiff_fast.model import MissDiff

    model = MissDiff.load(args.model, device=args.device, backend=args.backend)
    model.verbose = not args.quiet
    return model


def check_input(path: Path) -> None:
    """Refuse a file that is not there."""
    if not path.exists():
        raise UserError(f"{path}: there is no such file")
    if path.is_dir():
        raise UserError(f"{path} is a folder, not a file")


def check_table_output(path: Path | None, *inputs: Path) -> None:
    """Refuse, as `check_output` does, and also a name that tells no format; None is stdout."""
    if path is None:
        check_stdout()
        return
    check_output(path, *inputs)
    if path.suffix or not _is_stream(path):
        file_kind(path)


def check_stdout() -> None:
    """Refuse a closed stdout."""
    if sys.stdout is None:  # as Python has it where the shell closed it, `>&-`
        raise UserError("stdout is closed, and the result goes there; leave it open, or send it to a file (> FILE)")


def _is_stream(path: Path) -> bool:
    """Whether a path is a device or a pipe, such as /dev/stdout, which is one too where it leads to a file."""
    if path.as_posix() in ("/dev/stdout", "/dev/stderr") or path.parent.as_posix() == "/dev/fd":
        return True
    return path.exists() and not path.is_file() and not path.is_dir()


def write(frame: pd.DataFrame, path: Path | None) -> None:
    """Write a table to a file, or as CSV to stdout."""
    if path is None:
        _write_to_stdout(frame)
    elif _is_stream(path) and not path.suffix:
        with open(path, "w", encoding="utf-8", newline="") as stream:
            frame.to_csv(stream, index=False)
    else:
        write_table(frame, path)


def _write_to_stdout(frame: pd.DataFrame) -> None:
    """Write a table as CSV; UserError, before anything is written, if stdout's encoding lacks a character of it."""
    encoding = sys.stdout.encoding
    if encoding and encoding.lower() not in ("utf-8", "utf8"):
        try:
            with open(os.devnull, "w", encoding=encoding, errors=sys.stdout.errors) as nowhere:
                frame.to_csv(nowhere, index=False)
        except UnicodeEncodeError as error:
            raise UserError(
                f"stdout takes {encoding} alone, which lacks {error.object[error.start]!r} of the table; write it to a "
                "file (-o FILE), or set PYTHONIOENCODING=utf-8"
            ) from error
    frame.to_csv(sys.stdout, index=False)


def known(names: list[str], frame: pd.DataFrame, option: str) -> list[str]:
    """The names, each once, which must be columns; `option` is what gave them."""
    for name in names:
        if name not in frame.columns:
            raise UserError(f"{option} {name!r}: the table has no such column; it has {list(frame.columns)}")
    return list(dict.fromkeys(names))


def say(args: argparse.Namespace, text: str) -> None:
    """Tell of progress on stderr, where that is a terminal."""
    if sys.stderr is not None and sys.stderr.isatty() and not args.quiet:
        print(text, file=sys.stderr)
