"""What PyTorch needs beside the kernels: fake implementations for tracing, and derivatives.

Imported once the extension has registered the ops.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from missdiff_fast.diffusion.states import CLEAN, NOISY

_OPS = torch.ops.missdiff_fast
Gradients = tuple[Tensor | None, ...]


def _fake_noise(rows: Tensor, columns: int, key: Tensor) -> Tensor:
    return rows.new_empty((rows.shape[0], columns), dtype=torch.float32)


def _fake_perturb(continuous: Tensor, codes: Tensor, offsets: Tensor, rows: Tensor, *rest: Any) -> Tensor:
    return continuous.new_empty((rows.shape[0], rest[4]))


def _fake_loss(prediction: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    wide = torch.float64 if prediction.dtype == torch.float64 else torch.float32
    return prediction.new_empty((), dtype=wide), prediction.new_empty(prediction.shape)


def _fake_step(x: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    return x.new_empty(x.shape), x.new_empty(x.shape)


def _fake_mlp_sample(x: Tensor, *rest: Any) -> Tensor:
    return x.new_empty(x.shape)


def _fake_mlp_predict(x: Tensor, states: Tensor, weights: Tensor, offsets: Tensor, *rest: Any) -> Tensor:
    continuous = states.shape[1] - (offsets.shape[0] - 1)
    return x.new_empty((x.shape[0], x.shape[1] + continuous))


def _fake_mlp_train_step(weights: Tensor, *rest: Any) -> Tensor:
    return weights.new_empty(())


def _fake_adamw(weights: Tensor, *rest: Tensor) -> None:
    return None


def _fake_encode(cells: Tensor, *rest: Any) -> Tensor:
    return cells.new_empty(cells.shape, dtype=torch.float32)


def _fake_decode(x: Tensor, offsets: Tensor, boundaries: Tensor, starts: Tensor) -> tuple[Tensor, Tensor]:
    bin_index = x.new_empty((x.shape[0], starts.shape[0] - 1), dtype=torch.int32)
    return bin_index, x.new_empty((x.shape[0], offsets.shape[0] - 1), dtype=torch.int16)


_FAKES: dict[str, Callable[..., Any]] = {
    "uniform": _fake_noise,
    "normal": _fake_noise,
    "perturb": _fake_perturb,
    "masked_loss": _fake_loss,
    "masked_noise_loss": _fake_loss,
    "step": _fake_step,
    "mlp_sample": _fake_mlp_sample,
    "mlp_predict": _fake_mlp_predict,
    "mlp_train_step": _fake_mlp_train_step,
    "adamw": _fake_adamw,
    "encode": _fake_encode,
    "decode": _fake_decode,
}


def _refuse(ctx: Any, op: str, names: Sequence[str]) -> None:
    """Raise rather than return the wrong gradient of an argument that has none; an empty name marks one that has."""
    for name, needed in zip(names, ctx.needs_input_grad, strict=False):
        if needed and name:
            raise ValueError(f"{op} has no derivative with respect to {name}; detach it")


def _groups(offsets: Tensor, width: int, num_continuous: int) -> Tensor:
    """The table column of each encoded column, int64 ``[D]``, without a size that depends on data."""
    columns = torch.arange(width, device=offsets.device)
    after = num_continuous - 1 + torch.searchsorted(offsets, columns, right=True)
    return torch.where(columns < num_continuous, columns, after)


def _loss_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    names = ("", "the table", "codes", "the table's values", "offsets", "rows", "states", "weight", "mean_weight")
    _refuse(ctx, "a masked loss", (*names, "column_weight"))
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(output[1])
    ctx.rest = len(inputs) - 1


def _is_one(x: Tensor) -> bool:
    """Whether a number is 1; False where it cannot be read, being traced or batched, or on a device to wait for."""
    if type(x) is not Tensor or x.device.type != "cpu":
        return False
    try:
        return x.item() == 1
    except RuntimeError:
        return False


@once_differentiable
def _loss_backward(ctx: Any, grad_loss: Tensor, _: Tensor | None) -> Gradients:
    (grad,) = ctx.saved_tensors
    # Writing the product to fresh memory takes as long as half the loss, and mostly it is a product with 1.
    return (grad if _is_one(grad_loss) else grad * grad_loss, *[None] * ctx.rest)


def _perturb_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    continuous, codes, offsets, rows, states, alpha, _, key, width, low, high = inputs
    ctx.save_for_backward(continuous, codes, offsets, rows, states, alpha, key)
    ctx.width, ctx.levels = width, (low, high)


def _perturb_backward(ctx: Any, grad: Tensor) -> Gradients:
    continuous, codes, offsets, rows, states, alpha, key = ctx.saved_tensors
    C, D = continuous.shape[1], ctx.width
    groups = _groups(offsets, D, C)
    state = states[:, groups]
    noisy = state == NOISY
    picked = continuous[rows]
    result: list[Tensor | None] = [None] * 11
    if ctx.needs_input_grad[0]:
        factor = torch.where(noisy[:, :C], alpha[:, None], (state[:, :C] == CLEAN).to(alpha.dtype))
        cells = torch.where(picked.isnan(), 0.0, grad[:, :C] * factor)
        result[0] = torch.zeros_like(continuous).index_add(0, rows, cells)
    if ctx.needs_input_grad[5]:
        # In the table's type: torch.where would make float32 of numbers.
        low, high, zero = (torch.full((), level, dtype=grad.dtype, device=grad.device) for level in (*ctx.levels, 0.0))
        code = codes[rows].long()[:, groups[C:] - C]
        place = torch.arange(C, D, device=offsets.device) - offsets[groups[C:] - C]
        hot = torch.where(code == place, high, torch.where(code >= 0, low, zero))
        x0 = torch.cat([torch.where(picked.isnan(), 0.0, picked), hot], 1)
        result[5] = torch.where(noisy, grad * x0, 0.0).sum(1)
    if ctx.needs_input_grad[6]:
        eps = _OPS.normal(rows, D, key).to(grad.dtype)
        result[6] = torch.where(noisy, grad * eps, 0.0).sum(1)
    return tuple(result)


def _step_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    _refuse(ctx, "step", ("", "", "", "states", "offsets", "coefficients"))
    _, prediction, _, states, offsets, coefficients, _, _, softmax = inputs
    ctx.save_for_backward(states, offsets, coefficients, output[1])
    ctx.softmax, ctx.prediction_width, ctx.prediction_dtype = softmax, prediction.shape[1], prediction.dtype


def _step_backward(ctx: Any, grad_next: Tensor, grad_p: Tensor) -> Gradients:
    states, offsets, coefficients, p = ctx.saved_tensors
    D, J = p.shape[1], states.shape[1]
    C = J - (offsets.shape[0] - 1)
    groups = _groups(offsets, D, C)
    clean = states[:, groups] == CLEAN
    c0, c1, c2, _ = coefficients.unbind()
    moved = torch.where(clean, 0.0, grad_next)
    result: list[Tensor | None] = [None] * 9
    if ctx.needs_input_grad[0]:
        result[0] = torch.where(clean, grad_next, c0 * grad_next)
    if ctx.needs_input_grad[1]:
        grad = c1 * moved + grad_p
        if ctx.softmax:
            sums = grad.new_zeros((grad.shape[0], J)).index_add(1, groups, p * grad)
            logits = p * (grad - sums[:, groups])
            grad = torch.where(torch.arange(D, device=grad.device) < C, grad, logits)
        padding = (0, ctx.prediction_width - D)
        result[1] = torch.nn.functional.pad(grad, padding).to(ctx.prediction_dtype)
    if ctx.needs_input_grad[2]:
        result[2] = c2 * moved
    return tuple(result)


@cache
def register() -> None:
    """Register everything, once."""
    for name, fake in _FAKES.items():
        torch.library.register_fake(f"missdiff_fast::{name}", fake)
    autograd = torch.library.register_autograd
    for name in ("masked_loss", "masked_noise_loss"):
        autograd(f"missdiff_fast::{name}", _loss_backward, setup_context=_loss_context)
    autograd("missdiff_fast::perturb", _perturb_backward, setup_context=_perturb_context)
    autograd("missdiff_fast::step", _step_backward, setup_context=_step_context)
