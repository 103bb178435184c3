"""The mean of a column with missing cells, with a standard error that includes the uncertainty of imputation.

Run ``python examples/pooled_mean.py [--steps N]``.

Each of several imputed tables gives an estimate and its variance, and Rubin's rules (Rubin, 1987, Multiple Imputation
for Nonresponse in Surveys) pool them.
"""

from __future__ import annotations

import argparse

import numpy as np
import pandas as pd

from missdiff_fast import MissDiff


def pool(estimates: np.ndarray, variances: np.ndarray) -> tuple[float, float]:
    """Estimate and standard error by Rubin's rules, from [M] estimates and their [M] variances."""
    m = len(estimates)
    variance = variances.mean() + (1 + 1 / m) * estimates.var(ddof=1)
    return float(estimates.mean()), float(np.sqrt(variance))


def patients(num_rows: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Age and blood pressure, complete and as measured: the older a patient, the likelier a measurement."""
    random = np.random.default_rng(0)
    age = random.uniform(20, 90, num_rows)
    complete = pd.DataFrame({"age": age, "pressure": 95 + 0.6 * age + random.normal(0, 10, num_rows)}).round(0)
    measured = random.random(num_rows) < 1 / (1 + np.exp((50 - age) / 10))
    return complete, complete.assign(pressure=complete["pressure"].where(measured))


def main() -> None:
    """Compare the mean of the measured cells and the pooled mean with the truth."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, help="training steps; default: the model's choice")
    parser.add_argument("--draws", type=int, default=10, help="imputed tables; default 10")
    options = parser.parse_args()

    complete, table = patients(2000)
    model = MissDiff(steps=options.steps, random_state=0).fit(table)
    draws = model.impute_draws(table, num_draws=options.draws)
    means = np.array([draw["pressure"].mean() for draw in draws])
    variances = np.array([draw["pressure"].var() / len(draw) for draw in draws])
    estimate, error = pool(means, variances)

    print(f"mean pressure, {table['pressure'].isna().mean():.0%} of the cells missing:")
    print(f"  all patients         {complete['pressure'].mean():7.2f}")
    print(f"  measured cells alone {table['pressure'].mean():7.2f}")
    print(f"  pooled over draws    {estimate:7.2f}, standard error {error:.2f}")


if __name__ == "__main__":
    main()
