"""The last step of a draw of rows with holes: relations hold among the cells that are there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from missdiff_fast.table.relations.fields import Field
from missdiff_fast.table.relations.relation import Determined, Numeric, Relation
from missdiff_fast.table.relations.settling import Settling, tables_by_source
from missdiff_fast.table.schema import Name


class HoleSettling(Settling):
    """Drawn rows with holes; what was drawn in a hole means nothing.

    A column is computed where its sources are usable: they are there, or follow from cells that are there. Where
    several columns follow from a hole, one of them is kept, and tells what the others are.

    Parameters
    ----------
    fields, numbers, fixed, residuals, uniform
        As of `Settling`; no cell is fixed in rows that are new.
    holes : mapping
        Name to which cells are to be missing, bool ``[N]``.
    """

    def __init__(
        self,
        fields: Mapping[Name, Field],
        numbers: Mapping[Name, np.ndarray],
        fixed: Mapping[Name, np.ndarray],
        residuals: Mapping[Name, np.ndarray],
        uniform: np.ndarray | None,
        holes: Mapping[Name, np.ndarray],
    ) -> None:
        super().__init__(fields, numbers, fixed, residuals, uniform)
        self.holes, self.usable = holes, {name: ~column for name, column in holes.items()}

    def run(self, relations: Sequence[Relation]) -> None:
        """As `Settling.run`."""
        tables = tables_by_source(relations)
        for source, own in tables.items():
            self._choose(source, own)
        taken = Counter(name for relation in relations for name in {relation.column, *relation.sources})
        for relation in relations:
            if isinstance(relation, Determined):
                self._recover_source(tables.pop(relation.source, []))
            elif relation.residual is None:
                self._recover_number(relation)
            rows = ~self.fixed[relation.column] & np.logical_and.reduce([self.usable[n] for n in relation.sources])
            if isinstance(relation, Numeric) and relation.residual is not None:
                # The residual is a hole where one of these is, though the cell may since have been computed.
                rows &= ~np.logical_or.reduce([self.holes[n] for n in (relation.column, *relation.sources)])
            if isinstance(relation, Numeric):
                free = [name for name in relation.sources if taken[name] == 1]
                self._return(relation, rows & ~self.holes[relation.column], free)
            self.usable[relation.column][self._compute(relation, rows)] = True

    def frame(self, drawn: pd.DataFrame) -> pd.DataFrame:
        """As `Settling.frame`; holes keep what was drawn in them."""
        self.known = {name: self.known[name] | holes for name, holes in self.holes.items()}
        return super().frame(drawn)

    def _allowed(self, name: Name, places: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        """As `Settling._allowed`; a hole may be beyond the column's range: a value may be missing because it is."""
        return np.where(self.holes[name][places], numbers, super()._allowed(name, places, numbers))

    def _recover_source(self, tables: Sequence[Determined]) -> None:
        """Where the source of some columns is a hole, keep the one with the most values, and choose a source for it."""
        for table in sorted(tables, key=lambda one: len(np.unique(one.image)), reverse=True):
            source = table.source
            rows = np.flatnonzero(~self.usable[source] & self.usable[table.column])
            self.fixed[table.column][rows] = True
            self._choose(source, [table])
            follows = table.compute(self.fields[source], self.numbers[source][rows])
            own = self.fields[table.column].places(self.numbers[table.column][rows])
            self.usable[source][rows[follows == own]] = True

    def _recover_number(self, relation: Numeric) -> None:
        """Where one source of an exact formula is a hole, keep the column, and solve for the source."""
        missing = [~self.usable[name] for name in relation.sources]
        rows = self.usable[relation.column] & (np.sum(missing, axis=0) == 1)
        for i, name in enumerate(relation.sources):
            places = np.flatnonzero(rows & missing[i])
            others = [self.numbers[other][places] for other in relation.sources]
            value = relation.solve(i, self.numbers[relation.column][places], others, 0.0)
            good = np.isfinite(value)
            self.numbers[name][places[good]] = value[good]
            self.usable[name][places[good]] = True
            self.fixed[relation.column][places[good]] = True
