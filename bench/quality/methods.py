"""The methods: each learns from a table with holes, and fills them, draws them, or writes rows of its own."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from script import Steps

from missdiff_fast import MissDiff, __version__
from missdiff_fast.baselines import GAINImputer, MICEImputer, MissForestImputer
from missdiff_fast.baselines._encoding import EncodedCells, Encoder
from missdiff_fast.baselines._imputer import Imputer
from missdiff_fast.evaluate import fill_mean_mode
from missdiff_fast.reproduce import environment
from missdiff_fast.table import read_frame
from quality import rivals
from quality.outcome import Outcome


@dataclass(frozen=True)
class Effort:
    """Draws of each cell, rows they are made for, and settings of methods by name; none is a method's default."""

    num_draws: int = 20
    draw_rows: int = 500
    settings: dict[str, dict[str, Any]] = field(default_factory=dict)


FULL = Effort()
QUICK = Effort(
    5,
    100,
    {
        "missdiff_fast": {"steps": 200},
        "missforest": {"num_trees": 10, "max_rounds": 2},
        "gain": {"iterations": 200},
        "iterative": {"max_iter": 2},
    },
)

Method = Callable[[pd.DataFrame, int, Effort], Outcome]


def missdiff(holes: pd.DataFrame, seed: int, effort: Effort) -> Outcome:
    """The default model: as many synthetic rows, one imputation in one pass, and draws."""
    steps, settings = Steps(), effort.settings.get("missdiff_fast", {})
    model = steps.take("fit", MissDiff(random_state=seed, verbose=False, **settings).fit, holes)
    synthetic = steps.take("sample", model.sample, len(holes))
    filled = steps.take("impute", model.impute, holes)
    draws = steps.take("draw", model.impute_draws, holes.head(effort.draw_rows), effort.num_draws)
    return Outcome(steps.seconds(), __version__, filled=filled, draws=draws, synthetic=synthetic)


def mean_mode(holes: pd.DataFrame, seed: int, effort: Effort) -> Outcome:
    """Means and most frequent categories."""
    steps = Steps()
    filled = steps.take("fit", fill_mean_mode, holes)
    return Outcome(steps.seconds(), __version__, filled=filled)


def _baseline(name: str, imputer: Callable[..., Imputer]) -> Method:
    def run(holes: pd.DataFrame, seed: int, effort: Effort) -> Outcome:
        steps = Steps()
        made = imputer(random_state=seed, verbose=False, **effort.settings.get(name, {}))
        filled = steps.take("fit", made.fit_impute, holes)
        return Outcome(steps.seconds(), __version__, filled=filled)

    return run


class Iterative:
    """scikit-learn's IterativeImputer with its default regression, on the baselines' encoding.

    A fit gives conditional means. A second one, with ``sample_posterior``, gives draws: each call of its ``transform``
    draws anew. A one-hot column is predicted from the rest of its group too, which is missing with it, so that
    categories hardly leave their mode; `missdiff_fast.baselines.MICEImputer` regresses whole groups instead.
    """

    def __init__(self, holes: pd.DataFrame, seed: int, max_iter: int = 10) -> None:
        cells = read_frame(holes)
        self._encoder, self._seed, self._max_iter = Encoder.fit(cells), seed, max_iter
        self._matrix = self._encoder.dense(self._encoder.encode(cells))

    def fill(self, holes: pd.DataFrame) -> pd.DataFrame:
        """The holes filled by conditional means, or the category of the greatest."""
        return self._decoded(holes, self._made(sample=False).fit_transform(self._matrix))

    def draws(self, part: pd.DataFrame, num_draws: int) -> list[pd.DataFrame]:
        """The first rows, their holes drawn several times."""
        model = self._made(sample=True).fit(self._matrix)
        return [self._decoded(part, model.transform(self._matrix[: len(part)])) for _ in range(num_draws)]

    def _made(self, *, sample: bool) -> Any:
        from sklearn.experimental import enable_iterative_imputer  # noqa: F401
        from sklearn.impute import IterativeImputer

        # Every column of the matrix keeps its place, also one that has no hole or no value.
        return IterativeImputer(
            max_iter=self._max_iter,
            sample_posterior=sample,
            random_state=self._seed,
            min_value=0.0,
            max_value=1.0,
            n_nearest_features=None if self._matrix.shape[1] <= 50 else 50,
            keep_empty_features=True,
        )

    def _decoded(self, rows: pd.DataFrame, dense: np.ndarray) -> pd.DataFrame:
        cells: EncodedCells = self._encoder.cells(dense)
        return self._encoder.codec.fill(read_frame(rows), self._encoder.decode(cells))


def iterative(holes: pd.DataFrame, seed: int, effort: Effort) -> Outcome:
    """scikit-learn's IterativeImputer, see `Iterative`."""
    steps = Steps()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*[Cc]onvergence.*|.*Early stopping.*")
        model = Iterative(holes, seed, **effort.settings.get("iterative", {}))
        filled = steps.take("fit", model.fill, holes)
        draws = steps.take("draw", model.draws, holes.head(effort.draw_rows), effort.num_draws)
    return Outcome(steps.seconds(), environment.version_of("scikit-learn"), filled=filled, draws=draws)


METHODS: dict[str, Method] = {
    "missdiff_fast": missdiff,
    "mean_mode": mean_mode,
    "mice": _baseline("mice", MICEImputer),
    "iterative": iterative,
    "missforest": _baseline("missforest", MissForestImputer),
    "gain": _baseline("gain", GAINImputer),
}
NAMES = (*METHODS, *rivals.RIVALS)


def unavailable(name: str, python: str | None) -> str:
    """Why a method cannot run here; empty if it can."""
    return rivals.unavailable(name, python) if name in rivals.RIVALS else ""


def run(name: str, holes: pd.DataFrame, seed: int, effort: Effort, python: str | None) -> Outcome:
    """Run a method, a rival in the environment of that Python."""
    if name in METHODS:
        return METHODS[name](holes, seed, effort)
    assert python is not None
    return rivals.run(name, holes, seed, effort.num_draws, effort.draw_rows, python)
