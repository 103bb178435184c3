"""Checks of the arguments that several ops have in common."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import torch
from torch import Tensor

from missdiff_fast.table.encoded import EncodedTable

_TABLE_TYPES = (torch.float32, torch.float64)


def _check(name: str, x: Tensor, dtypes: tuple[torch.dtype, ...], shape: tuple[int | None, ...]) -> None:
    """Dtype and shape of an argument; None is any size."""
    if x.dtype not in dtypes:
        allowed = " or ".join(str(dtype).removeprefix("torch.") for dtype in dtypes)
        raise TypeError(f"{name} must be {allowed}, not {str(x.dtype).removeprefix('torch.')}")
    if x.shape == shape:  # a training step checks twenty tensors
        return
    if x.dim() != len(shape) or any(
        want is not None and have != want for have, want in zip(x.shape, shape, strict=True)
    ):
        wanted = ", ".join("any" if size is None else str(size) for size in shape)
        raise ValueError(f"{name} must have shape [{wanted}], not {list(x.shape)}")


def _check_batch(
    table: EncodedTable, rows: Tensor, states: Tensor, prediction: Tensor | None = None, columns: int = 0
) -> None:
    """Table and batch, with the prediction of a loss and its width."""
    layout = table.layout
    _check("table.continuous", table.continuous, _TABLE_TYPES, (None, layout.num_continuous))
    _check("table.codes", table.codes, (torch.int16,), (len(table), layout.num_categorical))
    if table.values is not None:
        _check("table.values", table.values, (table.continuous.dtype,), (len(table), layout.num_continuous))
    _check("rows", rows, (torch.int64,), (None,))
    B = rows.shape[0]
    _check("states", states, (torch.uint8,), (B, layout.num_columns))
    if prediction is not None:
        wide = table.continuous.dtype == torch.float64
        allowed = (torch.float64,) if wide else (torch.float32, torch.bfloat16)
        _check("prediction", prediction, allowed, (B, columns))


def _check_offsets(offsets: Tensor, width: int) -> int | None:
    """Number of continuous columns.

    None in a compiled graph, which reading numbers would break, and on a CUDA device, which would have to be waited
    for: there the kernel checks.
    """
    _check("offsets", offsets, (torch.int64,), (None,))
    if torch.compiler.is_compiling() or offsets.device.type != "cpu":
        return None
    bounds = offsets.tolist()
    if not bounds or bounds[0] < 0 or bounds[-1] != width or any(a >= b for a, b in pairwise(bounds)):
        raise ValueError(
            f"offsets must ascend from the number of continuous columns to the width {width}, not {bounds}"
        )
    return bounds[0]


def _offsets(table: EncodedTable) -> Tensor:
    # Dynamo cannot enter the lock that cached_property holds in Python before 3.12.
    return table.layout.offsets(table.device) if torch.compiler.is_compiling() else table.offsets


def _refuse_gradients(op: str, arguments: Mapping[str, Tensor | None]) -> None:
    """No gradient is better than a wrong one."""
    for name, tensor in arguments.items():
        if tensor is not None and tensor.requires_grad and torch.is_grad_enabled():
            raise ValueError(f"{op} has no derivative with respect to {name}; detach it")
