"""An experiment's page in Markdown: the layout of the paper's table, our figures beside the paper's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd

from missdiff_fast.reproduce.registry import DATASETS, MECHANISMS, METHODS
from missdiff_fast.reproduce.scales import SCALES, cuts

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from missdiff_fast.reproduce.registry import Experiment, Measure
    from missdiff_fast.reproduce.runs import Context, Run
    from missdiff_fast.reproduce.scales import Budget, ImputationBudget

_KEY = (
    "Cells: our mean ± standard deviation over repetitions, and in brackets the paper's figure. "
    '"-": the method cannot be applied, as no complete row is left, or only equal ones.'
)


def markdown(
    name: str,
    experiment: Experiment,
    found: Sequence[tuple[Run, dict[str, Any]]],
    table: pd.DataFrame,
    context: Context,
) -> str:
    """Write an experiment's page.

    Parameters
    ----------
    name, experiment
        The experiment and its name.
    found : sequence of (Run, dict)
        Its runs and their stored results.
    table : DataFrame
        Of `missdiff_fast.reproduce.summary.summarise`.
    context : Context
        The scale, the first seed and the device.
    """
    scale = context.scale
    lines = [f"# {name}: {experiment.title}", ""]
    data = context.data(found[0][0])
    if scale.name == "smoke":
        lines += ["**A trial of whether everything runs: the figures below mean nothing.**", ""]
    lines += [
        f"{experiment.printed} of the paper, counted through its source ({experiment.label}). {data.text}. "
        f"Scale: **{scale.name}**; {scale.repetitions} repetition{'s' * (scale.repetitions > 1)}, first seed "
        f"{context.seed}.",
        "",
        _KEY,
        "",
    ]
    for measure in experiment.measures:
        part = table[table["metric"] == measure.metric]
        if len(part):
            lines += [f"## {measure.title}", "", *_grid(part, measure, experiment), ""]
    if name == "figure-bn":
        lines += [f"![{experiment.title}]({name}.png)", ""]
    lines += _failures(found)
    lines += _notes(experiment, context)
    lines += ["## Time", "", "Mean seconds of a run.", "", *_times(found), ""]
    return "\n".join([*lines, "## Where", "", *_environments(found), ""])


def _grid(part: pd.DataFrame, measure: Measure, experiment: Experiment) -> list[str]:
    ratios = part["ratio"].nunique() > 1
    cells = {(row.mechanism, row.ratio, row.method): _cell(row, measure) for row in part.itertuples()}
    places = list(dict.fromkeys(zip(part["mechanism"], part["ratio"], strict=True)))
    head = ["", *(METHODS[method] for method in experiment.methods)]
    rows = [
        [
            MECHANISMS[mechanism] + (f", {ratio:g}" if ratios else ""),
            *(cells[mechanism, ratio, method] for method in experiment.methods),
        ]
        for mechanism, ratio in places
    ]
    return _table(head, rows)


def _cell(row: Any, measure: Measure) -> str:
    paper = "" if pd.isna(row.paper) else f" ({row.paper:.{measure.digits}f})"
    if row.status != "done":
        return {"failed": "failed", "not applicable": "-"}[row.status] + paper
    if pd.isna(row.mean):
        return "undefined" + paper
    spread = "" if pd.isna(row.std) else f" ± {row.std:.{measure.digits}f}"
    failed = f", {row.failed} failed" if row.failed else ""
    return f"{row.mean:.{measure.digits}f}{spread}{failed}{paper}"


def _failures(found: Sequence[tuple[Run, dict[str, Any]]]) -> list[str]:
    failed = [(run, record) for run, record in found if record["status"] == "failed"]
    if not failed:
        return []
    lines = [f"- {run}, repetition {run.repetition + 1}: {record['message']}" for run, record in failed]
    return ["## Failed", "", *lines, ""]


def _notes(experiment: Experiment, context: Context) -> list[str]:
    scale, full = context.scale, SCALES["full"]
    budgets: tuple[Budget | ImputationBudget, Budget | ImputationBudget] = (scale.imputation, full.imputation)
    whole = {"repetitions"}
    if not experiment.imputation:
        budgets = (scale.budget(experiment.dataset), full.budget(experiment.dataset))
        whole.add("ratios" if experiment.dataset == "bayesian-network" else "grid")
    cut = [text for name, text in cuts(scale, full).items() if name in whole]
    cut += cuts(*budgets).values()
    simulated = experiment.dataset == "mimic4ed" and context.file is None
    notes = list(experiment.notes)
    if simulated:
        notes.insert(0, "MIMIC4ED is **simulated** here: figures say nothing about the real table.")
    if not cut and not notes:
        return []
    what = f"Cut from the paper's setting on {DATASETS[experiment.dataset]}"
    return ["## Notes", "", *(f"- {note}" for note in notes), *([f"- {what}: {'; '.join(cut)}."] if cut else []), ""]


def _times(found: Sequence[tuple[Run, dict[str, Any]]]) -> list[str]:
    parts = list(dict.fromkeys(part for _, record in found for part in record["seconds"]))
    by_method: dict[str, list[Mapping[str, float]]] = {}
    for run, record in found:
        if record["status"] == "done":
            by_method.setdefault(METHODS[run.method], []).append(record["seconds"])
    rows = [
        [method, *(f"{sum(one[part] for one in seconds) / len(seconds):.1f}" for part in parts)]
        for method, seconds in by_method.items()
    ]
    total = sum(record["total_seconds"] for _, record in found)
    return [*_table(["", *parts], rows), "", f"All runs of this table together: {total:,.0f} s."]


def _environments(found: Sequence[tuple[Run, dict[str, Any]]]) -> list[str]:
    lines = dict.fromkeys(
        f"- {one['machine']}; {one['versions']}; commit {one['commit']}"
        for one in (record["environment"] for _, record in found)
    )
    return list(lines)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return ["| " + " | ".join(line) + " |" for line in (head, ["---"] * len(head), *rows)]
