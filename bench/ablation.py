"""Changes of training one by one, on tables with few, many and uneven holes: what pays, and its seconds
of processor time, which other work of the machine does not change.

    python bench/ablation.py [--variants default copy_half ...] [--conditions mar_20 ...] [--seeds 0 1 2]
                             [--rows 4000] [--effort 1.0] [--threads 1] [--out build/ablation] [--save]

The tables are rows of the bundled Census with cells hidden, and two Gaussian columns of correlation 0.9 of which 4 % of
the rows hold both. Each run is measured against the cells that were hidden; test rows serve the classifier alone. A
seed picks the same hidden cells for all variants (variants.py), which are therefore compared in pairs.

Each finished run is a line of OUT/runs.csv; the same command again does what is missing, seed by seed. The page is of
the lines with the given rows and effort. ``--save`` writes it to bench/results/ablation.md, and all lines to the CSV
file beside it.
"""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
import store
from quality.measure import MEASURES, measure
from quality.methods import Effort
from quality.outcome import Outcome
from quality.runs import Runs
from quality.tables import TABLES
from script import Steps, begin, keep, show
from variants import VARIANTS

from missdiff_fast import MissDiff, __version__
from missdiff_fast._engine import refinement
from missdiff_fast.missingness import hide

KEY = ["condition", "rows", "effort", "seed", "variant"]
COLUMNS = [
    *KEY,
    *("missing", *MEASURES, "distances", "fit_cpu_s", "fit_s", "sample_s", "impute_s", "draw_s"),
    *("machine", "versions", "threads", "commit", "error"),
]
# Means of the page, their digits, and whether more is better.
SHOWN = {
    "overall": (2, True),
    "overall_all_pairs": (2, True),
    "auroc": (4, True),
    "rmse": (4, False),
    "category_error": (2, False),
    "energy": (4, False),
    "fit_cpu_s": (1, False),
}
# Columns of Census that few rows hold in the condition "rare", and the share of the rows that do.
RARE = {"age": 0.05, "occupation": 0.05, "hours-per-week": 0.02, "relationship": 0.01, "workclass": 0.002}
GAUSSIAN_ROWS = 2000
Case = tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame, np.ndarray, str | None]  # train, test, holes, observed, target


def _census(mechanism: Any, ratio: float) -> Callable[[int, int], Case]:
    def case(rows: int, seed: int) -> Case:
        train, test = TABLES["census"].load(None, rows)
        holes, observed = hide(train, mechanism, ratio, seed)
        return train, test, holes, observed, TABLES["census"].target

    return case


def _rare(rows: int, seed: int) -> Case:
    """Each column of `RARE` in so many rows, a fifth of the other cells hidden."""
    train, test, _, observed, target = _census("independent", 0.2)(rows, seed)
    random = np.random.default_rng(seed)
    for name, share in RARE.items():
        place = train.columns.get_loc(name)
        observed[:, place] = False
        observed[random.permutation(len(train))[: round(share * len(train))], place] = True
    return train, test, train.where(observed), observed, target


def _gaussian(rows: int, seed: int) -> Case:
    random = np.random.default_rng(seed)
    values = random.multivariate_normal([0, 0], [[1, 0.9], [0.9, 1]], 2 * GAUSSIAN_ROWS)
    table = pd.DataFrame(values, columns=["x", "y"])
    train, test = table[:GAUSSIAN_ROWS], table[GAUSSIAN_ROWS:]
    holes, observed = hide(train, "independent", 0.8, seed)
    return train, test, holes, observed, None


CONDITIONS: dict[str, Callable[[int, int], Case]] = {
    "mar_20": _census("mar", 0.2),
    "nmar_20": _census("nmar", 0.2),
    "independent_50": _census("independent", 0.5),
    "independent_80": _census("independent", 0.8),
    "rare": _rare,
    "gaussian_80": _gaussian,
}


def run(condition: str, rows: int, effort: float, seed: int, variant: str) -> dict[str, Any]:
    """Fit and measure once."""
    train, test, holes, observed, target = CONDITIONS[condition](rows, seed)
    chosen, steps, draws_of, distances = VARIANTS[variant], Steps(), Effort(10, 500), list[float]()
    judge = refinement._distance

    def noted(*arguments: Any) -> float:
        distances.append(judge(*arguments))
        return distances[-1]

    settings = {**chosen.settings, "training.effort": effort * chosen.settings.get("training.effort", 1.0)}
    with patch("missdiff_fast._engine.refinement._distance", noted), chosen.change():
        began = time.process_time()
        model = steps.take("fit", MissDiff(settings=settings, random_state=seed, verbose=False).fit, holes)
    cpu = {"fit_cpu_s": time.process_time() - began}
    synthetic = steps.take("sample", model.sample, len(holes))
    filled = steps.take("impute", model.impute, holes)
    draws = steps.take("draw", model.impute_draws, holes.head(draws_of.draw_rows), draws_of.num_draws)
    outcome = Outcome(steps.seconds(), __version__, filled=filled, draws=draws, synthetic=synthetic)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of rare categories that a sample has not
        found = measure(train, test, target, outcome, observed | train.isna().to_numpy(), draws_of)
    missing = float(holes.isna().to_numpy().mean())
    return {"missing": missing, **found, **cpu, **outcome.seconds, "distances": " ".join(f"{d:.5f}" for d in distances)}


