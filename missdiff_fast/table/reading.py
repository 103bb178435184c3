"""The columns of a frame that has to have those that were learnt."""

from __future__ import annotations

import pandas as pd

from missdiff_fast.errors import Convert, DataError, DataTypeError, Do, Drop
from missdiff_fast.table.cells import Cells, Markers, RefusedError, read_cells
from missdiff_fast.table.dtypes import INSTANTS, NUMBERS, unit_of
from missdiff_fast.table.schema import Name, Refusals, Schema, check_frame


class Reader:
    """Reads a frame's columns one by one, from several threads too; what is wrong with them is told when all are read.

    Parameters
    ----------
    frame : DataFrame
        With the columns of the schema, in any order.
    schema : Schema
        What was learnt.
    markers : Markers
        What stands for a missing cell.
    partial : bool
        Whether columns may be absent.

    Raises
    ------
    TypeError, ValueError
        If ``frame`` is no DataFrame, or has other columns than the schema.
    """

    def __init__(self, frame: pd.DataFrame, schema: Schema, markers: Markers, *, partial: bool = False) -> None:
        names = check_frame(frame)
        extra = [name for name in names if name not in schema]
        if extra:
            drop = Drop(tuple(extra), what="them")
            raise DataError("columns", f"columns {extra} were not there in fit", columns=extra, remedy=drop)
        # Taken from the frame here, in one thread: pandas fills a cache as it looks columns up.
        self.columns = {name: series for name, (_, series) in zip(names, frame.items(), strict=True)}
        absent = [name for name in schema.names if name not in self.columns]
        if absent and not partial:
            add = Do("add them, with missing cells if they are not known")
            raise DataError("columns", f"columns {absent} are not in the table", columns=absent, remedy=add)
        self._schema, self._markers = schema, markers
        self._refused: dict[Name, RefusedError] = {}
        self._wrong: dict[Name, str] = {}

    def read(self, name: Name) -> Cells | None:
        """A column's cells; None if the frame has no such column, or one that cannot be taken."""
        if name not in self.columns:
            return None
        column, series = self._schema[name], self.columns[name]
        parse = "never" if column.family == "string" else "always" if column.parsed else "auto"
        unit = unit_of(column.dtype, column.family) if column.family in INSTANTS else None
        try:
            cells = read_cells(series, self._markers, parse=parse, unit=unit)
        except RefusedError as refused:
            self._refused[name] = refused
            return None
        if _agree(cells, column.family):
            return cells
        self._wrong[name] = (
            f"column {name!r} has {cells.family} cells (dtype {series.dtype}), but {column.family} "
            f"ones (dtype {column.dtype}) in fit"
        )
        return None

    def check(self) -> None:
        """Raise TypeError or ValueError that tells of all columns which could not be taken, if there is one."""
        refusals = Refusals()
        for name in self.columns:
            if name in self._refused:
                refusals.add(name, self._refused[name])
        refusals.raise_any()
        wrong = [self._wrong[name] for name in self.columns if name in self._wrong]
        if wrong:
            names = [name for name in self.columns if name in self._wrong]
            raise DataTypeError("family", "; ".join(wrong), columns=names, remedy=Convert("learnt"))


def _agree(cells: Cells, family: str) -> bool:
    """Whether cells can be encoded by a column of a family."""
    pair = {cells.family, family}
    return len(pair) == 1 or pair <= NUMBERS or pair <= {"date", "datetime"} or bool(cells.missing.all())
