"""Kinds of frames: pandas, polars and pyarrow, each to pandas and back."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from types import ModuleType
from typing import Any, TypeAlias

import pandas as pd
import pyarrow as pa

from missdiff_fast._frames.columns import Cells, arrow_of_objects, as_arrow, as_plain, is_plain, objects_of, without_nan
from missdiff_fast.errors import DataTypeError
from missdiff_fast.remedies import LIBRARY, Do

Frame: TypeAlias = Any
"""A pandas or polars DataFrame, or a pyarrow Table; results are of the kind of the argument."""

Name = str | int
KINDS = ("pandas", "polars", "pyarrow")
_OBJECT = {b"missdiff": b"object"}  # metadata of a pandas column of Python objects
_WIDE = ("Int128", "UInt128")  # of polars, for which Arrow has no type


@dataclass(frozen=True)
class Kind:
    """The kind of a frame, and what its columns were where pandas has another dtype for them.

    Parameters
    ----------
    name : {"pandas", "polars", "pyarrow"}
        The library.
    fields : mapping
        Column to its field in Arrow: of pandas, the columns that `as_plain` changed; else, all.
    metadata : mapping, optional
        That of a pyarrow Table.

    Examples
    --------
    >>> table = pa.table({"count": pa.array([1, None, 3], pa.int16()), "price": pa.array([1.5, 2.5, None])})
    >>> frame, kind = to_pandas(table)
    >>> kind.name, kind.give(frame).equals(table)
    ('pyarrow', True)
    """

    name: str = "pandas"
    fields: Mapping[Name, pa.Field] = field(default_factory=dict)
    metadata: Mapping[bytes, bytes] | None = None

    @property
    def bare(self) -> Kind:
        """The kind for frames of other columns."""
        return Kind(self.name)

    def named(self, name: str) -> Kind:
        """Another kind, for the same columns."""
        if name not in KINDS:
            raise ValueError(f"a frame cannot be of kind {name!r}: the kinds are {', '.join(KINDS)}")
        if name == self.name:
            return self
        fields = self.fields
        if name == "pandas":  # which has categories, and objects for columns without cells, of its own
            own = pa.types.is_dictionary, pa.types.is_null
            fields = {column: one for column, one in fields.items() if not any(test(one.type) for test in own)}
        return replace(self, name=name, fields=fields, metadata=None)

    def give(self, frame: pd.DataFrame, original: object = None) -> Frame:
        """A frame of this kind with the cells ``[N, D]`` of one of pandas.

        Parameters
        ----------
        frame : DataFrame
            Of pandas.
        original : DataFrame, optional
            What `to_pandas` got, row for row: its Python objects stay, where they are not missing in ``frame``.

        Raises
        ------
        ImportError
            The library is not installed.
        """
        if self.name == "pandas":
            known = original if isinstance(original, pd.DataFrame) else pd.DataFrame()
            names = [name for name in self.fields if name in frame.columns]
            changed = {name: self._restored(frame[name], name, known.get(name)) for name in names}
            return _with(frame, {name: column for name, column in changed.items() if column is not None})
        columns = {str(name): as_arrow(column, self._type(name, column)) for name, column in frame.items()}
        fields = [self._field(name, columns[str(name)]) for name in frame.columns]
        table = pa.Table.from_arrays(list(columns.values()), schema=pa.schema(fields))
        if self.name == "polars":
            return _to_polars(table)
        return table.replace_schema_metadata(self.metadata if len(self.fields) == len(fields) else None)

    def give_column(self, column: pd.Series) -> Any:
        """A column of this kind: a Series, or a pyarrow ChunkedArray, of the cells ``[N]`` of a pandas Series."""
        if self.name == "pandas":
            return column
        cells = pa.chunked_array([pa.array(column, from_pandas=True)])
        return _polars().from_arrow(cells).rename(str(column.name)) if self.name == "polars" else cells

    def dtype(self, name: Name, other: str) -> str:
        """The dtype of a column in its own library, for people; ``other`` of one that is the same in pandas."""
        if name not in self.fields:
            return other
        if self.name == "polars":
            dtype = _to_polars(pa.schema([self.fields[name]]).empty_table()).dtypes[0]
            return "Enum" if str(dtype).startswith("Enum") else str(dtype)  # without its categories
        kind = self.fields[name].type
        if self.name == "pyarrow":
            return str(kind)
        return "object" if self.fields[name].metadata == _OBJECT else str(pd.ArrowDtype(kind))

    def state(self) -> dict[str, Any] | None:
        """As JSON, which `from_state` reads; None for a frame that is as pandas has it."""
        if self == Kind():
            return None
        schema = pa.schema(list(self.fields.values()), metadata=self.metadata).serialize().to_pybytes()
        return {"name": self.name, "columns": list(self.fields), "schema": base64.b64encode(schema).decode("ascii")}

    @classmethod
    def from_state(cls, state: Mapping[str, Any] | None) -> Kind:
        """From what `state` gave, pandas for None; ValueError, TypeError or KeyError if it does not hold together."""
        if state is None:
            return cls()
        schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(state["schema"], validate=True)))
        kind = cls(fields=dict(zip(state["columns"], schema, strict=True))).named(state["name"])
        return replace(kind, metadata=schema.metadata)

    def _restored(self, column: pd.Series, name: Name, original: pd.Series | None) -> pd.Series | None:
        """A column as pandas had it; None where it is that already."""
        kind = self.fields[name].type
        if self.fields[name].metadata == _OBJECT:
            cells = objects_of(column, kind)
            if original is not None:  # Decimals that are equal may differ in digits
                same = original.isna().to_numpy() == column.isna().to_numpy()
                cells[same] = original.to_numpy(dtype=object)[same]
            return pd.Series(cells, index=column.index, dtype="object")
        if not is_plain(kind):
            return pd.Series(pd.arrays.ArrowExtensionArray(as_arrow(column, kind)), index=column.index)
        return None

    def _type(self, name: Any, column: pd.Series) -> pa.DataType:
        if name in self.fields:
            return self.fields[name].type
        return pa.array(column, from_pandas=True).type

    def _field(self, name: Any, cells: Cells) -> pa.Field:
        """The field of a column; a plain one if its type had to change, nullable if it has missing cells."""
        known = self.fields.get(name)
        if known is None or known.type != cells.type:
            return pa.field(str(name), cells.type)
        return known.with_nullable(known.nullable or cells.null_count > 0)


def to_pandas(X: object) -> tuple[Any, Kind]:
    """A frame as one of pandas, and its kind; anything else as it is, for the checks of frames.

    Parameters
    ----------
    X : object
        A DataFrame ``[N, D]`` of pandas or polars, a pyarrow Table, or another frame with Arrow's PyCapsule interface,
        which counts as a Table.

    Raises
    ------
    TypeError
        A column of polars has a type that Arrow lacks.

    Examples
    --------
    >>> frame, kind = to_pandas(pa.table({"ward": pa.array(["a", "b"]).dictionary_encode()}))
    >>> str(frame["ward"].dtype), kind.give(frame)["ward"].type.value_type
    ('category', DataType(string))
    """
    if isinstance(X, pd.DataFrame):
        LIBRARY.set("pandas")
        return _from_pandas(X)
    library = "polars" if _is_polars(X) else "pyarrow"
    table = _as_table(X)
    if table is None:
        return X, Kind()
    LIBRARY.set(library)
    fields = dict(zip(table.column_names, table.schema, strict=True))
    if len(fields) < table.num_columns:
        return table.to_pandas(ignore_metadata=True), Kind()  # refused: names come twice
    columns = {name: as_plain(table[name]) for name in fields}
    frame = pd.DataFrame(columns, index=pd.RangeIndex(table.num_rows), copy=False)
    return frame, Kind(library, fields, table.schema.metadata)


def all_to_pandas(*frames: object) -> list[Any]:
    """Frames as those of pandas, where their kinds are not needed; see `to_pandas`."""
    return [to_pandas(frame)[0] for frame in frames]


def _from_pandas(frame: pd.DataFrame) -> tuple[pd.DataFrame, Kind]:
    if not frame.columns.is_unique:
        return frame, Kind()  # refused
    columns: dict[Any, pd.Series] = {}
    fields: dict[Any, pa.Field] = {}
    for name, column in frame.items():
        cells, metadata = None, None
        if isinstance(column.dtype, pd.ArrowDtype):
            kind = column.dtype.pyarrow_dtype
            if not is_plain(kind):
                cells = _chunks(column)
            elif pa.types.is_floating(kind) and (chunks := _chunks(column)) is not (found := without_nan(chunks)):
                columns[name] = pd.Series(pd.arrays.ArrowExtensionArray(found), index=frame.index)
        elif column.dtype == object:
            cells, metadata = arrow_of_objects(column), _OBJECT
        if cells is not None:
            columns[name] = as_plain(cells).set_axis(frame.index)
            fields[name] = pa.field(str(name), cells.type, metadata=metadata)
    return _with(frame, columns), Kind(fields=fields)


def _with(frame: pd.DataFrame, columns: Mapping[Any, pd.Series]) -> pd.DataFrame:
    """The frame with other columns of the same names; not written to."""
    if not columns:
        return frame
    changed = frame.copy(deep=False)
    for name, column in columns.items():
        changed[name] = column
    return changed


def _chunks(column: pd.Series) -> Cells:
    cells = pa.array(column)
    return cells if isinstance(cells, pa.ChunkedArray) else pa.chunked_array([cells])


def _as_table(X: Any) -> pa.Table | None:
    """A frame as a Table of Arrow; None if it is none."""
    if _is_polars(X):
        if not hasattr(X, "get_column_index"):  # a LazyFrame or a Series
            return None
        for name, dtype in X.schema.items():
            if str(dtype) in _WIDE:
                problem = f"column {name!r} ({dtype}) can't be taken"
                raise DataTypeError("unsupported", problem, columns=[name], remedy=Do("cast it to Int64"))
        return X.to_arrow()
    if isinstance(X, (pa.Table, pa.RecordBatch)) or hasattr(X, "__arrow_c_stream__"):
        try:
            return pa.table(X)
        except (pa.ArrowException, TypeError, ValueError):  # a column
            return None
    return None


def _is_polars(X: object) -> bool:
    return type(X).__module__.partition(".")[0] == "polars"


def _polars() -> ModuleType:
    try:
        return import_module("polars")
    except ImportError as error:
        raise ImportError(
            "this result is a polars DataFrame, as fit saw one, and polars is not installed: pip install polars, or "
            "set model.frame_kind_ = 'pandas'"
        ) from error


def _to_polars(table: pa.Table) -> Any:
    """A frame of polars. An Enum is cast to, for polars would take its metadata for the categories."""
    polars = _polars()
    wanted = polars.from_arrow(table.schema.empty_table()).schema
    fields = [one.remove_metadata() for one in table.schema]
    frame = polars.from_arrow(pa.Table.from_arrays(table.columns, schema=pa.schema(fields)))
    for name, dtype in wanted.items():
        if frame.schema[name] != dtype:
            try:
                frame = frame.with_columns(polars.col(name).cast(dtype))
            except polars.exceptions.PolarsError:
                continue  # a category that the Enum lacks: the column keeps its own
    return frame
