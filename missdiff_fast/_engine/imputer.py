"""The network that imputes: trained on rows whose known cells are clean and whose others are hidden."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from missdiff_fast._engine.history import History
from missdiff_fast._engine.phase import Phase
from missdiff_fast._engine.protocols import Backend
from missdiff_fast._engine.refinement import Networks, held_out_loss
from missdiff_fast._engine.training import train
from missdiff_fast.config import Config
from missdiff_fast.networks import Denoiser
from missdiff_fast.table.encoded import EncodedTable

_LEAST_STEPS = 200  # of a new network


def train_imputer(
    networks: Networks,
    new_network: Callable[[], Denoiser],
    table: EncodedTable,
    held_out: EncodedTable | None,
    config: Config,
    backend: Backend,
    seed: int,
    history: History,
    *,
    verbose: bool = False,
) -> None:
    """Train the network that imputes, and nothing else: known cells are clean, others hidden, and none is noisy.

    Of many rows it is a copy of the imputer so far, trained further. Of few rows it is a new network: what imputation
    needs is learnt in fewer steps than what drawing needs, and after more steps it fits the training rows alone. The
    new network is kept if its loss on cells hidden in the held-out rows is not greater than the former imputer's. For
    fewer than 200 steps there is none.

    Parameters
    ----------
    networks : Networks
        Those of the fit; the imputer is replaced once the training is done.
    new_network : callable
        Makes a new network, whose weights follow from the seed.
    table : EncodedTable
        The rows that the networks were trained on.
    held_out : EncodedTable, optional
        Rows that they were not trained on. Without them a new network is always kept.
    config : Config
        Settings: ``imputer``, ``objective`` and ``training``, with the steps that were taken.
    backend : Backend
        The ops, the network's passes and the training step.
    seed : int
        Everything random follows from it.
    history : History
        Extended in place.
    verbose : bool
        Whether to draw a progress bar where stderr is a terminal.

    Raises
    ------
    FloatingPointError
        Training diverged.
    """
    training, imputer = config.training, config.imputer
    steps, batch_size = training.resolve(len(table))
    steps = round(steps * imputer.share(len(table)))
    if steps == 0:
        return
    new = len(table) < imputer.new_rows and steps >= _LEAST_STEPS
    network = new_network() if new else copy.deepcopy(networks.imputer)
    phase = Phase.after(history, "imputer", steps, batch_size, training)
    objective = replace(config.objective, clean_share=0.0, hidden_share=0.0, impute_share=1.0)
    train(network, table, objective, phase, backend, seed, history, verbose=verbose)
    loss = partial(held_out_loss, held_out=held_out, backend=backend, seed=seed)
    reason = "a new network, of few rows" if new else "training further"
    if new and loss(network) > loss(networks.imputer):
        reason += ": not kept, its loss on held-out rows was greater"
    else:
        networks.imputer = network
    history.choose("imputer.steps", steps, reason)
