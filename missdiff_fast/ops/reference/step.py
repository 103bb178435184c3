"""One solver step in plain PyTorch."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor

from missdiff_fast.diffusion.states import CLEAN
from missdiff_fast.ops.reference.random import normal


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
    """One solver step: ``c0 x + c1 p + c2 previous + c3 eps`` where a column is not clean, x where it is.

    p is the prediction, with a softmax over each one-hot group if ``softmax``. The paper's Algorithm 2, DDIM,
    DPM-Solver++(2M) (Lu et al., 2022) and SDE solvers differ only in the coefficients.

    Parameters
    ----------
    x : Tensor
        ``[B, D]``, float32 or float64.
    prediction : Tensor
        ``[B, D]``, x's dtype or bfloat16; columns beyond D are ignored.
    previous : Tensor, optional
        p of the step before, ``[B, D]``; needed if c2 is not 0.
    states : Tensor
        uint8 ``[B, J]``.
    offsets : Tensor
        `Layout.offsets`, int64 ``[K + 1]``.
    coefficients : Tensor
        (c0, c1, c2, c3), ``[4]``, x's dtype.
    rows, key : Tensor
        Of the noise eps, ``normal(rows, D, key)``, which is drawn only if c3 is not 0.
    softmax : bool
        Whether one-hot groups of the prediction are logits.

    Returns
    -------
    next, p : Tensor
        Both ``[B, D]``; p is the next call's ``previous``.

    Examples
    --------
    >>> from missdiff_fast.ops.reference import make_key
    >>> x, states, offsets = torch.zeros(1, 3), torch.ones(1, 2, dtype=torch.uint8), torch.tensor([1, 3])
    >>> logits, coefficients = torch.tensor([[2.0, 0.0, 0.0]]), torch.tensor([0.5, 2.0, 0.0, 0.0])
    >>> step(x, logits, None, states, offsets, coefficients, torch.arange(1), make_key(0, 0))
    (tensor([[4., 1., 1.]]), tensor([[2.0000, 0.5000, 0.5000]]))
    """
    D = x.shape[1]
    p = prediction[:, :D].to(x.dtype)
    bounds = offsets.tolist()
    if softmax:
        groups = [torch.softmax(p[:, a:b], 1) for a, b in pairwise(bounds)]
        p = torch.cat([p[:, : bounds[0]], *groups], 1)
    c0, c1, c2, c3 = coefficients.unbind()
    after = c0 * x + c1 * p
    if previous is not None:
        after = after + c2 * previous
    if bool(c3 != 0):
        after = after + c3 * normal(rows, D, key).to(x.dtype)
    sizes = torch.tensor([1] * bounds[0] + [b - a for a, b in pairwise(bounds)])
    clean = (states == CLEAN).repeat_interleave(sizes.to(x.device), 1)
    return torch.where(clean, x, after), p
