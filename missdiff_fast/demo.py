"""Demo on real data: hide cells of the Census table, fit, sample, impute, and compare with the truth."""

from __future__ import annotations

import importlib.util
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from missdiff_fast._checks import check_count
from missdiff_fast._engine.backend import resolve_backend
from missdiff_fast._engine.device import resolve_device
from missdiff_fast._engine.random import check_seed
from missdiff_fast._output import show
from missdiff_fast.datasets import CENSUS_CONTINUOUS, census_split
from missdiff_fast.evaluate import fidelity, fill_mean_mode, imputation, utility
from missdiff_fast.missingness import hide
from missdiff_fast.table.atomic import check_writable
from missdiff_fast.table.io import write_table

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from matplotlib.axes import Axes

RATIO = 0.2
# Okabe and Ito's blue and orange, distinct for all kinds of colour vision and in print.
_REAL, _SYNTHETIC = "#0072B2", "#E69F00"
_TOP_CATEGORIES = 8


@dataclass(frozen=True)
class Outcome:
    """Figures of a run.

    Parameters
    ----------
    quality : DataFrame
        Synthetic rows against real ones; rows ``synthetic`` and ``mean_mode``; columns ``overall``, ``shapes``,
        ``trends``.
    usefulness : DataFrame
        XGBoost tested on unseen real rows; rows ``synthetic``, ``real``; columns ``accuracy``, ``auroc``.
    filling : DataFrame
        Filled cells against the hidden truth; rows ``missdiff``, ``mean_mode``; columns ``rmse``, ``category_error``.
    seconds : dict
        Of ``fit``, ``sample``, ``impute`` and ``total``.
    """

    quality: pd.DataFrame
    usefulness: pd.DataFrame
    filling: pd.DataFrame
    seconds: dict[str, float]


def run(
    folder: Path,
    *,
    steps: int | None = None,
    seed: int = 0,
    device: str = "auto",
    backend: str = "auto",
    verbose: bool = True,
) -> Outcome:
    """Hide 20 % of the cells of 16,000 rows, train on the rest, print the measures, and write the model and its tables.

    Parameters
    ----------
    folder : Path
        For ``model.missdiff``, ``synthetic.csv``, ``imputed.csv`` and ``marginals.png``; made if it is not there.
    steps : int, optional
        Training steps; default: the model's own choice.
    seed : int
        Of the model. The hidden cells are always the same.
    device, backend : str
        As of `missdiff_fast.MissDiff`.
    verbose : bool
        Whether to show progress on stderr, where that is a terminal.

    Raises
    ------
    ImportError
        Without the packages of ``pip install 'missdiff_fast[demo]'``.
    OSError
        The folder cannot be made or written to.
    ValueError, TypeError
        Bad steps, seed, device or backend.
    """
    _check_packages()
    from missdiff_fast.model import MissDiff

    if steps is not None:
        check_count("steps", steps, least=1)
    check_seed(seed)
    resolve_backend(backend, resolve_device(device))
    _check_folder(folder)
    begin = time.perf_counter()
    seconds: dict[str, float] = {}
    train, test = census_split(seed=0)
    holes, observed = hide(train, "independent", RATIO, random_state=0)
    holes = holes.astype(dict.fromkeys(CENSUS_CONTINUOUS, "Int64"))  # whole numbers stay whole
    hidden = int((~observed).sum())
    show(f"Census: {len(train):,} rows, {train.shape[1]} columns; {hidden:,} cells ({RATIO:.0%}) hidden at random\n")
    model = MissDiff(steps=steps, random_state=seed, device=device, backend=backend, verbose=verbose)
    with _timed(seconds, "fit", "training", verbose):
        model.fit(holes)
    with _timed(seconds, "sample", f"drawing {len(train):,} synthetic rows", verbose):
        synthetic = model.sample(len(train))
    with _timed(seconds, "impute", f"filling {hidden:,} cells", verbose):
        imputed = model.impute(holes)
    model.save(folder / "model.missdiff")
    write_table(synthetic, folder / "synthetic.csv")
    write_table(imputed, folder / "imputed.csv")
    with _timed(seconds, "evaluate", "measuring, drawing marginals.png", verbose):
        plain = fill_mean_mode(holes)
        outcome = Outcome(
            quality=_stack(synthetic=fidelity(train, synthetic), mean_mode=fidelity(train, plain)),
            usefulness=_stack(synthetic=_utility(synthetic, test), real=_utility(train, test)),
            filling=_stack(missdiff=imputation(train, imputed, observed), mean_mode=imputation(train, plain, observed)),
            seconds=seconds,
        )
        plot_marginals(train, synthetic, folder / "marginals.png")
    seconds["total"] = time.perf_counter() - begin
    show(describe(outcome, len(train), len(test)))
    show(f"\nIn {folder}: synthetic.csv, imputed.csv, marginals.png and model.missdiff; try\n")
    show(f"  missdiff sample {folder / 'model.missdiff'} -n 5 --given age=30 --given sex=Female")
    return outcome


