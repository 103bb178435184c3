"""Parsing of known values on the command line: ``COL=VALUE``, ranges and lists of values."""

from __future__ import annotations

import csv
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from missdiff_fast.table.date_writing import example, is_local, read_as, read_unambiguous
from missdiff_fast.table.dates import ISO_DATE
from missdiff_fast.table.given import in_dtype
from missdiff_fast.table.limits import is_limit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from missdiff_fast.table import Codec, Column

_NOUNS = {
    "integer": "whole number",
    "float": "number",
    "boolean": "truth value (True or False)",
    "string": "text",
    "datetime": "date and time such as 2024-02-29 13:30",
    "zoned": "date and time such as 2024-02-29 13:30",
    "date": "date such as 2024-02-29",
    "timedelta": "duration such as 90min",
}


def parse_all_given(
    codec: Codec, texts: Sequence[str], others: Sequence[Column] = (), decimal: str = "."
) -> dict[Any, object]:
    """Parse several of these; ValueError as of `parse_given`, and if a column is given twice."""
    given: dict[Any, object] = {}
    for text in texts:
        column, value = parse_given(codec, text, others, decimal)
        if column in given:
            raise ValueError(f"--given {text!r}: column {column!r} has a value already; give each column once")
        given[column] = value
    return given


def parse_given(codec: Codec, text: str, others: Sequence[Column] = (), decimal: str = ".") -> tuple[Any, object]:
    """Parse ``COL=VALUE``, ``COL=LEAST..GREATEST`` or ``COL in VALUE,VALUE,...``.

    Parameters
    ----------
    codec : Codec
        Knows the learnt columns.
    text : str
        The option's value. An end of a range may be left out; in a list, a value that holds a comma is in quotes.
    others : sequence of Column
        Columns that the codec does not know.
    decimal : str
        The decimal mark of the fitted file; a comma is taken beside the point then.

    Returns
    -------
    tuple
        The column's name, and a value of its type, a `pandas.Interval` or a list.

    Raises
    ------
    ValueError
        There is no such column, or a value is not of its type or not one of its categories.
    """
    schema = [*codec.schema, *others]
    # A column's name may contain "=" or " in ": take the longest that matches.
    matches = [(column, sign) for column in schema for sign in ("=", " in ") if text.startswith(f"{column.name}{sign}")]
    if not matches:
        names = ", ".join(str(column.name) for column in schema)
        wrong = f"there is no column {text.partition('=')[0]!r}" if "=" in text else "write COL=VALUE"
        raise ValueError(f"--given {text!r}: {wrong}; the columns are {names}")
    column, sign = max(matches, key=lambda match: len(f"{match[0].name}{match[1]}"))
    value = text[len(f"{column.name}{sign}") :]
    if sign == " in ":
        return column.name, [_parse(codec, column, one, text, decimal) for one in next(csv.reader([value]), [])]
    least, dots, greatest = value.partition("..")
    if dots and column.kind == "continuous":
        return column.name, _interval(codec, column, least, greatest, text, decimal)
    return column.name, _parse(codec, column, value, text, decimal)


def _interval(codec: Codec, column: Column, least: str, greatest: str, text: str, decimal: str) -> pd.Interval:
    """A range with both ends; one that is not written is the column's."""
    values = codec.values(column.name)
    left = _end(codec, column, least, text, decimal) if least.strip() else values.min()
    right = _end(codec, column, greatest, text, decimal) if greatest.strip() else values.max()
    if column.family == "date":
        left, right = pd.Timestamp(left), pd.Timestamp(right)
    try:
        return pd.Interval(left, right, "both")
    except ValueError as error:  # the ends are the wrong way round
        wrong = f"{least.strip() or left} is greater than {greatest.strip() or right}"
        raise ValueError(f"--given {text!r}: {wrong} (column {column.name!r})") from error


def _end(codec: Codec, column: Column, value: str, text: str, decimal: str) -> Any:
    """An end of a range; of a column with limits such as ``<0.1``, the number that a limit stands for."""
    parsed = _parse(codec, column, value, text, decimal)
    if column.censored is None:
        return parsed
    return codec.numbers(column.name, pd.Series([parsed], dtype=object)).iloc[0]


