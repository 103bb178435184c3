"""The columns that rules name, with their cells as float64."""

from __future__ import annotations

from datetime import tzinfo
from functools import cached_property

import numpy as np
import pandas as pd
from pandas.api.extensions import ExtensionArray

from missdiff_fast.table.cells import ColumnCells
from missdiff_fast.table.columns import Categorical, Coder, Continuous, comparable
from missdiff_fast.table.dtypes import INSTANTS, Dtype, as_series, key_dtype, restore, to_keys, unit_of, zone_of
from missdiff_fast.table.schema import Column

_IN_A_DAY = {unit: 86_400 * per for unit, per in {"ns": 10**9, "us": 10**6, "ms": 10**3, "s": 1}.items()}
_EXACT = 2.0**53  # whole numbers that float64 holds
_FIRST_DAY, _LAST_DAY = -719_162.0, 2_932_897.0  # of the years 1 and 10000, since the epoch


class RuleColumn:
    """A learnt column whose cells a rule compares or computes.

    Numbers stand for themselves, dates and times for days since the epoch, durations for days, and the categories of
    other columns for their places.

    Parameters
    ----------
    column : Column
        The schema's entry.
    coder : Coder
        Its coder.

    Attributes
    ----------
    kind : {"number", "time", "text"}
        What the cells are.
    values : ndarray
        The column's own values as numbers, ascending, float64 ``[V]``.
    """

    def __init__(self, column: Column, coder: Coder) -> None:
        self.column, self.coder, self.name, self.family = column, coder, column.name, column.family
        self._unit = unit_of(column.dtype, self.family) if self.family in INSTANTS else ""
        self.kind = {"string": "text", "datetime": "time", "zoned": "time", "date": "time"}.get(self.family, "number")
        keys = np.arange(len(coder.keys)) if self.kind == "text" else coder.keys
        numbers = self._numbers(keys)
        self._order = np.argsort(numbers, kind="stable")  # categories may stand in another order
        self.values = numbers[self._order]

    @property
    def exact(self) -> bool:
        """Whether float64 tells all values of the column apart."""
        small = bool(self._unit) or float(np.abs(self.values).max()) < _EXACT
        return small and bool((np.diff(self.values) > 0).all())

    @property
    def zoned(self) -> bool:
        """Whether its times have a time zone."""
        return self.family == "zoned"

    @property
    def zone(self) -> tzinfo | None:
        """That time zone."""
        return zone_of(self.column.dtype)

    @cached_property
    def quantum(self) -> float:
        """The least difference of two values that the column's rounding keeps apart; 0 if there is none."""
        if self.family in ("integer", "boolean"):
            return 1.0
        if isinstance(self.coder, Continuous):
            return self.coder.resolution.quantum / (86_400 if self._unit else 1)
        return 1 / _IN_A_DAY[self._unit] if self._unit else 0.0

    def read(self, cells: ColumnCells) -> np.ndarray:
        """The numbers of cells, float64 ``[N]``; NaN where missing, and for texts that are not known."""
        if self.kind != "text":
            return np.where(cells.missing, np.nan, self._numbers(cells.per_cell()))
        if isinstance(self.coder, Categorical):
            codes = self.coder.encode(cells)[0].astype(np.float64)
            return np.where(codes < 0, np.nan, codes)
        given, known = comparable(cells.per_cell(), self.coder.keys)
        return np.where(cells.missing | (given != known[0]), np.nan, 0.0)

    def read_series(self, series: pd.Series) -> np.ndarray:
        """The numbers of a decoded column without missing cells, float64 ``[N]``."""
        keys = to_keys(series, self.family, unit=self._unit or None)
        if self.kind != "text":
            return self._numbers(keys)
        return pd.Index(self.coder.keys).get_indexer(pd.Index(keys)).astype(np.float64)

    def places(self, numbers: np.ndarray) -> np.ndarray:
        """The place of each number among the column's values, int64; -1 if it is none of them, or NaN."""
        place = np.searchsorted(self.values, numbers)
        return np.where(self.values.take(place, mode="clip") == numbers, place, -1)

    def held(self, numbers: np.ndarray, *, rounded: bool = True) -> np.ndarray:
        """The nearest numbers that the column's dtype holds, in the column's range or not; NaN where it holds none.

        Parameters
        ----------
        numbers : ndarray
            float64.
        rounded : bool
            Whether floats are rounded to as many decimals as the observed ones have. Whole numbers and times always
            are.
        """
        if self.kind == "text":
            return np.where(self.places(numbers) >= 0, numbers, np.nan)
        with np.errstate(all="ignore"):
            given = np.where(np.isfinite(numbers), numbers, 0.0)
            result, good = self._held(given, rounded)
            good = good & np.isfinite(numbers)
        if isinstance(self.column.dtype, pd.CategoricalDtype):
            good &= self.places(result) >= 0
        return np.where(good, result, np.nan)

    def agrees(self, own: np.ndarray, computed: np.ndarray, *, rounded: bool = True) -> np.ndarray:
        """Whether the column's cells are what was computed, to its resolution."""
        slack = self._precision * np.abs(own)
        if self._unit:
            slack = np.maximum(slack, 2e-11)  # a difference of two times, in days
        whole = rounded or self._unit or self.family in ("integer", "boolean")
        with np.errstate(invalid="ignore"):
            near = np.abs(own - computed) <= (0.5 * self.quantum * (1 + 1e-6) if whole else 0.0) + slack
            return np.asarray(near & np.isfinite(computed))

    def array(self, numbers: np.ndarray) -> ExtensionArray:
        """The cells that stand for numbers of the column's values or of `held`, in the column's dtype."""
        place = self.places(numbers)
        keys = self.coder.keys.take(self._order.take(place, mode="clip"))
        other = place < 0
        if other.any():
            keys[other] = self._keys(numbers[other]).astype(keys.dtype)
        return restore(keys, self.column.dtype, self.family)

    def cells(self, series: pd.Series, missing: np.ndarray) -> ColumnCells:
        """The cells of a decoded column, missing where ``missing`` is True."""
        return ColumnCells(self.family, to_keys(series, self.family, unit=self._unit or None), missing)

    def _numbers(self, keys: np.ndarray) -> np.ndarray:
        numbers = keys.astype(np.float64)
        return numbers / _IN_A_DAY[self._unit] if self._unit else numbers

    def _keys(self, numbers: np.ndarray) -> np.ndarray:
        """The keys of numbers that are none of the column's values."""
        if not self._unit:
            return np.rint(numbers) if self.family in ("integer", "boolean") else numbers
        keys = np.rint(numbers * _IN_A_DAY[self._unit]).astype(np.int64)
        return self.coder.resolution.to_step(keys) if isinstance(self.coder, Continuous) else keys

    def _held(self, numbers: np.ndarray, rounded: bool) -> tuple[np.ndarray, np.ndarray]:
        """Numbers as the dtype holds them, and whether it does."""
        if self._unit:
            reach = min((2.0**63 - 1024) / _IN_A_DAY[self._unit], _LAST_DAY if self.kind == "time" else np.inf)
            good = (numbers >= max(-reach, _FIRST_DAY if self.kind == "time" else -np.inf)) & (numbers < reach)
            return self._numbers(self._keys(np.where(good, numbers, 0.0))), good
        if self.family == "boolean":
            return np.rint(numbers), (np.rint(numbers) == 0) | (np.rint(numbers) == 1)
        if self.family == "integer":
            limits, whole = np.iinfo(_plain(self.column.dtype)), np.rint(numbers)
            return whole, (whole >= max(limits.min, -_EXACT)) & (whole <= min(limits.max, _EXACT))
        decimals = self.coder.resolution.decimals if isinstance(self.coder, Continuous) else -1
        result = np.round(numbers, decimals) if rounded and decimals >= 0 else numbers
        result = result.astype(_plain(self.column.dtype, "float")).astype(np.float64)
        return result, np.isfinite(result)

    @cached_property
    def _precision(self) -> float:
        """The relative difference of two numbers that count as equal."""
        return 16 * float(np.finfo(_plain(self.column.dtype, "float")).eps) if self.family == "float" else 1e-9


def put(series: pd.Series, where: np.ndarray, cells: ExtensionArray) -> pd.Series:
    """A column with other cells in some places, given by a mask or by numbers."""
    array = series.array.copy()
    array[where] = cells
    return as_series(array, series.index)


def _plain(dtype: Dtype, family: str = "integer") -> np.dtype:
    """The NumPy dtype of a column's numbers."""
    if isinstance(dtype, pd.CategoricalDtype):
        return _plain(dtype.categories.dtype, family)
    if isinstance(dtype, pd.ArrowDtype):
        return np.dtype(dtype.pyarrow_dtype.to_pandas_dtype())
    if isinstance(dtype, np.dtype):
        return dtype if dtype.kind in "iuf" else key_dtype(dtype, family)
    return np.dtype(str(dtype).lower())
