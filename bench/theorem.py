"""Theorem 3.1 on two Gaussian columns of correlation 0.9: what the masked objective learns, in theory and in training.

    python bench/theorem.py [--ratios 0.2 0.5 0.8] [--seeds 0 1 2] [--rows 2000] [--save]

In theory: the correlation and mean that a sampler draws with the exact minimiser of the paper's objective on
zero-filled rows (`missdiff_fast.theory`), for columns centred at 0 and farther off, where a hole can be told from a
value.
Trained: the paper's preset, the default preset without refining (column states alone) and with it, on rows with cells
missing completely at random. ``--save`` writes bench/results/theorem.{csv,md}.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import torch
from script import begin, keep
from store import describe, markdown

from missdiff_fast import MissDiff
from missdiff_fast.diffusion.process import variance_preserving
from missdiff_fast.missingness import hide
from missdiff_fast.theory import MaskedGaussian, drawn_moments

CORRELATION = 0.9
_METHODS: dict[str, dict[str, Any]] = {
    "paper preset": {"preset": "paper", "epochs": 250},
    "column states": {"refine": 0},
    "column states, refined": {},
}


def theory(ratios: list[float], centres: list[float]) -> pd.DataFrame:
    """Moments that the minimiser draws: one row for each centre and missing ratio."""
    covariance = torch.tensor([[1.0, CORRELATION], [CORRELATION, 1.0]], dtype=torch.float64)
    process, rows = variance_preserving(100, 1e-4, 0.5), []
    for centre in centres:
        mean = torch.full((2,), centre, dtype=torch.float64)
        for ratio in ratios:
            drawn_mean, drawn = drawn_moments(MaskedGaussian(mean, covariance, ratio), process)
            correlation = float(drawn[0, 1] / drawn.diagonal().prod().sqrt())
            rows.append((centre, ratio, float(drawn_mean[0]), float(drawn[0, 0].sqrt()), correlation))
    return pd.DataFrame(rows, columns=["centre", "missing", "mean", "std", "correlation"])


def trained(ratio: float, seed: int, num_rows: int) -> list[dict[str, object]]:
    """Moments that each method draws after training on one table."""
    random = np.random.default_rng(seed)
    values = random.multivariate_normal([0, 0], [[1, CORRELATION], [CORRELATION, 1]], num_rows)
    table = pd.DataFrame(values, columns=["x", "y"])
    holes = hide(table, "independent", ratio, seed)[0] if ratio else table
    rows = []
    for name, settings in _METHODS.items():
        drawn = MissDiff(**settings, random_state=seed).fit(holes).sample(8_000)
        correlation = float(drawn.corr().iloc[0, 1])
        rows.append(
            {"method": name, "missing": ratio, "seed": seed, "std": float(drawn["x"].std()), "correlation": correlation}
        )
    return rows


def main() -> None:
    """Run what the command line asks for, and print it."""
    options = begin(__doc__, ratios=[0.2, 0.5, 0.8], centres=[0.0, 3.0, 10.0, 30.0], seeds=[0, 1, 2], rows=2000)
    exact = theory(options.ratios, options.centres)
    print(exact.round(3).to_string(index=False), flush=True)
    rows = []
    for ratio in options.ratios:
        for seed in options.seeds:
            rows += trained(ratio, seed, options.rows)
            print(pd.DataFrame(rows[-len(_METHODS) :]).round(3).to_string(index=False, header=False), flush=True)
    table = pd.DataFrame(rows)
    means = table.groupby(["method", "missing"], sort=False)[["std", "correlation"]].agg(["mean", "min", "max"])
    means.columns = [" ".join(column) for column in means.columns]
    print(means.round(3).to_string())
    if options.save:
        sections = [describe(options.facts), "In theory, by the exact minimiser:", markdown(exact.round(3))]
        sections += [f"Trained on {options.rows} rows:", markdown(means.round(3).reset_index())]
        keep("theorem", table, *sections)


if __name__ == "__main__":
    main()
