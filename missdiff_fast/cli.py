"""The command ``missdiff``: its options, its errors and its exit codes. What it does is in `missdiff_fast.commands`.

Exit codes: 0, done; 1, a fault of missdiff; 2, an error that the user can mend; 130, interrupted by Ctrl-C; 143,
ended by SIGTERM, which is met as Ctrl-C is.
Results go to stdout, everything else to stderr. Nothing heavy is imported before the options are read.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import sys
import threading
import traceback
import warnings
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from missdiff_fast import __version__
from missdiff_fast._errors import UserError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_TABLES = "CSV (also compressed), Parquet or Feather, told by the name"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command.

    Parameters
    ----------
    argv : sequence of str, optional
        The arguments after the command's name; default: those of the process.

    Returns
    -------
    int
        The exit code. (SystemExit is raised with code 0 by ``--help`` and ``--version``, and with 2 by bad options.)

    Examples
    --------
    >>> main(["info", "there-is-no-such-model"])
    2
    """
    with _terminable() as terminated:
        try:
            return _run(argv)
        except KeyboardInterrupt as stop:
            with _deaf():
                what = "terminated" if terminated else "interrupted"
                _complain(f"{what}: {stop}" if str(stop) else what)
                return 143 if terminated else 130


def _run(argv: Sequence[str] | None) -> int:
    args = build_parser().parse_args(argv)
    try:
        with warnings.catch_warnings():
            if not args.debug:
                warnings.simplefilter("ignore", FutureWarning)
            warnings.showwarning = _show_warning
            getattr(import_module("missdiff_fast.commands"), args.command)(args)
            if sys.stdout is not None:
                sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read our output has seen enough (`| head`); without this, Python complains again on its way out.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        return _report(error, debug=args.debug)
    return 0


@contextmanager
def _terminable() -> Iterator[list[int]]:
    """SIGTERM raises KeyboardInterrupt, and is noted in the list, so that what is made is kept or cleared away."""
    noted: list[int] = []

    def terminate(number: int, _: object) -> None:
        noted.append(number)
        raise KeyboardInterrupt

    main_thread = threading.current_thread() is threading.main_thread()
    if not main_thread or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        yield noted
        return
    signal.signal(signal.SIGTERM, terminate)
    try:
        yield noted
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


