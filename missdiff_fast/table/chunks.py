"""Neighbouring columns that one thread encodes or decodes together.

The cells of one column lie apart in an encoded table: each shares a cache line with its neighbours in the row. So a
thread takes several columns at a time, whose next few thousand rows fit the cache, and moves pieces of rows.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from missdiff_fast.table.schema import Name, Schema

MOST = 16  # columns of a chunk


class Chunk(NamedTuple):
    """Neighbouring columns of one kind, the first of which is number ``first`` among all of its kind."""

    kind: str
    first: int
    names: tuple[Name, ...]

    @property
    def columns(self) -> slice:
        """The positions of the columns among all of their kind."""
        return slice(self.first, self.first + len(self.names))


def chunks(schema: Schema) -> list[Chunk]:
    """All columns, the continuous ones first, then the categorical ones, then the constant ones, each in their order.

    Each kind is split into at least two chunks per thread, if it has as many columns.
    """
    found = []
    for kind in ("continuous", "categorical", "constant"):
        names: tuple[Name, ...] = getattr(schema, kind)
        size = min(max(len(names) // (2 * torch.get_num_threads()), 1), MOST)
        found += [Chunk(kind, first, names[first : first + size]) for first in range(0, len(names), size)]
    return found
