"""What the network of a training step reads, and what its output comes to.

On the CPU the ops are those of `missdiff_fast.ops.reference.mlp_ends`, in plain PyTorch. Not differentiable.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from missdiff_fast.ops._checks import check_batch, check_tensor, table_offsets
from missdiff_fast.ops._native import op, when_loaded
from missdiff_fast.ops.reference import mlp_ends as reference
from missdiff_fast.table.encoded import EncodedTable, Layout


def mlp_input(table: EncodedTable, rows: Tensor, states: Tensor, sigma: Tensor, key: Tensor) -> Tensor:
    """Input of the default network for noisy rows, in one launch on a GPU.

    Arguments and result as in `missdiff_fast.ops.reference.mlp_ends.mlp_input`, float32.
    """
    check_batch(table, rows, states)
    check_tensor("sigma", sigma, (torch.float32,), rows.shape)
    check_tensor("key", key, (torch.int64,), (2,))
    cells = table.continuous, table.codes, table_offsets(table)
    return op("mlp_input")(*cells, rows, states, sigma, key, table.layout.width)


def mlp_loss(
    output: Tensor,
    bias: Tensor,
    input: Tensor,
    table: EncodedTable,
    rows: Tensor,
    states: Tensor,
    loss_states: Tensor,
    sigma: Tensor,
    weight: Tensor,
    count: Tensor,
    *,
    mean_weight: float = 0.3,
    column_weight: Tensor | None = None,
) -> Tensor:
    """Loss of the prediction that the default network's output gives, with its gradient, in two launches on a GPU.

    Arguments and result as in `missdiff_fast.ops.reference.mlp_ends.mlp_loss`, float32.
    """
    if table.values is None:
        raise ValueError("mlp_loss needs table.values, the standardised raw values")
    check_batch(table, rows, states)
    cells = table.continuous, table.codes, table.values, table_offsets(table)
    batch = rows, states, loss_states, sigma, weight, count
    return op("mlp_loss")(output, bias, input, *cells, *batch, float(mean_weight), column_weight)


def _table(continuous: Tensor, codes: Tensor, offsets: Tensor, values: Tensor | None = None) -> EncodedTable:
    layout = Layout(continuous.shape[1], tuple(offsets.diff().tolist()))
    return EncodedTable(continuous, codes, layout, values)


def _input_on_cpu(continuous: Tensor, codes: Tensor, offsets: Tensor, *rest: Any) -> Tensor:
    return reference.mlp_input(_table(continuous, codes, offsets), *rest[:-1])


def _loss_on_cpu(
    output: Tensor,
    bias: Tensor,
    input: Tensor,
    continuous: Tensor,
    codes: Tensor,
    values: Tensor,
    offsets: Tensor,
    rows: Tensor,
    states: Tensor,
    loss_states: Tensor,
    sigma: Tensor,
    weight: Tensor,
    count: Tensor,
    mean_weight: float,
    column_weight: Tensor | None = None,
) -> Tensor:
    """The reference, with the gradient of the op `masked_loss`: a kernel cannot ask autograd for one."""
    table = _table(continuous, codes, offsets, values)
    prediction = reference.prediction_of(output + bias, input, table, states, sigma)
    cells = continuous, codes, values, offsets
    loss, gradient = op("masked_loss")(prediction, *cells, rows, loss_states, weight, mean_weight, column_weight)
    gradient[:, : continuous.shape[1]] *= reference.output_gain(table, states, sigma)
    factor = reference.divided_by(count, table, rows)
    output.copy_(gradient * factor)
    return loss * factor


def _fake_input(continuous: Tensor, codes: Tensor, offsets: Tensor, rows: Tensor, states: Tensor, *rest: Any) -> Tensor:
    return continuous.new_empty((rows.shape[0], rest[-1] + 2 * states.shape[1]))


def _fake_loss(output: Tensor, *rest: Any) -> Tensor:
    return output.new_empty(())


@when_loaded
def _register() -> None:
    torch.library.register_fake("missdiff_fast::mlp_input", _fake_input)
    torch.library.register_fake("missdiff_fast::mlp_loss", _fake_loss)
    torch.library.impl("missdiff_fast::mlp_input", "cpu", _input_on_cpu)
    torch.library.impl("missdiff_fast::mlp_loss", "cpu", _loss_on_cpu)
