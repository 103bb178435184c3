"""The default network: a residual MLP over the encoded row and the states of its columns."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from missdiff_fast.diffusion.schedule import CONTINUOUS_STD, ONE_HOT_STD
from missdiff_fast.diffusion.states import CLEAN, NOISY
from missdiff_fast.table.encoded import Layout


class Block(nn.Module):
    """One residual block: LayerNorm, embedded noise level added, and an MLP of twice the width."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, h: Tensor, embedding: Tensor) -> Tensor:
        """Rows h ``[B, width]`` and embedded noise levels ``[B or 1, width]`` to rows ``[B, width]``."""
        return h + self.down(functional.silu(self.up(self.norm(h) + embedding)))


@dataclass(frozen=True)
class Prepared:
    """Inputs of a prediction that depend on noise levels and states alone: those of many batches in one computation.

    Parameters
    ----------
    level_features : Tensor
        Fourier features of the noise levels, ``[B or 1, embedding]``.
    flags : Tensor
        1 for each column that is noisy, then for each that is clean, else 0: ``[B, 2 J]``.
    scale : Tensor
        Factors of the cells in the network's input: std / (sigma^2 + std^2) for a noisy cell, 1 / std for a clean one,
        ``[B, D]``. The input of a noisy cell falls with its noise to 0, that of a hidden one.
    skip, gain : Tensor
        Factors of the noisy score and of the network's output in the prediction of a score, ``[B, C]``.
    """

    level_features: Tensor
    flags: Tensor
    scale: Tensor
    skip: Tensor
    gain: Tensor


def encoded_variance(layout: Layout) -> Tensor:
    """Variance of each encoded column, as the network takes it: ``[D]``.

    >>> encoded_variance(Layout(1, (2,)))
    tensor([1.0000, 0.2500, 0.2500])
    """
    variance = torch.full((layout.width,), ONE_HOT_STD**2)
    variance[: layout.num_continuous] = CONTINUOUS_STD**2
    return variance


def input_scales(
    sigma: Tensor, states: Tensor, groups: Tensor, variance: Tensor, num_continuous: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Flags, scale, skip and gain of `Prepared`; ``groups`` is `Layout.groups` and ``variance`` `encoded_variance`."""
    level = sigma[:, None]
    noisy = states == NOISY
    flags = torch.cat([noisy, states == CLEAN], 1).to(sigma.dtype)
    noise = torch.where(noisy[:, groups], level**2, 0.0)
    scale = variance.sqrt() / (noise + variance)
    # c_skip and c_out of Karras et al.; a hidden column's x0 is the network's output itself.
    scores, total = noisy[:, :num_continuous], level**2 + 1
    skip = torch.where(scores, scale[:, :num_continuous], 0.0)
    gain = torch.where(scores, level * torch.rsqrt(total), 1.0)
    return flags, scale, skip, gain


class Denoiser(nn.Module):
    """Predicts the clean row from a row whose columns are hidden, noisy or clean, given their states.

    Parameters
    ----------
    layout : Layout
        Columns of the encoded row.
    width, blocks, embedding : int
        Width of the hidden rows, number of residual blocks, number of Fourier features of a noise level.

    Examples
    --------
    >>> network = Denoiser(Layout(1, (2,)), width=8, blocks=1)
    >>> network(torch.zeros(5, 3), torch.ones(5), torch.ones(5, 2, dtype=torch.uint8)).shape
    torch.Size([5, 4])
    """

    frequency: Tensor
    variance: Tensor
    groups: Tensor
    offsets: Tensor

    def __init__(self, layout: Layout, width: int = 96, blocks: int = 3, embedding: int = 64) -> None:
        super().__init__()
        self.layout, self.num_continuous, self.width = layout, layout.num_continuous, width
        D = layout.width
        frequency = torch.exp(torch.linspace(math.log(0.5), math.log(30.0), embedding // 2))
        self.register_buffer("variance", encoded_variance(layout), persistent=False)
        self.register_buffer("frequency", frequency, persistent=False)
        self.register_buffer("groups", layout.groups(), persistent=False)
        self.register_buffer("offsets", layout.offsets(), persistent=False)  # which the native passes read
        self.inputs = nn.Linear(D + 2 * layout.num_columns, width)
        self.level = nn.Sequential(nn.Linear(embedding, width), nn.SiLU(), nn.Linear(width, width))
        self.blocks = nn.ModuleList(Block(width) for _ in range(blocks))
        self.norm = nn.LayerNorm(width)
        self.outputs = nn.Linear(width, D + self.num_continuous)
        nn.init.zeros_(self.outputs.weight)
        nn.init.zeros_(self.outputs.bias)

    def forward(self, x: Tensor, sigma: Tensor, states: Tensor, prepared: Prepared | None = None) -> Tensor:
        """The prediction of a batch.

        Parameters
        ----------
        x : Tensor
            Noisy rows, ``[B, D]``; hidden columns are ignored.
        sigma : Tensor
            Noise level, ``[B]``, or ``[1]`` if all rows share it.
        states : Tensor
            uint8 ``[B, J]``.
        prepared : Prepared, optional
            ``prepare(sigma, states)``, if it is computed already. Hidden columns of x must be 0 then, as `perturb`
            leaves them.

        Returns
        -------
        Tensor
            ``[B, D + C]``: x0 of the continuous columns, logits of the one-hot groups, and conditional means of the
            standardised raw values of the continuous columns.
        """
        if prepared is None:
            x = torch.where((states > 0)[:, self.groups], x, 0.0)
            prepared = self.prepare(sigma, states)
        embedding: Tensor = self.level(prepared.level_features)
        h = self.inputs(torch.cat([x * prepared.scale, prepared.flags], 1))
        for block in self.blocks:
            h = block(h, embedding)
        C = self.num_continuous
        scores, rest = self.outputs(self.norm(h)).split([C, self.layout.width], 1)
        return torch.cat([prepared.skip * x[:, :C] + prepared.gain * scores, rest], 1)

    def prepare(self, sigma: Tensor, states: Tensor) -> Prepared:
        """The inputs of `forward` that do not depend on the rows."""
        scales = input_scales(sigma, states, self.groups, self.variance, self.num_continuous)
        return Prepared(self.level_features(sigma), *scales)

    def embed(self, sigma: Tensor) -> Tensor:
        """The embedding of noise levels ``[B]`` that every block adds, ``[B, width]``."""
        embedding: Tensor = self.level(self.level_features(sigma))
        return embedding

    def level_features(self, sigma: Tensor) -> Tensor:
        """Fourier features of the noise levels ``[B]``: ``[B, embedding]``."""
        angle = sigma[:, None].log() / 4 * self.frequency
        return torch.cat([angle.sin(), angle.cos()], 1)
