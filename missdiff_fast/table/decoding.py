"""Decoding: frames of the model's output."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import cast

import numpy as np
import pandas as pd
from pandas.api.extensions import ExtensionArray

from missdiff_fast.table.chunks import Chunk, chunks
from missdiff_fast.table.columns import Coder, Continuous
from missdiff_fast.table.dtypes import as_frame, as_series
from missdiff_fast.table.schema import Name, Schema
from missdiff_fast.table.threads import in_threads

_TILE = 4_096  # rows transposed at a time


def decode_table(
    schema: Schema,
    coders: Mapping[Name, Coder],
    continuous: np.ndarray,
    codes: np.ndarray,
    decode: Callable[[Continuous, np.ndarray], ExtensionArray],
) -> pd.DataFrame:
    """The frame of decoded columns, in the schema's order and dtypes.

    Parameters
    ----------
    schema : Schema
        The learnt columns.
    coders : mapping
        Name to the coder of the column.
    continuous : ndarray
        Input of ``decode``, ``[B, C]``.
    codes : ndarray
        Of the categorical columns, ``[B, K]``.
    decode : callable
        Gives a continuous column's values from its part ``[B]`` of ``continuous``.
    """
    rows = len(codes)
    index = pd.RangeIndex(rows)

    def column(array: ExtensionArray) -> pd.Series:
        return as_series(array, index)

    def decode_chunk(chunk: Chunk) -> list[pd.Series]:
        own: Sequence[Coder] = [coders[name] for name in chunk.names]
        if chunk.kind == "continuous":
            given = columns_of(continuous[:, chunk.columns])
            return [column(decode(cast(Continuous, c), cells)) for c, cells in zip(own, given, strict=True)]
        if chunk.kind == "categorical":
            given = columns_of(codes[:, chunk.columns])
            return [column(c.table.take(cells)) for c, cells in zip(own, given, strict=True)]
        zeros = np.zeros(rows, dtype=np.int64)
        return [column(c.table.take(zeros)) for c in own]

    columns: dict[Name, pd.Series] = {}
    pieces = chunks(schema)
    for chunk, decoded in zip(pieces, in_threads(decode_chunk, pieces, rows), strict=True):
        columns.update(zip(chunk.names, decoded, strict=True))
    return as_frame({name: columns[name] for name in schema.names}, index)


def columns_of(rows: np.ndarray) -> np.ndarray:
    """``[N, columns]`` transposed to contiguous ``[columns, N]``."""
    columns = np.empty(rows.shape[::-1], dtype=rows.dtype)
    for start in range(0, len(rows), _TILE):
        columns[:, start : start + _TILE] = rows[start : start + _TILE].T
    return columns
