"""Quality on many tables: fidelity, utility, imputation and draws, by table, mechanism, seed and method.

    python bench/quality [--data FOLDER] [--tables census ...] [--mechanisms independent row column mar nmar]
                         [--methods missdiff_fast mean_mode ...] [--seeds 0 1 2] [--rows 16000] [--ratio 0.2]
                         [--threads 2] [--python PYTHON] [--out build/quality] [--quick] [--save]

Without ``--data`` the bundled Census is the only table; FOLDER is searched for the files that quality/tables.py knows.
Each run hides cells of at most ``--rows`` training rows, lets one method learn from what is left, and measures what it
fills, draws and writes. Test rows serve the classifier alone. The seed picks the hidden cells and everything random in
the method; the split is always the same. Rivals run in the environment that ``make rivals`` makes, or that of
``--python``, and are skipped where that lacks them.

Each finished run is a line of OUT/runs.csv. The same command again does what is missing; Ctrl-C loses the run in
progress; a run that failed is tried again. OUT/quality.md and its plots are written at the end, and after Ctrl-C.
Changed code is not noticed: each line has its commit, and another OUT starts afresh. ``--quick``: at most 1,000 rows,
the first seed and mechanism, and short training, to see that all runs. ``--save`` writes the page with its runs to
bench/results, and of whole Census runs also census_quality.{csv,md}, from which README's figures are.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from script import begin, show

from missdiff_fast.missingness import MECHANISMS
from quality import census, measure, methods, page, rivals
from quality.runs import Runs
from quality.tables import TABLES

QUICK_ROWS = 1000
_ORDER = ["independent", *(name for name in MECHANISMS if name != "independent")]
_SHOWN = [*measure.KEY[:1], "mechanism", "seed", "method", "overall", "rmse", "category_error", "energy", "fit_s"]


def main() -> None:
    """Run what the command line asks for, and write the page."""
    options = begin(
        __doc__,
        data=Path,
        tables=list(TABLES),
        mechanisms=_ORDER,
        methods=list(methods.NAMES),
        seeds=[0, 1, 2],
        rows=16_000,
        ratio=0.2,
        threads=2,
        python=str,
        out="build/quality",
        quick=False,
    )
    _check(options)
    if options.quick:
        options.rows = min(options.rows, QUICK_ROWS)
        options.seeds, options.mechanisms = options.seeds[:1], options.mechanisms[:1]
    out = Path(options.out)
    runs, skipped = Runs(out / "runs.csv"), dict[str, str]()
    try:
        work(options, runs, skipped)
    finally:
        page.write(runs.table(), skipped, out, "quality")
        print(f"{out / 'runs.csv'}, {out / 'quality.md'}")
    if options.save:
        page.save(runs.table(), skipped)
        census.save(runs.table())
    if runs.table()["error"].notna().any():
        sys.exit(1)


def work(options: argparse.Namespace, runs: Runs, skipped: dict[str, str]) -> None:
    """Do the runs that are not done; ``skipped`` gets tables and methods that cannot be had, with the reason."""
    python = options.python or rivals.default_python()
    effort = methods.QUICK if options.quick else methods.FULL
    for name in options.methods:
        if reason := methods.unavailable(name, python):
            skipped[name] = reason
            print(f"{name} is skipped: {reason}", flush=True)
    chosen = [name for name in options.methods if name not in skipped]
    facts = _facts(options.facts)
    for name in options.tables:
        table = TABLES[name]
        try:
            train, test = table.load(options.data, options.rows)
        except FileNotFoundError as error:
            skipped[name] = str(error)
            continue
        shape = {"columns": train.shape[1], "missing": float(train.isna().to_numpy().mean())}
        for key in _keys(name, len(train), options, chosen):
            if runs.done(key):
                continue
            try:
                found = measure.run(train, test, table.target, key, effort, python)
            except Exception as error:  # the others go on
                found = {"error": f"{type(error).__name__}: {error}"[:500]}
            row = {**key, **shape, **found, **facts}
            runs.add(row)
            show({column: row[column] for column in (*_SHOWN, "error") if column in row})


def _keys(table: str, rows: int, options: argparse.Namespace, chosen: list[str]) -> Iterator[dict[str, Any]]:
    for mechanism in options.mechanisms:
        for seed in options.seeds:
            for method in chosen:
                values = (table, rows, mechanism, options.ratio, seed, method, options.quick)
                yield dict(zip(measure.KEY, values, strict=True))


def _facts(facts: dict[str, Any]) -> dict[str, Any]:
    return {name: json.dumps(facts[name]) for name in ("machine", "versions")} | {
        name: facts[name] for name in ("threads", "commit")
    }


def _check(options: argparse.Namespace) -> None:
    known = {"tables": TABLES, "mechanisms": MECHANISMS, "methods": methods.NAMES}
    for option, names in known.items():
        unknown = [name for name in getattr(options, option) if name not in names]
        if unknown:
            sys.exit(f"--{option}: {', '.join(unknown)} not known; choose of {', '.join(names)}")
    if options.data is not None and not options.data.is_dir():
        sys.exit(f"--data: {options.data} is no folder")
