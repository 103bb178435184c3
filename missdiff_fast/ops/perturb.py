"""The forward process."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from missdiff_fast.diffusion.states import CLEAN, NOISY
from missdiff_fast.ops._checks import Gradients, check_batch, check_tensor, table_columns, table_offsets
from missdiff_fast.ops._native import op, when_loaded
from missdiff_fast.table.encoded import EncodedTable


def perturb(
    table: EncodedTable,
    rows: Tensor,
    states: Tensor,
    alpha: Tensor,
    sigma: Tensor,
    key: Tensor,
    *,
    low: float = 0.0,
    high: float = 1.0,
) -> Tensor:
    """Gather rows, expand codes to one-hot groups, and hide, noise or keep each column, in one pass over memory.

    Arguments and result as in `missdiff_fast.ops.reference.perturb`; the table is float32 or float64. Differentiable
    with respect to ``table.continuous``, ``alpha`` and ``sigma``. An infinite cell is passed on as it is.

    Examples
    --------
    >>> from missdiff_fast.ops import make_key
    >>> from missdiff_fast.table.encoded import Layout
    >>> codes = torch.tensor([[1], [-1]], dtype=torch.int16)
    >>> table = EncodedTable(torch.tensor([[0.5], [2.0]]), codes, Layout(1, (2,)))
    >>> clean, one = torch.full((2, 2), CLEAN, dtype=torch.uint8), torch.ones(2)
    >>> perturb(table, torch.arange(2), clean, one, one, make_key(0, 0))
    tensor([[0.5000, 0.0000, 1.0000],
            [2.0000, 0.0000, 0.0000]])
    """
    check_batch(table, rows, states)
    own = table.continuous.dtype
    check_tensor("alpha", alpha, (own,), rows.shape)
    check_tensor("sigma", sigma, (own,), rows.shape)
    check_tensor("key", key, (torch.int64,), (2,))
    cells = (table.continuous, table.codes, table_offsets(table), rows, states, alpha, sigma, key)
    return op("perturb")(*cells, table.layout.width, float(low), float(high))


def _fake(continuous: Tensor, codes: Tensor, offsets: Tensor, rows: Tensor, *rest: Any) -> Tensor:
    width = rest[4]
    return continuous.new_empty((rows.shape[0], width))


def _save(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    continuous, codes, offsets, rows, states, alpha, _, key, width, low, high = inputs
    ctx.save_for_backward(continuous, codes, offsets, rows, states, alpha, key)
    ctx.width, ctx.low, ctx.high = width, low, high


def _backward(ctx: Any, grad: Tensor) -> Gradients:
    continuous, codes, offsets, rows, states, alpha, key = ctx.saved_tensors
    C, D = continuous.shape[1], ctx.width
    columns = table_columns(offsets, D, C)
    state = states[:, columns]
    noisy = state == NOISY
    picked = continuous[rows]
    result: list[Tensor | None] = [None] * 11
    if ctx.needs_input_grad[0]:
        factor = torch.where(noisy[:, :C], alpha[:, None], (state[:, :C] == CLEAN).to(alpha.dtype))
        cells = torch.where(picked.isnan(), 0.0, grad[:, :C] * factor)
        result[0] = torch.zeros_like(continuous).index_add(0, rows, cells)
    if ctx.needs_input_grad[5]:
        # Tensors of the table's dtype, since torch.where makes float32 of two Python numbers.
        low, high, zero = (torch.full((), x, dtype=grad.dtype, device=grad.device) for x in (ctx.low, ctx.high, 0.0))
        code = codes[rows].long()[:, columns[C:] - C]
        category = torch.arange(C, D, device=offsets.device) - offsets[columns[C:] - C]
        one_hot = torch.where(code == category, high, torch.where(code >= 0, low, zero))
        x0 = torch.cat([torch.where(picked.isnan(), 0.0, picked), one_hot], 1)
        result[5] = torch.where(noisy, grad * x0, 0.0).sum(1)
    if ctx.needs_input_grad[6]:
        eps = torch.ops.missdiff_fast.normal(rows, D, key).to(grad.dtype)
        result[6] = torch.where(noisy, grad * eps, 0.0).sum(1)
    return tuple(result)


@when_loaded
def _register() -> None:
    torch.library.register_fake("missdiff_fast::perturb", _fake)
    torch.library.register_autograd("missdiff_fast::perturb", _backward, setup_context=_save)
