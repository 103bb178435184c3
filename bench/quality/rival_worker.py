"""Runs one rival in its environment: ``python rival_worker.py FOLDER``, or ``--check METHOD``. Imports nothing of ours.

FOLDER holds request.json and holes.csv, of columns named 0, 1, ...; there answer.json and the tables are written.
"""

from __future__ import annotations

import importlib
import json
import sys
import tempfile
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd


class Task(NamedTuple):
    """A table with holes, its columns of categories, the seed, and how many draws of how many first rows."""

    holes: pd.DataFrame
    categories: list[str]
    seed: int
    num_draws: int
    draw_rows: int

    @property
    def numbers(self) -> list[str]:
        return [name for name in self.holes.columns if name not in self.categories]


class Tables(NamedTuple):
    """The tables that a rival gives."""

    draws: list[pd.DataFrame] = []  # noqa: RUF012
    filled: pd.DataFrame | None = None
    synthetic: pd.DataFrame | None = None


def miceforest(task: Task) -> Tables:
    """Chained gradient boosting with mean matching, a data set for each draw.

    Mean matching compares log-odds, and fails where a probability is 0 or 1. Categories are then drawn by their
    probabilities, which is its strategy "fast".
    """
    from miceforest import ImputationKernel

    def run(strategy: str) -> list[pd.DataFrame]:
        strategies = dict.fromkeys(task.numbers, "normal") | dict.fromkeys(task.categories, strategy)
        kernel = ImputationKernel(
            as_categories(task),
            num_datasets=task.num_draws,
            mean_match_strategy=strategies,
            random_state=task.seed,
        )
        kernel.mice(5)
        return [kernel.complete_data(m) for m in range(task.num_draws)]

    try:
        draws = run("normal")
    except ValueError as error:
        if "finite" not in str(error):
            raise
        draws = run("fast")
    return Tables(draws, average(task, draws))


def hyperimpute(task: Task) -> Tables:
    """One filling, each column by the learner that is best for it."""
    from hyperimpute.plugins.imputers import Imputers

    coded, levels = as_codes(task)
    filled = Imputers().get("hyperimpute", random_state=task.seed).fit_transform(coded)
    return Tables(filled=from_codes(task, np.asarray(filled, dtype=float), levels))


def forest_diffusion(task: Task) -> Tables:
    """Diffusion with gradient boosting: draws of holes, and rows."""
    from ForestDiffusion import ForestDiffusionModel

    coded, levels = as_codes(task)
    places = [list(coded.columns).index(name) for name in task.categories]
    several = [j for j in places if len(levels[str(coded.columns[j])]) > 2]
    two = [j for j in places if j not in several]
    model = ForestDiffusionModel(
        coded.to_numpy(float),
        n_t=50,
        duplicate_K=10,
        cat_indexes=several,
        bin_indexes=two,
        int_indexes=[],
        diffusion_type="vp",
        n_jobs=-1,
        seed=task.seed,
    )
    rows = from_codes(task, model.generate(batch_size=len(coded)), levels)
    found = model.impute(k=task.num_draws)
    draws = [from_codes(task, drawn, levels) for drawn in np.asarray(found).reshape(-1, *coded.shape)]
    return Tables(draws, average(task, draws), rows)


def tvae(task: Task) -> Tables:
    """Rows of a variational autoencoder; it knows no holes, so it learns from means and most frequent categories."""
    import torch
    from ctgan import TVAE

    torch.manual_seed(task.seed)
    np.random.seed(task.seed)
    most = {c: task.holes[c].mode()[0] if c in task.categories else task.holes[c].mean() for c in task.holes.columns}
    model = TVAE()
    model.fit(task.holes.fillna(most), task.categories)
    return Tables(synthetic=model.sample(len(task.holes)))


def mostlyai(task: Task) -> Tables:
    """Rows, and draws of holes, of an autoregressive network."""
    from mostlyai.engine import TabularARGN, set_random_state

    set_random_state(task.seed)
    with tempfile.TemporaryDirectory() as folder:
        model = TabularARGN(workspace_dir=folder, verbose=0)
        model.fit(task.holes)
        part = task.holes.head(task.draw_rows)
        draws = [model.impute(part) for _ in range(task.num_draws)]
        filled = model.impute(task.holes)
        return Tables(draws, filled, model.sample(len(task.holes)))


def as_categories(task: Task) -> pd.DataFrame:
    """Categories with the dtype of that name."""
    return task.holes.astype(dict.fromkeys(task.categories, "category"))


def as_codes(task: Task) -> tuple[pd.DataFrame, dict[str, list[str]]]:
    """Categories as 0, 1, ..., NaN where missing, and what they stand for."""
    coded, levels = task.holes.copy(), {}
    for name in task.categories:
        codes, found = pd.factorize(coded[name], sort=True)
        coded[name], levels[name] = np.where(codes < 0, np.nan, codes), list(found)
    return coded.astype(float), levels


def from_codes(task: Task, matrix: np.ndarray, levels: dict[str, list[str]]) -> pd.DataFrame:
    """The way back; codes are rounded, and kept in their range."""
    table = pd.DataFrame(matrix, columns=task.holes.columns)
    for name, found in levels.items():
        codes = table[name].astype(float).round().clip(0, len(found) - 1).astype(int)
        table[name] = np.asarray(found, dtype=object)[codes]
    return table


def average(task: Task, draws: list[pd.DataFrame]) -> pd.DataFrame:
    """Means of draws, and the most frequent categories."""
    columns: dict[str, Any] = {}
    for name in task.holes.columns:
        every = pd.concat([draw[name].reset_index(drop=True) for draw in draws], axis=1)
        columns[name] = every.astype(object).mode(axis=1)[0] if name in task.categories else every.mean(axis=1)
    return pd.DataFrame(columns)


RIVALS: dict[str, tuple[str, str, Callable[[Task], Tables]]] = {
    "mostlyai": ("mostlyai.engine", "mostlyai-engine", mostlyai),
    "forest_diffusion": ("ForestDiffusion", "ForestDiffusion", forest_diffusion),
    "tvae": ("ctgan", "ctgan", tvae),
    "miceforest": ("miceforest", "miceforest", miceforest),
    "hyperimpute": ("hyperimpute", "hyperimpute", hyperimpute),
}


def main() -> None:
    """Do what the request asks for."""
    if sys.argv[1] == "--check":
        importlib.import_module(RIVALS[sys.argv[2]][0])
        return
    folder = Path(sys.argv[1])
    request = json.loads((folder / "request.json").read_text())
    categories = request["categories"]
    holes = pd.read_csv(folder / "holes.csv", dtype=dict.fromkeys(categories, str))
    task = Task(holes, categories, request["seed"], request["num_draws"], request["draw_rows"])
    _, package, work = RIVALS[request["method"]]
    began = time.perf_counter()
    found = work(task)
    seconds = {"fit_s": time.perf_counter() - began}
    for m, draw in enumerate(found.draws):
        draw.head(task.draw_rows).to_csv(folder / f"draw{m}.csv", index=False)
    for name in ("filled", "synthetic"):
        table = getattr(found, name)
        if table is not None:
            table.to_csv(folder / f"{name}.csv", index=False)
    answer = {"draws": len(found.draws), "seconds": seconds, "version": metadata.version(package)}
    answer |= {name: getattr(found, name) is not None for name in ("filled", "synthetic")}
    (folder / "answer.json").write_text(json.dumps(answer))


if __name__ == "__main__":
    main()
