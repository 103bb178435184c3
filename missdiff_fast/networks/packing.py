"""The default network's weights as the native kernels read them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
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
    D = network.layout.width
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


@dataclass
class TrainingState:
    """A network in training: everything that a step changes, flat as `lay_out` lays weights.

    Parameters
    ----------
    network : Denoiser
        Whose weights were taken up. Steps leave it as it is; `write_average` changes it.
    weights : Tensor
        float32 ``[P]``.
    mean, square : Tensor
        AdamW's moving averages of the gradient and of its square, ``[P]``.
    average : Tensor
        The moving average of the weights, ``[P]``.
    steps : int
        Steps taken.
    panels : bool
        Whether matrices lie in panels, as the CPU's native step reads them, or row by row, as PyTorch does: then
        `current` gives views of the flat weights.

    Examples
    --------
    >>> from missdiff_fast.table.encoded import Layout
    >>> TrainingState.of(Denoiser(Layout(1, (2,)), width=16, blocks=0)).weights.shape
    torch.Size([1744])
    """

    network: Denoiser
    weights: Tensor
    mean: Tensor
    square: Tensor
    average: Tensor
    steps: int = 0
    panels: bool = True

    @classmethod
    def of(cls, network: Denoiser, *, panels: bool | None = None) -> TrainingState:
        """Begin with the weights of a network, which has to be a `Denoiser` (else TypeError).

        They lie in ``panels`` if asked; by default on the CPU alone.
        """
        check_network(network)
        if panels is None:
            panels = network.inputs.weight.device.type == "cpu"
        weights = flatten(network, panels=panels)
        mean, square = torch.zeros_like(weights), torch.zeros_like(weights)
        return cls(network, weights, mean, square, weights.clone(), panels=panels)

    def current(self) -> dict[str, Tensor]:
        """The weights by the names of the network's parameters, to be differentiated by."""
        weights = unflatten(self.network, self.weights, panels=self.panels)
        names = (name for name, _ in self.network.named_parameters())
        return {name: weight.detach().requires_grad_() for name, weight in zip(names, weights, strict=True)}

    def flat(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """What a step changes: weights, mean, square and average."""
        return self.weights, self.mean, self.square, self.average

    def lay_out(self, gradients: Iterable[Tensor]) -> Tensor:
        """Gradients of what `current` gives, as the weights lie."""
        return lay_out(gradients, panels=self.panels)

    @torch.no_grad()
    def write_average(self) -> None:
        """Put their average into the network."""
        averages = unflatten(self.network, self.average, panels=self.panels)
        for parameter, average in zip(self.network.parameters(), averages, strict=True):
            parameter.copy_(average)


def flatten(network: Denoiser, *, panels: bool = True) -> Tensor:
    """All weights of a network, float32 and flat, as `lay_out` lays them."""
    return lay_out([weight.detach() for weight in network.parameters()], panels=panels)


def lay_out(weights: Iterable[Tensor], *, panels: bool = True) -> Tensor:
    """Weights, or their gradients, one after another in the order of the parameters.

    In ``panels``: matrices in panels of 16 outputs as in `pack`, vectors filled up with zeros to a multiple of 16.
    Otherwise each as it lies in memory, filled up in the same way, so that all begin at a multiple of 64 bytes.
    """
    if panels:
        return torch.cat([(_panels(w) if w.dim() == 2 else _padded(w)).flatten() for w in weights])
    pieces, zeros = [], None
    for weight in weights:
        zeros = weight.new_zeros(PANEL) if zeros is None else zeros
        pieces += [weight.reshape(-1), zeros[: -weight.numel() % PANEL]]
    return torch.cat(pieces)


def unflatten(network: Denoiser, flat: Tensor, *, panels: bool = True) -> list[Tensor]:
    """Flat weights in the shapes of the network's parameters: copies of ``panels``, otherwise views."""
    start, weights = 0, []
    for parameter in network.parameters():
        if not panels:
            weights.append(flat[start : start + parameter.numel()].view(parameter.shape))
            start += parameter.numel() + -parameter.numel() % PANEL
            continue
        outputs, inputs = len(parameter), parameter.shape[1] if parameter.dim() == 2 else 1
        piece = flat[start : start + inputs * -(-outputs // PANEL) * PANEL].view(-1, inputs, PANEL)
        weights.append(piece.permute(0, 2, 1).reshape(-1, inputs)[:outputs].reshape(parameter.shape).clone())
        start += piece.numel()
    return weights


def is_denoiser(network: object) -> bool:
    """Whether the native passes compute what this network does: a class derived of it may compute something else."""
    return type(network) is Denoiser


def check_network(network: object) -> None:
    """Raise TypeError for any but a `Denoiser` itself."""
    if not is_denoiser(network):
        raise TypeError(f"network must be a Denoiser, not {type(network).__name__}")


def _blocks(network: Denoiser) -> list[Block]:
    return cast("list[Block]", list(network.blocks))


def _padded(x: Tensor) -> Tensor:
    return torch.nn.functional.pad(x, (0, -x.shape[-1] % PANEL))


def _panels(weight: Tensor) -> Tensor:
    """Weights ``[outputs, inputs]`` as ``[panels, inputs, 16]``."""
    return _padded(weight.T).unflatten(1, (-1, PANEL)).permute(1, 0, 2)
