"""The default network's weights as the native kernels read them."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor

from missdiff_fast.networks.mlp import Block, Denoiser

PANEL = 16  # outputs that a kernel computes together, as kPanel in csrc/cpu/kernels/kernels.h


def pack(network: Denoiser) -> Tensor:
    """All weights but those of the noise level, float32 and flat.

    In order: the input layer's weights of the cells, its weights of the states, its bias; of each block the gain of its
    normalisation, and weights and bias of both layers; weights and bias of the output layer, into which the gain and
    shift of the last normalisation are multiplied. Weights are in panels of 16 outputs, ``[panels, inputs, 16]``, and
    what is missing to a whole panel is 0.
    """
    D = len(network.variance)
    inputs, gain = network.inputs.weight.detach(), network.norm.weight.detach()
    pieces = [_panels(inputs[:, :D]), _panels(inputs[:, D:]), _padded(network.inputs.bias.detach())]
    for block in _blocks(network):
        pieces.append(_padded(block.norm.weight.detach()))
        for layer in (block.up, block.down):
            pieces += [_panels(layer.weight.detach()), _padded(layer.bias.detach())]
    last = network.outputs.weight.detach()
    shifted = network.outputs.bias.detach() + last @ network.norm.bias.detach()
    pieces += [_panels(last * gain), _padded(shifted)]
    return torch.cat([piece.flatten() for piece in pieces])


def shifts(network: Denoiser, sigma: Tensor) -> Tensor:
    """What each block adds to its normalised rows at levels ``[steps]``: ``[steps, blocks, width]``."""
    biases: list[Tensor] = [block.norm.bias for block in _blocks(network)]
    level = network.embed(sigma)[:, None]
    return (level + torch.stack(biases) if biases else level[:, :0]).detach()


def _blocks(network: Denoiser) -> list[Block]:
    return cast("list[Block]", list(network.blocks))


def _padded(x: Tensor) -> Tensor:
    return torch.nn.functional.pad(x, (0, -x.shape[-1] % PANEL))


def _panels(weight: Tensor) -> Tensor:
    """Weights ``[outputs, inputs]`` as ``[panels, inputs, 16]``."""
    return _padded(weight.T).unflatten(1, (-1, PANEL)).permute(1, 0, 2)
