"""Reading one column of a frame into plain arrays."""

from __future__ import annotations

from collections.abc import Hashable
from contextlib import suppress

import numpy as np
import pandas as pd

from missdiff_fast.table.cells import ColumnCells, Markers, RefusedError
from missdiff_fast.table.dtypes import INSTANTS, Dtype, family_of, to_keys, unit_of, zone_of
from missdiff_fast.table.limit_reading import Limits, odd_text, read_objects, with_limits
from missdiff_fast.table.literals import read_numbers
from missdiff_fast.table.strings import factorize

_FEW = 4_096  # sample size for detecting shared objects


def read_cells(
    series: pd.Series,
    markers: Markers,
    *,
    parse: str = "auto",
    unit: str | None = None,
    limits: Limits = "never",
    decimal: str | None = None,
) -> ColumnCells:
    """Read a column.

    Parameters
    ----------
    series : Series
        The column.
    markers : Markers
        Further values that count as missing.
    parse : {"auto", "always", "never"}
        Whether strings that are all numbers are read as numbers: where markers were among them, always, or never.
    unit : str, optional
        The unit in which dates and times are counted; their own by default.
    limits : {"never", "auto", "chosen", "learnt"}
        Which texts are read as numbers and limits such as ``<0.1``: none; those of a column of numbers with limits;
        all that are numbers and limits, where one is a limit; all that are numbers and limits.
    decimal : str, optional
        The decimal mark of these; found out by default.

    Raises
    ------
    RefusedError
        If the cells are of mixed or unknown types, or infinite.
    """
    try:
        cells = _read_plain(series, markers, parse, unit)
    except RefusedError as refused:
        read = None
        if refused.kind == "mixed" and limits != "never":
            read = read_objects(series, markers, limits, decimal)
        if read is None:
            raise
        return read.compact()
    return with_limits(cells, series.dtype, markers, limits, decimal).compact()


def _read_plain(series: pd.Series, markers: Markers, parse: str, unit: str | None) -> ColumnCells:
    shared = _shared_objects(series.to_numpy()) if series.dtype == np.dtype(object) else None
    if shared is not None:
        objects, places = shared
        with suppress(RefusedError):  # raised again below, with details that count all cells
            return _read(pd.Series(objects, dtype=object), markers, parse, unit).take(places)
    return _read(series, markers, parse, unit)


