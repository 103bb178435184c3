"""Text of tables for files, devices, pipes and stdout, in any encoding."""

from __future__ import annotations

import io
import os
import sys
from typing import TYPE_CHECKING

from missdiff_fast.cli.errors import UserError
from missdiff_fast.table.files import UTF_8, Encoding
from missdiff_fast.table.io import warn_of_encoding, write_text

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import IO


def is_stream(path: Path) -> bool:
    """Whether a path is a device or a pipe, such as /dev/stdout (even if that is redirected to a file)."""
    if path.as_posix() in ("/dev/stdout", "/dev/stderr") or path.parent.as_posix() == "/dev/fd":
        return True
    return path.exists() and not path.is_file() and not path.is_dir()


def is_bare(path: Path) -> bool:
    """Whether a path is a device or a pipe whose name tells no kind of file."""
    return is_stream(path) and not path.suffix


def write_cells_to(path: Path | None, write_cells: Callable[[IO[str]], None], encoding: Encoding = UTF_8) -> None:
    """Let a function write text to a file, a device or, for None, stdout."""
    if path is None:
        _write_to_stdout(write_cells, encoding)
    elif is_bare(path):
        encoding = _sufficient(encoding, write_cells, path.name)
        with open(path, "w", encoding=encoding.name, newline="") as stream:
            stream.write("\ufeff" * encoding.mark)
            write_cells(stream)
    else:
        write_text(path, write_cells, encoding)


def _sufficient(encoding: Encoding, write_cells: Callable[[IO[str]], None], target: str) -> Encoding:
    """The encoding, or UTF-8, with a warning, if it lacks a character that a function writes."""
    if encoding.name != "utf-8":
        try:
            _write_nowhere(write_cells, encoding.name)
        except UnicodeEncodeError as error:
            warn_of_encoding(error, encoding, target)
            return UTF_8
    return encoding


def _write_nowhere(write_cells: Callable[[IO[str]], None], encoding: str, errors: str | None = None) -> None:
    """Raise UnicodeEncodeError if an encoding lacks one of the characters that a function writes."""
    with open(os.devnull, "w", encoding=encoding, errors=errors) as nowhere:
        write_cells(nowhere)


def _write_to_stdout(write_cells: Callable[[IO[str]], None], encoding: Encoding = UTF_8) -> None:
    """Write a table as CSV, in stdout's encoding if that is a terminal or the other is plain UTF-8.

    Before writing, raise UserError if stdout's encoding lacks one of its characters.
    """
    raw = getattr(sys.stdout, "buffer", None)
    if encoding != UTF_8 and raw is not None and not sys.stdout.isatty():
        encoding = _sufficient(encoding, write_cells, "stdout")
        sys.stdout.flush()
        stream = io.TextIOWrapper(raw, encoding=encoding.name, newline="")
        try:
            stream.write("\ufeff" * encoding.mark)
            write_cells(stream)
            stream.flush()
        finally:
            stream.detach()  # stdout stays open
        return
    own = sys.stdout.encoding
    if own and own.lower() not in ("utf-8", "utf8"):
        try:
            _write_nowhere(write_cells, own, sys.stdout.errors)
        except UnicodeEncodeError as error:
            raise UserError(
                f"stdout is encoded as {own}, which lacks {error.object[error.start]!r} of the table; write it to "
                "a file (-o FILE), or set PYTHONIOENCODING=utf-8"
            ) from error
    write_cells(sys.stdout)
