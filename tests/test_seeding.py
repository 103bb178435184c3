"""Seeds."""

from __future__ import annotations

import numpy as np
import pytest

from missdiff_fast._engine.seeding import _PURPOSES, check_seed, derive


def test_every_purpose_and_index_has_a_seed_of_its_own() -> None:
    seeds = {derive(0, purpose, index) for purpose in _PURPOSES for index in range(20)}
    seeds |= {derive(seed, "sample") for seed in range(1, 100)}
    assert len(seeds) == 20 * len(_PURPOSES) + 99
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_a_seed_derived_twice_is_the_same() -> None:
    assert derive(7, "noise", 3) == derive(7, "noise", 3)


def test_none_draws_afresh() -> None:
    assert check_seed(None) != check_seed(None)


@pytest.mark.parametrize("seed", [0, 2**64 - 1, np.int32(5), np.uint64(2**63)])
def test_integers_are_kept(seed: int) -> None:
    assert check_seed(seed) == int(seed)


@pytest.mark.parametrize("seed", [-1, 2**64])
def test_out_of_range(seed: int) -> None:
    with pytest.raises(ValueError, match=rf"random_state must lie in \[0, 2\*\*64\), got {seed}"):
        check_seed(seed)


@pytest.mark.parametrize("seed", [1.0, "1", True, np.random.RandomState(0)])
def test_other_types(seed: object) -> None:
    with pytest.raises(TypeError, match="random_state must be None or an integer"):
        check_seed(seed)
