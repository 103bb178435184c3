"""The paper's Algorithm 1: training on the noise of the observed cells."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from missdiff_fast._engine.backend import Backend
from missdiff_fast._engine.cuda_graphs import CapturedStep, StepBuffer, allow_tf32, replay
from missdiff_fast._engine.device import to_device
from missdiff_fast._engine.history import Progress
from missdiff_fast._engine.random import make_keys
from missdiff_fast.config.paper import EpochsConfig
from missdiff_fast.diffusion.states import HIDDEN, NOISY
from missdiff_fast.methods.noise_model import NoiseModel
from missdiff_fast.table.encoded import EncodedTable

_STEPS = 4096  # the rows and keys of this many steps are copied to the device at once


class NoiseStepper:
    """Takes training steps: on a GPU replayed as a CUDA graph, elsewhere one call after another.

    Every cell is noised, including the fill value of a missing one; the loss is over the observed cells.

    Parameters
    ----------
    model : NoiseModel
        Its network is trained in place.
    table : EncodedTable
        The training rows.
    settings : EpochsConfig
        Of the training.
    backend : Backend
        The ops.
    replay : bool
        Whether steps are captured and replayed, with autocast to bfloat16. This needs capturable ops; on the CPU the
        same step is called without a graph.
    """

    def __init__(
        self, model: NoiseModel, table: EncodedTable, settings: EpochsConfig, backend: Backend, *, replay: bool
    ) -> None:
        self.model, self.settings, self.backend, self.replay = model, settings, backend, replay
        self.cells = model.min_max.encode(table)
        self.loss_states = torch.where(table.observed(), NOISY, HIDDEN).to(torch.uint8)
        self.weights = list(model.network.parameters())
        # A captured step reads its learning rate from a tensor.
        self.rate = torch.zeros((), device=table.device)
        self.optimizer = torch.optim.Adam(
            self.weights,
            lr=self.rate if replay else settings.learning_rate,
            weight_decay=settings.weight_decay,
            fused=True,
            capturable=replay and table.device.type == "cuda",
        )

    def run(
        self, order: Iterator[Tensor], level_seed: int, noise_seed: int, steps: int, size: int, progress: Progress
    ) -> None:
        """Take ``steps`` steps of ``size`` rows each, the rows in this order."""
        device = self.cells.device
        noisy = torch.full((size, self.loss_states.shape[1]), NOISY, dtype=torch.uint8, device=device)
        level_keys, noise_keys = make_keys(level_seed, steps, device), make_keys(noise_seed, steps, device)
        rates = [self.settings.rate(step, steps) for step in range(steps)]
        try:
            if self.replay:
                self._replay(order, level_keys, noise_keys, to_device(torch.tensor(rates), device), noisy, progress)
                return
            for rate, level_key, noise_key in zip(rates, level_keys, noise_keys, strict=True):
                self.optimizer.param_groups[0]["lr"] = rate
                progress.add(self._step(next(order).to(device), level_key, noise_key, noisy))
        finally:
            for weight in self.weights:
                weight.grad = None  # a graph's gradients lie in its memory

    def _replay(
        self,
        order: Iterator[Tensor],
        level_keys: Tensor,
        noise_keys: Tensor,
        rates: Tensor,
        noisy: Tensor,
        progress: Progress,
    ) -> None:
        device, steps = self.cells.device, len(rates)
        most = min(_STEPS, steps)
        rows_of_one = torch.zeros(len(noisy), dtype=torch.int64, device=device)
        buffer = StepBuffer(most, [rows_of_one, level_keys[0], noise_keys[0], rates[0]])

        def step() -> None:
            buffer.take()
            rows, level_key, noise_key, rate = buffer.now
            self.rate.copy_(rate)
            buffer.give(self._step(rows, level_key, noise_key, noisy).detach())

        captured = CapturedStep(step, lambda: [*self._changed(), *buffer.changed()], device)
        try:
            with allow_tf32(device):
                for first in range(0, steps, most):
                    part = slice(first, min(first + most, steps))
                    rows = torch.stack([next(order) for _ in range(part.stop - first)])
                    buffer.load([to_device(rows, device), level_keys[part], noise_keys[part], rates[part]])
                    replay(captured, buffer, len(rows), progress)
        finally:
            for weight in self.weights:
                weight.grad = None  # before the memory that it lies in is released
            captured.release()

    def _step(self, rows: Tensor, level_key: Tensor, noise_key: Tensor, noisy: Tensor) -> Tensor:
        """Take one step; the loss before it."""
        model, levels = self.model, len(self.model.process)
        t = (self.backend.uniform(rows, 1, level_key)[:, 0] * levels).long().clamp(max=levels - 1)
        low, high = model.min_max.levels
        x = self.backend.perturb(self.cells, rows, noisy, model.alpha[t], model.sigma[t], noise_key, low=low, high=high)
        prediction = model.predict(x, t, autocast=self.replay)
        loss = self.backend.masked_noise_loss(prediction, self.cells, rows, self.loss_states[rows], noise_key)
        gradients = torch.autograd.grad(loss, self.weights, allow_unused=True)
        for weight, gradient in zip(self.weights, gradients, strict=True):
            weight.grad = gradient
        self.optimizer.step()
        return loss

    def _changed(self) -> list[Tensor]:
        """The tensors that a step changes."""
        moments = [x for state in self.optimizer.state.values() for x in state.values()]
        return [*(weight.detach() for weight in self.weights), self.rate, *moments]
