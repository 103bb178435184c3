"""The masked losses in plain PyTorch."""

from __future__ import annotations

import torch
from torch import Tensor

from missdiff_fast.diffusion.states import CLEAN, NOISY
from missdiff_fast.ops.reference.random import normal
from missdiff_fast.table.encoded import EncodedTable


def _wide(dtype: torch.dtype) -> torch.dtype:
    """The type in which a loss is accumulated: at least float32."""
    return torch.float64 if dtype == torch.float64 else torch.float32


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
    """Loss of a prediction of x0: a sum over observed cells that are not clean, over the number of observed cells.

    A continuous cell adds ``w (x0_hat - x0)^2 + mean_weight (mean - value)^2``, where w is the row's weight if the
    column is noisy and 1 if it is hidden; a categorical cell adds the cross entropy of its group's logits. Both are
    multiplied by the column's weight.

    Parameters
    ----------
    prediction : Tensor
        ``[B, D + C]``: x0_hat of the continuous columns, logits, and conditional means of the standardised raw values.
    table : EncodedTable
        The table, with ``values`` (else ValueError); its missing cells do not enter.
    rows, states : Tensor
        As in `perturb`.
    weight : Tensor
        Weight of each row's noisy continuous cells, ``[B]``.
    mean_weight : float
        Weight of the conditional mean.
    column_weight : Tensor, optional
        Weight of each table column's loss, ``[J]``, ``weight``'s dtype; ones by default. It does not change the
        divisor. A column of weight 0 does not enter, as if it were clean.

    Returns
    -------
    Tensor
        A scalar, 0 if nothing is observed.

    Examples
    --------
    >>> import math
    >>> from missdiff_fast.table.encoded import Layout
    >>> cells, codes = torch.tensor([[0.5], [torch.nan]]), torch.tensor([[1], [-1]], dtype=torch.int16)
    >>> table = EncodedTable(cells, codes, Layout(1, (2,)), cells)
    >>> noisy = torch.full((2, 2), NOISY, dtype=torch.uint8)
    >>> masked_loss(torch.zeros(2, 4), table, torch.arange(2), noisy, torch.ones(2))
    tensor(0.5091)
    >>> round((0.5**2 + 0.3 * 0.5**2 + math.log(2)) / 2, 4)  # of the first row; the second one has no cell
    0.5091
    """
    if table.values is None:
        raise ValueError("masked_loss needs table.values, the standardised raw values")
    layout, dtype = table.layout, _wide(prediction.dtype)
    C, D = layout.num_continuous, layout.width
    x0, codes, values = table.continuous[rows], table.codes[rows].long(), table.values[rows]
    seen = ~torch.isnan(x0)
    observed = torch.cat([seen, codes >= 0], 1)
    active = observed & (states != CLEAN)
    if column_weight is None:
        column_weight = weight.new_ones(layout.num_columns)
    active &= column_weight != 0
    # Cells that do not enter are replaced first: in the gradient 0 times the NaN of a missing cell is NaN.
    used = torch.cat([active[:, layout.groups(table.device)], active[:, :C]], 1)
    prediction = torch.where(used, prediction.to(dtype), 0.0)
    x0, values = torch.where(seen, x0, 0.0), torch.where(seen, values, 0.0)
    w = torch.where(states[:, :C] == NOISY, weight[:, None], 1.0)
    squared = w * (prediction[:, :C] - x0) ** 2 + mean_weight * (prediction[:, D:] - values) ** 2
    total = (column_weight[:C] * torch.where(active[:, :C], squared, 0.0)).sum()
    logits = prediction[:, C:D].split(layout.cardinalities, 1) if layout.cardinalities else ()
    for k, group in enumerate(logits):
        entropy = torch.logsumexp(group, 1) - group.gather(1, codes[:, k : k + 1].clamp(min=0))[:, 0]
        total = total + column_weight[C + k] * torch.where(active[:, C + k], entropy, 0.0).sum()
    return total / observed.sum().clamp(min=1)


def masked_noise_loss(prediction: Tensor, table: EncodedTable, rows: Tensor, states: Tensor, key: Tensor) -> Tensor:
    """Mean squared error of a prediction of eps over observed noisy encoded cells: a scalar, 0 if there are none.

    The paper's objective (Algorithm 1). eps is drawn again from the key that `perturb` had.

    Parameters
    ----------
    prediction : Tensor
        eps_hat, ``[B, D]``.
    table, rows, states, key
        As in `perturb`.

    Examples
    --------
    >>> from missdiff_fast.ops.reference import make_key
    >>> from missdiff_fast.table.encoded import Layout
    >>> table = EncodedTable(torch.zeros(2, 3), torch.zeros(2, 0, dtype=torch.int16), Layout(3))
    >>> rows, noisy, key = torch.arange(2), torch.full((2, 3), NOISY, dtype=torch.uint8), make_key(0, 0)
    >>> masked_noise_loss(normal(rows, 3, key), table, rows, noisy, key)
    tensor(0.)
    """
    groups = table.layout.groups(table.device)
    observed = torch.cat([~torch.isnan(table.continuous[rows]), table.codes[rows] >= 0], 1)
    active = (observed & (states == NOISY))[:, groups]
    prediction = prediction.to(_wide(prediction.dtype))
    eps = normal(rows, prediction.shape[1], key).to(prediction.dtype)
    residual = torch.where(active, prediction, eps) - eps  # an unused NaN stays out of the gradient
    return (residual**2).sum() / active.sum().clamp(min=1)
