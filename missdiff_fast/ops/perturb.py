"""The forward process."""

from __future__ import annotations

import torch
from torch import Tensor

from missdiff_fast.ops._checks import _check, _check_batch, _offsets
from missdiff_fast.ops._native import op
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
    """Gather rows, expand one-hot groups, and hide, noise or keep each column; see `reference.perturb`.

    One pass over memory. Differentiable with respect to ``table.continuous``, ``alpha`` and ``sigma``. Infinite cells
    are not expected in a table and are passed on as they are.

    Parameters
    ----------
    table : EncodedTable
        float32 or float64.
    rows : Tensor
        int64 ``[B]``, each in [0, N).
    states : Tensor
        uint8 ``[B, J]``.
    alpha, sigma : Tensor
        ``[B]``, the table's dtype.
    key : Tensor
        int64 ``[2]``.
    low, high : float
        What one-hot columns hold off and on.

    Returns
    -------
    Tensor
        x_t, ``[B, D]``, the table's dtype.

    Examples
    --------
    >>> from missdiff_fast.table.encoded import Layout
    >>> codes = torch.tensor([[1], [-1]], dtype=torch.int16)
    >>> table = EncodedTable(torch.tensor([[0.5], [2.0]]), codes, Layout(1, (2,)))
    >>> clean, one = torch.full((2, 2), 2, dtype=torch.uint8), torch.ones(2)
    >>> perturb(table, torch.arange(2), clean, one, one, make_key(0, 0))
    tensor([[0.5000, 0.0000, 1.0000],
            [2.0000, 0.0000, 0.0000]])
    """
    _check_batch(table, rows, states)
    own = table.continuous.dtype
    _check("alpha", alpha, (own,), rows.shape)
    _check("sigma", sigma, (own,), rows.shape)
    _check("key", key, (torch.int64,), (2,))
    cells = (table.continuous, table.codes, _offsets(table), rows, states, alpha, sigma, key)
    return op("perturb")(*cells, table.layout.width, float(low), float(high))
