"""Helpers of baselines that are trained by gradient descent."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor


def check_finite(*tensors: Tensor) -> None:
    """Raise FloatingPointError, with the remedy, where a weight or an output is not finite."""
    if not all(bool(torch.isfinite(tensor).all()) for tensor in tensors):
        raise FloatingPointError("training diverged: the network is no longer finite; lower learning_rate")


def epoch(num_rows: int, batch_size: int, generator: torch.Generator) -> Iterator[Tensor]:
    """All row numbers once, in random order, in batches of int64 ``[batch_size]``; the last may be smaller."""
    yield from torch.randperm(num_rows, generator=generator).split(batch_size)
