"""Base of Diff-delete and Diff-mean: a diffusion model of a completed table."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from missdiff_fast._estimator import NotFittedError
from missdiff_fast.model import MissDiff
from missdiff_fast.table.schema import as_names

if TYPE_CHECKING:
    from typing_extensions import Self


class CompletedModel(ABC):
    """`MissDiff` on a completed table; parameters and attributes are those of its subclasses."""

    model_: MissDiff

    def __init__(self, preset: str = "paper", **settings: Any) -> None:
        self.preset = preset
        self.model_settings = settings

    def fit(self, X: pd.DataFrame, categorical_columns: Sequence[str] | None = None) -> Self:
        """Complete X and fit on the result; an interrupted fit (Ctrl-C) keeps what it has learnt so far.

        Raises
        ------
        ValueError, TypeError
            As of `MissDiff.fit`, and where X cannot be completed.
        """
        settings = dict(self.model_settings)
        own = settings.pop("categorical_columns", None)
        categorical_columns = as_names(own if categorical_columns is None else categorical_columns)
        model = MissDiff(preset=self.preset, categorical_columns=categorical_columns, **settings)
        completed = self._complete(X, model, categorical_columns)
        try:
            model.fit(completed)
        finally:
            if model.fitted:
                self.model_ = model
        return self

    def sample(self, num_rows: int, random_state: int | None = None) -> pd.DataFrame:
        """Draw complete rows; see `MissDiff.sample`."""
        if not hasattr(self, "model_"):
            raise NotFittedError("this model is not fitted: call fit first")
        return self.model_.sample(num_rows, random_state=random_state)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The arguments of the constructor, by name; ``deep``, which scikit-learn passes, changes nothing."""
        return {"preset": self.preset, **self.model_settings}

    @abstractmethod
    def _complete(self, X: pd.DataFrame, model: MissDiff, categorical_columns: Sequence[str] | None) -> pd.DataFrame:
        """The completed table."""
