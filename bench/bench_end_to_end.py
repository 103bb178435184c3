"""A table of MIMIC4ED's size from end to end: fit the default preset, then draw as many rows.

This takes minutes, so that each implementation runs once. The codec is the same in all of them.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np
import pandas as pd
import pytest
from plain import plain_pytorch
from timing import FULL_SIZE, IMPLEMENTATIONS, Timer

from missdiff_fast import MissDiff
from missdiff_fast.datasets import simulate_mimic4ed

CHECKED_STEPS = 20
RELATIVE = 1e-5  # of the loss after so few steps, which differ by rounding alone where the noise is the same


def fit_and_sample(frame: pd.DataFrame, implementation: str, *, philox: bool = False, **settings: Any) -> MissDiff:
    """The model, which has drawn as many rows as it was fitted to; ``philox`` as of `plain.PlainBackend`."""
    plain = plain_pytorch(compile_it=implementation == "compile", philox=philox)
    with nullcontext() if implementation == "native" else plain:
        model = MissDiff(random_state=0, verbose=False, **settings).fit(frame)
        model.sample(len(frame))
    return model


@pytest.fixture(scope="module")
def checked(rows: int) -> pd.DataFrame:
    """The table, on which all have learnt the same in a few steps."""
    frame = simulate_mimic4ed(rows, random_state=0)
    losses = {
        name: fit_and_sample(frame, name, philox=True, steps=CHECKED_STEPS, refine=0).history_["loss"]
        for name in IMPLEMENTATIONS
    }
    for name in IMPLEMENTATIONS[1:]:
        np.testing.assert_allclose(losses[name], losses["native"], rtol=RELATIVE)
    return frame


def bench_end_to_end(timer: Timer, checked: pd.DataFrame, implementation: str) -> None:
    # Fewer rows are for trying out, and that should not take as long as a model of them.
    settings = {} if len(checked) >= FULL_SIZE else {"steps": 100}
    if implementation == "compile":
        fit_and_sample(checked, implementation, steps=2)  # compiles for the shapes of this table
    timer("fit and sample", implementation, lambda: fit_and_sample(checked, implementation, **settings), once=True)
