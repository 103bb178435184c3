"""Reading a frame: each column once, into cells that learning, encoding, filling and checks share."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import numpy as np
import pandas as pd

from missdiff_fast._progress import progress_bar
from missdiff_fast.errors import DataError, DataTypeError, argument_error
from missdiff_fast.remedies import Convert, Do, Drop
from missdiff_fast.table.cells import ColumnCells, Markers, RefusedError
from missdiff_fast.table.dates import is_day_or_time
from missdiff_fast.table.dtypes import INSTANTS, NUMBERS, unit_of
from missdiff_fast.table.limit_reading import Limits, decimal_of
from missdiff_fast.table.limits import is_limit
from missdiff_fast.table.literals import read_numbers
from missdiff_fast.table.objects import is_mixed
from missdiff_fast.table.reading import read_cells
from missdiff_fast.table.schema import Column, Name, Refusals, Schema, as_names, check_frame
from missdiff_fast.table.threads import in_threads


@dataclass(frozen=True)
class TableCells:
    """The cells of a frame, each column read once.

    Made by `read_frame`, or for a fitted codec by `missdiff_fast.table.Codec.read`.

    Parameters
    ----------
    frame : DataFrame
        N rows. It must not be changed while its cells are in use: they may share its memory.
    columns : mapping
        Name to Series, in the frame's order.
    found : mapping
        Name to the cells of each column that could be read.
    refused : mapping
        Name to the fault of each column that could not be read.
    markers : Markers
        Values that counted as missing beside NaN, None, NaT and NA.
    categorical_columns, continuous_columns : frozenset
        Columns whose values are categories, or amounts, whatever their type and number.
    spelling : mapping
        How the frame writes categories that it writes otherwise than fit saw them: of each such column, learnt category
        to the frame's.
    """

    frame: pd.DataFrame
    columns: Mapping[Name, pd.Series]
    found: Mapping[Name, ColumnCells]
    refused: Mapping[Name, RefusedError]
    markers: Markers
    categorical_columns: frozenset[Name] = frozenset()
    continuous_columns: frozenset[Name] = frozenset()
    spelling: Mapping[Name, Mapping[str, str]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.frame)

    def observed(self, name: Name) -> ColumnCells | None:
        """A column's cells; None if it is absent or none of its cells is observed."""
        cells = self.found.get(name)
        return None if cells is None or cells.missing.all() else cells

    def without(self, names: Collection[Name]) -> TableCells:
        """The cells of the other columns."""
        if not names:
            return self
        left = [name for name in self.columns if name not in names]
        return replace(
            self,
            frame=self.frame[left],
            columns={name: self.columns[name] for name in left},
            found={name: cells for name, cells in self.found.items() if name not in names},
            refused={name: fault for name, fault in self.refused.items() if name not in names},
        )

    def take(self, places: np.ndarray) -> TableCells:
        """The cells of the rows at these places, int ``[M]``."""
        found = {name: cells.take(places) for name, cells in self.found.items()}
        return replace(self, frame=self.frame.iloc[places], found=found)

    def check(self) -> None:
        """Raise TypeError or ValueError that names all columns that could not be read, if there is one."""
        refusals = Refusals()
        for name, refused in self.refused.items():
            refusals.add(name, refused)
        refusals.raise_any()


def read_frame(
    frame: pd.DataFrame,
    *,
    categorical_columns: Sequence[Name] | None = None,
    missing_values: Sequence[object] = (),
    treatments: Mapping[Name, str] = MappingProxyType({}),
    verbose: bool = False,
) -> TableCells:
    """Read a frame whose columns are still to be learnt.

    Texts that are numbers and limits such as ``<0.1`` are read as numbers (see `missdiff_fast.table.limits`).

    Parameters
    ----------
    frame : DataFrame
        The table, with missing cells as NaN, None, NaT or NA.
    categorical_columns : sequence of str or int, optional
        Columns whose strings stay strings even if all are numbers.
    missing_values : sequence of str or number
        Further values that mark a missing cell: strings among strings, and among the dates, times and durations that
        they write; numbers among numbers. Where all other strings of a column are numbers, the column is read as
        numbers.
    treatments : mapping
        What columns are to be treated as, by name: limits are read in those that are continuous or not named.
    verbose : bool
        Whether to show progress on stderr, where that is a terminal and it takes more than two seconds.

    Returns
    -------
    TableCells
        Columns that cannot be read are in ``refused``; `TableCells.check` and `missdiff_fast.table.Codec.fit` raise
        for them.

    Raises
    ------
    TypeError, ValueError
        ``frame`` is no DataFrame or repeats a name; another argument is of a wrong type or names no column.

    Examples
    --------
    >>> cells = read_frame(pd.DataFrame({"age": ["31", "?", "27"]}), missing_values=["?"])
    >>> cells.found["age"].family, cells.found["age"].missing.tolist()
    ('integer', [False, True, False])
    """
    names = check_frame(frame)
    chosen = _check_chosen(as_names(categorical_columns), names)
    markers = Markers.of(missing_values)

    decimal = decimal_of(frame)

    def read(name: Name, series: pd.Series) -> ColumnCells:
        if name in chosen:
            return read_cells(series, markers, parse="never")
        treatment = treatments.get(name)
        limits: Limits = "auto" if treatment is None else "chosen" if treatment == "continuous" else "never"
        return read_cells(series, markers, limits=limits, decimal=decimal)

    columns = _columns(frame, names)
    found, refused = _read_columns(columns, read, len(frame), verbose)
    return TableCells(frame, columns, found, refused, markers, chosen)


