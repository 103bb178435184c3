"""The masked losses."""

from __future__ import annotations

import torch
from torch import Tensor

from missdiff_fast.ops._checks import (
    _check,
    _check_batch,
    _offsets,
)
from missdiff_fast.ops._native import op
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
    """Loss of a prediction of x0 over observed cells that are not clean; see `missdiff_fast.ops.reference.masked_loss`.

    The gradient is made in the same pass as the value, so that the backward pass only scales it; it is exactly 0 at
    every cell that does not enter. Differentiable once, with respect to ``prediction``.

    Parameters
    ----------
    prediction : Tensor
        ``[B, D + C]``: float64 for a float64 table, else float32 or bfloat16, which are accumulated in
        float.
    table : EncodedTable
        With ``values``.
    rows, states : Tensor
        As in `perturb`.
    weight : Tensor
        ``[B]``, the table's dtype.
    mean_weight : float
        Weight of the conditional mean.
    column_weight : Tensor, optional
        Weight of each table column's loss, ``[J]``, the table's dtype; a column of weight 0 does not enter. Ones by
        default.

    Returns
    -------
    Tensor
        A scalar, float32 or float64.

    Examples
    --------
    >>> from missdiff_fast.table.encoded import Layout
    >>> cells, codes = torch.tensor([[0.5], [torch.nan]]), torch.tensor([[1], [-1]], dtype=torch.int16)
    >>> table = EncodedTable(cells, codes, Layout(1, (2,)), cells)
    >>> noisy, one = torch.ones(2, 2, dtype=torch.uint8), torch.ones(2)
    >>> masked_loss(torch.zeros(2, 4), table, torch.arange(2), noisy, one)
    tensor(0.5091)
    """
    if table.values is None:
        raise ValueError("masked_loss needs table.values, the standardised raw values")
    _check_batch(table, rows, states, prediction, table.layout.width + table.layout.num_continuous)
    _check("weight", weight, (table.continuous.dtype,), rows.shape)
    if column_weight is not None:
        _check("column_weight", column_weight, (table.continuous.dtype,), (table.layout.num_columns,))
    cells = (table.continuous, table.codes, table.values, _offsets(table))
    return op("masked_loss")(prediction, *cells, rows, states, weight, float(mean_weight), column_weight)[0]


def masked_noise_loss(prediction: Tensor, table: EncodedTable, rows: Tensor, states: Tensor, key: Tensor) -> Tensor:
    """Squared error of a prediction of eps; see `missdiff_fast.ops.reference.masked_noise_loss`.

    The noise is made again from ``key`` inside the kernel. ``prediction`` is ``[B, D]``; all else as in `masked_loss`.

    Examples
    --------
    >>> from missdiff_fast.table.encoded import Layout
    >>> table = EncodedTable(torch.zeros(2, 3), torch.zeros(2, 0, dtype=torch.int16), Layout(3))
    >>> rows, noisy, key = torch.arange(2), torch.ones(2, 3, dtype=torch.uint8), make_key(0, 0)
    >>> masked_noise_loss(normal(rows, 3, key), table, rows, noisy, key)
    tensor(0.)
    """
    _check_batch(table, rows, states, prediction, table.layout.width)
    _check("key", key, (torch.int64,), (2,))
    cells = (table.continuous, table.codes, _offsets(table))
    return op("masked_noise_loss")(prediction, *cells, rows, states, key)[0]
