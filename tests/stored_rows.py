"""Rows that a small model gives, for comparison with those stored in tests/stored.

Run as a program, it writes the rows of every preset and backend: ``python tests/stored_rows.py FOLDER tests/stored``.
Without arguments it stores them, with their models, after a change that is meant to give other rows. `ENVIRONMENT`
fixes the instruction sets and the number of threads, on which the last bit of a matrix product depends.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pandas as pd

from missdiff_fast import MissDiff
from missdiff_fast.datasets import census_split
from missdiff_fast.missingness import hide
from missdiff_fast.ops import _library

ENVIRONMENT = {
    "MISSDIFF_SIMD": "baseline",
    "ATEN_CPU_CAPABILITY": "default",
    "MKL_CBWR": "COMPATIBLE",
    "ONEDNN_MAX_CPU_ISA": "SSE41",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}
# Linear algebra differs in the last bit from processor to processor, and draws of so few rows would be its own.
_WITHOUT_LINEAR_ALGEBRA = {"blend.rows_per_feature": 0, "relations.enabled": False}
PRESETS: dict[str, dict[str, Any]] = {
    "default": {"steps": 60, "batch_size": 64, "width": 32, "blocks": 2, "settings": _WITHOUT_LINEAR_ALGEBRA},
    "paper": {"steps": 20, "batch_size": 32, "width": 8, "blocks": 2, "settings": {"diffusion.steps": 5, "draws": 2}},
}
BACKENDS = ("native", "reference")


def installed() -> tuple[str, ...]:
    """The backends that this installation has; a compiled extension that does not load is an error."""
    return BACKENDS if _library.load() else ("reference",)


def table() -> pd.DataFrame:
    """400 rows of the Census table with a fifth of their cells hidden."""
    return hide(census_split()[0].head(400), "independent", 0.2, random_state=0)[0]


def rows(model: MissDiff, *, loaded: bool) -> dict[str, pd.DataFrame]:
    """Rows drawn, cells filled and scores of a fitted model; of one loaded from a file without those that cost most."""
    frame = table()
    some = frame.head(60)
    found = {
        "history": model.history_[["step", "loss"]],
        "sample": model.sample(60, random_state=1),
        "impute": model.impute(some),
    }
    if model.preset == "default":
        found["incomplete"] = model.sample(60, missing=True, random_state=1)
    if loaded:
        return found
    found |= {
        "given": model.sample(10, given={"sex": "Female", "age": 40}, random_state=1),
        "scores": model.score_samples(some, random_state=2).to_frame(),
        "probabilities": model.predict_proba(some.drop(columns="workclass"), "workclass").head(10),
    }
    return found | {f"draw{m}": draw for m, draw in enumerate(model.impute_draws(some, num_draws=2, random_state=3))}


def fit(preset: str, backend: str) -> MissDiff:
    """The model of one preset on one backend."""
    return MissDiff(preset=preset, backend=backend, device="cpu", random_state=0, **PRESETS[preset]).fit(table())


def write(folder: Path, stored: Path) -> None:
    """Write the rows of every preset and installed backend, of a new model and of the stored model file."""
    for preset in PRESETS:
        for backend in installed():
            run = f"{preset}-{backend}"
            _write(fit(preset, backend), folder / "fit" / run)
            model = MissDiff.load(stored / run / "model.missdiff", device="cpu", backend=backend)
            _write(model, folder / "load" / run, loaded=True)


def store() -> None:
    """Store models and rows of every preset and backend in this folder."""
    for preset in PRESETS:
        for backend in BACKENDS:
            model, to = fit(preset, backend), Path(__file__).parent / "stored" / f"{preset}-{backend}"
            _write(model, to)
            model.save(to / "model.missdiff")


def _write(model: MissDiff, to: Path, *, loaded: bool = False) -> None:
    to.mkdir(parents=True, exist_ok=True)
    for name, frame in rows(model, loaded=loaded).items():
        frame.to_csv(to / f"{name}.csv", index=False)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        write(Path(sys.argv[1]), Path(sys.argv[2]))
    else:
        environment = {**os.environ, **ENVIRONMENT}
        if environment != dict(os.environ):
            os.execve(sys.executable, [sys.executable, *sys.argv], environment)
        store()
