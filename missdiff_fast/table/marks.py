"""The user's marks of missing cells, applied to a frame as read."""

from __future__ import annotations

import math
from collections.abc import Collection

import numpy as np
import pandas as pd

from missdiff_fast.table.cells import Markers
from missdiff_fast.table.dtypes import INSTANTS, NUMBERS, family_of, holds_text, key_dtype, to_keys, unit_of, zone_of
from missdiff_fast.table.literals import with_room


def _plain_forms(number: int | float) -> list[str]:
    """The spellings of a number in columns left as text: -9 and -9.0, but not -09."""
    if math.isfinite(number) and number == int(number):
        return [f"{int(number)}", f"{int(number)}.0"]
    return [repr(float(number))]


def _marked_instants(column: pd.Series, markers: Markers) -> np.ndarray:
    """Which cells are dates, times or durations that markers write."""
    family, none = family_of(column.dtype), np.zeros(len(column), dtype=bool)
    if family == "object" and pd.api.types.infer_dtype(column, skipna=True) == "date":
        family = "date"
    if family not in INSTANTS or not markers.strings:
        return none
    unit = unit_of(column.dtype, family)
    try:
        keys = to_keys(column, family, unit=unit)
    except (OverflowError, ValueError):  # dates out of reach, which fit refuses
        return none
    return markers.match(keys, family, unit, zone_of(column.dtype)) & column.notna().to_numpy(dtype=bool)


def mark_missing(frame: pd.DataFrame, markers: Markers, string_columns: Collection[str] = ()) -> pd.DataFrame:
    """The frame with the user's missing values made missing."""
    written = [form for number in markers.numbers for form in _plain_forms(number)]
    for name in frame.columns if markers.strings or markers.numbers else ():
        column = frame[name]
        if isinstance(column.dtype, pd.CategoricalDtype):
            gone = [value for value in column.cat.categories if value in (markers.strings + markers.numbers)]
            gone.extend(column.cat.categories[_marked_instants(column.cat.categories.to_series(), markers)])
            frame[name] = column.cat.remove_categories(gone)
            continue
        instants = _marked_instants(column, markers)
        if instants.any():
            frame[name] = column.mask(instants)
            continue
        family = family_of(column.dtype)
        values: list[object] | np.ndarray
        if family in NUMBERS:
            values = markers.within(key_dtype(column.dtype, family))
        elif holds_text(column.dtype):
            values = [*markers.strings, *(written if str(name) in string_columns else ())]
        else:
            values = []
        hit = column.isin(values) if len(values) else None
        if hit is not None and hit.any():
            frame[name] = with_room(column).mask(hit)
    return frame
