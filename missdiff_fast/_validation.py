"""Checks of what users pass, before any work is done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

MAX_ROWS = 1 << 40  # more than any memory holds, and few enough that sizes in bytes stay integers of 64 bits


def check_count(name: str, value: object, *, least: int, most: int | None = None) -> int:
    """The value as an int of at least ``least`` and at most ``most``."""
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool):
        raise TypeError(f"{name} must be an integer, got {value!r}")
    if value < least:
        raise ValueError(f"{name} must be at least {least}, got {value}")
    if most is not None and value > most:
        raise ValueError(f"{name} must be at most {most:,}, got {value}")
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
        num_rows = check_count("num_rows", num_rows, least=0, most=MAX_ROWS)
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
    """The rows in the dtypes of another table; ValueError where a value would not stay the same in its column's."""
    return pd.DataFrame({name: _in_dtype(rows[name], like[name].dtype) for name in like.columns}, index=rows.index)


def _in_dtype(column: pd.Series, dtype: Any) -> pd.Series:
    if column.dtype == dtype:
        return column
    floats, values = pd.api.types.is_float_dtype(dtype), column.astype(object)
    with np.errstate(over="ignore", invalid="ignore"):
        try:
            cast = column.astype(dtype)
        except (ValueError, TypeError, OverflowError):  # one by one, to tell which value it is
            cast = pd.Series([_alone(value, dtype) for value in values], index=column.index, dtype=object)
    # Floats are rounded to their dtype; everything else must be the same.
    kept = np.isfinite(cast.to_numpy(dtype=float)) if floats else (cast.astype(object) == values).to_numpy(dtype=bool)
    if not kept.all():
        value = values[~kept].iloc[0]
        remedy = ": round it" if isinstance(value, (float, np.floating)) and not floats and value % 1 else ""
        raise ValueError(f"given value {value!r} of column {column.name!r} can't be held by its dtype {dtype}{remedy}")
    return cast


def _alone(value: object, dtype: Any) -> object:
    """The value in a dtype; None if that does not take it."""
    try:
        return pd.Series([value]).astype(dtype).iloc[0]
    except (ValueError, TypeError, OverflowError):
        return None


def plain_parameters(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """A model's parameters for JSON: NumPy's numbers as Python's, a device as its name, no NA among markers."""
    plain = {name: _plain(value) for name, value in parameters.items()}
    plain["device"] = str(plain["device"])
    plain["missing_values"] = [_plain(value) for value in plain["missing_values"] if not pd.isna(value)]
    if plain["settings"] is not None:
        plain["settings"] = {path: _plain(value) for path, value in plain["settings"].items()}
    return plain


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
