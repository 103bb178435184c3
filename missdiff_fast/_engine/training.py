"""One phase of training, on the observed cells or on a table with its missing cells filled."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch
from torch import Tensor, nn

from missdiff_fast._engine.batches import TrainBatches
from missdiff_fast._engine.device import to_device
from missdiff_fast._engine.history import History, Progress
from missdiff_fast._engine.phase import Phase
from missdiff_fast._engine.protocols import Backend, Stepper
from missdiff_fast._engine.random import derive, make_key
from missdiff_fast._engine.stopping import EarlyStop
from missdiff_fast._engine.visits import Visits
from missdiff_fast.config import ObjectiveConfig
from missdiff_fast.diffusion.objective import column_weights, draw_sigma, draw_states
from missdiff_fast.diffusion.schedule import noise_weight
from missdiff_fast.diffusion.states import CLEAN, NOISY
from missdiff_fast.table.encoded import EncodedTable

# States and noise levels are drawn for this many rows at once, which keeps the device busy, in tensors of at most this
# many cells.
_DRAWN_ROWS = {"cpu": 8192, "cuda": 1 << 18}
_DRAWN_CELLS = 1 << 25


def batches(num_rows: int, batch_size: int, generator: torch.Generator) -> Iterator[Tensor]:
    """Row numbers of endless batches, int64 ``[min(batch_size, num_rows)]`` each; every pass is a new permutation.

    An incomplete batch at the end of a pass is dropped, not filled from the next pass: noise is keyed by row and step,
    so a row must not occur twice in one step.
    """
    size = min(batch_size, num_rows)
    while True:
        yield from torch.randperm(num_rows, generator=generator)[: num_rows // size * size].split(size)


def train(
    network: nn.Module,
    table: EncodedTable,
    objective: ObjectiveConfig,
    phase: Phase,
    backend: Backend,
    seed: int,
    history: History,
    *,
    filled: EncodedTable | None = None,
    stop: EarlyStop | None = None,
    verbose: bool = False,
) -> None:
    """Train a network in place; it ends with the moving average of its weights, also when interrupted.

    Parameters
    ----------
    network : nn.Module
        A `missdiff_fast.networks.Denoiser`.
    table : EncodedTable
        N rows. The loss is over its observed cells (and the trusted ones of ``filled``); a column weighs the more, the
        fewer rows observe it.
    objective, phase
        Loss and schedule.
    backend : Backend
        The ops, the network's passes and the training step.
    seed : int
        Everything random follows from it.
    history : History
        Extended in place.
    filled : EncodedTable, optional
        The same rows with every missing cell filled; ``phase`` says which filled cells are shown and enter the loss.
        The loss is then divided by the number of all cells of the batch.
    stop : EarlyStop, optional
        May end the phase early; without it, nothing is checked.
    verbose : bool
        Whether to draw a progress bar where stderr is a terminal.

    Raises
    ------
    FloatingPointError
        The loss is no longer finite.
    """
    observed = table.observed()
    weights = column_weights(observed, objective.column_power, objective.column_cap).to(table.continuous.dtype)
    stepper = backend.stepper(network, objective, weights, phase.ema)
    network.train()
    try:
        with Progress(history, phase.name, phase.steps, verbose, phase.first_step) as progress:
            parts = _draw_batches(table, observed, filled, objective, phase, backend, seed)
            if stop is None:
                _run(parts, stepper, phase, progress)
            else:
                _run_checked(parts, stepper, stop, progress)
    finally:
        stepper.finish()
        network.eval()


def _run(parts: Iterable[TrainBatches], stepper: Stepper, phase: Phase, progress: Progress) -> None:
    """Take all steps of the phase."""
    done = 0
    for part in parts:
        stepper.run(part, [phase.rate(t) for t in range(done, done + len(part))], progress)
        done += len(part)


def _run_checked(parts: Iterable[TrainBatches], stepper: Stepper, stop: EarlyStop, progress: Progress) -> None:
    """Take steps until the phase ends, with a pause for each check."""
    done = 0
    for part in parts:
        start = 0
        while start < len(part) and done < stop.end:
            count = min(len(part) - start, stop.until_check(done))
            rates = [stop.rate(t) for t in range(done, done + count)]
            stepper.run(part.part(start, start + count), rates, progress)
            start, done = start + count, done + count
            stop.after(done, stepper, progress)
        if done == stop.end:
            return


def _draw_batches(
    table: EncodedTable,
    observed: Tensor,
    filled: EncodedTable | None,
    objective: ObjectiveConfig,
    phase: Phase,
    backend: Backend,
    seed: int,
) -> Iterator[TrainBatches]:
    """Inputs of the phase's steps, drawn for several steps at once because calls on small tensors are slow.

    Random numbers are numbered through the phase, step by step and row by row.
    """
    device, columns = table.device, table.layout.num_columns
    generator = torch.Generator().manual_seed(derive(seed, "batches", phase.first_step))
    size = min(phase.batch_size, len(table))
    trusted = observed.double().mean(0) >= phase.trusted_rate
    whole = table.layout.whole(device)
    visits = Visits.of(observed, size, whole=whole, filled=None if filled is None else trusted)
    order = batches(len(table), size, generator) if visits is None else visits.order(size, generator)
    of_states, of_levels, of_visits = (
        make_key(derive(seed, purpose), phase.first_step, device) for purpose in ("states", "levels", "visits")
    )
    noise_seed = make_key(derive(seed, "noise"), 0, device)[0]
    complete = table if filled is None else filled
    widest = max(1, table.layout.width + 2 * columns)
    at_once = max(1, min(_DRAWN_ROWS[device.type], _DRAWN_CELLS // widest) // size)
    for first in range(0, phase.steps, at_once):
        rows = to_device(torch.cat([next(order) for _ in range(min(at_once, phase.steps - first))]), device)
        number = torch.arange(first * size, first * size + len(rows), device=device)
        uniform = backend.uniform(number, columns + 3, of_states)
        sigma = draw_sigma(backend.normal(number, 1, of_levels)[:, 0], objective)
        seen = observed[rows]
        shown = seen if filled is None else seen | (uniform[:, -1:] < phase.show)
        states = draw_states(table.layout.with_partners(uniform[:, :-1]), seen, shown, objective)
        states = table.layout.with_residuals(states)
        loss_states = states
        if filled is not None:  # filled cells outside the loss count as clean, which has no loss
            learnt = seen | (shown & (states == NOISY) & trusted & (sigma[:, None] > phase.trusted_sigma))
            loss_states = states.masked_fill(~learnt, CLEAN)
        if visits is not None:
            chance = table.layout.with_partners(backend.uniform(number, columns, of_visits))
            counted = visits.counted(rows, chance)
            loss_states = loss_states.masked_fill(~counted, CLEAN)
        steps = torch.arange(len(rows) // size, device=device) + (phase.first_step + first)
        keys = torch.stack([noise_seed.expand(len(steps)), steps], 1)
        shape = len(keys), size
        yield TrainBatches(
            complete,
            rows.unflatten(0, shape),
            states.unflatten(0, shape),
            loss_states.unflatten(0, shape),
            sigma.unflatten(0, shape),
            noise_weight(sigma).unflatten(0, shape),
            keys,
        )
