"""The search for relations in a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from missdiff_fast.table.cells import ColumnCells
from missdiff_fast.table.columns import Categorical, Coder, Continuous
from missdiff_fast.table.relations.determined import Pair, are_repeated, find_determined, learn_determined
from missdiff_fast.table.relations.fields import Field
from missdiff_fast.table.relations.numeric import Fit, find_numeric, judge
from missdiff_fast.table.relations.relation import Numeric, Relation
from missdiff_fast.table.schema import Name, Schema
from missdiff_fast.table.table_cells import TableCells

MOST_COLUMNS, _MOST_NUMERIC = 500, 200  # the first ones, among which relations are sought, and formulas
_MOST_READ = 32  # columns whose cells are in memory as float64 at a time
_FORMULA_WORK, _FORMULA_ROWS = 20_000_000, (1_000, 3_000)  # as below, for formulas
_WORK, _ROWS = 30_000_000, (1_000, 16_000)  # rows times squared columns that are searched, and the fewest and most rows


def find_relations(cells: TableCells, schema: Schema, coders: Mapping[Name, Coder]) -> list[Relation]:
    """The relations of a table, each of a column to columns that come before it in the order of computing.

    Relations are sought in some of the rows, the fewer the more columns there are, among the first 500 columns that
    vary (formulas among the first 200 numeric ones), and tested on all rows. Each column has at most one, the simplest:
    exact formulas of one column, then tables, then other exact formulas, then those that leave a residual.

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
    fields = [field for field in fields if field.exact]
    if len(fields) < 2:
        return []
    search = _Search(cells, fields)
    return search.run()


def fields_of(schema: Schema, coders: Mapping[Name, Coder]) -> list[Field]:
    """The columns that vary, in the schema's order."""
    found = []
    for column in schema:
        coder = coders[column.name]
        if isinstance(coder, (Categorical, Continuous)):
            found.append(Field(column, coder))
    return found


