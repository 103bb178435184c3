"""The network that draws incomplete rows: trained on the rows as they are, with their missing cells hidden."""

from __future__ import annotations

import copy
from dataclasses import replace

import torch

from missdiff_fast._engine.calibration import Calibration
from missdiff_fast._engine.history import History
from missdiff_fast._engine.phase import Phase
from missdiff_fast._engine.protocols import Backend
from missdiff_fast._engine.quantiles import ScoreCells, quantiles
from missdiff_fast._engine.random import derive, shuffled
from missdiff_fast._engine.sampling import fill
from missdiff_fast._engine.shares import log_ratio, shares_of
from missdiff_fast._engine.tiling import unknown
from missdiff_fast._engine.training import train
from missdiff_fast.config import Config
from missdiff_fast.config.drawing import LEAST_ROWS
from missdiff_fast.networks import Denoiser
from missdiff_fast.table.encoded import EncodedTable

# Of a round of calibration: its rows, as a share of ``calibration.rows``, and the damping of its changes.
_ROUNDS = (1 / 8, 1.0), (1 / 2, 0.7)


def train_incomplete(
    generator: Denoiser,
    table: EncodedTable,
    config: Config,
    backend: Backend,
    seed: int,
    history: History,
    *,
    verbose: bool = False,
) -> Denoiser | None:
    """Train a copy of the generator further, on rows whose observed cells are noisy and whose missing ones are hidden.

    The generator cannot draw such rows: in its training observed cells are hidden too, so it does not learn how the
    others are distributed where a cell is missing.

    Parameters
    ----------
    generator : Denoiser
        The trained network, which stays as it is.
    table : EncodedTable
        The training rows.
    config : Config
        Settings: ``incomplete``, ``objective`` and ``training``, with the steps that were taken.
    backend : Backend
        The ops, the network's passes and the training step.
    seed : int
        Everything random follows from it.
    history : History
        Extended in place.
    verbose : bool
        Whether to draw a progress bar where stderr is a terminal.

    Returns
    -------
    Denoiser, optional
        The copy; None where nothing is missing, or the share of steps is 0.

    Raises
    ------
    FloatingPointError
        Training diverged.
    """
    training = config.training
    steps, batch_size = training.resolve(len(table))
    share = config.incomplete.step_share
    if share == 0 or bool(table.observed().all()):
        return None
    steps = max(1, round(steps * share))
    phase = Phase.after(history, "incomplete rows", steps, batch_size, training)
    objective = replace(config.objective, clean_share=0.0, hidden_share=0.0, impute_share=0.0, mean_weight=0.0)
    network = copy.deepcopy(generator)
    train(network, table, objective, phase, backend, seed, history, verbose=verbose)
    history.choose("incomplete.steps", steps, "training further, for rows with holes")
    return network


def calibrate_incomplete(
    network: Denoiser, table: EncodedTable, config: Config, backend: Backend, seed: int
) -> Calibration:
    """Corrections with which the cells of drawn rows are distributed as the table's observed cells.

    Two rounds draw rows with the holes of rows of the table, an eighth and half as many as ``calibration.rows``, of a
    small table fewer, and weight the categories. The quantiles of scores are those of the last round's rows.

    Parameters
    ----------
    network : Denoiser
        What `train_incomplete` gave.
    table : EncodedTable
        The training rows.
    config : Config
        Settings: ``calibration`` and the solver.
    backend : Backend
        The ops, the network's passes and the training step.
    seed : int
        Everything random follows from it.
    """
    layout, settings = table.layout, config.calibration
    found = Calibration.none(layout, table.device)
    if settings.rounds == 0:
        return found
    wanted = shares_of(table, table.codes >= 0)
    order = shuffled(len(table), derive(seed, "holes", 1)).to(table.device)
    most = min(settings.rows, max(LEAST_ROWS, 4 * len(table)))
    # Without categories one round tells the scores.
    first = max(len(_ROUNDS) - settings.rounds, 0) if layout.cardinalities else len(_ROUNDS) - 1
    for r, (share, damping) in enumerate(_ROUNDS[first:]):
        number = max(LEAST_ROWS, round(share * most))
        hidden = ~table.rows(order.repeat(-(-number // len(order)))[:number]).observed()
        nothing = unknown(number, layout, table.device)
        weighted = found.network(network)
        drawn = fill(weighted, nothing, config.solver, backend, derive(seed, "holes", 2 + r), hidden=hidden)
        count = layout.of_groups((drawn.codes >= 0).sum(0))
        change = damping * log_ratio(wanted, shares_of(drawn, drawn.codes >= 0), count.clamp(min=1))
        found = replace(found, log_weights=found.log_weights + torch.where(count > 0, change, 0.0))
    if not settings.scores:
        return found
    theirs, own = quantiles(drawn, ScoreCells(table), range(layout.num_continuous))
    return replace(found, drawn=theirs, wanted=own)
