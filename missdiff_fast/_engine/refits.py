"""Refits on bootstrap samples: networks whose differences show how uncertain the fit itself is."""

from __future__ import annotations

import copy
from dataclasses import replace

import torch

from missdiff_fast._engine.history import History
from missdiff_fast._engine.phase import Phase
from missdiff_fast._engine.protocols import Backend
from missdiff_fast._engine.random import derive
from missdiff_fast._engine.sampling import fill
from missdiff_fast._engine.training import train
from missdiff_fast.config import Config
from missdiff_fast.networks import Denoiser
from missdiff_fast.table.encoded import EncodedTable


def bootstrap(table: EncodedTable, seed: int, number: int) -> EncodedTable:
    """As many rows as the table has, drawn with replacement: those of the refit of this number."""
    generator = torch.Generator().manual_seed(derive(derive(seed, "refit", number), "bootstrap"))
    return table.rows(torch.randint(len(table), (len(table),), generator=generator).to(table.device))


def refit(
    network: Denoiser,
    table: EncodedTable,
    config: Config,
    backend: Backend,
    seed: int,
    history: History,
    *,
    number: int,
    refined: bool,
    verbose: bool = False,
) -> Denoiser:
    """Train a copy of the network further, on as many rows drawn from the table with replacement.

    Where the fit refines, each of ``config.refits.rounds`` rounds first draws the missing cells with the copy itself,
    not with the network, whose draws would hold the copy near the network. Drawn cells are noisy columns; the loss is
    over the observed cells alone.

    Parameters
    ----------
    network : Denoiser
        The fitted network, which stays as it is.
    table : EncodedTable
        All training rows.
    config : Config
        Settings.
    backend : Backend
        The ops, the network's passes and the training step.
    seed : int
        Of the fit.
    history : History
        Extended in place.
    number : int
        The refit's, from 0; one seed and number give the same weights.
    refined : bool
        Whether the fit filled missing cells and trained on.
    verbose : bool
        Progress bars.

    Returns
    -------
    Denoiser
        The copy.

    Raises
    ------
    FloatingPointError
        Training diverged.
    """
    training, refits = config.training, config.refits
    table, seed = bootstrap(table, seed, number), derive(seed, "refit", number)
    steps, batch_size = training.resolve(len(table))
    rounds = refits.rounds if refined else 1
    steps = max(1, round(steps * refits.step_share / rounds))
    phase = Phase.after(history, f"refit {number + 1}/{refits.number}", steps, batch_size, training)
    phase = replace(phase, learning_rate=training.learning_rate * refits.rate_share, show=1.0)
    # A refit draws with known cells clean and all others noisy, and does nothing else.
    objective = replace(
        config.objective,
        clean_share=1.0,
        hidden_share=0.0,
        impute_share=0.0,
        mean_weight=0.0,
        log_sigma_mean=refits.log_sigma_mean,
    )
    network, filled = copy.deepcopy(network), None
    for r in range(rounds):
        if refined:
            filled = fill(network, table, config.solver, backend, derive(seed, "fill", r))
        train(network, table, objective, phase, backend, seed, history, filled=filled, verbose=verbose)
        phase = replace(phase, first_step=phase.first_step + phase.steps)
    return network
