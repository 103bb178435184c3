"""The paper's figure: fidelity by missing ratio, a panel for each mechanism."""

from __future__ import annotations

from typing import TYPE_CHECKING

from missdiff_fast.reproduce.registry import MECHANISMS, METHODS

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

# Okabe and Ito's colours, distinct for all kinds of colour vision, and markers for print without colour.
_STYLES = {
    "missdiff-paper": ("#0072B2", "o"),
    "missdiff-default": ("#009E73", "s"),
    "diff-delete": ("#D55E00", "v"),
    "diff-mean": ("#E69F00", "^"),
}


def draw_figure(table: pd.DataFrame, path: Path) -> None:
    """Draw fidelity against the missing ratio, with the mean plus and minus a standard deviation shaded.

    Parameters
    ----------
    table : DataFrame
        As `missdiff_fast.reproduce.summary.summarise` gives it; its metric ``fidelity`` is drawn.
    path : Path
        Of the PNG.
    """
    from matplotlib.figure import Figure

    table = table[table["metric"] == "fidelity"]
    mechanisms = list(dict.fromkeys(table["mechanism"]))
    figure = Figure(figsize=(4 * len(mechanisms), 3.6), layout="constrained")
    panels = figure.subplots(1, len(mechanisms), sharey=True, squeeze=False)[0]
    for panel, mechanism in zip(panels, mechanisms, strict=True):
        part = table[table["mechanism"] == mechanism]
        for method in dict.fromkeys(part["method"]):
            line = part[part["method"] == method].sort_values("ratio").dropna(subset=["mean"])
            colour, mark = _STYLES[method]
            panel.plot(line["ratio"], line["mean"], color=colour, marker=mark, markersize=4, label=METHODS[method])
            spread = line["std"].fillna(0)
            low, high = line["mean"] - spread, line["mean"] + spread
            panel.fill_between(line["ratio"], low, high, color=colour, alpha=0.2, linewidth=0)
        panel.set_title(MECHANISMS[mechanism])
        panel.set_xlabel("missing ratio")
        panel.grid(alpha=0.3)
    panels[0].set_ylabel("fidelity, %")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
    figure.savefig(path, dpi=150, format="png")
