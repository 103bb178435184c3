"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def write_atomically(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary path in the folder of ``path``, which takes its place if the block ends without an error.

    On any error the temporary file is removed, and a file that was there is as it was. A link is followed. A path that
    is there but no regular file, such as ``/dev/stdout``, is written to directly.

    Raises
    ------
    OSError
        With the path and the cause: no such folder, no permission, disk full.
    """
    shown, target = Path(path), Path(os.path.realpath(path))
    if target.is_dir():
        raise IsADirectoryError(f"{shown} is a folder: give a file name")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"folder {target.parent} does not exist: make it first")
    if target.exists() and not target.is_file():
        yield shown
        return
    # The suffix stays last, because some writers choose the format by it. A name may have 255 bytes; a character
    # takes up to four.
    temporary = target.with_name(f".{target.stem[:25]}.{secrets.token_hex(4)}.part{target.suffix[:25]}")
    try:
        yield temporary
        with open(temporary, "rb+") as stream:
            os.fsync(stream.fileno())
        if target.exists():
            os.chmod(temporary, target.stat().st_mode & 0o7777)
        os.replace(temporary, target)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        kept = "; the file that was there is unchanged" if target.exists() else ""
        cause = error.strerror or str(error)
        raise _as_errno(error, f"could not write {shown}: {cause}{kept}") from error
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def check_writable(folder: Path) -> None:
    """Refuse, by OSError, a folder in which no file can be made."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise _as_errno(error, f"the folder {folder} cannot be written to ({error.strerror})") from error


def _as_errno(error: OSError, message: str) -> OSError:
    """An error of the same number and class whose text is the message alone."""
    result = type(error)(message) if type(error).__init__ is OSError.__init__ else OSError(message)
    result.errno = error.errno
    return result
