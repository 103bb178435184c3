"""What the command says of errors and warnings, in words that fit a command line."""

from __future__ import annotations

import re
import sys
import traceback

from missdiff_fast._output import show
from missdiff_fast.cli.user_error import UserError


def report(error: Exception, *, debug: bool) -> int:
    """Say an error in one line, and give the exit code that it means."""
    if debug:
        traceback.print_exception(error)
    if _is_out_of_memory(error):
        complain(f"error: not enough memory: {_one_line(error)}")
        return 2
    if isinstance(error, (UserError, OSError, FloatingPointError)) or _is_refusal(error):
        complain(f"error: {_one_line(error)}")
        return 2
    complain(
        f"internal error: {type(error).__name__}: {_one_line(error)}. This is a fault of missdiff, not yours: please "
        "report it, with what 'missdiff info' prints and with what this command prints when --debug is added"
    )
    return 1


def _is_refusal(error: Exception) -> bool:
    """Whether the package itself refused what it was given, rather than something beneath it failing."""
    if not isinstance(error, (ValueError, TypeError, ImportError)):
        return False
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    return bool(frames) and str(frames[-1].f_globals.get("__name__")).partition(".")[0] == "missdiff_fast"


def _is_out_of_memory(error: Exception) -> bool:
    # torch raises a plain RuntimeError on the CPU, and its own class on a GPU, which is not imported here.
    return (
        isinstance(error, MemoryError) or "allocate memory" in str(error) or type(error).__name__ == "OutOfMemoryError"
    )


def _one_line(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return " ".join(str(error).split()) or type(error).__name__


def show_warning(message: Warning | str, *_: object, **__: object) -> None:
    """Say a warning in one line; it stands in for `warnings.showwarning`."""
    complain(f"warning: {' '.join(str(message).split())}")


_QUOTED = r"(?:'[^']*'|\"[^\"]*\")"
_LIST = rf"{_QUOTED}(?:, {_QUOTED})*"


def _as_options(found: re.Match[str]) -> str:
    return " ".join(f"--missing-values {text}" for text in re.findall(_QUOTED, found[1]))


def _as_drops(found: re.Match[str]) -> str:
    return " ".join(f"--drop {text}" for text in re.findall(_QUOTED, found[1]))


def _as_ways_of_keeping(found: re.Match[str]) -> str:
    names = re.findall(_QUOTED, found[1])
    named, kept = (" ".join(f"--{option} {name}" for name in names) for option in ("categorical", "keep"))
    return f"with {named} (fit, evaluate) or {kept} (mask)"


# How the package's messages, which speak to Python, are said to users of the command.
_OPTIONS = (
    (re.compile(r"header=False"), "--no-header"),
    (re.compile(r"\b(separator|decimal) must be"), r"--\1 must be"),
    (re.compile(r"skip_rows must be"), "--skip-rows must be"),
    (re.compile(r"skip_rows=(\d+)"), r"--skip-rows \1"),
    (re.compile(rf"missing_values=\[({_LIST})\]"), _as_options),
    (re.compile(rf"string_columns=\[({_LIST})\]"), _as_ways_of_keeping),
    (re.compile(rf"frame\.drop\(columns=\[({_LIST})\]\)"), _as_drops),
    (re.compile(r"raise max_categories"), "raise --max-categories"),
    (re.compile(r"lower ratio or observed_share"), "lower --ratio or --observed-share"),
    (re.compile(r"target='columns'"), "--target columns"),
    (re.compile(r"give a ratio of"), "give a --ratio of"),
    (re.compile(r"\b(ratio|observed_share) must be"), lambda found: f"--{found[1].replace('_', '-')} must be"),
    (re.compile(r"random_state must lie"), "--seed must lie"),
    (
        re.compile(r"categorical_columns names (.*), which the frame has not"),
        r"--categorical names \1, not in the table",
    ),
    (re.compile(r"(are|is) not in the frame: add"), r"\1 not in the table: add"),
    (re.compile(r"convert, e\.g\. frame\[column\]\.astype\(\.\.\.\)"), "write its cells as they were in fit"),
    (re.compile(r", e\.g\. frame\[column\]\.astype\(str\)"), ""),
    (re.compile(r" \(lists and dicts: [^;]*; periods: .*?\.to_dense\(\)\)"), ""),
    (re.compile(r" \((?:\.dt\.as_unit\('s'\)|\.cat\.as_unordered\(\))\)"), ""),
    (re.compile(r", frame\.columns = \[str\(name\) for name in frame\.columns\]"), ""),
    (
        re.compile(r"convert them, frame\[column\] = pandas\.to_datetime\(frame\[column\], utc=True\)"),
        "write them in UTC",
    ),
    (re.compile(r"convert them, frame\[column\] = pandas\.to_datetime\(frame\[column\]\)"), "write them as 2024-02-29"),
    (re.compile(r", frame\[column\] = missdiff_fast\.table\.cap_categories\(frame\[column\], keep=\d+\)"), ""),
    (re.compile(r"\bthe (synthetic|train) table\b"), "SYNTHETIC"),
    (re.compile(r"\bthe (real|real_train) table\b"), "REAL"),
    (re.compile(r"\bthe test table\b"), "TEST"),
    (re.compile(r"drop the column(, frame\.drop\(columns=\.\.\.\))?"), "drop the column (--drop NAME)"),
)


def complain(text: str) -> None:
    """Say something on stderr, with the options of the command in place of Python's."""
    for python, option in _OPTIONS:
        text = python.sub(option, text)
    if sys.stderr is not None:  # print would go to stdout
        show(f"missdiff: {text}", sys.stderr)
