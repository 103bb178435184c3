"""Base of all imputers: tables in and out, observed cells kept."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from missdiff_fast._engine.device import plain_settings
from missdiff_fast._engine.random import check_seed
from missdiff_fast._estimator import NotFittedError
from missdiff_fast.baselines._encoding import EncodedCells, Encoder
from missdiff_fast.table import TableCells, read_frame

if TYPE_CHECKING:
    from typing_extensions import Self


class Imputer(ABC):
    """Fills the holes of tables like the one it was fitted on.

    A subclass learns from cells and fills cells; see `missdiff_fast.baselines._encoding.EncodedCells`.

    Parameters
    ----------
    random_state : int, optional
        Seed of everything random; None draws one from the system's entropy in fit.
    verbose : bool
        Progress bars, where stderr is a terminal.
    missing_values : sequence
        Values that stand for a missing cell beside NaN, None, NaT and pd.NA.
    max_categories : int
        A column with more categories is refused.

    Attributes
    ----------
    columns_ : list
        The names of the columns.
    """

    encoder_: Encoder

    def __init__(
        self,
        *,
        random_state: int | None = None,
        verbose: bool = True,
        missing_values: Sequence[object] = (),
        max_categories: int = 100,
    ) -> None:
        self.random_state = random_state
        self.verbose = verbose
        self.missing_values = missing_values
        self.max_categories = max_categories

    @plain_settings()
    def fit(self, X: pd.DataFrame, categorical_columns: Sequence[str] | None = None) -> Self:
        """Learn from the observed cells of a table.

        Parameters
        ----------
        X : DataFrame
            N rows with holes.
        categorical_columns : sequence of str, optional
            Numeric columns whose values are names, not amounts.

        Raises
        ------
        ValueError, TypeError
            The settings or the table cannot be used; the message names the column and the remedy.
        FloatingPointError
            Training diverged (of imputers that are trained by gradient).
        """
        self._check()
        self._fit_cells(self._read(X, categorical_columns))
        return self

    @plain_settings()
    def impute(self, X: pd.DataFrame) -> pd.DataFrame:
        """Fill the holes of a table.

        Parameters
        ----------
        X : DataFrame
            Rows with the columns that fit saw: those of fit or others.

        Returns
        -------
        DataFrame
            X with its holes filled; observed cells are the same bit for bit, index and dtypes are kept.

        Raises
        ------
        ValueError, TypeError
            Nothing was fitted, or X does not have the columns, dtypes and categories that fit saw.
        """
        if not hasattr(self, "encoder_"):
            raise NotFittedError("this imputer is not fitted: call fit first")
        return self._impute_cells(self.encoder_.codec.read(X))

    @plain_settings()
    def fit_impute(self, X: pd.DataFrame, categorical_columns: Sequence[str] | None = None) -> pd.DataFrame:
        """Fit on a table and fill its own holes."""
        self._check()
        return self.fit_impute_cells(self._read(X, categorical_columns))

    def fit_impute_cells(self, table: TableCells) -> pd.DataFrame:
        """As `fit_impute`, for the cells of a table."""
        self._fit_cells(table)
        return self._impute_cells(table)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The arguments of the constructor, by name; ``deep``, which scikit-learn passes, changes nothing."""
        return {name: value for name, value in vars(self).items() if not name.startswith("_") and name[-1] != "_"}

    def _read(self, X: pd.DataFrame, categorical_columns: Sequence[str] | None) -> TableCells:
        return read_frame(X, categorical_columns=categorical_columns, missing_values=self.missing_values)

    def _fit_cells(self, table: TableCells) -> None:
        """Learn from the cells of a table."""
        seed = check_seed(self.random_state)
        encoder = Encoder.fit(table, self.max_categories)
        cells = encoder.encode(table)
        self.__dict__.pop("encoder_", None)  # a failed fit leaves the imputer unfitted
        self._learn(encoder, cells, seed)
        self.encoder_, self.columns_ = encoder, encoder.codec.columns

    def _impute_cells(self, table: TableCells) -> pd.DataFrame:
        """Fill the cells of a table."""
        filled = self._fill(self.encoder_.encode(table))
        return self.encoder_.codec.fill(table, self.encoder_.decode(filled))

    def _check(self) -> None:
        """Refuse invalid settings of a subclass; those of this class are checked where they are used."""
        return

    @abstractmethod
    def _learn(self, encoder: Encoder, cells: EncodedCells, seed: int) -> None: ...

    @abstractmethod
    def _fill(self, cells: EncodedCells) -> EncodedCells: ...
