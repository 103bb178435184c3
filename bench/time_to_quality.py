"""Fidelity against seconds on the Census table, by training steps and solver steps.

    python bench/time_to_quality.py [--seed 0] [--threads 2] [--save]

A fifth of the cells is hidden. Each number of training steps is a fit of its own (a shorter one is no prefix of a
longer one, since the learning rate falls to 0 by its end); each fitted model draws 16,000 rows by several numbers of
solver steps. ``--save`` writes bench/results/time_to_quality.csv and docs/time-to-quality.png.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
import torch
from matplotlib.ticker import FixedLocator, ScalarFormatter
from store import describe

from missdiff_fast import MissDiff
from missdiff_fast.datasets.census import CENSUS_CONTINUOUS, census_split
from missdiff_fast.evaluate import fidelity
from missdiff_fast.missingness import hide

FOLDER = Path(__file__).parent
TRAINING, SOLVER = (500, 1000, 2000, 4000, 8000), (5, 7, 10, 15, 25)


def set_solver_steps(model: MissDiff, steps: int) -> None:
    """Change the number of solver steps of a fitted model, otherwise a setting of `fit`."""
    method = model._method
    method.config = replace(method.config, solver=replace(method.config.solver, steps=steps))


def curve(seed: int) -> pd.DataFrame:
    """A row for each fit and solver."""
    train, _ = census_split(seed=0)
    holes, _ = hide(train, "independent", 0.2, seed)
    rows = []
    for steps in TRAINING:
        began = time.perf_counter()
        model = MissDiff(steps=steps, random_state=seed, verbose=False).fit(holes)
        fit_s = time.perf_counter() - began
        for solver in SOLVER:
            set_solver_steps(model, solver)
            began = time.perf_counter()
            synthetic = model.sample(len(train))
            sample_s = time.perf_counter() - began
            score = fidelity(train, synthetic, list(CENSUS_CONTINUOUS))["overall"].iloc[0]
            rows.append(
                {"steps": steps, "fit_s": fit_s, "solver_steps": solver, "sample_s": sample_s, "fidelity": score}
            )
            print({name: round(value, 3) for name, value in rows[-1].items()}, flush=True)
    return pd.DataFrame(rows)


def plot(table: pd.DataFrame, machine: str, path: Path) -> None:
    """A line for each number of solver steps over the seconds of fit and draw together."""
    figure, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
    for solver, part in table.groupby("solver_steps"):
        axes.plot(part.fit_s + part.sample_s, part.fidelity, marker="o", markersize=4, label=f"{solver}")
    for steps, part in table.groupby("steps"):
        axes.annotate(f"{steps:,}", (part.fit_s.iloc[0], part.fidelity.min()), (4, -14), textcoords="offset points",
                      ha="center", fontsize=8)  # fmt: skip
    axes.set(xscale="log", xlabel="seconds of fit and of drawing 16,000 rows", ylabel="fidelity, of 100")
    axes.xaxis.set_major_locator(FixedLocator([5, 10, 20, 40, 80, 160]))
    axes.xaxis.set_major_formatter(ScalarFormatter())
    axes.minorticks_off()
    axes.set_title("Census, a fifth of the cells hidden; training steps at the points", loc="left", fontsize=10)
    axes.legend(title="solver steps", frameon=False, loc="lower right")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.3)
    figure.text(0.01, -0.03, machine.split(";")[0], fontsize=7, va="top")
    figure.savefig(path, dpi=110, bbox_inches="tight")


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--save", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    machine = describe()
    table = curve(arguments.seed)
    if arguments.save:
        (FOLDER / "results").mkdir(exist_ok=True)
        table.round(4).to_csv(FOLDER / "results" / "time_to_quality.csv", index=False)
        plot(table, machine, FOLDER.parent / "docs" / "time-to-quality.png")


if __name__ == "__main__":
    main()
