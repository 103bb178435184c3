"""torch's own generators, of which there is one for all threads."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

_LOCK = threading.Lock()


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed torch's own generators within, and give them their state back after: for initial weights and dropout.

    One lock for the whole package: a thread that draws initial weights must not seed anew what another's dropout draws
    from.
    """
    with _LOCK, torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        torch.manual_seed(seed)
        yield
