"""Self-paced learning: first rows of small loss, then all rows (Kim et al., 2023, section 3.3)."""

from __future__ import annotations

import math

import torch
from torch import Tensor

_RATE = (math.e - 1) / 10_000  # the share reaches 1 within 10,000 steps from any start


def share(step: int, start: float) -> float:
    """The share of rows below a threshold at a step: from ``start`` up to 1.

    >>> share(0, 0.3), share(10_000, 0.3)
    (0.3, 1.0)
    """
    return min(1.0, start + math.log(1 + _RATE * step * (1 - start)))


def weights(losses: Tensor, low: float, high: float) -> Tensor:
    """Weights in [0, 1] of rows by their losses ``[B]``.

    A loss up to the quantile ``low`` has weight 1, one above the quantile ``high`` 0, and in between the weight falls
    linearly.

    >>> weights(torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0]), 0.25, 0.75).tolist()
    [1.0, 1.0, 0.5, 0.0, 0.0]
    """
    losses = losses.detach()
    quantiles = torch.tensor([low, high], dtype=losses.dtype, device=losses.device)
    alpha, beta = torch.quantile(losses, quantiles)
    between = (beta - losses) / (beta - alpha)
    return torch.where(losses <= alpha, 1.0, torch.where(losses > beta, 0.0, between))
