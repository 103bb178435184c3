"""Drawn cells moved to the nearest of their column's values at which ranges and inequalities hold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from missdiff_fast.rules.deriving import compute, ranges, root
from missdiff_fast.rules.expressions import Expression, evaluate
from missdiff_fast.rules.rows import Network, Rows
from missdiff_fast.rules.rule import Inequality, Rule
from missdiff_fast.table.schema import Name

_BLOCK = 4_096  # rows at a time
_PASSES = 3
_COARSE = 9  # values of a column that are tried beside those next to the limits
# Which rules a moved cell keeps, the best first: all of them with a value of its column, all with another number, this
# one and those that no other cell could keep.
_OWN, _OTHER, _ENOUGH, _NONE = range(4)


def move(rows: Rows, network: Network) -> Rows:
    """The rows with cells moved so that all rules hold, as far as known cells let them.

    One cell of a row is moved if that is enough: the one that moves least, in units of its column's range. Else one
    after another is, each so that a rule holds and none is broken that no other cell could keep.
    """
    places = np.flatnonzero(network.unkept(rows))
    for start in range(0, len(places), _BLOCK):
        block = places[start : start + _BLOCK]
        part = rows.take(block)
        for _ in range(_PASSES):
            # Cells that were moved, and so settled, may be in the way of a later rule: they are free in the next pass.
            part = replace(_moved(part, network), free=part.free)
            if not network.unkept(part).any():
                break
        rows = rows.with_rows(block, part)
    return rows


def _moved(rows: Rows, network: Network) -> Rows:
    """Rows with each cell moved once, or not."""
    inequalities = [rule for rule in network.rules if isinstance(rule, Inequality)]
    ranges_first = sorted(inequalities, key=lambda rule: len(network.support(rule)))
    for _ in range(1 + len(rows.columns)):
        changed = False
        for rule in ranges_first:
            places = np.flatnonzero(rows.broken(rule) & network.any_movable(rows, rule))
            if len(places):
                part, good = _keep(rows.take(places), rule, network)
                rows = rows.with_rows(places[good], part.take(good))
                changed |= bool(good.any())
        if not changed:
            break
    return rows


def _keep(rows: Rows, rule: Inequality, network: Network) -> tuple[Rows, np.ndarray]:
    """Rows that break a rule with one cell moved so that it holds, and settled; and where there is such a cell."""
    tier, cost = np.full(len(rows), _NONE), np.full(len(rows), np.inf)
    chosen, target = np.full(len(rows), -1), np.full(len(rows), np.nan)
    movable = list(network.movable(rows, rule))
    for k, (name, where) in enumerate(movable):
        column, others = rows.columns[name], _movable_beside(rows, name, network)
        scale = float(column.values[-1] - column.values[0]) or 1.0
        for own, numbers in _candidates(rows, rule, name, network):
            tried = compute(rows.moved(name, where, numbers), network)
            new = _tiers(tried, rule, network, others, own=own)
            apart = np.abs(numbers - rows.numbers[name]) / scale
            better = where & ~np.isnan(numbers) & ((new < tier) | ((new == tier) & (apart < cost))) & (new < _NONE)
            tier, cost = np.where(better, new, tier), np.where(better, apart, cost)
            chosen, target = np.where(better, k, chosen), np.where(better, numbers, target)
    for k, (name, _) in enumerate(movable):
        rows = rows.moved(name, chosen == k, target).settled(name, chosen == k)
    return compute(rows, network), chosen >= 0


def _movable_beside(rows: Rows, name: Name, network: Network) -> list[np.ndarray]:
    """Of each rule, where a cell other than that of one column can be moved: bool ``[N]``."""
    none = np.zeros(len(rows), dtype=bool)
    return [
        np.logical_or.reduce([none, *(where for other, where in network.movable(rows, rule) if other != name)])
        for rule in network.rules
    ]


def _tiers(rows: Rows, rule: Rule, network: Network, others: Sequence[np.ndarray], *, own: bool) -> np.ndarray:
    """Which rules hold in each row, as a tier: int64 ``[N]``."""
    all_hold, enough = np.ones(len(rows), dtype=bool), ~rows.broken(rule)
    for other, elsewhere in zip(network.rules, others, strict=True):
        broken = rows.broken(other)
        all_hold &= ~broken
        enough &= ~broken | elsewhere
    return np.where(all_hold, _OWN if own else _OTHER, np.where(enough, _ENOUGH, _NONE))


def _candidates(rows: Rows, rule: Inequality, name: Name, network: Network) -> Iterator[tuple[bool, np.ndarray]]:
    """Numbers to which a column may be moved, ``[N]`` each, NaN for none, and whether they are values of it."""
    column = rows.columns[name]
    values = column.values
    for place in np.unique(np.linspace(0, len(values) - 1, _COARSE).round().astype(np.int64)):
        yield True, np.full(len(rows), values[place])
    quantum = column.quantum or 1e-9 * float(np.abs(values).max())
    for other in network.rules:
        if not isinstance(other, Inequality) or name not in network.support(other):
            continue
        for left, _, right in other.parts:
            gap = partial(_gap, rows, name, network, left, right)
            limit = np.full(len(rows), np.nan)
            for least, greatest in ranges(values):
                if np.isnan(limit).any():
                    limit = np.where(np.isnan(limit), root(gap, least, greatest, rows.numbers[name]), limit)
            place = np.searchsorted(values, limit)
            for step in (-2, -1, 0, 1):
                yield True, np.where(np.isnan(limit), np.nan, values[(place + step).clip(0, len(values) - 1)])
            for step in (0, -1, 1):
                yield False, column.held(limit + step * quantum)


def _gap(
    rows: Rows, name: Name, network: Network, left: Expression, right: Expression, numbers: np.ndarray
) -> np.ndarray:
    """The difference of two terms where a column has these numbers, float64 ``[N]``."""
    tried = compute(rows.moved(name, np.ones(len(rows), dtype=bool), numbers), network).numbers
    return np.broadcast_to(evaluate(right, tried) - evaluate(left, tried), numbers.shape)
