"""The masked losses."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from missdiff_fast.ops._checks import Gradients, check_batch, check_tensor, refuse_needed, table_offsets
from missdiff_fast.ops._native import op, when_loaded
from missdiff_fast.table.encoded import EncodedTable


def masked_loss(
    prediction: Tensor,
    table: EncodedTable,
    rows: Tensor,
    states: Tensor,
    weight: Tensor,
    *,
    mean_weight: float = 0.3,
    column_weight: Tensor | None = None,
) -> Tensor:
    """Loss of a prediction of x0 over observed cells that are not clean, with its gradient in one pass over memory.

    Arguments and result as in `missdiff_fast.ops.reference.masked_loss`. A float64 table needs a float64 prediction; a
    float32 table one in float32 or bfloat16, which are both accumulated in float32. Weights have the table's dtype.
    Differentiable once, with respect to ``prediction``: the backward pass only scales the gradient, which is exactly 0
    at every cell that does not enter.

    Examples
    --------
    >>> from missdiff_fast.table.encoded import Layout
    >>> cells, codes = torch.tensor([[0.5], [torch.nan]]), torch.tensor([[1], [-1]], dtype=torch.int16)
    >>> table = EncodedTable(cells, codes, Layout(1, (2,)), cells)
    >>> noisy, one = torch.ones(2, 2, dtype=torch.uint8), torch.ones(2)
    >>> masked_loss(torch.zeros(2, 4), table, torch.arange(2), noisy, one)
    tensor(0.5091)
    """
    return loss_and_gradient(
        prediction, table, rows, states, weight, mean_weight=mean_weight, column_weight=column_weight
    )[0]


def loss_and_gradient(
    prediction: Tensor,
    table: EncodedTable,
    rows: Tensor,
    states: Tensor,
    weight: Tensor,
    *,
    mean_weight: float,
    column_weight: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """`masked_loss` with its gradient with respect to the prediction."""
    if table.values is None:
        raise ValueError("masked_loss needs table.values, the standardised raw values")
    check_batch(table, rows, states, prediction, table.layout.width + table.layout.num_continuous)
    check_tensor("weight", weight, (table.continuous.dtype,), rows.shape)
    if column_weight is not None:
        check_tensor("column_weight", column_weight, (table.continuous.dtype,), (table.layout.num_columns,))
    cells = (table.continuous, table.codes, table.values, table_offsets(table))
    return op("masked_loss")(prediction, *cells, rows, states, weight, float(mean_weight), column_weight)


def masked_noise_loss(prediction: Tensor, table: EncodedTable, rows: Tensor, states: Tensor, key: Tensor) -> Tensor:
    """Mean squared error of a prediction of eps, which the kernel draws again, with its gradient in one pass.

    Arguments and result as in `missdiff_fast.ops.reference.masked_noise_loss`; dtypes and derivative as in
    `masked_loss`.

    Examples
    --------
    >>> from missdiff_fast.ops import make_key, normal
    >>> from missdiff_fast.table.encoded import Layout
    >>> table = EncodedTable(torch.zeros(2, 3), torch.zeros(2, 0, dtype=torch.int16), Layout(3))
    >>> rows, noisy, key = torch.arange(2), torch.ones(2, 3, dtype=torch.uint8), make_key(0, 0)
    >>> masked_noise_loss(normal(rows, 3, key), table, rows, noisy, key)
    tensor(0.)
    """
    check_batch(table, rows, states, prediction, table.layout.width)
    check_tensor("key", key, (torch.int64,), (2,))
    cells = (table.continuous, table.codes, table_offsets(table))
    return op("masked_noise_loss")(prediction, *cells, rows, states, key)[0]


def _fake(prediction: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    wide = torch.float64 if prediction.dtype == torch.float64 else torch.float32
    return prediction.new_empty((), dtype=wide), prediction.new_empty(prediction.shape)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    names = ("", "the table", "codes", "the table's values", "offsets", "rows", "states", "weight", "mean_weight")
    refuse_needed(ctx, "a masked loss", (*names, "column_weight"))
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(output[1])
    ctx.others = len(inputs) - 1


@once_differentiable
def _backward(ctx: Any, grad_loss: Tensor, _: Tensor | None) -> Gradients:
    (grad,) = ctx.saved_tensors
    # Writing the product to new memory takes half as long as the loss itself, and the factor is mostly 1.
    return (grad if _is_one(grad_loss) else grad * grad_loss, *[None] * ctx.others)


def _is_one(x: Tensor) -> bool:
    """Whether a number is known to be 1: not where it is traced or batched, nor where the host would wait for it."""
    if type(x) is not Tensor or x.device.type != "cpu":
        return False
    try:
        return x.item() == 1
    except RuntimeError:
        return False


@when_loaded
def _register() -> None:
    for name in ("masked_loss", "masked_noise_loss"):
        torch.library.register_fake(f"missdiff_fast::{name}", _fake)
        torch.library.register_autograd(f"missdiff_fast::{name}", _backward, setup_context=_save)
