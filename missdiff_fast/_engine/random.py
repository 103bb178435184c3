"""Seeds and keys: one independent seed for each purpose, derived from the user's."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from missdiff_fast._engine.device import to_device
from missdiff_fast.errors import argument_error, argument_type_error
from missdiff_fast.ops.reference import make_key, uniform

__all__ = ["RandomState", "check_seed", "derive", "make_key", "make_keys", "row_uniform", "seeded"]

RandomState: TypeAlias = int | np.random.Generator | np.random.RandomState | None

_PURPOSES = (
    "encode",
    "holdout",
    "weights",
    "batches",
    "states",
    "levels",
    "noise",
    "fill",
    "probe",
    "sample",
    "compare",
    "draws",
    "replace",
    "bound",
    "impute",
    "calibrate",
    "settle",
    "refit",
    "bootstrap",
    "check",
    "joint",
    "choose",
    "hide",
    "visits",
    "correlate",
    "holes",
    "conditions",
    "redraw",
)
_LOCK = threading.Lock()


def check_seed(random_state: object) -> int:
    """The seed as an unsigned 64-bit integer.

    None draws one from the system's entropy; a NumPy Generator or RandomState draws one from itself.

    >>> check_seed(np.random.default_rng(0)) == check_seed(np.random.default_rng(0))
    True
    """
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(1, np.uint64)[0])
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**64, dtype=np.uint64))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**64, dtype=np.uint64))
    if isinstance(random_state, (int, np.integer)) and not isinstance(random_state, bool):
        if 0 <= random_state < 2**64:
            return int(random_state)
        raise argument_error("random_state", f"must lie in [0, 2**64), got {random_state}", random_state)
    rule = f"must be None, an integer or a NumPy generator, got {type(random_state).__name__}"
    raise argument_type_error("random_state", rule, random_state)


def derive(seed: int, purpose: str, index: int = 0) -> int:
    """The 63-bit seed of one purpose and, where the purpose recurs, its index."""
    entropy = [seed, _PURPOSES.index(purpose), index]
    return int(np.random.SeedSequence(entropy).generate_state(1, np.uint64)[0] >> np.uint64(1))


def make_keys(seed: int, steps: int, device: torch.device) -> Tensor:
    """The keys of steps 0 to ``steps - 1`` of one seed, copied to the device at once: int64 ``[steps, 2]``."""
    keys = make_key(seed, 0).repeat(steps, 1)
    keys[:, 1] = torch.arange(steps)
    return to_device(keys, device)


def row_uniform(seed: int, first_row: int, number: int) -> np.ndarray:
    """A uniform number for each row, which depends on the seed and the row's number alone: float32 ``[number]``."""
    return uniform(torch.arange(first_row, first_row + number), 1, make_key(seed, 0))[:, 0].numpy()


def shuffled(number: int, seed: int) -> Tensor:
    """The numbers from 0 to ``number - 1`` in a random order, on the CPU: int64 ``[number]``.

    >>> sorted(shuffled(3, seed=0).tolist())
    [0, 1, 2]
    """
    return torch.randperm(number, generator=torch.Generator().manual_seed(seed))


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed torch's default generators within, for initial weights and dropout, and restore their state on exit.

    All threads share these generators, so one lock serves the whole package: otherwise a thread that draws initial
    weights would reseed another thread's dropout.
    """
    with _LOCK, torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        torch.manual_seed(seed)
        yield
