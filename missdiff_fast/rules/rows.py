"""Rows whose cells are known, or drawn and may be moved, as rules see them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pandas as pd

from missdiff_fast.rules.columns import RuleColumn
from missdiff_fast.rules.rule import Combinations, Derived, Inequality, Rule
from missdiff_fast.table.schema import Name
from missdiff_fast.table.table_cells import TableCells


@dataclass(frozen=True)
class Rows:
    """The cells of N rows in the columns that rules name. The arrays are not written to.

    Parameters
    ----------
    columns : mapping
        Name to column.
    numbers : mapping
        Name to the cells as numbers, float64 ``[N]``; anything in a hole.
    there : mapping
        Name to which cells are there: known or drawn, and no hole; bool ``[N]``.
    free : mapping
        Name to which cells may be moved: drawn, and not yet settled; bool ``[N]``.
    """

    columns: Mapping[Name, RuleColumn]
    numbers: Mapping[Name, np.ndarray]
    there: Mapping[Name, np.ndarray]
    free: Mapping[Name, np.ndarray]

    @classmethod
    def known(cls, columns: Mapping[Name, RuleColumn], cells: TableCells) -> Rows:
        """The rows of a table, of which no cell may be moved."""
        numbers = {name: column.read(cells.found[name]) for name, column in columns.items()}
        there = {name: ~np.isnan(one) for name, one in numbers.items()}
        return cls(columns, numbers, there, {name: np.zeros_like(one) for name, one in there.items()})

    @classmethod
    def drawn(
        cls,
        columns: Mapping[Name, RuleColumn],
        frame: pd.DataFrame,
        cells: TableCells,
        holes: Mapping[Name, np.ndarray],
    ) -> Rows:
        """Complete rows of which some cells are known; ``holes`` are to be missing: name to bool ``[N]``, or none."""
        numbers, there, free = {}, {}, {}
        for name, column in columns.items():
            numbers[name] = column.read_series(frame[name])
            found = cells.observed(name)
            known = np.zeros(len(frame), dtype=bool)
            if found is not None:
                given = column.read(found)
                known = ~found.missing  # a text that is not known is NaN, but is not to be replaced
                numbers[name] = np.where(known, given, numbers[name])
            hole = holes.get(name, np.zeros(len(frame), dtype=bool))
            there[name], free[name] = ~hole, ~hole & ~known
        return cls(columns, numbers, there, free)

    def __len__(self) -> int:
        return len(next(iter(self.numbers.values()), ()))

    def take(self, places: np.ndarray) -> Rows:
        """Some of the rows, each as often as it comes: by mask or by number."""
        cut = [{name: one[places] for name, one in part.items()} for part in (self.numbers, self.there, self.free)]
        return Rows(self.columns, *cut)

    def with_rows(self, places: np.ndarray, other: Rows) -> Rows:
        """The rows with others in some places."""
        parts = []
        for own, theirs in ((self.numbers, other.numbers), (self.there, other.there), (self.free, other.free)):
            new = {name: one.copy() for name, one in own.items()}
            for name, one in new.items():
                one[places] = theirs[name]
            parts.append(new)
        return Rows(self.columns, *parts)

    def moved(self, name: Name, where: np.ndarray, numbers: np.ndarray) -> Rows:
        """The rows with other cells of one column in some places, all ``[N]``."""
        return replace(self, numbers={**self.numbers, name: np.where(where, numbers, self.numbers[name])})

    def settled(self, name: Name, where: np.ndarray) -> Rows:
        """The rows, with cells of one column that may no longer be moved."""
        return replace(self, free={**self.free, name: self.free[name] & ~where})

    def applies(self, rule: Rule) -> np.ndarray:
        """In which rows all cells of a rule are there, bool ``[N]``."""
        return np.asarray(np.logical_and.reduce([self.there[name] for name in rule.columns]))

    def broken(self, rule: Rule) -> np.ndarray:
        """In which rows all cells of a rule are there, and it does not hold: bool ``[N]``."""
        if isinstance(rule, Inequality):
            holds = rule.holds(self.numbers)
        elif isinstance(rule, Derived):
            own, computed = self.numbers[rule.column], rule.compute(self.numbers)
            holds = self.columns[rule.column].agrees(own, computed, rounded=rule.rounded)
        else:
            holds = rule.among(self.places(rule))
        return self.applies(rule) & ~holds

    def places(self, rule: Combinations) -> np.ndarray:
        """The places of the cells among the values of their columns, int64 ``[N, K]``; -1 for others."""
        return np.stack([self.columns[name].places(self.numbers[name]) for name in rule.columns], 1)

    def computed(self, derived: Mapping[Name, Derived]) -> dict[Name, np.ndarray]:
        """Of each derived column, the rows in which it is computed: it may be moved, and its sources are there."""
        return {name: self.free[name] & self.applies(rule) for name, rule in derived.items()}


@dataclass(frozen=True)
class Network:
    """Which columns a rule depends on, through those that are derived.

    Parameters
    ----------
    rules : tuple of Rule
        All rules.
    derived : mapping
        Name of a column to the rule that computes it; each after those of its sources.
    """

    rules: tuple[Rule, ...]
    derived: Mapping[Name, Derived]

    @cached_property
    def parts(self) -> tuple[Rule, ...]:
        """The rules, each chain of comparisons as its single ones, those of the fewest columns first."""
        parts: list[Rule] = []
        for rule in self.rules:
            if isinstance(rule, Inequality):
                parts += [Inequality(rule.text, (one, other), (sign,)) for one, sign, other in rule.parts]
            else:
                parts.append(rule)
        return tuple(sorted(parts, key=lambda part: len(self.support(part))))

    def support(self, rule: Rule) -> tuple[Name, ...]:
        """The columns that a rule names, and those that these are computed from."""
        if rule.columns not in self._supports:
            found: dict[Name, None] = {}
            waiting = list(rule.columns)
            while waiting:
                name = waiting.pop(0)
                if name not in found:
                    found[name] = None
                    waiting += self.derived[name].sources if name in self.derived else ()
            self._supports[rule.columns] = tuple(found)
        return self._supports[rule.columns]

    @cached_property
    def _supports(self) -> dict[tuple[Name, ...], tuple[Name, ...]]:
        return {}

    def movable(self, rows: Rows, rule: Rule) -> Iterator[tuple[Name, np.ndarray]]:
        """The columns that can be moved so that a rule holds, and the rows in which each can: bool ``[N]``.

        Where a column is computed, its sources are moved in its place.
        """
        computed = rows.computed(self.derived)
        for name in self.support(rule):
            where = rows.free[name] & ~computed[name] if name in computed else rows.free[name]
            if where.any():
                yield name, where

    def any_movable(self, rows: Rows, rule: Rule) -> np.ndarray:
        """The rows in which some cell can be moved so that a rule holds: bool ``[N]``."""
        found = [where for _, where in self.movable(rows, rule)]
        return np.asarray(np.logical_or.reduce([np.zeros(len(rows), dtype=bool), *found]))

    def unkept(self, rows: Rows) -> np.ndarray:
        """The rows in which a rule does not hold that moved cells might keep: bool ``[N]``."""
        result = np.zeros(len(rows), dtype=bool)
        for rule in self.rules:
            broken = rows.broken(rule)
            if broken.any():
                result |= broken & self.any_movable(rows, rule)
        return result
