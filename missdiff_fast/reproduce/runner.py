"""Execution of experiments, each shared run once, and their tables."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from missdiff_fast._checks import check_count
from missdiff_fast._engine.device import resolve_device
from missdiff_fast._engine.random import check_seed
from missdiff_fast.errors import argument_error
from missdiff_fast.evaluate._tables import require
from missdiff_fast.reproduce.data import digest
from missdiff_fast.reproduce.environment import environment
from missdiff_fast.reproduce.figure import draw_figure
from missdiff_fast.reproduce.pages import markdown
from missdiff_fast.reproduce.registry import EXPERIMENTS, METHODS, Experiment
from missdiff_fast.reproduce.runs import Context, Run, execute
from missdiff_fast.reproduce.scales import SCALES
from missdiff_fast.reproduce.store import Store
from missdiff_fast.reproduce.summary import summarise
from missdiff_fast.table.atomic import write_atomically
from missdiff_fast.table.io import write_table

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pandas as pd

    from missdiff_fast.reproduce.scales import Scale

_RATIO = 0.2
_SEEDS = 2**32  # as many as scikit-learn's models use
_NEEDED = ("sdmetrics.reports.single_table", "sklearn", "xgboost")


def reproduce(
    names: Sequence[str],
    output: Path,
    *,
    scale: str | Scale = "short",
    repetitions: int | None = None,
    methods: Sequence[str] | None = None,
    seed: int = 0,
    device: str = "auto",
    data: Path | None = None,
    verbose: bool = True,
) -> tuple[dict[str, pd.DataFrame], int, int]:
    """Run experiments, and write ``NAME.csv`` and ``NAME.md`` (and ``figure-bn.png``) for each.

    Every finished run is stored in ``output/runs`` under its settings and the package's version, and is not repeated:
    the same call resumes after an interruption. A run that fails is recorded as failed, and the next call tries it
    again.

    Parameters
    ----------
    names : sequence of str
        Of `EXPERIMENTS`; "all" for all of them.
    output : Path
        A folder, made where it is not there.
    scale : str or Scale
        "smoke", "short", "full", or one of your own.
    repetitions : int, optional
        Each with a mask and a model of its own; default: the scale's.
    methods : sequence of str, optional
        Of `METHODS`; default: all that an experiment has. An experiment that has none of them is left out.
    seed : int
        Of the first repetition; the next has the next.
    device : str
        "auto", "cpu" or "cuda".
    data : Path, optional
        The MIMIC4ED benchmark's ``master_dataset.csv``. Without it, MIMIC4ED is simulated, and the tables say so.
    verbose : bool
        Whether to print a line for each finished run on stderr, where that is a terminal.

    Returns
    -------
    tables : dict
        The content of ``NAME.csv`` by name; see `missdiff_fast.reproduce.summary.summarise`.
    failed, total : int
        How many runs failed, and how many there are.

    Raises
    ------
    ImportError
        A package that the measures need is not installed.
    OSError
        The folder or the data file cannot be used.
    ValueError, TypeError
        An unknown name, scale or method; a data file that is not MIMIC4ED's, or that nothing asks for.

    Examples
    --------
    >>> reproduce(["table1"], Path("results"), scale="huge")
    Traceback (most recent call last):
        ...
    ValueError: unknown scale 'huge'; it is one of smoke, short, full
    """
    chosen = choose(names, methods)
    context = _context(chosen, scale, repetitions, seed, device, data)
    for package in (*_NEEDED, *(["matplotlib"] if "figure-bn" in chosen else [])):
        require(package)
    store = Store(Path(output))
    plans = {name: plan(experiment, context.scale) for name, experiment in chosen.items()}
    runs = list(dict.fromkeys(run for plan in plans.values() for run in plan))
    records = _carry_out(runs, context, store, _teller(verbose))
    tables = {}
    for name, experiment in chosen.items():
        found = [(run, records[run]) for run in plans[name]]
        tables[name] = summarise(name, experiment, found)
        _write(Path(output), name, experiment, found, tables[name], context)
    return tables, sum(record["status"] == "failed" for record in records.values()), len(records)


def choose(names: Sequence[str], methods: Sequence[str] | None = None) -> dict[str, Experiment]:
    """Find experiments by their names, each with those of its methods that are asked for.

    Raises
    ------
    ValueError
        An unknown name or method, or none that fit together.

    Examples
    --------
    >>> {name: one.methods for name, one in choose(["table5", "imputation"], ["mice"]).items()}
    {'imputation': ('mice',)}
    """
    for name in names:
        if name not in EXPERIMENTS and name != "all":
            raise ValueError(f"unknown name {name!r}; it is one of {', '.join([*EXPERIMENTS, 'all'])}")
    for method in methods or ():
        if method not in METHODS:
            raise ValueError(f"unknown method {method!r}; it is one of {', '.join(METHODS)}")
    asked = list(EXPERIMENTS) if "all" in names else list(dict.fromkeys(names))
    chosen = {}
    for name in asked:
        kept = tuple(method for method in EXPERIMENTS[name].methods if methods is None or method in methods)
        if kept:
            chosen[name] = replace(EXPERIMENTS[name], methods=kept)
    if not chosen:
        known = [method for method in METHODS if any(method in EXPERIMENTS[name].methods for name in asked)]
        raise ValueError(f"{', '.join(asked)} has no method {', '.join(methods or ())}; it has {', '.join(known)}")
    return chosen


def plan(experiment: Experiment, scale: Scale) -> list[Run]:
    """List an experiment's runs, the first repetition of all before the second of any."""
    ratios = scale.ratios if experiment.dataset == "bayesian-network" else (_RATIO,)
    return [
        Run(
            experiment.imputation,
            experiment.dataset,
            mechanism,
            ratio,
            method,
            repetition,
            experiment.stasy_epochs if method.startswith("stasy") else None,
        )
        for repetition in range(scale.repetitions)
        for mechanism in experiment.mechanisms
        for ratio in ratios
        for method in experiment.methods
    ]


