"""The command ``missdiff``: its options, its errors and its exit codes.

Exit codes: 0, done; 1, a fault of missdiff, or runs of ``reproduce`` that failed; 2, an error that the user can mend;
130, interrupted by Ctrl-C; 143, ended by SIGTERM, which is met as Ctrl-C is.
Results go to stdout, everything else to stderr. Nothing heavy is imported before the options are read.
"""

from __future__ import annotations

import os
import signal
import sys
import warnings
from typing import TYPE_CHECKING

from missdiff_fast.cli.errors import complain, report, show_warning
from missdiff_fast.cli.parser import build_parser
from missdiff_fast.cli.signals import be_deaf, terminable

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["build_parser", "main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command.

    Parameters
    ----------
    argv : sequence of str, optional
        The arguments after the command's name; default: those of the process, which then is to end after the call: it
        hears no Ctrl-C and no SIGTERM any more.

    Returns
    -------
    int
        The exit code. (SystemExit is raised with code 0 by ``--help`` and ``--version``, and with 2 by bad options.)

    Examples
    --------
    >>> main(["info", "there-is-no-such-model"])
    2
    """
    with terminable(for_good=argv is None) as signals:
        try:
            return _run(argv)
        except KeyboardInterrupt as stop:
            be_deaf()
            # CPython notes an interrupt that came through an exec() of text, as there are in torch's imports, and under
            # `python -m` ends by the signal, whatever the exit code. The next such exec() makes it forget.
            exec("")
            terminated = signal.SIGTERM in signals
            what = "terminated" if terminated else "interrupted"
            complain(f"{what}: {stop}" if str(stop) else what)
            return 143 if terminated else 130


def _run(argv: Sequence[str] | None) -> int:
    args = build_parser().parse_args(argv)
    try:
        with warnings.catch_warnings():
            if not args.debug:
                warnings.simplefilter("ignore", FutureWarning)
            warnings.showwarning = show_warning
            code = args.run(args)
            if sys.stdout is not None:
                sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read our output has seen enough (`| head`); without this, Python complains again on its way out.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        return report(error, debug=args.debug)
    return code or 0