def _parse(codec: Codec, column: Column, value: str, text: str, decimal: str) -> object:
    """A value of a column, from part of an option's text."""
    try:
        plain = _marked(column, value, decimal) if column.family == "float" else value
        if column.kind == "categorical":
            return _category(codec.category_values(column.name), plain)
        parsed = _value(column, plain)
    except (ValueError, OverflowError) as error:
        noun = _NOUNS[column.family] + (f" or {example(column.form)}" if is_local(column.form) else "")
        reason = f"{value!r} is no {noun}" if column.kind != "categorical" else str(error)
        if column.kind != "categorical" and column.family == "float" and "," in value:
            reason += ": write its decimal mark as a point"
        raise ValueError(f"--given {text!r}: {reason} (column {column.name!r})") from error
    try:
        in_dtype(pd.Series([parsed], name=column.name, dtype=object), column)
    except ValueError as error:
        what = f"{value!r} is out of reach of column {column.name!r}, {column.dtype}"
        raise ValueError(f"--given {text!r}: {what}") from error
    return parsed


def _category(categories: list[object], value: str) -> object:
    categories = [category.item() if isinstance(category, np.generic) else category for category in categories]
    for category in categories:
        if str(category) == value or (isinstance(category, bool) and str(category).lower() == value.lower()):
            return category
    for category in categories:
        if isinstance(category, (int, float)) and not isinstance(category, bool) and _reads_as(value, category):
            return category
    shown = ", ".join(str(category) for category in categories[:20])
    rest = f", ... ({len(categories)} in all)" if len(categories) > 20 else ""
    raise ValueError(f"{value!r} is no category; the model knows {shown}{rest}")


def _reads_as(text: str, number: float) -> bool:
    for kind in (int, float):  # int first: a float might round to another integer
        try:
            return bool(kind(_plain(text)) == number)
        except ValueError:
            continue
    return False


def read_number(text: str) -> float:
    """Parse a number as tables write it; ValueError also for Python's own notation, such as ``1_000``."""
    return float(_plain(text))


def _plain(text: str) -> str:
    if "_" in text or not text.isascii():
        raise ValueError(f"{text!r} is no number")
    return text


def _marked(column: Column, text: str, decimal: str) -> str:
    """The text of a number with a point, or of a limit with the mark of its column; a comma only as the file has it."""
    mark = decimal if column.censored is None else column.censored.decimal
    if text.count(",") + text.count(".") != 1:
        return text
    if column.censored is not None and is_limit(text.strip()):
        if "," in text and mark != "," and decimal != ",":
            raise ValueError("a comma")
        return text.replace(",", mark).replace(".", mark)
    return text.replace(",", ".") if "," in (mark, decimal) else text


def _value(column: Column, text: str) -> object:
    family = column.family
    if column.censored is not None and is_limit(text.strip()):
        return text.strip()
    if is_local(column.form) and (own := read_as(text.strip(), column.form)) is not None:
        return own
    if family == "integer":
        return int(_plain(text))
    if family == "float":
        number = read_number(text)
        if not math.isfinite(number):
            raise ValueError("not finite")
        return number
    if family == "boolean":
        return _category([False, True], text)
    if family == "timedelta":
        if text.strip().lstrip("+-").replace(".", "").isdecimal():
            raise ValueError("no unit")  # pandas would count nanoseconds
        return _not_missing(pd.Timedelta(text))
    if family == "string":
        return text
    if ISO_DATE.fullmatch(text.strip()):
        time_stamp = _not_missing(pd.Timestamp(text))
    elif (time_stamp := read_unambiguous(text.strip(), column.form)) is None:
        raise ValueError("not ISO 8601, and no date of another form that can be no other date")
    if family == "zoned":
        zone = pd.Series(dtype=column.dtype).dt.tz
        return time_stamp.tz_localize(zone) if time_stamp.tz is None else time_stamp.tz_convert(zone)
    if time_stamp.tz is not None:
        raise ValueError("the column has no time zone")
    if family == "datetime":
        return time_stamp
    if time_stamp != time_stamp.normalize():
        raise ValueError("the column has no times of day")
    return time_stamp.date()


def _not_missing(value: Any) -> Any:
    if value is pd.NaT:
        raise ValueError("missing")
    return value
