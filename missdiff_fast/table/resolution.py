"""Standardising a column's values and turning conditional means back into values like the observed ones."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from missdiff_fast.table.cells import RefusedError
from missdiff_fast.table.dtypes import Dtype, unit_of
from missdiff_fast.table.outliers import usual_values

_UNITS = {"ns": 10**9, "us": 10**6, "ms": 10**3, "s": 1}  # in a second
_STEPS = (86_400, 3_600, 60)  # seconds in a day, an hour, a minute
MAX_DECIMALS = 6


@dataclass(frozen=True)
class Resolution:
    """The location, scale, range and fineness of a continuous column.

    Parameters
    ----------
    least, greatest : int or float
        The observed range, in keys.
    centre : int or float
        A key near the mean. Integers (dates too) are exact relative to it where float64 would not hold them.
    mean, sd : float
        Mean and standard deviation of (key - centre) over the observed cells, outliers moved to ``low`` or ``high``.
    step : int
        Of integers, dates and times: every observed key is a multiple of it.
    decimals : int
        Of floats: the number of decimals of the observed values; -1 if more than `MAX_DECIMALS`.
    zone : str
        The time zone in whose local time the step counts; "" if none.
    unit : str
        Of dates and times; else "".
    key_dtype : str
        Of the column's keys.
    low, high : int or float, optional
        The range of the keys that are no outliers, as `missdiff_fast.table.outliers` tells them; None if none is one.
    """

    least: int | float
    greatest: int | float
    centre: int | float
    mean: float
    sd: float
    step: int = 1
    decimals: int = -1
    zone: str = ""
    unit: str = ""
    key_dtype: str = "float64"
    low: int | float | None = None
    high: int | float | None = None

    @classmethod
    def fit(
        cls, observed: np.ndarray, distinct: np.ndarray, counts: np.ndarray, dtype: Dtype, family: str
    ) -> Resolution:
        """Learn from the observed keys ``[n]``, the distinct ones among them, ascending, and how many have each.

        Raises
        ------
        RefusedError
            If the range of the column exceeds that of float64.
        """
        least, greatest = distinct[0].item(), distinct[-1].item()
        if not np.isfinite(float(greatest) - float(least)):
            raise RefusedError("wide", f"from {least:.3g} to {greatest:.3g}")
        zone = str(_zone(dtype)) if family == "zoned" else ""
        unit = unit_of(dtype, family) if family in ("datetime", "zoned", "date", "timedelta") else ""
        step, decimals = 1, -1
        if family == "float":
            decimals = _decimals(distinct)
        elif unit:
            local = _to_local(distinct, zone, unit)
            sizes = [seconds * _UNITS[unit] for seconds in _STEPS]
            sizes += [_UNITS[unit] // 10**digits for digits in range(10) if _UNITS[unit] >= 10**digits]
            step = next((size for size in sizes if not (local % size).any()), 1)
        name = str(distinct.dtype)
        centre = distinct[len(distinct) // 2].item()
        rough = cls(least, greatest, centre, 0.0, 1.0, step, decimals, zone, unit, name)
        apart = rough._from_centre(observed, rough.within(observed))
        low = high = None
        places = rough._from_centre(distinct, rough.within(distinct))
        usual = usual_values(places, counts)
        if usual != slice(0, len(distinct)):
            low, high = distinct[usual][0].item(), distinct[usual][-1].item()
            np.clip(apart, places[usual][0], places[usual][-1], out=apart)
        scale = float(max(apart.max(), -apart.min()))
        # As numpy.std does, but in the array at hand.
        apart /= scale
        mean = apart.mean()
        apart -= mean
        apart *= apart
        # The deviation of distinct numbers is not 0, but may round to 0.
        mean, sd = float(mean) * scale, max(float(np.sqrt(apart.mean())) * scale, 5e-324)
        return cls(least, greatest, centre, mean, sd, step, decimals, zone, unit, name, low, high)

    @property
    def usual(self) -> tuple[float, float] | None:
        """The standardised values of `low` and `high`; None without outliers."""
        if self.low is None or self.high is None:
            return None
        keys = np.array([self.low, self.high], dtype=self.key_dtype)
        low, high = self.standardise(keys, self.within(keys)).tolist()
        return low, high

    def without_outliers(self) -> Resolution:
        """The resolution of the values that are no outliers: its `raw` gives no others."""
        if self.low is None or self.high is None:
            return self
        return replace(self, least=self.low, greatest=self.high)

    def rounding_as(self, values: np.ndarray) -> Resolution:
        """The resolution of a column of floats whose means are rounded as these distinct values are."""
        return replace(self, decimals=_decimals(values))

    def unrounded(self) -> Resolution:
        """The resolution of floats that are neither rounded nor cut to the observed range."""
        return replace(self, decimals=-1, least=-np.inf, greatest=np.inf)

    @property
    def _wide(self) -> bool:
        """Whether differences of integer keys may exceed int64."""
        return int(self.greatest) - int(self.least) >= 1 << 62

    def within(self, keys: np.ndarray, present: np.ndarray | bool = True) -> bool:
        """Whether those keys that are present are of the column's type and range, and differences of them exact."""
        if keys.dtype != self.key_dtype or keys.dtype.kind == "f" or self._wide:
            return False
        least = keys.min(initial=self.greatest, where=present)
        return bool(least >= self.least and keys.max(initial=self.least, where=present) <= self.greatest)

    def standardise(self, keys: np.ndarray, within: bool) -> np.ndarray:
        """(key - mean) / sd, float64; infinite where that is beyond float64.

        ``within`` is the result of `within` for all cells of the column; ``keys`` may be a part of them.
        """
        with np.errstate(over="ignore"):
            apart = self._from_centre(keys, within)
            apart -= self.mean
            apart /= self.sd
        return apart

    def _from_centre(self, keys: np.ndarray, within: bool) -> np.ndarray:
        """(key - centre), a new array of float64."""
        if within:
            # Wraps and unwraps: the difference fits int64 although an unsigned key may not.
            return (keys - np.array(self.centre, dtype=keys.dtype)).view(np.int64).astype(np.float64)
        return np.subtract(keys, float(self.centre), dtype=np.float64)

    def raw(self, values: np.ndarray) -> np.ndarray:
        """The keys that standardised values stand for, clipped to the observed range and rounded to the resolution."""
        with np.errstate(over="ignore"):
            apart = np.multiply(values, self.sd, dtype=np.float64)
            apart += self.mean
        if np.dtype(self.key_dtype).kind == "f":
            apart += self.centre
            return self._floats(apart)
        return self._integers(apart)

    @property
    def quantum(self) -> float:
        """The least difference of two values, as `numbers` counts; 0 if there is none."""
        if np.dtype(self.key_dtype).kind == "f":
            return 10.0**-self.decimals if self.decimals >= 0 else 0.0
        return self.step / self._per_number

    def numbers(self, keys: np.ndarray) -> np.ndarray:
        """Keys as float64: times in seconds since the epoch, durations in seconds, numbers as they are."""
        if not self.unit:
            return keys.astype(np.float64)
        return (keys - self.centre) / self._per_number + self.centre / self._per_number

    def nearest(self, numbers: np.ndarray) -> np.ndarray:
        """The keys that `numbers` would give as these numbers, clipped to the observed range and rounded as they are.

        Float keys are not moved where the column has no resolution.
        """
        if np.dtype(self.key_dtype).kind == "f":
            return self._floats(np.array(numbers, dtype=np.float64))
        return self._integers((numbers - self.centre / self._per_number) * self._per_number)

    @property
    def _per_number(self) -> int:
        return _UNITS[self.unit] if self.unit else 1

    def _floats(self, numbers: np.ndarray) -> np.ndarray:
        """Numbers, which are overwritten, clipped and rounded."""
        dtype = np.dtype(self.key_dtype)
        np.clip(numbers, self.least, self.greatest, out=numbers)
        if self.decimals >= 0:
            np.round(numbers, self.decimals, out=numbers)
        keys = numbers.astype(dtype, copy=False)
        return np.clip(keys, dtype.type(self.least), dtype.type(self.greatest), out=keys)

    def _integers(self, apart: np.ndarray) -> np.ndarray:
        """Integer keys at this distance from the centre, clipped and rounded to the step."""
        dtype = np.dtype(self.key_dtype)
        keys = self._wide_raw(apart, dtype) if self._wide else self._exact_raw(apart, dtype)
        return np.clip(self.to_step(keys), dtype.type(self.least), dtype.type(self.greatest))

    def to_step(self, keys: np.ndarray) -> np.ndarray:
        """Integer keys rounded to the step, in local time, wherever they lie."""
        if self.step == 1:
            return keys
        local = _to_local(keys, self.zone, self.unit)
        return _from_local((local + self.step // 2) // self.step * self.step, self.zone, self.unit)

    def _exact_raw(self, apart: np.ndarray, dtype: np.dtype) -> np.ndarray:
        low, high = int(self.least) - int(self.centre), int(self.greatest) - int(self.centre)
        whole = np.rint(np.clip(apart, low, high)).astype(np.int64)
        # float64 may have rounded an end of the range.
        whole = np.clip(np.where(apart <= low, low, np.where(apart >= high, high, whole)), low, high)
        return (whole.view(dtype) + np.array(self.centre, dtype=dtype)).astype(dtype, copy=False)

    def _wide_raw(self, apart: np.ndarray, dtype: np.dtype) -> np.ndarray:
        keys = np.rint(apart + float(self.centre))
        inner = (keys > float(self.least)) & (keys < float(self.greatest))
        result = np.where(keys > 0, dtype.type(self.greatest), dtype.type(self.least))
        result[keys >= float(self.greatest)] = self.greatest
        result[keys <= float(self.least)] = self.least
        result[inner] = keys[inner].astype(dtype)
        return result


def _decimals(values: np.ndarray) -> int:
    wide = values.astype(np.float64)
    # Rounding multiplies by a power of ten first, which very large numbers do not survive.
    with np.errstate(over="ignore", invalid="ignore"):
        for decimals in range(MAX_DECIMALS + 1):
            if (np.round(wide, decimals).astype(values.dtype) == values).all():
                return decimals
    return -1


def _zone(dtype: Dtype) -> object:
    return dtype.pyarrow_dtype.tz if isinstance(dtype, pd.ArrowDtype) else dtype.tz


def _to_local(keys: np.ndarray, zone: str, unit: str) -> np.ndarray:
    """Counts since the epoch in local time."""
    if not zone:
        return keys
    times = pd.DatetimeIndex(keys.view(f"M8[{unit}]")).tz_localize("UTC").tz_convert(zone)
    return np.asarray(times.tz_localize(None).asi8)


def _from_local(local: np.ndarray, zone: str, unit: str) -> np.ndarray:
    if not zone:
        return local
    times = pd.DatetimeIndex(local.view(f"M8[{unit}]"))
    # An hour that comes twice is read as the first, one that is skipped as the moment after the gap.
    times = times.tz_localize(zone, ambiguous=np.ones(len(times), dtype=bool), nonexistent="shift_forward")
    return np.asarray(times.asi8)
