"""One seed in, one independent seed out for every purpose."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

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
)


def check_seed(random_state: object) -> int:
    """The seed as an int of 64 bits.

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
        raise ValueError(f"random_state must lie in [0, 2**64), got {random_state}")
    raise TypeError(f"random_state must be None, an integer or a NumPy generator, got {type(random_state).__name__}")


def derive(seed: int, purpose: str, index: int = 0) -> int:
    """The seed of 63 bits for one purpose and, where the purpose recurs, its index."""
    entropy = [seed, _PURPOSES.index(purpose), index]
    return int(np.random.SeedSequence(entropy).generate_state(1, np.uint64)[0] >> np.uint64(1))
