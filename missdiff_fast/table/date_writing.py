"""Reading and writing of single dates and times of day in a form of `missdiff_fast.table.date_forms`."""

from __future__ import annotations

import re
from functools import lru_cache

import numpy as np
import pandas as pd

from missdiff_fast.table.date_forms import MONTHS, SECOND, split, to_iso, to_nanoseconds

# Each part for names in three cases; the longer ones stand before those with which they begin.
_NAMES = {
    case(part): (names, case)
    for part, names in sorted(MONTHS.items(), key=lambda item: -len(item[0]))
    for case in (str.title, str.upper, str.lower)
}
_TOKEN = re.compile(rf"YYYY|DD?|{'|'.join(_NAMES)}|MM?|hh?|mm|ss|0+|AM|am")
_MINUTE, _DAY = 60 * SECOND, 86_400 * SECOND


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
    if written is None or written.style != style_of(form) or written.is_short:
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


def read_unambiguous(text: str, form: str = "") -> pd.Timestamp | None:
    """The date that a text writes in a form other than ISO 8601, if it can be no other; else None.

    In the style of a column's form, it must have the form's order: who gives 27/08/2022 where the month stands first
    would mean the 5th of June by 05/06/2022.

    Examples
    --------
    >>> read_unambiguous("27/08/2022"), read_unambiguous("1/2/2022"), read_unambiguous("1/1/2022")
    (Timestamp('2022-08-27 00:00:00'), None, Timestamp('2022-01-01 00:00:00'))
    """
    written = split(text)
    if written is None or written.style == "time" or written.is_short:
        return None
    alike = form != "" and written.style == style_of(form)
    days = {to_iso(written, order) for order in written.orders() if not alike or order == order_of(form)}
    try:
        return pd.Timestamp(days.pop()) if len(days) == 1 else None
    except ValueError:  # no such day, or out of reach
        return None


@lru_cache(maxsize=64)
def style_of(form: str) -> str:
    """The style in which cells of a form are written, as of `missdiff_fast.table.date_forms.Written`; "" of ISO 8601.

    >>> style_of("DD.MM.YYYY"), style_of("hh:mm"), style_of("0000-00-00")
    ('.', 'time', '')
    """
    written = split(example(form)) if is_local(form) else None
    return "" if written is None else written.style


def order_of(form: str) -> str:
    """The part that stands first in a form of dates, ``"day"`` or ``"month"``."""
    return "month" if re.match("M", form) else "day"


def example(form: str) -> str:
    """The 27th of August 2022, 14:05:30 in a form, which may be one of ISO 8601 without a zone.

    >>> example("0000-00-00T00:00")
    '2022-08-27T14:05'
    >>> example("DD.MM.YYYY hh:mm"), example("D-Mon-YYYY"), example("h:mm AM")
    ('27.08.2022 14:05', '27-Aug-2022', '2:05 PM')
    """
    if form.startswith("h"):
        return _write("", 14 * 3600 + 5 * 60 + 30, 0, form)
    if not is_local(form):
        return f"2022-08-27{form[10:11]}14:05:30.000000000"[: len(form)]
    return _write("2022-08-27", 14 * 3600 + 5 * 60 + 30, 0, form)


def write_in(column: pd.Series, form: str) -> pd.Series:
    """The dates without zone, or times of day, of a column as texts of a form; NaN where missing.

    The texts have more detail than the form where it would lose some.

    Examples
    --------
    >>> write_in(pd.Series(pd.to_datetime(["2022-08-27 14:05", None])), "D.M.YYYY").tolist()
    ['27.8.2022 14:05', nan]
    >>> write_in(pd.Series(pd.to_datetime(["2022-03-01"])), "D. Monat YYYY").tolist()
    ['1. März 2022']
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
    texts = [_write(day, time // SECOND, time % SECOND, form) for day, time in zip(days, clock.tolist(), strict=True)]
    cells = np.array([*texts, np.nan], dtype=object)[codes]
    return pd.Series(cells, index=column.index, name=column.name, dtype=object)


def _with_detail(form: str, clock: np.ndarray) -> str:
    """A form that loses no part of these nanoseconds since midnight."""
    if form.startswith("h") and (clock >= _DAY).any():
        form = re.sub(r" ?(AM|am)$", "", form)
    if not clock.any():
        return form
    if "mm" not in form:
        form += (":" if re.match("DD?[Mm]", form) else " ") + "hh:mm"  # as SAS does after 27AUG2022
    if "ss" not in form and (clock % _MINUTE).any():
        form = form.replace("mm", "mm:ss")
    parts = np.unique(clock % SECOND)
    decimals = max((len(f"{part:09}".rstrip("0")) for part in parts.tolist()), default=0)
    own = re.search("ss(?:\\.(0+))?", form)
    if own is not None and decimals > len(own[1] or ""):
        form = form.replace(own[0], f"ss.{'0' * decimals}")
    return form


def _write(day: str, seconds: int, part: int, form: str) -> str:
    """A date as ISO 8601 and a time since midnight in a form."""
    template, decimals, halved = _template(form)
    year, month, date = map(int, day.split("-")) if day else (0, 0, 0)
    hour = seconds // 3600
    half = "PM" if hour >= 12 else "AM"
    return template.format(
        YYYY=year,
        M=month,
        D=date,
        h=(hour % 12 or 12) if halved else hour,
        m=seconds // 60 % 60,
        s=seconds % 60,
        part=part // 10 ** (9 - decimals),
        half=half,
        small=half.lower(),
        **(_names(month) if day else {}),
    )


@lru_cache(maxsize=12)
def _names(month: int) -> dict[str, str]:
    """The names of a month, by the part of a form that stands for them."""
    return {part: case(names[month - 1]) for part, (names, case) in _NAMES.items()}


@lru_cache(maxsize=64)
def _template(form: str) -> tuple[str, int, bool]:
    """A form for `str.format`; how many decimals of a second it has, and whether hours end at 12."""
    fields = {"AM": "{half}", "am": "{small}", "YYYY": "{YYYY:04}", **{part: f"{{{part}}}" for part in _NAMES}}
    decimals = 0

    def field(token: re.Match[str]) -> str:
        nonlocal decimals
        text = token[0]
        if text[0] == "0":
            decimals = len(text)
            return f"{{part:0{decimals}}}"
        return fields.get(text) or f"{{{text[0]}{':02' if len(text) == 2 else ''}}}"

    return _TOKEN.sub(field, form), decimals, form.endswith(("AM", "am"))
