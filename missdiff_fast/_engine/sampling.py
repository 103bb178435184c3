"""Drawing rows: a solver run over tiles of rows, with known columns clean."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import partial
from types import ModuleType
from typing import cast

import torch
from torch import Tensor, nn
from tqdm import tqdm

from missdiff_fast._engine.cuda_graphs import to_device
from missdiff_fast.config import SolverConfig
from missdiff_fast.diffusion.schedule import karras_sigmas
from missdiff_fast.diffusion.solver import dpm_solver_2m
from missdiff_fast.diffusion.states import CLEAN, HIDDEN, NOISY
from missdiff_fast.errors import DivergedError, Do, FitAgain, Pass, Structured
from missdiff_fast.networks import Denoiser
from missdiff_fast.networks.packing import is_denoiser
from missdiff_fast.networks.packing_cuda import MOST_WIDTH
from missdiff_fast.ops import reference
from missdiff_fast.table.encoded import MISSING_CODE, EncodedTable, Layout

# Every call of a PyTorch network sees exactly this many rows: matrix products of other sizes round differently, and row
# i of a sample is to depend on (seed, i) alone.
TILE = 2048
# The native passes compute each row on its own; a call of theirs takes up to so many.
NATIVE_TILE = {"cpu": 1 << 14, "cuda": 1 << 17}
LEAST_TILE = 256  # of tiles made smaller because a GPU has no memory for larger ones


def runs_natively(network: nn.Module, backend: ModuleType) -> bool:
    """Whether the backend has native passes for the network."""
    return backend is not reference and is_denoiser(network)


def passes_natively(network: nn.Module, backend: ModuleType) -> bool:
    """Whether the backend's `mlp_sample` and `mlp_predict` take the network, which a GPU's do up to a width."""
    if not runs_natively(network, backend):
        return False
    weight = cast(Denoiser, network).inputs.weight
    return weight.device.type == "cpu" or len(weight) <= MOST_WIDTH


def make_keys(seed: int, steps: int, device: torch.device) -> Tensor:
    """The keys of steps 0 and on of one seed, brought to the device at once: int64 ``[steps, 2]``."""
    keys = reference.make_key(seed, 0).repeat(steps, 1)
    keys[:, 1] = torch.arange(steps)
    return to_device(keys, device)


def unknown(num_rows: int, layout: Layout, device: torch.device) -> EncodedTable:
    """A table of missing cells."""
    return EncodedTable(
        torch.full((num_rows, layout.num_continuous), torch.nan, device=device),
        torch.full((num_rows, layout.num_categorical), MISSING_CODE, dtype=torch.int16, device=device),
        layout,
    )


def tiles(
    table: EncodedTable, size: int = TILE, *, padded: bool = True, first: int = 0
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


class GpuMemoryError(Structured, torch.cuda.OutOfMemoryError):
    """The GPU's memory does not hold the least number of rows."""


def over_tiles(
    table: EncodedTable, native: bool, work: Callable[[int, EncodedTable], Tensor]
) -> Iterator[tuple[int, int, Tensor]]:
    """What `work` gives for each tile that one call of a ``native`` pass, or of a PyTorch network, takes.

    See `shrinking`.
    """
    if not native:
        return shrinking(table, TILE, work)
    return shrinking(table, NATIVE_TILE[table.device.type], work, padded=False)


def _refusals(device: torch.device) -> int:
    """How often a GPU has had no memory so far."""
    return int(torch.cuda.memory_stats(device)["num_ooms"]) if device.type == "cuda" else 0


def _out_of_memory(error: RuntimeError, device: torch.device, before: int) -> bool:
    """Whether an error tells that a GPU had no memory: an op of the stable ABI raises no other error for it."""
    return isinstance(error, torch.cuda.OutOfMemoryError) or _refusals(device) > before


