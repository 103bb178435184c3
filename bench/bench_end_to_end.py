"""A table of MIMIC4ED's size from end to end: fit the default preset, then draw as many rows.

This takes minutes, so each implementation runs once. The codec is the same in all of them. On a card the native model
alone is timed, on this table, on Census, and in the paper's preset.
"""

from __future__ import annotations

import statistics
import warnings
from contextlib import nullcontext
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from card import CardRun
from fidelity import fidelity
from plain import plain_pytorch
from plan import PAPER_ALL, PAPER_STEPS
from timing import FULL_SIZE, IMPLEMENTATIONS, Timer

from missdiff_fast import MissDiff
from missdiff_fast.datasets import simulate_mimic4ed
from missdiff_fast.datasets.census import CENSUS_CONTINUOUS, census_split
from missdiff_fast.missingness import hide

CHECKED_STEPS = 20
RELATIVE = 1e-5  # of the loss after so few steps, which differs by rounding alone where the noise is the same
SEEDS = (0, 1, 2)
TRIAL_STEPS = 4


def fit_and_sample(frame: pd.DataFrame, implementation: str, *, philox: bool = False, **settings: Any) -> MissDiff:
    """A model that has drawn as many rows as it was fitted to; ``philox`` as of `plain.PlainBackend`."""
    plain = plain_pytorch(compile_it=implementation == "compile", philox=philox)
    with nullcontext() if implementation == "native" else plain:
        model = MissDiff(random_state=0, verbose=False, **settings).fit(frame)
        model.sample(len(frame))
    return model


@pytest.fixture(scope="module")
def checked(rows: int) -> pd.DataFrame:
    """The table. In a few steps on it all implementations have had the same losses."""
    frame = simulate_mimic4ed(rows, random_state=0)
    losses = {
        name: fit_and_sample(frame, name, philox=True, steps=CHECKED_STEPS, refine=0).history_["loss"]
        for name in IMPLEMENTATIONS
    }
    for name in IMPLEMENTATIONS[1:]:
        np.testing.assert_allclose(losses[name], losses["native"], rtol=RELATIVE)
    return frame


def bench_end_to_end(timer: Timer, checked: pd.DataFrame, implementation: str) -> None:
    # Fewer rows are for trying the benchmark out, which should not take as long as a model of them.
    settings = {} if len(checked) >= FULL_SIZE else {"steps": 100}
    if implementation == "compile":
        fit_and_sample(checked, implementation, steps=2)  # compiles for the shapes of this table
    timer("fit and sample", implementation, lambda: fit_and_sample(checked, implementation, **settings), once=True)


def timed(card: CardRun, model: MissDiff, frame: pd.DataFrame, rows: int) -> tuple[dict[str, float], pd.DataFrame]:
    """Seconds of a fit, of the first draw and of later ones, peak memory on the card, and the rows drawn."""
    clock = card.clock
    if clock.on_card:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(clock.device)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of "?", which is a category in Census
        fit, _ = clock.wall(lambda: model.fit(frame))
    first, drawn = clock.wall(lambda: model.sample(rows))
    draws = [clock.wall(lambda: model.sample(rows))[0] for _ in range(3)]
    found = {"fit": fit, "first_sample": first, "sample": statistics.median(draws)}
    if clock.on_card:
        found["peak_allocated"] = torch.cuda.max_memory_allocated(clock.device)
    return found, drawn


def settings_of(card: CardRun, seed: int, steps: int | None = None) -> dict[str, Any]:
    return {
        "random_state": seed,
        "device": card.device.type,
        "verbose": False,
        "steps": TRIAL_STEPS if card.trial else steps,
    }


def bench_end_to_end_on_card(card: CardRun) -> None:
    frame = simulate_mimic4ed(card.rows, random_state=0)
    found, drawn = timed(card, MissDiff(**settings_of(card, 0)), frame, card.rows)
    assert drawn.notna().all().all()
    assert drawn.shape == frame.shape
    card.note("mimic", {"rows": card.rows, **found})


def bench_census_on_card(card: CardRun) -> None:
    """Census with a fifth of the cells hidden, as bench/census_speed.py has it, but without files."""
    train, runs = census_split(seed=0)[0].head(card.rows), []
    for seed in SEEDS:
        holes = hide(train, "independent", 0.2, seed)[0]
        found, drawn = timed(card, MissDiff(**settings_of(card, seed)), holes, len(train))
        runs.append({"seed": seed, **found, **fidelity(train, drawn, CENSUS_CONTINUOUS)})
    card.note("census", {"rows": len(train), "runs": runs})


def bench_paper_on_card(card: CardRun) -> None:
    """Training steps of the paper's preset, after the first fifty of them, and what all of them would take."""
    holes = hide(census_split(seed=0)[0].head(card.rows), "independent", 0.2, 0)[0]
    settings = {**settings_of(card, 0, PAPER_STEPS), **({"steps": 100} if card.trial else {})}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        history = MissDiff(preset="paper", **settings).fit(holes).history_
    first, last = history.iloc[0], history.iloc[-1]
    steps = int(last["step"] - first["step"])
    each = float(last["seconds"] - first["seconds"]) / steps
    figures = {"steps": steps, "seconds_a_step": each, "all_steps": PAPER_ALL, "all_seconds": each * PAPER_ALL}
    card.note("paper", figures)
