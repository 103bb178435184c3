"""What the measures share: optional packages, the kinds of columns, and checks."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

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
    """List the named columns, or all that are numbers (bool is not one), in the frame's order."""
    if continuous is None:
        types = pd.api.types
        columns = frame.columns
        return [c for c in columns if types.is_numeric_dtype(frame[c]) and not types.is_bool_dtype(frame[c])]
    unknown = [column for column in continuous if column not in frame]
    if unknown:
        raise ValueError(f"no column named {unknown[0]!r} in the table; it has {list(frame.columns)}")
    return [column for column in frame.columns if column in set(continuous)]


def check_same_columns(first: pd.DataFrame, second: pd.DataFrame, names: tuple[str, str]) -> None:
    """Refuse two tables that do not have the same columns, whatever their order."""
    odd = sorted(set(first.columns) ^ set(second.columns), key=str)
    if odd:
        where = names[0] if odd[0] in first else names[1]
        raise ValueError(f"column {odd[0]!r} is in the {where} table only; both tables need the same columns")
