"""The cells of one column as plain arrays, and the values that mark a missing cell."""

from __future__ import annotations

import numbers
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import tzinfo
from functools import cached_property

import numpy as np
import pandas as pd

from missdiff_fast.table.censored import Censored
from missdiff_fast.table.dates import count_instant
from missdiff_fast.table.dtypes import INSTANTS


class RefusedError(Exception):
    """A column that can't be used: the kind of fault, by which errors are grouped, its details and its odd texts."""

    def __init__(self, kind: str, detail: str, texts: Sequence[str] = ()) -> None:
        super().__init__(detail)
        self.kind, self.detail, self.texts = kind, detail, tuple(texts)


def _as_float(value: numbers.Real) -> float:
    try:
        return float(value)
    except OverflowError:
        raise ValueError("missing_values holds a whole number beyond float64: no cell is such a number") from None


@dataclass(frozen=True)
class Markers:
    """Values that stand for a missing cell beside NaN, None, NaT and NA.

    Strings mark cells of text, and dates, times and durations that they write; numbers mark numbers.
    """

    strings: tuple[str, ...] = ()
    numbers: tuple[int | float, ...] = ()

    @classmethod
    def of(cls, values: Iterable[object]) -> Markers:
        """Sort the user's ``missing_values``; TypeError where they are no list of strings and numbers."""
        if isinstance(values, str):
            raise TypeError(f"missing_values must be a list such as [{values!r}], not the string {values!r}")
        if isinstance(values, bytes) or not isinstance(
            values, Collection
        ):  # an iterator would be exhausted on second use
            raise TypeError(f"missing_values must be a list such as ['?'], or () for none, not {values!r}")
        strings: list[str] = []
        found: list[int | float] = []
        for value in values:
            if isinstance(value, str):
                strings.append(value)
            elif not isinstance(value, bool) and isinstance(value, numbers.Real):
                if not np.isnan(_as_float(value)):
                    found.append(int(value) if isinstance(value, numbers.Integral) else float(value))
            elif value is not None and value is not pd.NA and value is not pd.NaT:
                raise TypeError(
                    f"missing_values holds {value!r} ({type(value).__name__}): give strings and numbers only"
                )
        return cls(tuple(strings), tuple(found))

    def match(
        self, keys: np.ndarray, family: str, unit: str = "ns", zone: tzinfo | None = None, form: str = ""
    ) -> np.ndarray:
        """Mask of the keys that are markers, bool of their shape.

        Dates and times are counts of a unit; in a zone, markers without one are in its local time. If the cells have a
        form, it tells the order of day and month in markers that are written alike.
        """
        if family == "string":
            return pd.Index(keys, dtype=object).isin(self.strings)
        hit = np.zeros(len(keys), dtype=bool)
        if family in INSTANTS:
            instants = [count_instant(text, family, unit, zone, form) for text in self.strings]
            for instant in instants:
                hit |= False if instant is None else keys == instant
        if family in ("integer", "float"):
            for number in self.within(keys.dtype):
                hit |= keys == number
        return hit

    def within(self, dtype: np.dtype) -> np.ndarray:
        """The markers that are numbers of a dtype, in it: as floats, neighbouring large integers would be equal."""
        if dtype.kind not in "iu":
            with np.errstate(over="ignore"):
                return np.array(self.numbers, dtype=np.float64).astype(dtype)
        reach = np.iinfo(dtype)
        whole = [int(number) for number in self.numbers if np.isfinite(float(number)) and number == int(number)]
        return np.array([number for number in whole if reach.min <= number <= reach.max], dtype=dtype)


@dataclass(frozen=True)
class ColumnCells:
    """A column's cells.

    Parameters
    ----------
    family : str
        As `missdiff_fast.table.dtypes` lists them.
    keys : ndarray
        The cells ``[N]``, with anything at the missing ones; or, with ``codes``, distinct keys ``[V]``.
    missing : ndarray
        bool ``[N]``.
    codes : ndarray, optional
        The index of each cell's key, integers ``[N]``; -1 where missing.
    parsed : bool
        Whether the keys are numbers read from strings.
    censored : Censored, optional
        How the cells are written, if some are limits such as ``<0.1``.
    """

    family: str
    keys: np.ndarray
    missing: np.ndarray
    codes: np.ndarray | None = None
    parsed: bool = False
    censored: Censored | None = None

    @cached_property
    def observed(self) -> np.ndarray:
        """The keys of the observed cells, one for each of them, in the order of the rows; not to be written to."""
        cells = self.keys if self.codes is None else self.codes
        cells = cells[~self.missing] if self.missing.any() else cells
        return cells if self.codes is None else self.keys[cells]

    @cached_property
    def distinct(self) -> tuple[np.ndarray, np.ndarray]:
        """The keys that observed cells have, ascending if there are no codes, and how many have each: both ``[V]``."""
        if self.codes is None:
            return np.unique(self.observed, return_counts=True)
        if len(self.keys) == 2:  # flags: NumPy counts them faster than it widens their codes
            counts = np.array([np.count_nonzero(self.codes == code) for code in (0, 1)])
        else:
            counts = np.bincount(self.codes[~self.missing], minlength=len(self.keys))
        return self.keys[counts > 0], counts[counts > 0]

    def take(self, places: np.ndarray) -> ColumnCells:
        """The cells at these places ``[M]``, each as often as it comes."""
        missing = self.missing[places]
        if self.codes is None:
            return replace(self, keys=self.keys[places], missing=missing)
        return replace(self, missing=missing, codes=self.codes[places])

    def per_cell(self) -> np.ndarray:
        """A key for each cell ``[N]``, with anything at the missing ones."""
        if self.codes is None:
            return self.keys
        if len(self.keys) == 0:
            return np.zeros(len(self.codes), dtype=self.keys.dtype)
        return self.keys[np.where(self.missing, 0, self.codes)]

    def compact(self) -> ColumnCells:
        """The same cells in less memory: no mask where none is missing, codes no wider than the keys need."""
        missing, codes = self.missing, self.codes
        if not missing.any():
            missing = np.broadcast_to(np.False_, missing.shape)
        if codes is not None and codes.dtype.itemsize > 2 and len(self.keys) <= np.iinfo(np.int16).max:
            codes = codes.astype(np.int16)
        return replace(self, missing=missing, codes=codes)
