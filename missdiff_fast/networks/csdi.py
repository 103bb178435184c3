"""The paper's network: gated residual layers over the encoded columns as tokens (CSDI for tables)."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional


class Attention(nn.Module):
    """One post-norm transformer encoder layer over tokens ``[B, L, C]``: attention, then an MLP of width ``hidden``."""

    def __init__(self, channels: int, heads: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.projection = nn.Linear(channels, 3 * channels)
        self.merge = nn.Linear(channels, channels)
        self.norm_attention = nn.LayerNorm(channels)
        self.up = nn.Linear(channels, hidden)
        self.down = nn.Linear(hidden, channels)
        self.norm_mlp = nn.LayerNorm(channels)
        nn.init.xavier_uniform_(self.projection.weight)
        for bias in (self.projection.bias, self.merge.bias):
            nn.init.zeros_(bias)

    def forward(self, h: Tensor) -> Tensor:
        """Tokens ``[B, L, C]`` to tokens ``[B, L, C]``."""
        B, L, C = h.shape
        query, key, value = self.projection(h).view(B, L, 3, self.heads, C // self.heads).permute(2, 0, 3, 1, 4)
        rate = self.dropout if self.training else 0.0
        mixed = functional.scaled_dot_product_attention(query, key, value, dropout_p=rate)
        mixed = self.merge(mixed.transpose(1, 2).reshape(B, L, C))
        h = self.norm_attention(h + self._drop(mixed))
        return self.norm_mlp(h + self._drop(self.down(self._drop(functional.gelu(self.up(h))))))

    def _drop(self, h: Tensor) -> Tensor:
        return functional.dropout(h, self.dropout, self.training)


class ResidualLayer(nn.Module):
    """Step embedding, attention over columns, and a gated unit whose output is split into residual and skip."""

    def __init__(self, channels: int, heads: int, hidden: int, dropout: float, embedding: int, side: int) -> None:
        super().__init__()
        self.step = nn.Linear(embedding, channels)
        self.attention = Attention(channels, heads, hidden, dropout)
        self.middle = nn.Linear(channels, 2 * channels)
        self.side = nn.Linear(side, 2 * channels)
        self.out = nn.Linear(channels, 2 * channels)
        for linear in (self.middle, self.side, self.out):
            nn.init.kaiming_normal_(linear.weight)

    def forward(self, h: Tensor, step: Tensor, side: Tensor) -> tuple[Tensor, Tensor]:
        """Tokens ``[B, L, C]``, steps ``[B or 1, embedding]`` and side information ``[B or 1, L, side]``."""
        mixed = self.attention(h + self.step(step)[:, None])
        gate, filtered = (self.middle(mixed) + self.side(side)).chunk(2, -1)
        residual, skip = self.out(torch.sigmoid(gate) * torch.tanh(filtered)).chunk(2, -1)
        return (h + residual) / math.sqrt(2), skip


class CSDINetwork(nn.Module):
    """Predicts the noise of an encoded row. Each encoded column is one token.

    The paper's "four layers residual network" is that of CSDI (Tashiro et al., 2021) in the form of CSDI_T (Zheng and
    Charoenphakdee, 2022): a token's channels are made from its value, each layer mixes the tokens by attention, and a
    fixed position embedding identifies the column. The released code's second attention, over a time axis of length
    one, has no effect and is omitted.

    Parameters
    ----------
    width : int
        L, number of encoded columns.
    steps : int
        T, number of noise levels.
    channels, layers, heads : int
        C, number of residual layers, number of attention heads; C is a multiple of the heads, else ValueError.
    embedding : int
        Size of the step embedding.
    column_embedding, feature_embedding : int
        Sizes of the fixed position embedding and of the learnt embedding, which all columns share.
    hidden : int
        Width of the transformer layer's MLP.
    dropout : float
        Dropout rate in the transformer layer.
    conditional : bool
        Whether a row has two channels, known and noisy cells, with a mask of the known ones (CSDI_T), or one
        (MissDiff).

    Examples
    --------
    >>> network = CSDINetwork(width=5, steps=100, channels=8, heads=2)
    >>> network(torch.zeros(3, 5), torch.tensor([0, 50, 99])).shape
    torch.Size([3, 5])
    """

    steps: Tensor
    places: Tensor

    def __init__(
        self,
        width: int,
        steps: int,
        channels: int = 64,
        layers: int = 4,
        heads: int = 4,
        embedding: int = 128,
        column_embedding: int = 128,
        feature_embedding: int = 8,
        hidden: int = 64,
        dropout: float = 0.1,
        conditional: bool = False,
    ) -> None:
        super().__init__()
        if channels % heads:
            raise ValueError(f"channels must be a multiple of heads, got {channels} and {heads}")
        self.conditional = conditional
        self.register_buffer("steps", _step_table(steps, embedding), persistent=False)
        self.register_buffer("places", _place_table(width, column_embedding), persistent=False)
        self.feature = nn.Parameter(torch.randn(feature_embedding))
        self.inputs = nn.Linear(2 if conditional else 1, channels)
        self.step = nn.Sequential(
            nn.Linear(embedding, embedding), nn.SiLU(), nn.Linear(embedding, embedding), nn.SiLU()
        )
        side = column_embedding + feature_embedding + conditional
        self.layers = nn.ModuleList(
            ResidualLayer(channels, heads, hidden, dropout, embedding, side) for _ in range(layers)
        )
        self.skip = nn.Linear(channels, channels)
        self.outputs = nn.Linear(channels, 1)
        for linear in (self.inputs, self.skip):
            nn.init.kaiming_normal_(linear.weight)
        nn.init.zeros_(self.outputs.weight)

    def forward(self, x: Tensor, t: Tensor, known: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        """The predicted noise ``[B, L]``.

        Parameters
        ----------
        x : Tensor
            Noisy rows, ``[B, L]``.
        t : Tensor
            Indices of the noise levels, from 0, int64 ``[B]``, or ``[1]`` if all rows share one.
        known, mask : Tensor, optional
            For a conditional network: known cells (0 elsewhere), and 1 where a cell is known, float ``[B, L]`` each.
        """
        channels = torch.stack([known, x], -1) if known is not None else x[..., None]
        side = torch.cat([self.places, self.feature.expand(len(self.places), -1)], 1)[None]
        if mask is not None:
            side = torch.cat([side.expand(len(x), -1, -1), mask[..., None]], -1)
        h = functional.relu(self.inputs(channels))
        step = self.step(self.steps[t])
        total = torch.zeros_like(h)
        for layer in self.layers:
            h, skip = layer(h, step, side)
            total = total + skip
        h = functional.relu(self.skip(total / math.sqrt(len(self.layers))))
        return self.outputs(h)[..., 0]


def _step_table(steps: int, size: int) -> Tensor:
    """``[sin(t f), cos(t f)]`` with f evenly spaced in its logarithm from 1 to 10,000: float32 ``[steps, size]``."""
    frequency = 10.0 ** (4 * torch.arange(size // 2) / (size // 2 - 1))
    angle = torch.arange(steps)[:, None] * frequency
    return torch.cat([angle.sin(), angle.cos()], 1)


def _place_table(width: int, size: int) -> Tensor:
    """The transformer's sinusoidal embedding of each column's position: float32 ``[width, size]``."""
    angle = torch.arange(width)[:, None] * 10_000.0 ** -(torch.arange(0, size, 2) / size)
    return torch.stack([angle.sin(), angle.cos()], 2).flatten(1)
