"""A training step in PyTorch whose matrices within the blocks are updated by Muon (Jordan et al., 2024)."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from missdiff_fast._engine.backend import NativeBackend
from missdiff_fast._engine.steppers import TorchStepper
from missdiff_fast.config import ObjectiveConfig
from missdiff_fast.networks import Denoiser

_MOMENTUM, _ITERATIONS = 0.95, 5
_QUINTIC = 3.4445, -4.7750, 2.0315  # Newton-Schulz, tuned for fast convergence near 1


def orthogonal(gradients: Tensor) -> Tensor:
    """The nearest semi-orthogonal matrices, roughly: a batch of matrices with singular values of about 1.

    >>> x = orthogonal(torch.randn(1, 8, 8, generator=torch.Generator().manual_seed(0)))
    >>> bool(((torch.linalg.svdvals(x) - 1).abs() < 0.4).all())
    True
    """
    a, b, c = _QUINTIC
    x = gradients / (gradients.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(_ITERATIONS):
        square = x @ x.mT
        x = a * x + (b * square + c * square @ square) @ x
    return x


class MuonAndAdamW:
    """Muon for the matrices of the blocks and AdamW for all else, with one learning rate.

    Muon's update is scaled to a root mean square of 0.2, which is about AdamW's (Liu et al., 2025).
    """

    def __init__(self, network: Denoiser) -> None:
        self.matrices = [weight for weight in network.blocks.parameters() if weight.dim() == 2]
        rest = [w for w in network.parameters() if all(w is not matrix for matrix in self.matrices)]
        self.adamw = torch.optim.AdamW(rest, weight_decay=0.0, fused=True)
        self.param_groups = self.adamw.param_groups
        self.momentum = torch.zeros_like(self._wide([w.detach() for w in self.matrices]))

    def zero_grad(self, *, set_to_none: bool = True) -> None:
        """Forget all gradients."""
        self.adamw.zero_grad(set_to_none=set_to_none)
        for matrix in self.matrices:
            matrix.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """Update all weights in place, with Nesterov momentum."""
        self.adamw.step()
        gradients = self._wide([w.grad for w in self.matrices if w.grad is not None])
        self.momentum.lerp_(gradients, 1 - _MOMENTUM)
        updates = orthogonal(gradients.lerp(self.momentum, _MOMENTUM))
        rate = self.param_groups[0]["lr"] * 0.2 * math.sqrt(max(updates.shape[1:]))
        for matrix, update in zip(self.matrices, updates, strict=True):
            matrix.sub_(update if matrix.shape == update.shape else update.T, alpha=rate)

    @staticmethod
    def _wide(matrices: list[Tensor]) -> Tensor:
        """Matrices of one width and of one height, or the other way round, as a batch of wide ones."""
        return torch.stack([matrix if len(matrix) < matrix.shape[1] else matrix.T for matrix in matrices])


class MuonStepper(TorchStepper):
    """`TorchStepper` with Muon."""

    def __init__(
        self, network: nn.Module, objective: ObjectiveConfig, column_weight: Tensor, ema: float, backend: MuonBackend
    ) -> None:
        super().__init__(network, objective, column_weight, ema, backend)
        assert isinstance(network, Denoiser)
        self.optimizer = MuonAndAdamW(network)  # type: ignore[assignment]


class MuonBackend(NativeBackend):
    """The compiled ops with a training step in PyTorch, with Muon or with AdamW alone."""

    def __init__(self, *, muon: bool) -> None:
        self.muon = muon

    def stepper(
        self, network: nn.Module, objective: ObjectiveConfig, column_weight: Tensor, ema: float
    ) -> TorchStepper:
        return (MuonStepper if self.muon else TorchStepper)(network, objective, column_weight, ema, self)
