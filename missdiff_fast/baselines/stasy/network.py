"""STaSy's score network: ConcatSquash layers, each of which sees the outputs of all earlier ones."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

LAYER_WIDTHS = (256, 512, 1024, 1024, 512, 256)


class ConcatSquash(nn.Module):
    """A linear layer gated and shifted by the noise level s: ``(W x + b) sigmoid(u s + c) + v s`` (FFJORD, 2019).

    Parameters
    ----------
    inputs, outputs : int
        Widths.
    """

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)
        self.gate = nn.Linear(1, outputs)
        self.shift = nn.Linear(1, outputs, bias=False)

    def forward(self, x: Tensor, sigma: Tensor) -> Tensor:
        """Rows ``[B, inputs]`` at noise levels ``[B, 1]`` to ``[B, outputs]``."""
        return self.linear(x) * torch.sigmoid(self.gate(sigma)) + self.shift(sigma)


class ScoreNetwork(nn.Module):
    """Predicts the score of noisy rows.

    As released: the activation (ELU) is applied to a layer's output together with its input, which is passed on, and
    the layers see the bare noise level. (The released code computes a Fourier embedding of it as well, as the paper
    says, and does not use it.)

    Parameters
    ----------
    width : int
        D, the number of encoded columns.
    hidden : sequence of int
        Widths of the layers.

    Examples
    --------
    >>> ScoreNetwork(3, (4, 5))(torch.zeros(2, 3), torch.ones(2, 1)).shape
    torch.Size([2, 3])
    """

    def __init__(self, width: int, hidden: Sequence[int] = LAYER_WIDTHS) -> None:
        super().__init__()
        layers, inputs = [], width
        for outputs in hidden:
            layers.append(ConcatSquash(inputs, outputs))
            inputs += outputs
        self.layers = nn.ModuleList(layers)
        self.outputs = nn.Linear(inputs, width)

    def forward(self, x: Tensor, sigma: Tensor) -> Tensor:
        """Noisy rows ``[B, D]`` and their noise levels ``[B, 1]`` to scores ``[B, D]``."""
        for layer in self.layers:
            x = functional.elu(torch.cat([layer(x, sigma), x], 1))
        return self.outputs(x)
