"""Tables cut into tiles: as many rows as one call of a network takes, fewer where a GPU runs out of memory."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from missdiff_fast._engine.protocols import Tile
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


def tiles(
    table: EncodedTable, size: int, *, padded: bool = True, first: int = 0
) -> Iterator[tuple[int, int, EncodedTable]]:
    """The table from row ``first`` on cut into pieces of ``size`` rows, (start, stop, piece).

    The last one is ``padded`` with missing cells, if asked.
    """
    for start in range(first, len(table), size):
        piece = table.rows(slice(start, start + size))
        count = len(piece)
        if padded and count < size:
            pad = unknown(size - count, table.layout, table.device)
            values = None if piece.values is None else torch.cat([piece.values, pad.continuous.to(piece.values.dtype)])
            continuous = torch.cat([piece.continuous, pad.continuous.to(piece.continuous.dtype)])
            piece = EncodedTable(continuous, torch.cat([piece.codes, pad.codes]), table.layout, values)
        yield start, start + count, piece


def _refusals(device: torch.device) -> int:
    """How often a GPU has had no memory so far."""
    return int(torch.cuda.memory_stats(device)["num_ooms"]) if device.type == "cuda" else 0


def _out_of_memory(error: RuntimeError, device: torch.device, before: int) -> bool:
    """Whether an error tells that a GPU had no memory: an op of the stable ABI raises no other error for it."""
    return isinstance(error, torch.cuda.OutOfMemoryError) or _refusals(device) > before


def shrinking(
    table: EncodedTable,
    tile: Tile,
    work: Callable[[int, EncodedTable], Tensor],
    *,
    least: int = LEAST_TILE,
) -> Iterator[tuple[int, int, Tensor]]:
    """Work through a table by tiles, which become half as large, with a warning, where a GPU has no memory for them.

    Parameters
    ----------
    table : EncodedTable
        N rows.
    tile : Tile
        Size of the first tiles, and whether all are padded to it.
    work : callable
        Of a tile's first row and the tile, gives its result.
    least : int
        No tile is made smaller than this.

    Yields
    ------
    start, stop, result : int, int, Tensor
        The tile's rows, and what ``work`` gave.

    Raises
    ------
    torch.cuda.OutOfMemoryError
        Not even the smallest tile fits.
    """
    start, size = 0, tile.rows
    while start < len(table):
        stop, piece = min(start + size, len(table)), next(tiles(table, size, padded=tile.padded, first=start))[2]
        failure, before = None, _refusals(table.device)
        try:
            result = work(start, piece)
        except RuntimeError as error:
            if not _out_of_memory(error, table.device, before):
                raise
            failure = error.with_traceback(None)  # whose frames would keep what they have in the GPU's memory
        if failure is None:
            yield start, stop, result
            start = stop
            continue
        del piece
        torch.cuda.empty_cache()
        if size // 2 < least:
            raise torch.cuda.OutOfMemoryError(
                f"the GPU's memory does not hold {size:,} rows at once: free some of it, or use device='cpu'"
            ) from failure
        size //= 2
        warnings.warn(
            f"the GPU's memory does not hold {2 * size:,} rows at once: going on with {size:,}",
            RuntimeWarning,
            stacklevel=2,
        )
