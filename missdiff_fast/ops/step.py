"""One solver step."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from missdiff_fast.diffusion.states import CLEAN
from missdiff_fast.ops._checks import (
    TABLE_TYPES,
    Gradients,
    check_offsets,
    check_tensor,
    refuse_needed,
    table_columns,
)
from missdiff_fast.ops._native import op, when_loaded


def step(
    x: Tensor,
    prediction: Tensor,
    previous: Tensor | None,
    states: Tensor,
    offsets: Tensor,
    coefficients: Tensor,
    rows: Tensor,
    key: Tensor,
    *,
    softmax: bool = True,
) -> tuple[Tensor, Tensor]:
    """One solver step with its noise, clean cells kept, in one pass over memory.

    Arguments and result as in `missdiff_fast.ops.reference.step`. Differentiable with respect to ``x``, ``prediction``
    and ``previous``.

    Examples
    --------
    >>> from missdiff_fast.ops import make_key
    >>> x, states, offsets = torch.zeros(1, 3), torch.ones(1, 2, dtype=torch.uint8), torch.tensor([1, 3])
    >>> logits, coefficients = torch.tensor([[2.0, 0.0, 0.0]]), torch.tensor([0.5, 2.0, 0.0, 0.0])
    >>> step(x, logits, None, states, offsets, coefficients, torch.arange(1), make_key(0, 0))
    (tensor([[4., 1., 1.]]), tensor([[2.0000, 0.5000, 0.5000]]))
    """
    check_tensor("x", x, TABLE_TYPES, (None, None))
    B, D = x.shape
    check_tensor("prediction", prediction, (x.dtype, torch.bfloat16), (B, None))
    if prediction.shape[1] < D:
        raise ValueError(f"prediction must have at least x's {D} columns, not {prediction.shape[1]}")
    if previous is not None:
        check_tensor("previous", previous, (x.dtype,), (B, D))
    continuous = check_offsets(offsets, D)
    columns = None if continuous is None else continuous + offsets.shape[0] - 1
    check_tensor("states", states, (torch.uint8,), (B, columns))
    check_tensor("coefficients", coefficients, (x.dtype,), (4,))
    check_tensor("rows", rows, (torch.int64,), (B,))
    check_tensor("key", key, (torch.int64,), (2,))
    return op("step")(x, prediction, previous, states, offsets, coefficients, rows, key, softmax)


def _fake(x: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    return x.new_empty(x.shape), x.new_empty(x.shape)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    refuse_needed(ctx, "step", ("", "", "", "states", "offsets", "coefficients"))
    _, prediction, _, states, offsets, coefficients, _, _, softmax = inputs
    ctx.save_for_backward(states, offsets, coefficients, output[1])
    ctx.softmax, ctx.prediction_width, ctx.prediction_dtype = softmax, prediction.shape[1], prediction.dtype


def _backward(ctx: Any, grad_next: Tensor, grad_p: Tensor) -> Gradients:
    states, offsets, coefficients, p = ctx.saved_tensors
    D, J = p.shape[1], states.shape[1]
    C = J - (offsets.shape[0] - 1)
    columns = table_columns(offsets, D, C)
    clean = states[:, columns] == CLEAN
    c0, c1, c2, _ = coefficients.unbind()
    moved = torch.where(clean, 0.0, grad_next)
    result: list[Tensor | None] = [None] * 9
    if ctx.needs_input_grad[0]:
        result[0] = torch.where(clean, grad_next, c0 * grad_next)
    if ctx.needs_input_grad[1]:
        grad = c1 * moved + grad_p
        if ctx.softmax:
            sums = grad.new_zeros((grad.shape[0], J)).index_add(1, columns, p * grad)
            logits = p * (grad - sums[:, columns])
            grad = torch.where(torch.arange(D, device=grad.device) < C, grad, logits)
        padding = (0, ctx.prediction_width - D)
        result[1] = torch.nn.functional.pad(grad, padding).to(ctx.prediction_dtype)
    if ctx.needs_input_grad[2]:
        result[2] = c2 * moved
    return tuple(result)


@when_loaded
def _register() -> None:
    torch.library.register_fake("missdiff_fast::step", _fake)
    torch.library.register_autograd("missdiff_fast::step", _backward, setup_context=_save)
