"""What the measures share: optional packages, the kinds of columns, and checks."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType


def require(name: str) -> ModuleType:
    """Import an optional package, or raise an ImportError that says how to install it."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        package = (error.name or name).partition(".")[0]
        raise ImportError(
            f"this measure needs the package '{package}': pip install 'missdiff_fast[evaluate]'", name=package
        ) from error


def continuous_columns(frame: pd.DataFrame, continuous: Sequence[str] | None) -> list[str]:
    """List the named columns, or all that are numbers (bool is not one), with all of times, in the frame's order."""
    times = {column for column in frame.columns if is_time(frame[column])}
    if continuous is None:
        return [column for column in frame.columns if column in times or _is_number(frame[column])]
    unknown = [column for column in continuous if column not in frame]
    if unknown:
        raise ValueError(f"no column named {unknown[0]!r} in the table; it has {list(frame.columns)}")
    wrong = [column for column in continuous if column not in times and not _is_number(frame[column])]
    if wrong:
        raise ValueError(
            f"column {wrong[0]!r} is named as continuous, but its dtype is {frame[wrong[0]].dtype}; "
            "convert it to numbers, or leave it out"
        )
    return [column for column in frame.columns if column in times or column in set(continuous)]


def as_numbers(column: pd.Series) -> np.ndarray:
    """Give numbers as float64 ``[N]``, durations in hours, dates in days since 1970, and NaN for missing cells."""
    if column.dtype.kind == "m":
        column = column / pd.Timedelta(hours=1)
    elif column.dtype.kind == "M":
        if str(column.dtype) in ("date32[day][pyarrow]", "date64[ms][pyarrow]"):
            column = column.astype("datetime64[s]")
        column = (column - pd.Timestamp(0, tz=_zone(column))) / pd.Timedelta(days=1)
    return column.to_numpy(float, na_value=np.nan)


def in_order(column: pd.Series) -> list[Any]:
    """List the different values of a complete column in sorted order, unlike kinds of values by kind."""
    values = list(column.astype("object").unique())
    try:
        return sorted(values)
    except TypeError:
        return sorted(values, key=lambda value: (type(value).__name__, str(value)))


def is_time(column: pd.Series) -> bool:
    """Whether a column holds dates or durations."""
    return column.dtype.kind in "mM"


def check_same_columns(first: pd.DataFrame, second: pd.DataFrame, names: tuple[str, str]) -> None:
    """Refuse two tables that do not have the same columns, whatever their order, or that have one twice."""
    for name, table in zip(names, (first, second), strict=True):
        if not table.columns.is_unique:
            twice = table.columns[table.columns.duplicated()][0]
            raise ValueError(f"column {twice!r} is in the {name} table more than once; rename or drop one of them")
    odd = sorted(set(first.columns) ^ set(second.columns), key=str)
    if odd:
        where = names[0] if odd[0] in first else names[1]
        raise ValueError(f"column {odd[0]!r} is in the {where} table only; both tables need the same columns")


def check_same_kinds(first: pd.DataFrame, second: pd.DataFrame, names: tuple[str, str]) -> None:
    """Refuse a column of `first` that is of numbers, or of times, in one table and of something else in the other."""
    for column in first.columns:
        kinds = [_kind(table[column]) for table in (first, second)]
        if kinds[0] != kinds[1]:
            raise ValueError(
                f"column {column!r} holds {kinds[0]} in the {names[0]} table and {kinds[1]} in the {names[1]} table; "
                "give it one dtype"
            )


def check_complete(table: pd.DataFrame, name: str) -> None:
    """Refuse a table without rows, or with a missing or infinite cell."""
    if not len(table):
        raise ValueError(f"the {name} table has no rows")
    for column in table.columns:
        cells = table[column]
        if cells.isna().any():
            raise ValueError(
                f"column {column!r} of the {name} table has missing cells; fill them, or drop the rows that have them"
            )
        if _is_number(cells) and not np.isfinite(cells.to_numpy(float)).all():
            raise ValueError(f"column {column!r} of the {name} table has infinite cells; replace them")


def _kind(column: pd.Series) -> str:
    if _is_number(column):
        return "numbers"
    return "times" if is_time(column) else "categories"


def _zone(column: pd.Series) -> Any:
    dtype = column.dtype
    return getattr(dtype.pyarrow_dtype if isinstance(dtype, pd.ArrowDtype) else dtype, "tz", None)


def _is_number(column: pd.Series) -> bool:
    types = pd.api.types
    return types.is_numeric_dtype(column) and not types.is_bool_dtype(column)
