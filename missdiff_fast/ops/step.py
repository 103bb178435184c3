"""One solver step."""

from __future__ import annotations

import torch
from torch import Tensor

from missdiff_fast.ops._checks import (
    _TABLE_TYPES,
    _check,
    _check_offsets,
)
from missdiff_fast.ops._native import op


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
    """One solver step with its noise, known cells held; see `missdiff_fast.ops.reference.step`.

    Differentiable with respect to ``x``, ``prediction`` and ``previous``.

    Parameters
    ----------
    x : Tensor
        ``[B, D]``, float32 or float64.
    prediction : Tensor
        ``[B, D]`` or wider, x's dtype or bfloat16.
    previous : Tensor, optional
        ``[B, D]``, x's dtype.
    states : Tensor
        uint8 ``[B, J]``.
    offsets : Tensor
        int64 ``[K + 1]``.
    coefficients : Tensor
        ``[4]``, x's dtype.
    rows, key : Tensor
        int64 ``[B]`` and ``[2]``.
    softmax : bool
        Whether one-hot groups of the prediction are logits.

    Returns
    -------
    next, p : Tensor
        Both ``[B, D]``, x's dtype.

    Examples
    --------
    >>> x, states, offsets = torch.zeros(1, 3), torch.ones(1, 2, dtype=torch.uint8), torch.tensor([1, 3])
    >>> logits, coefficients = torch.tensor([[2.0, 0.0, 0.0]]), torch.tensor([0.5, 2.0, 0.0, 0.0])
    >>> step(x, logits, None, states, offsets, coefficients, torch.arange(1), make_key(0, 0))
    (tensor([[4., 1., 1.]]), tensor([[2.0000, 0.5000, 0.5000]]))
    """
    _check("x", x, _TABLE_TYPES, (None, None))
    B, D = x.shape
    _check("prediction", prediction, (x.dtype, torch.bfloat16), (B, None))
    if prediction.shape[1] < D:
        raise ValueError(f"prediction must have at least x's {D} columns, not {prediction.shape[1]}")
    if previous is not None:
        _check("previous", previous, (x.dtype,), (B, D))
    continuous = _check_offsets(offsets, D)
    columns = None if continuous is None else continuous + offsets.shape[0] - 1
    _check("states", states, (torch.uint8,), (B, columns))
    _check("coefficients", coefficients, (x.dtype,), (4,))
    _check("rows", rows, (torch.int64,), (B,))
    _check("key", key, (torch.int64,), (2,))
    return op("step")(x, prediction, previous, states, offsets, coefficients, rows, key, softmax)
