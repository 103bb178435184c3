"""Implementations of training steps: PyTorch, one call of an op for each, one for many, or a CUDA graph replayed."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from missdiff_fast._engine.batches import TrainBatch, TrainBatches
from missdiff_fast._engine.cuda_graphs import CapturedStep, StepBuffer, allow_tf32, replay
from missdiff_fast._engine.device import to_device
from missdiff_fast._engine.history import Progress
from missdiff_fast._engine.protocols import Backend
from missdiff_fast.config import ObjectiveConfig
from missdiff_fast.networks import Denoiser
from missdiff_fast.networks.packing import TrainingState
from missdiff_fast.ops.mlp_composed import Workspace, composed_train_step
from missdiff_fast.ops.mlp_train_steps import mlp_train_steps
from missdiff_fast.table.encoded import EncodedTable


def decay_of(count: int, ema: float) -> float:
    """EMA decay with warm-up: the decay of update number ``count``, from 0."""
    return min(ema, (1 + count) / (10 + count))


class TorchStepper:
    """PyTorch's network, gradients and AdamW, with the ops of a backend; arguments as of `Backend.stepper`.

    The same step as `mlp_train_step`, for networks and column weights that the op does not take.
    """

    def __init__(
        self, network: nn.Module, objective: ObjectiveConfig, column_weight: Tensor, ema: float, backend: Backend
    ) -> None:
        self.network, self.objective, self.column_weight, self.backend = network, objective, column_weight, backend
        self.optimizer = torch.optim.AdamW(network.parameters(), weight_decay=0.0, fused=True)
        self.average = WeightAverage(network, ema)

    def run(self, batches: TrainBatches, rates: Sequence[float], progress: Progress) -> None:
        """As `Stepper.run`."""
        for batch, rate in zip(batches, rates, strict=True):
            progress.add(self.step(batch, rate))

    def step(self, batch: TrainBatch, learning_rate: float) -> Tensor:
        """Take one step; the loss before it."""
        sigma, states = batch.sigma, batch.states
        self.optimizer.param_groups[0]["lr"] = learning_rate
        x = self.backend.perturb(batch.table, batch.rows, states, torch.ones_like(sigma), sigma, batch.key)
        loss = self.backend.masked_loss(
            self.network(x, sigma, states),
            batch.table,
            batch.rows,
            batch.loss_states,
            batch.weight,
            mean_weight=self.objective.mean_weight,
            column_weight=self.column_weight,
        )
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        self.average.update()
        return loss

    @contextmanager
    def averaged(self) -> Iterator[nn.Module]:
        """As `Stepper.averaged`."""
        self.average.swap()
        try:
            yield self.network
        finally:
            self.average.swap()

    def save(self) -> Callable[[], None]:
        """As `Stepper.save`."""
        weights, average = self.average.weights, self.average
        kept, count = [w.detach().clone() for w in (*weights, *average.average)], average.count
        optimizer = copy.deepcopy(self.optimizer.state_dict())

        @torch.no_grad()
        def restore() -> None:
            torch._foreach_copy_([*weights, *average.average], kept)
            average.count = count
            self.optimizer.load_state_dict(copy.deepcopy(optimizer))

        return restore

    def finish(self) -> None:
        """As `Stepper.finish`."""
        self.average.apply()


class _PackedStepper:
    """The averages and checkpoints of steppers whose state is a `TrainingState`."""

    state: TrainingState

    @contextmanager
    def averaged(self) -> Iterator[nn.Module]:
        """As `Stepper.averaged`."""
        self.state.write_ema()
        yield self.state.network

    def save(self) -> Callable[[], None]:
        """As `Stepper.save`."""
        return self.state.save()

    def finish(self) -> None:
        """As `Stepper.finish`."""
        self.state.write_ema()


class FusedStepper(_PackedStepper):
    """One call of the backend's `mlp_train_step` for each step; arguments as of `Backend.stepper`.

    ``panels`` is that of `missdiff_fast.networks.packing.TrainingState.of`.
    """

    def __init__(
        self,
        network: Denoiser,
        objective: ObjectiveConfig,
        column_weight: Tensor,
        ema: float,
        backend: Backend,
        *,
        panels: bool | None = None,
    ) -> None:
        self.state, self.backend = TrainingState.of(network, panels=panels), backend
        self.objective, self.column_weight, self.ema = objective, column_weight, ema

    def run(self, batches: TrainBatches, rates: Sequence[float], progress: Progress) -> None:
        """As `Stepper.run`."""
        # Computed for all steps at once, which takes less time than step by step.
        level_features = self.state.network.level_features(batches.sigma.flatten()).unflatten(0, batches.sigma.shape)
        for batch, rate, known in zip(batches, rates, level_features, strict=True):
            progress.add(self.step(batch, rate, known))

    def step(self, batch: TrainBatch, learning_rate: float, level_features: Tensor | None = None) -> Tensor:
        """Take one step; the loss before it. ``level_features`` are those of the batch's sigma, if already computed."""
        return self.backend.mlp_train_step(
            self.state,
            batch.table,
            batch.rows,
            batch.states,
            batch.loss_states,
            batch.sigma,
            batch.weight,
            batch.key,
            learning_rate=learning_rate,
            decay=decay_of(self.state.steps, self.ema),
            mean_weight=self.objective.mean_weight,
            column_weight=self.column_weight,
            level_features=level_features,
        )


