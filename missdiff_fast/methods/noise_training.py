"""The paper's training on a GPU: Algorithm 1, its step recorded as a CUDA graph and replayed."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn

from missdiff_fast._engine.backend import Backend
from missdiff_fast._engine.cuda_graphs import CapturedStep, StepBuffer, allow_tf32
from missdiff_fast._engine.device import to_device
from missdiff_fast._engine.history import Progress
from missdiff_fast._engine.random import make_keys
from missdiff_fast.config.paper import EpochsConfig
from missdiff_fast.diffusion.states import NOISY
from missdiff_fast.table.encoded import EncodedTable

_STEPS = 4096  # whose rows and keys are brought to the device at once


class NoiseStepper:
    """Takes the steps of `missdiff_fast.methods.NoisePrediction`'s training without the host's help.

    The steps are those that the method takes on the CPU: of the same rows, levels and noise, by the same Adam. Matrices
    are multiplied in the type that ``predict`` chooses.

    Parameters
    ----------
    network : nn.Module
        Trained in place.
    predict : callable
        Of noisy rows ``[B, D]`` and the places of their levels ``[B]``, gives the predicted noise.
    cells : EncodedTable
        The encoded rows.
    loss_states : Tensor
        Which cells the loss is over, as states, uint8 ``[N, J]``.
    alpha, sigma : Tensor
        Of each level, ``[T]``.
    ends : tuple of float
        What one-hot columns hold off and on.
    settings : EpochsConfig
        Of the training.
    backend : module
        `missdiff_fast.ops`.
    """

    def __init__(
        self,
        network: nn.Module,
        predict: Callable[[Tensor, Tensor], Tensor],
        cells: EncodedTable,
        loss_states: Tensor,
        alpha: Tensor,
        sigma: Tensor,
        ends: tuple[float, float],
        settings: EpochsConfig,
        backend: Backend,
    ) -> None:
        self.predict, self.cells, self.loss_states, self.alpha, self.sigma = predict, cells, loss_states, alpha, sigma
        self.ends, self.settings, self.backend = ends, settings, backend
        self.weights = list(network.parameters())
        # The rate is a tensor, which every step finds its own in.
        self.rate = torch.zeros((), device=cells.device)
        self.optimizer = torch.optim.Adam(
            self.weights,
            lr=self.rate,
            weight_decay=settings.weight_decay,
            fused=True,
            capturable=cells.device.type == "cuda",
        )

    def train(
        self, order: Iterator[Tensor], level_seed: int, noise_seed: int, steps: int, size: int, progress: Progress
    ) -> None:
        """Take so many steps of ``size`` rows each, in this order."""
        device = self.cells.device
        noisy = torch.full((size, self.loss_states.shape[1]), NOISY, dtype=torch.uint8, device=device)
        level_keys, noise_keys = make_keys(level_seed, steps, device), make_keys(noise_seed, steps, device)
        rates = to_device(torch.tensor([self.settings.rate(step, steps) for step in range(steps)]), device)
        most = min(_STEPS, steps)
        buffer = StepBuffer(
            most, [torch.zeros(size, dtype=torch.int64, device=device), level_keys[0], noise_keys[0], rates[0]]
        )
        recorded = CapturedStep(
            lambda: self._step(buffer, noisy), lambda: [*self._changed(), *buffer.changed()], device
        )
        try:
            with allow_tf32(device):
                for first in range(0, steps, most):
                    part = slice(first, min(first + most, steps))
                    rows = torch.stack([next(order) for _ in range(part.stop - first)])
                    buffer.load([to_device(rows, device), level_keys[part], noise_keys[part], rates[part]])
                    done = 0
                    while done < len(rows):
                        count = min(len(rows) - done, progress.until_log)
                        for _ in range(count):
                            recorded()
                        progress.add(buffer.given[done : done + count].sum(), count)
                        done += count
        finally:
            for weight in self.weights:
                weight.grad = None  # which lies in the graph's memory
            recorded.release()

    def _step(self, buffer: StepBuffer, noisy: Tensor) -> None:
        buffer.take()
        rows, level_key, key, rate = buffer.now
        self.rate.copy_(rate)
        uniform = self.backend.uniform(rows, 1, level_key)[:, 0]
        t = (uniform * len(self.sigma)).long().clamp(max=len(self.sigma) - 1)
        low, high = self.ends
        x = self.backend.perturb(self.cells, rows, noisy, self.alpha[t], self.sigma[t], key, low=low, high=high)
        prediction = self.predict(x, t)
        loss = self.backend.masked_noise_loss(prediction, self.cells, rows, self.loss_states[rows], key)
        gradients = torch.autograd.grad(loss, self.weights, allow_unused=True)
        for weight, gradient in zip(self.weights, gradients, strict=True):
            weight.grad = gradient
        self.optimizer.step()
        buffer.give(loss.detach())

    def _changed(self) -> list[Tensor]:
        moments = [x for state in self.optimizer.state.values() for x in state.values()]
        return [*(weight.detach() for weight in self.weights), self.rate, *moments]
