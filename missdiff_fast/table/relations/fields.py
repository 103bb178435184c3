"""The columns that relations may hold between, with their cells as float64."""

from __future__ import annotations

import numpy as np
import pandas as pd
from pandas.api.extensions import ExtensionArray

from missdiff_fast.table.cells import ColumnCells
from missdiff_fast.table.columns import Categorical, Continuous
from missdiff_fast.table.dtypes import restore, to_keys, unit_of
from missdiff_fast.table.schema import Column

_EXACT = 2.0**53  # whole numbers that float64 holds


class Field:
    """A continuous or categorical column.

    Parameters
    ----------
    column : Column
        The schema's entry.
    coder : Continuous or Categorical
        Its coder.

    Attributes
    ----------
    numbers : ndarray
        The kept values as numbers, ascending, float64 ``[V]``: see `missdiff_fast.table.resolution.Resolution.numbers`.
        Those of a categorical column are its codes.
    """

    def __init__(self, column: Column, coder: Continuous | Categorical) -> None:
        self.column, self.coder, self.name = column, coder, column.name
        self.continuous = isinstance(coder, Continuous)
        if isinstance(coder, Continuous):
            self.numbers = coder.resolution.numbers(coder.keys)
        else:
            self.numbers = np.arange(len(coder.keys), dtype=np.float64)

    @property
    def exact(self) -> bool:
        """Whether float64 tells all values of the column apart."""
        return bool(np.abs(self.numbers).max() < _EXACT and (np.diff(self.numbers) > 0).all())

    @property
    def timed(self) -> bool:
        """Whether the numbers are seconds."""
        return isinstance(self.coder, Continuous) and bool(self.coder.resolution.unit)

    @property
    def quantum(self) -> float:
        """See `missdiff_fast.table.resolution.Resolution.quantum`; 1 for categories."""
        return self.coder.resolution.quantum if isinstance(self.coder, Continuous) else 1.0

    def read(self, cells: ColumnCells) -> np.ndarray:
        """The numbers of cells, float64 ``[N]``; NaN where missing, and for categories that are not known."""
        if isinstance(self.coder, Categorical):
            codes = self.coder.encode(cells)[0].astype(np.float64)
            return np.where(codes < 0, np.nan, codes)
        return np.where(cells.missing, np.nan, self._from_keys(cells.per_cell()))

    def read_series(self, series: pd.Series) -> np.ndarray:
        """The numbers of a decoded column, float64 ``[N]``."""
        family = self.column.family
        keys = to_keys(series, family, unit=unit_of(self.column.dtype, family) if self.timed else None)
        if isinstance(self.coder, Categorical):
            return pd.Index(self.coder.keys).get_indexer(pd.Index(keys)).astype(np.float64)
        return self._from_keys(keys)

    def nearest(self, numbers: np.ndarray) -> np.ndarray:
        """The numbers of values in the observed range and of the column's resolution, next to these numbers."""
        assert isinstance(self.coder, Continuous)
        return self._from_keys(self.coder.resolution.nearest(numbers))

    def places(self, numbers: np.ndarray) -> np.ndarray:
        """The place of each number among the kept values, int64 ``[N]``; -1 if it is none of them, or NaN."""
        if not self.continuous:
            return np.where(np.isnan(numbers), -1, numbers).astype(np.int64)
        place = np.searchsorted(self.numbers, numbers)
        return np.where(self.numbers.take(place, mode="clip") == numbers, place, -1)

    def values(self, numbers: np.ndarray) -> ExtensionArray:
        """The cells that these numbers stand for, in the column's dtype."""
        if not isinstance(self.coder, Continuous):
            return self.coder.table.take(numbers.astype(np.int64))
        place = self.places(numbers)
        keys = self.coder.keys.take(place, mode="clip")
        other = place < 0
        keys[other] = self.coder.resolution.nearest(numbers[other])
        return restore(keys, self.coder.dtype, self.coder.family)

    def _from_keys(self, keys: np.ndarray) -> np.ndarray:
        assert isinstance(self.coder, Continuous)
        return self.coder.resolution.numbers(keys)
