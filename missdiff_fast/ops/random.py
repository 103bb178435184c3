"""Uniform and normal random numbers."""

from __future__ import annotations

import torch
from torch import Tensor

from missdiff_fast.ops._checks import check_tensor
from missdiff_fast.ops._native import op, when_loaded


def uniform(rows: Tensor, columns: int, key: Tensor) -> Tensor:
    """Uniform numbers in (0, 1): arguments, result and every bit as in `missdiff_fast.ops.reference.uniform`.

    Examples
    --------
    >>> from missdiff_fast.ops import make_key
    >>> uniform(torch.arange(2), 3, make_key(0, 0))
    tensor([[0.3990, 0.8805, 0.7357],
            [0.9722, 0.3621, 0.6939]])
    """
    _check(rows, columns, key)
    return op("uniform")(rows, columns, key)


def normal(rows: Tensor, columns: int, key: Tensor) -> Tensor:
    """Standard normal numbers: arguments, result and every bit as in `missdiff_fast.ops.reference.normal`.

    Examples
    --------
    >>> from missdiff_fast.ops import make_key
    >>> normal(torch.arange(2), 3, make_key(0, 0))
    tensor([[ 0.9911, -0.9247, -0.6176],
            [-0.1536,  0.1808,  0.8317]])
    """
    _check(rows, columns, key)
    return op("normal")(rows, columns, key)


def _check(rows: Tensor, columns: int, key: Tensor) -> None:
    check_tensor("rows", rows, (torch.int64,), (None,))
    check_tensor("key", key, (torch.int64,), (2,))
    if columns < 0:
        raise ValueError(f"columns must not be negative, but is {columns}")


def _fake(rows: Tensor, columns: int, key: Tensor) -> Tensor:
    return rows.new_empty((rows.shape[0], columns), dtype=torch.float32)


@when_loaded
def _register() -> None:
    for name in ("uniform", "normal"):
        torch.library.register_fake(f"missdiff_fast::{name}", _fake)
