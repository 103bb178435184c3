"""Coverage of pooled 95 % intervals: regression coefficients after imputation, by simulation.

    python bench/interval_coverage.py [--rows 500] [--repetitions 200] [--mechanisms mcar mar] [--save]

Each repetition draws x1, x2, x3, a group of three categories and y = 1 + x1 - 0.5 x2 + 0.5 [b] + 1 [c] + noise, hides
30 % of the cells, completes the table ``--draws`` times, regresses y on x1, x2 and the group in each completed table,
and pools by Rubin's rules with the degrees of freedom of Barnard and Rubin (1999). MCAR hides cells of all columns;
MAR hides x1, x2 and the group, the more often the greater y and x3 are, which stay complete.

Methods: "one fit" (`impute_draws` of one fitted model), "refits" (the same with ``refits``), "MICE"
(`sklearn.impute.IterativeImputer` with ``sample_posterior``; the group as two indicators), "complete cases", and
"no holes". ``--save`` writes bench/results/interval_coverage.{csv,md}.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import t as student
from script import begin, keep
from store import describe, markdown

from missdiff_fast import MissDiff

TRUTH = {"x1": 1.0, "x2": -0.5, "b": 0.5, "c": 1.0}
METHODS = ["refits", "one fit", "MICE", "complete cases", "no holes"]
_GROUPS = np.array(["a", "b", "c"])


def rows(random: np.random.Generator, num_rows: int) -> pd.DataFrame:
    """A complete table."""
    group = random.choice(3, num_rows, p=[0.5, 0.3, 0.2])
    x1 = random.normal(size=num_rows) + 0.5 * (group == 2)
    x2 = 0.5 * x1 + random.normal(size=num_rows)
    y = 1 + x1 - 0.5 * x2 + 0.5 * group + random.normal(size=num_rows)
    x3 = 0.5 * x1 + 0.3 * y + random.normal(size=num_rows)
    return pd.DataFrame({"x1": x1, "x2": x2, "x3": x3, "group": _GROUPS[group], "y": y})


def with_holes(complete: pd.DataFrame, mechanism: str, random: np.random.Generator) -> pd.DataFrame:
    """The table with 30 % of the cells missing (MAR: of those of three columns)."""
    hidden = random.random(complete.shape)
    if mechanism == "mcar":
        return complete.mask(hidden < 0.3)
    score = complete["y"] + complete["x3"]
    score = (score - score.mean()) / score.std()
    chance = 1 / (1 + np.exp(1.0 - score))  # 0.3 on average
    mask = hidden < chance.to_numpy()[:, None]
    mask[:, [complete.columns.get_loc("y"), complete.columns.get_loc("x3")]] = False
    return complete.mask(mask)


def indicators(table: pd.DataFrame) -> pd.DataFrame:
    """The table in numbers: the group as indicators of b and c, missing where the group is."""
    known = table["group"].notna()
    flags = {name: (table["group"] == name).astype(float).where(known) for name in "bc"}
    return table.drop(columns="group").assign(**flags).astype(float)


def regress(table: pd.DataFrame) -> tuple[np.ndarray, np.ndarray, int]:
    """Least squares of y: coefficients and their variances in the order of `TRUTH`, and degrees of freedom."""
    design = np.column_stack([np.ones(len(table)), table[list(TRUTH)].to_numpy()])
    inverse = np.linalg.inv(design.T @ design)
    beta = inverse @ design.T @ table["y"].to_numpy()
    freedom = len(design) - design.shape[1]
    variance = ((table["y"].to_numpy() - design @ beta) ** 2).sum() / freedom * inverse.diagonal()
    return beta[1:], variance[1:], freedom


def pool(estimates: np.ndarray, variances: np.ndarray, freedom: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rubin's rules: estimates, standard errors and degrees of freedom, from [M, P] estimates and variances."""
    m = len(estimates)
    within, between = variances.mean(0), (1 + 1 / m) * estimates.var(0, ddof=1)
    total = within + between
    share = between / total
    observed = (1 - share) * (freedom + 1) * freedom / (freedom + 3)
    old = (m - 1) / np.maximum(share, 1e-12) ** 2
    return estimates.mean(0), np.sqrt(total), old * observed / (old + observed)


def completed(
    method: str, table: pd.DataFrame, seed: int, options: argparse.Namespace, models: list[MissDiff]
) -> list[pd.DataFrame]:
    """Completed tables in numbers; ``models`` keeps the fitted model for the next method."""
    if method == "MICE":
        from sklearn.experimental import enable_iterative_imputer  # noqa: F401
        from sklearn.impute import IterativeImputer

        numbers = indicators(table)
        found = []
        for m in range(options.draws):
            imputer = IterativeImputer(sample_posterior=True, max_iter=10, random_state=1000 * seed + m)
            found.append(pd.DataFrame(imputer.fit_transform(numbers), columns=numbers.columns))
        return found
    if not models:
        models.append(fitted(table, seed, options))
    model = models[0]
    if method == "one fit":
        model._method._refits = []  # type: ignore[attr-defined]
    return [indicators(draw) for draw in model.impute_draws(table, options.draws)]


