"""Diff-mean: a diffusion model of the table whose holes are filled with means and most frequent categories."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from missdiff_fast.baselines.delete import fit_model, fitted
from missdiff_fast.baselines.imputers import MeanModeImputer
from missdiff_fast.model import MissDiff


class DiffMean:
    """The paper's Diff-mean: the same model as `MissDiff`, fitted on the table filled by `MeanModeImputer`.

    Parameters
    ----------
    preset : str
        As of `MissDiff`.
    **settings
        Further settings of `MissDiff`, such as ``random_state`` and ``verbose``.

    Attributes
    ----------
    model_ : MissDiff
        The fitted model.

    Examples
    --------
    >>> table = pd.DataFrame({"x": [1.0, None, 3.0, 4.0] * 8, "y": ["a", None, "b", "b"] * 8})
    >>> model = DiffMean(preset="default", steps=2, random_state=0, verbose=False).fit(table)
    >>> model.sample(3).shape
    (3, 2)
    """

    model_: MissDiff

    def __init__(self, preset: str = "paper", **settings: Any) -> None:
        self.preset = preset
        self.model_settings = settings

    def fit(self, X: pd.DataFrame, categorical_columns: Sequence[str] | None = None) -> DiffMean:
        """Fill X and fit on all of it; errors are those of `MissDiff.fit`."""
        model = MissDiff(preset=self.preset, **self.model_settings)
        imputer = MeanModeImputer(missing_values=model.missing_values, max_categories=model.max_categories)
        fit_model(self, model, imputer.fit_impute(X, categorical_columns), categorical_columns)
        return self

    def sample(self, num_rows: int, random_state: int | None = None) -> pd.DataFrame:
        """Draw complete rows; see `MissDiff.sample`."""
        return fitted(self).sample(num_rows, random_state=random_state)
