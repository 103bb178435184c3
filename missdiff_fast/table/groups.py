"""Neighbouring columns encoded and decoded together.

Cells of one column lie apart in an encoded table, each in a line of the processor's cache with those of its neighbours.
So a thread takes several columns at a time, a few thousand rows of which stay in the cache, and moves pieces of rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from typing import NamedTuple

import numpy as np
import torch

from missdiff_fast.table.cells import Cells
from missdiff_fast.table.columns import BLOCK, Categorical, Continuous
from missdiff_fast.table.encoded import MISSING_CODE
from missdiff_fast.table.schema import Name, Schema

MOST = 16  # columns of a group
_TILE = 4_096  # rows of places or codes that are turned at once


class Group(NamedTuple):
    """Neighbouring columns of one kind, the first of which is number ``first`` among all of its kind."""

    kind: str
    first: int
    names: tuple[Name, ...]

    @property
    def columns(self) -> slice:
        """Which of all columns of its kind they are."""
        return slice(self.first, self.first + len(self.names))


def groups(schema: Schema) -> list[Group]:
    """All columns, the continuous ones first, then the categorical ones, then the constant ones, each in their order.

    A kind has at least two groups for each thread, as far as it has the columns.
    """
    found = []
    for kind in ("continuous", "categorical", "constant"):
        names: tuple[Name, ...] = getattr(schema, kind)
        size = min(max(len(names) // (2 * torch.get_num_threads()), 1), MOST)
        found += [Group(kind, first, names[first : first + size]) for first in range(0, len(names), size)]
    return found


def encode_continuous(
    coders: Sequence[Continuous],
    found: Sequence[Cells | None],
    generators: Sequence[np.random.Generator | None],
    scores: np.ndarray,
    values: np.ndarray,
) -> None:
    """Write a group's scores and standardised values, float32 ``[N, group]`` both; NaN for a column without cells."""
    nothing = np.full(1, np.nan, dtype=np.float32)
    streams = [
        repeat((nothing, nothing)) if cells is None else coder.encode(cells, generator)
        for coder, cells, generator in zip(coders, found, generators, strict=True)
    ]
    for start in range(0, len(scores), BLOCK):
        rows = slice(start, start + BLOCK)
        block = np.empty((2, len(streams), len(scores[rows])), dtype=np.float32)
        for i, stream in enumerate(streams):
            block[0, i], block[1, i] = next(stream)
        scores[rows], values[rows] = block[0].T, block[1].T


def encode_categorical(
    coders: Sequence[Categorical], found: Sequence[Cells | None], codes: np.ndarray
) -> list[np.ndarray]:
    """Write a group's codes, int16 ``[N, group]``, -1 for a column without cells; give each one's unseen categories."""
    columns = np.full(codes.shape[::-1], MISSING_CODE, dtype=np.int16)
    unseen = [np.empty(0)] * len(found)
    for i, (coder, cells) in enumerate(zip(coders, found, strict=True)):
        if cells is not None:
            columns[i], unseen[i] = coder.encode(cells)
    for start in range(0, len(codes), BLOCK):
        codes[start : start + BLOCK] = columns[:, start : start + BLOCK].T
    return unseen


def columns_of(rows: np.ndarray) -> np.ndarray:
    """``[N, columns]`` turned into ``[columns, N]``."""
    columns = np.empty(rows.shape[::-1], dtype=rows.dtype)
    for start in range(0, len(rows), _TILE):
        columns[:, start : start + _TILE] = rows[start : start + _TILE].T
    return columns
