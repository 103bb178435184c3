"""Combinations that the training table does not have, replaced by the most similar ones that it has."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from missdiff_fast.rules.rows import Network, Rows
from missdiff_fast.rules.rule import Combinations

_PASSES = 3


def combine(rows: Rows, network: Network, uniform: np.ndarray | None) -> Rows:
    """Rows with combinations of the training table, as far as known cells let them.

    Of the cells that may be moved as many as possible stay; among combinations that are equally similar one is chosen
    by how frequent they are.

    Parameters
    ----------
    rows : Rows
        N rows.
    network : Network
        The rules.
    uniform : ndarray, optional
        One uniform number for each row, which chooses; without it the most frequent combination is taken.
    """
    for _ in range(_PASSES):
        # Cells that one rule has settled are free in the next pass: they may be in the way of another.
        rows = replace(_combined(rows, network, uniform), free=rows.free)
        if not any(rows.broken(rule).any() for rule in network.rules if isinstance(rule, Combinations)):
            break
    return rows


def _combined(rows: Rows, network: Network, uniform: np.ndarray | None) -> Rows:
    """Rows in which each cell was replaced once, or not."""
    rules = [rule for rule in network.rules if isinstance(rule, Combinations)]
    for _ in range(1 + len(rules)):
        before = rows
        for rule in rules:
            broken = np.flatnonzero(rows.broken(rule))
            if len(broken):
                own = None if uniform is None else uniform[broken]
                part, good = _replaced(rows.take(broken), rule, network, own)
                rows = rows.with_rows(broken[good], part.take(good)) if good.any() else rows
        if rows is before:
            break
    return rows


def _replaced(rows: Rows, rule: Combinations, network: Network, uniform: np.ndarray | None) -> tuple[Rows, np.ndarray]:
    """Rows that break a rule with possible combinations in their place, and where there are such."""
    movable = dict(network.movable(rows, rule))
    none = np.zeros(len(rows), dtype=bool)
    free = np.stack([movable.get(name, none) for name in rule.columns], 1)
    patterns, each = np.unique(np.concatenate([rows.places(rule), free], 1), axis=0, return_inverse=True)
    each = each.reshape(-1)
    order = np.argsort(each, kind="stable")
    groups = np.split(order, np.cumsum(np.bincount(each, minlength=len(patterns)))[:-1])
    chosen, width = np.full(len(rows), -1, dtype=np.int64), len(rule.columns)
    for pattern, group in zip(patterns, groups, strict=True):
        places, loose = pattern[:width], pattern[width:].astype(bool)
        same = rule.places == places
        possible = np.flatnonzero(same[:, ~loose].all(1))
        if not loose.any() or not len(possible):
            continue
        alike = same[possible].sum(1)
        possible = possible[alike == alike.max()]
        counts = rule.counts[possible]
        if uniform is None:
            chosen[group] = possible[counts.argmax()]
        else:
            below = np.cumsum(counts)
            picked = np.searchsorted(below, uniform[group] * below[-1], side="right")
            chosen[group] = possible[picked.clip(max=len(possible) - 1)]
    good = chosen >= 0
    for k, name in enumerate(rule.columns):
        numbers = rows.columns[name].values[rule.places[chosen, k]]
        rows = rows.moved(name, good & free[:, k], numbers).settled(name, good)
    return rows, good
