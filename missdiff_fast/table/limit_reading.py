"""Reading of columns of numbers some of which are known by a limit only, such as ``<0.1``."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Literal

import numpy as np
import pandas as pd

from missdiff_fast.table.cells import ColumnCells, Markers
from missdiff_fast.table.censored import Censored
from missdiff_fast.table.dtypes import Dtype, holds_text
from missdiff_fast.table.limits import is_limit, read_texts
from missdiff_fast.table.literals import EXACT
from missdiff_fast.table.schema import Name, Schema

Limits = Literal["never", "auto", "chosen", "learnt"]
_REAL = (int, float, np.integer, np.floating)
_DECIMAL = "missdiff_fast.decimal"


def with_limits(
    cells: ColumnCells, dtype: Dtype, markers: Markers, limits: Limits, decimal: str | None = None
) -> ColumnCells:
    """Cells of texts as numbers, if they are numbers and limits; all others as they are.

    Parameters
    ----------
    cells : ColumnCells
        A column's cells.
    dtype : dtype
        Of the column; categories stay what they are.
    markers : Markers
        Values that count as missing; those that are numbers apply once the texts are.
    limits, decimal
        As of `missdiff_fast.table.reading.read_cells`.

    Examples
    --------
    >>> texts = ColumnCells("string", np.array(["<0.1", "0.1", "2", "30"], object), np.zeros(4, bool), np.arange(4))
    >>> with_limits(texts, np.dtype(object), Markers(), "auto").keys.round(3).tolist()
    [0.1, 0.1, 2.0, 30.0]
    """
    if limits == "never" or cells.family != "string" or isinstance(dtype, pd.CategoricalDtype):
        return cells
    assert cells.codes is not None
    counts = np.bincount(cells.codes[cells.codes >= 0], minlength=len(cells.keys))
    seen = np.flatnonzero(counts)
    texts = [text.strip() for text in cells.keys[seen].tolist()]
    found = read_texts(texts, decimal)
    if found is None:
        return cells
    if limits != "learnt" and not (found.steps.any() and (limits == "chosen" or found.are_censored())):
        return cells
    numbers = np.zeros(len(counts) + 1)
    numbers[seen] = found.places
    missing = np.append(markers.match(numbers[:-1], "float"), True)[cells.codes]
    censored = Censored.learn(dtype, texts, counts[seen].tolist(), decimal=found.decimal)
    return ColumnCells("float", numbers[cells.codes], missing, censored=censored)


def read_objects(series: pd.Series, markers: Markers, limits: Limits, decimal: str | None) -> ColumnCells | None:
    """Numbers and texts as objects in one column, where the texts are numbers and limits; None if they are not."""
    missing = (series.isna() | series.isin([*markers.strings, *markers.numbers])).to_numpy(dtype=bool)
    cells = series.to_numpy(dtype=object)
    text = np.array([isinstance(cell, str) for cell in cells], dtype=bool) & ~missing
    number = ~text & ~missing
    kinds = {type(cell) for cell in cells[number]}
    if any(issubclass(kind, (bool, np.bool_)) or not issubclass(kind, _REAL) for kind in kinds):
        return None
    numbers = cells[number].astype(np.float64)
    counts = pd.Series([cell.strip() for cell in cells[text]], dtype=object).value_counts(sort=False)
    texts = [str(one) for one in counts.index]
    found = read_texts(texts, decimal)
    if found is None or not (np.abs(numbers) < EXACT).all() or np.isin(numbers, found.places[found.steps != 0]).any():
        return None
    if limits != "learnt" and not (found.steps.any() and (limits == "chosen" or found.are_censored(numbers))):
        return None
    keys = np.zeros(len(cells))
    keys[number] = numbers
    places = dict(zip(texts, found.places.tolist(), strict=True))
    keys[text] = [places[cell.strip()] for cell in cells[text]]
    whole = all(issubclass(kind, (int, np.integer)) for kind in kinds)
    each = [int(count) for count in counts]
    censored = Censored.learn(series.dtype, texts, each, objects=True, whole=whole, decimal=found.decimal)
    return ColumnCells("float", keys, missing | markers.match(keys, "float"), censored=censored)


def odd_text(cells: pd.Series) -> str:
    """The first text among cells that is no limit; the first text if all are."""
    texts = [cell for cell in cells if isinstance(cell, str)]
    return next((text for text in texts if not is_limit(text.strip())), texts[0])


def decimal_of(frame: pd.DataFrame) -> str | None:
    """The decimal mark of the text that a frame was read from, if it is noted there.

    >>> decimal_of(with_decimal(pd.DataFrame({"crp": ["<0,1", "2,5"]}), ",")), decimal_of(pd.DataFrame())
    (',', None)
    """
    found = frame.attrs.get(_DECIMAL)
    return found if isinstance(found, str) else None


def with_decimal(frame: pd.DataFrame, decimal: str | None) -> pd.DataFrame:
    """The frame, with the decimal mark of its texts noted unless that is None; the frame itself is changed."""
    if decimal is not None:
        frame.attrs[_DECIMAL] = decimal
    return frame


def with_points(rows: pd.DataFrame, schema: Schema, *, mixed: bool = False) -> pd.DataFrame:
    """Rows in which the texts of numbers and limits have a decimal point, as numbers that are written have.

    With ``mixed``, for files whose columns hold numbers and texts, limits beside numbers that are objects stay.
    """
    found = {column.name: column.censored for column in schema if column.censored is not None}
    commas = [name for name, censored in found.items() if censored.decimal == ","]
    return texts_with_points(rows, [name for name in commas if not (mixed and found[name].style is None)])


def with_marks_of(rows: pd.DataFrame, given: pd.DataFrame, schema: Schema) -> pd.DataFrame:
    """Rows in which the texts of numbers and limits have the decimal mark that they have in another table."""
    result = rows.copy(deep=False)
    for column in schema:
        if column.censored is None or column.name not in given or not holds_text(given[column.name].dtype):
            continue
        texts = "".join(text for text in given[column.name].dropna().unique() if isinstance(text, str))
        learnt = column.censored.decimal
        other = "." if learnt == "," else ","
        if other in texts and learnt not in texts:
            own = rows[column.name]
            changed = own.map(partial(_with_mark, old=learnt, new=other), na_action="ignore")
            result[column.name] = changed.astype(own.dtype)
    return result


def limit_columns(frame: pd.DataFrame, decimal: str | None) -> list[Name]:
    """The columns of numbers and limits in a frame of text with a decimal comma; none with another decimal mark.

    >>> limit_columns(pd.DataFrame({"crp": ["<0,1", "0,1", "2", "30,5", None], "ward": list("abcde")}), ",")
    ['crp']
    """
    names = list[Name]()
    for name in frame.columns if decimal == "," else ():
        texts = frame[name].dropna().unique().tolist() if holds_text(frame[name].dtype) else []
        if not texts or not all(isinstance(text, str) for text in texts):
            continue
        found = read_texts([text.strip() for text in texts], decimal)
        if found is not None and found.are_censored():
            names.append(name)
    return names


def texts_with_points(frame: pd.DataFrame, names: Iterable[Name]) -> pd.DataFrame:
    """The frame with points for the commas in the texts of some columns.

    >>> texts_with_points(pd.DataFrame({"crp": ["<0,1", "2", None]}), ["crp"])["crp"].tolist()
    ['<0.1', '2', None]
    """
    result = frame.copy(deep=False)
    for name in names:
        result[name] = frame[name].map(_with_mark, na_action="ignore").astype(frame[name].dtype)
    return result


def _with_mark(cell: object, old: str = ",", new: str = ".") -> object:
    return cell.replace(old, new) if isinstance(cell, str) else cell
