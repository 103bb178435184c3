"""The cells of one column as plain arrays, with the missing ones marked."""

from __future__ import annotations

import numbers
from collections.abc import Collection, Hashable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from missdiff_fast.table.dtypes import family_of, to_keys
from missdiff_fast.table.literals import read_numbers

_FEW = 4_096  # cells by which it is told whether a column's cells share their objects


class RefusedError(Exception):
    """A column that can't be taken: the kind of fault, for grouping, and what is wrong, without the column's name."""

    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(detail)
        self.kind, self.detail = kind, detail


def _as_float(value: numbers.Real) -> float:
    try:
        return float(value)
    except OverflowError:
        raise ValueError("missing_values holds a whole number beyond float64: no cell is such a number") from None


@dataclass(frozen=True)
class Markers:
    """Values that stand for a missing cell beside NaN, None, NaT and NA.

    Strings are looked for among strings, numbers among numbers.
    """

    strings: tuple[str, ...] = ()
    numbers: tuple[int | float, ...] = ()

    @classmethod
    def of(cls, values: Iterable[object]) -> Markers:
        """Sort the user's ``missing_values``; TypeError where they are no list of strings and numbers."""
        if isinstance(values, str):
            raise TypeError(f"missing_values must be a list such as [{values!r}], not the string {values!r}")
        if isinstance(values, bytes) or not isinstance(values, Collection):  # an iterator would be empty the next time
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

    def match(self, keys: np.ndarray, family: str) -> np.ndarray:
        """Where keys are markers, bool of their shape."""
        if family == "string":
            return pd.Index(keys, dtype=object).isin(self.strings)
        hit = np.zeros(len(keys), dtype=bool)
        if family in ("integer", "float"):
            for number in self.within(keys.dtype):
                hit |= keys == number
        return hit

    def within(self, dtype: np.dtype) -> np.ndarray:
        """The markers that are numbers of a dtype, in it: compared with floats, large integers would all be alike."""
        if dtype.kind not in "iu":
            with np.errstate(over="ignore"):
                return np.array(self.numbers, dtype=np.float64).astype(dtype)
        reach = np.iinfo(dtype)
        whole = [int(number) for number in self.numbers if np.isfinite(float(number)) and number == int(number)]
        return np.array([number for number in whole if reach.min <= number <= reach.max], dtype=dtype)


