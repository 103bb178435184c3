"""The mean of a column with missing cells, with a standard error that includes the uncertainty of imputation.

    python examples/pooled_mean.py [--steps N]

Each of several imputed tables gives an estimate and its variance, and Rubin's rules (Rubin, 1987, Multiple Imputation
for Nonresponse in Surveys) pool them.
"""

from __future__ import annotations

import argparse

import numpy as np

from missdiff_fast import MissDiff
from missdiff_fast.datasets import bayesian_network_split
from missdiff_fast.missingness import hide


def pool(estimates: np.ndarray, variances: np.ndarray) -> tuple[float, float]:
    """Estimate and standard error by Rubin's rules, from [M] estimates and their [M] variances."""
    m = len(estimates)
    variance = variances.mean() + (1 + 1 / m) * estimates.var(ddof=1)
    return float(estimates.mean()), float(np.sqrt(variance))


def main() -> None:
    """Hide cells at random given other columns (MAR), and compare three estimates with the truth."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, help="training steps; default: the model's choice")
    parser.add_argument("--draws", type=int, default=10, help="imputed tables; default 10")
    options = parser.parse_args()

    complete, _ = bayesian_network_split()
    table, _ = hide(complete, "mar", 0.3, random_state=0)
    column = table.select_dtypes("number").isna().sum().idxmax()

    model = MissDiff(steps=options.steps, random_state=0).fit(table)
    draws = model.impute_draws(table, num_draws=options.draws)
    means = np.array([draw[column].mean() for draw in draws])
    variances = np.array([draw[column].var() / len(draw) for draw in draws])
    estimate, error = pool(means, variances)

    print(f"mean of {column!r}, of which {table[column].isna().mean():.0%} of the cells are hidden:")
    print(f"  complete table      {complete[column].mean():8.3f}")
    print(f"  observed cells only {table[column].mean():8.3f}")
    print(f"  pooled over draws   {estimate:8.3f}, standard error {error:.3f}")


if __name__ == "__main__":
    main()
