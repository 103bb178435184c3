"""Work on the columns of a table, shared among threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np
import torch

LEAST_ROWS = 8_192  # with fewer, to start threads takes longer than they save

T = TypeVar("T")
R = TypeVar("R")


def in_threads(work: Callable[[T], R], pieces: Sequence[T], rows: int, threads: int | None = None) -> Iterator[R]:
    """What ``work`` gives for each piece of a table of so many rows, in their order.

    Computed on as many threads as torch has, or as are given. NumPy and pandas let go of the interpreter in their loops
    over numbers, so that the threads run at the same time; over Python objects they do not. ``work`` must not start
    threads of its own: of torch, it may call what torch does in the calling thread. What it raises is raised here, for
    the first piece that raises.
    """
    threads = min(torch.get_num_threads() if threads is None else threads, len(pieces))
    if threads <= 1 or rows < LEAST_ROWS:
        yield from map(work, pieces)
        return
    treatment = np.geterr()  # which threads do not take from each other

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
