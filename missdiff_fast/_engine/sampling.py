"""Drawing rows with a solver, tile by tile; known columns stay clean."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import torch
from torch import Tensor, nn
from tqdm import tqdm

from missdiff_fast._engine.device import to_host
from missdiff_fast._engine.protocols import Backend
from missdiff_fast._engine.random import make_keys
from missdiff_fast._engine.tiling import shrinking
from missdiff_fast._progress import progress_bar
from missdiff_fast.config import SolverConfig
from missdiff_fast.diffusion.schedule import karras_sigmas
from missdiff_fast.diffusion.solver import dpm_solver_2m
from missdiff_fast.diffusion.states import CLEAN, HIDDEN, NOISY
from missdiff_fast.errors import DivergedError
from missdiff_fast.remedies import FitAgain
from missdiff_fast.table.encoded import EncodedTable, Layout


@torch.inference_mode()
def draw(
    network: nn.Module,
    known: EncodedTable,
    solver: SolverConfig,
    backend: Backend,
    seed: int,
    *,
    hidden: Tensor | None = None,
    first_row: int = 0,
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
    backend : Backend
        The ops, the network's passes and the training step.
    seed : int
        Row i depends on (seed, i), its known and its hidden cells alone.
    hidden : Tensor, optional
        The missing cells that the network is not to see and whose results mean nothing, bool ``[N, J]``; by default
        none. The others are then drawn as in a row with holes there.
    first_row : int
        The number i of the first row.
    verbose, desc
        Progress bar, and its name.

    Yields
    ------
    start, stop, x : int, int, Tensor
        The tile's rows, and their encoded form ``[stop - start, D]``. On a GPU they may still be queued.

    Raises
    ------
    FloatingPointError
        A drawn cell is not finite. On a GPU this is known once the tile after that of the cell is asked for.
    torch.cuda.OutOfMemoryError
        The GPU's memory does not hold the smallest tile of rows.
    """
    device = known.device
    sigmas = karras_sigmas(solver.steps, solver.sigma_max, solver.sigma_min, solver.rho)
    coefficients = dpm_solver_2m(sigmas).float().to(device)
    levels = sigmas[:-1].float().to(device)
    keys = make_keys(seed, solver.steps + 2, device)  # of the start, of each step, and of the categories
    groups = known.layout.groups(device)

    def work(start: int, piece: EncodedTable) -> Tensor:
        rows = torch.arange(start, start + len(piece), device=device)
        states = torch.where(piece.observed(), CLEAN, NOISY).to(torch.uint8)
        if hidden is not None:
            own = (rows - first_row).clamp(0, len(hidden) - 1)  # those beyond the table's ends are padding
            states = states.masked_fill(hidden[own], HIDDEN)
        x = _start(piece, groups, rows, states, solver.sigma_max, keys[0], backend)
        return backend.mlp_sample(
            network, x, states, known.offsets, levels, coefficients, rows, keys[1:-1], precision=solver.precision
        )

    with progress_bar(total=len(known), desc=desc, unit="row", verbose=verbose) as bar:
        tiles = shrinking(known, backend.tile(network, device), work, first_row=first_row)
        for start, stop, x in finite(tiles, "drew", bar):
            if solver.draw_categories:
                rows = torch.arange(first_row + start, first_row + stop, device=device)
                draw_categories(x, known.layout, backend.uniform(rows, known.layout.num_categorical, keys[-1]))
            yield start, stop, x


def draw_categories(x: Tensor, layout: Layout, uniform: Tensor) -> None:
    """Draw a category of each one-hot group from its probabilities; the groups become one-hot, in place.

    The most probable one would be too frequent: the last probabilities are those of a row with noise of the least
    level, which does not always tell the category.

    Parameters
    ----------
    x : Tensor
        Rows whose one-hot groups hold probabilities, ``[B, D]``.
    layout : Layout
        Of the row.
    uniform : Tensor
        Numbers from 0 up to 1, ``[B, K]``.

    Examples
    --------
    >>> x = torch.tensor([[0.25, 0.25, 0.5]]).repeat(3, 1)
    >>> draw_categories(x, Layout(0, (3,)), torch.tensor([[0.1], [0.4], [0.9]]))
    >>> x.tolist()
    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """
    for k, group in enumerate(x[:, layout.num_continuous :].split(layout.cardinalities, 1)):
        code = draw_codes(group, uniform[:, k : k + 1])
        group.zero_().scatter_(1, code, 1.0)


def draw_codes(chances: Tensor, uniform: Tensor) -> Tensor:
    """A category of each row from its probabilities ``[B, V]`` and numbers from 0 up to 1 ``[B, 1]``: int64 ``[B, 1]``.

    >>> draw_codes(torch.tensor([[0.25, 0.25, 0.5]]), torch.tensor([[0.4]])).tolist()
    [[1]]
    """
    below = chances.cumsum(1)
    # The last bound is the greatest, so that a category is found whatever the probabilities sum to.
    return (below[:, :-1] <= uniform * below[:, -1:]).sum(1, keepdim=True)


