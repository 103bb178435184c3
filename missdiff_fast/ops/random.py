"""Random numbers: uniform and normal."""

from __future__ import annotations

import torch
from torch import Tensor

from missdiff_fast.ops._checks import (
    _check,
)
from missdiff_fast.ops._native import op


def _check_noise(rows: Tensor, columns: int, key: Tensor) -> None:
    _check("rows", rows, (torch.int64,), (None,))
    _check("key", key, (torch.int64,), (2,))
    if columns < 0:
        raise ValueError(f"columns must not be negative, but is {columns}")


def uniform(rows: Tensor, columns: int, key: Tensor) -> Tensor:
    """Uniform numbers in (0, 1), float32 ``[B, columns]``; see `missdiff_fast.ops.reference.uniform`.

    Examples
    --------
    >>> uniform(torch.arange(2), 3, make_key(0, 0))
    tensor([[0.3990, 0.8805, 0.7357],
            [0.9722, 0.3621, 0.6939]])
    """
    _check_noise(rows, columns, key)
    return op("uniform")(rows, columns, key)


def normal(rows: Tensor, columns: int, key: Tensor) -> Tensor:
    """Standard normal numbers, float32 ``[B, columns]``; see `missdiff_fast.ops.reference.normal`.

    Examples
    --------
    >>> normal(torch.arange(2), 3, make_key(0, 0))
    tensor([[ 0.9911, -0.9247, -0.6176],
            [-0.1536,  0.1808,  0.8317]])
    """
    _check_noise(rows, columns, key)
    return op("normal")(rows, columns, key)
