"""Who takes the training steps: PyTorch, one native call for each, or a GPU by itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from types import ModuleType
from typing import Protocol

import torch
from torch import Tensor, nn

from missdiff_fast._engine.cuda_graphs import CapturedStep, StepBuffer, allow_tf32, to_device
from missdiff_fast._engine.history import Progress
from missdiff_fast._engine.sampling import runs_natively
from missdiff_fast.config import ObjectiveConfig
from missdiff_fast.networks import Denoiser
from missdiff_fast.networks.mlp import Prepared
from missdiff_fast.networks.packing import TrainingState
from missdiff_fast.ops.mlp_composed import composed_train_step
from missdiff_fast.table.encoded import EncodedTable


@dataclass(frozen=True)
class TrainBatch:
    """What one step is to learn from.

    Parameters
    ----------
    table : EncodedTable
        The rows, as complete as they are shown.
    rows : Tensor
        int64 ``[B]``.
    states, loss_states : Tensor
        The columns' states as the network is told them, and as the loss is taken, uint8 ``[B, J]``.
    sigma, weight : Tensor
        Noise levels, and weights of the squared errors of noisy scores, ``[B]``.
    key : Tensor
        Of the noise, int64 ``[2]``.
    features : Tensor, optional
        ``network.level_features(sigma)``, to be used again.
    """

    table: EncodedTable
    rows: Tensor
    states: Tensor
    loss_states: Tensor
    sigma: Tensor
    weight: Tensor
    key: Tensor
    features: Tensor | None = None


@dataclass(frozen=True)
class TrainBatches:
    """What several steps are to learn from: as `TrainBatch`, with a dimension of steps before."""

    table: EncodedTable
    rows: Tensor
    states: Tensor
    loss_states: Tensor
    sigma: Tensor
    weight: Tensor
    keys: Tensor
    features: Tensor | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[TrainBatch]:
        features = repeat(None) if self.features is None else self.features.unbind()
        tensors = self.rows, self.states, self.loss_states, self.sigma, self.weight, self.keys
        parts = zip(*(tensor.unbind() for tensor in tensors), strict=True)
        for (rows, states, loss_states, sigma, weight, key), known in zip(parts, features, strict=False):
            yield TrainBatch(self.table, rows, states, loss_states, sigma, weight, key, known)


class Stepper(Protocol):
    """Takes steps on a network."""

    def step(self, lesson: TrainBatch, learning_rate: float) -> Tensor:
        """Learn, and return the loss before."""

    def finish(self) -> None:
        """Leave the network with the moving average of its weights."""


def make_stepper(
    network: nn.Module, objective: ObjectiveConfig, column_weight: Tensor, ema: float, backend: ModuleType
) -> Stepper | GraphStepper:
    """The native stepper where the backend has native passes for the network, on a GPU as a graph; else PyTorch's.

    Parameters
    ----------
    network : nn.Module
        Trained in place.
    objective : ObjectiveConfig
        Weighs the conditional mean.
    column_weight : Tensor
        Weight of each table column's loss, ``[J]``.
    ema : float
        By which the average of the weights forgets, once it is no longer new.
    backend : module
        `missdiff_fast.ops` or `missdiff_fast.ops.reference`.
    """
    if runs_natively(network, backend) and column_weight.dtype == torch.float32:
        kind = GraphStepper if column_weight.device.type == "cuda" else NativeStepper
        return kind(network, objective, column_weight, ema, backend)  # type: ignore[arg-type]
    return TorchStepper(network, objective, column_weight, ema, backend)


def decay_of(count: int, ema: float) -> float:
    """How much the average keeps of itself at its update number ``count``, from 0: at first it forgets quickly."""
    return min(ema, (1 + count) / (10 + count))


class TorchStepper:
    """PyTorch's network, gradients and AdamW, with the ops of a backend; arguments as of `make_stepper`."""

    def __init__(
        self, network: nn.Module, objective: ObjectiveConfig, column_weight: Tensor, ema: float, backend: ModuleType
    ) -> None:
        self.network, self.objective, self.column_weight, self.backend = network, objective, column_weight, backend
        self.optimizer = torch.optim.AdamW(network.parameters(), weight_decay=0.0, fused=True)
        self.average = WeightAverage(network, ema)

    def step(self, lesson: TrainBatch, learning_rate: float) -> Tensor:
        """As `Stepper.step`."""
        sigma, states = lesson.sigma, lesson.states
        self.optimizer.param_groups[0]["lr"] = learning_rate
        x = self.backend.perturb(lesson.table, lesson.rows, states, torch.ones_like(sigma), sigma, lesson.key)
        loss: Tensor = self.backend.masked_loss(
            self.network(x, sigma, states),
            lesson.table,
            lesson.rows,
            lesson.loss_states,
            lesson.weight,
            mean_weight=self.objective.mean_weight,
            column_weight=self.column_weight,
        )
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        self.average.update()
        return loss

    def finish(self) -> None:
        """As `Stepper.finish`."""
        self.average.apply()


