"""All steps of the sampler layer by layer over large tiles of rows: PyTorch's matrix products and the `step` op.

`missdiff_fast.ops.mlp_sample` is measured against it where a network is so wide that its kernel reads the weights from
the L2 cache again and again.
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor
from torch.nn import functional

from missdiff_fast.diffusion.states import CLEAN, HIDDEN, NOISY
from missdiff_fast.networks.mlp import Block, Denoiser
from missdiff_fast.networks.packing import check_network, shifts
from missdiff_fast.networks.packing_cuda import check_precision
from missdiff_fast.ops._checks import check_tensor
from missdiff_fast.ops.step import step

# Rows whose activations in bfloat16 are 8 MB at width 256, and of the hidden layer 16: an H100's L2 cache has 50. At
# width 512 they are 16 and 32, which leave that cache no room for weights and cells.
TILE = 16_384


def sample_by_layers(
    network: Denoiser,
    x: Tensor,
    states: Tensor,
    offsets: Tensor,
    sigmas: Tensor,
    coefficients: Tensor,
    rows: Tensor,
    keys: Tensor,
    *,
    precision: str = "bfloat16",
    tile: int = TILE,
) -> Tensor:
    """The rows of `missdiff_fast.ops.mlp_sample`, one matrix product at a time. Not differentiable.

    Biases are added by the products, except those of each block's second layer, whose product adds to the row. The
    product of the states with their weights is the same for all steps and computed once.

    Parameters
    ----------
    network, x, states, offsets, sigmas, coefficients, rows, keys
        As in `missdiff_fast.ops.mlp_sample`.
    precision : str
        "float32", or "bfloat16": of weights and activations. Cells, probabilities and the solver are float32.
    tile : int
        Rows that go through all steps together.
    """
    check_network(network)
    check_precision(precision)
    check_tensor("x", x, (torch.float32,), (None, network.layout.width))
    layers = _Layers(network, sigmas, getattr(torch, precision))
    pieces = [
        layers.sample(*piece, offsets, coefficients, keys)
        for piece in zip(x.split(tile), states.split(tile), rows.split(tile), strict=True)
    ]
    return torch.cat(pieces)


class _Layers:
    """A network's weights in one precision, and what depends on the noise levels alone."""

    @torch.no_grad()
    def __init__(self, network: Denoiser, sigmas: Tensor, dtype: torch.dtype) -> None:
        D, self.C, self.dtype = network.layout.width, network.num_continuous, dtype
        self.groups, std = network.groups, network.variance.sqrt()
        inputs = network.inputs.weight.to(dtype)
        self.cells, self.flags, self.start = inputs[:, :D].T, inputs[:, D:].T, network.inputs.bias.to(dtype)
        self.blocks = [
            [weight.to(dtype) for weight in (b.norm.weight, b.up.weight, b.up.bias, b.down.weight.T, b.down.bias)]
            for b in cast("list[Block]", list(network.blocks))
        ]
        self.norm = network.norm.weight.to(dtype), network.norm.bias.to(dtype)
        self.outputs = network.outputs.weight[:D].to(dtype), network.outputs.bias[:D].to(dtype)
        self.shifts = shifts(network, sigmas).to(dtype)
        level = sigmas[:, None]
        self.noisy, self.clean = std / (level**2 + std**2), 1 / std  # factors of the cells in the input
        self.skip, self.gain = 1 / (sigmas**2 + 1), sigmas * torch.rsqrt(sigmas**2 + 1)

    @torch.no_grad()
    def sample(
        self, x: Tensor, states: Tensor, rows: Tensor, offsets: Tensor, coefficients: Tensor, keys: Tensor
    ) -> Tensor:
        """One tile through all steps."""
        flags = torch.cat([states == NOISY, states == CLEAN], 1).to(self.dtype)
        known = torch.addmm(self.start, flags, self.flags)
        of_cell = states[:, self.groups]
        noisy, hidden = (of_cell == NOISY).to(x.dtype), of_cell == HIDDEN
        clean = (of_cell == CLEAN) * self.clean
        scores, previous = noisy[:, : self.C] > 0, None
        for t in range(len(self.noisy)):
            cells = (x * torch.addcmul(clean, noisy, self.noisy[t])).masked_fill_(hidden, 0.0)
            out = self.predict(t, known, cells).float()
            mixed = self.skip[t] * x[:, : self.C] + self.gain[t] * out[:, : self.C]
            out[:, : self.C] = torch.where(scores, mixed, out[:, : self.C])
            x, previous = step(x, out, previous, states, offsets, coefficients[t], rows, keys[t])
        return x

    def predict(self, t: int, known: Tensor, cells: Tensor) -> Tensor:
        """The network's output without the conditional means; ``known`` is the states' part of the first layer."""
        h = torch.addmm(known, cells.to(self.dtype), self.cells)
        for b, (gain, up, up_bias, down, down_bias) in enumerate(self.blocks):
            normal = functional.layer_norm(h, gain.shape, gain, self.shifts[t, b])
            hidden = functional.silu(functional.linear(normal, up, up_bias), inplace=True)
            h.add_(down_bias).addmm_(hidden, down)
        return functional.linear(functional.layer_norm(h, self.norm[0].shape, *self.norm), *self.outputs)
