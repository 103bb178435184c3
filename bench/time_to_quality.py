"""Fidelity against seconds on the Census table, by training steps and solver steps.

    python bench/time_to_quality.py [--seed 0] [--threads 2] [--save]

A fifth of the cells is hidden. Each number of training steps is a fit of its own (a shorter one is no prefix of a
longer one, since the learning rate falls to 0 by its end); each fitted model draws 16,000 rows by several numbers of
solver steps. ``--save`` writes bench/results/time_to_quality.csv and docs/time-to-quality.png.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, ScalarFormatter
from script import Steps, begin, draw, keep, show, tidy
from store import describe

from missdiff_fast import MissDiff
from missdiff_fast.datasets.census import CENSUS_CONTINUOUS, census_split
from missdiff_fast.evaluate import fidelity
from missdiff_fast.missingness import hide

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
        took = Steps()
        model = took.take("fit", MissDiff(steps=steps, random_state=seed, verbose=False).fit, holes)
        for solver in SOLVER:
            set_solver_steps(model, solver)
            synthetic = took.take("sample", model.sample, len(train))
            score = fidelity(train, synthetic, list(CENSUS_CONTINUOUS))["overall"].iloc[0]
            fit_s, sample_s = took.seconds().values()
            row = {"steps": steps, "fit_s": fit_s, "solver_steps": solver, "sample_s": sample_s, "fidelity": score}
            rows.append(row)
            show(row)
    return pd.DataFrame(rows)


def plot(table: pd.DataFrame, machine: str, path: Path) -> None:
    """A line for each number of solver steps over the seconds of fit and draw together."""
    figure = Figure(figsize=(7, 4.2), layout="constrained")
    axes = figure.subplots()
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
    tidy(axes)
    figure.text(0.01, -0.03, machine.split(";")[0], fontsize=7, va="top")
    draw(figure, path, bbox_inches="tight")


def main() -> None:
    """Run what the command line asks for."""
    options = begin(__doc__, seed=0, threads=2)
    table = curve(options.seed)
    if options.save:
        keep("time_to_quality", table)
        plot(table, describe(options.facts), Path(__file__).parent.parent / "docs" / "time-to-quality.png")


if __name__ == "__main__":
    main()
