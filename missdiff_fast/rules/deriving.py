"""Derived columns: computed where they are drawn, and solved for a source where they are known."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

import numpy as np

from missdiff_fast.rules.rows import Network, Rows
from missdiff_fast.rules.rule import Derived
from missdiff_fast.table.schema import Name

_HALVINGS = 52
_NOISE = 1e-15  # what rounding leaves of a linear function at its root, relative to its other values
_MARKS = 17  # numbers among which a change of sign is looked for


def compute(rows: Rows, network: Network, only: Collection[Name] | None = None) -> Rows:
    """The rows with derived cells that may be moved computed from the others, where they have a value; by default all.

    Parameters
    ----------
    rows, network
        The rows and their rules.
    only : collection, optional
        The columns that are to be computed.
    """
    for rule in network.derived.values():
        if only is not None and rule.column not in only:
            continue
        where = rows.free[rule.column] & rows.applies(rule)
        if where.any():
            held = rows.columns[rule.column].held(rule.compute(rows.numbers), rounded=rule.rounded)
            rows = rows.moved(rule.column, where & ~np.isnan(held), held)
    return rows


def with_derived(rows: Rows, network: Network) -> Rows:
    """The rows in which derived columns hold, as far as known cells let them.

    Where a derived cell is known, and a source is not, the source is solved for, and the other sources stay.
    """
    free, rows = rows.free, compute(rows, network)
    for rule in reversed(list(network.derived.values())):
        wanted = rows.broken(rule) & ~rows.free[rule.column]
        if wanted.any():
            rows = _solve(rows, rule, wanted, network)
    return replace(compute(rows, network), free=free)


def _solve(rows: Rows, rule: Derived, wanted: np.ndarray, network: Network) -> Rows:
    """Some rows with a source of a derived column moved so that it holds; columns that are derived come last."""
    for name in sorted(rule.sources, key=lambda one: one in network.derived):
        places = np.flatnonzero(wanted & rows.free[name])
        if not len(places):
            continue
        part = rows.take(places)
        numbers, good = _solved(part, rule, name)
        if good.any():
            rows = rows.with_rows(places[good], part.moved(name, good, numbers).take(good))
            done = np.zeros(len(rows), dtype=bool)
            done[places[good]] = True
            for source in rule.sources:
                rows = rows.settled(source, done)
            wanted = wanted & ~done
    return rows


def _solved(rows: Rows, rule: Derived, name: Name) -> tuple[np.ndarray, np.ndarray]:
    """The numbers of a source at which a derived column holds in each row, and where there are such: both ``[N]``.

    Rounded numbers are taken if they do, those within the range of the column's values first.
    """
    column, own = rows.columns[name], rows.columns[rule.column]
    target = rows.numbers[rule.column]
    result, good = rows.numbers[name].copy(), np.zeros(len(rows), dtype=bool)
    for least, greatest in ranges(column.values):
        exact = root(lambda x: rule.compute({**rows.numbers, name: x}) - target, least, greatest, rows.numbers[name])
        rounded = column.held(exact)
        steps = (0, 1, -1) if column.quantum else (0,)
        tried = [rounded, *(column.held(exact + step * column.quantum) for step in steps[1:])]
        for numbers in (*tried, column.held(exact, rounded=False)):
            computed = rule.compute({**rows.numbers, name: numbers})
            new = ~good & ~np.isnan(numbers) & own.agrees(target, computed, rounded=rule.rounded)
            result, good = np.where(new, numbers, result), good | new
        if good.all():
            break
    return result, good


def ranges(values: np.ndarray) -> list[tuple[float, float]]:
    """The range of a column's values, and a wider one that has no other signs."""
    least, greatest = float(values[0]), float(values[-1])
    width = 20 * max(greatest - least, abs(greatest), abs(least), 1.0)
    wide = (0.0 if least >= 0 else least - width), (0.0 if greatest <= 0 else greatest + width)
    return [(least, greatest), wide]


def root(function: Callable[[np.ndarray], np.ndarray], least: float, greatest: float, near: np.ndarray) -> np.ndarray:
    """Where a function of each row's number is 0, float64 ``[N]``; NaN where no change of sign is seen.

    Parameters
    ----------
    function : callable
        Takes and gives float64 ``[N]``.
    least, greatest : float
        The range.
    near : ndarray
        Of several roots, the one next to these numbers is found, ``[N]``.

    Examples
    --------
    >>> root(lambda x: x**2 - np.array([4.0, 9.0, 900.0]), 0.0, 5.0, np.zeros(3)).tolist()
    [2.0, 3.0, nan]
    """
    marks = np.linspace(least, greatest, _MARKS)
    values = np.stack([np.asarray(function(np.full(len(near), mark))) for mark in marks], 1)  # [N, marks]
    signs = np.sign(values)  # NaN where there is no value
    crossed = signs[:, :-1] * signs[:, 1:] <= 0
    apart = np.abs((marks[:-1] + marks[1:]) / 2 - near[:, None])
    chosen = np.where(crossed, apart, np.inf).argmin(1)
    low, high = marks[chosen], marks[chosen + 1]
    rows = np.arange(len(near))
    at_low = values[rows, chosen]
    at_high, found = values[rows, chosen + 1], crossed.any(1)
    exactly = np.where(at_low == 0, low, np.where(at_high == 0, high, np.nan))
    with np.errstate(all="ignore"):
        straight = np.where(np.isnan(exactly), low - at_low * (high - low) / (at_high - at_low), exactly)
        left = np.abs(function(np.where(np.isfinite(straight), straight, low)))
        linear = left <= _NOISE * np.maximum(np.abs(at_low), np.abs(at_high))  # each row by itself
    if linear[found].all():
        return np.where(found, straight, np.nan)
    for _ in range(_HALVINGS):
        middle = low + (high - low) / 2
        value = np.asarray(function(middle))
        exactly = np.where(np.isnan(exactly) & (value == 0), middle, exactly)
        below = np.sign(value) == np.sign(at_low)
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    halved = np.where(np.isnan(exactly), low + (high - low) / 2, exactly)
    return np.where(found, np.where(linear, straight, halved), np.nan)
