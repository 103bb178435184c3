"""The search for structural holes in a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from missdiff_fast.table.columns import Coder
from missdiff_fast.table.relations import fields_of
from missdiff_fast.table.relations.fields import Field
from missdiff_fast.table.schema import Name, Schema
from missdiff_fast.table.structural.hole import StructuralHole
from missdiff_fast.table.table_cells import TableCells

_MOST_COLUMNS = 500  # the first ones, among which sources are sought
_WORK, _ROWS = 30_000_000, (1_000, 16_000)  # rows times squared columns that are searched, and the fewest and most rows
_MOST_SOURCES, _MOST_TRIED = 3, 8  # of one column
_KNOWN = 0.5  # the least share of rows in which a source is observed: what is seldom measured explains nothing
_LEAST_ROWS = 5  # with a value of which the cell is always missing
_ELSEWHERE = 0.5  # of the rows with other values, at least this share have the cell
_EXPLAINED = 0.5  # of the column's holes that others do not explain, at least this share
_CHANCE = 1e-6  # that holes independent of the source look so, in a whole table


def find_structural(cells: TableCells, schema: Schema, coders: Mapping[Name, Coder]) -> list[StructuralHole]:
    """The structural holes of a table.

    They are sought in some of the rows, the fewer the more columns there are, and tested on all rows. Sources are, of
    the first 500 columns that vary, those that at least half of the rows observe. A value of the source counts if
    chance would hardly leave all its rows without the cell, where holes did not depend on the source. A column has up
    to three sources, those that explain most first.

    Parameters
    ----------
    cells : TableCells
        The table.
    schema : Schema
        Its columns.
    coders : mapping
        Name to coder.
    """
    fields = fields_of(schema, coders)[:_MOST_COLUMNS]
    fields = [field for field in fields if 1 - cells.found[field.name].missing.mean() >= _KNOWN]
    holed = [name for name in schema.names if cells.found[name].missing.any()]
    if not holed or not fields:
        return []
    least, most = _ROWS
    number = min(len(cells), max(least, min(most, _WORK // max(len(fields), len(holed)) ** 2)))
    rows = np.sort(np.random.default_rng(0).choice(len(cells), number, replace=False))
    numbers = np.column_stack([field.read(cells.found[field.name].take(rows)) for field in fields])
    seen = ~np.column_stack([cells.found[name].missing[rows] for name in holed])
    pairs = len(fields) * len(holed)
    # Where one source explains half of the holes, another may show only once the first is known.
    hints = np.stack([_Counts.of(column, seen).num_explained(pairs, _ELSEWHERE / 2, 0.0) for column in numbers.T])
    found = []
    for j, name in enumerate(holed):
        sources = [int(a) for a in np.argsort(-hints[:, j], kind="stable")[:_MOST_TRIED] if hints[a, j]]
        sources = [a for a in sources if fields[a].name != name]
        if sources:
            options = {fields[a]: numbers[:, a] for a in sources}
            found += list(_learn(name, options, seen[:, j], cells, pairs))
    return found


def _learn(
    name: Name, options: Mapping[Field, np.ndarray], seen: np.ndarray, cells: TableCells, pairs: int
) -> Iterator[StructuralHole]:
    """The structural holes of one column, tested on all rows.

    Each source is the one that explains most of the rows that earlier ones leave; ``options`` has the numbers of each
    in some rows, and ``seen`` which of these have the cell.
    """
    waiting, left = dict(options), np.ones(len(cells), dtype=bool)
    number = 0
    while waiting and number < _MOST_SOURCES:
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
