"""Encoding a table's cells: scores and standardised values of continuous columns, codes of categorical ones."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch

from missdiff_fast._progress import progress_bar
from missdiff_fast.errors import DataError
from missdiff_fast.remedies import Do
from missdiff_fast.table.cells import ColumnCells
from missdiff_fast.table.chunks import Chunk, chunks
from missdiff_fast.table.codec_ops import CodecOps
from missdiff_fast.table.columns import BLOCK, Categorical, Continuous, are_whole
from missdiff_fast.table.dtypes import NUMBERS, as_series
from missdiff_fast.table.encoded import MISSING_CODE, EncodedTable, Layout
from missdiff_fast.table.schema import Name, Schema
from missdiff_fast.table.table_cells import TableCells
from missdiff_fast.table.threads import in_threads


class _Unseen(NamedTuple):
    """A value that fit did not see in a categorical column."""

    column: Name
    coder: Categorical
    value: object

    def __str__(self) -> str:
        known = as_series(self.coder.table).tolist()
        shown = ", ".join(map(repr, known[:5])) + (f", ... ({len(known)} in all)" if len(known) > 5 else "")
        numeric = self.coder.family in NUMBERS and not isinstance(self.coder.dtype, pd.CategoricalDtype)
        if numeric and len(known) == 2 and are_whole(self.coder.keys):
            shown += " (learnt as categorical because fit saw these two values only)"
        return f"column {self.column!r} holds {self.value!r}; known are {shown}"


def encode_table(
    cells: TableCells,
    schema: Schema,
    continuous: Sequence[Continuous],
    categorical: Sequence[Categorical],
    layout: Layout,
    ops: CodecOps,
    *,
    seed: int | None,
    verbose: bool,
) -> EncodedTable:
    """Encode a table; see `missdiff_fast.table.Codec.encode`.

    Parameters
    ----------
    cells : TableCells
        Cells that were read with the schema.
    schema : Schema
        The learnt columns.
    continuous, categorical : sequence
        The coders of the columns of each kind, in the order of the layout.
    layout : Layout
        Of the encoded table.
    ops : CodecOps
        The backend that computes scores.
    seed : int, optional
        Seed of the spread of ties.
    verbose : bool
        Whether to show progress.
    """
    rows = len(cells)
    scores = np.empty((rows, layout.num_continuous), dtype=np.float32)
    values = np.empty((rows, layout.num_continuous), dtype=np.float32)
    codes = np.empty((rows, layout.num_categorical), dtype=np.int16)

    def encode(chunk: Chunk) -> list[_Unseen]:
        found = [cells.observed(name) for name in chunk.names]
        at = np.s_[:, chunk.columns]
        if chunk.kind == "continuous":
            generators = [
                None if seed is None else np.random.default_rng([seed & (1 << 64) - 1, chunk.first + i])
                for i in range(len(found))
            ]
            _encode_continuous(continuous[chunk.columns], found, generators, ops, scores[at], values[at])
        if chunk.kind == "categorical":
            coders = categorical[chunk.columns]
            strange = _encode_categorical(coders, found, codes[at])
            told = zip(chunk.names, coders, strange, strict=True)
            return [_Unseen(name, coder, keys[:1].tolist()[0]) for name, coder, keys in told if len(keys)]
        return []

    unseen: list[_Unseen] = []
    with progress_bar(total=len(schema), desc="encoding columns", unit="column", verbose=verbose) as bar:
        pieces = chunks(schema)
        threads = torch.get_num_threads() if ops.columns_in_threads else 1
        for chunk, told in zip(pieces, in_threads(encode, pieces, rows, threads), strict=True):
            unseen += told
            bar.update(len(chunk.names))
    if unseen:
        raise DataError(
            "unseen",
            f"categories that were not seen in fit: {'; '.join(map(str, unseen))}",
            columns=[one.column for one in unseen],
            value=unseen[0].value,
            remedy=(Do("Replace them by known ones or by a missing value"), Do("fit again with them")),
            joint=". ",
        )
    return EncodedTable(torch.from_numpy(scores), torch.from_numpy(codes), layout, torch.from_numpy(values))


def _encode_continuous(
    coders: Sequence[Continuous],
    found: Sequence[ColumnCells | None],
    generators: Sequence[np.random.Generator | None],
    ops: CodecOps,
    scores: np.ndarray,
    values: np.ndarray,
) -> None:
    """Write a chunk's scores and standardised values, float32 ``[N, chunk]`` both; NaN for a column without cells."""
    nothing = np.full(1, np.nan, dtype=np.float32)
    streams = [
        repeat((nothing, nothing)) if cells is None else coder.encode(cells, generator, ops)
        for coder, cells, generator in zip(coders, found, generators, strict=True)
    ]
    for start in range(0, len(scores), BLOCK):
        rows = slice(start, start + BLOCK)
        block = np.empty((2, len(streams), len(scores[rows])), dtype=np.float32)
        for i, stream in enumerate(streams):
            block[0, i], block[1, i] = next(stream)
        scores[rows], values[rows] = block[0].T, block[1].T


def _encode_categorical(
    coders: Sequence[Categorical], found: Sequence[ColumnCells | None], codes: np.ndarray
) -> list[np.ndarray]:
    """Write a chunk's codes, int16 ``[N, chunk]``, -1 for a column without cells; give each one's unseen categories."""
    columns = np.full(codes.shape[::-1], MISSING_CODE, dtype=np.int16)
    unseen = [np.empty(0)] * len(found)
    for i, (coder, cells) in enumerate(zip(coders, found, strict=True)):
        if cells is not None:
            columns[i], unseen[i] = coder.encode(cells)
    for start in range(0, len(codes), BLOCK):
        codes[start : start + BLOCK] = columns[:, start : start + BLOCK].T
    return unseen
