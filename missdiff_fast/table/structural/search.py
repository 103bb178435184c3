"""The search for structural holes in a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from missdiff_fast.table.columns import Coder
from missdiff_fast.table.relations import MOST_COLUMNS, fields_of, searched_rows
from missdiff_fast.table.relations.fields import Field
from missdiff_fast.table.schema import Name, Schema
from missdiff_fast.table.structural.hole import StructuralHole
from missdiff_fast.table.table_cells import TableCells

_MOST_SOURCES, _MOST_TRIED = 3, 8  # of one column
_KNOWN = 0.5  # the least share of rows in which a source is observed: what is seldom measured explains nothing
_LEAST_ROWS = 10  # with a value of which the cell is always missing
_ELSEWHERE = 0.5  # of the rows with other values, at least this share have the cell
_EXPLAINED = 0.5  # of the column's holes that others do not explain, at least this share
_CHANCE = 1e-6  # that holes independent of the source look so, in a whole table


def find_structural(cells: TableCells, schema: Schema, coders: Mapping[Name, Coder]) -> list[StructuralHole]:
    """The structural holes of a table.

    They are sought in some of the rows, the fewer the more columns there are, and tested on all rows. Sources are, of
    the first 500 columns that vary, those that at least half of the rows observe, not counting the rows in which the
    source has a structural hole itself. A value of the source counts if chance would hardly leave all its rows without
    the cell, where holes did not depend on the source. A column has up to three sources, those that explain most first.

    Parameters
    ----------
    cells : TableCells
        The table.
    schema : Schema
        Its columns.
    coders : mapping
        Name to coder.
    """
    fields = fields_of(schema, coders)[:MOST_COLUMNS]
    holed = [name for name in schema.names if cells.found[name].missing.any()]
    often = [field for field in fields if 1 - cells.found[field.name].missing.mean() >= _KNOWN]
    if not holed or not often:
        return []
    rows = searched_rows(len(cells), max(len(fields), len(holed)))
    numbers = {field: field.read(cells.found[field.name].take(rows)) for field in often}
    seen = ~np.column_stack([cells.found[name].missing[rows] for name in holed])
    pairs = len(often) * len(holed)
    # Where one source explains half of the holes, another may show only once the first is known.
    hints = [_Counts.of(own, seen).num_explained(pairs, _ELSEWHERE / 2, 0.0) for own in numbers.values()]
    found: dict[Name, list[StructuralHole]] = {}
    for name, column, hint in zip(holed, seen.T, np.stack(hints, 1), strict=True):
        likely = [often[a] for a in np.argsort(-hint, kind="stable")[:_MOST_TRIED] if hint[a]]
        options = {field: numbers[field] for field in likely if field.name != name}
        found[name] = list(_learn(name, options, column, cells, pairs, _MOST_SOURCES))
    # A column that has structural holes may itself be a source: these count as known.
    explained = {name: _explained(own, cells, fields) for name, own in found.items() if own}
    nested = [
        field
        for field in fields
        if field not in numbers
        and field.name in explained
        and np.mean(~cells.found[field.name].missing) >= _KNOWN * np.mean(~explained[field.name])
    ][:_MOST_TRIED]
    for name, column in zip(holed if nested else (), seen.T, strict=False):
        left = ~explained.get(name, np.zeros(len(cells), dtype=bool))
        options = {field: field.read(cells.found[field.name].take(rows)) for field in nested if field.name != name}
        options = {field: np.where(left[rows], own, np.nan) for field, own in options.items()}
        few = _MOST_SOURCES - len(found[name])
        found[name] += _learn(name, options, column, cells, pairs, few, left)
    return [one for own in found.values() for one in own]


def _explained(found: Sequence[StructuralHole], cells: TableCells, fields: Sequence[Field]) -> np.ndarray:
    """The rows in which a column has a structural hole, bool ``[N]``."""
    named = {field.name: field for field in fields}
    return np.logical_or.reduce(
        [np.isin(named[one.source].read(cells.found[one.source]), one.numbers) for one in found]
    )


def _learn(
    name: Name,
    options: Mapping[Field, np.ndarray],
    seen: np.ndarray,
    cells: TableCells,
    pairs: int,
    most: int,
    left: np.ndarray | None = None,
) -> Iterator[StructuralHole]:
    """The structural holes of one column, tested on all rows, or on those in ``left``, bool ``[N]``.

    Each source, ``most`` at most, is the one that explains most of the rows that earlier ones leave; ``options`` has
    the numbers of each in some rows, and ``seen`` which of these have the cell.
    """
    waiting, left = dict(options), np.ones(len(cells), dtype=bool) if left is None else left.copy()
    number = 0
    while waiting and number < most:
        explained = {field: _Counts.of(own, seen[:, None]).num_explained(pairs)[0] for field, own in waiting.items()}
        best = max(waiting, key=lambda field: explained[field])
        if not explained[best]:
            return
        del waiting[best]
        numbers = np.where(left, best.read(cells.found[best.name]), np.nan)
        every = _Counts.of(numbers, ~cells.found[name].missing[:, None])
        here = every.explained(pairs)[:, 0]
        if not here.any():
            continue
        number += 1
        values, rows, there = every.values[here], every.rows[here], every.seen[~here, 0]
        elsewhere = float(there.sum() / every.rows[~here].sum())
        likely, without = float(every.values[~here][there.argmax()]), float(values[rows.argmax()])
        yield StructuralHole(name, best.name, values, int(rows.sum()), elsewhere, likely, without)
        left &= ~np.isin(numbers, values)
        unexplained = ~np.isin(options[best], values)
        waiting = {field: np.where(unexplained, own, np.nan) for field, own in waiting.items()}


@dataclass(frozen=True)
class _Counts:
    """Of each value of a source: its rows ``[V]``, and how many of them have the cell of each column ``[V, H]``."""

    values: np.ndarray
    rows: np.ndarray
    seen: np.ndarray

    @classmethod
    def of(cls, numbers: np.ndarray, seen: np.ndarray) -> _Counts:
        """Of a source's numbers ``[n]``, NaN where missing, and where each column has a cell, bool ``[n, H]``."""
        order = np.argsort(numbers, kind="stable")[: np.count_nonzero(~np.isnan(numbers))]
        if not len(order):
            return cls(numbers[:0], np.zeros(0, dtype=np.int64), np.zeros((0, seen.shape[1]), dtype=np.int64))
        ordered = numbers[order]
        starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
        sums = np.add.reduceat(seen[order], starts, axis=0, dtype=np.int64)
        return cls(ordered[starts], np.diff(np.append(starts, len(ordered))), sums)

    def num_explained(self, pairs: int, elsewhere: float = _ELSEWHERE, share: float = _EXPLAINED) -> np.ndarray:
        """How many holes of each column are explained, int64 ``[H]``; arguments as of `explained`."""
        result: np.ndarray = self.rows @ self.explained(pairs, elsewhere, share)
        return result

    def explained(self, pairs: int, elsewhere: float = _ELSEWHERE, share: float = _EXPLAINED) -> np.ndarray:
        """Which values explain the holes of which columns, bool ``[V, H]``.

        With other values at least the share ``elsewhere`` of the rows have the cell, and of the column's holes the
        values explain at least ``share``, among the rows where the source is observed.
        """
        never = self.seen == 0
        others = np.where(never, 0, self.rows[:, None]).sum(0)
        there = self.seen.sum(0)
        rate = (there + 0.5) / (others + 1)  # never 1, as a few rows do not tell
        with np.errstate(divide="ignore"):
            chance = self.rows[:, None] * np.log1p(-np.minimum(rate, 1 - 1e-12))
        holes = (
            never & (self.rows[:, None] >= _LEAST_ROWS) & (chance < np.log(_CHANCE / (pairs * max(1, len(self.rows)))))
        )
        all_holes = (self.rows[:, None] - self.seen).sum(0)
        enough = np.where(holes, self.rows[:, None], 0).sum(0) >= share * all_holes
        return holes & (rate >= elsewhere) & (others > 0) & enough
