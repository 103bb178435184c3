"""Handling of SIGINT (Ctrl-C), SIGTERM and SIGHUP (the terminal was closed)."""

from __future__ import annotations

import signal
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_HANGUP = getattr(signal, "SIGHUP", None)  # Windows has none
SIGNALS = (signal.SIGINT, signal.SIGTERM, *([] if _HANGUP is None else [_HANGUP]))
REPEAT_SECONDS = 1.0


@contextmanager
def interruptible(*, exits: bool) -> Iterator[list[int]]:
    """Let SIGINT, SIGTERM and SIGHUP raise KeyboardInterrupt, so that results are kept or cleaned up.

    Yields the list of signals that did so. Ignore repeated signals within a second: shells, wrappers and impatient
    users send two, and the second would interrupt the writing of the model that the first has caused.

    If the process ``exits`` afterwards, the signals stay ignored: in an interpreter that shuts down they would replace
    the command's exit code. Otherwise the handlers are restored.
    """
    received: list[int] = []
    last = -REPEAT_SECONDS

    def handle(number: int, _: object) -> None:
        nonlocal last
        now = time.monotonic()
        if received and now - last < REPEAT_SECONDS:
            return
        last = now
        received.append(number)
        raise KeyboardInterrupt

    if not _in_main_thread():
        yield received
        return
    before = {number: signal.getsignal(number) for number in SIGNALS}
    for number, handler in before.items():
        if handler in (signal.SIG_DFL, signal.default_int_handler):  # keep what the caller ignores or handles
            signal.signal(number, handle)
    try:
        yield received
    finally:
        if exits:
            ignore_signals()
        else:
            for number, handler in before.items():
                signal.signal(number, handler)


def ignore_signals() -> None:
    """Ignore these signals from now on: another one would end the command with a traceback."""
    if _in_main_thread():
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
