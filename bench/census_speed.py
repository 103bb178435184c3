"""From a CSV file with holes to 16,000 synthetic Census rows by the command line: wall time, peak memory, fidelity.

    python bench/census_speed.py [--seeds 0 1 2] [--threads 2] [--save]

For each seed `missdiff fit` and `missdiff sample` run as processes of their own, starting Python and importing PyTorch
included. Beside them the time in which a loaded model draws 16,000 rows, the median of five calls after one that does
not count. ``--save`` writes bench/results/census_speed.{csv,md}.
"""

from __future__ import annotations

import argparse
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
import torch
from store import describe, markdown

from missdiff_fast import MissDiff
from missdiff_fast.datasets.census import CENSUS_CONTINUOUS, census_split
from missdiff_fast.evaluate import fidelity
from missdiff_fast.missingness import hide
from missdiff_fast.table.io import read_table

RESULTS = Path(__file__).parent / "results"
ROWS, CALLS = 16_000, 5


def timed(threads: int, *arguments: object) -> tuple[float, float]:
    """Wall seconds of a `missdiff` command, and the peak memory in MB of the largest process so far."""
    command = [sys.executable, "-m", "missdiff_fast", *map(str, arguments), "--quiet"]
    began = time.perf_counter()
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    subprocess.run(command, check=True, env=environment, stderr=subprocess.DEVNULL)  # it warns of "?", here a category
    return time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1000


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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--save", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    machine = describe()  # before results are written, which would look like a change of the commit
    rows = []
    for seed in arguments.seeds:
        with tempfile.TemporaryDirectory() as folder:
            rows.append(run(seed, arguments.threads, Path(folder)))
        print({name: round(value, 3) if isinstance(value, float) else value for name, value in rows[-1].items()})
    if arguments.save:
        RESULTS.mkdir(exist_ok=True)
        table = pd.DataFrame(rows)
        table.round(4).to_csv(RESULTS / "census_speed.csv", index=False)
        (RESULTS / "census_speed.md").write_text(f"{machine}\n\n{markdown(table)}\n")


if __name__ == "__main__":
    main()
