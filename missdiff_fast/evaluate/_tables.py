"""Optional packages, kinds of columns and checks of tables, for all measures."""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa

from missdiff_fast.errors import DataError, DataTypeError, Text, argument_error
from missdiff_fast.remedies import Do, Drop, Remedy, Table

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence
    from types import ModuleType

_WIDEST = float(np.finfo("float64").max)


def require(name: str) -> ModuleType:
    """Import an optional package, or raise an ImportError that says how to install it."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        package = (error.name or name).partition(".")[0]
        limit = ", with pandas below 3" if package == "sdmetrics" else ""
        raise ImportError(
            f"this measure needs the package '{package}': pip install 'missdiff_fast[evaluate]'{limit}", name=package
        ) from error


def continuous_columns(frame: pd.DataFrame, continuous: Sequence[str] | None) -> list[str]:
    """List the continuous columns in the frame's order: the named or all numeric ones (not bool), and all of times."""
    times = {column for column in frame.columns if is_time(frame[column])}
    if isinstance(continuous, str):
        raise TypeError(f"continuous must be a list such as [{continuous!r}], not the string {continuous!r}")
    if continuous is None:
        return [column for column in frame.columns if column in times or _is_number(frame[column])]
    unknown = [column for column in continuous if column not in frame]
    if unknown:
        problem = f"no column named {unknown[0]!r} in the table"
        raise DataError(
            "columns", problem, columns=unknown, remedy=Do(f"name some of {list(frame.columns)}"), joint="; "
        )
    wrong = [column for column in continuous if column not in times and not _is_number(frame[column])]
    if wrong:
        problem = f"column {wrong[0]!r} is named as continuous, but its dtype is {frame[wrong[0]].dtype}"
        remedies = Do("convert it to numbers"), Do("leave it out")
        raise DataError("dtypes", problem, columns=wrong, remedy=remedies, joint="; ")
    return [column for column in frame.columns if column in times or column in set(continuous)]


def as_numbers(column: pd.Series) -> np.ndarray:
    """Convert a column to float64 ``[N]``: durations in hours, dates in days since 1970, missing cells NaN."""
    if column.dtype.kind == "m":
        column = column / pd.Timedelta(hours=1)
    elif column.dtype.kind == "M":
        if str(column.dtype) in ("date32[day][pyarrow]", "date64[ms][pyarrow]"):
            column = column.astype("datetime64[s]")
        column = (column - pd.Timestamp(0, tz=_zone(column))) / pd.Timedelta(days=1)
    return column.to_numpy(float, na_value=np.nan)


def in_order(column: pd.Series) -> list[Any]:
    """List the distinct values of a complete column in sorted order, each kind of value by itself."""
    values = list(column.astype("object").unique())
    try:
        return sorted(values)
    except TypeError:
        return sorted(values, key=lambda value: (type(value).__name__, str(value)))


def is_time(column: pd.Series) -> bool:
    """Whether a column holds dates or durations."""
    return column.dtype.kind in "mM"


def times_as_dtypes(table: pd.DataFrame) -> pd.DataFrame:
    """Convert columns of Python's and Arrow's dates and durations to pandas' dtypes."""
    times: dict[Hashable, pd.Series] = {}
    for column in table.columns:
        cells = table[column]
        if isinstance(cells.dtype, pd.ArrowDtype) and is_time(cells):
            plain = pa.array(cells).to_pandas(date_as_object=False)
            times[column] = plain.set_axis(cells.index)
            continue
        kind = pd.api.types.infer_dtype(cells, skipna=True) if cells.dtype.kind == "O" else ""
        with suppress(ValueError, TypeError):  # times beyond the dtype's range stay categories
            if kind == "date":
                times[column] = cells.astype("datetime64[s]")
            elif kind in ("datetime", "datetime64"):
                times[column] = pd.to_datetime(cells)
            elif kind in ("timedelta", "timedelta64"):
                times[column] = pd.to_timedelta(cells)
    if times:
        table = table.copy(deep=False)
        for name, cells in times.items():
            table[name] = cells
    return table


def check_seed(random_state: object) -> None:
    """Raise unless the models take the value as their seed."""
    if not isinstance(random_state, (int, np.integer)) or not 0 <= random_state < 2**32:
        raise argument_error("random_state", f"must lie in [0, 2**32), got {random_state!r}", random_state)


def check_table(table: object, name: str) -> None:
    """Raise unless the object is a DataFrame with columns, each of them once."""
    if not isinstance(table, pd.DataFrame):
        kind = type(table).__name__
        problem = Text(
            "{table} must be a pandas or polars DataFrame or a pyarrow Table, got {kind}",
            table=Table(name),
            kind=kind,
        )
        raise DataTypeError("frame", problem, value=type(table))
    if not len(table.columns):
        raise DataError("empty", Text("{table} has no columns", table=Table(name)))
    if not table.columns.is_unique:
        twice = table.columns[table.columns.duplicated()][0]
        problem = Text("column {column!r} is in {table} more than once", column=twice, table=Table(name))
        raise DataError("duplicate", problem, columns=[twice], remedy=Do("rename or drop one of them"), joint="; ")


