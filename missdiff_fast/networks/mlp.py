"""The default network: a residual MLP over the encoded row that is told which columns are hidden, noisy or clean."""

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
    """One residual block: LayerNorm, noise level added, and an MLP of twice the width."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, h: Tensor, level: Tensor) -> Tensor:
        """Add to rows h ``[B, width]`` what the block makes of them at a level ``[B or 1, width]``."""
        return h + self.down(functional.silu(self.up(self.norm(h) + level)))


@dataclass(frozen=True)
class Prepared:
    """What a prediction needs of the noise levels and the states alone, and can be made for many batches at once.

    Parameters
    ----------
    features : Tensor
        Of the noise levels, ``[B or 1, embedding]``.
    flags : Tensor
        Which columns are noisy, then which are clean, 0 or 1: ``[B, 2 J]``.
    scale : Tensor
        Brings each cell to unit variance, ``[B, D]``.
    skip, gain : Tensor
        What the prediction of a score takes of the noisy score and of the network's output, ``[B, C]``.
    """

    features: Tensor
    flags: Tensor
    scale: Tensor
    skip: Tensor
    gain: Tensor


class Denoiser(nn.Module):
    """Predicts the clean row from a row whose columns are hidden, noisy or clean.

    Parameters
    ----------
    layout : Layout
        Columns of the encoded row.
    width, blocks, embedding : int
        Width of the hidden row, number of residual blocks, size of the noise level's Fourier features.

    Examples
    --------
    >>> network = Denoiser(Layout(1, (2,)), width=8, blocks=1)
    >>> network(torch.zeros(5, 3), torch.ones(5), torch.ones(5, 2, dtype=torch.uint8)).shape
    torch.Size([5, 4])
    """

    frequency: Tensor
    variance: Tensor
    groups: Tensor

    def __init__(self, layout: Layout, width: int = 96, blocks: int = 3, embedding: int = 64) -> None:
        super().__init__()
        self.layout, self.num_continuous, self.width = layout, layout.num_continuous, width
        D = layout.width
        variance = torch.full((D,), ONE_HOT_STD**2)
        variance[: self.num_continuous] = CONTINUOUS_STD**2
        frequency = torch.exp(torch.linspace(math.log(0.5), math.log(30.0), embedding // 2))
        self.register_buffer("variance", variance, persistent=False)
        self.register_buffer("frequency", frequency, persistent=False)
        self.register_buffer("groups", layout.groups(), persistent=False)
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
            Noise level, ``[B]``, or ``[1]`` where all rows share it.
        states : Tensor
            uint8 ``[B, J]``.
        prepared : Prepared, optional
            ``prepare(sigma, states)``, where it is known already. Hidden columns have to be 0 then, as `perturb` gives
            them.

        Returns
        -------
        Tensor
            ``[B, D + C]``: x0 of the continuous columns, logits of the one-hot groups, and conditional means of the
            standardised raw values of the continuous columns.
        """
        if prepared is None:
            x = torch.where((states > 0)[:, self.groups], x, 0.0)
            prepared = self.prepare(sigma, states)
        level: Tensor = self.level(prepared.features)
        h = self.inputs(torch.cat([x * prepared.scale, prepared.flags], 1))
        for block in self.blocks:
            h = block(h, level)
        C = self.num_continuous
        scores, rest = self.outputs(self.norm(h)).split([C, self.layout.width], 1)
        return torch.cat([prepared.skip * x[:, :C] + prepared.gain * scores, rest], 1)

    def prepare(self, sigma: Tensor, states: Tensor) -> Prepared:
        """What `forward` needs of its arguments beside the rows."""
        level = sigma[:, None]
        noisy = states == NOISY
        flags = torch.cat([noisy, states == CLEAN], 1).to(sigma.dtype)
        scale = torch.rsqrt(torch.where(noisy[:, self.groups], level**2, 0.0) + self.variance)
        # c_skip and c_out of Karras et al.; where a column is hidden its x0 is the network's output itself.
        scores, total = noisy[:, : self.num_continuous], level**2 + 1
        skip = torch.where(scores, 1 / total, 0.0)
        gain = torch.where(scores, level * torch.rsqrt(total), 1.0)
        return Prepared(self.features(sigma), flags, scale, skip, gain)

    def embed(self, sigma: Tensor) -> Tensor:
        """The noise levels ``[B]`` as every block is told them, ``[B, width]``."""
        embedding: Tensor = self.level(self.features(sigma))
        return embedding

    def features(self, sigma: Tensor) -> Tensor:
        """Fourier features of the noise levels ``[B]``: ``[B, embedding]``."""
        angle = sigma[:, None].log() / 4 * self.frequency
        return torch.cat([angle.sin(), angle.cos()], 1)
