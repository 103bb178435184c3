"""Drawn cells moved to the nearest of their column's values at which ranges and inequalities hold."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from missdiff_fast.rules.bounds import bounds
from missdiff_fast.rules.columns import RuleColumn
from missdiff_fast.rules.deriving import compute, ranges, root, with_derived
from missdiff_fast.rules.expressions import evaluate
from missdiff_fast.rules.rows import Network, Rows
from missdiff_fast.rules.rule import Inequality, Rule
from missdiff_fast.table.schema import Name

_BLOCK = 2_048  # rows at a time
_PASSES = 3
_COARSE = 17  # values of a column that are tried beside those next to the limits
# Which rules a moved cell keeps: all of them; this one and those that no other cell could keep; or fewer. Values of the
# column come before other numbers, in the first pass also where they keep fewer rules.
_ORDERS = (
    (("all", "own"), ("enough", "own"), ("all", "other"), ("enough", "other")),
    (
        ("all", "own"),
        ("all", "other"),
        ("enough", "own"),
        ("enough", "other"),
    ),
)
_NONE = 4


_Order = tuple[tuple[str, str], ...]


def move(rows: Rows, network: Network) -> Rows:
    """The rows with cells moved so that all rules hold, as far as known cells let them.

    One cell of a row is moved if that is enough: the one that moves least, in units of its column's range. Else one
    after another is, each so that a rule holds and none is broken that no other cell could keep.
    """
    places = np.flatnonzero(network.unkept(rows))
    for start in range(0, len(places), _BLOCK):
        block = places[start : start + _BLOCK]
        part = rows.take(block)
        for number in range(_PASSES):
            # Cells that were moved, and so settled, may be in the way of a later rule: they are free in the next pass.
            part = replace(_moved(part, network, _ORDERS[number > 0]), free=part.free)
            if not network.unkept(part).any():
                break
        rows = rows.with_rows(block, part)
    return rows


def _moved(rows: Rows, network: Network, order: _Order) -> Rows:
    """Rows with each cell moved once, or not, after all have been moved into the bounds that known cells set."""
    rows = _within(rows, network)
    for _ in range(1 + len(rows.columns)):
        changed = False
        for rule in network.parts:
            places = np.flatnonzero(rows.broken(rule) & network.any_movable(rows, rule))
            if len(places):
                part, good = _keep(rows.take(places), rule, network, order)
                rows = rows.with_rows(places[good], part.take(good))
                changed |= bool(good.any())
        if not changed:
            break
    return rows


def _within(rows: Rows, network: Network) -> Rows:
    """The rows with cells that known ones do not allow moved to the nearest value that they do."""
    computed = rows.computed(network.derived)
    for name, (low, high) in bounds(rows, network).items():
        column, own = rows.columns[name], rows.numbers[name]
        outside = rows.free[name] & ((own < low) | (own > high))
        outside &= ~computed[name] if name in computed else True
        if outside.any():
            nearest, other = np.full(len(rows), np.nan), np.where(own < low, column.held(low), column.held(high))
            for kind, numbers in _next_to(column, low, high):
                good = kind & (numbers >= low) & (numbers <= high)
                nearer = ~(np.abs(numbers - own) >= np.abs(nearest - own))
                nearest = np.where(good & nearer, numbers, nearest)
            rows = rows.moved(name, outside, np.where(np.isnan(nearest), other, nearest))
    return with_derived(rows, network)


def _next_to(column: RuleColumn, low: np.ndarray, high: np.ndarray) -> Iterator[tuple[bool, np.ndarray]]:
    """The values of a column inside of bounds and next to them, and the bounds themselves; NaN for no bound."""
    values = column.values
    for limit, place in (
        (low, np.searchsorted(values, low, side="left")),
        (high, np.searchsorted(values, high, side="right") - 1),
    ):
        yield True, np.where(np.isfinite(limit), values[place.clip(0, len(values) - 1)], np.nan)
        yield False, column.held(limit)


def _keep(rows: Rows, rule: Rule, network: Network, order: _Order) -> tuple[Rows, np.ndarray]:
    """Rows that break a rule with one cell moved so that it holds, and settled; and where there is such a cell."""
    tier, cost = np.full(len(rows), _NONE), np.full(len(rows), np.inf)
    chosen, target = np.full(len(rows), -1), np.full(len(rows), np.nan)
    movable, limits = list(network.movable(rows, rule)), bounds(rows, network)
    for k, (name, where) in enumerate(movable):
        candidates = list(_candidates(rows, name, network, *limits[name]))
        numbers, own = np.stack([one for _, one in candidates]), np.array([[kind] for kind, _ in candidates])
        all_hold, enough = _verdicts(rows, name, where, numbers, rule, network)
        enough &= (numbers >= limits[name][0]) & (numbers <= limits[name][1])
        tiers = np.full(numbers.shape, _NONE)
        for kept, which in ((enough, "enough"), (all_hold, "all")):
            places = np.where(own, order.index((which, "own")), order.index((which, "other")))
            tiers = np.where(kept & where & ~np.isnan(numbers), places, tiers)
        new = tiers.min(0)
        scale = float(rows.columns[name].values[-1] - rows.columns[name].values[0]) or 1.0
        apart = np.where(tiers == new, np.abs(numbers - rows.numbers[name]) / scale, np.inf)
        best = np.nanargmin(np.where(np.isnan(apart), np.inf, apart), 0)
        nearest = apart[best, np.arange(len(rows))]
        better = (new < _NONE) & ((new < tier) | ((new == tier) & (nearest < cost)))
        tier, cost = np.where(better, new, tier), np.where(better, nearest, cost)
        chosen = np.where(better, k, chosen)
        target = np.where(better, numbers[best, np.arange(len(rows))], target)
    for k, (name, _) in enumerate(movable):
        rows = rows.moved(name, chosen == k, target).settled(name, chosen == k)
    return with_derived(rows, network), chosen >= 0


def _movable_beside(rows: Rows, name: Name, network: Network) -> list[np.ndarray]:
    """Of each rule, where a cell other than that of one column can be moved: bool ``[N]``."""
    none = np.zeros(len(rows), dtype=bool)
    return [
        np.logical_or.reduce([none, *(where for other, where in network.movable(rows, rule) if other != name)])
        for rule in network.parts
    ]


def _verdicts(
    rows: Rows, name: Name, where: np.ndarray, numbers: np.ndarray, rule: Rule, network: Network
) -> tuple[np.ndarray, np.ndarray]:
    """What holds where a column is moved to other numbers, ``[K, N]``, in the rows in which it can be.

    Returns
    -------
    all_hold, enough : ndarray
        Whether all rules hold, and whether this one does and those that no other cell could keep: bool ``[K, N]``.
    """
    others = _movable_beside(rows, name, network)
    places = np.tile(np.arange(len(rows)), len(numbers))
    moved = rows.take(places).moved(name, where[places], numbers.reshape(-1)).settled(name, where[places])
    tried = with_derived(moved, network)
    all_hold, enough = np.ones(len(tried), dtype=bool), ~tried.broken(rule)
    for other, elsewhere in zip(network.parts, others, strict=True):
        broken = tried.broken(other)
        all_hold &= ~broken
        enough &= ~broken | elsewhere[places]
    return all_hold.reshape(numbers.shape), enough.reshape(numbers.shape)


def _candidates(
    rows: Rows, name: Name, network: Network, low: np.ndarray, high: np.ndarray
) -> Iterator[tuple[bool, np.ndarray]]:
    """Numbers to which a column may be moved, ``[N]`` each, NaN for none, and whether they are values of it."""
    column = rows.columns[name]
    values = column.values
    for place in np.unique(np.linspace(0, len(values) - 1, _COARSE).round().astype(np.int64)):
        yield True, np.full(len(rows), values[place])
    yield from _next_to(column, low, high)
    quantum = column.quantum or 1e-9 * float(np.abs(values).max())
    for other in network.parts:
        if not isinstance(other, Inequality) or name not in network.support(other):
            continue
        gap = partial(_gap, rows, name, network, other)
        limit = np.full(len(rows), np.nan)
        for least, greatest in ranges(values):
            if np.isnan(limit).any():
                limit = np.where(np.isnan(limit), root(gap, least, greatest, rows.numbers[name]), limit)
        place = np.searchsorted(values, limit)
        for step in (-2, -1, 0, 1):
            yield True, np.where(np.isnan(limit), np.nan, values[(place + step).clip(0, len(values) - 1)])
        for step in (0, -1, 1):
            yield False, column.held(limit + step * quantum)


def _gap(rows: Rows, name: Name, network: Network, rule: Inequality, numbers: np.ndarray) -> np.ndarray:
    """The difference of the two terms of a rule where a column has these numbers, float64 ``[N]``."""
    ((left, _, right),) = rule.parts
    moved = rows.moved(name, np.ones(len(rows), dtype=bool), numbers)
    tried = compute(moved, network, network.support(rule)).numbers
    return np.broadcast_to(evaluate(right, tried) - evaluate(left, tried), numbers.shape)
