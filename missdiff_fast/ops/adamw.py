"""AdamW with a moving average of the weights."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from missdiff_fast.ops._checks import (
    _check,
    _refuse_gradients,
)
from missdiff_fast.ops._native import op

_FLAT = ("weights", "mean", "square", "average")


def adamw(weights: Tensor, mean: Tensor, square: Tensor, average: Tensor, gradient: Tensor, schedule: Tensor) -> None:
    """One step of AdamW and of the moving average of the weights, in place; see `missdiff_fast.ops.reference.adamw`.

    One pass over memory. On a GPU the schedule is read there, so that the next step's may be written into it without
    the host's waiting. Not differentiable.

    Parameters
    ----------
    weights, mean, square, average : Tensor
        ``[P]``, float32, contiguous; on a GPU aligned to 16 bytes.
    gradient : Tensor
        ``[P]``, float32.
    schedule : Tensor
        float64 ``[3]``, on the same device.

    Examples
    --------
    >>> weights, mean, square, average = torch.zeros(4, 3).unbind()
    >>> adamw(weights, mean, square, average, torch.tensor([2.0, -1.0, 0.0]), torch.tensor([0.1, 1.0, 0.5]).double())
    >>> weights, average
    (tensor([-0.1000,  0.1000,  0.0000]), tensor([-0.0500,  0.0500,  0.0000]))
    """
    flat = dict(zip(_FLAT, (weights, mean, square, average), strict=True))
    _check("weights", weights, (torch.float32,), (None,))
    _check_flat(flat)
    _check("gradient", gradient, (torch.float32,), weights.shape)
    _check("schedule", schedule, (torch.float64,), (3,))
    _refuse_gradients("adamw", {"gradient": gradient})
    op("adamw")(weights, mean, square, average, gradient, schedule)
    if not torch.compiler.is_compiling():  # an op of the stable ABI does not tell autograd what it changed
        torch.autograd.graph.increment_version(list(flat.values()))


def _check_flat(flat: Mapping[str, Tensor], owner: str = "") -> None:
    """Check what a step of training changes."""
    for name, tensor in flat.items():
        _check(f"{owner}{name}", tensor, (torch.float32,), flat["weights"].shape)
        if not tensor.is_contiguous() or tensor.requires_grad:
            raise ValueError(f"{owner}{name} must be contiguous and without gradient, as TrainingState.of makes it")