def describe(outcome: Outcome, num_train: int, num_test: int) -> str:
    """Format an outcome as text."""
    seconds = outcome.seconds
    return "\n".join(
        [
            *_lines(
                "Are the synthetic rows like the real ones?  (SDMetrics; 100 = alike)",
                outcome.quality,
                {"synthetic": "missdiff's synthetic rows", "mean_mode": "real rows, holes filled by mean/mode"},
                {"overall": "{:.1f}", "shapes": "{:.1f}", "trends": "{:.1f}"},
            ),
            *_lines(
                f"Are they as useful?  (XGBoost predicts the income of {num_test:,} unseen real rows)",
                outcome.usefulness,
                {
                    "synthetic": f"trained on {num_train:,} synthetic rows",
                    "real": f"trained on {num_train:,} complete real rows",
                },
                {"auroc": "{:.3f}", "accuracy": "{:.1f} %"},
            ),
            *_lines(
                "Are the hidden cells filled well?  (RMSE as a share of each column's range)",
                outcome.filling,
                {"missdiff": "missdiff", "mean_mode": "column mean/mode"},
                {"rmse": "{:.3f}", "category error": "{:.1f} %"},
            ),
            "Time: " + ", ".join(f"{name} {seconds[name]:.1f} s" for name in ("fit", "sample", "impute", "total")),
        ]
    )


def _lines(title: str, figures: pd.DataFrame, names: dict[str, str], forms: dict[str, str]) -> list[str]:
    lines = [title, " " * 38 + "".join(f"{name:>16}" for name in forms)]
    for row, name in names.items():
        cells = [form.format(figures.at[row, column.replace(" ", "_")]) for column, form in forms.items()]
        lines.append(f"  {name:36}" + "".join(f"{cell:>16}" for cell in cells))
    return [*lines, ""]


