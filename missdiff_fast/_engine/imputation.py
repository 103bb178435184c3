"""Imputation in one pass of the network: conditional means and category probabilities of the missing cells."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from missdiff_fast._engine.folds import shown_states
from missdiff_fast._engine.protocols import Backend
from missdiff_fast._engine.random import derive, make_key
from missdiff_fast._engine.sampling import finite
from missdiff_fast._engine.tiling import shrinking
from missdiff_fast._progress import progress_bar
from missdiff_fast.diffusion.states import CLEAN, HIDDEN
from missdiff_fast.table.encoded import EncodedTable

_PROBE_SHARE = 0.2  # of a row's observed cells, hidden to measure how well they are imputed
_PROBE_ROWS = 2048  # of one call of the network


@torch.inference_mode()
def one_pass(
    network: nn.Module, table: EncodedTable, backend: Backend, *, verbose: bool = False
) -> Iterator[tuple[int, int, Tensor, Tensor]]:
    """Call the network once for each tile of rows, with observed columns clean and missing ones hidden.

    ``verbose`` draws a progress bar, where stderr is a terminal.

    Yields
    ------
    start, stop, logits, means : int, int, Tensor, Tensor
        The tile's rows, ``[rows, D - C]`` logits of the one-hot groups, and ``[rows, C]`` conditional means of the
        standardised raw values. On a GPU they may still be queued, and that one is not finite is known once the tile
        after it is asked for.
    """
    C, D = table.layout.num_continuous, table.layout.width
    key = make_key(0, 0, table.device)  # nothing is noisy, so no noise is drawn

    def work(start: int, piece: EncodedTable) -> Tensor:
        rows, ones = torch.arange(len(piece), device=table.device), torch.ones(len(piece), device=table.device)
        states = torch.where(piece.observed(), CLEAN, HIDDEN).to(torch.uint8)
        x = backend.perturb(piece, rows, states, ones, ones, key)
        return backend.mlp_predict(network, x, states, ones[:1])

    with progress_bar(total=len(table), desc="impute", unit="row", verbose=verbose) as bar:
        tiles = shrinking(table, backend.tile(network, table.device), work)
        for start, stop, prediction in finite(tiles, "imputed", bar):
            yield start, stop, prediction[:, C:D], prediction[:, D:]


@torch.inference_mode()
def probe_loss(network: nn.Module, table: EncodedTable, backend: Backend, seed: int) -> float:
    """The imputation loss of a network on rows held out from training: a fifth of their observed cells is hidden.

    One seed hides the same cells for every network.
    """
    total, weight = 0.0, torch.ones(_PROBE_ROWS, device=table.device)
    key = make_key(derive(seed, "probe"), 0, table.device)
    rows = torch.arange(len(table), device=table.device)
    picked = table.layout.with_partners(backend.uniform(rows, table.layout.num_columns, key)) < _PROBE_SHARE
    states = shown_states(table, ~picked)
    for index in rows.split(_PROBE_ROWS):
        ones, state = weight[: len(index)], states[index]
        x = backend.perturb(table, index, state, ones, ones, key)
        loss = backend.masked_loss(network(x, ones[:1], state), table, index, state, ones, mean_weight=1.0)
        total += float(loss) * len(index)
    return total / max(len(table), 1)
