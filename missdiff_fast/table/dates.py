"""Dates, times and durations as text: how they are read, and written again in the form that they were read in.

The *form* of a column of dates is a text such as ``"0000-00-00T00:00:00.000Z"``: its most detailed cell with zeros for
digits and a plus for the sign of the zone. `missdiff_fast.table.date_forms` has those of other dates and of times of
day. Forms travel in ``frame.attrs``, so that a frame's CSV file has them too.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping
from datetime import date, tzinfo
from typing import Any

import numpy as np
import pandas as pd

from missdiff_fast.table.date_forms import split, to_iso, to_nanoseconds
from missdiff_fast.table.date_writing import is_local, is_of_family, read_unambiguous, write_in

DATE = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d{1,9})?)?(?P<zone>Z|[+-]\d\d(:?\d\d)?)?)?", re.ASCII)
# What a person may write for pandas: other dates that it parses depend on the clock ("now", "13:30") or on the country
# ("1/2/2024").
ISO_DATE = re.compile(r"\d{4}-\d{1,2}-\d{1,2}([T ].*)?", re.ASCII)
# As pandas writes durations. "1 day" is a text: it would come back as "1 days".
DURATION = re.compile(r"-?\d{1,6} days( [+-]?\d\d:\d\d:\d\d(\.\d{1,9})?)?", re.ASCII)
_ZEROS = str.maketrans("123456789", "000000000")
_FORMS = "missdiff_fast.forms"
_LENGTHS = (16, 19, *range(21, 30))  # of a date to the minute, the second and its decimals


class Forms(dict[Hashable, str]):
    """The form of each column of dates that was read from text, by name; not to be changed."""

    def __deepcopy__(self, memo: object) -> Forms:
        return self  # pandas copies attrs whenever a column is taken from a frame


def forms_of(frame: pd.DataFrame) -> Mapping[Hashable, str]:
    """The forms of the columns of a frame that were dates in text, by name; empty if there are none.

    Examples
    --------
    >>> frame = with_forms(pd.DataFrame({"day": pd.to_datetime(["2024-02-29"])}), {"day": "0000-00-00T00:00"})
    >>> forms_of(frame.head(0)), forms_of(pd.DataFrame())
    ({'day': '0000-00-00T00:00'}, {})
    """
    found = frame.attrs.get(_FORMS, {})
    return found if isinstance(found, dict) else {}


def with_forms(frame: pd.DataFrame, forms: Mapping[Hashable, str]) -> pd.DataFrame:
    """The frame, with these forms noted beside those that it has; the frame itself is changed."""
    if forms:
        frame.attrs[_FORMS] = Forms({**forms_of(frame), **forms})
    return frame


def read_dates(texts: list[str]) -> tuple[pd.Series, str] | None:
    """The dates, times or durations in texts, and the form of dates; None if one is none, or only some have a zone.

    Cells of one offset from UTC keep it; those of several, as of a zone with daylight saving time, are in UTC.

    Parameters
    ----------
    texts : list of str
        Without white space around them.

    Examples
    --------
    >>> dates, form = read_dates(["2024-02-29T10:00:00.5Z", "2024-03-01T10:00:00Z"])
    >>> dates.dtype, form
    (datetime64[ns, UTC], '0000-00-00T00:00:00.0Z')
    >>> read_dates(["-1 days +23:00:00"])[0].tolist()
    [Timedelta('-1 days +23:00:00')]
    >>> read_dates(["2024-02-29", "2024-02-30"]), read_dates(["2024-02-29 10:00", "2024-02-29 10:00Z"])
    (None, None)
    """
    if not texts:
        return None
    if DURATION.fullmatch(texts[0]):
        if not all(map(DURATION.fullmatch, texts)):
            return None
        durations = pd.to_timedelta(pd.Series(texts, dtype=object), errors="coerce")
        return None if durations.isna().any() else (durations, "")
    zones = _zones(texts)
    if zones is None or (len(zones) > 1 and None in zones):
        return None
    dates = parse_dates(texts)
    return None if dates.isna().any() else (dates, _form(texts, zones))


def are_partly_zoned(texts: list[str]) -> bool:
    """Whether all texts have the form of a date, some with a zone and some without."""
    zones = _zones(texts)
    return zones is not None and None in zones and len(zones) > 1


def has_zone(text: str) -> bool:
    """Whether a date has a zone, such as ``Z`` or ``+01:00``."""
    found = DATE.fullmatch(text)
    return found is not None and found["zone"] is not None


def is_day_or_time(text: str) -> bool:
    """Whether a text is a time of day, or a date of a day that exists, in any form that is read.

    >>> is_day_or_time("2024-02-29"), is_day_or_time("29.02.2023"), is_day_or_time("14:05"), is_day_or_time("V45")
    (True, False, True, False)
    """
    written = split(text)
    if written is None:
        days = [text] if DATE.fullmatch(text) else []
    elif written.style == "time":
        return True
    else:
        days = [to_iso(written, order) for order in written.orders()]
    return any(_is_day(day[:10]) for day in days)


def _is_day(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def parse_dates(texts: list[str]) -> pd.Series:
    """The dates in texts that all match `DATE`, NaT where there is no such date."""
    zones = _zones(texts) or set()
    cells = pd.Series(texts, dtype=object)
    several = len({_offset(zone) for zone in zones if zone is not None}) > 1 or (None in zones and len(zones) > 1)
    return pd.to_datetime(cells, format="ISO8601", errors="coerce", utc=several)


def _zones(texts: Iterable[str]) -> set[str | None] | None:
    """The zones that dates are written with, None for none; None instead if a text is no date."""
    zones: set[str | None] = set()
    for text in texts:
        found = DATE.fullmatch(text)
        if found is None:
            return None
        zones.add(found["zone"])
    return zones


def _offset(zone: str) -> str:
    """A zone as sign, hours and minutes."""
    digits = zone[1:].replace(":", "").ljust(4, "0")
    return "+0000" if digits == "0000" else zone[0] + digits


def _form(texts: Iterable[str], zones: set[str | None]) -> str:
    shapes = {text.translate(_ZEROS) for text in texts}
    bodies = {shape[:10] + re.split("[Z+-]", shape[10:])[0] for shape in shapes}
    written = {re.sub(r"\d", "0", zone) for zone in zones if zone is not None}
    offsets = {f"+{zone[1:]}" for zone in written - {"Z"}}
    return max(bodies, key=lambda body: (len(body), body)) + (max(offsets, key=len) if offsets else "".join(written))


def count_instant(text: str, family: str, unit: str, zone: tzinfo | None = None, form: str = "") -> int | None:
    """The date, time or duration that a text writes as a count of a unit; None if it is none, or no whole count.

    Parameters
    ----------
    text : str
        ISO 8601, a date in another form that can be no other date, or a duration that pandas can read.
    family : str
        That of the cells: one of `missdiff_fast.table.dtypes.INSTANTS`.
    unit : str
        s, ms, us or ns.
    zone : tzinfo, optional
        That of zoned cells: a text without a zone is in its local time.
    form : str
        That of the cells, if they were read from text: it tells whether the day or the month stands first.

    Examples
    --------
    >>> from datetime import timezone
    >>> count_instant("1970-01-02", "datetime", "s"), count_instant("1970-01-02", "zoned", "s", timezone.utc)
    (86400, 86400)
    >>> count_instant("-1 days", "timedelta", "s"), count_instant("unknown", "datetime", "s")
    (-86400, None)
    >>> count_instant("2.1.1970", "datetime", "s"), count_instant("2/3/1970", "datetime", "s")
    (86400, None)
    >>> count_instant("2/3/1970", "datetime", "s", form="MM/DD/YYYY"), count_instant("9:05", "timedelta", "s")
    (2851200, 32700)
    """
    try:
        if family == "timedelta":
            plain = text.strip().lstrip("+-").replace(".", "").isdecimal()  # pandas would count nanoseconds
            clock = split(text)
            if clock is not None and clock.style == "time":
                duration: Any = pd.Timedelta(to_nanoseconds(clock), unit="ns")
            else:
                duration = pd.NaT if plain else pd.Timedelta(text)
            return None if duration is pd.NaT else int(duration.as_unit(unit, round_ok=False)._value)
        if has_zone(text) and family != "zoned":
            return None
        time: Any = pd.Timestamp(text) if DATE.fullmatch(text) else read_unambiguous(text, form)
        if time is None:
            return None
        time = time.tz_localize(zone) if time.tz is None and family == "zoned" else time
        return int(time.as_unit(unit, round_ok=False)._value)
    except (ValueError, OverflowError):  # a text of another kind, out of reach, or at an hour that the zone lacks
        return None


def as_text(frame: pd.DataFrame, *, durations_only: bool = False) -> pd.DataFrame:
    """The frame with the dates and times that have a form as texts, for text files; the frame itself is not changed.

    With ``durations_only`` dates stay what they are, for files that hold these, but no times of day.

    Examples
    --------
    >>> frame = pd.DataFrame({"seen": pd.to_datetime(["2024-02-29 10:00", None]), "n": [1, 2]})
    >>> as_text(with_forms(frame, {"seen": "0000-00-00T00:00:00"}))["seen"].tolist()
    ['2024-02-29T10:00:00', nan]
    """
    forms = {name: form for name, form in forms_of(frame).items() if form and name in frame.columns}
    if durations_only:
        forms = {name: form for name, form in forms.items() if is_of_family(form, "timedelta")}
    if not forms or not frame.columns.is_unique:
        return frame
    frame = frame.copy(deep=False)
    for name, form in forms.items():
        frame[name] = write_dates(frame[name], form)
    return frame


def write_dates(column: pd.Series, form: str) -> pd.Series:
    """The dates of a column as texts of a form, with more detail where the form would lose some; NaN where missing.

    A column that is not of the form's kind (no dates, or with a zone where the form has none) is returned as it is.

    Examples
    --------
    >>> write_dates(pd.Series(pd.to_datetime(["2024-02-29 10:00:30"])), "0000-00-00T00:00").tolist()
    ['2024-02-29T10:00:30']
    """
    zoned = isinstance(column.dtype, pd.DatetimeTZDtype)
    if is_local(form):
        return (
            column if zoned or column.dtype.kind != ("m" if form.startswith("h") else "M") else write_in(column, form)
        )
    plain, _, _ = form[10:].partition("+")
    zone = form[10 + len(plain) :] or ("Z" if form.endswith("Z") else "")
    if column.dtype.kind != "M" or zoned != bool(zone):
        return column
    codes, distinct = pd.factorize(column)
    dates = pd.DatetimeIndex(distinct)
    local = dates.tz_localize(None)
    texts = _in_shape(local, form[: 10 + len(plain.rstrip("Z"))])
    if zoned:
        offsets = (local - dates.tz_convert("UTC").tz_localize(None)) // pd.Timedelta(minutes=1)
        texts = [text + _zone(int(minutes), zone) for text, minutes in zip(texts, offsets, strict=True)]
    cells = np.array([*texts, np.nan], dtype=object)[codes]
    return pd.Series(cells, index=column.index, name=column.name, dtype=object)


def _in_shape(dates: pd.DatetimeIndex, shape: str) -> list[str]:
    """Dates without zone, as long as the shape, or longer where that would lose a part of one."""
    texts = [_whole_text(text) for text in np.datetime_as_string(dates.to_numpy())]
    lengths = [len(shape), *(length for length in _LENGTHS if length > len(shape))]
    length = next(length for length in lengths if not any(text[length:].strip("T:.0") for text in texts))
    joint = shape[10:11] or " "
    return [f"{text[:10]}{joint}{text[11:length]}" if length > 10 else text[:10] for text in texts]


def _whole_text(text: str) -> str:
    """A date as NumPy writes it, to the nanosecond."""
    whole, _, fraction = text.partition(".")
    return f"{whole}.{fraction:0<9}"


def _zone(minutes: int, style: str) -> str:
    """An offset from UTC in a style, or in a plainer one that can tell it."""
    if style == "Z" and minutes == 0:
        return "Z"
    hours, rest = divmod(abs(minutes), 60)
    sign = "-" if minutes < 0 else "+"
    if style == "+00" and not rest:
        return f"{sign}{hours:02}"
    return f"{sign}{hours:02}{'' if style == '+0000' else ':'}{rest:02}"
