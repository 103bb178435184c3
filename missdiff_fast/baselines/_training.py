"""What the baselines that are trained by gradient have in common."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

_LOCK = threading.Lock()


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed torch's own generators within, and give them their state back after: for initial weights and dropout."""
    with _LOCK, torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        torch.manual_seed(seed)
        yield


def epoch(num_rows: int, batch_size: int, generator: torch.Generator) -> Iterator[Tensor]:
    """All row numbers once, in random order, in batches of int64 ``[batch_size]``; the last may be smaller."""
    yield from torch.randperm(num_rows, generator=generator).split(batch_size)


def endless(num_rows: int, batch_size: int, generator: torch.Generator) -> Iterator[Tensor]:
    """Batches of int64 ``[min(batch_size, num_rows)]`` for ever, in a fresh order each pass; left-overs are dropped."""
    size = min(batch_size, num_rows)
    while True:
        yield from torch.randperm(num_rows, generator=generator)[: num_rows // size * size].split(size)
