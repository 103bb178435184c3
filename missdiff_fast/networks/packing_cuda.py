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


def check_precision(precision: str) -> None:
    """Raise ValueError for a precision that no kernel computes in."""
    if precision not in PRECISIONS:
        raise ValueError(f"precision must be one of {', '.join(map(repr, PRECISIONS))}, not {precision!r}")


def pack(network: Denoiser, precision: str) -> Tensor:
    """All weights except those that embed the noise level: uint8, flat.

    First vectors in float32: bias of the input layer; for each block the gain of its normalisation and the biases of
    both layers; bias of the output layer, into which the shift of the last normalisation is multiplied. Then tiles of
    16 inputs by 16 outputs, see csrc/cuda/kernels/warp.h, in bfloat16 or float32, which a narrow network has as the two
    TF32 numbers that tensor cores multiply: the input layer's for the states, then for the cells; each block's up and
    down, in a narrow network by turns for each pair of panels of the hidden layer; the output layer's. Zeros pad the
    width to one that kernels are compiled for, and in a narrow network the tiles for the states, for the cells and of
    the output layer to whole chunks, by which its kernel reads them.

    The first call for a network of some sizes copies the order of the weights to the device, so it cannot be part of a
    CUDA graph.

    Examples
    --------
    >>> from missdiff_fast.table.encoded import Layout
    >>> pack(Denoiser(Layout(1, (2,)), width=16, blocks=0), "bfloat16").shape
    torch.Size([24768])
    """
    scaled = network.outputs.weight.detach() * network.norm.weight.detach()
    shifted = network.outputs.bias.detach() + network.outputs.weight.detach() @ network.norm.bias.detach()
    sources = [scaled, shifted, *(weight.detach() for weight in _used(network))]
    numbers = torch.cat([scaled.new_zeros(1), *(source.flatten() for source in sources)])
    shapes = tuple(tuple(source.shape) for source in sources)
    vectors, stream = _order(shapes, network.layout.width, precision, scaled.device)
    if _is_split(padded_panels(network.width), precision):
        tiles = _split(numbers)[stream]
    else:
        tiles = numbers[stream].to(getattr(torch, precision))
    return torch.cat([numbers[vectors].view(torch.uint8), tiles.view(torch.uint8)])


def _is_split(panels: int, precision: str) -> bool:
    """Whether weights are packed as two TF32 numbers each."""
    return precision == "float32" and panels <= _NARROW_PANELS


def _split(numbers: Tensor) -> Tensor:
    """TF32 numbers, 11 significant bits: those nearest to the numbers, then those nearest to what they leave."""
    high = _nearest_tf32(numbers)
    high += numbers - numbers  # NaN stays NaN, which the sum of bits may not be
    return torch.cat([high, _nearest_tf32(numbers - high)])


def _nearest_tf32(x: Tensor) -> Tensor:
    """Ties go away from zero, as in the instruction cvt.rna."""
    return ((x.view(torch.int32) + 0x1000) & -0x2000).view(torch.float32)


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
    runs = _chunk_runs(panels, precision)
    tiles = [_whole(_tiles(part, outputs=width), runs) for part in (inputs[:, cells:], inputs[:, :cells])]
    for b in range(blocks):
        (up, up_bias, down, down_bias), gain = rest[4 * b : 4 * b + 4], rest[4 * blocks + b]
        vectors += [_padded(gain, width), _padded(up_bias, 2 * width), _padded(down_bias, width)]
        up_tiles = _tiles(up, inputs=width, outputs=2 * width)  # [panels, 2 panels, 256]
        down_tiles = _tiles(down, inputs=2 * width, outputs=width)  # [2 panels, panels, 256]
        tiles += _by_pairs(up_tiles, down_tiles) if panels <= _NARROW_PANELS else [up_tiles, down_tiles]
    vectors.append(_padded(last_bias, len(last) + -len(last) % _PANEL))
    tiles.append(_whole(_tiles(last, inputs=width).transpose(0, 1), runs))
    stream = torch.cat([tile.reshape(-1) for tile in tiles])
    if _is_split(panels, precision):
        # A lane reads a tile in four accesses, each of the high and the low parts for two inputs.
        high = stream.view(-1, 32, 4, 2).transpose(1, 2)
        stream = torch.stack([high, high + ends[-1]], 3).reshape(-1)
    elif precision == "float32":
        # A lane reads its 8 numbers of a tile in two accesses, so [32, 8] becomes [2, 32, 4].
        stream = stream.view(-1, 32, 2, 4).transpose(1, 2).reshape(-1)
    return torch.cat(vectors).to(device, torch.int32), stream.to(device, torch.int32)


def padded_panels(width: int) -> int:
    """Number of panels of 16 that a width is padded to, one that kernels are compiled for; else ValueError.

    >>> [padded_panels(width) for width in (1, 96, 100, 512)]
    [2, 6, 8, 32]
    """
    if not 1 <= width <= MOST_WIDTH:
        raise ValueError(f"a network must be 1 to {MOST_WIDTH} wide on a CUDA device, but is {width}")
    return next(panels for panels in _PADDED_PANELS if panels * _PANEL >= width)


def _chunk_runs(panels: int, precision: str) -> int:
    """Runs of ``panels`` tiles in a chunk: chunk_runs in csrc/cuda/kernels/mlp.h."""
    tile_bytes = 512 if precision == "bfloat16" else 2048
    return 1 if panels > _NARROW_PANELS else (4096 if panels <= 4 else 2048) // tile_bytes


def _whole(tiles: Tensor, runs: int) -> Tensor:
    """Tiles ``[n, m, 256]`` with n padded to a multiple of ``runs``."""
    return pad(tiles, (0, 0, 0, 0, 0, -len(tiles) % runs))


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
