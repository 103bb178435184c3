"""Columns that are set aside: identifiers, free text, and columns without an observed cell. No network learns them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from missdiff_fast.errors import DataError, DataWarning, argument_error, warn
from missdiff_fast.remedies import CapCategories, Convert, Do, Drop, Remedy, Treat
from missdiff_fast.table.cells import ColumnCells, Markers
from missdiff_fast.table.columns import are_whole
from missdiff_fast.table.dtypes import (
    NUMBERS,
    Dtype,
    as_frame,
    as_series,
    dtype_from_json,
    dtype_to_json,
    key_dtype,
    restore,
)
from missdiff_fast.table.fresh import Fresh
from missdiff_fast.table.given import in_dtype
from missdiff_fast.table.identifiers import are_identifiers, differ, is_identifier
from missdiff_fast.table.limit_reading import decimal_of
from missdiff_fast.table.limits import is_limit
from missdiff_fast.table.odd_texts import listed, texts_among_numbers
from missdiff_fast.table.schema import Column, Name, check_frame
from missdiff_fast.table.table_cells import TableCells

TREATMENTS = ("continuous", "categorical", "identifier", "text")
FREE_TEXT = 10_000  # distinct texts
_MOST_ROWS = 1_000_000  # for which a dtype must hold fresh identifiers


@dataclass(frozen=True)
class Aside:
    """A column that is set aside.

    Parameters
    ----------
    name : str or int
        As in the frame.
    kind : {"identifier", "text", "empty"}
        Rows that are drawn have fresh identifiers, no text, and an empty column.
    dtype : dtype
        Of the drawn column.
    seen : str
        What was seen in the column, for people.
    fresh : Fresh, optional
        The format of identifiers.
    distinct : bool, optional
        Whether no two observed identifiers are the same; None where a model file of an earlier version does not tell.
    """

    name: Name
    kind: str
    dtype: Dtype
    seen: str
    fresh: Fresh | None = None
    distinct: bool | None = None

    @property
    def column(self) -> Column:
        """The column as a schema would have it; identifiers that are numbers are integers."""
        whole = self.fresh is not None and self.fresh.whole
        return Column(self.name, self.kind, self.dtype, "integer" if whole else "string")

    def draw(self, rows: np.ndarray) -> pd.Series:
        """The cells of rows with these numbers, int64 ``[B]``: fresh identifiers, or missing cells."""
        if self.fresh is None:
            return pd.Series([None] * len(rows), dtype=self.dtype)
        texts: list[Any] = [self.fresh.text(row) for row in rows.tolist()]
        if not self.fresh.whole:
            return pd.Series(texts, dtype=self.dtype)
        keys = np.array([int(text) for text in texts], dtype=object)
        if self.dtype != np.dtype(object):
            keys = keys.astype(key_dtype(self.dtype, _family(self.dtype)))
        return as_series(restore(keys, self.dtype, "integer"))

    def known_first(self, known: pd.Series, drawn: pd.Series) -> pd.Series:
        """Known cells, and drawn ones where none is known; ValueError if an identifier does not fit its dtype."""
        if self.fresh is None:
            return known
        seen = known.notna().to_numpy()
        if not seen.any():
            return drawn
        given = in_dtype(known[seen].rename(self.name), self.column)
        if seen.all():
            return given
        cells = drawn.copy()
        cells[seen] = given
        return cells

    def state(self) -> dict[str, Any]:
        """As JSON, which `Asides.from_state` reads."""
        fresh = None if self.fresh is None else self.fresh.state()
        plain = {"name": self.name, "kind": self.kind, "seen": self.seen}
        return {**plain, "dtype": dtype_to_json(self.dtype), "fresh": fresh, "distinct": self.distinct}


@dataclass(frozen=True)
class Asides:
    """The columns of a table that are set aside, and where they stand.

    Parameters
    ----------
    columns : tuple of str or int
        All columns of the table, in its order.
    found : mapping
        Name to each column that is set aside.

    Examples
    --------
    >>> from missdiff_fast.table import read_frame
    >>> ids = [f"P{number:03}" for number in range(40)]
    >>> frame = pd.DataFrame({"id": ids, "sex": ["f", "m"] * 20, "x": [None] * 40})
    >>> asides = Asides.find(read_frame(frame), {}, max_categories=100)
    >>> {name: aside.kind for name, aside in asides.found.items()}
    {'id': 'identifier', 'x': 'empty'}
    >>> asides.complete(pd.DataFrame({"sex": ["m", "f"]}), first_row=5)
         id sex     x
    0  P045   m  None
    1  P046   f  None
    """

    columns: tuple[Name, ...]
    found: Mapping[Name, Aside]

    @classmethod
    def find(cls, cells: TableCells, treatments: Mapping[Name, str], *, max_categories: int) -> Asides:
        """Find the columns to set aside in a table that is to be learnt.

        Parameters
        ----------
        cells : TableCells
            The table.
        treatments : mapping
            Name to one of `TREATMENTS`, where it is not to be found out.
        max_categories : int
            Texts of more distinct ones, and of more than `FREE_TEXT`, are set aside as free text.

        Raises
        ------
        ValueError
            A treatment that is not known or does not suit its column, or names no column.
        """
        _check(treatments, cells)
        found, decimal = {}, decimal_of(cells.frame)
        for name in cells.columns:
            chosen = treatments.get(name, "categorical" if name in cells.categorical_columns else "")
            if name in cells.found:
                column = replace(cells.found[name])  # its caches are freed with it
                aside = _aside(name, cells.columns[name].dtype, column, chosen, max_categories, cells.markers, decimal)
            else:
                aside = Aside(name, "text", np.dtype(object), "as set") if chosen == "text" else None
            if aside is not None:
                found[name] = aside
        return cls(tuple(cells.columns), found)

    def check_any_learnt(self) -> None:
        """Raise ValueError if all columns are set aside."""
        if not self.found or len(self.found) < len(self.columns):
            return
        if all(aside.kind == "empty" for aside in self.found.values()):
            raise ValueError("no cell of the frame is observed: give a table with observed cells")
        each = ", ".join(f"{name!r} is {aside.kind}" for name, aside in self.found.items())
        problem, remedy = f"no column can be learnt: {each}", Do("give columns of other kinds, or other treatments")
        raise DataError("aside", problem, columns=list(self.found), remedy=remedy, joint="; ")

    def check_learnt(self, column: Name) -> None:
        """Raise ValueError for a column that is set aside."""
        if column in self.found:
            problem = f"column {column!r} is not learnt, it is {self.found[column].kind}"
            remedy = Do("name a column that is learnt")
            raise DataError("kind", problem, columns=[column], remedy=remedy)

    def warn(self, treatments: Mapping[Name, str]) -> None:
        """Warn of the columns whose treatment was not set, at the line outside of this package that called."""
        for kind in _WARNINGS:
            columns = [one for one in self.found.values() if one.kind == kind and one.name not in treatments]
            if columns:
                warn(_warning(kind, columns))

    def learnt(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The frame's other columns; errors of `missdiff_fast.table.schema.check_frame`."""
        if not self.found:
            return frame
        check_frame(frame)
        return frame.drop(columns=[name for name in frame.columns if name in self.found])

    def complete(self, rows: pd.DataFrame, given: pd.DataFrame | None = None, *, first_row: int = 0) -> pd.DataFrame:
        """Drawn rows with the columns that are set aside: fresh identifiers and empty columns, no text.

        Parameters
        ----------
        rows : DataFrame
            B rows of the learnt columns, which are numbered from ``first_row`` on.
        given : DataFrame, optional
            B rows of known cells; those of columns that are set aside, text too, stay as they are.
        first_row : int
            Row i has the identifier number i, whatever the seed.
        """
        if not self.found:
            return rows
        numbers = np.arange(first_row, first_row + len(rows))
        columns = {}
        for name in self.columns:
            known = given[name] if given is not None and name in self.found and name in given else None
            if name not in self.found:
                columns[name] = rows[name]
            elif known is not None or self.found[name].kind != "text":
                drawn = self.found[name].draw(numbers).set_axis(rows.index)
                known = None if known is None else known.set_axis(rows.index)
                columns[name] = drawn if known is None else self.found[name].known_first(known, drawn)
        return as_frame(columns, rows.index)

    def carry(self, filled: pd.DataFrame, frame: pd.DataFrame) -> pd.DataFrame:
        """A table whose learnt columns are filled, with the other columns of the frame as they are, in its order."""
        if not any(name in self.found for name in frame.columns):
            return filled
        columns = {name: frame[name] if name in self.found else filled[name] for name in frame.columns}
        result = as_frame(columns, filled.index)
        result.columns = frame.columns
        return result

    def texts(self) -> list[Name]:
        """The columns whose cells are texts."""
        return [name for name, aside in self.found.items() if aside.kind != "empty" and aside.column.family == "string"]

    def frame(self) -> pd.DataFrame:
        """A row for each column that is set aside: ``column``, ``kind`` and ``seen``."""
        rows = [(aside.name, aside.kind, aside.seen) for aside in self.found.values()]
        return pd.DataFrame(rows, columns=["column", "kind", "seen"])

    def state(self) -> dict[str, Any]:
        """As JSON, which `from_state` reads."""
        return {"columns": list(self.columns), "found": [aside.state() for aside in self.found.values()]}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Asides:
        """From what `state` gave; ValueError, TypeError or KeyError if it does not hold together."""
        found = {}
        for entry in state["found"]:
            fresh = None if entry["fresh"] is None else Fresh.from_state(entry["fresh"])
            dtype, distinct = dtype_from_json(entry["dtype"]), entry.get("distinct")
            aside = Aside(entry["name"], entry["kind"], dtype, entry["seen"], fresh, distinct)
            if aside.kind not in _WARNINGS or (aside.kind == "identifier") == (fresh is None):
                raise ValueError(f"column {aside.name!r} is set aside as {aside.kind!r}")
            found[aside.name] = aside
        columns = tuple(state["columns"])
        if not found.keys() <= set(columns) or len(found) < len(state["found"]):
            raise ValueError("the columns that are set aside do not hold together")
        return cls(columns, found)


