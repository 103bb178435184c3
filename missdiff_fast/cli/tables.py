"""Reading, checking and writing of the files that commands name. Functions raise UserError."""

from __future__ import annotations

import math
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from missdiff_fast.cli.errors import UserError
from missdiff_fast.cli.given import read_number
from missdiff_fast.cli.places import Elsewhere, Place, open_place
from missdiff_fast.cli.text_output import is_bare, is_stream, write_cells_to
from missdiff_fast.errors import Text
from missdiff_fast.table.atomic import check_writable, write_atomically
from missdiff_fast.table.dates import forms_of, with_forms
from missdiff_fast.table.dialect import Dialect, with_dialect
from missdiff_fast.table.formats import TEXT, find_suffix, writable
from missdiff_fast.table.formats.database import file_of
from missdiff_fast.table.frame_writing import PLAIN, warn_of_empty_texts, write_delimited
from missdiff_fast.table.io import read_written, write_any
from missdiff_fast.table.limit_reading import decimal_of, with_decimal
from missdiff_fast.table.literals import are_whole_texts, whole_numbers
from missdiff_fast.table.sources import AsRead, ReadOptions
from missdiff_fast.table.text_writing import Rewriter

if TYPE_CHECKING:
    import argparse
    from collections.abc import Collection, Mapping, Sequence
    from typing import IO

    from missdiff_fast.model import MissDiff
    from missdiff_fast.table.sources import Reading


def check_output(path: Path, *inputs: Place) -> None:
    """Refuse, before any work, an output that cannot be written or that would overwrite an input.

    Raises
    ------
    UserError
        The folder is missing or cannot be written to, or the path is a folder, one of the inputs or stdout.
    """
    if path == Path("-"):
        raise UserError("-o - is stdout, to which only sample, impute and mask write; give the name of a file")
    if path.is_dir():
        raise UserError(f"-o {path} is a folder; give the name of a file")
    if is_stream(path):
        return
    files = [file_of(one.url) if isinstance(one, Elsewhere) else one for one in inputs]
    for source in [file for file in files if file is not None]:
        if path.exists() and source.exists() and os.path.samefile(path, source):
            raise UserError(f"-o {path} would overwrite {source}, which is read; give the output another name")
    # Writing follows a link, so the folder of its target is checked.
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
    """Read ``args.data`` with the options of `options.add_reading`; whole numbers with missing cells become Int64.

    The dialect of text is noted in the frame (`missdiff_fast.table.dialect.dialect_of`).
    """
    frame, written = _read(args, missing_values, string_columns, (), keep_blank_rows, {})
    if written is None or isinstance(written, AsRead):
        return frame
    return with_dialect(frame, Dialect.of(frame, written(), _suffix(args)))


def read_to_rewrite(
    args: argparse.Namespace,
    missing_values: Sequence[object],
    string_columns: Collection[str] = (),
    *,
    keep_na_columns: Collection[str] = (),
    keep_blank_rows: bool = False,
    known_forms: Mapping[str, str] | None = None,
) -> tuple[pd.DataFrame, Rewriter | AsRead | None]:
    """The table of `read`, and what writes its cells as the file has them."""
    frame, written = _read(args, missing_values, string_columns, keep_na_columns, keep_blank_rows, known_forms or {})
    if written is None or isinstance(written, AsRead):
        return frame, written
    return frame, Rewriter(frame, written(), _suffix(args))


def _suffix(args: argparse.Namespace) -> str:
    """The suffix of the kind of file that ``args.data`` is."""
    return find_suffix(args.data if isinstance(args.data, Path) else None, args.format)


def _read(
    args: argparse.Namespace,
    missing_values: Sequence[object],
    string_columns: Collection[str],
    keep_na_columns: Collection[str],
    keep_blank_rows: bool,
    known_forms: Mapping[str, str],
) -> Reading:
    check_input(args.data)
    # Columns that are copied or left out cause no warnings.
    unread = [*getattr(args, "keep", ()), *getattr(args, "drop", ())]
    try:
        options = ReadOptions(
            separator=args.separator,
            decimal=args.decimal,
            encoding=args.encoding,
            missing_values=missing_values,
            header=args.header,
            skip_rows=args.skip_rows,
            skip_lines=args.skip_line,
            string_columns=string_columns,
            keep_na_columns=[*args.keep_na, *keep_na_columns, *unread],
            keep_blank_rows=keep_blank_rows,
            date_order=args.date_order,
            known_forms=known_forms,
            # Those of a model come from its own table.
            quiet_marks=[mark for mark in missing_values if mark not in markers(args.missing_values)],
            sheet=args.sheet,
            query=args.query,
        )
        frame, written = read_written(open_place(args.data), options, args.format)
    except (ValueError, TypeError, LookupError) as error:
        named = args.data.name in str(error)
        template = "{error}" if named else "{path} cannot be read: {error}"
        raise UserError(Text(template, path=args.data, error=error)) from error
    if not all(isinstance(name, str) for name in frame.columns):
        frame.columns = frame.columns.map(str)  # options and written tables name columns by strings
    if written is not None:
        known(args.keep_na, frame, "--keep-na")
    if written is None or isinstance(written, AsRead):
        return frame, written
    whole = with_decimal(frame.apply(whole_numbers), decimal_of(frame))
    return with_forms(whole, {str(name): form for name, form in forms_of(frame).items()}), written


