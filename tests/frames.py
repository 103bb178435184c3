"""Frames of every dtype for the tests of tables, and helpers that encode and decode them."""

from __future__ import annotations

import datetime
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow
import torch

from missdiff_fast._engine.backend import resolve_backend
from missdiff_fast.ops import reference
from missdiff_fast.table import Codec, EncodedTable, read_frame
from missdiff_fast.table.cells import Markers
from missdiff_fast.table.reading import read_cells

# What pandas itself makes of texts and of times: objects and nanoseconds before pandas 3.
TEXT = pd.Series(["a"]).dtype
NO_TEXT = pd.Series(["a", None]).tolist()[1]
TIME = pd.to_datetime(["2024-02-29"]).dtype
REACH = "1678 to 2261" if pd.to_datetime(["2024-02-29"]).unit == "ns" else "0000 to 9999"

_BASE: dict[str, list[object]] = {
    "number": [3, 1, 4, 1, 5, 9, 2, 6],
    "boolean": [True, False, True, True, False, True, False, True],
    "string": ["b", "a", "c", "b", "b", "a", "c", "ä"],
    "date": [datetime.date(1999 + i, 3, 28) for i in (5, 1, 5, 2, 9, 2, 6, 5)],
    "instant": [datetime.datetime(1999 + i, 3, 28, 1) for i in (5, 1, 5, 2, 9, 2, 6, 5)],
    "span": [datetime.timedelta(hours=i) for i in (5, -1, 5, 2, 9, 2, 6, 5)],
}
_DTYPES = {
    "number": "int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 object category "
    "Int8 Int16 Int32 Int64 UInt8 UInt16 UInt32 UInt64 Float32 Float64 "
    "int16[pyarrow] int64[pyarrow] uint64[pyarrow] float[pyarrow] double[pyarrow]",
    "boolean": "bool boolean object category bool[pyarrow]",
    "string": "object category string[python] string[pyarrow] large_string[pyarrow]",
    "date": "object date32[pyarrow]",
    "instant": "object datetime64[s] datetime64[ms] datetime64[us] datetime64[ns] category "
    "timestamp[us][pyarrow] timestamp[ns][pyarrow]",
    "span": "object timedelta64[s] timedelta64[ms] timedelta64[us] timedelta64[ns] duration[ms][pyarrow]",
}


@functools.cache
def every_dtype() -> dict[str, pd.Series]:
    """A column of eight cells for each dtype that a table may have; the fourth is missing where the dtype allows it."""
    columns = {}
    for kind, names in _DTYPES.items():
        for name in names.split(" "):
            columns[f"{kind} {name}"] = _with_hole(pd.Series(_BASE[kind], dtype=object).astype(name))
    instants = pd.Series(_BASE["instant"]).astype("datetime64[ns]")
    for zone in ("UTC", "Europe/Berlin", "UTC+02:00"):
        columns[f"instant {zone}"] = _with_hole(instants.dt.tz_localize(zone))
    columns["instant seconds"] = _with_hole(instants.dt.tz_localize("Asia/Tokyo").dt.as_unit("s"))
    columns["instant arrow zone"] = columns["instant Europe/Berlin"].astype("timestamp[us, tz=Europe/Berlin][pyarrow]")
    columns["string arrow"] = columns["string object"].astype(pd.ArrowDtype(pyarrow.string()))
    sizes = pd.CategoricalDtype(["never", "c", "b", "a", "ä"], ordered=True)
    columns["string ordered"] = columns["string object"].astype(sizes)
    return columns


def _with_hole(column: pd.Series) -> pd.Series:
    dtype = column.dtype
    if isinstance(dtype, np.dtype) and dtype.kind in "iub":
        return column
    column = column.copy()
    column.iloc[3] = (
        None
        if dtype.kind == "O" and isinstance(dtype, np.dtype)
        else pd.NA
        if isinstance(dtype, pd.ArrowDtype)
        else np.nan
    )
    assert column.dtype == dtype
    return column


def fit_codec(
    frame: pd.DataFrame,
    *,
    max_categories: int = 100,
    relations: bool = False,
    verbose: bool = False,
    **options: Any,
) -> Codec:
    """A codec that learnt a frame, with the options of `read_frame`."""
    ops = resolve_backend("auto", torch.device("cpu"))
    cells = read_frame(frame, verbose=verbose, **options)
    return Codec.fit(cells, ops=ops, max_categories=max_categories, relations=relations, verbose=verbose)


def encode(codec: Codec, frame: pd.DataFrame, *, seed: int | None = None, **options: Any) -> EncodedTable:
    """A frame encoded, with the options of `Codec.read`."""
    return codec.encode(codec.read(frame, **options), seed=seed, verbose=options.get("verbose", False))


def fill(codec: Codec, frame: pd.DataFrame, filled: pd.DataFrame, *, verbose: bool = False) -> pd.DataFrame:
    """A frame filled from another."""
    return codec.fill(codec.read(frame, verbose=verbose), filled, verbose=verbose)


def check_constants(codec: Codec, frame: pd.DataFrame) -> None:
    """Check the constants of partly known rows."""
    codec.check_constants(codec.read(frame, partial=True))


def missing_cells(frame: pd.DataFrame, missing_values: Sequence[object] = ()) -> np.ndarray:
    """Mask of a frame's missing cells: bool ``[N, columns]``."""
    markers = Markers.of(missing_values)
    return np.stack([read_cells(frame[name], markers).missing for name in frame.columns], 1)


def through(codec: Codec, table: EncodedTable) -> pd.DataFrame:
    """An encoded table decoded again; its missing cells become anything."""
    hot = [
        torch.nn.functional.one_hot(table.codes[:, k].long().clamp(min=0), size).to(torch.float32)
        for k, size in enumerate(table.layout.cardinalities)
    ]
    x = torch.cat([table.continuous.nan_to_num(), *hot], 1)
    return codec.decode(*reference.decode(x, codec.layout.offsets(), codec.boundaries, codec.starts))


def assert_same_cells(actual: pd.DataFrame, expected: pd.DataFrame, where: np.ndarray) -> None:
    """Equal columns and dtypes, and equal cells where told: bool ``[N, columns]``."""
    assert list(actual.columns) == list(expected.columns)
    for j, name in enumerate(expected.columns):
        assert actual[name].dtype == expected[name].dtype, name
        found, wanted = (frame[name][where[:, j]].tolist() for frame in (actual, expected))
        assert found == wanted, name
        # pandas' own times are subclasses of Python's, in place of which they come.
        assert all(isinstance(cell, type(other)) for cell, other in zip(found, wanted, strict=True)), name
