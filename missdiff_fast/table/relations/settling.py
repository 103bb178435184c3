"""The last step of a draw or an imputation: rows are moved so that relations hold in them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from missdiff_fast.table.dtypes import as_series
from missdiff_fast.table.relations.fields import Field
from missdiff_fast.table.relations.relation import Determined, Numeric, Relation
from missdiff_fast.table.schema import Name


def tables_by_source(relations: Sequence[Relation]) -> dict[Name, list[Determined]]:
    """The relations that are tables, by their source."""
    tables: dict[Name, list[Determined]] = {}
    for relation in relations:
        if isinstance(relation, Determined):
            tables.setdefault(relation.source, []).append(relation)
    return tables


class Settling:
    """Rows whose cells are known, or drawn and may be moved.

    What is known, or follows from it, is fixed: first what exact formulas leave no choice of, then against the other
    relations (a source that is not known is solved for), then all others are computed from their sources.

    Parameters
    ----------
    fields : mapping
        Name to each column that takes part.
    numbers : mapping
        Name to the cells of each, known and drawn, float64 ``[N]``.
    fixed : mapping
        Name to which cells are known, bool ``[N]``.
    residuals : mapping
        Name of a column to the residuals of its formula, float64 ``[N]``.
    uniform : ndarray or None
        Of each row, a number that chooses among values that are equally consistent, ``[N]``; None takes the most
        frequent of categories and of numbers the nearest.
    """

    def __init__(
        self,
        fields: Mapping[Name, Field],
        numbers: Mapping[Name, np.ndarray],
        fixed: Mapping[Name, np.ndarray],
        residuals: Mapping[Name, np.ndarray],
        uniform: np.ndarray | None,
    ) -> None:
        self.fields, self.residuals, self.uniform = fields, residuals, uniform
        self.numbers = {name: column.copy() for name, column in numbers.items()}
        self.known = fixed
        self.fixed = {name: column.copy() for name, column in fixed.items()}

    def run(self, relations: Sequence[Relation]) -> None:
        """Move the cells that are not known; relations come in the order of computing."""
        self._follow(relations)
        # Relations of one source to tables come one after another, each after those of its own column.
        tables = tables_by_source(relations)
        for relation in reversed(relations):
            if isinstance(relation, Numeric):
                self._solve(relation)
            else:
                self._choose(relation.source, tables.pop(relation.source, []))
        taken = Counter(name for relation in relations for name in {relation.column, *relation.sources})
        for relation in relations:
            rows = ~self.fixed[relation.column]
            if isinstance(relation, Numeric):
                self._return(relation, rows, [name for name in relation.sources if taken[name] == 1])
            self._compute(relation, rows)

    def _follow(self, relations: Sequence[Relation]) -> None:
        """Set the cells that known ones leave no choice of: columns of fixed sources, and the last source of a formula.

        It goes on while a cell so found leads to another, before any cell is chosen among several that are consistent.
        """
        before = -1
        while before < (count := sum(int(np.count_nonzero(fixed)) for fixed in self.fixed.values())):
            before = count
            for relation in relations:
                if isinstance(relation, Numeric) and relation.residual is not None:
                    continue  # a residual that is drawn leaves a choice: other formulas may know the column
                sources = np.logical_and.reduce([self.fixed[name] for name in relation.sources])
                self._compute(relation, sources & ~self.fixed[relation.column])
            for relation in reversed(relations):
                if isinstance(relation, Numeric) and relation.residual is None:
                    unknown = np.sum([~self.fixed[name] for name in relation.sources], axis=0)
                    self._solve(relation, unknown == 1)

    def frame(self, drawn: pd.DataFrame) -> pd.DataFrame:
        """The drawn rows with the moved cells, in the columns' dtypes."""
        result = drawn.copy(deep=False)
        for name, field in self.fields.items():
            before = field.read_series(drawn[name])
            moved = (before != self.numbers[name]) & ~self.known[name]
            if moved.any():
                array = drawn[name].array.copy()
                array[moved] = field.values(self.numbers[name][moved])
                result[name] = as_series(array, drawn.index)
        return result

    def _compute(self, relation: Relation, rows: np.ndarray) -> np.ndarray:
        """Set the column in some rows, in which it is then fixed if its sources are; gives those it could be set in."""
        places = np.flatnonzero(rows)
        if not len(places):
            return places
        own = self.numbers[relation.column]
        others = [self.numbers[name][places] for name in relation.sources]
        if isinstance(relation, Determined):
            value = relation.compute(self.fields[relation.source], others[0])
            places, value = places[value >= 0], value[value >= 0]
            own[places] = self.fields[relation.column].numbers[value]
        else:
            value = relation.compute(others, self._residual(relation, places))
            good = np.isfinite(value)
            places = places[good]
            own[places] = self._allowed(relation.column, places, value[good])
        sources = np.logical_and.reduce([self.fixed[name][places] for name in relation.sources])
        self.fixed[relation.column][places] |= sources
        return places

    def _allowed(self, name: Name, places: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        """The numbers of a column that stand for computed ones in some rows."""
        return self.fields[name].nearest(numbers)

    def _residual(self, relation: Numeric, places: np.ndarray) -> np.ndarray | float:
        return 0.0 if relation.residual is None else self.residuals[relation.column][places]

    def _return(self, relation: Numeric, rows: np.ndarray, free: Sequence[Name]) -> None:
        """Where the formula leaves the column's range, move a source that nothing else depends on, so that it does not.

        Otherwise the cell would be cut to the range, and the relation broken.
        """
        places = np.flatnonzero(rows)
        value = relation.compute(
            [self.numbers[name][places] for name in relation.sources], self._residual(relation, places)
        )
        least, greatest = self.fields[relation.column].numbers[[0, -1]]
        with np.errstate(invalid="ignore"):
            outside = (value < least) | (value > greatest)
        places, target = places[outside], value[outside].clip(least, greatest)
        for i in self._by_weight(relation):
            name = relation.sources[i]
            if name in free and len(places):
                unknown = ~self.fixed[name][places]
                left = np.ones(len(places), dtype=bool)
                left[unknown] = self._solve_for(i, relation, places[unknown], target[unknown])
                places, target = places[left], target[left]

    def _by_weight(self, relation: Numeric) -> list[int]:
        """The places of the sources, the one that the column depends on most first."""
        weights = []
        for coefficient, name in zip(relation.coefficients, relation.sources, strict=True):
            numbers = self.fields[name].numbers
            scale = np.log(numbers[-1] / numbers[0]) if relation.log else numbers[-1] - numbers[0]
            weights.append(abs(coefficient) * scale)
        return [int(i) for i in np.argsort(weights, kind="stable")[::-1]]

    def _solve(self, relation: Numeric, among: np.ndarray | bool = True) -> None:
        """Of some rows, where the column is fixed and not all sources are, solve for the one that it depends on most.

        Where that one ends at its range, the next one makes up for the rest.
        """
        sources = np.logical_and.reduce([self.fixed[name] for name in relation.sources])
        rows = self.fixed[relation.column] & ~sources & among
        left = rows.copy()
        for i in self._by_weight(relation):
            places = np.flatnonzero(left & ~self.fixed[relation.sources[i]])
            left[places] = self._solve_for(i, relation, places, self.numbers[relation.column][places])
        for name in relation.sources:
            self.fixed[name] |= rows

    def _solve_for(self, i: int, relation: Numeric, places: np.ndarray, own: np.ndarray) -> np.ndarray:
        """Move source ``i`` in some rows so that the formula gives these numbers of the column, within its range.

        Returns
        -------
        ndarray
            Where it could not be moved as far, bool ``[n]``.
        """
        if not len(places):
            return np.empty(0, dtype=bool)
        name = relation.sources[i]
        others = [self.numbers[other][places] for other in relation.sources]
        value = relation.solve(i, own, others, self._residual(relation, places))
        good = np.isfinite(value)
        self.numbers[name][places[good]] = self.fields[name].nearest(value[good])
        least, greatest = self.fields[name].numbers[[0, -1]]
        return ~good | (value < least) | (value > greatest)

    def _choose(self, source: Name, tables: Sequence[Determined]) -> None:
        """Where columns that the source determines are fixed, and it is not, give it a value from which they follow."""
        field, fixed = self.fields[source], [self.fixed[table.column] for table in tables]
        if not tables:
            return
        rows = np.flatnonzero(~self.fixed[source] & np.logical_or.reduce(fixed))
        if not len(rows):
            return
        wanted, met = np.full((len(rows), len(tables)), -1, dtype=np.int64), np.ones(len(rows), dtype=bool)
        for i, table in enumerate(tables):
            here = fixed[i][rows]
            wanted[here, i] = self.fields[table.column].places(self.numbers[table.column][rows[here]])
            met &= (wanted[:, i] < 0) | (table.compute(field, self.numbers[source][rows]) == wanted[:, i])
        self.fixed[source][rows] = True
        rows, wanted = rows[~met], wanted[~met]
        if not len(rows):
            return
        patterns, each = np.unique(wanted, axis=0, return_inverse=True)
        order = np.argsort(each.reshape(-1), kind="stable")
        ends = np.cumsum(np.bincount(each.reshape(-1), minlength=len(patterns)))
        for pattern, group in zip(patterns, np.split(order, ends[:-1]), strict=True):
            agree = [table.image == place for table, place in zip(tables, pattern, strict=True) if place >= 0]
            values = np.flatnonzero(np.logical_and.reduce(agree) & (tables[0].counts > 0))
            if len(values):
                picked = self._pick(field, values, tables[0].counts[values], rows[group])
                self.numbers[source][rows[group]] = field.numbers[picked]

    def _pick(self, field: Field, values: np.ndarray, counts: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """One of a column's kept values, all consistent, for each row."""
        if self.uniform is not None:
            below = np.cumsum(counts)
            return values[
                np.searchsorted(below, self.uniform[rows] * below[-1], side="right").clip(max=len(values) - 1)
            ]
        if not field.continuous:
            return np.full(len(rows), values[counts.argmax()])
        marks, numbers = field.numbers[values], self.numbers[field.name][rows]
        above = np.searchsorted(marks, numbers).clip(1, max(1, len(marks) - 1))
        if len(marks) == 1:
            return np.full(len(rows), values[0])
        return values[np.where(numbers - marks[above - 1] <= marks[above] - numbers, above - 1, above)]
