"""Encoding and decoding of columns."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from missdiff_fast.ops._checks import TABLE_TYPES, check_offsets, check_tensor, refuse_gradients
from missdiff_fast.ops._native import op, when_loaded


def encode(
    cells: Tensor, keys: Tensor, ends: Tensor, boundaries: Tensor, count: int, share: Tensor | None = None
) -> Tensor:
    """The normal scores of a continuous column's cells: normal quantiles of their ranks among the observed cells.

    Arguments and result as in `missdiff_fast.ops.reference.encode`; no keys, or a count below 1, raise ValueError. On
    the CPU the calling thread alone computes, so that several threads can encode a column each. Not differentiable.

    Examples
    --------
    >>> keys, ends = torch.tensor([1.0, 2.0, 5.0]), torch.tensor([0.0, 0.25, 0.75, 1.0], dtype=torch.float64)
    >>> encode(torch.tensor([2.0, 5.0, 3.0]), keys, ends, torch.tensor([-0.6745, 0.6745]), 4)
    tensor([0.0000, 1.1503, 0.6745])
    """
    check_tensor("cells", cells, (*TABLE_TYPES, torch.int64), (None,))
    check_tensor("keys", keys, (cells.dtype,), (None,))
    V = keys.shape[0]
    if V < 1 or count < 1:
        raise ValueError(f"keys must not be empty, nor count less than 1, but there are {V} keys and count is {count}")
    check_tensor("ends", ends, (torch.float64,), (V + 1,))
    check_tensor("boundaries", boundaries, (torch.float32,), (V - 1,))
    if share is not None:
        check_tensor("share", share, (torch.float64,), (cells.shape[0],))
    tensors = {"cells": cells, "keys": keys, "ends": ends, "boundaries": boundaries, "share": share}
    refuse_gradients("encode", tensors)
    return op("encode")(cells, keys, ends, boundaries, count, share)


def decode(x: Tensor, offsets: Tensor, boundaries: Tensor, starts: Tensor) -> tuple[Tensor, Tensor]:
    """Bins of scores among their column's boundaries, and codes of one-hot groups.

    Arguments and result as in `missdiff_fast.ops.reference.decode`. Not differentiable.

    Examples
    --------
    >>> x = torch.tensor([[0.3, 0.1, 0.9], [-2.0, 0.5, 0.2]])
    >>> decode(x, torch.tensor([1, 3]), torch.tensor([-1.0, 0.0]), torch.tensor([0, 2]))
    (tensor([[2],
            [0]], dtype=torch.int32), tensor([[1],
            [0]], dtype=torch.int16))
    """
    check_tensor("x", x, TABLE_TYPES, (None, None))
    continuous = check_offsets(offsets, x.shape[1])
    check_tensor("boundaries", boundaries, (x.dtype,), (None,))
    check_tensor("starts", starts, (torch.int64,), (None if continuous is None else continuous + 1,))
    return op("decode")(x, offsets, boundaries, starts)


def _fake_encode(cells: Tensor, *rest: Any) -> Tensor:
    return cells.new_empty(cells.shape, dtype=torch.float32)


def _fake_decode(x: Tensor, offsets: Tensor, boundaries: Tensor, starts: Tensor) -> tuple[Tensor, Tensor]:
    bin_index = x.new_empty((x.shape[0], starts.shape[0] - 1), dtype=torch.int32)
    return bin_index, x.new_empty((x.shape[0], offsets.shape[0] - 1), dtype=torch.int16)


@when_loaded
def _register() -> None:
    torch.library.register_fake("missdiff_fast::encode", _fake_encode)
    torch.library.register_fake("missdiff_fast::decode", _fake_decode)
