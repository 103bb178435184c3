"""Conditions on cells of rows to be drawn: a range of a column's numbers or times, or some of its values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from missdiff_fast._frames import all_to_pandas
from missdiff_fast.errors import DataError, DataTypeError
from missdiff_fast.remedies import Do
from missdiff_fast.table.codec import Codec
from missdiff_fast.table.dtypes import INSTANTS, NUMBERS
from missdiff_fast.table.given import in_dtype
from missdiff_fast.table.schema import Column, Name

_CHUNK, _MOST_DRAWN = 4096, 1 << 17  # rows drawn at a time at first, and in all
_ENOUGH, _LEAST = 1000, 20  # rows that meet the conditions: where the draws stop, and the fewest that are taken


@dataclass(frozen=True)
class Condition:
    """A condition on the cells of one column in drawn rows.

    Parameters
    ----------
    column : Column
        The schema's entry.
    allowed : pandas.Interval, Series or tuple
        The range, or the values in the learnt dtype: of a column with limits such as ``<0.1``, the numbers that these
        stand for.
    text : str
        What messages call it.
    numbers : callable, optional
        Gives the numbers of a column with limits of measurement.

    Examples
    --------
    >>> column = Column("age", "continuous", np.dtype("int64"), "integer")
    >>> Condition(column, pd.Interval(60, 80, closed="left"), "age in [60, 80)").holds(pd.Series([59, 60, 80])).tolist()
    [False, True, False]
    """

    column: Column
    allowed: pd.Interval | pd.Series | tuple[Any, ...]
    text: str
    numbers: Callable[[pd.Series], pd.Series] | None = None

    def holds(self, cells: pd.Series) -> np.ndarray:
        """Which cells of the column, in its learnt dtype, meet the condition: bool ``[N]``; not those that are missing.

        Raises
        ------
        TypeError
            The ends of the range cannot be compared with the cells.
        """
        if self.numbers is not None:
            cells = self.numbers(cells)
        interval = self.allowed
        if not isinstance(interval, pd.Interval):
            return cells.isin(interval).to_numpy(dtype=bool)
        there = cells.notna().to_numpy()
        result, values = np.zeros(len(cells), dtype=bool), cells[there]
        if self.column.family == "date":
            values = pd.to_datetime(values)
        try:
            above = values >= interval.left if interval.closed_left else values > interval.left
            below = values <= interval.right if interval.closed_right else values < interval.right
        except TypeError as error:
            problem = (
                f"the ends of {interval} cannot be compared with the cells of column {self.column.name!r} ({error})"
            )
            remedy = Do("give ends of the column's type")
            raise DataTypeError("given", problem, columns=[self.column.name], value=interval, remedy=remedy) from None
        result[there] = (above & below).to_numpy(dtype=bool)
        return result


def split_conditions(given: Mapping[Any, object], codec: Codec) -> tuple[dict[Any, object], list[Condition]]:
    """The single values of ``given``, and the ranges and lists of values as conditions.

    Raises
    ------
    ValueError
        A condition of a column that is not learnt; a value that the model does not draw, or none; no value of the
        training rows within a range.
    TypeError
        A range of texts or truth values, or with ends of another type than the column's.
    """
    fixed, conditions = dict[Any, object](), list[Condition]()
    for name, value in given.items():
        if isinstance(value, pd.Interval):
            conditions.append(_range(name, value, codec))
        elif (values := _listed(value)) is not None:
            conditions.append(_values(name, values, codec))
        else:
            fixed[name] = value
    return fixed, conditions


def cells_that_meet(
    conditions: Sequence[Condition], draw: Callable[[int, int], pd.DataFrame], uniform: np.ndarray
) -> pd.DataFrame:
    """Cells of the columns with conditions for N rows, distributed as in drawn rows that meet them.

    Rows are drawn until at least 1,000 meet the conditions, at most 131,072; of these, one is chosen for each row. The
    other cells of a row are to be drawn given these, so rows do not repeat even if few met the conditions.

    Parameters
    ----------
    conditions : sequence of Condition
        All of them must hold.
    draw : callable
        From the number of the first row and that of rows to drawn rows.
    uniform : ndarray
        A number from 0 up to 1 for each of the N rows.

    Raises
    ------
    ValueError
        Fewer than 20 rows met the conditions; the message has their share.
    """
    names: list[Name] = [one.column.name for one in conditions]
    found, drawn, number, chunk = list[pd.DataFrame](), 0, 0, _CHUNK
    while number < _ENOUGH and drawn < _MOST_DRAWN:
        rows = draw(drawn, chunk)
        meets = np.logical_and.reduce([one.holds(rows[one.column.name]) for one in conditions])
        found.append(rows.loc[meets, names])
        drawn, number = drawn + chunk, number + int(meets.sum())
        chunk = min(drawn, _MOST_DRAWN - drawn)
    if number < _LEAST:
        wanted = " and ".join(one.text for one in conditions)
        share = f"{number:,} have {wanted} (1 in {drawn // number:,})" if number else f"none has {wanted}"
        problem = f"of {drawn:,} rows drawn, {share}"
        remedy = Do("widen the conditions, or give single values, which need no such rows")
        raise DataError("given", problem, columns=names, remedy=remedy)
    chosen = (uniform.astype(np.float64) * number).astype(np.int64).clip(max=number - 1)
    return pd.concat(found, ignore_index=True).iloc[chosen].reset_index(drop=True)


def _column(name: object, codec: Codec, value: object) -> Column:
    if isinstance(name, (str, int)) and name in codec.schema:
        return codec.schema[name]
    problem = f"column {name!r} is not learnt, so no range or list of its values can be given"
    raise DataError("given", problem, columns=[name], value=value, remedy=Do("leave it out, or give single values"))


def _range(name: object, interval: pd.Interval, codec: Codec) -> Condition:
    column = _column(name, codec, interval)
    if column.family not in NUMBERS and column.family not in INSTANTS:
        problem = f"column {name!r} holds {column.family}s, which have no range"
        remedy = Do("give a list of its values")
        raise DataTypeError("given", problem, columns=[name], value=interval, remedy=remedy)
    values, text = codec.values(column.name), f"{name!r} in {interval}"
    if not Condition(column, interval, text).holds(values).any():
        problem = f"no training row has {text}; the column has {values.min()} to {values.max()}"
        raise DataError("given", problem, columns=[name], value=interval, remedy=Do("give a range within"), joint="; ")
    return Condition(column, interval, text, _reader(column, codec))


def _reader(column: Column, codec: Codec) -> Callable[[pd.Series], pd.Series] | None:
    return None if column.censored is None else lambda cells: codec.numbers(column.name, cells)


def _values(name: object, values: list[Any], codec: Codec) -> Condition:
    column = _column(name, codec, values)
    if not values:
        problem = f"the list of values of column {name!r} is empty"
        raise DataError("given", problem, columns=[name], value=values, remedy=Do("give one or more"))
    known, read, text = codec.values(column.name), _reader(column, codec), f"{name!r} in {values}"
    cells = _cells(values, column)
    if cells is None:  # one by one, to name the value that is no cell of the column
        each = [_cells([value], column) for value in values]
        strange = [value for value, cell in zip(values, each, strict=True) if cell is None]
    else:
        cells = cells if read is None else read(cells)
        strange = [value for value, fits in zip(values, cells.isin(known), strict=True) if not fits]
    if strange or cells is None:
        strange = strange or values
        problem = f"column {name!r} has no value {strange[0]!r} among those that the model draws"
        raise DataError("given", problem, columns=[name], value=strange[0], remedy=Do("leave it out of the list"))
    return Condition(column, cells, text, read)


def _cells(values: list[Any], column: Column) -> pd.Series | None:
    """Values ``[V]`` in a column's learnt dtype; None if one is none of its cells."""
    (frame,) = all_to_pandas(pd.DataFrame({column.name: pd.Series(values, dtype=object)}))
    try:
        return in_dtype(frame[column.name], column)
    except (DataError, TypeError, ValueError):
        return None


def _listed(value: Any) -> list[Any] | None:
    """The values of a list, a set or another one-dimensional array of any library; None for a single value."""
    if isinstance(value, (str, bytes)) or getattr(value, "ndim", 1) == 0:
        return None
    if isinstance(value, np.ndarray) and value.ndim == 1:
        return pd.Series(value).tolist()  # NumPy gives numbers for times
    if isinstance(value, (Sequence, Set, np.ndarray)):
        return list(value)
    for name in ("to_pylist", "tolist", "to_list"):
        if callable(method := getattr(value, name, None)):
            return list(method())
    return None
