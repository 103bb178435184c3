"""Checks of the arguments that several ops share, and what their derivatives share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from missdiff_fast.table.encoded import EncodedTable

TABLE_TYPES = (torch.float32, torch.float64)
Gradients = tuple[Tensor | None, ...]


def check_tensor(name: str, x: Tensor, dtypes: tuple[torch.dtype, ...], shape: tuple[int | None, ...]) -> None:
    """Raise TypeError for another dtype and ValueError for another shape, in which None stands for any size."""
    if x.dtype not in dtypes:
        allowed = " or ".join(str(dtype).removeprefix("torch.") for dtype in dtypes)
        raise TypeError(f"{name} must be {allowed}, not {str(x.dtype).removeprefix('torch.')}")
    if x.shape == shape:  # the common case first: a training step checks twenty tensors
        return
    if x.dim() != len(shape) or any(
        want is not None and have != want for have, want in zip(x.shape, shape, strict=True)
    ):
        wanted = ", ".join("any" if size is None else str(size) for size in shape)
        raise ValueError(f"{name} must have shape [{wanted}], not {list(x.shape)}")


def check_batch(
    table: EncodedTable, rows: Tensor, states: Tensor, prediction: Tensor | None = None, width: int = 0
) -> None:
    """Check a table and a batch of it, and a loss's prediction of ``width`` columns."""
    layout = table.layout
    check_tensor("table.continuous", table.continuous, TABLE_TYPES, (None, layout.num_continuous))
    check_tensor("table.codes", table.codes, (torch.int16,), (len(table), layout.num_categorical))
    if table.values is not None:
        check_tensor("table.values", table.values, (table.continuous.dtype,), (len(table), layout.num_continuous))
    check_tensor("rows", rows, (torch.int64,), (None,))
    B = rows.shape[0]
    check_tensor("states", states, (torch.uint8,), (B, layout.num_columns))
    if prediction is not None:
        wide = table.continuous.dtype == torch.float64
        allowed = (torch.float64,) if wide else (torch.float32, torch.bfloat16)
        check_tensor("prediction", prediction, allowed, (B, width))


def check_offsets(offsets: Tensor, width: int) -> int | None:
    """Check the offsets of one-hot groups, and return the number of continuous columns.

    The numbers themselves are not read in a compiled graph, which that would break, nor on a CUDA device, for which the
    host would wait: there the kernel checks them, and the result is None.
    """
    check_tensor("offsets", offsets, (torch.int64,), (None,))
    if torch.compiler.is_compiling() or offsets.device.type != "cpu":
        return None
    bounds = offsets.tolist()
    if not bounds or bounds[0] < 0 or bounds[-1] != width or any(a >= b for a, b in pairwise(bounds)):
        raise ValueError(
            f"offsets must ascend from the number of continuous columns to the width {width}, not {bounds}"
        )
    return bounds[0]


def table_offsets(table: EncodedTable) -> Tensor:
    """The offsets of a table's one-hot groups, on its device."""
    # Dynamo cannot enter the lock that cached_property holds in Python before 3.12.
    return table.layout.offsets(table.device) if torch.compiler.is_compiling() else table.offsets


def refuse_gradients(op: str, arguments: Mapping[str, Tensor | None]) -> None:
    """Raise ValueError for an argument that needs a gradient which the op does not compute."""
    for name, tensor in arguments.items():
        if tensor is not None and tensor.requires_grad and torch.is_grad_enabled():
            raise _no_derivative(op, name)


def refuse_needed(ctx: Any, op: str, names: Sequence[str]) -> None:
    """The same in autograd's set-up, which has the arguments in their order; those with a derivative have no name."""
    for name, needed in zip(names, ctx.needs_input_grad, strict=False):
        if needed and name:
            raise _no_derivative(op, name)


def table_columns(offsets: Tensor, width: int, num_continuous: int) -> Tensor:
    """The table column of each encoded column, int64 ``[D]``, without a size that depends on data."""
    columns = torch.arange(width, device=offsets.device)
    after = num_continuous - 1 + torch.searchsorted(offsets, columns, right=True)
    return torch.where(columns < num_continuous, columns, after)


def mark_changed(tensors: Sequence[Tensor]) -> None:
    """Tell autograd that an op changed these in place, which an op of the stable ABI does not do itself."""
    if not torch.compiler.is_compiling():
        torch.autograd.graph.increment_version(list(tensors))


def _no_derivative(op: str, name: str) -> ValueError:
    return ValueError(f"{op} has no derivative with respect to {name}; detach it")
