"""From a CSV file with holes to 16,000 synthetic Census rows by the command line: wall time, peak memory, fidelity.

    python bench/census_speed.py [--seeds 0 1 2] [--threads 2] [--save]

For each seed `missdiff fit` and `missdiff sample` run as processes of their own, starting Python and importing PyTorch
included. Beside them the time in which a loaded model draws 16,000 rows, the median of five calls after one that does
not count. ``--save`` writes bench/results/census_speed.{csv,md}.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import pandas as pd
from script import begin, keep, peak, show
from store import describe, markdown

from missdiff_fast import MissDiff
from missdiff_fast.datasets.census import CENSUS_CONTINUOUS, census_split
from missdiff_fast.evaluate import fidelity
from missdiff_fast.missingness import hide
from missdiff_fast.table.io import read_table

ROWS, CALLS = 16_000, 5


def timed(threads: int, *arguments: object) -> tuple[float, float]:
    """Wall seconds of a `missdiff` command, and the peak memory in MB of the largest process so far."""
    command = [sys.executable, "-m", "missdiff_fast", *map(str, arguments), "--quiet"]
    began = time.perf_counter()
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    subprocess.run(command, check=True, env=environment, stderr=subprocess.DEVNULL)  # it warns of "?", here a category
    return time.perf_counter() - began, peak(resource.RUSAGE_CHILDREN) / 1e6


def run(seed: int, threads: int, folder: Path) -> dict[str, object]:
    """Fit, sample and measure once."""
    train, _ = census_split(seed=0)
    table, model_file, out = folder / "holes.csv", folder / "census.missdiff", folder / "synthetic.csv"
    hide(train, "independent", 0.2, seed)[0].to_csv(table, index=False)
    fit_s, fit_mb = timed(threads, "fit", table, "-o", model_file, "--seed", seed)
    sample_s, peak_mb = timed(threads, "sample", model_file, "-n", ROWS, "-o", out, "--seed", seed)
    model, seconds = MissDiff.load(model_file), []
    for _ in range(1 + CALLS):
        began = time.perf_counter()
        model.sample(ROWS)
        seconds.append(time.perf_counter() - began)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the same
        synthetic = read_table(out).astype(train.dtypes)
    scores = fidelity(train, synthetic, list(CENSUS_CONTINUOUS)).iloc[0]
    return {
        "seed": seed,
        "fit_s": fit_s,
        "sample_s": sample_s,
        "csv_to_rows_s": fit_s + sample_s,
        "peak_mb": max(fit_mb, peak_mb),
        "draw_s": statistics.median(seconds[1:]),
        "fidelity": float(scores["overall"]),
        "shapes": float(scores["shapes"]),
        "trends": float(scores["trends"]),
    }


def main() -> None:
    """Run what the command line asks for, and print it."""
    options, rows = begin(__doc__, seeds=[0, 1, 2], threads=2), []
    for seed in options.seeds:
        with tempfile.TemporaryDirectory() as folder:
            rows.append(run(seed, options.threads, Path(folder)))
        show(rows[-1])
    if options.save:
        table = pd.DataFrame(rows)
        keep("census_speed", table, describe(options.facts), markdown(table))


if __name__ == "__main__":
    main()
