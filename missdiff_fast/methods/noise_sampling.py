"""The paper's Algorithm 2: ancestral sampling, with the known cells of a row held by replacement."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor
from tqdm import tqdm

from missdiff_fast._engine.backend import Backend
from missdiff_fast._engine.random import derive, make_key, make_keys
from missdiff_fast._engine.sampling import check_finite
from missdiff_fast._engine.tiling import shrinking
from missdiff_fast._progress import progress_bar
from missdiff_fast.diffusion.states import CLEAN, NOISY
from missdiff_fast.methods.noise_model import NoiseModel
from missdiff_fast.table.encoded import EncodedTable

_LEAST_TILE = 16  # no smaller tiles where a GPU runs out of memory


def chains(
    model: NoiseModel,
    known: EncodedTable,
    seeds: Sequence[int],
    backend: Backend,
    *,
    first_row: int = 0,
    autocast: bool = False,
    verbose: bool = False,
    desc: str = "sample",
) -> Iterator[tuple[int, int, Tensor]]:
    """Complete a table by Algorithm 2 once for each seed, tile by tile.

    Parameters
    ----------
    model : NoiseModel
        Trained.
    known : EncodedTable
        The known cells, N rows.
    seeds : sequence of int
        One for each chain. Row i depends on (seed, i) and its known cells alone.
    backend : Backend
        The ops.
    first_row : int
        The number i of the first row.
    autocast : bool
        As in `NoiseModel.predict`.
    verbose, desc
        Progress bar, and its name.

    Yields
    ------
    start, stop, x : int, int, Tensor
        Rows of the table, and their encoded completions, ``[seeds, stop - start, D]``.

    Raises
    ------
    FloatingPointError
        A drawn cell is not finite.
    torch.cuda.OutOfMemoryError
        The GPU's memory does not hold the smallest tile of rows.
    """
    at_once = model.chains_at_once
    groups = [seeds[i : i + at_once] for i in range(0, len(seeds), at_once)]
    with chains_bar(model, first_row % model.tile.rows + len(known), len(seeds), verbose, desc) as bar:

        def work(start: int, piece: EncodedTable) -> Tensor:
            return torch.cat([_chain(model, piece, start, group, backend, autocast, bar) for group in groups])

        yield from shrinking(known, model.tile, work, first_row=first_row, least=_LEAST_TILE)


@torch.inference_mode()
def _chain(
    model: NoiseModel,
    piece: EncodedTable,
    start: int,
    seeds: Sequence[int],
    backend: Backend,
    autocast: bool,
    bar: tqdm,
) -> Tensor:
    """Completions of one tile, computed together: ``[seeds, B, D]``."""
    device, T = model.device, len(model.process)
    rows, held, clean = encode_clean(model, piece, start, backend)
    shape = len(seeds), *clean.shape
    states = torch.where(piece.observed(), CLEAN, NOISY).to(torch.uint8)
    offsets, any_held = model.min_max.layout.offsets(device), bool(held.any())
    keys = [make_keys(seed, T + 1, device) for seed in seeds]
    replace_keys = [make_keys(derive(seed, "replace"), T, device) for seed in seeds]

    def noise(keys: list[Tensor], step: int) -> Tensor:
        return torch.stack([backend.normal(rows, shape[2], key[step]) for key in keys])

    x = noise(keys, 0) * model.process.prior
    for i, t in enumerate(reversed(model.levels)):
        if any_held:
            x = torch.where(held, model.alpha[t] * clean + model.sigma[t] * noise(replace_keys, i), x)
        prediction = model.predict(x.flatten(0, 1), t, autocast=autocast).view(shape)
        coefficients = model.coefficients[i]
        moved = [
            backend.step(one, noise_of_one, None, states, offsets, coefficients, rows, key[i + 1], softmax=False)[0]
            for one, noise_of_one, key in zip(x, prediction, keys, strict=True)
        ]
        x = torch.stack(moved)
        bar.update(len(seeds))
    check_finite(x, "drew")
    return torch.where(held, clean, x)


def encode_clean(model: NoiseModel, piece: EncodedTable, start: int, backend: Backend) -> tuple[Tensor, Tensor, Tensor]:
    """A tile's global row numbers ``[B]``, where it is observed ``[B, D]``, and its encoded rows without noise."""
    inside = torch.arange(len(piece), device=model.device)
    ones, (low, high) = torch.ones(len(piece), device=model.device), model.min_max.levels
    observed = piece.observed()
    states = torch.full(observed.shape, CLEAN, dtype=torch.uint8, device=model.device)
    key = make_key(0, 0, model.device)  # nothing is noisy, so no noise is drawn
    x0 = backend.perturb(model.min_max.encode(piece), inside, states, ones, ones, key, low=low, high=high)
    return inside + start, observed[:, model.min_max.layout.groups(model.device)], x0


def chains_bar(model: NoiseModel, rows: int, chains: int, verbose: bool, desc: str) -> tqdm:
    """A bar over the steps of all tiles and chains."""
    total = -(-rows // model.tile.rows) * chains * len(model.process)
    return progress_bar(total=total, desc=desc, unit="step", verbose=verbose)
