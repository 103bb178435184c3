"""The phases of a fit: training on observed cells, then rounds of filling the missing cells and training further."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace

import torch

from missdiff_fast._engine.history import History
from missdiff_fast._engine.imputation import probe_loss
from missdiff_fast._engine.length import choose_length
from missdiff_fast._engine.phase import Phase
from missdiff_fast._engine.protocols import Backend
from missdiff_fast._engine.random import derive, shuffled
from missdiff_fast._engine.resemblance import distance
from missdiff_fast._engine.sampling import fill
from missdiff_fast._engine.stopping import early_stop
from missdiff_fast._engine.tiling import unknown
from missdiff_fast._engine.training import train
from missdiff_fast.config import Config
from missdiff_fast.networks import Denoiser
from missdiff_fast.table.encoded import EncodedTable

MIN_ROWS_TO_HOLD_OUT = 200
_DRAWN_ROWS, _COMPARED_ROWS = 4096, 1 << 16  # rows drawn to measure a network, and the most table rows compared
_RARE = 100  # a column observed less often keeps all its cells in training


@dataclass
class Networks:
    """The networks of a fit, updated as it proceeds, so that an interrupted fit leaves usable ones.

    Parameters
    ----------
    generator : Denoiser
        Draws rows: the latest weights that passed.
    imputer : Denoiser
        Imputes: of the phases' weights those with the least loss on held-out rows, or without such rows the generator,
        until `train_imputer` replaces them.
    """

    generator: Denoiser
    imputer: Denoiser


def run_phases(
    networks: Networks,
    table: EncodedTable,
    config: Config,
    backend: Backend,
    seed: int,
    history: History,
    *,
    rounds: int,
    verbose: bool = False,
) -> tuple[EncodedTable, EncodedTable | None]:
    """Train, then refine in rounds; the networks are updated in place.

    A masked loss over zero-filled rows learns the score of zero-filled rows, not of complete ones. A round therefore
    draws the missing cells given the observed ones and trains further with the draws shown as noisy columns, so that
    noisy rows have the distribution of complete rows. The loss is over the observed cells and, where most rows observe
    the column and the noise is strong, over the drawn cells: over observed cells alone the network learns the mean of a
    cell given that it is observed, which under MAR differs from the mean over all rows.

    Parameters
    ----------
    networks : Networks
        One new network, as both members.
    table : EncodedTable
        The training rows.
    config : Config
        Settings.
    backend : Backend
        The ops, the network's passes and the training step.
    seed : int
        Everything random follows from it.
    history : History
        Extended in place.
    rounds : int
        Number of refinement rounds.
    verbose : bool
        Progress bars.

    Returns
    -------
    table, held_out : EncodedTable, EncodedTable or None
        The rows that the networks were trained on, and those held out to measure imputation and to end training.
    """
    training, refine = config.training, config.refine
    held_out = None
    # Without rounds only an early end needs the rows. A complete table is trained in full.
    if rounds > 0 or (training.patience is not None and not bool(table.observed().all())):
        table, held_out = _hold_out(table, seed)
    steps, batch_size = choose_length(networks.generator, table, config, backend, seed, history, rounds=rounds)
    phase = Phase("fit", steps, batch_size, training.learning_rate, training.warmup, training.ema)
    stop = early_stop(table, held_out, phase, config, backend, seed, history)
    train(networks.generator, table, config.objective, phase, backend, seed, history, stop=stop, verbose=verbose)
    done = steps
    if stop is not None:  # the next phases are shares of the schedule that was kept
        done, steps = stop.end, stop.length
    if rounds == 0:
        return table, held_out
    nearest = _distance(networks.generator, table, config, backend, seed)
    best = held_out_loss(networks.generator, held_out, backend, seed)
    for r in range(1, rounds + 1):
        name = f"{r}/{rounds}"
        fill_seed = derive(seed, "fill", r)
        filled = fill(
            networks.generator, table, config.solver, backend, fill_seed, verbose=verbose, desc=f"fill {name}"
        )
        phase = replace(
            phase,
            name=f"refine {name}",
            first_step=done,
            steps=max(1, round(steps * refine.step_share)),
            learning_rate=training.learning_rate * refine.rate_share,
            show=refine.show,
            trusted_rate=refine.trusted_rate,
            trusted_sigma=refine.trusted_sigma,
        )
        # Train a copy, because the weights before may turn out to be the better ones.
        network = copy.deepcopy(networks.generator)
        train(network, table, config.objective, phase, backend, seed, history, filled=filled, verbose=verbose)
        done += phase.steps
        loss = held_out_loss(network, held_out, backend, seed)
        if held_out is not None and loss <= best:
            best, networks.imputer = loss, network
        distance_now = _distance(network, table, config, backend, seed)
        if distance_now > nearest:
            break
        nearest, networks.generator = distance_now, network
        if held_out is None:
            networks.imputer = network
    return table, held_out


def _hold_out(table: EncodedTable, seed: int) -> tuple[EncodedTable, EncodedTable | None]:
    """Split off a twentieth of the rows, at most 1,000, to measure losses on; a small table keeps all."""
    if len(table) < MIN_ROWS_TO_HOLD_OUT:
        return table, None
    observed = table.observed()
    spare = (~observed[:, observed.sum(0) < _RARE].any(1)).nonzero()[:, 0]
    order = shuffled(len(spare), derive(seed, "holdout")).to(table.device)
    held_out = spare[order[: min(1000, len(table) // 20)]]
    if not len(held_out):
        return table, None
    kept = torch.ones(len(table), dtype=torch.bool, device=table.device)
    kept[held_out] = False
    return table.rows(kept.nonzero()[:, 0]), table.rows(held_out)


def held_out_loss(network: Denoiser, held_out: EncodedTable | None, backend: Backend, seed: int) -> float:
    """The imputation loss on held-out rows; 0 where there are none."""
    return 0.0 if held_out is None else probe_loss(network, held_out, backend, seed)


def _distance(network: Denoiser, table: EncodedTable, config: Config, backend: Backend, seed: int) -> float:
    """Distance between rows drawn by the network and the observed cells."""
    rows = shuffled(len(table), derive(seed, "compare"))[:_COMPARED_ROWS].to(table.device)
    nothing = unknown(_DRAWN_ROWS, table.layout, table.device)
    return distance(table.rows(rows), fill(network, nothing, config.solver, backend, derive(seed, "compare"))).total