def searched_rows(num_rows: int, num_columns: int) -> np.ndarray:
    """The numbers of the rows in which pairs of columns are compared, ascending: the fewer the more columns."""
    least, most = _ROWS
    number = min(num_rows, max(least, min(most, _WORK // num_columns**2)))
    return np.sort(np.random.default_rng(0).choice(num_rows, number, replace=False))


class _Search:
    def __init__(self, cells: TableCells, fields: list[Field]) -> None:
        self.fields, self._cells = fields, cells
        self._numbers: dict[int, np.ndarray] = {}
        self._rows = searched_rows(len(cells), len(fields))
        self.sample = np.column_stack([field.read(self._column(j).take(self._rows)) for j, field in enumerate(fields)])

    def run(self) -> list[Relation]:
        """The relations, in the order of computing."""
        fits = self._fits()
        found: dict[Name, Relation] = {}
        self._add_formulas(found, [fit for fit in fits if fit.exact and len(fit.relation.sources) == 1])
        for pair in self._pairs():
            column, source = self.fields[pair.column].name, self.fields[pair.source].name
            if _refused(found, column, [source]):
                continue
            relation = learn_determined(pair, self.fields, self._places(pair.source), self._places(pair.column))
            if relation is not None:
                found[column] = relation
        self._add_formulas(found, fits)
        return in_order(list(found.values()))

    def _add_formulas(self, found: dict[Name, Relation], fits: Sequence[Fit]) -> None:
        for fit in fits:
            relation = None if _refused(found, fit.relation.column, fit.relation.sources) else self._numeric(fit)
            if relation is not None:
                found[relation.column] = relation

    def _fits(self) -> list[Fit]:
        """Formulas, the simplest first."""
        # A formula of a limit of measurement gives a number, where it should give another limit.
        numeric = [field.continuous and field.column.censored is None for field in self.fields]
        places = [j for j, one in enumerate(numeric) if one][:_MOST_NUMERIC]
        order = {self.fields[j].name: j for j in places}
        least, most = _FORMULA_ROWS
        rows = min(len(self.sample), max(least, min(most, _FORMULA_WORK // max(1, len(places)) ** 2)))
        some = np.linspace(0, len(self.sample) - 1, rows).astype(np.int64)
        sample = self.sample[some][:, places]
        fits = find_numeric([self.fields[j] for j in places], sample) if len(places) > 1 else []

        def rank(fit: Fit) -> tuple[bool, int, float, bool, int]:
            relation = fit.relation
            return not fit.exact, len(relation.sources), round(fit.spread, 2), relation.log, -order[relation.column]

        return sorted(fits, key=rank)

    def _pairs(self) -> list[Pair]:
        """Pairs of a column and what may determine it, sources with the fewest values first."""
        codes = np.full(self.sample.shape, -1, dtype=np.int32)
        repeated = np.zeros(len(self.fields), dtype=bool)
        for j, field in enumerate(self.fields):
            seen = ~np.isnan(self.sample[:, j])
            codes[seen, j] = np.unique(self.sample[seen, j], return_inverse=True)[1]
            observed = len(self._cells) - int(np.count_nonzero(self._column(j).missing))
            repeated[j] = are_repeated(len(field.numbers), observed)
        ordered = np.array([field.continuous for field in self.fields])
        pairs = find_determined(codes, repeated, ordered)
        return sorted(pairs, key=lambda pair: (len(self.fields[pair.source].numbers), pair.source, pair.column))

    def _numeric(self, fit: Fit) -> Numeric | None:
        """A formula tested on all rows, with its residual; None if it does not hold."""
        relation = fit.relation
        names = {field.name: j for j, field in enumerate(self.fields)}
        own, *others = (self._read(names[name]) for name in (relation.column, *relation.sources))
        seen = np.isfinite(own) & np.isfinite(np.sum(others, axis=0))
        field = self.fields[names[relation.column]]
        tested = judge(relation, field, own[seen], [other[seen] for other in others])
        if tested is None or tested.exact:
            return None if tested is None else relation
        left = residual_cells(relation, field, own, others)
        if len(left.distinct[0]) < 2:
            return None
        return replace(relation, residual=Continuous.fit(np.dtype(np.float64), left))

    def _column(self, j: int) -> ColumnCells:
        return self._cells.found[self.fields[j].name]

    def _read(self, j: int) -> np.ndarray:
        if j not in self._numbers:
            if len(self._numbers) == _MOST_READ:
                del self._numbers[next(iter(self._numbers))]
            self._numbers[j] = self.fields[j].read(self._column(j))
        return self._numbers[j]

    def _places(self, j: int) -> np.ndarray:
        return self.fields[j].places(self._read(j))


def residual_cells(relation: Numeric, field: Field, own: np.ndarray, others: Sequence[np.ndarray]) -> ColumnCells:
    """The residuals of rows, rounded to the column's resolution unless they are of logarithms."""
    left = relation.remainder(own, others)
    if not relation.log and field.quantum > 0:
        step = field.quantum
        left = np.round(left / step) * step if step >= 1 else np.round(left, round(-np.log10(step)))
        left += 0.0  # no negative zero
    return ColumnCells("float", left, np.isnan(left))


def in_order(relations: Sequence[Relation]) -> list[Relation]:
    """Relations in an order in which each comes after those of its sources."""
    left, ordered = list(relations), list[Relation]()
    while left:
        waiting = {relation.column for relation in left}
        ready = [relation for relation in left if waiting.isdisjoint(relation.sources)]
        if not ready:
            raise ValueError("relations go in a circle")
        ordered += ready
        left = [relation for relation in left if relation.column in waiting - {one.column for one in ready}]
    return ordered


def _refused(found: Mapping[Name, Relation], column: Name, sources: Sequence[Name]) -> bool:
    """Whether a column has a relation already, or is itself behind one of the sources."""
    if column in found:
        return True
    waiting = list(sources)
    while waiting:
        name = waiting.pop()
        if name == column:
            return True
        if name in found:
            waiting += found[name].sources
    return False
