"""torch's own generators, which all threads share."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
import torch

from missdiff_fast import MissDiff
from missdiff_fast._engine.generators import seeded

TABLE = pd.DataFrame({"x": np.arange(64.0), "y": list("ab") * 32})


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