def plot_marginals(real: pd.DataFrame, synthetic: pd.DataFrame, path: Path) -> None:
    """Draw every column of two tables against each other.

    Parameters
    ----------
    real, synthetic : DataFrame
        The same columns; numbers become histograms, all else bars of the commonest categories.
    path : Path
        The PNG file to write.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    from missdiff_fast.table.atomic import write_atomically

    across = min(5, real.shape[1])
    down = -(-real.shape[1] // across)
    figure = Figure(figsize=(3.5 * across, 2.9 * down + 0.9), layout="constrained")
    FigureCanvasAgg(figure)
    grid = list(figure.subplots(down, across, squeeze=False).flat)
    for axes, column in zip(grid, real.columns, strict=False):
        draw = _histogram if pd.api.types.is_numeric_dtype(real[column]) else _bars
        draw(axes, real[column], synthetic[column])
        axes.set_title(str(column), fontsize=11, fontweight="bold", loc="left")
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=8)
    for axes in grid[real.shape[1] :]:
        axes.set_visible(False)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper right", ncols=2, frameon=False, fontsize=12)
    figure.suptitle(
        f"Marginals: {len(real):,} real rows against {len(synthetic):,} synthetic rows", x=0.01, ha="left", fontsize=14
    )
    with write_atomically(path) as temporary:
        figure.savefig(temporary, format="png", dpi=110)


def _histogram(axes: Axes, real: pd.Series, synthetic: pd.Series) -> None:
    from matplotlib import ticker

    low, high = float(real.min()), float(real.max())
    whole = bool((real == real.round()).all())
    # Whole numbers get bins of whole width, or a comb of full and empty bins appears that is not in the data.
    width = max(1.0, np.ceil((high - low + 1) / 40)) if whole else (high - low or 1.0) / 40
    edges = np.arange(low - (0.5 if whole else 0), high + width + (0.5 if whole else 0), width)
    for values, colour, label, filled in ((real, _REAL, "real", True), (synthetic, _SYNTHETIC, "synthetic", False)):
        share = 100 * np.histogram(values.to_numpy(float), edges)[0] / len(values)
        axes.stairs(share, edges, fill=filled, color=colour, alpha=0.45 if filled else 1, lw=1.8, label=label)
    if float((real == real.mode().iloc[0]).mean()) > 0.5:
        axes.set_yscale("log")
        axes.set_ylabel("% of rows (log)", fontsize=8)
    else:
        axes.set_ylabel("% of rows", fontsize=8)
    axes.xaxis.set_major_locator(ticker.MaxNLocator(5))
    axes.xaxis.set_major_formatter(ticker.EngFormatter(sep="") if high >= 10_000 else ticker.ScalarFormatter())


def _bars(axes: Axes, real: pd.Series, synthetic: pd.Series) -> None:
    shares = [100 * values.astype("object").value_counts(normalize=True) for values in (real, synthetic)]
    shown = list(shares[0].index[:_TOP_CATEGORIES])
    labels = [name if len(name) <= 20 else f"{name[:19]}…" for name in map(str, shown)]
    rest = len(shares[0]) - len(shown)
    heights = [[float(share.get(name, 0)) for name in shown] for share in shares]
    if rest:
        labels.append(f"{rest} other{'s' if rest > 1 else ''}")
        heights = [[*height, max(0.0, 100 - sum(height))] for height in heights]
    places = np.arange(len(labels))
    axes.barh(places - 0.2, heights[0], 0.4, color=_REAL, alpha=0.6, label="real")
    axes.barh(places + 0.2, heights[1], 0.4, color=_SYNTHETIC, label="synthetic")
    axes.set_yticks(places, labels)
    axes.invert_yaxis()
    axes.set_xlabel("% of rows", fontsize=8)


def _check_packages() -> None:
    for name in ("matplotlib", "sdmetrics", "xgboost", "sklearn"):
        if importlib.util.find_spec(name) is None:
            raise ImportError(f"the demo needs the package '{name}': pip install 'missdiff_fast[demo]'", name=name)


def _check_folder(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    check_writable(folder)
    for name in ("model.missdiff", "synthetic.csv", "imputed.csv", "marginals.png"):
        if (folder / name).is_dir():
            raise IsADirectoryError(f"{folder / name} is a folder, and a file is to be written there: move it away")


def _utility(rows: pd.DataFrame, test: pd.DataFrame) -> pd.DataFrame:
    # After a handful of steps all synthetic rows can be of one class, from which a classifier cannot learn.
    if rows["income"].nunique() < 2:
        return pd.DataFrame({"accuracy": [np.nan], "auroc": [np.nan]})
    scores = utility(rows, test, "income", models="xgboost").set_index("metric")["value"]
    return pd.DataFrame({"accuracy": [100 * scores["accuracy"]], "auroc": [scores["auroc"]]})


def _stack(**rows: pd.DataFrame) -> pd.DataFrame:
    return pd.concat(rows).droplevel(1)


@contextmanager
def _timed(seconds: dict[str, float], name: str, text: str, verbose: bool) -> Iterator[None]:
    if verbose and sys.stderr.isatty():
        print(f"{text} ...", file=sys.stderr)
    begin = time.perf_counter()
    yield
    seconds[name] = time.perf_counter() - begin
