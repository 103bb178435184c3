"""A run: one method on one data set with one mask; its key and its results."""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from missdiff_fast import __version__
from missdiff_fast.config import preset
from missdiff_fast.missingness import hide
from missdiff_fast.reproduce.data import load
from missdiff_fast.reproduce.measures import imputation_measures, synthesis_measures
from missdiff_fast.reproduce.methods import generator_settings, imputer_settings, make_generator, make_imputer
from missdiff_fast.reproduce.registry import METHODS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from missdiff_fast.reproduce.data import DataSet
    from missdiff_fast.reproduce.scales import Scale

# Methods with the settings of a preset, except those that a scale sets.
_PRESETS = {"missdiff-default": "default", "missdiff-paper": "paper", "diff-delete": "paper", "diff-mean": "paper"}


@dataclass(frozen=True)
class Run:
    """One run. Experiments with the same run share it.

    Parameters
    ----------
    imputation : bool
        Whether holes are filled, in place of rows being drawn.
    dataset, mechanism, method : str
        Of `missdiff_fast.reproduce.registry`.
    ratio : float
        Share of the cells that are hidden.
    repetition : int
        From 0.
    stasy_epochs : int, optional
        Of STaSy alone.
    """

    imputation: bool
    dataset: str
    mechanism: str
    ratio: float
    method: str
    repetition: int
    stasy_epochs: int | None = None

    def __str__(self) -> str:
        epochs = f" ({self.stasy_epochs:,} epochs)" if self.stasy_epochs else ""
        what = "imputation, " if self.imputation else ""
        return f"{what}{self.dataset}, {self.mechanism} {self.ratio:g}, {METHODS[self.method]}{epochs}"


@dataclass(frozen=True)
class Context:
    """Settings that all runs of a reproduction share: size, first seed, device, and MIMIC4ED's file with its digest."""

    scale: Scale
    seed: int = 0
    device: str = "cpu"
    file: Path | None = None
    file_digest: str | None = None

    def data(self, run: Run) -> DataSet:
        """Load a run's data set."""
        part = self.scale.imputation if run.imputation else self.scale.budget(run.dataset)
        file = self.file if run.dataset == "mimic4ed" else None
        return load(run.dataset, part.train_rows, part.test_rows, part.every, file)

    def settings(self, run: Run) -> dict[str, Any]:
        """Everything that a run's outcome depends on, as JSON has it."""
        budget = self.scale.budget(run.dataset)
        part = self.scale.imputation if run.imputation else budget
        method = (
            imputer_settings(run.method, self.scale.imputation)
            if run.imputation
            else generator_settings(run.method, budget, run.stasy_epochs)
        )
        measures = {} if run.imputation else {"grid": self.scale.grid, "all_pairs": budget.all_pairs}
        data: dict[str, Any] = {"train_rows": part.train_rows, "test_rows": part.test_rows, "every": part.every}
        if run.dataset == "mimic4ed":
            data["file"] = self.file_digest
        return {
            "version": __version__,
            "imputation": run.imputation,
            "dataset": run.dataset,
            "data": data,
            "mechanism": run.mechanism,
            "ratio": run.ratio,
            "method": run.method,
            "method_settings": method,
            "preset": preset(_PRESETS[run.method]).to_dict() if run.method in _PRESETS else None,
            "measures": measures,
            "seed": self.seed + run.repetition,
            "device": self.device.split(":")[0],  # whichever of several cards it is
        }


def key(settings: Mapping[str, Any]) -> str:
    """Name a run's settings by 16 hexadecimal digits.

    Examples
    --------
    >>> key({"a": 1, "b": 2}) == key({"b": 2, "a": 1})
    True
    """
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:16]


def execute(run: Run, context: Context) -> dict[str, Any]:
    """Execute a run.

    Returns
    -------
    dict
        ``metrics``, by name, None for NaN; ``seconds`` of ``fit``, ``draw`` (or ``fill``) and ``measure``.

    Raises
    ------
    missdiff_fast.baselines.NoCompleteRowError
        Deletion leaves no row.
    Exception
        Whatever the method or a measure raises.
    """
    settings = context.settings(run)
    metrics, clock = (_impute if run.imputation else _synthesise)(context.data(run), settings, context.device)
    begins = list(clock)
    ends = [clock[name] for name in begins[1:]]
    seconds = {name: round(end - clock[name], 2) for name, end in zip(begins, ends, strict=False)}
    return {
        "metrics": {name: value if np.isfinite(value) else None for name, value in metrics.items()},
        "seconds": seconds,
    }


def _synthesise(data: DataSet, settings: Mapping[str, Any], device: str) -> tuple[dict[str, float], dict[str, float]]:
    method, seed = settings["method_settings"], settings["seed"]
    holes, _ = hide(data.train, settings["mechanism"], settings["ratio"], seed)
    clock = {"fit": time.perf_counter()}
    model = make_generator(settings["method"], method, holes, seed, device).fit(holes)
    clock["draw"] = time.perf_counter()
    synthetic = model.sample(method["rows"] or len(holes))
    clock["measure"] = time.perf_counter()
    measures = settings["measures"]
    metrics = synthesis_measures(data, synthetic, grid=measures["grid"], all_pairs=measures["all_pairs"], seed=seed)
    return metrics, clock | {"end": time.perf_counter()}


def _impute(data: DataSet, settings: Mapping[str, Any], device: str) -> tuple[dict[str, float], dict[str, float]]:
    method, seed = settings["method_settings"], settings["seed"]
    whole = pd.concat([data.train, data.test], ignore_index=True)
    holes, observed = hide(whole, settings["mechanism"], settings["ratio"], seed)
    train, test = holes[: len(data.train)], holes[len(data.train) :].reset_index(drop=True)
    train = train[: method.get("train_rows")]
    imputer = make_imputer(settings["method"], method, len(train), seed, device)
    clock = {"fit": time.perf_counter()}
    imputer.fit(train)
    clock["fill"] = time.perf_counter()
    filled = imputer.impute(_known(test, train, data))
    clock["measure"] = time.perf_counter()
    metrics = imputation_measures(data, filled, observed[len(data.train) :], data.train, data.test)
    return metrics, clock | {"end": time.perf_counter()}


def _known(test: pd.DataFrame, train: pd.DataFrame, data: DataSet) -> pd.DataFrame:
    """The test rows whose categories all occur in the training rows; no method accepts others."""
    names = [column for column in test.columns if column not in data.continuous]
    return test.assign(**{column: test[column].where(test[column].isin(train[column].dropna())) for column in names})
