"""How the command meets Ctrl-C and SIGTERM."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def terminable() -> Iterator[list[int]]:
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
def deaf() -> Iterator[None]:
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