def _check(treatments: Mapping[Name, str], cells: TableCells) -> None:
    """Raise ValueError that names the column where a treatment cannot be followed."""
    unknown = [name for name in treatments if name not in cells.columns]
    if unknown:
        rule = f"names {unknown}, not in the table; it has {list(cells.columns)}"
        raise argument_error("treatments", rule, unknown, kind="columns")
    for name, treatment in treatments.items():
        if treatment not in TREATMENTS:
            rule = f"gives column {name!r} the treatment {treatment!r}: the known ones are {', '.join(TREATMENTS)}"
            raise argument_error("treatments", rule, treatment)
        if name in cells.categorical_columns and treatment != "categorical":
            rule = f"makes column {name!r} {treatment}, and categorical_columns names it: give one of them"
            raise argument_error("treatments", rule, treatment, kind="twice")
        found = cells.found.get(name)
        if found is None or found.missing.all():
            continue
        category = isinstance(cells.columns[name].dtype, pd.CategoricalDtype)
        if treatment == "continuous":
            suits, needs = not category and found.family not in ("string", "boolean"), "numbers, dates or durations"
        elif treatment == "identifier":
            whole = found.family in NUMBERS and are_whole(found.observed) and found.observed.min() >= 0
            suits, needs = found.family == "string" or whole, "texts or whole numbers from 0 on"
        else:
            continue
        if not suits:
            has = "categories" if category else f"{found.family} cells"
            if found.family == "string" and treatment == "continuous":
                texts = dict(zip(*(part.tolist() for part in found.distinct), strict=True))
                odd = {text: n for text, n in texts_among_numbers(texts).items() if not is_limit(text.strip())}
                has += f", {listed(odd)} among numbers" if odd else ""
            problem = f"column {name!r} cannot be {treatment}: it has {has}"
            remedy = Do(f"give it another treatment, or {needs}")
            raise DataError("treatments", problem, columns=[name], value=treatment, remedy=remedy)


