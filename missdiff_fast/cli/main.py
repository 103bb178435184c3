"""Runs the command line: options, signals, errors and exit codes.

Exit codes: 0, success; 1, a fault of missdiff, or a failed run of ``reproduce``; 2, an error that the user can mend;
130, interrupted by Ctrl-C; 143, terminated by SIGTERM, and 129, by SIGHUP (the terminal was closed), which are handled
as Ctrl-C is.
Results go to stdout, everything else to stderr. Nothing heavy is imported before the options are read.
"""

from __future__ import annotations

import os
import signal
import sys
import warnings
from functools import partial
from typing import TYPE_CHECKING

from missdiff_fast import _process
from missdiff_fast.cli.errors import Wording, complain, print_error, show_warning
from missdiff_fast.cli.parser import build_parser, given_options
from missdiff_fast.cli.signals import ignore_signals, interruptible

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command.

    Parameters
    ----------
    argv : sequence of str, optional
        The arguments after the command's name. By default those of the process, which is then expected to exit: SIGINT,
        SIGTERM and SIGHUP stay ignored after the call.

    Returns
    -------
    int
        The exit code. (``--help`` and ``--version`` raise SystemExit with code 0, bad options with code 2.)

    Examples
    --------
    >>> main(["info", "there-is-no-such-model"])
    2
    """
    _process.is_command = _process.is_command or argv is None
    if argv is None:
        _let_threads_sleep()
    with interruptible(exits=argv is None) as signals:
        try:
            return _run(argv)
        except KeyboardInterrupt as interrupt:
            ignore_signals()
            # CPython remembers an interrupt that came through exec() of a string, as in torch's imports, and under
            # `python -m` then exits by the signal instead of the exit code. The next such exec() clears it.
            exec("")
            number = signals[-1] if signals else signal.SIGINT
            what = "interrupted" if number == signal.SIGINT else "terminated"
            complain(f"{what}: {interrupt}" if str(interrupt) else what)
            return 128 + number


def _let_threads_sleep() -> None:
    """Let a thread that waits for others sleep after some microseconds, unless the user has chosen how they wait.

    GNU's OpenMP, which PyTorch brings, lets it look for work for milliseconds. On cores that other programs use, too,
    a training step then takes several times as long. It reads the environment when PyTorch is imported.
    """
    if not {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"} & os.environ.keys():
        os.environ["GOMP_SPINCOUNT"] = "10000"


def _run(argv: Sequence[str] | None) -> int:
    args = build_parser().parse_args(argv)
    args.on_command_line = given_options(argv) if getattr(args, "config", None) else frozenset()
    wording = Wording(args.command, args.options)
    try:
        with warnings.catch_warnings():
            if not args.debug:
                warnings.simplefilter("ignore", FutureWarning)
            warnings.showwarning = partial(show_warning, wording)
            code = args.run(args)
            if sys.stdout is not None:
                sys.stdout.flush()
    except BrokenPipeError:
        # The reader of our output has closed it (`| head`); without this, Python prints an error at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        return print_error(error, wording, debug=args.debug)
    return code or 0