def shrinking(
    table: EncodedTable,
    size: int,
    work: Callable[[int, EncodedTable], Tensor],
    *,
    padded: bool = True,
    least: int = LEAST_TILE,
) -> Iterator[tuple[int, int, Tensor]]:
    """Work through a table by tiles, which become half as large, with a warning, where a GPU has no memory for them.

    Parameters
    ----------
    table : EncodedTable
        N rows.
    size : int
        Rows of a tile to begin with.
    work : callable
        Of a tile's first row and the tile, gives its result.
    padded : bool
        As in `tiles`.
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
    start = 0
    while start < len(table):
        stop, piece = min(start + size, len(table)), next(tiles(table, size, padded=padded, first=start))[2]
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


@torch.inference_mode()
def draw(
    network: nn.Module,
    known: EncodedTable,
    solver: SolverConfig,
    backend: ModuleType,
    seed: int,
    *,
    verbose: bool = False,
    desc: str = "sample",
) -> Iterator[tuple[int, int, Tensor]]:
    """Draw the missing cells of a table given its observed ones, tile by tile.

    Parameters
    ----------
    network : nn.Module
        A trained `missdiff_fast.networks.Denoiser`.
    known : EncodedTable
        The known cells, N rows; `unknown` gives none.
    solver : SolverConfig
        Noise levels.
    backend : module
        `missdiff_fast.ops` or `missdiff_fast.ops.reference`.
    seed : int
        Row i depends on (seed, i) and its known cells alone.
    verbose, desc
        Progress bar, and its name.

    Yields
    ------
    start, stop, x : int, int, Tensor
        The tile's rows, and their encoded form ``[stop - start, D]``.

    Raises
    ------
    FloatingPointError
        A drawn cell is not finite.
    torch.cuda.OutOfMemoryError
        The GPU's memory does not hold the smallest tile of rows.
    """
    device = known.device
    sigmas = karras_sigmas(solver.steps, solver.sigma_max, solver.sigma_min, solver.rho)
    coefficients = dpm_solver_2m(sigmas).float().to(device)
    levels = sigmas[:-1].float().to(device)
    keys = make_keys(seed, solver.steps + 1, device)
    native = passes_natively(network, backend)
    solve = (
        partial(backend.mlp_sample, precision=solver.precision)
        if native
        else partial(reference.mlp_sample, step=backend.step)
    )

    def work(start: int, piece: EncodedTable) -> Tensor:
        rows = torch.arange(start, start + len(piece), device=device)
        states = torch.where(piece.observed(), CLEAN, NOISY).to(torch.uint8)
        x = _start(piece, rows, states, solver.sigma_max, keys[0], backend)
        return solve(network, x, states, known.offsets, levels, coefficients, rows, keys[1:])

    with tqdm(total=len(known), desc=desc, unit="row", delay=2, disable=None if verbose else True) as bar:
        for start, stop, x in over_tiles(known, native, work):
            bar.update(stop - start)
            if not bool(torch.isfinite(x).all()):
                raise DivergedError(
                    "cells", "the model drew cells that are not finite", remedy=FitAgain(lower="learning_rate")
                )
            yield start, stop, x[: stop - start]


def _start(
    piece: EncodedTable, rows: Tensor, states: Tensor, sigma_max: float, key: Tensor, backend: ModuleType
) -> Tensor:
    """Known cells as they are, noise of the greatest level elsewhere: ``[B, D]``."""
    known, zeros = states == CLEAN, torch.zeros(len(piece), device=piece.device)
    shown = torch.where(known, CLEAN, HIDDEN).to(torch.uint8)
    clean = backend.perturb(piece, torch.arange(len(piece), device=piece.device), shown, zeros, zeros, key)
    noise = backend.normal(rows, piece.layout.width, key) * sigma_max
    return torch.where(known[:, piece.layout.groups(piece.device)], clean, noise)


def most_probable(groups: Tensor, layout: Layout, backend: ModuleType) -> Tensor:
    """The code of the largest entry of each one-hot group, the first among equals.

    Parameters
    ----------
    groups : Tensor
        Logits, probabilities or one-hot columns, ``[B, D - C]``.
    layout : Layout
        Of the whole row.
    backend : module
        `missdiff_fast.ops` or `missdiff_fast.ops.reference`.

    Returns
    -------
    Tensor
        int16 ``[B, K]``.
    """
    offsets = layout.offsets(groups.device) - layout.num_continuous
    nothing = torch.empty(0, dtype=groups.dtype, device=groups.device)
    return backend.decode(groups, offsets, nothing, offsets.new_zeros(1))[1]


def fill(
    network: nn.Module,
    table: EncodedTable,
    solver: SolverConfig,
    backend: ModuleType,
    seed: int,
    *,
    verbose: bool = False,
    desc: str = "fill",
) -> EncodedTable:
    """The table with every missing cell drawn given the row's observed ones; arguments as in `draw`.

    The standardised value of a drawn cell, where the table has values, is that of the observed cell of the next greater
    score.
    """
    C = table.layout.num_continuous
    continuous, codes = torch.empty_like(table.continuous), torch.empty_like(table.codes)
    for start, stop, x in draw(network, table, solver, backend, seed, verbose=verbose, desc=desc):
        continuous[start:stop] = x[:, :C]
        codes[start:stop] = most_probable(x[:, C:], table.layout, backend)
    continuous = torch.where(torch.isnan(table.continuous), continuous, table.continuous)
    values = None if table.values is None else _look_up(continuous, table.continuous, table.values)
    return EncodedTable(continuous, torch.where(table.codes < 0, codes, table.codes), table.layout, values)


def _look_up(scores: Tensor, known_scores: Tensor, known_values: Tensor) -> Tensor:
    """The values of scores, by the pairs known in each column: all ``[N, C]``, those of known scores kept."""
    values = known_values.clone()
    for c in range(scores.shape[1]):
        hole = torch.isnan(known_scores[:, c])
        ladder, order = known_scores[~hole, c].sort()
        if len(ladder):
            place = torch.searchsorted(ladder, scores[hole, c].contiguous()).clamp(max=len(ladder) - 1)
            values[hole, c] = known_values[~hole, c][order[place]]
    return values
