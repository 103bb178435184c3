"""The default network's weights as the CUDA kernels read them: tiles of the matrices in the order of use."""

from __future__ import annotations

from functools import cache
from itertools import accumulate
from math import prod
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


def check_precision(precision: str) -> None:
    """Raise ValueError for a precision that no kernel computes in."""
    if precision not in PRECISIONS:
        raise ValueError(f"precision must be one of {', '.join(map(repr, PRECISIONS))}, not {precision!r}")


def pack(network: Denoiser, precision: str) -> Tensor:
    """All weights except those that embed the noise level: uint8, flat.

    First vectors in float32: bias of the input layer; for each block the gain of its normalisation and the biases of
    both layers; bias of the output layer, into which the shift of the last normalisation is multiplied. Then tiles of
    16 inputs by 16 outputs, see csrc/cuda/kernels/warp.h, in bfloat16 or float32: the input layer's for the states,
    then for the cells; each block's up and down, in a narrow network by turns for each pair of panels of the hidden
    layer; the output layer's. Zeros pad the width to one that kernels are compiled for, and the whole to a multiple of
    16 KiB.

    The first call for a network of some sizes copies the order of the weights to the device, so it cannot be part of a
    CUDA graph.

    Examples
    --------
    >>> from missdiff_fast.table.encoded import Layout
    >>> pack(Denoiser(Layout(1, (2,)), width=16, blocks=0), "bfloat16").shape
    torch.Size([16576])
    """
    scaled = network.outputs.weight.detach() * network.norm.weight.detach()
    shifted = network.outputs.bias.detach() + network.outputs.weight.detach() @ network.norm.bias.detach()
    sources = [scaled, shifted, *(weight.detach() for weight in _used(network))]
    numbers = torch.cat([scaled.new_zeros(1), *(source.flatten() for source in sources)])
    shapes = tuple(tuple(source.shape) for source in sources)
    vectors, stream = _order(shapes, network.layout.width, precision, scaled.device)
    tiles = numbers[stream].to(getattr(torch, precision))
    return torch.cat([numbers[vectors].view(torch.uint8), tiles.view(torch.uint8)])


def _used(network: Denoiser) -> list[Tensor]:
    """The weights that stand among the packed ones as they are: the input layer's, then each block's."""
    blocks = cast("list[Block]", list(network.blocks))
    layers = [network.inputs, *(layer for block in blocks for layer in (block.up, block.down))]
    return [*(weight for layer in layers for weight in (layer.weight, layer.bias)), *(b.norm.weight for b in blocks)]


def _order(
    shapes: tuple[tuple[int, ...], ...], cells: int, precision: str, device: torch.device
) -> tuple[Tensor, Tensor]:
    """Where each number of the vectors and of the tiles stands among the sources of `pack`; 0 is a zero.

    To lay the weights out anew would take some 80 small launches; to gather them in this order takes two.
    """
    return _find_order(shapes, cells, precision, device)


# Dynamo then takes the order as a constant, and does not trace how it is found.
_order._dynamo_marked_constant = True  # type: ignore[attr-defined]


@cache  # for good: a captured CUDA graph reads these tensors again and again
def _find_order(
    shapes: tuple[tuple[int, ...], ...], cells: int, precision: str, device: torch.device
) -> tuple[Tensor, Tensor]:
    ends = list(accumulate((prod(shape) for shape in shapes), initial=1))
    places = [torch.arange(end, end + prod(shape)).view(shape) for end, shape in zip(ends, shapes, strict=False)]
    last, last_bias, inputs, inputs_bias, *rest = places
    blocks = len(rest) // 5
    panels = padded_panels(len(inputs))
    width = panels * _PANEL
    vectors = [_padded(inputs_bias, width)]
    tiles = [_tiles(inputs[:, cells:], outputs=width), _tiles(inputs[:, :cells], outputs=width)]
    for b in range(blocks):
        (up, up_bias, down, down_bias), gain = rest[4 * b : 4 * b + 4], rest[4 * blocks + b]
        vectors += [_padded(gain, width), _padded(up_bias, 2 * width), _padded(down_bias, width)]
        up_tiles = _tiles(up, inputs=width, outputs=2 * width)  # [panels, 2 panels, 256]
        down_tiles = _tiles(down, inputs=2 * width, outputs=width)  # [2 panels, panels, 256]
        tiles += _by_pairs(up_tiles, down_tiles) if panels <= _NARROW_PANELS else [up_tiles, down_tiles]
    vectors.append(_padded(last_bias, len(last) + -len(last) % _PANEL))
    tiles.append(_tiles(last, inputs=width).transpose(0, 1))
    stream = torch.cat([tile.reshape(-1) for tile in tiles])
    if precision == "float32":
        # A lane reads its 8 numbers of a float32 tile in two accesses, so [32, 8] becomes [2, 32, 4].
        stream = stream.view(-1, 32, 2, 4).transpose(1, 2).reshape(-1)
    chunk = _CHUNK_BYTES // getattr(torch, precision).itemsize
    stream = _padded(stream, len(stream) + -len(stream) % chunk)
    return torch.cat(vectors).to(device, torch.int32), stream.to(device, torch.int32)


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