def _context(
    chosen: dict[str, Experiment],
    scale: str | Scale,
    repetitions: int | None,
    seed: int,
    device: str,
    data: Path | None,
) -> Context:
    if isinstance(scale, str):
        if scale not in SCALES:
            raise ValueError(f"unknown scale {scale!r}; it is one of {', '.join(SCALES)}")
        scale = SCALES[scale]
    if repetitions is not None:
        scale = replace(scale, repetitions=check_count("repetitions", repetitions, least=1))
    seed = check_seed(seed)
    if seed + scale.repetitions > _SEEDS:
        rule = f"must lie in [0, {_SEEDS - scale.repetitions}], got {seed}: utility takes no more"
        raise argument_error("random_state", rule, seed)
    context = Context(scale, seed, str(resolve_device(device)))
    if data is None:
        return context
    if not any(experiment.dataset == "mimic4ed" for experiment in chosen.values()):
        raise ValueError(f"{data} is for the tables of MIMIC4ED, table3 and table4, and neither is asked for")
    context = replace(context, file=data, file_digest=digest(data))
    context.data(Run(False, "mimic4ed", "row", _RATIO, "diff-mean", 0))  # refused before any work
    return context


def _carry_out(
    runs: Sequence[Run], context: Context, store: Store, tell: Callable[[str], None]
) -> dict[Run, dict[str, Any]]:
    from missdiff_fast.baselines import NoCompleteRowError

    records: dict[Run, dict[str, Any]] = {}
    for run in runs:
        known = store.get(context.settings(run))
        if known is not None and known["status"] != "failed":
            records[run] = known
    missing = [run for run in runs if run not in records]
    if len(missing) < len(runs):
        tell(f"{len(runs) - len(missing)} of {len(runs)} runs were done before")
    for place, run in enumerate(missing):
        began = time.perf_counter()
        try:
            outcome = {"status": "done", "message": None, **execute(run, context)}
        except KeyboardInterrupt:
            kept = len(runs) - len(missing) + place
            raise KeyboardInterrupt(f"{kept} of {len(runs)} runs are kept; repeat it to go on") from None
        except NoCompleteRowError as error:
            outcome = {"status": "not applicable", "message": str(error), "metrics": {}, "seconds": {}}
        except Exception as error:
            message = f"{type(error).__name__}: {' '.join(str(error).split())}"
            outcome = {"status": "failed", "message": message, "metrics": {}, "seconds": {}}
        outcome["total_seconds"] = round(time.perf_counter() - began, 2)
        outcome["finished"] = datetime.now(timezone.utc).isoformat(timespec="seconds")
        outcome["environment"] = environment(context.device)
        store.put(context.settings(run), outcome)
        records[run] = outcome
        left = _time_left(records, missing[place + 1 :])
        tell(f"{place + 1}/{len(missing)} {run}: {_result(outcome)} in {_span(outcome['total_seconds'])}{left}")
    return records


def _result(outcome: dict[str, Any]) -> str:
    return f"failed ({outcome['message']})" if outcome["status"] == "failed" else str(outcome["status"])


def _time_left(records: dict[Run, dict[str, Any]], waiting: Sequence[Run]) -> str:
    """Estimate the time of the remaining runs from those of the same method and data, or else from all."""
    if not waiting:
        return ""
    taken: dict[tuple[object, ...], list[float]] = {}
    for run, record in records.items():
        for group in ((run.imputation, run.dataset, run.method, run.stasy_epochs), ()):
            taken.setdefault(group, []).append(float(record["total_seconds"]))
    total = 0.0
    for run in waiting:
        like = taken.get((run.imputation, run.dataset, run.method, run.stasy_epochs)) or taken[()]
        total += sum(like) / len(like)
    return f"; about {_span(total)} left"


def _span(seconds: float) -> str:
    """Format a duration.

    Examples
    --------
    >>> _span(3.24), _span(200), _span(7300)
    ('3.2 s', '3 min', '2.0 h')
    """
    if seconds < 90:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _teller(verbose: bool) -> Callable[[str], None]:
    if verbose and sys.stderr is not None and sys.stderr.isatty():
        return lambda text: print(text, file=sys.stderr, flush=True)
    return lambda text: None


def _write(
    output: Path,
    name: str,
    experiment: Experiment,
    found: Sequence[tuple[Run, dict[str, Any]]],
    table: pd.DataFrame,
    context: Context,
) -> None:
    write_table(table, output / f"{name}.csv")
    with write_atomically(output / f"{name}.md") as temporary:
        temporary.write_text(markdown(name, experiment, found, table, context), encoding="utf-8")
    if name == "figure-bn":
        with write_atomically(output / f"{name}.png") as temporary:
            draw_figure(table, temporary)