@contextmanager
def _deaf() -> Iterator[None]:
    """No further Ctrl-C or SIGTERM is heard, for they would end the command with a traceback."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def build_parser() -> argparse.ArgumentParser:
    """Build the parser of the whole command line.

    Examples
    --------
    >>> build_parser().parse_args(["sample", "model.missdiff", "-n", "5"]).num_rows
    5
    """
    parser = _Parser(
        prog="missdiff",
        description="Train a diffusion model straight on a table with holes; draw complete synthetic rows from it, "
        "or fill the holes.",
        epilog="missdiff COMMAND --help tells a command's options.",
    )
    parser.add_argument("--version", action="version", version=f"missdiff_fast {__version__}")
    parser.set_defaults(debug=False)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=_Parser)
    _add_fit(commands)
    _add_sample(commands)
    _add_impute(commands)
    _add_info(commands)
    _add_demo(commands)
    return parser


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"missdiff: error: {message} (see '{self.prog} --help')\n")


_Commands = argparse._SubParsersAction  # argparse has no public name for it


def _add(commands: _Commands[_Parser], name: str, text: str) -> tuple[_Parser, argparse._ArgumentGroup]:
    parser = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
    common = parser.add_argument_group("on the whole")
    common.add_argument("--debug", action="store_true", help="show the traceback of an error")
    return parser, common


def _add_fit(commands: _Commands[_Parser]) -> None:
    parser, common = _add(commands, "fit", "train a model on a table with holes")
    parser.add_argument("data", metavar="DATA", type=Path, help=f"the table: {_TABLES}")
    parser.add_argument(
        "-o",
        "--output",
        metavar="MODEL",
        type=Path,
        required=True,
        help="the file for the model; Ctrl-C keeps what is trained",
    )
    _add_reading(parser)
    columns = parser.add_argument_group("columns")
    columns.add_argument(
        "--categorical",
        metavar="COL",
        action="append",
        default=[],
        help="a column of numbers that are names (repeatable)",
    )
    columns.add_argument("--drop", metavar="COL", action="append", default=[], help="leave a column out (repeatable)")
    columns.add_argument(
        "--max-categories", metavar="N", type=int, default=100, help="refuse columns with more (default 100)"
    )
    training = parser.add_argument_group("training (the defaults suit most tables)")
    training.add_argument("--steps", metavar="N", type=int, help="training steps before refining")
    training.add_argument("--batch-size", metavar="N", type=int, help="rows in a step")
    training.add_argument("--learning-rate", metavar="X", type=float, help="its peak")
    training.add_argument("--width", metavar="N", type=int, help="width of the network")
    training.add_argument("--blocks", metavar="N", type=int, help="number of its residual blocks")
    training.add_argument(
        "--no-refine", dest="refine", action="store_false", help="do not train on with the holes filled"
    )
    training.add_argument("--seed", metavar="N", type=int, help="makes everything repeatable")
    _add_device(training)
    _add_quiet(common)


def _add_sample(commands: _Commands[_Parser]) -> None:
    parser, common = _add(commands, "sample", "draw complete synthetic rows from a model")
    parser.add_argument("model", metavar="MODEL", type=Path, help="a file written by 'missdiff fit'")
    parser.add_argument("-n", "--num-rows", metavar="N", type=int, required=True, help="how many rows")
    parser.add_argument(
        "-o", "--output", metavar="OUT", type=Path, help=f"the table to write: {_TABLES} (default: CSV on stdout)"
    )
    parser.add_argument(
        "--given", metavar="COL=VALUE", action="append", default=[], help="draw rows that have this value (repeatable)"
    )
    parser.add_argument(
        "--seed", metavar="N", type=int, help="the same rows again (default: the seed of fit, if it had one)"
    )
    _add_device(parser)
    _add_quiet(common)


def _add_impute(commands: _Commands[_Parser]) -> None:
    parser, common = _add(commands, "impute", "fill the holes of a table")
    parser.add_argument("model", metavar="MODEL", type=Path, help="a file written by 'missdiff fit'")
    parser.add_argument("data", metavar="DATA", type=Path, help=f"a table with the columns that fit saw: {_TABLES}")
    parser.add_argument("-o", "--output", metavar="OUT", type=Path, help="the table to write (default: CSV on stdout)")
    parser.add_argument(
        "--draws",
        metavar="M",
        type=int,
        help="write M random fillings, as OUT-1, OUT-2 and so on (out-1.csv for -o out.csv), whose spread tells how "
        "uncertain each cell is; default: one table, with means and most probable categories",
    )
    parser.add_argument(
        "--keep",
        metavar="COL",
        action="append",
        default=[],
        help="a column the model does not know, copied as it is (repeatable)",
    )
    parser.add_argument("--seed", metavar="N", type=int, help="of the draws")
    _add_reading(parser)
    _add_device(parser)
    _add_quiet(common)


def _add_info(commands: _Commands[_Parser]) -> None:
    parser, _ = _add(commands, "info", "tell about this installation, or about a model")
    parser.add_argument("model", metavar="MODEL", type=Path, nargs="?", help="a file written by 'missdiff fit'")


def _add_demo(commands: _Commands[_Parser]) -> None:
    parser, common = _add(
        commands, "demo", "hide a fifth of the Census table, train on the rest, and compare with the truth"
    )
    parser.add_argument(
        "-o", "--output", metavar="FOLDER", type=Path, default=Path("missdiff-demo"), help="default: missdiff-demo"
    )
    parser.add_argument("--steps", metavar="N", type=int, help="training steps, fewer for a quick look")
    parser.add_argument("--seed", metavar="N", type=int, default=0, help="of the model; default 0")
    _add_device(parser)
    _add_quiet(common)


def _add_reading(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("reading DATA (told from the file where not given)")
    group.add_argument(
        "--missing-values",
        metavar="TEXT",
        action="append",
        default=[],
        help='a mark for "missing", such as "?" (repeatable)',
    )
    group.add_argument("--separator", metavar="CHAR", help="between the cells of a CSV file")
    group.add_argument("--decimal", metavar="CHAR", help="decimal mark of a CSV file")
    group.add_argument("--encoding", metavar="NAME", help="of a CSV file")
    group.add_argument(
        "--no-header",
        dest="header",
        action="store_false",
        help="the first line of a CSV file is data: its columns are called 0, 1, 2, ...",
    )
    group.add_argument("--skip-rows", metavar="N", type=int, default=0, help="lines to leave out at its top")


def _add_device(group: argparse._ActionsContainer) -> None:
    group.add_argument("--device", default="auto", help="auto, cpu or cuda")
    group.add_argument(
        "--backend",
        default="auto",
        choices=("auto", "native", "reference"),
        help="compiled ops or plain PyTorch (reference)",
    )


def _add_quiet(group: argparse._ActionsContainer) -> None:
    group.add_argument("--quiet", action="store_true", help="no progress (there is none where stderr is no terminal)")


def _report(error: Exception, *, debug: bool) -> int:
    if debug:
        traceback.print_exception(error)
    if _is_out_of_memory(error):
        _complain(f"error: not enough memory: {_one_line(error)}")
        return 2
    if isinstance(error, (UserError, OSError, FloatingPointError)) or _is_refusal(error):
        _complain(f"error: {_one_line(error)}")
        return 2
    _complain(
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


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    _complain(f"warning: {' '.join(str(message).split())}")


_QUOTED = r"(?:'[^']*'|\"[^\"]*\")"


_LIST = rf"{_QUOTED}(?:, {_QUOTED})*"


def _as_options(found: re.Match[str]) -> str:
    return " ".join(f"--missing-values {text}" for text in re.findall(_QUOTED, found[1]))


def _as_drops(found: re.Match[str]) -> str:
    return " ".join(f"--drop {text}" for text in re.findall(_QUOTED, found[1]))


# How the package's messages, which speak to Python, are said to users of the command.
_OPTIONS = (
    (re.compile(r"header=False"), "--no-header"),
    (re.compile(r"skip_rows=(\d+)"), r"--skip-rows \1"),
    (re.compile(rf"missing_values=\[({_LIST})\]"), _as_options),
    (re.compile(rf"frame\.drop\(columns=\[({_LIST})\]\)"), _as_drops),
    (re.compile(r"raise max_categories"), "raise --max-categories"),
    (
        re.compile(r"categorical_columns names (.*), which the frame has not"),
        r"--categorical names \1, not in the table",
    ),
    (re.compile(r"(are|is) not in the frame: add"), r"\1 not in the table: add"),
    (re.compile(r"convert, e\.g\. frame\[column\]\.astype\(\.\.\.\)"), "write its cells as they were in fit"),
    (re.compile(r", e\.g\. frame\[column\]\.astype\(str\)"), ""),
    (re.compile(r" \(lists and dicts: [^;]*; periods: .*?\.to_dense\(\)\)"), ""),
    (re.compile(r", frame\.columns = \[str\(name\) for name in frame\.columns\]"), ""),
    (
        re.compile(r"convert them, frame\[column\] = pandas\.to_datetime\(frame\[column\], utc=True\)"),
        "write them in UTC",
    ),
    (re.compile(r"convert them, frame\[column\] = pandas\.to_datetime\(frame\[column\]\)"), "write them as 2024-02-29"),
    (re.compile(r", frame\[column\] = missdiff_fast\.table\.cap_categories\(frame\[column\], keep=\d+\)"), ""),
    (re.compile(r"drop the column(, frame\.drop\(columns=\.\.\.\))?"), "drop the column (--drop NAME)"),
)


def _complain(text: str) -> None:
    for python, option in _OPTIONS:
        text = python.sub(option, text)
    if sys.stderr is not None:  # print would go to stdout
        print(f"missdiff: {text}", file=sys.stderr)
