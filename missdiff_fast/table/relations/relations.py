"""The relations of a table, as the codec uses them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import numpy as np
import pandas as pd

from missdiff_fast.table.columns import Coder
from missdiff_fast.table.relations.hole_settling import HoleSettling
from missdiff_fast.table.relations.relation import Determined, Numeric, Relation
from missdiff_fast.table.relations.search import fields_of, residual_cells
from missdiff_fast.table.relations.settling import Settling
from missdiff_fast.table.schema import Column, Name, Schema
from missdiff_fast.table.table_cells import TableCells


class Relations:
    """The relations of a table's columns.

    Parameters
    ----------
    schema : Schema
        The table's columns.
    coders : mapping
        Name to the coder of each column.
    found : sequence
        The relations, each after those of its sources.

    Attributes
    ----------
    schema : Schema
        The table's columns, and after them those of the residuals.
    coders : dict
        Name to coder, those of the residuals too.
    parents : tuple of tuple of int
        For each residual, the places of the columns that it is computed of among the continuous ones.
    numeric : tuple of int
        The places of the columns of all numeric relations, with a residual or without, among the continuous ones.

    Examples
    --------
    >>> from missdiff_fast._engine.backend import ReferenceBackend
    >>> from missdiff_fast.table import Codec, read_frame
    >>> minutes = np.arange(200) % 70 * 3
    >>> cells = read_frame(pd.DataFrame({"minutes": minutes, "charge": (0.17 * minutes).round(2)}))
    >>> Codec.fit(cells, ops=ReferenceBackend(), relations=True).relations.frame().iloc[0].tolist()
    ['charge', 'linear', ['minutes'], '0.17 * minutes']
    """

    def __init__(self, schema: Schema, coders: Mapping[Name, Coder], found: Sequence[Relation] = ()) -> None:
        self.found = tuple(found)
        taking_part = {name for relation in found for name in (relation.column, *relation.sources)}
        self.fields = {field.name: field for field in fields_of(schema, coders) if field.name in taking_part}
        self._residuals: dict[Name, Numeric] = {}
        self.coders, columns, parents = dict(coders), list(schema), []
        for relation in self.found:
            if isinstance(relation, Numeric) and relation.residual is not None:
                name = f"residual of {relation.column}"
                while name in self.coders:
                    name += "'"
                self._residuals[name] = relation
                self.coders[name] = relation.residual
                columns.append(Column(name, "continuous", np.dtype(np.float64), "float"))
                parents.append(tuple(schema.continuous.index(n) for n in (relation.column, *relation.sources)))
        self.schema, self.parents = Schema(tuple(columns)), tuple(parents)
        formulas = [one for one in self.found if isinstance(one, Numeric)]
        numbers = {name for one in formulas for name in (one.column, *one.sources)}
        self.numeric = tuple(i for i, name in enumerate(schema.continuous) if name in numbers)

    def frame(self) -> pd.DataFrame:
        """A row for each relation: ``column``, ``kind``, ``from`` (a list of names) and ``formula``."""
        rows = [(one.column, one.kind, list(one.sources), one.formula) for one in self.found]
        return pd.DataFrame(rows, columns=["column", "kind", "from", "formula"])

    def add_residuals(self, cells: TableCells) -> TableCells:
        """The cells with those of the residuals, which are observed where a column and all its sources are."""
        if not self._residuals:
            return cells
        found = dict(cells.found)
        for name, relation in self._residuals.items():
            known = [cells.observed(n) for n in (relation.column, *relation.sources)]
            if all(column is not None for column in known):
                own, *others = (
                    self.fields[n].read(column)
                    for n, column in zip((relation.column, *relation.sources), known, strict=True)
                    if column is not None
                )
                found[name] = residual_cells(relation, self.fields[relation.column], own, others)
        return replace(cells, found=found)

    def residual_holes(self, holes: pd.DataFrame) -> pd.DataFrame:
        """The holes of a table, bool ``[N, columns]``, and after them those of the residuals."""
        holes = holes.copy(deep=False)
        for name, relation in self._residuals.items():
            holes[name] = holes[[relation.column, *relation.sources]].to_numpy().any(1)
        return holes

    def settle(
        self,
        drawn: pd.DataFrame,
        cells: TableCells,
        uniform: np.ndarray | None,
        holes: pd.DataFrame | None = None,
        kept: Mapping[Name, np.ndarray] = MappingProxyType({}),
    ) -> pd.DataFrame:
        """Rows in which the relations hold, as far as the known cells let them, without the residuals.

        Parameters
        ----------
        drawn : DataFrame
            N complete rows of `schema`.
        cells : TableCells
            The known cells of these rows, which are used in place of the drawn ones and never moved.
        uniform : ndarray, optional
            One uniform number for each row, which chooses among values that are equally consistent; without it the
            most frequent one of categories and the nearest one of numbers is taken.
        holes : DataFrame, optional
            The cells that are to be missing, bool ``[N, columns]``, in rows without known cells; none by default. The
            relations hold among the others.
        kept : mapping
            Name to drawn cells, bool ``[N]``, that are not moved either.
        """
        if not self.found:
            return drawn
        numbers, fixed = {}, {}
        for name, field in self.fields.items():
            numbers[name] = field.read_series(drawn[name])
            fixed[name] = np.zeros(len(drawn), dtype=bool)
            known = cells.observed(name)
            if known is not None:
                given = field.read(known)
                fixed[name] = ~np.isnan(given)
                numbers[name] = np.where(fixed[name], given, numbers[name])
            fixed[name] = fixed[name] | kept.get(name, False)
        residuals = {one.column: drawn[name].to_numpy() for name, one in self._residuals.items()}
        if holes is None:
            settling = Settling(self.fields, numbers, fixed, residuals, uniform)
        else:
            own = {name: holes[name].to_numpy(dtype=bool) for name in self.fields}
            settling = HoleSettling(self.fields, numbers, fixed, residuals, uniform, own)
        settling.run(self.found)
        settled = settling.frame(drawn).drop(columns=list(self._residuals))
        settled.columns = pd.Index([name for name in drawn.columns if name not in self._residuals])  # integers again
        return settled

    def allowed(self, column: Name, cells: TableCells) -> np.ndarray | None:
        """Which categories of a column are consistent with the known cells: bool ``[N, V]``; None for all.

        A row whose known cells contradict one another allows all.
        """
        result = None
        for relation in self.found:
            if not isinstance(relation, Determined) or column not in (relation.column, relation.source):
                continue
            other = relation.source if column == relation.column else relation.column
            known = cells.observed(other)
            if known is None:
                continue
            numbers = self.fields[other].read(known)
            if result is None:
                result = np.ones((len(numbers), len(self.fields[column].numbers)), dtype=bool)
            if column == relation.column:
                place = relation.compute(self.fields[other], numbers)
                agree = np.arange(result.shape[1]) == place[:, None]
            else:
                place = self.fields[other].places(numbers)
                agree = relation.image == place[:, None]
            agree[place < 0] = True
            both = result & agree
            result = np.where(both.any(1, keepdims=True), both, result)
        return result
