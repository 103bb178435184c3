"""The figures of an experiment's runs, averaged over repetitions, beside the paper's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from missdiff_fast.reproduce.paper import paper_figures

if TYPE_CHECKING:
    from collections.abc import Sequence

    from missdiff_fast.reproduce.registry import Experiment
    from missdiff_fast.reproduce.runs import Run

COLUMNS = ("mechanism", "ratio", "method", "metric", "mean", "std", "repetitions", "failed", "status", "paper")


def summarise(name: str, experiment: Experiment, found: Sequence[tuple[Run, dict[str, Any]]]) -> pd.DataFrame:
    """Average an experiment's measures.

    Parameters
    ----------
    name : str
        Name of the experiment, as `missdiff_fast.reproduce.paper_figures` has it.
    experiment : Experiment
        The experiment.
    found : sequence of (Run, dict)
        Its runs and their stored results.

    Returns
    -------
    DataFrame
        A row for each mechanism, ratio, method and metric: ``mean`` over the repetitions that were done; ``std``, the
        sample standard deviation, NaN for a single one; ``repetitions``, how many were done; ``failed``, how many
        failed; ``status``: "done", "failed" if all did, "not applicable" if the method cannot be applied; ``paper``,
        the printed figure, NaN without one. A metric that no run has measured is left out.
    """
    printed = paper_figures()
    printed = printed[printed["table"] == name]
    paper = printed.set_index(["mechanism", "method", "metric"])["value"].to_dict()
    groups: dict[tuple[str, float, str], list[dict[str, Any]]] = {}
    for run, record in found:
        groups.setdefault((run.mechanism, run.ratio, run.method), []).append(record)
    rows = []
    for measure in experiment.measures:
        if not any(measure.key in record["metrics"] for _, record in found) and measure is not experiment.measures[0]:
            continue
        for (mechanism, ratio, method), records in groups.items():
            done = [record for record in records if record["status"] == "done"]
            values = [record["metrics"].get(measure.key) for record in done]
            numbers = measure.factor * np.array([value for value in values if value is not None], dtype=float)
            failed = sum(record["status"] == "failed" for record in records)
            rows.append(
                (
                    mechanism,
                    ratio,
                    method,
                    measure.metric,
                    float(numbers.mean()) if len(numbers) else np.nan,
                    float(numbers.std(ddof=1)) if len(numbers) > 1 else np.nan,
                    len(numbers),
                    failed,
                    "done" if done else "failed" if failed else "not applicable",
                    paper.get((mechanism, method, measure.metric), np.nan),
                )
            )
    return pd.DataFrame(rows, columns=list(COLUMNS))
