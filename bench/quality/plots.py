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
    panels = []
    for measure, title in _PANELS.items():
        found = good.pivot_table(index="label", columns="method", values=measure, sort=False)
        ratios = found.div(found[_PLAIN], axis=0) if _PLAIN in found else found.iloc[:, :0]
        panels.append((f"{title} / that of means and modes", ratios, 1))
    _draw(good, looks, path, panels)


def _coverage(good: pd.DataFrame, looks: dict[str, dict[str, str]], path: Path) -> None:
    """A panel for each level, whose line is where perfect draws are."""
    panels = []
    for level in LEVELS:
        measure = f"coverage_{level}"
        found = good[good[measure].notna()].pivot_table(index="label", columns="method", values=measure, sort=False)
        panels.append((f"% of cells within {level} % intervals", 100 * found, level))
    _draw(good, looks, path, panels)


def _draw(
    good: pd.DataFrame, looks: dict[str, dict[str, str]], path: Path, panels: list[tuple[str, pd.DataFrame, float]]
) -> None:
    """Panels beside one another, each of a title, figures by table and method, and the place of a vertical line."""
    labels = list(dict.fromkeys(good["label"]))
    figure = Figure(figsize=(12, 0.32 * len(labels) + 1.8), layout="constrained")
    places = figure.subplots(1, len(panels), sharey=True)
    for axes, (title, found, line) in zip(places, panels, strict=True):
        figures = found.reindex(labels)
        for method in looks:
            if method in figures:
                axes.plot(figures[method], np.arange(len(labels)), linestyle="", **looks[method])
        axes.axvline(line, color="grey", linewidth=1)
        axes.set_title(title, loc="left", fontsize=9)
        tidy(axes)
    places[0].set_yticks(np.arange(len(labels)), labels, fontsize=8)
    places[0].invert_yaxis()
    _legend(figure, looks)
    draw(figure, path)


def _legend(figure: Figure, looks: dict[str, dict[str, str]]) -> None:
    handles = {
        text: handle for axes in figure.axes for handle, text in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    shown = [method for method in looks if method in handles]
    figure.legend([handles[m] for m in shown], shown, loc="outside lower center", ncols=6, frameon=False, fontsize=8)
