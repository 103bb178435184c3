"""Work on the columns of a table, shared among threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np
import torch

LEAST_ROWS = 8_192  # with fewer, starting threads takes longer than they save

T = TypeVar("T")
R = TypeVar("R")


def in_threads(work: Callable[[T], R], pieces: Sequence[T], rows: int, threads: int | None = None) -> Iterator[R]:
    """Yield ``work(piece)`` for each piece of a table, in order, computed by several threads.

    There are as many threads as torch has, or ``threads``; one if the table has fewer than `LEAST_ROWS` rows. NumPy and
    pandas release the interpreter lock in loops over numbers, so these run in parallel; loops over Python objects do
    not. ``work`` must not start threads itself, so it may call only those torch functions that run in the calling
    thread. The first piece that raises has its error raised here.
    """
    threads = min(torch.get_num_threads() if threads is None else threads, len(pieces))
    if threads <= 1 or rows < LEAST_ROWS:
        yield from map(work, pieces)
        return
    treatment = np.geterr()  # np.errstate is not inherited by threads

    def with_treatment(piece: T) -> R:
        with np.errstate(**treatment):
            return work(piece)

    pool = ThreadPoolExecutor(threads)
    try:
        futures = [pool.submit(with_treatment, piece) for piece in pieces]
        for future in futures:
            yield future.result()
    finally:
        pool.shutdown(cancel_futures=True)