def markers(texts: list[str]) -> list[str | float]:
    """Each mark as text and, where it is a number, as a number too, so that -999 also matches -999.0."""
    return [*texts, *(number for number in map(_number, texts) if number is not None)]


def _number(text: str) -> float | None:
    """The finite number that a text writes, or None; 64-bit integers stay exact, so that each matches itself alone."""
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
    model.frame_kind_ = "pandas"  # whatever fit saw: tables are written from these
    return model


def check_input(path: Place) -> None:
    """Refuse an input that does not exist or is a folder."""
    if isinstance(path, Elsewhere):
        if not path.url and sys.stdin is None:
            raise UserError("stdin is closed, and the table comes from there; give a file instead of -")
        return
    if not path.exists():
        raise UserError(f"{path}: there is no such file")
    if path.is_dir():
        raise UserError(f"{path} is a folder, not a file")


def check_table_output(path: Path | None, *inputs: Place) -> None:
    """Refuse what `check_output` refuses, and a name without a known format; None is stdout."""
    if path is None:
        check_stdout()
        return
    check_output(path, *inputs)
    if path.suffix or not is_stream(path):
        writable(path)


def check_stdout() -> None:
    """Refuse a closed stdout."""
    if sys.stdout is None:  # the shell closed it, `>&-`
        raise UserError("stdout is closed, and the result goes there; leave it open, or redirect it to a file (> FILE)")


def is_text(path: Path | None) -> bool:
    """Whether a table goes there as delimited text."""
    return path is None or is_bare(path) or writable(path)[0] is TEXT


def holds_mixed(path: Path | None) -> bool:
    """Whether a table goes to a file whose columns may hold numbers and texts."""
    return not is_text(path) and path is not None and writable(path)[0].holds_mixed


def write(frame: pd.DataFrame, path: Path | None, dialect: Dialect = PLAIN) -> None:
    """Write a table to a file, or as CSV to stdout; text in a dialect."""
    if is_text(path) or not (path is not None and writable(path)[0].holds_empty_texts):
        warn_of_empty_texts(frame)
    write_quietly(frame, path, dialect)


def write_quietly(frame: pd.DataFrame, path: Path | None, dialect: Dialect = PLAIN) -> None:
    """Write a table as `write` does, without a warning of empty texts."""
    if path is None or is_bare(path):
        own = dialect.to(".csv")
        write_cells_to(path, lambda stream: write_delimited(frame, stream, own), own.encoding)
    else:
        write_any(frame, path, dialect)


def rewrite(
    frame: pd.DataFrame,
    path: Path | None,
    rewriter: Rewriter | AsRead | None,
    *,
    as_written: Collection[str] = (),
    keep_missing: bool = False,
    dialect: Dialect = PLAIN,
) -> None:
    """Write a table as `write` does, with the cells of the file that it was read from as that has them.

    Parameters
    ----------
    frame : DataFrame
        The table that was read, with other cells.
    path : path or None
        Where to write it.
    rewriter : Rewriter, AsRead or None
        What `read_to_rewrite` gave.
    as_written, keep_missing
        As of `Rewriter.write`.
    dialect : Dialect
        That of text, where the table was not read from text.
    """
    kind, target = (TEXT, ".csv") if path is None or is_bare(path) else writable(path)
    if isinstance(rewriter, AsRead) and path is not None and target in rewriter.suffixes:
        warn_of_empty_texts(frame)
        with write_atomically(path) as temporary:
            rewriter.write(frame, temporary)
        return
    if not isinstance(rewriter, Rewriter) or kind is not TEXT:
        write(frame, path, dialect)
        return
    separator = rewriter.separator(target)

    def write_cells(stream: IO[str]) -> None:
        rewriter.write(frame, stream, separator, as_written=as_written, keep_missing=keep_missing)

    write_cells_to(path, write_cells, rewriter.encoding)


def as_read_only(rewriter: Rewriter | AsRead | None) -> AsRead | None:
    """The rewriter of a table that was not read from text; None for text, which is then written plainly."""
    return None if isinstance(rewriter, Rewriter) else rewriter


def known(names: list[str], frame: pd.DataFrame, option: str) -> list[str]:
    """Check that names given by an option are columns; return each once."""
    for name in names:
        if name not in frame.columns:
            raise UserError(f"{option} {name!r}: the table has no such column; it has {list(frame.columns)}")
    return list(dict.fromkeys(names))


def say(args: argparse.Namespace, text: str) -> None:
    """Print progress on stderr if that is a terminal."""
    if sys.stderr is not None and sys.stderr.isatty() and not args.quiet:
        print(text, file=sys.stderr)
