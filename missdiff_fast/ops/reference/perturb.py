"""The forward process in plain PyTorch."""

from __future__ import annotations

import torch
from torch import Tensor

from missdiff_fast.diffusion.states import CLEAN, NOISY
from missdiff_fast.ops.reference.random import normal
from missdiff_fast.table.encoded import EncodedTable


def _one_hot(table: EncodedTable, rows: Tensor, low: float, high: float) -> Tensor:
    """Encoded clean rows ``[B, D]``; 0 where missing."""
    cells, codes = table.continuous[rows], table.codes[rows].long()
    x0 = [torch.where(cells.isnan(), 0.0, cells)]
    # Tensors of the table's dtype, since torch.where makes float32 of two Python numbers.
    off, on, zero = (torch.full((), x, dtype=cells.dtype, device=cells.device) for x in (low, high, 0.0))
    for k, size in enumerate(table.layout.cardinalities):
        code = codes[:, k : k + 1]
        hot = torch.where(code == torch.arange(size, device=codes.device), on, off)
        x0.append(torch.where(code >= 0, hot, zero))
    return torch.cat(x0, 1)


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
    """Gather rows, expand codes to one-hot groups, and hide, noise or keep each column.

    A noisy cell becomes ``alpha x0 + sigma eps``, a clean one ``x0``, a hidden one 0, where x0 of a missing cell is 0
    and eps is ``normal(rows, D, key)``.

    Parameters
    ----------
    table : EncodedTable
        The clean table.
    rows : Tensor
        Row numbers, of the table and of the noise, int64 ``[B]``.
    states : Tensor
        HIDDEN, NOISY or CLEAN for each column of each row, uint8 ``[B, J]``.
    alpha, sigma : Tensor
        Coefficients of each row, ``[B]``, the table's dtype.
    key : Tensor
        From `make_key`.
    low, high : float
        Values of a one-hot column that is off and on.

    Returns
    -------
    Tensor
        x_t, ``[B, D]``, the table's dtype.

    Examples
    --------
    >>> from missdiff_fast.diffusion.states import HIDDEN
    >>> from missdiff_fast.ops.reference import make_key
    >>> from missdiff_fast.table.encoded import Layout
    >>> cells, codes = torch.tensor([[0.5], [2.0]]), torch.tensor([[1], [-1]], dtype=torch.int16)
    >>> table, one = EncodedTable(cells, codes, Layout(1, (2,))), torch.ones(2)
    >>> states = torch.tensor([[CLEAN, CLEAN], [HIDDEN, CLEAN]], dtype=torch.uint8)
    >>> perturb(table, torch.arange(2), states, one, one, make_key(0, 0))
    tensor([[0.5000, 0.0000, 1.0000],
            [0.0000, 0.0000, 0.0000]])
    """
    x0 = _one_hot(table, rows, low, high)
    state = states[:, table.layout.groups(table.device)]
    eps = normal(rows, x0.shape[1], key).to(x0.dtype)
    noisy = state == NOISY
    # Cells without noise are replaced first: an infinite one would make alpha's gradient NaN.
    mixed = alpha[:, None] * torch.where(noisy, x0, 0.0) + sigma[:, None] * eps
    return torch.where(noisy, mixed, torch.where(state == CLEAN, x0, 0.0))