def _shared_objects(cells: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """The distinct objects among cells, in order of appearance, and each cell's place among them; None if few share.

    File readers intern equal strings, and True is a singleton. Comparing addresses is much faster than comparing the
    objects, and releases the interpreter lock.
    """
    addresses = np.frombuffer(np.ascontiguousarray(cells), dtype=np.intp)
    few = addresses[:_FEW]
    if 2 * len(pd.unique(few)) > len(few):
        return None
    places, _ = pd.factorize(addresses)
    # Codes are given in order of appearance: an object first appears where the running maximum grows.
    first = np.flatnonzero(np.diff(np.maximum.accumulate(places), prepend=-1))
    return cells[first], places


def _read(series: pd.Series, markers: Markers, parse: str, unit: str | None) -> ColumnCells:
    dtype = series.dtype
    family = family_of(dtype)
    if family == "category":
        return _read_category(series, markers, unit)
    if family == "object":
        series, family = _object_family(series, markers)
    if not family:
        digits = ", with more digits than float64 keeps" if str(dtype).startswith("decimal") else ""
        raise RefusedError("unsupported", f"dtype {dtype}{digits}")
    if dtype == np.dtype(bool):
        return ColumnCells(family, np.arange(2), np.zeros(len(series), dtype=bool), series.to_numpy().view(np.int8))
    if family == "string":
        strings, distinct = factorize(series)
        keys = np.asarray(distinct, dtype=object)
        return _mark(ColumnCells("string", keys, strings < 0, strings), markers, parse, markers.match(keys, "string"))
    missing = series.isna().to_numpy(dtype=bool)
    if dtype == np.dtype(object) and family in ("datetime", "timedelta"):
        fine = next((cell for cell in series[~missing] if _is_fine(cell)), None)
        if fine is not None:
            raise RefusedError("fine", str(fine))
    try:
        keys = to_keys(series, family, missing, unit)
    except (OverflowError, ValueError) as error:  # pandas' OutOfBoundsDatetime is one too
        cells = series.dropna() if dtype == np.dtype(object) else ()
        zoned = next((cell for cell in cells if getattr(cell, "tzinfo", None) is not None), None)
        if zoned is not None:
            raise RefusedError("zones", str(zoned)) from error
        raise RefusedError("reach", str(error)) from error
    if family == "boolean":
        codes = keys.astype(np.int8)
        codes[missing] = -1
        return ColumnCells(family, np.arange(2), missing, codes)
    if markers.numbers or (markers.strings and family in INSTANTS):
        missing = missing | _marked(keys, markers, family, dtype, unit)
    if family == "float":
        missing = missing | np.isnan(keys)
        infinite = np.isinf(keys)
        if infinite.any() and (infinite := infinite & ~missing).any():
            raise RefusedError("infinite", f"{infinite.sum():,} of {len(keys):,} cells")
    return ColumnCells(family, keys, missing)


def _is_fine(cell: object) -> bool:
    """Whether a date or duration as an object has parts of a microsecond."""
    if isinstance(cell, (np.datetime64, np.timedelta64)):
        return bool(cell != cell.astype(f"{cell.dtype.kind}8[us]"))
    return bool(getattr(cell, "nanosecond", 0) or getattr(cell, "nanoseconds", 0))


def _read_category(series: pd.Series, markers: Markers, unit: str | None) -> ColumnCells:
    categories = pd.Series(series.cat.categories, dtype=series.cat.categories.dtype)
    inner = read_cells(categories, Markers(), parse="never", unit=unit)
    if categories.isna().any():
        raise RefusedError("unsupported", "a missing value among the categories")
    codes = series.cat.codes.to_numpy()
    keys, family = inner.per_cell(), inner.family
    hit = _marked(keys, markers, family, categories.dtype, unit)
    return _mark(ColumnCells(family, keys, codes < 0, codes), markers, "never", hit)


def _marked(keys: np.ndarray, markers: Markers, family: str, dtype: Dtype, unit: str | None) -> np.ndarray:
    """Mask of the keys that are markers; dates and times are counted in the unit, by default the dtype's."""
    if family not in INSTANTS:
        return markers.match(keys, family)
    return markers.match(keys, family, unit or unit_of(dtype, family), zone_of(dtype))


def _mark(cells: ColumnCells, markers: Markers, parse: str, hit: np.ndarray) -> ColumnCells:
    """Mark the cells whose keys are hit by a marker, and read numbers from strings if asked."""
    assert cells.codes is not None
    codes, keys = cells.codes, cells.keys
    if hit.any():
        # The array has one more element than there are keys, so that code -1 selects -1.
        codes, keys = np.append(np.where(hit, -1, np.cumsum(~hit) - 1), -1)[codes], keys[~hit]
    if parse == "always" or (parse == "auto" and hit.any() and len(keys)):
        numbers = read_numbers([key.strip() for key in keys])
        if numbers is not None:
            family = "float" if numbers.dtype.kind == "f" else "integer"
            # The cells are numbers now, so numeric markers apply.
            missing = np.append(markers.match(numbers, family), True)[codes]
            return ColumnCells(family, np.append(numbers, np.zeros(1, numbers.dtype))[codes], missing, parsed=True)
    return ColumnCells(cells.family, keys, codes < 0, codes)


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
    first = {kind: cells.iloc[position] for kind, position in _first_of_each(cells.map(type))}
    if str in first and len(first) > 1:
        first[str] = odd_text(cells)
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
