"""The default network's weights as the CUDA kernels read them: tiles of the matrices in the order of use."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor
from torch.nn.functional import pad

from missdiff_fast.networks.mlp import Block, Denoiser

PRECISIONS = ("float32", "bfloat16")  # a precision's index is its number in the kernels
MOST_WIDTH = 512

_PANEL = 16
_PADDED_PANELS = (2, 4, 6, 8, 16, 24, 32)  # padded_panels in csrc/cuda/kernels/mlp_launch.h
_NARROW_PANELS = 8
_CHUNK_BYTES = 16 * 1024


def pack(network: Denoiser, precision: str) -> Tensor:
    """All weights except those that embed the noise level: uint8, flat.

    First vectors in float32: bias of the input layer; for each block the gain of its normalisation and the biases of
    both layers; bias of the output layer, into which the shift of the last normalisation is multiplied. Then tiles of
    16 inputs by 16 outputs, see csrc/cuda/kernels/warp.h, in bfloat16 or float32: the input layer's for the states,
    then for the cells; each block's up and down, in a narrow network by turns for each pair of panels of the hidden
    layer; the output layer's. Zeros pad the width to one that kernels are compiled for, and the whole to a multiple of
    16 KiB.

    Examples
    --------
    >>> from missdiff_fast.table.encoded import Layout
    >>> pack(Denoiser(Layout(1, (2,)), width=16, blocks=0), "bfloat16").shape
    torch.Size([16576])
    """
    D, panels = network.layout.width, padded_panels(network.width)
    width = panels * _PANEL
    inputs, gain = network.inputs.weight.detach(), network.norm.weight.detach()
    last = network.outputs.weight.detach()
    vectors = [_padded(network.inputs.bias.detach(), width)]
    tiles = [_tiles(inputs[:, D:], outputs=width), _tiles(inputs[:, :D], outputs=width)]
    for block in cast("list[Block]", list(network.blocks)):
        vectors += [_padded(block.norm.weight.detach(), width)]
        vectors += [_padded(block.up.bias.detach(), 2 * width), _padded(block.down.bias.detach(), width)]
        up = _tiles(block.up.weight.detach(), inputs=width, outputs=2 * width)  # [panels, 2 panels, 256]
        down = _tiles(block.down.weight.detach(), inputs=2 * width, outputs=width)  # [2 panels, panels, 256]
        tiles += _by_pairs(up, down) if panels <= _NARROW_PANELS else [up, down]
    outputs = len(last) + -len(last) % _PANEL
    vectors.append(_padded(network.outputs.bias.detach() + last @ network.norm.bias.detach(), outputs))
    tiles.append(_tiles(last * gain, inputs=width).transpose(0, 1))
    weights = torch.cat([tile.reshape(-1) for tile in tiles])
    if precision == "bfloat16":
        stream = weights.to(torch.bfloat16).view(torch.uint8)
    else:
        # A lane reads its 8 numbers of a float32 tile in two accesses, so [32, 8] becomes [2, 32, 4].
        weights = weights.view(-1, 32, 2, 4).transpose(1, 2).reshape(-1)
        stream = weights.contiguous().view(torch.uint8)
    chunks = -(-len(stream) // _CHUNK_BYTES)
    return torch.cat([torch.cat(vectors).view(torch.uint8), _padded(stream, chunks * _CHUNK_BYTES)])


def padded_panels(width: int) -> int:
    """Number of panels of 16 that a width is padded to, one that kernels are compiled for; else ValueError.

    >>> [padded_panels(width) for width in (1, 96, 100, 512)]
    [2, 6, 8, 32]
    """
    if not 1 <= width <= MOST_WIDTH:
        raise ValueError(f"a network must be 1 to {MOST_WIDTH} wide on a CUDA device, but is {width}")
    return next(panels for panels in _PADDED_PANELS if panels * _PANEL >= width)


def _by_pairs(up: Tensor, down: Tensor) -> list[Tensor]:
    """Tiles for every two panels of the hidden layer: those of ``up``, then those of ``down``."""
    return [
        piece for u in range(0, len(down), 2) for piece in (up[:, u : u + 2].reshape(-1), down[u : u + 2].reshape(-1))
    ]


def _padded(x: Tensor, size: int) -> Tensor:
    return pad(x, (0, size - x.shape[-1]))


def _tiles(weight: Tensor, inputs: int | None = None, outputs: int | None = None) -> Tensor:
    """Weights ``[outputs, inputs]`` as tiles ``[inputs / 16, outputs / 16, 256]``, padded to these sizes.

    A tile's numbers are ordered by lane, 4 g + t, then by (tile, half, i): input 8 half + 2 t + i, output 8 tile + g.
    """
    rows, columns = weight.shape
    inputs = inputs or columns + -columns % _PANEL
    outputs = outputs or rows + -rows % _PANEL
    weight = pad(weight, (0, inputs - columns, 0, outputs - rows))
    split = weight.view(outputs // _PANEL, 2, 8, inputs // _PANEL, 2, 4, 2)  # panel, tile, g; panel, half, t, i
    return split.permute(3, 0, 2, 5, 1, 4, 6).reshape(inputs // _PANEL, outputs // _PANEL, 256)
