"""Whole models: fit and sample from end to end."""

from __future__ import annotations

import statistics
import warnings
from typing import Any

import torch

from gpu.clock import Clock
from gpu.fidelity import fidelity
from gpu.plan import PAPER_ALL, PAPER_STEPS
from missdiff_fast import MissDiff
from missdiff_fast.datasets import simulate_mimic4ed
from missdiff_fast.datasets.census import CENSUS_CONTINUOUS, census_split
from missdiff_fast.missingness import hide

SEEDS = (0, 1, 2)


def _timed(clock: Clock, model: MissDiff, frame: Any, rows: int) -> tuple[dict[str, Any], Any]:
    """Seconds of a fit and of draws, the first of which is apart, peak memory on the card, and the rows."""
    if clock.on_card:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(clock.device)
    fit, _ = clock.wall(lambda: model.fit(frame))
    first, drawn = clock.wall(lambda: model.sample(rows))
    draws = [clock.wall(lambda: model.sample(rows))[0] for _ in range(3)]
    found: dict[str, Any] = {"fit": fit, "first_sample": first, "sample": statistics.median(draws)}
    if clock.on_card:
        found["peak_allocated"] = torch.cuda.max_memory_allocated(clock.device)
        found["peak_reserved"] = torch.cuda.max_memory_reserved(clock.device)
    return found, drawn


def mimic(clock: Clock, rows: int, steps: int | None) -> dict[str, Any]:
    """The simulated table of MIMIC4ED's shape, by the default settings."""
    frame = simulate_mimic4ed(rows, random_state=0)
    model = MissDiff(random_state=0, device=clock.device.type, verbose=False, steps=steps)
    found, drawn = _timed(clock, model, frame, rows)
    if not drawn.notna().all().all() or drawn.shape != frame.shape:
        raise AssertionError(f"rows drawn are not complete, or {drawn.shape} in place of {frame.shape}")
    return {"rows": rows, **found}


def census(clock: Clock, rows: int, steps: int | None) -> dict[str, Any]:
    """Census with a fifth of the cells hidden, as bench/census_speed.py has it, but without files."""
    train, _ = census_split(seed=0)
    train, runs = train.head(rows), []
    for seed in SEEDS:
        holes = hide(train, "independent", 0.2, seed)[0]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of "?", which is a category here
            model = MissDiff(random_state=seed, device=clock.device.type, verbose=False, steps=steps)
            found, drawn = _timed(clock, model, holes, len(train))
        runs.append({"seed": seed, **found, **fidelity(train, drawn, CENSUS_CONTINUOUS)})
    return {"rows": len(train), "runs": runs}


def paper(clock: Clock, rows: int, steps: int | None) -> dict[str, Any]:
    """Training steps of the paper's preset, after the first fifty of them, and what all of them would take."""
    train, _ = census_split(seed=0)
    holes = hide(train.head(rows), "independent", 0.2, 0)[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        settings = {"random_state": 0, "device": clock.device.type, "verbose": False}
        model = MissDiff(preset="paper", steps=steps or PAPER_STEPS, **settings)  # type: ignore[arg-type]
        fit, _ = clock.wall(lambda: model.fit(holes))
    history = model.history_
    first, last = history.iloc[0], history.iloc[-1]
    measured = int(last["step"] - first["step"])
    if not measured:
        raise AssertionError("too few steps to take the time of")
    each = float(last["seconds"] - first["seconds"]) / measured
    return {
        "fit": fit,
        "steps": measured,
        "seconds_a_step": each,
        "extrapolated_steps": PAPER_ALL,
        "extrapolated_seconds": each * PAPER_ALL,
    }
