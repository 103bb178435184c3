"""AdamW with an exponential moving average of the weights."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from missdiff_fast.ops._checks import check_tensor, mark_changed, refuse_gradients
from missdiff_fast.ops._native import op, when_loaded

FLAT = ("weights", "exp_avg", "exp_avg_sq", "ema")


def adamw(
    weights: Tensor, exp_avg: Tensor, exp_avg_sq: Tensor, ema: Tensor, gradient: Tensor, schedule: Tensor
) -> None:
    """One step of AdamW and of the weights' exponential moving average, in place, in one pass over memory.

    Arguments as in `missdiff_fast.ops.reference.adamw`, the first five of them float32. The four that change must be
    contiguous, need no gradient and, on a GPU, be aligned to 16 bytes; if two of them share memory, a RuntimeError is
    raised. On a GPU the kernel reads the schedule, so that the host can write the next step's without waiting. Not
    differentiable.

    Examples
    --------
    >>> weights, exp_avg, exp_avg_sq, ema = torch.zeros(4, 3).unbind()
    >>> gradient, schedule = torch.tensor([2.0, -1.0, 0.0]), torch.tensor([0.1, 1.0, 0.5], dtype=torch.float64)
    >>> adamw(weights, exp_avg, exp_avg_sq, ema, gradient, schedule)
    >>> weights, ema
    (tensor([-0.1000,  0.1000,  0.0000]), tensor([-0.0500,  0.0500,  0.0000]))
    """
    flat = dict(zip(FLAT, (weights, exp_avg, exp_avg_sq, ema), strict=True))
    check_tensor("weights", weights, (torch.float32,), (None,))
    check_flat(flat)
    check_tensor("gradient", gradient, (torch.float32,), weights.shape)
    check_tensor("schedule", schedule, (torch.float64,), (3,))
    refuse_gradients("adamw", {"gradient": gradient})
    op("adamw")(weights, exp_avg, exp_avg_sq, ema, gradient, schedule)
    mark_changed(list(flat.values()))


def check_flat(flat: Mapping[str, Tensor], owner: str = "") -> None:
    """Check the tensors that a training step changes in place, by their names in `FLAT`."""
    for name, tensor in flat.items():
        check_tensor(f"{owner}{name}", tensor, (torch.float32,), flat["weights"].shape)
        if not tensor.is_contiguous() or tensor.requires_grad:
            raise ValueError(f"{owner}{name} must be contiguous and without gradient, as TrainingState.of makes it")


def _fake(weights: Tensor, *rest: Tensor) -> None:
    return None


@when_loaded
def _register() -> None:
    torch.library.register_fake("missdiff_fast::adamw", _fake)
