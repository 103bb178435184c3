"""Reading of columns of dates and times of day whose form is not ISO 8601; warnings where it is in doubt."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

import pandas as pd

from missdiff_fast.errors import DataWarning, warn
from missdiff_fast.remedies import Do, Pass, Remedy
from missdiff_fast.table.date_forms import SECOND, Written, find_form, split, to_iso, to_nanoseconds, unpadded_alike
from missdiff_fast.table.date_writing import order_of, style_of
from missdiff_fast.table.dates import parse_dates
from missdiff_fast.table.odd_texts import MOST_NAMED, as_missing, listed
from missdiff_fast.table.schema import Name

_SHOWN = 3
_DAY = 24 * 3600 * SECOND
_FIRST = {"day": "the day", "month": "the month"}


@dataclass(frozen=True)
class Texts:
    """A column's distinct texts, all of which have the form of a date or of a time of day.

    Parameters
    ----------
    counts : mapping
        How many cells have each.
    known_form : str
        The form that the column is known to have, or "".
    cells : sequence, optional
        What `missdiff_fast.table.date_forms.split` gives for each text, if it was asked already.
    """

    counts: Mapping[str, int]
    known_form: str = ""
    cells: Sequence[Written | None] | None = None


@dataclass
class _Doubts:
    """An example of each column that is in doubt, by the kind of doubt."""

    short: dict[Name, str] = field(default_factory=dict)
    several: dict[Name, list[dict[str, int]]] = field(default_factory=dict)  # the cells of each form, most first
    ends: dict[Name, dict[str, int]] = field(default_factory=dict)
    both: dict[Name, tuple[str, str]] = field(default_factory=dict)
    undecided: dict[Name, str] = field(default_factory=dict)
    as_others: dict[str, dict[Name, str]] = field(default_factory=dict)
    as_known: dict[str, dict[Name, str]] = field(default_factory=dict)


def read_local_dates(
    columns: Mapping[Name, Texts], source: str, date_order: str | None = None
) -> tuple[dict[Name, pd.Series], dict[Hashable, str]]:
    """The dates and times of columns, one for each distinct text in its order, and the columns' forms.

    Whether the day or the month stands first in dates with strokes or dashes is taken from a cell that tells it, in the
    column, or else in one that is written alike. Columns that stay texts have no entry; warnings tell why.

    Parameters
    ----------
    columns : mapping
        The texts of columns, by name.
    source : str
        The file's name, for warnings.
    date_order : {"day", "month"}, optional
        What stands first where no cell of the column tells it.

    Examples
    --------
    >>> columns = {"born": Texts({"1/2/1950": 1, "13/2/1950": 1}), "seen": Texts({"27.08.2022 14:05": 2})}
    >>> values, forms = read_local_dates(columns, "t.csv")
    >>> values["born"].dt.day.tolist(), forms
    ([1, 13], {'born': 'D/M/YYYY', 'seen': 'DD.MM.YYYY hh:mm'})
    """
    doubts = _Doubts()
    cells: dict[Name, list[Written]] = {}
    orders: dict[Name, set[str]] = {}
    for name, texts in columns.items():
        if (found := _alike(name, texts, doubts)) is not None:
            cells[name], orders[name] = found
    told: dict[str, dict[str, Name]] = {}  # by style, the order that a column shows
    for name, order in orders.items():
        if len(order) == 1 and cells[name][0].style in ("/", "-"):
            told.setdefault(cells[name][0].style, {}).setdefault(next(iter(order)), name)
    values: dict[Name, pd.Series] = {}
    forms: dict[Hashable, str] = {}
    for name, own in cells.items():
        texts, style = columns[name], own[0].style
        known = _known_order(texts.known_form, style)
        chosen = _choose(orders[name], known, date_order, told.get(style, {}))
        if chosen is None:
            doubts.undecided[name] = next(iter(texts.counts))
            continue
        read = _times(own) if style == "time" else parse_dates([to_iso(cell, chosen) for cell in own])
        if read.isna().any():  # `missdiff_fast.table.hints.warn_of_unheld` tells it
            continue
        if len(orders[name]) > 1 and known is None and date_order is None:
            doubts.as_others.setdefault(chosen, {})[name] = next(iter(texts.counts))
        if len(orders[name]) > 1 and known is not None and date_order not in (None, known):
            doubts.as_known.setdefault(known, {})[name] = next(iter(texts.counts))
        values[name], forms[name] = read, find_form(own, list(texts.counts.values()), chosen)
    _warn(doubts, source, {style: list(by_order.values()) for style, by_order in told.items()})
    return values, forms


def _alike(name: Name, texts: Texts, doubts: _Doubts) -> tuple[list[Written], set[str]] | None:
    """The cells of a column that are all written alike, and the orders in which all are dates; None if they are not."""
    cells = [split(text) for text in texts.counts] if texts.cells is None else texts.cells
    found = dict(zip(texts.counts, cells, strict=True))
    own = [cell for cell in found.values() if cell is not None]
    if not own:
        return None
    ways: dict[tuple[str, bool | None], dict[str, int]] = {}
    for text, cell in found.items():
        half = bool(cell.half) if cell is not None and cell.hour else None
        ways.setdefault((_way(cell), half), {})[text] = texts.counts[text]
    if len({way for way, _ in ways}) > 1 or len({half for _, half in ways if half is not None}) > 1:
        doubts.several[name] = sorted(ways.values(), key=lambda one: -sum(one.values()))
        return None
    if own[0].style == "time":
        late = {text: to_nanoseconds(cell) for text, cell in found.items() if cell is not None and int(cell.hour) >= 24}
        if late and set(late.values()) == {_DAY}:
            doubts.ends[name] = {text: texts.counts[text] for text in late}
        return (own, {"day"}) if texts.known_form or not unpadded_alike(own) else None
    orders = set.intersection(*(set(cell.orders()) for cell in own))
    if not orders:
        alone = {cell.orders()[0]: text for text, cell in found.items() if cell is not None and len(cell.orders()) == 1}
        doubts.both[name] = (alone["day"], alone["month"])
        return None
    short = next((text for text, cell in found.items() if cell is not None and cell.is_short), None)
    if short is not None:
        doubts.short[name] = short
        return None
    return own, orders


def _way(cell: Written | None) -> str:
    """How a date is written; "" for ISO 8601."""
    return "" if cell is None else cell.style


def _known_order(form: str, style: str) -> str | None:
    """The order of the form that a column is known to have, if dates of a style are written like it."""
    return order_of(form) if style_of(form) == style else None


def _choose(orders: set[str], known: str | None, date_order: str | None, told: Mapping[str, Name]) -> str | None:
    """The order of a column in which its cells may have these; None if nothing tells it."""
    if len(orders) == 1:
        return next(iter(orders))
    if known is not None:
        return known
    if date_order is not None:
        return date_order
    return next(iter(told)) if len(told) == 1 else None


def _times(cells: Sequence[Written]) -> pd.Series:
    return pd.Series(pd.to_timedelta([to_nanoseconds(cell) for cell in cells], unit="ns"))


def _warn(doubts: _Doubts, source: str, tell: Mapping[str, Sequence[Name]]) -> None:
    """Warn of columns of dates that are in doubt."""
    for order, examples in doubts.as_others.items():
        example = split(next(iter(examples.values())))
        shown = repr(tell[example.style][0]) if example is not None and tell.get(example.style) else "another"
        other = "month" if order == "day" else "day"
        what = f"dates whose order none of their cells tells, such as {next(iter(examples.values()))!r}"
        problem = f"{source}: {_columns(examples)} {what}, and {_were(examples)} read with {_FIRST[order]} first"
        remedies = [
            Pass("date_order", other, when="if that is wrong"),
            Pass("date_order", order, when="to silence this"),
        ]
        _tell(f"{problem}, as in column {shown}", examples, remedies)
    for order, examples in doubts.as_known.items():
        what = f"dates whose order none of their cells tells, such as {next(iter(examples.values()))!r}"
        problem = (
            f"{source}: {_columns(examples)} {what}, and {_were(examples)} read with {_FIRST[order]} first, as in fit"
        )
        remedy = Do("write them as 2024-02-29", when="if that is wrong")
        _tell(f"{problem}, not in the order given", examples, [remedy])
    if doubts.undecided:
        what = f"dates whose order no cell tells, such as {next(iter(doubts.undecided.values()))!r}"
        remedies = [Pass("date_order", order, when=f"if {first} stands first") for order, first in _FIRST.items()]
        _tell(f"{source}: {_columns(doubts.undecided)} {what}: {_left(doubts.undecided)}", doubts.undecided, remedies)
    if doubts.short:
        what = f"dates with years of two digits, such as {next(iter(doubts.short.values()))!r}, whose century is open"
        remedy = Do("write years with four digits")
        _tell(f"{source}: {_columns(doubts.short)} {what}: {_left(doubts.short)}", doubts.short, [remedy])
    for name, (first, second) in doubts.both.items():
        what = f"dates with the day first, such as {first!r}, and with the month first, such as {second!r}"
        _tell(f"{source}: {_columns([name])} {what}: {_left([name])}", [name], [Do("write them in one order")])
    for name, (most, *others) in doubts.several.items():
        _tell_forms(name, most, {text: count for other in others for text, count in other.items()}, source)
    for name, ends in doubts.ends.items():
        problem = f"{source}: column {name!r} holds {listed(ends)}, read as the end of the day, after all other times"
        _tell(problem, [name], [Do("write 00:00", when="if it is midnight at the beginning of a day")])


def _tell_forms(name: Name, most: Mapping[str, int], others: Mapping[str, int], source: str) -> None:
    """Warn of a column in several forms; of few other cells tell these."""
    first, second = next(iter(most)), next(iter(others))
    others = dict(sorted(others.items(), key=lambda item: (-item[1], item[0])))
    if 2 * sum(others.values()) >= sum(most.values()) or len(others) > MOST_NAMED:
        what = f"dates or times in several forms, such as {first!r} and {second!r}"
        _tell(f"{source}: {_columns([name])} {what}: {_left([name])}", [name], [Do("write them in one form")])
        return
    problem = f"{source}: column {name!r} holds {listed(others)} among dates or times such as {first!r}"
    _tell(f"{problem}: {_left([name])}", [name], [Do("write all in one form"), *as_missing(list(others))])


def _tell(problem: str, columns: Mapping[Name, object] | Sequence[Name], remedies: Sequence[Remedy]) -> None:
    warn(DataWarning("dates", problem, columns=list(columns), remedy=remedies, joint="; "))


def _columns(columns: Mapping[Name, object] | Sequence[Name]) -> str:
    names = list(columns)
    shown = ", ".join(map(repr, names[:_SHOWN])) + (", ..." if len(names) > _SHOWN else "")
    return f"column {shown} holds" if len(names) == 1 else f"{len(names)} columns ({shown}) hold"


def _were(columns: Mapping[Name, object]) -> str:
    return "was" if len(columns) == 1 else "were"


def _left(columns: Mapping[Name, object] | Sequence[Name]) -> str:
    return "it is left as text" if len(columns) == 1 else "they are left as texts"
