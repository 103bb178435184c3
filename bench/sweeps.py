"""Time by rows, columns, categories and threads: `perturb`, `masked_loss`, `step`, the sampler and the training step.

    python bench/sweeps.py [--save] [--tiny]

Native and eager PyTorch, least times of rounds in turn. Everything else is as in the benchmarks: 27 of 73 columns
continuous, the others of two categories. The rivals support pairs only, so more categories are measured natively alone.
``--tiny`` is for trying out. ``--save`` writes bench/results/sweeps.csv and docs/sweeps.png.
"""

from __future__ import annotations

import itertools
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import store
import torch
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import EngFormatter, FixedLocator
from report import PLOT
from script import begin, draw, tidy
from timing import take_turns
from workload import LAYOUT, Workload, make_workload

from missdiff_fast.table import Layout

sys.path.insert(1, str(Path(__file__).parent.parent / "tests"))  # by whose tolerances the benchmarks are checked

import baselines
import bench_loss
import bench_mlp_sample
import bench_mlp_train_step
import bench_perturb
import bench_step

Contest = dict[str, Callable[[], Any]]
# Rows where something else is swept.
ROWS = {"perturb": 32_768, "masked_loss": 32_768, "step": 32_768, "mlp_sample": 4096, "mlp_train_step": 256}
SWEEPS: dict[str, tuple[int, ...]] = {
    "rows": (256, 1024, 4096, 16_384, 65_536, 262_144),
    "columns": (8, 16, 32, 64, 128, 256, 512),
    "categories": (2, 4, 8, 16, 32, 64),
    "threads": tuple(range(1, (os.cpu_count() or 1) + 1)),
}
MOST_ROWS = {"mlp_sample": 16_384, "mlp_train_step": 4096}
SECONDS = 0.4  # for the rounds of one point
# Okabe and Ito's colours, distinct for all kinds of colour vision, and markers for print without colour.
_STYLES = {
    "perturb": ("#0072B2", "o"),
    "masked_loss": ("#D55E00", "v"),
    "step": ("#009E73", "s"),
    "mlp_sample": ("#CC79A7", "D"),
    "mlp_train_step": ("#E69F00", "^"),
}


def contest(op: str, w: Workload) -> Contest:
    """An op in both implementations."""
    t, c = w.table, bench_step.COEFFICIENTS["step"]
    if op == "perturb":
        cells = t.continuous, t.codes, w.rows, w.states, w.alpha, w.sigma
        return {"native": lambda: bench_perturb.native(w), "eager": lambda: baselines.perturb(*cells)}
    if op == "masked_loss":
        return {
            "native": lambda: bench_loss.native(w, w.column_weight),
            "eager": lambda: bench_loss.plain(w, baselines.masked_loss, w.column_weight),
        }
    if op == "step":
        return {
            "native": lambda: bench_step.native(w, torch.tensor(c)),
            "eager": lambda: baselines.step(w.x, w.prediction, w.previous, w.states, c),
        }
    if op == "mlp_sample":
        case = bench_mlp_sample.Case(w)
        return {name: lambda name=name: case.sample(name) for name in ("native", "eager")}
    batch = bench_mlp_train_step.batch_of(w)
    steppers = {name: bench_mlp_train_step.make_stepper(w, name) for name in ("native", "eager")}
    return {name: lambda stepper=stepper: stepper.step(batch, 1e-3) for name, stepper in steppers.items()}


def points(tiny: bool) -> Iterator[tuple[str, str, int, Layout, int, int]]:
    """Sweep, op, rows, layout, threads, and the value swept."""
    threads = max(SWEEPS["threads"])
    for (sweep, values), op in itertools.product(SWEEPS.items(), ROWS):
        for value in values[:2] if tiny else values:
            rows, layout = ROWS[op], LAYOUT
            if sweep == "rows" and value > MOST_ROWS.get(op, value):
                continue
            if sweep == "rows":
                rows = value
            elif sweep == "columns":
                continuous = round(value * LAYOUT.num_continuous / LAYOUT.num_columns)
                layout = Layout(continuous, (2,) * (value - continuous))
            elif sweep == "categories":
                rows, layout = min(rows, 4096), Layout(LAYOUT.num_continuous, (value,) * LAYOUT.num_categorical)
            yield sweep, op, min(rows, 512) if tiny else rows, layout, value if sweep == "threads" else threads, value


def nothing() -> None:
    """In the place of a rival."""


def measure(tiny: bool) -> pd.DataFrame:
    """A row for each point and implementation."""
    rows = []
    for sweep, op, num_rows, layout, threads, value in points(tiny):
        torch.set_num_threads(threads)
        contestants = contest(op, make_workload(num_rows, layout))
        native, eager = contestants["native"], contestants["eager"]
        if set(layout.cardinalities) != {2}:
            del contestants["eager"]
            eager = nothing
        warm_ups = take_turns(native, eager, 2, time.perf_counter)
        rounds = max(3, min(50, int(SECONDS / sum(seconds[-1] for seconds in warm_ups))))
        taken = dict(zip(contestants, take_turns(native, eager, rounds, time.perf_counter), strict=False))
        point = {"sweep": sweep, "op": op, "value": value, "rows": num_rows, "columns": layout.num_columns}
        point |= {"categories": layout.cardinalities[0], "threads": threads}
        rows += [{**point, "implementation": name, "seconds": min(seconds)} for name, seconds in taken.items()]
        print({**point, **{name: f"{1e3 * min(seconds):.3f} ms" for name, seconds in taken.items()}}, flush=True)
    return pd.DataFrame(rows)


def plot(table: pd.DataFrame, machine: str, path: Path) -> None:
    """A panel for each sweep: nanoseconds for a cell, native in full lines and eager PyTorch in dashes."""
    figure = Figure(figsize=(4 * len(SWEEPS), 4), layout="constrained")
    for panel, sweep in zip(figure.subplots(1, len(SWEEPS), sharey=True), SWEEPS, strict=True):
        part = table[table["sweep"] == sweep]
        for (op, name), line in part.groupby(["op", "implementation"], sort=False):
            colour, mark = _STYLES[op]
            cell = 1e9 * line["seconds"] / (line["rows"] * line["columns"])
            full = name == "native"
            panel.plot(line["value"], cell, "-" if full else "--", color=colour, marker=mark, markersize=4,
                       alpha=1 if full else 0.6, label=op if full else None)  # fmt: skip
        panel.set(xscale="log", yscale="log", xlabel=sweep)
        panel.xaxis.set_major_locator(FixedLocator(sorted(set(part["value"]))))
        panel.xaxis.set_major_formatter(EngFormatter(places=0, sep=""))
        panel.minorticks_off()
        tidy(panel)
    figure.axes[0].set_ylabel("nanoseconds for a cell")
    handles, labels = figure.axes[0].get_legend_handles_labels()
    handles.append(Line2D([], [], color="grey", linestyle="--"))
    figure.legend(handles, [*labels, "eager PyTorch"], loc="outside lower center", ncols=6, frameon=False)
    figure.suptitle(machine, x=0.01, ha="left", fontsize=8)
    draw(figure, path)


def main() -> None:
    """Run what the command line asks for."""
    torch.set_num_threads(max(SWEEPS["threads"]))
    options = begin(__doc__, tiny=False, results=store.RESULTS / "sweeps.csv", plot=PLOT)
    table = measure(options.tiny)
    if options.save:
        options.results.parent.mkdir(exist_ok=True)
        table.to_csv(options.results, index=False, float_format="%.6g")
        plot(table, store.describe(options.facts), options.plot)


if __name__ == "__main__":
    main()
