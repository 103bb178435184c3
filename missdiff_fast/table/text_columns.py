"""Columns of texts that are dates or times of day in other forms than ISO 8601, or numbers beside marks such as ``?``.

The reader of text leaves such columns as they are written; here they are read, or what keeps them from it is told.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd

from missdiff_fast.errors import argument_error
from missdiff_fast.table.date_forms import split
from missdiff_fast.table.date_reading import Texts, read_local_dates
from missdiff_fast.table.dates import DATE, DURATION, read_dates, with_forms, write_dates
from missdiff_fast.table.dtypes import holds_text
from missdiff_fast.table.limits import is_limit, read_texts
from missdiff_fast.table.literals import read_numbers, with_room
from missdiff_fast.table.marks import mark_missing
from missdiff_fast.table.odd_texts import looks_numeric
from missdiff_fast.table.schema import Name
from missdiff_fast.table.sources import ReadOptions
from missdiff_fast.table.usual_marks import is_usual_mark, warn_of_usual_marks

_FIRST = 50  # observed cells that tell whether a column may be one of these


class ReadAgain(NamedTuple):
    """The forms and the marks that were found in columns of texts.

    Parameters
    ----------
    forms : dict
        The forms of dates and times, by column.
    marks : dict
        The texts that were read as missing, by column.
    """

    forms: dict[Hashable, str]
    marks: dict[Name, list[str]]


def read_text_columns(
    frame: pd.DataFrame,
    source: str,
    *,
    decimal: str = ".",
    options: ReadOptions | None = None,
    as_text: Collection[Name] = (),
) -> ReadAgain:
    """Read dates, times of day and numbers from columns of texts; the frame is changed.

    A column is read if all of its observed cells are such, beside texts that usually stand for a missing cell, which
    are then missing. Warnings tell these, and why columns of dates stay texts.

    Parameters
    ----------
    frame : DataFrame
        The table; its texts have no white space around them.
    source : str
        The file's name, for warnings.
    decimal : str
        The decimal mark.
    options : ReadOptions, optional
        Of these, ``date_order`` is what stands first in dates such as ``01/02/2022`` where no cell tells it, and
        ``known_forms`` names the columns that are known to hold numbers, with "", or dates, with their form.
    as_text : collection of str or int
        Columns that are not read.

    Raises
    ------
    ValueError
        ``date_order`` is neither "day" nor "month".

    Examples
    --------
    >>> frame = pd.DataFrame({"seen": ["27.8.2022", "1.9.2022"], "at": ["9:05", "14:30"]})
    >>> read_text_columns(frame, "t.csv").forms, frame["seen"].dt.month.tolist()
    ({'seen': 'D.M.YYYY', 'at': 'h:mm'}, [8, 9])
    """
    options = options or ReadOptions()
    order, known = options.date_order, options.known_forms
    if order not in (None, "day", "month"):
        raise argument_error("date_order", f"must be 'day' or 'month', got {order!r}", order)
    found: dict[Name, Texts] = {}
    marks: dict[Name, dict[str, int]] = {}
    forms: dict[Hashable, str] = {}
    for name in frame.columns:
        column = frame[name]
        if name in as_text or not holds_text(column.dtype) or not _may_be(column):
            continue
        tally = column.value_counts()
        if not all(isinstance(text, str) for text in tally.index):
            continue
        counts = {str(text): int(count) for text, count in tally.items()}
        odd = {text: count for text, count in counts.items() if is_usual_mark(text)}
        rest = {text: count for text, count in counts.items() if text not in odd}
        # One number beside marks may be a flag, as in "1" and "-".
        if odd and len(rest) < 2 and str(name) not in known:
            continue
        if odd and (read := _read_rest(column, list(rest), decimal)) is not None:
            frame[name], marks[name] = read[0], odd
            forms |= {name: read[1]} if read[1] else {}
            continue
        cells = [split(text) for text in rest]
        if rest and all(cell is not None or DATE.fullmatch(text) for text, cell in zip(rest, cells, strict=True)):
            found[name] = Texts(rest, known.get(str(name), ""), cells)
            if odd:
                marks[name] = odd
    dates, local = read_local_dates(found, source, order)
    for one, values in dates.items():
        frame[one] = _taken(frame[one], list(found[one].counts), values)
    marks = {name: odd for name, odd in marks.items() if name not in found or name in dates}
    warn_of_usual_marks(marks, source)
    return ReadAgain({**forms, **local}, {name: list(odd) for name, odd in marks.items()})


def read_known(frame: pd.DataFrame, options: ReadOptions, source: str) -> tuple[pd.DataFrame, dict[Hashable, str]]:
    """Read the columns of texts that are known to hold dates or times of day.

    Parameters
    ----------
    frame : DataFrame
        A table that was not read from text. It is not changed.
    options : ReadOptions
        Of these, ``known_forms`` has the form that each column is known to have, or "", ``date_order`` what stands
        first where no cell tells it, and ``missing_values`` the values that are missing.
    source : str
        The file's name, for warnings.

    Returns
    -------
    read : DataFrame
        The frame, with the columns whose texts are all dates or times of day as such.
    found : dict
        The forms of these columns.

    Examples
    --------
    >>> frame = pd.DataFrame({"seen": ["27.8.2022", None], "at": ["9:05", "14:30"], "note": ["9:05", "14:30"]})
    >>> read, found = read_known(frame, ReadOptions(known_forms={"seen": "DD.MM.YYYY", "at": "hh:mm"}), "t.sav")
    >>> found, read["note"].tolist()
    ({'seen': 'D.M.YYYY', 'at': 'h:mm'}, ['9:05', '14:30'])
    """
    forms = options.known_forms
    known = [name for name in frame.columns if forms.get(str(name)) and holds_text(frame[name].dtype)]
    if not known:
        return frame, {}
    read = frame.copy(deep=False)
    others = [name for name in frame.columns if name not in known]
    found = dict(read_text_columns(read, source, options=options, as_text=others).forms)
    for name in known:
        texts = read[name].dropna().unique().tolist() if holds_text(read[name].dtype) else []
        dates = read_dates(texts) if all(isinstance(text, str) for text in texts) else None
        if dates is not None and dates[1]:  # durations have no form in which they could be written again
            read[name], found[name] = _taken(read[name], texts, dates[0]), dates[1]
    marked = mark_missing(with_forms(read[list(found)].copy(), found), options.markers)
    return read.assign(**{str(name): marked[name] for name in found}), found


def with_texts(
    frame: pd.DataFrame, written: pd.DataFrame, read: pd.DataFrame, forms: Mapping[Hashable, str]
) -> pd.DataFrame:
    """The filled frame with the columns that `read_known` found as texts again.

    Parameters
    ----------
    frame : DataFrame
        The frame that `read_known` gave, with its missing cells filled.
    written, read : DataFrame
        What `read_known` was given, and what it gave: observed cells are as they were written.
    forms : mapping
        The columns, with the form of all other cells.

    Examples
    --------
    >>> written = pd.DataFrame({"at": ["9:05", "?"]})
    >>> read, filled = (pd.DataFrame({"at": pd.to_timedelta(["9:05:00", time])}) for time in (None, "14:30:00"))
    >>> with_texts(filled, written, read, {"at": "hh:mm"})["at"].tolist()
    ['9:05', '14:30']
    """
    frame = frame.copy(deep=False)
    for name, form in forms.items():
        frame[name] = written[name].where(read[name].notna(), write_dates(frame[name], form).astype(object))
    return frame


def _may_be(column: pd.Series) -> bool:
    """Whether the first observed cells are numbers, dates, times or marks: most columns of text end here."""
    first = column[column.notna().to_numpy()].head(_FIRST).tolist()
    if not all(isinstance(text, str) for text in first):
        return False
    others = [text for text in dict.fromkeys(first) if not is_usual_mark(text)]
    return all(looks_numeric(text) or is_limit(text) or _is_date(text) for text in others)


def _is_date(text: str) -> bool:
    """Whether a text has the form of a date or time, its year perhaps of two digits."""
    return split(text) is not None or DATE.fullmatch(text) is not None or DURATION.fullmatch(text) is not None


def _read_rest(column: pd.Series, rest: list[str], decimal: str) -> tuple[pd.Series, str] | None:
    """A column in which only these texts count: numbers, dates in ISO 8601 or limits; None if they are neither."""
    if not rest:
        return pd.Series(np.nan, index=column.index), ""
    if (numbers := read_numbers(rest, decimal)) is not None:
        return _taken(column, rest, with_room(pd.Series(numbers))), ""
    if (dates := read_dates(rest)) is not None:
        return _taken(column, rest, dates[0]), dates[1]
    limits = read_texts(rest, decimal)
    if limits is not None and limits.are_censored():
        return column.where(column.isin(rest)), ""
    return None


def _taken(column: pd.Series, texts: list[str], values: pd.Series) -> pd.Series:
    """The column with the value of each of these texts in its place; all other cells are missing."""
    places = pd.Index(texts, dtype=object).get_indexer(pd.Index(column, dtype=object))
    # One more element than there are values, so that a place of -1 selects a missing one.
    values = values.reset_index(drop=True)
    values = values.reindex(range(len(texts) + 1)) if (places < 0).any() else values
    return pd.Series(values.array.take(np.where(places < 0, len(texts), places)), index=column.index)