@dataclass(frozen=True)
class Cells:
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
        Which of the keys each cell is, integers ``[N]``; -1 where missing.
    parsed : bool
        Whether the keys are numbers read from strings.
    """

    family: str
    keys: np.ndarray
    missing: np.ndarray
    codes: np.ndarray | None = None
    parsed: bool = False

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

    def take(self, places: np.ndarray) -> Cells:
        """The cells at these places ``[M]``, each as often as it comes."""
        missing = self.missing[places]
        if self.codes is None:
            return Cells(self.family, self.keys[places], missing, parsed=self.parsed)
        return Cells(self.family, self.keys, missing, self.codes[places], self.parsed)

    def per_cell(self) -> np.ndarray:
        """A key for each cell ``[N]``, with anything at the missing ones."""
        if self.codes is None:
            return self.keys
        if len(self.keys) == 0:
            return np.zeros(len(self.codes), dtype=self.keys.dtype)
        return self.keys[np.where(self.missing, 0, self.codes)]


def read_cells(series: pd.Series, markers: Markers, *, parse: str = "auto", unit: str | None = None) -> Cells:
    """Read a column.

    Parameters
    ----------
    series : Series
        The column.
    markers : Markers
        What else counts as missing.
    parse : {"auto", "always", "never"}
        Whether strings that are all numbers are read as numbers: where markers were among them, always, or never.
    unit : str, optional
        The unit in which dates and times are counted; their own by default.

    Raises
    ------
    RefusedError
        If the cells are of mixed or unknown types, or infinite.
    """
    shared = _shared_objects(series.to_numpy()) if series.dtype == np.dtype(object) else None
    if shared is not None:
        objects, places = shared
        with suppress(RefusedError):  # which tells of all cells, below
            return _read(pd.Series(objects, dtype=object), markers, parse, unit).take(places)
    return _read(series, markers, parse, unit)


def _shared_objects(cells: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """The distinct objects among cells, as they appear, and which of them each cell is; None if few cells share one.

    Readers make one object of equal strings, and there is but one True. To compare addresses takes a fraction of the
    time that it takes to look into objects, and lets other threads run meanwhile.
    """
    addresses = np.frombuffer(np.ascontiguousarray(cells), dtype=np.intp)
    few = addresses[:_FEW]
    if 2 * len(pd.unique(few)) > len(few):
        return None
    places, _ = pd.factorize(addresses)
    # Objects are numbered as they appear: each is where the greatest number so far grows.
    first = np.flatnonzero(np.diff(np.maximum.accumulate(places), prepend=-1))
    return cells[first], places


def _read(series: pd.Series, markers: Markers, parse: str, unit: str | None) -> Cells:
    dtype = series.dtype
    family = family_of(dtype)
    if family == "category":
        return _read_category(series, markers, unit)
    if family == "object":
        series, family = _object_family(series, markers)
    if not family:
        raise RefusedError("unsupported", f"dtype {dtype}")
    if dtype == np.dtype(bool):
        return Cells(family, np.arange(2), np.zeros(len(series), dtype=bool), series.to_numpy().view(np.int8))
    if family == "string":
        strings, distinct = pd.factorize(series)
        return _mark(Cells("string", np.asarray(distinct, dtype=object), strings < 0, strings), markers, parse)
    missing = series.isna().to_numpy(dtype=bool)
    if dtype == np.dtype(object) and family in ("datetime", "timedelta"):
        fine = next((cell for cell in series[~missing] if _is_fine(cell)), None)
        if fine is not None:
            raise RefusedError("fine", str(fine))
    try:
        keys = to_keys(series, family, missing, unit)
    except (OverflowError, ValueError) as error:  # of which pandas' OutOfBoundsDatetime is one
        cells = series.dropna() if dtype == np.dtype(object) else ()
        zoned = next((cell for cell in cells if getattr(cell, "tzinfo", None) is not None), None)
        if zoned is not None:
            raise RefusedError("zones", str(zoned)) from error
        raise RefusedError("reach", str(error)) from error
    if family == "boolean":
        codes = keys.astype(np.int8)
        codes[missing] = -1
        return Cells(family, np.arange(2), missing, codes)
    if markers.numbers:
        missing = missing | markers.match(keys, family)
    if family == "float":
        missing = missing | np.isnan(keys)
        infinite = np.isinf(keys)
        if infinite.any() and (infinite := infinite & ~missing).any():
            raise RefusedError("infinite", f"{infinite.sum():,} of {len(keys):,} cells")
    return Cells(family, keys, missing)


def _is_fine(cell: object) -> bool:
    """Whether a date or duration as an object has parts of a microsecond."""
    if isinstance(cell, (np.datetime64, np.timedelta64)):
        return bool(cell != cell.astype(f"{cell.dtype.kind}8[us]"))
    return bool(getattr(cell, "nanosecond", 0) or getattr(cell, "nanoseconds", 0))


def _read_category(series: pd.Series, markers: Markers, unit: str | None) -> Cells:
    categories = pd.Series(series.cat.categories, dtype=series.cat.categories.dtype)
    inner = read_cells(categories, Markers(), parse="never", unit=unit)
    if categories.isna().any():
        raise RefusedError("unsupported", "a missing value among the categories")
    codes = series.cat.codes.to_numpy()
    keys = inner.per_cell()
    return _mark(Cells(inner.family, keys, codes < 0, codes), markers, "never")


def _mark(cells: Cells, markers: Markers, parse: str) -> Cells:
    """Mark the markers among coded cells, and read numbers from strings if asked."""
    assert cells.codes is not None
    codes, keys = cells.codes, cells.keys
    hit = markers.match(keys, cells.family)
    if hit.any():
        # One place more than there are keys, so that the code -1 stays -1.
        codes, keys = np.append(np.where(hit, -1, np.cumsum(~hit) - 1), -1)[codes], keys[~hit]
    if parse == "always" or (parse == "auto" and hit.any() and len(keys)):
        numbers = read_numbers([key.strip() for key in keys])
        if numbers is not None:
            family = "float" if numbers.dtype.kind == "f" else "integer"
            # Numbers, so markers that are numbers apply.
            missing = np.append(markers.match(numbers, family), True)[codes]
            return Cells(family, np.append(numbers, np.zeros(1, numbers.dtype))[codes], missing, parsed=True)
    return Cells(cells.family, keys, codes < 0, codes)


_OBJECT_FAMILIES = {
    "string": "string",
    "boolean": "boolean",
    "integer": "integer",
    "floating": "float",
    "mixed-integer-float": "float",
    "date": "date",
    "datetime": "datetime",
    "datetime64": "datetime",
    "timedelta": "timedelta",
    "timedelta64": "timedelta",
    "empty": "string",
}


def _object_family(series: pd.Series, markers: Markers) -> tuple[pd.Series, str]:
    """The family of a column of objects, and the column without the markers if they are of another family."""
    found = pd.api.types.infer_dtype(series, skipna=True)
    if found.startswith("mixed") and found not in _OBJECT_FAMILIES:
        marked = series.isin([*markers.strings, *markers.numbers])
        if marked.any():
            series = series.mask(marked, None)
            found = pd.api.types.infer_dtype(series, skipna=True)
    if found in _OBJECT_FAMILIES:
        return series, _OBJECT_FAMILIES[found]
    cells = series.dropna()
    types = cells.map(type)
    first = {kind: cells.iloc[position] for kind, position in _first_of_each(types)}
    if len(first) > 1:
        shown = [f"{kind.__name__} ({_short(value)})" for kind, value in list(first.items())[:2]]
        raise RefusedError("mixed", " and ".join(shown))
    raise RefusedError("unsupported", f"cells of type {next(iter(first)).__name__}")


def _first_of_each(types: pd.Series) -> list[tuple[type, int]]:
    codes, kinds = pd.factorize(types.to_numpy(dtype=object))
    return [(kind, int(np.argmax(codes == i))) for i, kind in enumerate(kinds)]


def _short(value: Hashable) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."