def fitted(table: pd.DataFrame, seed: int, options: argparse.Namespace) -> MissDiff:
    """A model with as many refits as tables are drawn; the fit that they start from is the same without them."""
    settings: dict[str, Any] = dict(pair.split("=") for pair in options.settings)
    settings = {name: float(value) if "." in value else int(value) for name, value in settings.items()}
    return MissDiff(settings=settings, refits=options.draws, random_state=seed).fit(table)


def repeat(mechanism: str, seed: int, options: argparse.Namespace) -> list[dict[str, Any]]:
    """One repetition: a row for each method and coefficient."""
    random = np.random.default_rng([seed, options.rows, mechanism == "mar"])
    complete = rows(random, options.rows)
    table = with_holes(complete, mechanism, random)
    found: list[dict[str, Any]] = []
    models: list[MissDiff] = []
    for method in options.methods:
        began = time.perf_counter()
        if method in ("complete cases", "no holes"):
            beta, variance, freedom = regress(indicators(complete if method == "no holes" else table.dropna()))
            error, degrees = np.sqrt(variance), np.full(len(TRUTH), float(freedom))
        else:
            each = [regress(one) for one in completed(method, table, seed, options, models)]
            beta, error, degrees = pool(np.array([e[0] for e in each]), np.array([e[1] for e in each]), each[0][2])
        seconds, half = time.perf_counter() - began, student.ppf(0.975, degrees) * error
        for j, (name, truth) in enumerate(TRUTH.items()):
            found.append(
                {
                    "mechanism": mechanism,
                    "method": method,
                    "seed": seed,
                    "coefficient": name,
                    "bias": beta[j] - truth,
                    "error": error[j],
                    "width": 2 * half[j],
                    "covered": int(abs(beta[j] - truth) <= half[j]),
                    "seconds": seconds,
                }
            )
    return found


def summary(table: pd.DataFrame) -> pd.DataFrame:
    """Coverage, width, bias, and standard error against the spread of the estimates, of each coefficient.

    ``mean`` is over the coefficients; ``error/spread`` below 1 says that the standard errors are too small.
    """

    def row(part: pd.DataFrame) -> pd.Series:
        return pd.Series(
            {
                "coverage": part["covered"].mean(),
                "width": part["width"].mean(),
                "bias": part["bias"].mean(),
                "error/spread": part["error"].mean() / part["bias"].std(),
                "seconds": part["seconds"].median(),
            }
        )

    keys = ["mechanism", "method", "coefficient"]
    each = table.groupby(keys, sort=False)[["covered", "width", "bias", "error", "seconds"]].apply(row).reset_index()
    mean = each.groupby(keys[:2], sort=False).mean(numeric_only=True).reset_index()
    return pd.concat([each, mean.assign(coefficient="mean")])[[*keys, *each.columns[3:]]]


def main() -> None:
    """Run what the command line asks for, and print it."""
    warnings.filterwarnings("ignore", message=r"\[IterativeImputer\]")
    options = begin(
        __doc__,
        rows=500,
        repetitions=200,
        first=1000,
        draws=10,
        mechanisms=["mcar", "mar"],
        methods=METHODS,
        settings=["network.width=48", "network.blocks=1", "training.batch_size=256", "training.steps=600"],
        threads=1,
    )
    found: list[dict[str, Any]] = []
    for seed in range(options.first, options.first + options.repetitions):
        for mechanism in options.mechanisms:
            found += repeat(mechanism, seed, options)
        if (seed - options.first + 1) % 10 == 0:
            means = summary(pd.DataFrame(found)).query("coefficient == 'mean'").drop(columns="coefficient")
            print(f"after {seed - options.first + 1} repetitions\n{means.round(3).to_string(index=False)}", flush=True)
    table = pd.DataFrame(found)
    result = summary(table)
    print(result.round(3).to_string(index=False))
    if options.save:
        words = (
            f"{options.rows} rows, {options.repetitions} repetitions (seeds from {options.first}), {options.draws} "
            f"tables, settings {' '.join(options.settings)}. With a coverage of 95 % the standard error of a figure of "
            f"{options.repetitions} repetitions is {100 * np.sqrt(0.95 * 0.05 / options.repetitions):.1f} points."
        )
        keep("interval_coverage", table, describe(options.facts), words, markdown(result.round(3)))


if __name__ == "__main__":
    main()
