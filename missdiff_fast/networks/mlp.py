"""The default network: a residual MLP over the encoded row that is told which columns are hidden, noisy or clean."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from missdiff_fast.diffusion.schedule import CONTINUOUS_STD, ONE_HOT_STD
from missdiff_fast.reference import CLEAN, NOISY
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

    def forward(self, x: Tensor, sigma: Tensor, states: Tensor) -> Tensor:
        """The prediction of a batch.

        Parameters
        ----------
        x : Tensor
            Noisy rows, ``[B, D]``; hidden columns are ignored.
        sigma : Tensor
            Noise level, ``[B]``, or ``[1]`` where all rows share it.
        states : Tensor
            uint8 ``[B, J]``.

        Returns
        -------
        Tensor
            ``[B, D + C]``: x0 of the continuous columns, logits of the one-hot groups, and conditional means of the
            standardised raw values of the continuous columns.
        """
        C = self.num_continuous
        sigma = sigma[:, None]
        noisy, clean = (states == NOISY).to(x.dtype), (states == CLEAN).to(x.dtype)
        noisy_cells = noisy[:, self.groups]
        seen = (states > 0)[:, self.groups]
        z = torch.where(seen, x * torch.rsqrt((sigma * noisy_cells) ** 2 + self.variance), 0.0)
        level = self.embed(sigma[:, 0])
        h = self.inputs(torch.cat([z, noisy, clean], 1))
        for block in self.blocks:
            h = block(h, level)
        out = self.outputs(self.norm(h))
        # c_skip and c_out of Karras et al.; where a column is hidden its x0 is the network's output itself.
        total = sigma**2 + 1
        scaled = (1 / total) * x[:, :C] + sigma * torch.rsqrt(total) * out[:, :C]
        return torch.cat([torch.where(states[:, :C] == NOISY, scaled, out[:, :C]), out[:, C:]], 1)

    def embed(self, sigma: Tensor) -> Tensor:
        """The noise levels ``[B]`` as every block is told them, ``[B, width]``."""
        embedding: Tensor = self.level(self.features(sigma))
        return embedding

    def features(self, sigma: Tensor) -> Tensor:
        """Fourier features of the noise levels ``[B]``: ``[B, embedding]``."""
        angle = sigma[:, None].log() / 4 * self.frequency
        return torch.cat([angle.sin(), angle.cos()], 1)
