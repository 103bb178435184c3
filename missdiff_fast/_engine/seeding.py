"""One seed in, one independent seed out for every purpose."""

from __future__ import annotations

import numpy as np

from missdiff_fast.errors import argument_error, argument_type_error

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
    """The seed as an int of 64 bits; None draws one from the system's entropy."""
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(1, np.uint64)[0])
    if isinstance(random_state, (int, np.integer)) and not isinstance(random_state, bool):
        if 0 <= random_state < 2**64:
            return int(random_state)
        raise argument_error("random_state", f"must lie in [0, 2**64), got {random_state}", random_state)
    raise argument_type_error(
        "random_state", f"must be None or an integer, got {type(random_state).__name__}", random_state
    )


def derive(seed: int, purpose: str, index: int = 0) -> int:
    """The seed of 63 bits for one purpose and, where the purpose recurs, its index."""
    entropy = [seed, _PURPOSES.index(purpose), index]
    return int(np.random.SeedSequence(entropy).generate_state(1, np.uint64)[0] >> np.uint64(1))
