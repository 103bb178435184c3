"""Dates and times of day in the forms of hospitals' exports, such as ``27.08.2022 14:05``, ``27AUG2022`` and ``9:05``.

The *form* of such a column is a text of these parts, as ``"DD.MM.YYYY hh:mm"``: ``D``, ``M`` and ``h`` are written
without a leading zero, ``DD``, ``MM`` and ``hh`` with one; ``Mon`` (also ``MON``, ``mon``) is the English name of a
month, ``0`` a decimal of a second, and ``AM`` (or ``am``) the half of the day. A form that begins with ``h`` is one of
times of day. The forms of ISO 8601 are those of `missdiff_fast.table.dates`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_CLOCK = (
    r"(?P<hour>\d{1,3}):(?P<minute>[0-5]\d)(?::(?P<second>[0-5]\d)(?:\.(?P<part>\d{1,9}))?)?(?P<half> ?[AaPp][Mm])?"
)
_TIME = re.compile(_CLOCK, re.ASCII)
_DATE = re.compile(
    r"(?:(?P<early>\d{4})/(?P<month>\d{1,2})/(?P<day>\d{1,2})"
    r"|(?P<one>\d{1,2})(?P<sign>[./-])(?P<two>\d{1,2})(?P=sign)(?P<late>\d{4}|\d\d)"
    rf"|(?P<own>\d{{1,2}})(?P<gap>[- ]?)(?P<name>{'|'.join(_MONTHS)})(?P=gap)(?P<last>\d{{4}}|\d\d))"
    rf"(?:(?P<joint>[ :]){_CLOCK})?",
    re.ASCII | re.IGNORECASE,
)
_TOKEN = re.compile(r"YYYY|DD?|[Mm][Oo][Nn]|MM?|hh?|mm|ss|0+|AM|am")
_SECOND, _MINUTE, _DAY = 10**9, 60 * 10**9, 86_400 * 10**9


class Written(NamedTuple):
    """A date or a time of day as it is written, in digits.

    Parameters
    ----------
    style : str
        ``"."``, ``"/"`` or ``"-"`` between the day, the month and the year; ``"Y"`` where the year comes first;
        ``"name"`` and what stands around it where the month is a name; ``"time"`` for a time of day.
    day, month, year : str
        Of styles without names, the first part is ``day`` and the second ``month``, whatever they mean.
    name : str
        The month's name, or "".
    joint, hour, minute, second, part, half : str
        What stands before the time, and the time; "" for what is not written.
    """

    style: str
    day: str = ""
    month: str = ""
    year: str = ""
    name: str = ""
    joint: str = ""
    hour: str = ""
    minute: str = ""
    second: str = ""
    part: str = ""
    half: str = ""

    @property
    def is_short(self) -> bool:
        """Whether the year has two digits, so that the century is not known."""
        return len(self.year) == 2

    def orders(self) -> tuple[str, ...]:
        """The orders in which this may be a date: ``"day"`` (first) or ``"month"``; none if it can be no date."""
        day, month = int(self.day), int(self.month)
        fits = {"day": 1 <= day <= 31 and 1 <= month <= 12, "month": 1 <= day <= 12 and 1 <= month <= 31}
        if self.style not in ("/", "-"):
            fits["month"] = False
        return tuple(order for order, fit in fits.items() if fit)


def split(text: str) -> Written | None:
    """A text as a date or a time of day, of which only the form is sure; None if it has no such form.

    Examples
    --------
    >>> split("27.08.2022").orders(), split("1/2/2022").orders(), split("27AUG2022:14:05").name, split("120/80")
    (('day',), ('day', 'month'), 'AUG', None)
    """
    found = _DATE.fullmatch(text)
    if found is None:
        found = _TIME.fullmatch(text)
        if found is None:
            return None
        style, date = "time", ("", "", "", "")
    elif found["early"]:
        style, date = "Y", (found["day"], found["month"], found["early"], "")
    elif found["sign"]:
        style, date = found["sign"], (found["one"], found["two"], found["late"], "")
    else:
        number = str(_MONTHS.index(found["name"].lower()) + 1)
        style, date = f"name{found['gap']}", (found["own"], number, found["last"], found["name"])
    joint = (found["joint"] or "") if style != "time" else ""
    clock = [found[part] or "" for part in ("hour", "minute", "second", "part", "half")]
    written = Written(style, *date, joint, *clock)
    if written.half and not 1 <= int(written.hour) <= 12:
        return None
    if style != "time" and ((written.hour and int(written.hour) > 23) or not written.orders()):
        return None
    return written


def is_date_or_time(text: str) -> bool:
    """Whether a text has the form of a date with a year of four digits, or of a time of day.

    >>> is_date_or_time("27.08.2022"), is_date_or_time("14:05"), is_date_or_time("27.08.22"), is_date_or_time("1/2")
    (True, True, False, False)
    """
    written = split(text)
    return written is not None and not written.is_short


def to_iso(written: Written, order: str) -> str:
    """A date in ISO 8601, in which the day or the month stands first."""
    day, month = (written.day, written.month) if order == "day" else (written.month, written.day)
    clock = ""
    if written.hour:
        nanoseconds = to_nanoseconds(written)
        whole, part = divmod(nanoseconds, _SECOND)
        clock = f"T{whole // 3600:02}:{whole // 60 % 60:02}:{whole % 60:02}" + (f".{part:09}" if part else "")
    return f"{written.year}-{month:0>2}-{day:0>2}{clock}"


def to_nanoseconds(written: Written) -> int:
    """The nanoseconds from midnight to a time of day."""
    hour = int(written.hour)
    if written.half:
        hour = hour % 12 + 12 * (written.half.strip().lower() == "pm")
    seconds = 3600 * hour + 60 * int(written.minute) + int(written.second or 0)
    return seconds * _SECOND + int(written.part.ljust(9, "0") or 0)


def find_form(cells: Sequence[Written], counts: Sequence[int], order: str) -> str:
    """The form of a column: its most detailed cell, with leading zeros if most cells that tell it have them.

    Parameters
    ----------
    cells : sequence of Written
        The distinct cells, of one style.
    counts : sequence of int
        How many cells are each.
    order : {"day", "month"}
        What stands first.

    Examples
    --------
    >>> find_form([split("1.8.2022"), split("27.08.2022 9:05")], [3, 1], "day")
    'D.M.YYYY h:mm'
    >>> find_form([split("27AUG2022")], [1], "day"), find_form([split("14:05"), split("14:05:30")], [1, 1], "day")
    ('DDMONYYYY', 'hh:mm:ss')
    """

    def padded(part: Callable[[Written], str]) -> bool | None:
        balance = 0
        for cell, count in zip(cells, counts, strict=True):
            digits = part(cell)
            balance += count * ((len(digits) == 2 and digits[0] == "0") - (len(digits) == 1))
        return None if balance == 0 else balance > 0

    style = cells[0].style
    days, months = padded(lambda cell: cell.day), None if cells[0].name else padded(lambda cell: cell.month)
    days, months = (months if days is None else days), (days if months is None else months)
    day, month = "D" if days is False else "DD", "M" if months is False else "MM"
    if style == "Y":
        date = f"YYYY/{month}/{day}"
    elif style.startswith("name"):
        date = style[4:].join((day, _case([cell.name for cell in cells], counts, "Mon"), "YYYY"))
    elif style == "time":
        date = ""
    else:
        first, second = (day, month) if order == "day" else ("M" if days is False else "MM", "D" * len(month))
        date = style.join((first, second, "YYYY"))
    timed = [(cell, count) for cell, count in zip(cells, counts, strict=True) if cell.hour]
    if not timed:
        return date
    form = "h:mm" if padded(lambda cell: cell.hour) is False else "hh:mm"
    form += ":ss" if any(cell.second for cell, _ in timed) else ""
    decimals = max(len(cell.part) for cell, _ in timed)
    form += f".{'0' * decimals}" if decimals else ""
    halves = [(cell.half, count) for cell, count in timed if cell.half]
    if halves:
        texts, numbers = [half for half, _ in halves], [count for _, count in halves]
        form += (" " if texts[0].startswith(" ") else "") + _case([text.strip() for text in texts], numbers, "AM")
    return date + timed[0][0].joint + form


def _case(texts: Sequence[str], counts: Sequence[int], text: str) -> str:
    """A text in the case that most of these have: that of ``text``, capitals or small letters."""
    total = sum(counts)
    upper = sum(count for one, count in zip(texts, counts, strict=True) if one.isupper())
    lower = sum(count for one, count in zip(texts, counts, strict=True) if one.islower())
    return text.upper() if 2 * upper > total else text.lower() if 2 * lower > total else text


def is_of_family(form: str, family: str) -> bool:
    """Whether cells of a family can have a form: times of day are durations, and only ISO 8601 has zones.

    >>> is_of_family("hh:mm", "timedelta"), is_of_family("DD.MM.YYYY", "zoned"), is_of_family("0000-00-00", "zoned")
    (True, False, True)
    """
    if form.startswith("h"):
        return family == "timedelta"
    return family == "datetime" or (family == "zoned" and not is_local(form))


def is_local(form: str) -> bool:
    """Whether a form is one of this module, not of ISO 8601."""
    return form[:1] in ("D", "M", "Y", "h")


def read_as(text: str, form: str) -> pd.Timestamp | pd.Timedelta | None:
    """The date or time of day that a text writes in a form, with or without leading zeros; None if it writes none.

    Examples
    --------
    >>> read_as("1.8.2022", "DD.MM.YYYY"), read_as("08/01/2022", "MM/DD/YYYY"), read_as("2022-08-01", "DD.MM.YYYY")
    (Timestamp('2022-08-01 00:00:00'), Timestamp('2022-08-01 00:00:00'), None)
    """
    written = split(text)
    style = form and split(example(form))
    if written is None or not style or written.style != style.style or written.is_short:
        return None
    if written.style == "time":
        return pd.Timedelta(to_nanoseconds(written), unit="ns")
    order = order_of(form)
    if order not in written.orders():
        return None
    try:
        return pd.Timestamp(to_iso(written, order))
    except ValueError:  # no such day, or out of reach
        return None


def order_of(form: str) -> str:
    """What stands first in a form of dates, ``"day"`` or ``"month"``."""
    return "month" if re.match("M", form) else "day"


def example(form: str) -> str:
    """The 27th of August 2022, 14:05:30 in a form.

    >>> example("DD.MM.YYYY hh:mm"), example("D-Mon-YYYY"), example("h:mm AM")
    ('27.08.2022 14:05', '27-Aug-2022', '2:05 PM')
    """
    if form.startswith("h"):
        return _write("", 14 * 3600 + 5 * 60 + 30, 0, form)
    return _write("2022-08-27", 14 * 3600 + 5 * 60 + 30, 0, form)


def write_in(column: pd.Series, form: str) -> pd.Series:
    """The dates without zone, or times of day, of a column as texts of a form; NaN where missing.

    The texts have more detail than the form where it would lose some.

    Examples
    --------
    >>> write_in(pd.Series(pd.to_datetime(["2022-08-27 14:05", None])), "D.M.YYYY").tolist()
    ['27.8.2022 14:05', nan]
    >>> write_in(pd.Series(pd.to_timedelta(["09:05:00"])), "h:mm").tolist()
    ['9:05']
    """
    codes, distinct = pd.factorize(column)
    if column.dtype.kind == "m":
        clock = pd.TimedeltaIndex(distinct).as_unit("ns").asi8
        days = [""] * len(clock)
        if (clock < 0).any():
            return column
    else:
        times = pd.DatetimeIndex(distinct)
        midnights = times.normalize()
        days = np.datetime_as_string(midnights.to_numpy(), unit="D").tolist()
        clock = np.asarray((times - midnights).as_unit("ns").asi8)
    form = _with_detail(form, clock)
    texts = [_write(day, time // _SECOND, time % _SECOND, form) for day, time in zip(days, clock.tolist(), strict=True)]
    cells = np.array([*texts, np.nan], dtype=object)[codes]
    return pd.Series(cells, index=column.index, name=column.name, dtype=object)


def _with_detail(form: str, clock: np.ndarray) -> str:
    """A form that loses no part of these nanoseconds since midnight."""
    if form.startswith("h") and (clock >= _DAY).any():
        form = re.sub(r" ?(AM|am)$", "", form)
    if not clock.any():
        return form
    if "h" not in form:
        form += (":" if form.lower().startswith(("ddmon", "dmon")) else " ") + "hh:mm"
    if "ss" not in form and (clock % _MINUTE).any():
        form = form.replace("mm", "mm:ss")
    parts = np.unique(clock % _SECOND)
    decimals = max((len(f"{part:09}".rstrip("0")) for part in parts.tolist()), default=0)
    own = re.search("ss(?:\\.(0+))?", form)
    if own is not None and decimals > len(own[1] or ""):
        form = form.replace(own[0], f"ss.{'0' * decimals}")
    return form


def _write(day: str, seconds: int, part: int, form: str) -> str:
    """A date as ISO 8601 and a time since midnight in a form."""
    year, month, date = day.split("-") if day else ("", "", "")
    hour, half = seconds // 3600, ""
    if re.search("AM", form, re.IGNORECASE):
        hour, half = hour % 12 or 12, "PM" if hour >= 12 else "AM"
    name = _MONTHS[int(month) - 1] if month else ""

    def fill(token: re.Match[str]) -> str:
        match token[0]:
            case "YYYY":
                return year
            case "DD" | "D":
                return date if token[0] == "DD" else str(int(date))
            case "MM" | "M":
                return month if token[0] == "MM" else str(int(month))
            case "hh" | "h":
                return f"{hour:02}" if token[0] == "hh" else str(hour)
            case "mm":
                return f"{seconds // 60 % 60:02}"
            case "ss":
                return f"{seconds % 60:02}"
            case "AM" | "am":
                return half if token[0] == "AM" else half.lower()
            case zeros if zeros[0] == "0":
                return f"{part:09}"[: len(zeros)]
        return name.upper() if token[0].isupper() else name.title() if token[0].istitle() else name

    return _TOKEN.sub(fill, form)


def unpadded_alike(cells: Iterable[Written]) -> bool:
    """Whether times of day may be ratios, such as 1:10, 1:20 and 1:40: all have the same hour, of one digit."""
    hours = {cell.hour for cell in cells}
    return len(hours) == 1 and len(next(iter(hours))) == 1