def page(runs: pd.DataFrame, rows: int, effort: float) -> list[str]:
    """A table for each condition, of the runs with so many rows at this effort.

    It has the default's means, and the others' differences from it at the seeds that both have. Without such a seed a
    variant's line has its means.
    """
    runs, sections = _selected(runs, rows, effort), list[str]()
    for condition in (name for name in CONDITIONS if (runs["condition"] == name).any()):
        part = runs[runs["condition"] == condition]
        shown = {name: kind for name, kind in SHOWN.items() if part[name].notna().any()}
        of = {name: own.set_index("seed")[list(shown)] for name, own in part.groupby("variant")}
        lines = []
        for variant in (name for name in VARIANTS if name in of):
            own, cells = of[variant], list[str]()
            change = (own - of["default"]).reindex(own.index).dropna(how="all") if "default" in of else own[:0]
            paired = variant != "default" and len(change) > 0
            for name, (digits, more) in shown.items():
                cells.append(_change(change[name].dropna(), name, digits, more) if paired else _mean(own[name], digits))
            lines.append([VARIANTS[variant].what, str(len(change if paired else own)), *cells])
        sections.append(f"## {condition}\n\n{part['missing'].mean():.0%} of the cells missing")
        sections.append(store.markdown_table(["variant", "seeds", *shown], lines))
    return sections


def summary(runs: pd.DataFrame, rows: int, effort: float) -> list[str]:
    """The page, with what was run above it."""
    return [
        described(_selected(runs, rows, effort)),
        "A plus behind a commit: with changes that were not committed.",
        f"{rows:,} rows, effort {effort:g}. The default's means over its seeds; of the others, mean differences from "
        "the default at the same seeds, or, without a sign, means where the default has no such seed. A plus behind: "
        "better than the default at every seed; a minus: worse at every seed.",
        *page(runs, rows, effort),
    ]


def described(runs: pd.DataFrame) -> str:
    """The machines and versions that ran, a line each, with their commits."""
    return "\n".join(
        store.describe(
            {
                "machine": json.loads(machine),
                "versions": json.loads(versions),
                "threads": threads,
                "commit": ", ".join(map(str, part["commit"].unique())),
            }
        )
        for (machine, versions, threads), part in runs.groupby(["machine", "versions", "threads"], sort=False)
    )


def _selected(runs: pd.DataFrame, rows: int, effort: float) -> pd.DataFrame:
    """The runs of one number of rows and one effort that did not fail."""
    return runs[runs["error"].isna() & (runs["rows"] == rows) & (runs["effort"] == effort)]


def _mean(values: pd.Series, digits: int) -> str:
    return f"{values.mean():.{digits}f}" if values.notna().any() else ""


def _change(change: pd.Series, name: str, digits: int, more: bool) -> str:
    """The mean difference, and whether it is better or worse at every seed; seconds are not judged."""
    if change.empty:
        return ""
    gain = change if more else -change
    mark = "" if name == "fit_cpu_s" else " +" if (gain > 1e-9).all() else " -" if (gain < -1e-9).all() else ""
    return f"{change.mean():+.{digits}f}{mark}"


def main() -> None:
    """Run what the command line asks for."""
    options = begin(
        __doc__,
        variants=list(VARIANTS),
        conditions=list(CONDITIONS),
        seeds=[0, 1, 2],
        rows=4000,
        effort=1.0,
        threads=1,
        out="build/ablation",
    )
    facts = {name: json.dumps(options.facts[name]) for name in ("machine", "versions")}
    facts |= {name: options.facts[name] for name in ("threads", "commit")}
    runs = Runs(Path(options.out) / "runs.csv", KEY, COLUMNS)
    for seed, variant, condition in product(options.seeds, options.variants, options.conditions):
        key = dict(zip(KEY, (condition, options.rows, options.effort, seed, variant), strict=True))
        if runs.done(key):
            continue
        try:
            found = run(**key)
        except Exception as error:  # the others go on
            found = {"error": f"{type(error).__name__}: {error}"[:500]}
        runs.add({**key, **found, **facts})
        show({name: value for name, value in {**key, **found}.items() if name in (*KEY, *SHOWN, "distances", "error")})
    text = summary(runs.table(), options.rows, options.effort)
    print("\n\n".join(text))
    if options.save:
        keep("ablation", runs.table(), *text)


if __name__ == "__main__":
    main()
