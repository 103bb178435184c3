"""Seeds, and torch's default generators, which all threads share."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
import torch

from missdiff_fast import MissDiff
from missdiff_fast._engine.random import _PURPOSES, check_seed, derive, seeded

TABLE = pd.DataFrame({"x": np.arange(64.0), "y": list("ab") * 32})


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


@pytest.mark.parametrize("make", [np.random.default_rng, np.random.RandomState])
def test_generators_draw_a_seed_each_time(make: Callable[[int], np.random.Generator]) -> None:
    first, second = make(0), make(0)
    seeds = [check_seed(first), check_seed(first)]
    assert seeds == [check_seed(second), check_seed(second)]
    assert seeds[0] != seeds[1]
    assert all(0 <= seed < 2**64 for seed in seeds)


@pytest.mark.parametrize("seed", [1.0, "1", True, [1]])
def test_other_types(seed: object) -> None:
    with pytest.raises(TypeError, match="random_state must be None, an integer or a NumPy generator, got"):
        check_seed(seed)


def test_the_callers_state_comes_back() -> None:
    torch.manual_seed(1)
    before = torch.random.get_rng_state()
    with seeded(5):
        first = torch.rand(3)
    assert torch.equal(torch.random.get_rng_state(), before)
    with seeded(5):
        assert torch.equal(torch.rand(3), first)
    with pytest.raises(KeyError), seeded(5):
        raise KeyError
    assert torch.equal(torch.random.get_rng_state(), before)


def test_a_fit_in_another_thread_does_not_change_the_dropout() -> None:
    def paper() -> list[float]:
        settings = {"diffusion.steps": 5}
        model = MissDiff(preset="paper", steps=150, width=8, blocks=1, random_state=0, verbose=False, settings=settings)
        return model.fit(TABLE).history_["loss"].tolist()

    alone = paper()
    with ThreadPoolExecutor(1) as pool:
        beside = pool.submit(paper)
        while not beside.done():
            MissDiff(steps=1, width=8, blocks=1, refine=0, random_state=1, verbose=False).fit(TABLE)
        assert beside.result() == alone
