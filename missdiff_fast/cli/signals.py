"""How the command meets Ctrl-C and SIGTERM."""

from __future__ import annotations

import signal
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_STOPS = (signal.SIGINT, signal.SIGTERM)
SAME_WISH = 1.0  # seconds


@contextmanager
def terminable(*, for_good: bool) -> Iterator[list[int]]:
    """SIGINT and SIGTERM raise KeyboardInterrupt, so that what is made is kept or cleared away.

    The list notes those that did. Another one within a second is passed over: shells, wrappers and impatient users send
    two for one wish, and the second would cut short the writing of the model that the first has caused.

    With ``for_good`` no signal is heard afterwards: an interpreter that is on its way out would die of it, in place of
    ending with the command's exit code.
    """
    noted: list[int] = []
    last = -SAME_WISH

    def stop(number: int, _: object) -> None:
        nonlocal last
        now = time.monotonic()
        if noted and now - last < SAME_WISH:
            return
        last = now
        noted.append(number)
        raise KeyboardInterrupt

    if not _in_main_thread():
        yield noted
        return
    before = {number: signal.getsignal(number) for number in _STOPS}
    for number, handler in before.items():
        if handler in (signal.SIG_DFL, signal.default_int_handler):  # what others ignore or handle is theirs
            signal.signal(number, stop)
    try:
        yield noted
    finally:
        if for_good:
            be_deaf()
        else:
            for number, handler in before.items():
                signal.signal(number, handler)


def be_deaf() -> None:
    """Hear no further Ctrl-C or SIGTERM, which would end the command with a traceback."""
    if _in_main_thread():
        for number in _STOPS:
            signal.signal(number, signal.SIG_IGN)


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