def read_learnt(
    frame: pd.DataFrame, schema: Schema, markers: Markers, *, partial: bool = False, verbose: bool = False
) -> TableCells:
    """Read a frame that has the columns of a schema; see `missdiff_fast.table.Codec.read`."""
    names = check_frame(frame)
    extra = [name for name in names if name not in schema]
    if extra:
        drop = Drop(tuple(extra), what="them")
        raise DataError("columns", f"columns {extra} were not there in fit", columns=extra, remedy=drop)
    columns = _columns(frame, names)
    absent = [name for name in schema.names if name not in columns]
    if absent and not partial:
        add = Do("add them, with missing cells if they are not known")
        raise DataError("columns", f"columns {absent} are not in the table", columns=absent, remedy=add)

    def read(name: Name, series: pd.Series) -> ColumnCells:
        column = schema[name]
        parse = "never" if column.family == "string" else "always" if column.parsed else "auto"
        unit = unit_of(column.dtype, column.family) if column.family in INSTANTS else None
        if column.censored is not None:
            # The table may have another decimal mark than that of fit.
            own = decimal_of(frame) or (None if is_mixed(series) else column.censored.decimal)
            cells = read_cells(series, markers, parse="never", limits="learnt", decimal=own)
            if cells.family == "string":
                cells = read_cells(series, markers, parse="never", limits="learnt")
            return cells
        return read_cells(series, markers, parse=parse, unit=unit)

    cells = TableCells(frame, columns, *_read_columns(columns, read, len(frame), verbose), markers)
    cells.check()
    wrong = {
        name: f"column {name!r} has {found.family} cells (dtype {columns[name].dtype}), but {schema[name].family} "
        f"ones (dtype {schema[name].dtype}) in fit{_odd(found)}"
        for name, found in cells.found.items()
        if not _agree(found, schema[name])
    }
    if wrong:
        raise DataTypeError("family", "; ".join(wrong.values()), columns=list(wrong), remedy=Convert("learnt"))
    return cells


def _check_chosen(columns: Sequence[Name] | None, names: Sequence[Name]) -> frozenset[Name]:
    unknown = [name for name in columns or () if name not in names]
    if unknown:
        rule = f"names {unknown}, not in the table; it has {names}"
        raise argument_error("categorical_columns", rule, unknown, kind="columns")
    return frozenset(columns or ())


def _columns(frame: pd.DataFrame, names: Sequence[Name]) -> dict[Name, pd.Series]:
    """The frame's columns, taken in one thread: pandas fills a cache as it looks columns up."""
    return {name: series for name, (_, series) in zip(names, frame.items(), strict=True)}


def _read_columns(
    columns: Mapping[Name, pd.Series], read: Callable[[Name, pd.Series], ColumnCells], rows: int, verbose: bool
) -> tuple[dict[Name, ColumnCells], dict[Name, RefusedError]]:
    """The cells of each column, and the fault of each that cannot be read, both in the order of the columns."""

    def attempt(name: Name) -> ColumnCells | RefusedError:
        try:
            return read(name, columns[name])
        except RefusedError as refused:
            return refused

    found, refused = dict[Name, ColumnCells](), dict[Name, RefusedError]()
    with progress_bar(total=len(columns), desc="reading columns", unit="column", verbose=verbose) as bar:
        for name, result in zip(columns, in_threads(attempt, list(columns), rows), strict=True):
            if isinstance(result, RefusedError):
                refused[name] = result
            else:
                found[name] = result
            bar.update()
    return found, refused


def _odd(cells: ColumnCells) -> str:
    """The first of the texts that make strings of a column; "" if there is none."""
    texts = cells.distinct[0].tolist() if cells.family == "string" else []
    plain = (read_numbers([text.strip()]) is not None or is_day_or_time(text) for text in texts)
    others = [text for text, one in zip(texts, plain, strict=True) if not one]
    odd = next((text for text in others if not is_limit(text.strip())), others[0] if others else None)
    return "" if odd is None else f", and {odd!r} is none"


def _agree(cells: ColumnCells, column: Column) -> bool:
    """Whether cells can be encoded by a learnt column. Where all are missing they may be of any family."""
    pair = {cells.family, column.family}
    return len(pair) == 1 or pair <= NUMBERS or pair <= {"date", "datetime"} or bool(cells.missing.all())
