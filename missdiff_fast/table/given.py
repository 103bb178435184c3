"""Known cells of rows to be drawn: a frame of the user's values, and these in the learnt dtypes."""

from __future__ import annotations

import datetime
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from missdiff_fast._checks import MAX_ROWS, check_count
from missdiff_fast.errors import DataError, DataTypeError
from missdiff_fast.remedies import Do
from missdiff_fast.table.date_writing import example, is_local, read_as, read_unambiguous
from missdiff_fast.table.dates import DATE, read_dates
from missdiff_fast.table.dtypes import holds_text, with_columns
from missdiff_fast.table.schema import Column, check_frame


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
        cells = {name: _repeated(name, value, num_rows) for name, value in given.items()}
        frame = pd.DataFrame(cells, index=range(num_rows))
    else:
        raise TypeError(f"given must be a mapping or a DataFrame, got {type(given).__name__}")
    unknown = [name for name in frame.columns if name not in set(columns)]
    if unknown:
        problem = f"given names unknown columns {unknown}; the model has {list(columns)}"
        raise DataError("columns", problem, columns=unknown, remedy=Do("leave the others out"), joint="; ")
    return frame


def without_order(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with the order of its categories removed; errors of `check_frame`."""
    check_frame(frame)
    ordered = [name for name, dtype in frame.dtypes.items() if isinstance(dtype, pd.CategoricalDtype) and dtype.ordered]
    if not ordered:
        return frame
    return frame.astype({name: pd.CategoricalDtype(frame[name].cat.categories) for name in ordered})


def _repeated(name: str, value: object, num_rows: int) -> pd.Series:
    try:
        if isinstance(value, int):
            float(value)  # since pandas 3 a column of objects holds what it refused before
        return pd.Series([value] * num_rows)
    except OverflowError:
        problem = f"the given value of column {name!r} is a whole number beyond float64"
        raise DataError("reach", problem, columns=[name], value=value, remedy=Do("give another")) from None


def in_learnt_dtypes(rows: pd.DataFrame, schema: Iterable[Column]) -> pd.DataFrame:
    """The rows in the learnt dtypes; ValueError where a value would not stay the same in its column's."""
    return pd.DataFrame({column.name: in_dtype(rows[column.name], column) for column in schema}, index=rows.index)


def in_dtype(column: pd.Series, learnt: Column) -> pd.Series:
    """Given values in a learnt column's dtype; ValueError where one would not stay the same."""
    dtype = learnt.dtype
    if learnt.censored is not None:
        return learnt.censored.cast(column)
    if _may_be_texts(learnt) and holds_text(column.dtype):
        column = _from_texts(column, learnt.form)
    if learnt.family in ("date", "datetime") and (column.dtype == object or column.dtype != dtype):
        column = _of_family(column, learnt)
    if column.dtype == dtype:
        return column
    floats, values = pd.api.types.is_float_dtype(dtype), column.astype(object)
    with np.errstate(over="ignore", invalid="ignore"):
        try:
            cast = column.astype(dtype)
        except (ValueError, TypeError, OverflowError):  # one by one, to name the value in the error
            cast = pd.Series([_alone(value, dtype) for value in values], index=column.index, dtype=object)
    # Floats are rounded to their dtype; everything else must be the same.
    kept = np.isfinite(cast.to_numpy(dtype=float)) if floats else (cast.astype(object) == values).to_numpy(dtype=bool)
    if not kept.all():
        value = values[~kept].iloc[0]
        problem = f"given value {value!r} of column {column.name!r} can't be held by its dtype {dtype}"
        fraction = isinstance(value, (float, np.floating)) and not floats and value % 1
        remedy = Do("round it" if fraction else "give one that it holds")
        raise DataError("reach", problem, columns=[learnt.name], value=value, remedy=remedy)
    return cast


def read_given_dates(frame: pd.DataFrame, schema: Iterable[Column], marks: Collection[object] = ()) -> pd.DataFrame:
    """Given values, with dates and times of day for texts that write them.

    A text writes one in its column's form, in ISO 8601, or in another form if it can be no other date.

    Parameters
    ----------
    frame : DataFrame
        The values.
    schema : iterable of Column
        The learnt columns; those that were read from text have a form.
    marks : collection, optional
        Texts that stand for a missing cell.

    Raises
    ------
    TypeError
        If a text in such a column is neither.

    Examples
    --------
    >>> column = Column("seen", "continuous", np.dtype("M8[ns]"), "datetime", form="DD.MM.YYYY")
    >>> read_given_dates(pd.DataFrame({"seen": ["27.8.2022", "2022-08-28"]}), [column])["seen"].dt.day.tolist()
    [27, 28]
    """
    forms = {column.name: column.form for column in schema if _may_be_texts(column)}
    texts = {name: form for name, form in forms.items() if name in frame.columns and holds_text(frame[name].dtype)}
    read = {name: _from_texts(frame[name], form) for name, form in texts.items()}
    for name, cells in read.items():
        left = [cell for cell in cells if isinstance(cell, str) and cell not in marks]
        if left:
            problem = f"given value {left[0]!r} of column {name!r} is no date or time, or may be several"
            remedy = Do(f"write it like {example(forms[name])}")
            raise DataTypeError("dtypes", problem, columns=[name], value=left[0], remedy=remedy)
    return with_columns(frame, read)


def _may_be_texts(column: Column) -> bool:
    """Whether texts may stand for values of a column: dates or times of day that were read from text."""
    return is_local(column.form) or (column.form != "" and column.family == "datetime")


def _from_texts(column: pd.Series, form: str) -> pd.Series:
    """A column in which texts that are dates or times of day are such."""
    cells = [_from_text(cell, form) for cell in column.astype(object)]
    return pd.Series(cells, index=column.index, name=column.name)


def _from_text(cell: object, form: str) -> object:
    """The date or time that a text writes in its column's form, or as `read_dates` takes it; others as they are."""
    if not isinstance(cell, str):
        return cell
    text = cell.strip()
    if (read := read_as(text, form)) is not None:
        return read
    plain = read_dates([text])
    if plain is not None:
        return plain[0].iloc[0]
    other = None if form.startswith("h") else read_unambiguous(text, form) or _far_date(text)
    return cell if other is None else other


def _far_date(text: str) -> pd.Timestamp | None:
    """The date in ISO 8601 that no column of nanoseconds holds, which `in_dtype` refuses; None if there is none."""
    try:
        return pd.Timestamp(text) if DATE.fullmatch(text) else None
    except ValueError:  # no such day
        return None


def _of_family(column: pd.Series, learnt: Column) -> pd.Series:
    """Dates as the times at which they begin, or such times as dates."""
    cells = list(column.astype(object))
    for place, cell in enumerate(cells):
        if isinstance(cell, datetime.datetime):
            if learnt.family == "date":
                if pd.Timestamp(cell) != pd.Timestamp(cell).normalize():
                    problem = f"given value {cell!r} of column {column.name!r} is no date"
                    remedy = Do("leave out its time")
                    raise DataError("dtypes", problem, columns=[learnt.name], value=cell, remedy=remedy)
                cells[place] = cell.date()
        elif isinstance(cell, datetime.date):
            cells[place] = pd.Timestamp(cell) if learnt.family == "datetime" else cell
    return pd.Series(cells, index=column.index, name=column.name, dtype=object)


def _alone(value: object, dtype: Any) -> object:
    """The value in a dtype; None if the dtype cannot hold it."""
    try:
        return pd.Series([value]).astype(dtype).iloc[0]
    except (ValueError, TypeError, OverflowError):
        return None