class GraphStepper(_PackedStepper):
    """`missdiff_fast.ops.mlp_composed.composed_train_step`, captured in a CUDA graph and replayed for each step.

    Between two points of the loss curve the host neither computes for a step nor waits for one. Matrix products are in
    TF32. On the CPU the same step is called without a graph. Arguments as of `Backend.stepper`.
    """

    def __init__(self, network: Denoiser, objective: ObjectiveConfig, column_weight: Tensor, ema: float) -> None:
        self.state = TrainingState.of(network, panels=False)
        self.objective, self.column_weight, self.ema = objective, column_weight, ema
        self._observed: Tensor | None = None  # number of observed cells of each row of the table
        self._buffer: StepBuffer | None = None
        self._captured: CapturedStep | None = None

    def run(self, batches: TrainBatches, rates: Sequence[float], progress: Progress) -> None:
        """As `Stepper.run`, for batches of one table; no later call has more steps than the first."""
        if self._observed is None:
            self._observed = batches.table.observed().sum(1)
        inputs = self._inputs(batches, rates, self._observed)
        if self._buffer is None or self._captured is None:
            self._buffer = buffer = StepBuffer(len(batches), [x[0] for x in inputs])
            table = batches.table  # so that the graph does not keep the batches
            workspace = Workspace(self.state, batches.rows.shape[1])
            self._captured = CapturedStep(
                lambda: self._step(table, buffer, workspace),
                lambda: [*self.state.flat(), *buffer.changed()],
                self.column_weight.device,
            )
        self._buffer.load(inputs)
        with allow_tf32(self.column_weight.device):
            replay(self._count_step, self._buffer, len(batches), progress)

    def finish(self) -> None:
        """As `Stepper.finish`."""
        super().finish()
        if self._captured is not None:
            self._captured.release()
        self._captured = self._buffer = self._observed = None

    def _count_step(self) -> None:
        assert self._captured is not None
        self._captured()
        self.state.steps += 1

    def _inputs(self, batches: TrainBatches, rates: Sequence[float], observed: Tensor) -> list[Tensor]:
        """Inputs of `_step`, with a first dimension of steps; ``observed`` counts the observed cells of each row."""
        first, sigma = self.state.steps, batches.sigma
        schedule = [(rate, first + t + 1, decay_of(first + t, self.ema)) for t, rate in enumerate(rates)]
        return [
            batches.rows,
            batches.states,
            batches.loss_states,
            sigma,
            batches.weight,
            batches.keys,
            to_device(torch.tensor(schedule, dtype=torch.float64), sigma.device),
            self.state.network.level_features(sigma.flatten()).unflatten(0, sigma.shape),
            observed[batches.rows].sum(1, keepdim=True),
        ]

    def _step(self, table: EncodedTable, buffer: StepBuffer, workspace: Workspace) -> None:
        buffer.take()
        rows, states, loss_states, sigma, weight, key, schedule, level_features, count = buffer.now
        loss = composed_train_step(
            self.state,
            table,
            rows,
            states,
            loss_states,
            sigma,
            weight,
            key,
            schedule,
            level_features,
            count,
            mean_weight=self.objective.mean_weight,
            column_weight=self.column_weight,
            workspace=workspace,
        )
        buffer.give(loss)


class PersistentStepper(_PackedStepper):
    """One call of `missdiff_fast.ops.mlp_train_steps` for all steps up to the next point of the loss curve.

    On a GPU that is one launch. Matrix products are in TF32 there. Arguments as of `Backend.stepper`.
    """

    def __init__(self, network: Denoiser, objective: ObjectiveConfig, column_weight: Tensor, ema: float) -> None:
        self.state = TrainingState.of(network)
        self.objective, self.column_weight, self.ema = objective, column_weight, ema

    def run(self, batches: TrainBatches, rates: Sequence[float], progress: Progress) -> None:
        """As `Stepper.run`."""
        start = 0
        while start < len(batches):
            stop = min(len(batches), start + progress.until_log)
            progress.add(self.steps(batches.part(start, stop), rates[start:stop]).sum(), stop - start)
            start = stop

    def steps(self, batches: TrainBatches, rates: Sequence[float]) -> Tensor:
        """Take one step for each batch; the losses before the steps."""
        b, first = batches, self.state.steps
        return mlp_train_steps(
            *(self.state, b.table, b.rows, b.states, b.loss_states, b.sigma, b.weight, b.keys),
            learning_rates=rates,
            decays=[decay_of(first + t, self.ema) for t in range(len(rates))],
            mean_weight=self.objective.mean_weight,
            column_weight=self.column_weight,
        )


class WeightAverage:
    """Exponential moving average of a network's weights, its decay warmed up by `decay_of`."""

    def __init__(self, network: nn.Module, decay: float) -> None:
        self.weights = list(network.parameters())
        self.average = [w.detach().clone() for w in self.weights]
        self.decay, self.count = decay, 0

    def update(self) -> None:
        """Add the current weights to the average."""
        share = 1 - decay_of(self.count, self.decay)
        torch._foreach_lerp_(self.average, [w.detach() for w in self.weights], share)
        self.count += 1

    @torch.no_grad()
    def swap(self) -> None:
        """Exchange the network's weights and their average."""
        for weight, average in zip(self.weights, self.average, strict=True):
            weight_now = weight.clone()
            weight.copy_(average)
            average.copy_(weight_now)

    @torch.no_grad()
    def apply(self) -> None:
        """Replace the network's weights by their average."""
        for weight, average in zip(self.weights, self.average, strict=True):
            weight.copy_(average)
