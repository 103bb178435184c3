"""Early stopping: the loss on rows held back from a phase of training decides how long the phase is."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from missdiff_fast._engine.history import History, Progress
from missdiff_fast._engine.phase import Phase
from missdiff_fast._engine.protocols import Backend, Stepper
from missdiff_fast._engine.random import derive, make_key
from missdiff_fast._engine.visits import Visits
from missdiff_fast.config import Config, ObjectiveConfig
from missdiff_fast.diffusion.objective import column_weights, draw_sigma, draw_states
from missdiff_fast.diffusion.schedule import noise_weight
from missdiff_fast.table.encoded import EncodedTable

_CHECKS = 20  # of a phase
_TAIL = 0.1  # of the phase's steps: the decay after a stop
_LOGGED = 50  # checks fall on points of the loss curve, where a GPU is waited for anyway
_COST = 1000  # a check repeats its rows up to the phase's rows divided by this
_CALL_ROWS, _MOST_ROWS = 2048, 8192  # rows of one call of the network, and of a check


def early_stop(
    table: EncodedTable,
    held_back: EncodedTable | None,
    phase: Phase,
    config: Config,
    backend: Backend,
    seed: int,
    history: History,
) -> EarlyStop | None:
    """An early stop of a phase on ``table``; None where no rows are held back, or the settings have no patience."""
    patience, objective = config.training.patience, config.objective
    if held_back is None or patience is None:
        return None
    observed, batch_size = table.observed(), min(phase.batch_size, len(table))
    weights = column_weights(observed, objective.column_power, objective.column_cap)
    if (
        visits := Visits.of(observed, batch_size, whole=table.layout.whole(table.device))
    ) is not None:  # the cells of a column are so many times in the loss
        weights = weights * visits.columns
    weights, rows = weights.to(table.continuous.dtype), phase.steps * batch_size
    return EarlyStop(HeldBackLoss(held_back, objective, weights, backend, seed, rows), phase, patience, history)


class HeldBackLoss:
    """The training loss on held-back rows, always with the same noise, noise levels and hidden columns.

    Parameters
    ----------
    table : EncodedTable
        The rows held back.
    objective : ObjectiveConfig
        Of the training: its kinds of rows, noise levels and weights.
    column_weight : Tensor
        Weight of each table column in the loss, as in training, ``[J]``.
    backend : Backend
        The ops.
    seed : int
        Fixes the noise, the levels and the columns.
    rows : int
        Rows of the whole training. Held-back rows are repeated with other noise, up to a thousandth of these and 8,192.
    """

    def __init__(
        self,
        table: EncodedTable,
        objective: ObjectiveConfig,
        column_weight: Tensor,
        backend: Backend,
        seed: int,
        rows: int,
    ) -> None:
        index = torch.arange(len(table), device=table.device).repeat(
            max(1, min(rows // _COST, _MOST_ROWS) // len(table))
        )
        self._table = table = table.rows(index)
        self._backend, self._objective, self._column_weight = backend, objective, column_weight
        self._rows = torch.arange(len(table), device=table.device)
        own = derive(seed, "check")
        self._key, of_levels, of_states = (make_key(own, number, table.device) for number in range(3))
        layout, seen = table.layout, table.observed()
        uniform = backend.uniform(self._rows, layout.num_columns + 2, of_states)
        states = draw_states(layout.with_partners(uniform), seen, seen, objective)
        self._states = layout.with_residuals(states)
        self._sigma = draw_sigma(backend.normal(self._rows, 1, of_levels)[:, 0], objective)

    @torch.inference_mode()
    def __call__(self, network: nn.Module) -> float:
        """The loss of a network, in one pass of the held-back rows."""
        total = torch.zeros((), dtype=torch.float64, device=self._rows.device)
        for index in self._rows.split(_CALL_ROWS):
            sigma, states = self._sigma[index], self._states[index]
            x = self._backend.perturb(self._table, index, states, torch.ones_like(sigma), sigma, self._key)
            loss = self._backend.masked_loss(
                network(x, sigma, states),
                self._table,
                index,
                states,
                noise_weight(sigma),
                mean_weight=self._objective.mean_weight,
                column_weight=self._column_weight,
            )
            total += loss.double() * len(index)
        return float(total) / len(self._rows)


class EarlyStop:
    """Ends a phase once the held-back loss has not improved for some checks.

    A network in mid-decay of the learning rate is worse than the same network at the end of a shorter schedule. After a
    stop, training therefore goes back to the check with the least loss and takes a tenth of the phase's steps from
    there, in which the rate decays to 0.

    Every phase, stopped or not, is checked at its end, and ends with the weights of the check with the least loss.

    Parameters
    ----------
    loss : HeldBackLoss
        The loss that is to improve.
    phase : Phase
        The training's schedule.
    patience : int
        Checks without improvement after which the phase ends.
    history : History
        Gets each check, and why the phase ended.
    """

    def __init__(self, loss: HeldBackLoss, phase: Phase, patience: int, history: History) -> None:
        self._loss, self._phase, self._patience, self._history = loss, phase, patience, history
        self._every = max(_LOGGED, round(phase.steps / _CHECKS / _LOGGED) * _LOGGED)
        self._best, self._best_step, self._restore = math.inf, 0, _nothing
        self._decay = max(1, round(_TAIL * phase.steps))
        # The step at which the last decay began, and its first learning rate.
        self._tail: int | None = None
        self._peak = 0.0
        self.end = phase.steps  # steps of the phase, as far as is known
        self.length = phase.steps  # of them, without those that a stop went back over

    def rate(self, step: int) -> float:
        """The learning rate of a step, counted from 0."""
        if self._tail is None:
            return self._phase.rate(step)
        return self._peak * (1 - (step - self._tail) / self._decay)

    def until_check(self, step: int) -> int:
        """Number of steps from here to the next check, or to the end of the phase."""
        return min(self._every - step % self._every, self.end - step)

    def after(self, step: int, stepper: Stepper, progress: Progress) -> None:
        """Check, where it is time to; ``step`` steps have been taken."""
        if step % self._every and step != self.end:
            return
        with stepper.averaged() as network:
            loss = self._loss(network)
        self._history.check(self._phase.first_step + step, loss)
        if loss < self._best:
            self._best, self._best_step, self._restore = loss, step, stepper.save()
        elif step == self.end:
            self._restore()
        elif step - self._best_step >= self._patience * self._every and self._tail is None:
            if step + self._decay > self.end:
                return
            self._restore()
            self._tail, self._peak = step, self._phase.rate(self._best_step)
            self.end, self.length = step + self._decay, self._best_step + self._decay
            progress.shorten(self.end)
            why = f"of {self._phase.steps:,}: the held-back loss stopped improving after {self._best_step:,}"
            self._history.kept_steps = self.length
            self._history.choose(f"steps of {self._phase.name}", self.end, why)


def _nothing() -> None:
    """Restore nothing: there was no check yet."""