def check_same_columns(first: pd.DataFrame, second: pd.DataFrame, names: tuple[str, str]) -> None:
    """Raise unless both are tables with the same columns, in any order."""
    for name, table in zip(names, (first, second), strict=True):
        check_table(table, name)
    odd = sorted(set(first.columns) ^ set(second.columns), key=str)
    if odd:
        where = names[0] if odd[0] in first else names[1]
        template = "column {column!r} is in {table} only; both tables need the same columns"
        problem = Text(template, column=odd[0], table=Table(where))
        what = "it" if len(odd) == 1 else "those that only one has"
        raise DataError("columns", problem, columns=odd, remedy=Drop(tuple(odd), what=what))


def check_same_kinds(first: pd.DataFrame, second: pd.DataFrame, names: tuple[str, str]) -> None:
    """Refuse a column of `first` that is of numbers, of dates or of durations in one of the tables alone."""
    for column in first.columns:
        kinds = [_kind(table[column]) for table in (first, second)]
        if kinds[0] != kinds[1]:
            problem = Text(
                "column {column!r} holds {kinds[0]} in {first} and {kinds[1]} in {second}",
                column=column,
                kinds=kinds,
                first=Table(names[0]),
                second=Table(names[1]),
            )
            raise DataError("dtypes", problem, columns=[column], remedy=Do("give it one dtype"), joint="; ")


def check_same_categories(
    first: pd.DataFrame, second: pd.DataFrame, columns: Iterable[Hashable], names: tuple[str, str]
) -> None:
    """Refuse columns whose categories are written alike in both tables and are not equal, such as True and "True"."""
    for column in columns:
        alone = [_categories(table[column], name) for table, name in zip((first, second), names, strict=True)]
        alone = [alone[0] - alone[1], alone[1] - alone[0]]
        written = {_text(value): value for value in alone[0]}
        for value in sorted(alone[1], key=str):
            other = written.get(_text(value), value)
            if type(other) is not type(value):
                problem = Text(
                    "column {column!r} holds {other!r} ({kinds[0]}) in {first} and {value!r} ({kinds[1]}) in {second}",
                    column=column,
                    kinds=[type(other).__name__, type(value).__name__],
                    other=other,
                    value=value,
                    first=Table(names[0]),
                    second=Table(names[1]),
                )
                raise DataError(
                    "dtypes", problem, columns=[column], value=value, remedy=Do("give it one dtype"), joint="; "
                )


def check_finite(table: pd.DataFrame, name: str) -> None:
    """Refuse a table without rows, and a column of numbers that are infinite, complex or too far apart."""
    if not len(table):
        raise DataError("empty", Text("{table} has no rows", table=Table(name)))
    for column in table.columns:
        cells = table[column]
        if not _is_number(cells):
            continue
        if pd.api.types.is_complex_dtype(cells):
            raise _fault(
                "complex", column, name, "has complex numbers", Do("make them real"), Drop((column,), what="it")
            )
        x = as_numbers(cells)
        if np.isinf(x).any():
            raise _fault("infinite", column, name, "has infinite cells", Do("replace them"))
        seen = x[~np.isnan(x)]
        if len(seen) and seen.max() / 2 - seen.min() / 2 > _WIDEST / 2:
            raise _fault(
                "wide", column, name, "has a range beyond float64", Do("rescale it"), Drop((column,), what="it")
            )


def check_complete(table: pd.DataFrame, name: str) -> None:
    """Refuse a missing cell, and what `check_finite` refuses."""
    check_finite(table, name)
    for column in table.columns:
        if table[column].isna().any():
            raise _fault(
                "missing", column, name, "has missing cells", Do("fill them"), Do("drop the rows that have them")
            )


def _categories(column: pd.Series, name: str) -> set[Any]:
    cells = column.dropna().astype("object")
    try:
        return set(cells.unique())
    except TypeError:
        wrong = f"has cells such as a {type(cells.iloc[0]).__name__}, which are no categories"
        remedies = Do("make them texts"), Drop((column.name,))
        raise _fault("unsupported", column.name, name, wrong, *remedies) from None


def _fault(kind: str, column: Hashable, table: str, wrong: str, *remedy: Remedy) -> DataError:
    """An error about a column of one table."""
    problem = Text("column {column!r} of {table} {wrong}", column=column, table=Table(table), wrong=wrong)
    return DataError(kind, problem, columns=[column], remedy=remedy, joint="; ")


def _text(value: object) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _kind(column: pd.Series) -> str:
    if _is_number(column):
        return "numbers"
    return {"m": "durations", "M": "dates"}.get(column.dtype.kind, "categories")


def _zone(column: pd.Series) -> Any:
    dtype = column.dtype
    return getattr(dtype.pyarrow_dtype if isinstance(dtype, pd.ArrowDtype) else dtype, "tz", None)


def _is_number(column: pd.Series) -> bool:
    types = pd.api.types
    return types.is_numeric_dtype(column) and not types.is_bool_dtype(column)