def _aside(
    name: Name,
    dtype: Dtype,
    cells: ColumnCells,
    chosen: str,
    max_categories: int,
    markers: Markers,
    decimal: str | None,
) -> Aside | None:
    """How a column is set aside; None if it is learnt."""
    if isinstance(dtype, pd.CategoricalDtype) and (cells.family == "string" or chosen or cells.missing.all()):
        dtype = dtype.categories.dtype  # without the categories, which are the table's own
    if cells.missing.all():
        return Aside(name, "empty", _holding_missing(dtype), "no observed cell")
    if chosen in ("continuous", "categorical"):
        return None
    if chosen == "text":
        return Aside(name, "text", np.dtype(object), "as set")
    observed = int(np.count_nonzero(~cells.missing))
    if cells.family == "string":
        texts = cells.distinct[0].tolist()
        seen = f"{len(texts):,} distinct texts in {observed:,} cells"
        if any(texts) and (chosen == "identifier" or are_identifiers(name, texts, observed)):
            fresh = Fresh.of(texts, avoid=markers.strings)
            return Aside(name, "identifier", dtype, seen, fresh, len(texts) == observed)
        if texts_among_numbers(dict(zip(texts, cells.distinct[1].tolist(), strict=True)), decimal):
            return None  # limits or marks among numbers: their user must say what they are
        free = differ(len(texts), observed) or len(texts) > max(FREE_TEXT, max_categories)
        return Aside(name, "text", np.dtype(object), seen) if free else None
    if cells.family not in NUMBERS or isinstance(dtype, pd.CategoricalDtype):
        return None
    distinct = cells.distinct[0]
    if chosen == "identifier" or is_identifier(name, cells.observed, len(distinct)):
        seen = f"{len(distinct):,} distinct whole numbers in {observed:,} cells"
        avoid = [str(int(number)) for number in markers.numbers if number == number // 1 and number >= 0]
        fresh = Fresh.of([str(int(number)) for number in distinct.tolist()], whole=True, avoid=avoid)
        dtype = _holding(pd.Int64Dtype() if cells.parsed else dtype, fresh)
        return Aside(name, "identifier", dtype, seen, fresh, len(distinct) == observed)
    return None


def _holding(dtype: Dtype, fresh: Fresh) -> Dtype:
    """The dtype if it holds a million fresh identifiers exactly, else one that does."""
    if dtype == np.dtype(object):
        return dtype
    most = max(int(fresh.text(0)), int(fresh.text(_MOST_ROWS)))
    kind = np.dtype(key_dtype(dtype, "integer")) if isinstance(dtype, pd.ArrowDtype) else np.dtype(str(dtype).lower())
    reach = 2 ** (np.finfo(kind).nmant + 1) if kind.kind == "f" else np.iinfo(kind).max
    if most <= reach:
        return dtype
    plain = isinstance(dtype, np.dtype) and dtype.kind in "iu"
    if most <= np.iinfo(np.int64).max:
        return np.dtype(np.int64) if plain else pd.Int64Dtype()
    return np.dtype(object)


def _holding_missing(dtype: Dtype) -> Dtype:
    """A dtype of the same kind that holds missing cells, and that a model file can name."""
    if isinstance(dtype, np.dtype) and dtype.kind in "iub":
        return pd.Series(dtype=dtype).convert_dtypes().dtype
    try:
        dtype_to_json(dtype)
    except TypeError:
        return np.dtype(object)
    return dtype


def _family(dtype: Dtype) -> str:
    return "float" if pd.api.types.is_float_dtype(dtype) else "integer"


# Of one column, and of several.
_WARNINGS = {
    "identifier": (
        "looks like an identifier, so it is not learnt: rows drawn have fresh ones, never one of the table's",
        "look like identifiers, so they are not learnt: rows drawn have fresh ones, never one of the table's",
    ),
    "text": (
        "holds free text, so it is not learnt: rows drawn lack it, and imputed tables keep it as it is",
        "hold free text, so they are not learnt: rows drawn lack them, and imputed tables keep them as they are",
    ),
    "empty": (
        "has no observed cell, so it is not learnt: it stays missing in rows drawn and in imputed tables",
        "have no observed cell, so they are not learnt: they stay missing in rows drawn and in imputed tables",
    ),
}


def _warning(kind: str, columns: Sequence[Aside]) -> DataWarning:
    several = len(columns) > 1
    each = ", ".join(f"{aside.name!r}" + ("" if kind == "empty" else f" ({aside.seen})") for aside in columns)
    problem = f"column{'s' if several else ''} {each} {_WARNINGS[kind][several]}"
    names = [aside.name for aside in columns]
    return DataWarning(kind, problem, columns=names, remedy=_remedies(kind, columns), joint="; ")


def _remedies(kind: str, columns: Sequence[Aside]) -> list[Remedy]:
    names = tuple(aside.name for aside in columns)
    if kind == "empty":
        return [Drop(names, when="to silence this")]
    learnt = {one.name: "continuous" if one.column.family == "integer" else "categorical" for one in columns}
    if kind == "identifier":
        return [Treat(learnt, when="to learn them all the same" if len(names) > 1 else "to learn it all the same")]
    return [Convert("datetime", when="if it holds dates"), CapCategories(), Drop(names, when="to silence this")]
