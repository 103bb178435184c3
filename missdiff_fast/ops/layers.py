"""The layers of a training step between two matrix products, one launch each on a GPU.

Arguments as in `missdiff_fast.ops.reference.layers`, the CPU kernels. On a GPU they are float32, with adjacent
numbers in each row. Not differentiable.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from missdiff_fast.ops._native import op, when_loaded
from missdiff_fast.ops.reference import layers as reference


def norm_forward(
    h: Tensor,
    bias: Tensor,
    gain: Tensor,
    shift: Tensor,
    level: Tensor | None,
    level_bias: Tensor | None,
    out: Tensor,
    stats: Tensor,
    next: Tensor | None = None,
) -> None:
    """LayerNorm of ``h + bias``, with the embedded noise level added."""
    op("norm_forward")(h, bias, gain, shift, level, level_bias, out, stats, next)


def norm_backward(
    h: Tensor,
    bias: Tensor,
    gain: Tensor,
    stats: Tensor,
    grad: Tensor,
    residual: Tensor | None,
    out: Tensor,
    level: Tensor | None = None,
    add: bool = False,
) -> None:
    """Gradients of `norm_forward`, given that of its result."""
    op("norm_backward")(h, bias, gain, stats, grad, residual, out, level, add)


def silu_forward(x: Tensor, bias: Tensor, out: Tensor) -> None:
    """SiLU of ``x + bias``, to ``out``."""
    op("silu_forward")(x, bias, out)


def silu_backward(x: Tensor, bias: Tensor, grad: Tensor) -> None:
    """Replace x by its gradient, given that of `silu_forward`'s result."""
    op("silu_backward")(x, bias, grad)


def column_sums(x: Tensor, places: Tensor, out: Tensor) -> None:
    """Sums over the rows, each stored at a place of its own in ``out``."""
    op("column_sums")(x, places, out)


def store_next(out: Tensor, place: Tensor, value: Tensor) -> None:
    """Store a number at ``out[place]``, and count ``place`` on by one."""
    op("store_next")(out, place, value)


def _fake(*arguments: Any) -> None:
    return None


@when_loaded
def _register() -> None:
    for function in (
        *(reference.norm_forward, reference.norm_backward, reference.silu_forward, reference.silu_backward),
        *(reference.column_sums, reference.store_next),
    ):
        name = f"missdiff_fast::{function.__name__}"
        torch.library.register_fake(name, _fake)
        torch.library.impl(name, "cpu", function)
