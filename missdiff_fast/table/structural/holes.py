"""The structural holes of a table: told, and kept in rows that are drawn or imputed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from missdiff_fast.errors import DataWarning, warn
from missdiff_fast.remedies import Pass
from missdiff_fast.table.columns import Coder
from missdiff_fast.table.dtypes import as_series, with_columns
from missdiff_fast.table.holes import without_cells
from missdiff_fast.table.relations import fields_of
from missdiff_fast.table.schema import Name, Schema
from missdiff_fast.table.structural.hole import StructuralHole
from missdiff_fast.table.table_cells import TableCells

_SURE = 0.999  # where so many of the rows with other values have the cell, a hole tells the source
_SHOWN, _TOLD = 3, 5  # values in a text, and texts in a warning


class StructuralHoles:
    """The structural holes of a table.

    Parameters
    ----------
    schema : Schema
        The table's columns.
    coders : mapping
        Name to the coder of each.
    found : sequence of StructuralHole
        Those of a source after those of the source's own column, where these do not go in a circle.

    Examples
    --------
    >>> from missdiff_fast._engine.backend import ReferenceBackend
    >>> from missdiff_fast.table import Codec, read_frame
    >>> dead = np.arange(100) % 3 == 0
    >>> table = pd.DataFrame({"dead": np.where(dead, "yes", "no"), "days": np.where(dead, np.arange(100.0), np.nan)})
    >>> codec = Codec.fit(read_frame(table), ops=ReferenceBackend(), structural=True)
    >>> codec.structural.frame().values.tolist()
    [['days', 'dead', ['no'], 66, 1.0]]
    >>> print(*codec.structural.texts())
    'days' is missing in all 66 rows with dead='no' and there in 100% of the others
    """

    def __init__(self, schema: Schema, coders: Mapping[Name, Coder], found: Sequence[StructuralHole] = ()) -> None:
        self.found, self._schema = tuple(_in_order(found)), schema
        sources = {one.source for one in self.found}
        self._fields = {field.name: field for field in fields_of(schema, coders) if field.name in sources}

    @property
    def columns(self) -> list[Name]:
        """The columns that have structural holes."""
        return list(dict.fromkeys(one.column for one in self.found))

    def frame(self) -> pd.DataFrame:
        """A row for each column and source: ``column``, ``source``, ``values``, ``rows`` and ``elsewhere``."""
        rows = [(one.column, one.source, self._values(one), one.rows, one.elsewhere) for one in self.found]
        return pd.DataFrame(rows, columns=["column", "source", "values", "rows", "elsewhere"])

    def texts(self) -> list[str]:
        """A sentence without a full stop for each column and source."""
        return [f"{one.column!r} is {self.text(one)}" for one in self.found]

    def text(self, one: StructuralHole) -> str:
        """When a column has structural holes, as the rest of a sentence."""
        where = f"missing in all {one.rows:,} rows with {self._condition(one)}"
        return f"{where} and there in {one.elsewhere:.0%} of the others"

    def warn(self) -> None:
        """Warn that the holes stay, at the line outside of this package that called."""
        if self.found:
            more = f"; and {len(self.found) - _TOLD:,} more" if len(self.found) > _TOLD else ""
            problem = f"{'; '.join(self.texts()[:_TOLD])}{more}: rows drawn and imputed keep these holes"
            remedy = Pass("structural_missing", "fill", when="if there are values that were not recorded")
            warning = DataWarning("structural", problem, columns=self.columns, remedy=remedy, joint="; ")
            warn(warning)

    def agree(
        self,
        drawn: pd.DataFrame,
        cells: TableCells,
        holes: pd.DataFrame | None = None,
        *,
        recorded: bool = False,
    ) -> tuple[pd.DataFrame, dict[Name, np.ndarray]]:
        """Drawn rows whose sources agree with the cells that are there, by the most frequent value that does.

        Parameters
        ----------
        drawn : DataFrame
            N complete rows in the learnt dtypes.
        cells : TableCells
            The known cells of these rows.
        holes : DataFrame, optional
            The cells that are to be missing, bool ``[N, columns]``, in rows without known cells: all others are there.
        recorded : bool
            Whether unknown cells are holes of a table, not cells to be drawn: of those that all rows with other values
            of the source have, they tell that the source rules them out.

        Returns
        -------
        rows : DataFrame
            The rows.
        kept : dict
            Name of a source to its cells that must stay so, bool ``[N]``.
        """
        changed, kept = dict[Name, pd.Series](), dict[Name, np.ndarray]()
        for one in self.found if recorded or holes is not None else ():
            if one.elsewhere < _SURE:
                continue
            told = ~_there(cells, holes, one.column) & ~_known(cells, one.source)
            if holes is not None:
                told &= _there(cells, holes, one.source)
            for other in self.found:  # the hole may be explained already
                if other.column == one.column and other is not one:
                    told &= ~self._rules_out(other, changed.get(other.source, drawn[other.source]), cells)
            series = changed.get(one.source, drawn[one.source])
            rows = told & ~self._rules_out(one, series, cells)
            changed[one.source] = self._set(one.source, series, rows, one.without)
            kept[one.source] = kept.get(one.source, False) | told
        for one in self.found:  # a cell that is there tells more than a hole
            there = _there(cells, holes, one.column)
            series = changed.get(one.source, drawn[one.source])
            rows = there & self._rules_out(one, series, cells) & ~_known(cells, one.source)
            changed[one.source] = self._set(one.source, series, rows, one.likely)
            kept[one.source] = kept.get(one.source, False) | there
        return with_columns(drawn, changed), kept

    def missing(self, drawn: pd.DataFrame, cells: TableCells) -> dict[Name, np.ndarray]:
        """Which cells are to stay holes, bool ``[N]`` of each column that has structural holes.

        Parameters
        ----------
        drawn : DataFrame
            N complete rows in the learnt dtypes, after `agree`.
        cells : TableCells
            The known cells of these rows, which are used in place of the drawn ones and never become holes.
        """
        result = dict[Name, np.ndarray]()
        for one in self.found:
            rows = self._rules_out(one, drawn[one.source], cells)
            if one.source in result:  # of what is itself a hole nothing follows
                rows = rows & ~result[one.source]
            result[one.column] = result.get(one.column, False) | (rows & ~_known(cells, one.column))
        return result

    def blank(self, rows: pd.DataFrame, missing: Mapping[Name, np.ndarray]) -> pd.DataFrame:
        """The rows with holes where ``missing`` says so, bool ``[N]`` for each of some columns.

        A column of NumPy integers or booleans gets pandas' nullable dtype, with or without a hole in these rows.
        """
        return with_columns(rows, {name: without_cells(rows[name], cells) for name, cells in missing.items()})

    def state(self) -> list[dict[str, Any]]:
        """The structural holes as JSON; `read_structural` reads them back."""
        return [
            {"column": one.column, "source": one.source, "numbers": one.numbers.tolist(), "rows": one.rows}
            | {"elsewhere": one.elsewhere, "likely": one.likely, "without": one.without}
            for one in self.found
        ]

    def _set(self, source: Name, series: pd.Series, rows: np.ndarray, number: float) -> pd.Series:
        if not rows.any():
            return series
        array = series.array.copy()
        array[rows] = self._fields[source].values(np.full(int(rows.sum()), number))
        return as_series(array, series.index)

    def _rules_out(self, one: StructuralHole, series: pd.Series, cells: TableCells) -> np.ndarray:
        """Where the source, by its known or else its drawn cells, means that the column has no cell: bool ``[N]``."""
        field, known = self._fields[one.source], cells.observed(one.source)
        numbers = field.read_series(series)
        if known is not None:
            own = field.read(known)
            numbers = np.where(np.isnan(own), numbers, own)
        return np.isin(numbers, one.numbers)

    def _values(self, one: StructuralHole) -> list[Any]:
        values, censored = as_series(self._fields[one.source].values(one.numbers)), self._schema[one.source].censored
        return values.tolist() if censored is None else censored.write(values.to_numpy()).tolist()

    def _condition(self, one: StructuralHole) -> str:
        values = self._values(one)
        if len(values) == 1:
            return f"{one.source}={values[0]!r}"
        more = f" and {len(values) - _SHOWN:,} more" if len(values) > _SHOWN else ""
        return f"{one.source} in {', '.join(map(repr, values[:_SHOWN]))}{more}"


def read_structural(entries: Sequence[Mapping[str, Any]], schema: Schema) -> list[StructuralHole]:
    """What `StructuralHoles.state` wrote; ValueError if it is damaged."""
    try:
        found = [StructuralHole(**{**one, "numbers": np.array(one["numbers"], dtype=np.float64)}) for one in entries]
        vary = {*schema.continuous, *schema.categorical}
        fit = all(one.column in schema and one.source in vary and one.numbers.ndim == 1 for one in found)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"codec state is damaged: {type(error).__name__}: {error}") from error
    if not fit:
        raise ValueError("codec state is damaged: structural holes of columns that are not there")
    return found


def _there(cells: TableCells, holes: pd.DataFrame | None, name: Name) -> np.ndarray:
    """Which cells of a column are there: the known ones, or of rows with drawn holes all others."""
    return _known(cells, name) if holes is None else ~holes[name].to_numpy(dtype=bool)


def _known(cells: TableCells, name: Name) -> np.ndarray:
    known = cells.observed(name)
    return np.zeros(len(cells), dtype=bool) if known is None else ~known.missing


def _in_order(found: Sequence[StructuralHole]) -> list[StructuralHole]:
    """Those of a source after those of its own column; the rest, where they go in a circle, as they come."""
    left, ordered = list(found), list[StructuralHole]()
    while left:
        waiting = {one.column for one in left}
        ready = [one for one in left if one.source not in waiting] or left
        ordered += ready
        left = [one for one in left if one not in ready]
    return ordered
