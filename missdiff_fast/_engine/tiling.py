"""Tables cut into tiles: as many rows as one call of a network takes, fewer where a GPU runs out of memory."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from missdiff_fast._engine.protocols import Tile
from missdiff_fast.errors import Structured
from missdiff_fast.remedies import Do, Pass
from missdiff_fast.table.encoded import MISSING_CODE, EncodedTable, Layout

# A PyTorch network is always called with this many rows: matrix products of other sizes round differently, and row i of
# a sample depends on (seed, i) alone.
TILE = 2048
# The native passes compute each row on its own; the number is what keeps the device busy.
NATIVE_TILE = {"cpu": 1 << 14, "cuda": 1 << 17}
LEAST_TILE = 256  # no smaller tiles where a GPU runs out of memory


def unknown(num_rows: int, layout: Layout, device: torch.device) -> EncodedTable:
    """A table of missing cells."""
    return EncodedTable(
        torch.full((num_rows, layout.num_continuous), torch.nan, device=device),
        torch.full((num_rows, layout.num_categorical), MISSING_CODE, dtype=torch.int16, device=device),
        layout,
    )


def tiles(table: EncodedTable, size: int) -> Iterator[tuple[int, int, EncodedTable]]:
    """The table cut into tiles of ``size`` rows, the last one padded with missing cells: (start, stop, tile)."""
    for start in range(0, len(table), size):
        yield start, min(start + size, len(table)), _cut(table, start, start + size)


def _cut(table: EncodedTable, start: int, stop: int) -> EncodedTable:
    """Rows from ``start`` to ``stop``; those outside the table, at either end, are missing cells."""
    before, after = max(-start, 0), max(stop - len(table), 0)
    piece = table.rows(slice(start + before, stop - after))
    if not before and not after:
        return piece
    ends = [unknown(count, table.layout, table.device) for count in (before, after)]

    def padded(x: Tensor, first: Tensor, last: Tensor) -> Tensor:
        return torch.cat([first.to(x.dtype), x, last.to(x.dtype)])

    continuous = padded(piece.continuous, *(end.continuous for end in ends))
    codes = padded(piece.codes, *(end.codes for end in ends))
    values = None if piece.values is None else padded(piece.values, *(end.continuous for end in ends))
    return table.with_cells(continuous, codes, values)


def _out_of_memory_count(device: torch.device) -> int:
    """How often PyTorch's allocator has found no memory on a GPU so far."""
    return int(torch.cuda.memory_stats(device)["num_ooms"]) if device.type == "cuda" else 0


def _is_out_of_memory(error: RuntimeError, device: torch.device, before: int) -> bool:
    """Whether an error is CUDA out-of-memory: ops of the stable ABI raise a plain RuntimeError for it."""
    return isinstance(error, torch.cuda.OutOfMemoryError) or _out_of_memory_count(device) > before


class GpuMemoryError(Structured, torch.cuda.OutOfMemoryError):
    """The GPU's memory does not hold the least number of rows."""


def shrinking(
    table: EncodedTable,
    tile: Tile,
    work: Callable[[int, EncodedTable], Tensor],
    *,
    first_row: int = 0,
    least: int = LEAST_TILE,
) -> Iterator[tuple[int, int, Tensor]]:
    """Process a table tile by tile; where a GPU runs out of memory, halve the tiles and warn.

    Padded tiles begin at multiples of their size in the global numbering of rows, so that a row has the same place in
    its tile, and hence the same bits, wherever the table begins.

    Parameters
    ----------
    table : EncodedTable
        N rows.
    tile : Tile
        Size of the first tiles, and whether all are padded to it.
    work : callable
        Takes the global number of a tile's first row and the tile, and gives a tensor ``[..., rows of the tile, D]``.
    first_row : int
        The global number of the table's first row.
    least : int
        No tile is made smaller than this.

    Yields
    ------
    start, stop, result : int, int, Tensor
        Rows of the table, and what ``work`` gave for them, ``[..., stop - start, D]``.

    Raises
    ------
    torch.cuda.OutOfMemoryError
        Not even the smallest tile fits.
    """
    if not len(table):
        return
    size = tile.rows
    start = -(first_row % size) if tile.padded else 0
    while start < len(table):
        stop = start + size if tile.padded else min(start + size, len(table))
        if stop <= 0:  # smaller tiles than at first: this one has no row of the table
            start = stop
            continue
        piece = _cut(table, start, stop)
        failure, before = None, _out_of_memory_count(table.device)
        try:
            result = work(first_row + start, piece)
        except RuntimeError as error:
            if not _is_out_of_memory(error, table.device, before):
                raise
            failure = error.with_traceback(None)  # whose frames would hold on to the GPU's memory
        if failure is None:
            first, last = max(start, 0), min(stop, len(table))
            yield first, last, result[..., first - start : last - start, :]
            start = stop
            continue
        del piece
        torch.cuda.empty_cache()
        if size // 2 < least:
            problem = f"the GPU's memory does not hold {size:,} rows at once"
            raise GpuMemoryError(
                "memory", problem, value=size, remedy=(Do("free some of it"), Pass("device", "cpu", goal="use"))
            ) from failure
        size //= 2
        warnings.warn(
            f"the GPU's memory does not hold {2 * size:,} rows at once: going on with {size:,}",
            RuntimeWarning,
            stacklevel=2,
        )
