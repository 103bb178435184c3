"""Checks of what users pass, before any work is done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd


def check_count(name: str, value: object, *, least: int) -> int:
    """The value as an int of at least ``least``."""
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool):
        raise TypeError(f"{name} must be an integer, got {value!r}")
    if value < least:
        raise ValueError(f"{name} must be at least {least}, got {value}")
    return int(value)


def check_positive(name: str, value: object) -> float:
    """The value as a finite float above 0."""
    if not isinstance(value, (int, float, np.integer, np.floating)) or isinstance(value, bool):
        raise TypeError(f"{name} must be a number, got {value!r}")
    if not 0 < float(value) < float("inf"):
        raise ValueError(f"{name} must be positive and finite, got {value}")
    return float(value)


def given_frame(
    num_rows: int | None, given: Mapping[str, object] | pd.DataFrame | None, columns: Sequence[str | int]
) -> pd.DataFrame:
    """The known part of the rows to draw: one row each, and only known columns.

    Raises
    ------
    ValueError
        num_rows is absent, negative or not the length of ``given``; a given column is unknown.
    TypeError
        A wrong type.
    """
    if num_rows is not None:
        num_rows = check_count("num_rows", num_rows, least=0)
    if isinstance(given, pd.DataFrame):
        frame = given
        if num_rows not in (None, len(frame)):
            raise ValueError(
                f"given has {len(frame)} rows and is completed row for row: leave num_rows out, got {num_rows}"
            )
    elif num_rows is None:
        raise ValueError("num_rows is missing: say how many rows to draw")
    elif given is None:
        frame = pd.DataFrame(index=range(num_rows))
    elif isinstance(given, Mapping):
        frame = pd.DataFrame({name: [value] * num_rows for name, value in given.items()}, index=range(num_rows))
    else:
        raise TypeError(f"given must be a mapping or a DataFrame, got {type(given).__name__}")
    unknown = [name for name in frame.columns if name not in set(columns)]
    if unknown:
        raise ValueError(f"given names unknown columns {unknown}; the model has {list(columns)}")
    return frame


def in_learnt_dtypes(rows: pd.DataFrame, like: pd.DataFrame) -> pd.DataFrame:
    """The rows in the dtypes of another table; ValueError where an integer column has a fraction."""
    for name in like.columns:
        if pd.api.types.is_integer_dtype(like[name].dtype):
            fraction = (pd.to_numeric(rows[name]) % 1 != 0).to_numpy(dtype=bool)
            if fraction.any():
                value = rows[name][fraction].iloc[0]
                raise ValueError(f"given value {value!r} of column {name!r} is not whole, as the column is: round it")
    return rows.astype(like.dtypes)
