"""Parquet and Feather files, and Arrow tables as frames."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as parquet

from missdiff_fast.errors import warn
from missdiff_fast.table.formats.base import Format
from missdiff_fast.table.objects import as_column
from missdiff_fast.table.sources import Reading, ReadOptions, Source

_NULLABLE: dict[Any, Any] = {
    pa.int8(): pd.Int8Dtype(),
    pa.int16(): pd.Int16Dtype(),
    pa.int32(): pd.Int32Dtype(),
    pa.int64(): pd.Int64Dtype(),
    pa.uint8(): pd.UInt8Dtype(),
    pa.uint16(): pd.UInt16Dtype(),
    pa.uint32(): pd.UInt32Dtype(),
    pa.uint64(): pd.UInt64Dtype(),
    pa.bool_(): pd.BooleanDtype(),
}


def read(source: Source, options: ReadOptions) -> Reading:
    """Read a Parquet or Feather file, with the dtypes that pandas has noted in it."""
    with source.open() as stream, source.told_if_damaged():
        table = parquet.read_table(stream) if source.suffix == ".parquet" else feather.read_table(stream)
        frame = to_frame(table)
    if noted := (table.schema.metadata or {}).get(b"PANDAS_ATTRS"):
        frame.attrs = json.loads(noted)
    return _with_index(frame, source.name), None


def to_frame(table: pa.Table) -> pd.DataFrame:
    """An Arrow table as a frame.

    The dtypes are those that pandas has noted in the table. Where it has noted none, whole numbers and truth values
    with missing cells have nullable dtypes, and decimal numbers are float64 where that holds them.
    """
    noted = json.loads((table.schema.metadata or {}).get(b"pandas", b"{}"))
    kinds = {str(one["field_name"]): str(one["numpy_type"]) for one in noted.get("columns", ())}
    if any(kind.startswith("dictionary<") for kind in kinds.values()):
        # The name of pandas' dtype for categories of Arrow can't be read back: such columns become pandas' own.
        for one in noted["columns"]:
            if str(one["numpy_type"]).startswith("dictionary<"):
                one["numpy_type"] = "object"
        table = table.replace_schema_metadata({**table.schema.metadata, b"pandas": json.dumps(noted).encode()})
    frame: pd.DataFrame = table.to_pandas()
    if not frame.columns.is_unique:
        return frame  # a fit refuses it
    for place, field in enumerate(table.schema):
        if kinds.get(field.name) == "string[pyarrow]" and field.name in frame:
            # pandas writes this name of its dtype for Arrow's strings, and reads another.
            frame[field.name] = pd.Series(pd.arrays.ArrowExtensionArray(table.column(place)), index=frame.index)
        if field.name in kinds or not table.column(place).null_count:
            continue
        nullable = _NULLABLE.get(field.type)
        if nullable is not None:
            frame[field.name] = pd.Series(nullable.__from_arrow__(table.column(place)), index=frame.index)
    for field in table.schema:
        if pa.types.is_decimal(field.type) and field.name in frame and frame[field.name].dtype == object:
            frame[field.name] = as_column([None if pd.isna(cell) else cell for cell in frame[field.name]])[0].to_numpy()
    return frame


def write_parquet(frame: pd.DataFrame, path: Path) -> None:
    """Write a Parquet file."""
    _write(frame, path, ".parquet")


def write_feather(frame: pd.DataFrame, path: Path) -> None:
    """Write a Feather file."""
    _write(frame, path, ".feather")


def _write(frame: pd.DataFrame, path: Path, kind: str) -> None:
    try:
        # pandas passes the name of a "wb" file to Arrow, which opens UTF-8 names only.
        with open(path, "w+b") as file:
            if kind == ".parquet":
                frame.to_parquet(file, index=False)
            else:
                frame.to_feather(file)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        raise ValueError(f"a {kind} file can't hold this table ({error}): convert the column, or write CSV") from error


def _with_index(frame: pd.DataFrame, file: str) -> pd.DataFrame:
    """The frame with its index as columns; an index that only numbers the rows is dropped."""
    index = frame.index
    if isinstance(index, pd.RangeIndex) and index.name is None:
        return frame.reset_index(drop=True)
    bare = ["index"] if index.nlevels == 1 else [f"level_{level}" for level in range(index.nlevels)]
    names = [other if name is None else name for name, other in zip(index.names, bare, strict=True)]
    for name in names:
        if name in frame.columns or names.count(name) > 1:
            raise ValueError(f"{file}: the index is called {name!r}, and so is a column: name one of them anew")
    unnamed = [name for name in names if name not in index.names]
    if unnamed:
        warn(
            f"{file}: the index has no name and is taken for a column, {unnamed[0]!r}; where it only numbers the rows, "
            "write the file without it (index=False)"
        )
    return frame.reset_index(names=names)


PARQUET = Format("Parquet", (".parquet",), read, write_parquet, (".parquet",), holds_empty_texts=True)
FEATHER = Format("Feather", (".feather", ".arrow"), read, write_feather, (".feather", ".arrow"), holds_empty_texts=True)
