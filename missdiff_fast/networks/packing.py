"""The default network's weights as the native kernels read them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeGuard, cast

import torch
from torch import Tensor

from missdiff_fast.networks.mlp import Block, Denoiser

PANEL = 16  # outputs that a kernel computes together, as kPanel in csrc/cpu/kernels/kernels.h


def pack(network: Denoiser) -> Tensor:
    """All weights except those that embed the noise level, float32 and flat.

    In order: the input layer's weights of the cells, its weights of the states, its bias; for each block the gain of
    its normalisation, and weights and bias of both layers; weights and bias of the output layer, into which the gain
    and shift of the last normalisation are multiplied. Weights are in panels of 16 outputs, ``[panels, inputs, 16]``,
    the last one padded with zeros.
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
    """Embedded noise level plus normalisation bias of each block: sigmas ``[steps]`` to ``[steps, blocks, width]``."""
    biases: list[Tensor] = [block.norm.bias for block in _blocks(network)]
    embedding = network.embed(sigma)[:, None]
    return (embedding + torch.stack(biases) if biases else embedding[:, :0]).detach()


@dataclass
class TrainingState:
    """A network in training, with all that a step changes, flat in the order of `lay_out`.

    Parameters
    ----------
    network : Denoiser
        The network whose weights training began with. Steps do not change it; `write_ema` does.
    weights : Tensor
        float32 ``[P]``.
    exp_avg, exp_avg_sq : Tensor
        AdamW's exponential moving averages of the gradient and of its square, ``[P]``.
    ema : Tensor
        Exponential moving average of the weights, ``[P]``.
    steps : int
        Steps taken.
    panels : bool
        Whether matrices are in panels, as the CPU's native step reads them, or row-major, so that `current` returns
        views of the flat weights.

    Examples
    --------
    >>> from missdiff_fast.table.encoded import Layout
    >>> TrainingState.of(Denoiser(Layout(1, (2,)), width=16, blocks=0)).weights.shape
    torch.Size([1744])
    """

    network: Denoiser
    weights: Tensor
    exp_avg: Tensor
    exp_avg_sq: Tensor
    ema: Tensor
    steps: int = 0
    panels: bool = True

    @classmethod
    def of(cls, network: Denoiser, *, panels: bool | None = None) -> TrainingState:
        """Begin with the weights of a `Denoiser`, else TypeError; ``panels`` by default on the CPU alone."""
        check_network(network)
        if panels is None:
            panels = network.inputs.weight.device.type == "cpu"
        weights = flatten(network, panels=panels)
        exp_avg, exp_avg_sq = torch.zeros_like(weights), torch.zeros_like(weights)
        return cls(network, weights, exp_avg, exp_avg_sq, weights.clone(), panels=panels)

    def current(self) -> dict[str, Tensor]:
        """The weights by the names of the network's parameters, as leaves that require a gradient."""
        weights = self.unflatten(self.weights)
        names = (name for name, _ in self.network.named_parameters())
        return {name: weight.detach().requires_grad_() for name, weight in zip(names, weights, strict=True)}

    def flat(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The tensors that a step changes, in the order of `adamw`'s arguments."""
        return self.weights, self.exp_avg, self.exp_avg_sq, self.ema

    def lay_out(self, gradients: Iterable[Tensor]) -> Tensor:
        """Gradients of the tensors of `current`, flat in the order of the weights."""
        return lay_out(gradients, panels=self.panels)

    def unflatten(self, flat: Tensor) -> list[Tensor]:
        """One of the tensors of `flat` in the shapes of `current`: views, or copies where matrices are in panels."""
        return unflatten(self.network, flat, panels=self.panels)

    def save(self) -> Callable[[], None]:
        """Keep what a step changes; the function that is returned restores it, in the same memory."""
        kept, steps = [x.clone() for x in self.flat()], self.steps

        def restore() -> None:
            for x, value in zip(self.flat(), kept, strict=True):
                x.copy_(value)
            self.steps = steps

        return restore

    @torch.no_grad()
    def write_ema(self) -> None:
        """Copy the weights' moving average into the network."""
        weights = self.unflatten(self.ema)
        for parameter, weight in zip(self.network.parameters(), weights, strict=True):
            parameter.copy_(weight)


def flatten(network: Denoiser, *, panels: bool = True) -> Tensor:
    """All weights of a network, float32 and flat, in the order of `lay_out`."""
    return lay_out([weight.detach() for weight in network.parameters()], panels=panels)


def lay_out(weights: Iterable[Tensor], *, panels: bool = True) -> Tensor:
    """Weights, or their gradients, flat in the order of the parameters.

    With ``panels`` matrices are in panels of 16 outputs as in `pack`, and vectors are padded with zeros to a multiple
    of 16. Without, every tensor is row-major and padded in the same way, so that each begins at a multiple of 64 bytes.
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


def is_denoiser(network: object) -> TypeGuard[Denoiser]:
    """Whether the native ops compute this network: a subclass may compute something else."""
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
