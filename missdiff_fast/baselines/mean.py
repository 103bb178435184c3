"""Diff-mean: a diffusion model of the table whose holes are filled with means and most frequent categories."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from missdiff_fast._parameters import most_categories
from missdiff_fast.baselines._completed import CompletedModel
from missdiff_fast.baselines.imputers import MeanModeImputer
from missdiff_fast.model import MissDiff


class DiffMean(CompletedModel):
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

    def _complete(self, X: pd.DataFrame, model: MissDiff, categorical_columns: Sequence[str] | None) -> pd.DataFrame:
        imputer = MeanModeImputer(missing_values=model.missing_values, max_categories=most_categories(model))
        return imputer.fit_impute(X, categorical_columns)