def finite(tiles: Iterable[tuple[int, int, Tensor]], verb: str, bar: tqdm) -> Iterator[tuple[int, int, Tensor]]:
    """The tiles, with `check_finite` of each; the check of a GPU's is over once the next tile is asked for."""
    check: Callable[[], None] | None = None
    for start, stop, x in tiles:
        begun = begin_check(x, verb)
        if check is not None:
            check()
        check = begun
        bar.update(stop - start)
        yield start, stop, x
    if check is not None:
        check()


def check_finite(x: Tensor, verb: str) -> None:
    """Raise DivergedError where a value is not finite; ``verb`` says what the model did: "drew" or "imputed"."""
    begin_check(x, verb)()


def begin_check(x: Tensor, verb: str) -> Callable[[], None]:
    """Begin `check_finite`: on the CPU the check is done at once; the result waits for that of a GPU."""
    answer = to_host(torch.isfinite(x).all())

    def check() -> None:
        if not bool(answer()[0]):
            problem = f"the model {verb} cells that are not finite"
            raise DivergedError("cells", problem, remedy=FitAgain(lower="learning_rate"))

    if x.device.type != "cuda":
        check()
    return check


def _start(
    piece: EncodedTable,
    groups: Tensor,
    rows: Tensor,
    states: Tensor,
    sigma_max: float,
    key: Tensor,
    backend: Backend,
) -> Tensor:
    """Known cells, and noise of the greatest level elsewhere: ``[B, D]``."""
    known, zeros = states == CLEAN, torch.zeros(len(piece), device=piece.device)
    shown = torch.where(known, CLEAN, HIDDEN).to(torch.uint8)
    clean = backend.perturb(piece, torch.arange(len(piece), device=piece.device), shown, zeros, zeros, key)
    noise = backend.normal(rows, piece.layout.width, key) * sigma_max
    return torch.where(known[:, groups], clean, noise)


def most_probable(groups: Tensor, offsets: Tensor, backend: Backend) -> Tensor:
    """The code of the largest entry of each one-hot group; of equal ones, the first.

    Parameters
    ----------
    groups : Tensor
        Logits, probabilities or one-hot columns, ``[B, D - C]``.
    offsets : Tensor
        The first column of each group and the end of the last, on the same device, int64 ``[K + 1]``.
    backend : Backend
        The ops, the network's passes and the training step.

    Returns
    -------
    Tensor
        int16 ``[B, K]``.
    """
    nothing = torch.empty(0, dtype=groups.dtype, device=groups.device)
    return backend.decode(groups, offsets, nothing, offsets.new_zeros(1))[1]


def fill(
    network: nn.Module,
    table: EncodedTable,
    solver: SolverConfig,
    backend: Backend,
    seed: int,
    *,
    hidden: Tensor | None = None,
    verbose: bool = False,
    desc: str = "fill",
) -> EncodedTable:
    """The table with every missing cell drawn given the observed cells of its row; arguments as in `draw`.

    Hidden cells stay missing. Where the table has standardised values, a drawn cell gets the value of the observed cell
    with the next greater score.
    """
    C = table.layout.num_continuous
    continuous, codes = torch.empty_like(table.continuous), torch.empty_like(table.codes)
    offsets = table.offsets - C
    for start, stop, x in draw(network, table, solver, backend, seed, hidden=hidden, verbose=verbose, desc=desc):
        continuous[start:stop] = x[:, :C]
        codes[start:stop] = most_probable(x[:, C:], offsets, backend)
    _settle(continuous, codes, table)
    continuous = torch.where(torch.isnan(table.continuous), continuous, table.continuous)
    values = None if table.values is None else _look_up(continuous, table.continuous, table.values)
    filled = table.with_cells(continuous, torch.where(table.codes < 0, codes, table.codes), values)
    return filled if hidden is None else filled.without(hidden)


def _settle(continuous: Tensor, codes: Tensor, table: EncodedTable) -> None:
    """Move drawn scores, in place, into the range of the observed ones whose partner column has the drawn category."""
    for c, k in table.layout.atoms().items():
        seen, code = table.continuous[:, c], table.codes[:, k].long()
        seen, code = seen[code >= 0], code[code >= 0]
        ends = []
        for reduce, none in (("amin", -torch.inf), ("amax", torch.inf)):
            start = seen.new_full((table.layout.cardinalities[k],), none)
            ends.append(start.scatter_reduce(0, code, seen, reduce, include_self=False))
        drawn = codes[:, k].long()
        continuous[:, c] = continuous[:, c].clamp(ends[0][drawn], ends[1][drawn])


def _look_up(scores: Tensor, known_scores: Tensor, known_values: Tensor) -> Tensor:
    """Values of all scores, read off the observed pairs of score and value in each column: all ``[N, C]``."""
    values = known_values.clone()
    for c in range(scores.shape[1]):
        hole = torch.isnan(known_scores[:, c])
        ladder, order = known_scores[~hole, c].sort()
        if len(ladder):
            place = torch.searchsorted(ladder, scores[hole, c].contiguous()).clamp(max=len(ladder) - 1)
            values[hole, c] = known_values[~hole, c][order[place]]
    return values
