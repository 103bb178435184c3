"""Dates and times of day in the forms of hospitals' exports, such as ``27.08.2022 14:05``, ``27AUG2022`` and ``9:05``.

The *form* of such a column is a text of these parts, as ``"DD.MM.YYYY hh:mm"``: ``D``, ``M`` and ``h`` are written
without a leading zero, ``DD``, ``MM`` and ``hh`` with one; ``Mon`` (also ``MON``, ``mon``) is the English name of a
month in short and ``Month`` in full; ``Monat`` is the German name in full, and ``Mär`` and ``Mrz`` in short, with that
name of March. ``0`` is a decimal of a second, and ``AM`` (or ``am``) the half of the day. A form that begins with ``h``
is one of times of day. The forms of ISO 8601 are those of `missdiff_fast.table.dates`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

_SHORT = "jan feb mar apr may jun jul aug sep oct nov dec"
_FULL = "january february march april may june july august september october november december"
_GERMAN = "jan feb mär apr mai jun jul aug sep okt nov dez"
_GERMAN_FULL = "januar februar märz april mai juni juli august september oktober november dezember"
MONTHS: Mapping[str, Sequence[str]] = {
    "Mon": _SHORT.split(),
    "Month": _FULL.split(),
    "Mär": _GERMAN.split(),
    "Mrz": _GERMAN.replace("mär", "mrz").split(),
    "Monat": _GERMAN_FULL.split(),
}
"""The names of the months in small letters, by the part of a form that stands for them."""
_NUMBERS = {name: place + 1 for names in MONTHS.values() for place, name in enumerate(names)}
_NUMBERS |= {"sept": 9, "jänner": 1, "feber": 2, "maerz": 3}  # read, but not written
# Without "ä" in both cases, a pattern of ASCII would find no capital letter.
_NAMES = "|".join(sorted(_NUMBERS, key=len, reverse=True)).replace("ä", "[äÄ]")
_CLOCK = (
    r"(?P<hour>\d{1,3}):(?P<minute>[0-5]\d)(?::(?P<second>[0-5]\d)(?:\.(?P<part>\d{1,9}))?)?(?P<half> ?[AaPp][Mm])?"
)
_TIME = re.compile(_CLOCK, re.ASCII)
_DATE = re.compile(
    r"(?:(?P<early>\d{4})/(?P<month>\d{1,2})/(?P<day>\d{1,2})"
    r"|(?P<one>\d{1,2})(?P<sign>[./-])(?P<two>\d{1,2})(?P=sign)(?P<late>\d{4}|\d\d)"
    rf"|(?P<own>\d{{1,2}})(?:(?P<gap>[- .]?)(?P<name>{_NAMES})(?P=gap)|\. (?P<german>{_NAMES}) )(?P<last>\d{{4}}|\d\d))"
    rf"(?:(?P<joint>[ :]){_CLOCK})?",
    re.ASCII | re.IGNORECASE,
)
SECOND = 10**9  # in nanoseconds
_GERMAN_STYLE = "name. "  # as in "27. Mai 2022"


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
        return _orders(self.day, self.month, self.style in ("/", "-"))


@lru_cache(maxsize=4096)
def _orders(first: str, second: str, open_: bool) -> tuple[str, ...]:
    """The orders in which two numbers may be day and month; unless the order is open, the first is the day."""
    day, month = int(first), int(second)
    fits = {"day": 1 <= day <= 31 and 1 <= month <= 12, "month": open_ and 1 <= day <= 12 and 1 <= month <= 31}
    return tuple(order for order, fit in fits.items() if fit)


def split(text: str) -> Written | None:
    """A text as a date or a time of day, of which only the form is sure; None if it has no such form.

    Examples
    --------
    >>> split("27. Mai 2022").month, split("27 August 2022").month, split("03-Mrz-2022").month
    ('5', '8', '3')
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
        name = found["name"] or found["german"]
        style = f"name{found['gap']}" if found["name"] else _GERMAN_STYLE
        date = (found["own"], str(_NUMBERS[name.lower()]), found["last"], name)
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
        whole, part = divmod(nanoseconds, SECOND)
        clock = f"T{whole // 3600:02}:{whole // 60 % 60:02}:{whole % 60:02}" + (f".{part:09}" if part else "")
    return f"{written.year}-{month:0>2}-{day:0>2}{clock}"


def to_nanoseconds(written: Written) -> int:
    """The nanoseconds from midnight to a time of day."""
    hour = int(written.hour)
    if written.half:
        hour = hour % 12 + 12 * (written.half.strip().lower() == "pm")
    seconds = 3600 * hour + 60 * int(written.minute) + int(written.second or 0)
    return seconds * SECOND + int(written.part.ljust(9, "0") or 0)


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
    >>> find_form([split("27 August 2022")], [1], "day"), find_form([split("3. Mai 2022")], [1], "day")
    ('DD Month YYYY', 'D. Monat YYYY')
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
        before, after = style[4:], " " if style == _GERMAN_STYLE else style[4:]
        date = f"{day}{before}{_name_part(cells, counts, german=before.startswith('.'))}{after}YYYY"
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


def _name_part(cells: Sequence[Written], counts: Sequence[int], *, german: bool) -> str:
    """The part of a form for the names of months: that which has most of them; of several, English, unless German."""
    names = [cell.name for cell in cells]
    order = ("Monat", "Mär", "Mrz") if german else ()
    held = {
        part: sum(count for name, count in zip(names, counts, strict=True) if name.lower() in MONTHS[part])
        for part in dict.fromkeys((*order, *MONTHS))
    }
    return _case(names, counts, max(held, key=held.__getitem__))


def _case(texts: Sequence[str], counts: Sequence[int], text: str) -> str:
    """A text in the case that most of these have: that of ``text``, capitals or small letters."""
    total = sum(counts)
    upper = sum(count for one, count in zip(texts, counts, strict=True) if one.isupper())
    lower = sum(count for one, count in zip(texts, counts, strict=True) if one.islower())
    return text.upper() if 2 * upper > total else text.lower() if 2 * lower > total else text


def unpadded_alike(cells: Iterable[Written]) -> bool:
    """Whether times of day may be ratios, such as 1:10, 1:20 and 1:40: all have the same hour, of one digit."""
    hours = {cell.hour for cell in cells}
    return len(hours) == 1 and len(next(iter(hours))) == 1