class NativeStepper:
    """One call of `missdiff_fast.ops.mlp_train_step` for each step; arguments as of `make_stepper`."""

    def __init__(
        self, network: Denoiser, objective: ObjectiveConfig, column_weight: Tensor, ema: float, backend: ModuleType
    ) -> None:
        self.state = TrainingState.of(network)
        self.objective, self.column_weight, self.ema, self.backend = objective, column_weight, ema, backend

    def step(self, lesson: TrainBatch, learning_rate: float) -> Tensor:
        """As `Stepper.step`."""
        loss: Tensor = self.backend.mlp_train_step(
            self.state,
            lesson.table,
            lesson.rows,
            lesson.states,
            lesson.loss_states,
            lesson.sigma,
            lesson.weight,
            lesson.key,
            learning_rate=learning_rate,
            decay=decay_of(self.state.steps, self.ema),
            mean_weight=self.objective.mean_weight,
            column_weight=self.column_weight,
            level_features=lesson.features,
        )
        return loss

    def finish(self) -> None:
        """As `Stepper.finish`."""
        self.state.write_ema()


class GraphStepper:
    """`missdiff_fast.ops.mlp_composed.composed_train_step`, recorded as a CUDA graph and replayed once for each step.

    Between the points of the loss curve the host neither works for a step nor waits for one. Matrices are multiplied in
    TF32. Elsewhere than on a GPU the same step is called as it is. Arguments as of `make_stepper`.
    """

    def __init__(
        self, network: Denoiser, objective: ObjectiveConfig, column_weight: Tensor, ema: float, backend: ModuleType
    ) -> None:
        self.state = TrainingState.of(network, panels=False)
        self.objective, self.column_weight, self.ema, self.backend = objective, column_weight, ema, backend
        self._buffer: StepBuffer | None = None
        self._recorded: CapturedStep | None = None

    def learn(self, lessons: TrainBatches, rates: Sequence[float], progress: Progress) -> None:
        """Take a step for each lesson at its learning rate, and tell the progress of their losses.

        All lessons are of one table, and none of them has more steps than the first ones.
        """
        needed = self._needed(lessons, rates)
        if self._buffer is None or self._recorded is None:
            self._buffer = buffer = StepBuffer(len(lessons), [x[0] for x in needed])
            table = lessons.table  # the lessons themselves are not kept
            self._recorded = CapturedStep(
                lambda: self._step(table, buffer),
                lambda: [*self.state.flat(), *buffer.changed()],
                self.column_weight.device,
            )
        self._buffer.load(needed)
        done = 0
        with allow_tf32(self.column_weight.device):
            while done < len(lessons):
                count = min(len(lessons) - done, progress.until_log)
                for _ in range(count):
                    self._recorded()
                self.state.steps += count
                progress.add(self._buffer.given[done : done + count].sum(), count)
                done += count

    def finish(self) -> None:
        """As `Stepper.finish`."""
        self.state.write_ema()
        if self._recorded is not None:
            self._recorded.release()
        self._recorded = self._buffer = None

    def _needed(self, lessons: TrainBatches, rates: Sequence[float]) -> list[Tensor]:
        """What `_step` reads, of all steps."""
        first, size = self.state.steps, lessons.rows.shape
        schedule = [(rate, first + t + 1, decay_of(first + t, self.ema)) for t, rate in enumerate(rates)]
        prepared = self.state.network.prepare(lessons.sigma.flatten(), lessons.states.flatten(0, 1))
        of_rows = [x.unflatten(0, size) for x in vars(prepared).values()]
        return [
            *(lessons.rows, lessons.states, lessons.loss_states, lessons.sigma, lessons.weight, lessons.keys),
            *(to_device(torch.tensor(schedule, dtype=torch.float64), lessons.rows.device), *of_rows),
        ]

    def _step(self, table: EncodedTable, buffer: StepBuffer) -> None:
        buffer.take()
        rows, states, loss_states, sigma, weight, key, schedule, *prepared = buffer.now
        loss = composed_train_step(
            *(self.state, table, rows, states, loss_states, sigma, weight, key, schedule, Prepared(*prepared)),
            mean_weight=self.objective.mean_weight,
            column_weight=self.column_weight,
        )
        buffer.give(loss)


class WeightAverage:
    """Exponential moving average of a network's weights, quick to forget its beginning."""

    def __init__(self, network: nn.Module, decay: float) -> None:
        self.weights = list(network.parameters())
        self.average = [w.detach().clone() for w in self.weights]
        self.decay, self.count = decay, 0

    def update(self) -> None:
        """Take in the weights as they are now."""
        share = 1 - decay_of(self.count, self.decay)
        torch._foreach_lerp_(self.average, [w.detach() for w in self.weights], share)
        self.count += 1

    @torch.no_grad()
    def apply(self) -> None:
        """Put the average in the place of the weights."""
        for weight, average in zip(self.weights, self.average, strict=True):
            weight.copy_(average)
