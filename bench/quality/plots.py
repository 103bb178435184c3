"""Plots of the runs: errors of filled cells beside those of means and modes, and coverage of draws."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from script import draw, tidy

from quality.measure import LEVELS

_PANELS = {"rmse": "RMSE", "category_error": "wrong categories", "energy": "energy score"}
_PLAIN = "mean_mode"
# Okabe and Ito's, and markers, so that methods can be told apart without colour.
_COLOURS = "#D55E00", "#000000", "#0072B2", "#56B4E9", "#009E73", "#CC79A7", "#E69F00", "#999999"
_MARKERS = "o|sD^vP*Xdh"


def write(good: pd.DataFrame, folder: Path, name: str) -> list[Path]:
    """Draw what there are figures for, and give the files."""
    looks = {
        method: {"color": _COLOURS[i % len(_COLOURS)], "marker": _MARKERS[i % len(_MARKERS)], "label": method}
        for i, method in enumerate(dict.fromkeys(good["method"]))
    }
    found = []
    if (good["method"] == _PLAIN).any():
        found.append(folder / f"{name}-imputation.png")
        _errors(good, looks, found[-1])
    if good[f"coverage_{LEVELS[0]}"].notna().any():
        found.append(folder / f"{name}-coverage.png")
        _coverage(good, looks, found[-1])
    return found


def _errors(good: pd.DataFrame, looks: dict[str, dict[str, str]], path: Path) -> None:
    """A panel for each measure: a line for each table, a point for each method, 1 where means and modes are."""
    labels = list(dict.fromkeys(good["label"]))
    figure = Figure(figsize=(12, 0.32 * len(labels) + 1.8), layout="constrained")
    panels = figure.subplots(1, len(_PANELS), sharey=True)
    for axes, (measure, title) in zip(panels, _PANELS.items(), strict=True):
        found = good.pivot_table(index="label", columns="method", values=measure, sort=False).reindex(labels)
        for method in looks:
            if method in found and _PLAIN in found:
                axes.plot(found[method] / found[_PLAIN], np.arange(len(labels)), linestyle="", **looks[method])
        axes.axvline(1, color="grey", linewidth=1)
        axes.set_title(f"{title} / that of means and modes", loc="left", fontsize=9)
        tidy(axes)
    panels[0].set_yticks(np.arange(len(labels)), labels, fontsize=8)
    panels[0].invert_yaxis()
    _legend(figure, looks)
    draw(figure, path)


def _coverage(good: pd.DataFrame, looks: dict[str, dict[str, str]], path: Path) -> None:
    """A panel for each level, whose line is where perfect draws are."""
    labels = list(dict.fromkeys(good["label"]))
    figure = Figure(figsize=(12, 0.32 * len(labels) + 1.8), layout="constrained")
    panels = figure.subplots(1, len(LEVELS), sharey=True)
    for axes, level in zip(panels, LEVELS, strict=True):
        measure = f"coverage_{level}"
        found = good[good[measure].notna()].pivot_table(index="label", columns="method", values=measure, sort=False)
        found = found.reindex(labels)
        for method in found.columns:
            axes.plot(100 * found[method], np.arange(len(labels)), linestyle="", **looks[method])
        axes.axvline(level, color="grey", linewidth=1)
        axes.set_title(f"% of cells within {level} % intervals", loc="left", fontsize=9)
        tidy(axes)
    panels[0].set_yticks(np.arange(len(labels)), labels, fontsize=8)
    panels[0].invert_yaxis()
    _legend(figure, looks)
    draw(figure, path)


def _legend(figure: Figure, looks: dict[str, dict[str, str]]) -> None:
    handles = {
        text: handle for axes in figure.axes for handle, text in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    shown = [method for method in looks if method in handles]
    figure.legend([handles[m] for m in shown], shown, loc="outside lower center", ncols=6, frameon=False, fontsize=8)
