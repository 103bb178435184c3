"""The one table of figures in README.md, from what is stored in bench/results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd
from store import markdown_table

Run = Mapping[str, Any]
_MISSING = "-"


def table(quality: pd.DataFrame, speed: pd.DataFrame, scale: Run, full: Run, cards: Sequence[Run]) -> str:
    """The table in Markdown; a dash for what is not stored.

    Parameters
    ----------
    quality, speed : DataFrame
        census_quality.csv and census_speed.csv; either may be empty.
    scale, full : mapping
        The stored runs of mimic_scale.py and of the whole benchmark; either may be empty.
    cards : sequence of mappings
        A run for each GPU.
    """
    header = ["", "missdiff_fast", "compared with"]
    rows = [*_quality(quality), *_speed(speed), *_scale(scale), *_ratios(full)]
    rows.append(["On a GPU", "see [benchmarks](docs/benchmarks.md#on-a-gpu)" if cards else "not measured", _MISSING])
    return markdown_table(header, rows)


def _quality(quality: pd.DataFrame) -> list[list[str]]:
    names = [
        "Census, fidelity of synthetic rows (SDMetrics; 100: alike)",
        "Census, AUROC of XGBoost trained on them, tested on real rows",
        "Census, error of filled numbers (RMSE, share of a column's range)",
        "Census, filled categories that are wrong",
    ]
    if not len(quality):
        return [[name, _MISSING, _MISSING] for name in names]
    mean = quality[quality["mechanism"] == "independent"].mean(numeric_only=True)
    cells = [
        [f"{mean['overall']:.1f}", _MISSING],
        [f"{mean['auroc']:.3f}", _MISSING],
        [f"{mean['rmse']:.3f}", f"{mean['mean_mode_rmse']:.3f}, column means"],
        [f"{mean['category_error']:.1f} %", f"{mean['mean_mode_category_error']:.1f} %, column modes"],
    ]
    return [[name, *line] for name, line in zip(names, cells, strict=True)]


def _speed(speed: pd.DataFrame) -> list[list[str]]:
    took = _seconds(speed["csv_to_rows_s"]) if len(speed) else _MISSING
    return [["Census, from a CSV file to one of 16,000 synthetic rows", took, _MISSING]]


def _scale(scale: Run) -> list[list[str]]:
    runs = scale.get("runs", [])
    most = [run for run in runs if run["rows"] == max(run["rows"] for run in runs)]
    size = f"{most[0]['rows']:,} rows, 73 columns" if most else "73 columns"
    took = {step: _seconds(run["steps"][step]["seconds"] for run in most) for step in ("fit", "sample")}
    return [[f"{size}, fit", took["fit"], _MISSING], [f"{size}, as many rows drawn", took["sample"], _MISSING]]


def _ratios(full: Run) -> list[list[str]]:
    names = {
        "fit and sample": "the same, fit and draw",
        "mlp_train_step": "training step",
        "mlp_sample": "sampler",
    }
    ratios = {op: entry["ratios"] for op, entry in full.get("ops", {}).items()}
    lines = []
    for op, name in names.items():
        found = ratios.get(op, {}).get("eager")
        lines.append([name, _MISSING, _MISSING if found is None else f"{found:.1f} times as long in eager PyTorch"])
    return lines


def _seconds(seconds: Iterable[float]) -> str:
    found = span(seconds)
    return f"{found} s" if found else _MISSING


def span(numbers: Iterable[float], digits: int = 0) -> str:
    """The least to the greatest, or the one number that both are; empty without numbers."""
    found = sorted(numbers)
    return " to ".join(dict.fromkeys(f"{end:.{digits}f}" for end in (*found[:1], *found[-1:])))
