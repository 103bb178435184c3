"""The ops as one would write them in PyTorch for this table: 27 continuous columns and 46 of two categories.

These are what the kernels are measured against, eager and through torch.compile. They use what the general ops cannot:
all groups are pairs, so that one-hot columns are a reshape, a soft-max is a sigmoid of a difference and a cross
entropy a softplus. Noise is `torch.randn`'s unless it is given, as the comparison with the reference needs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from missdiff_fast.reference import CLEAN, NOISY


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function through torch.compile, with PyTorch's own generator: Inductor's is several times slower on a CPU."""
    return torch.compile(function, options={"fallback_random": True})


def perturb(
    continuous: Tensor,
    codes: Tensor,
    rows: Tensor,
    states: Tensor,
    alpha: Tensor,
    sigma: Tensor,
    noise: Tensor | None = None,
) -> Tensor:
    B, C, K = rows.shape[0], continuous.shape[1], codes.shape[1]
    x0 = continuous.new_empty(B, C + 2 * K)
    x0[:, :C] = continuous.index_select(0, rows).nan_to_num_(nan=0.0, posinf=math.inf, neginf=-math.inf)
    pair = torch.arange(2, dtype=codes.dtype)
    x0[:, C:].view(B, K, 2).copy_(codes.index_select(0, rows)[:, :, None] == pair)
    noisy = torch.randn(B, C + 2 * K) if noise is None else noise.clone()
    noisy.mul_(sigma[:, None]).addcmul_(x0, alpha[:, None])
    state = torch.cat([states[:, :C], states[:, C:, None].expand(B, K, 2).reshape(B, 2 * K)], 1)
    return torch.where(state == NOISY, noisy, x0.mul_(state == CLEAN))


def masked_loss(
    prediction: Tensor,
    continuous: Tensor,
    codes: Tensor,
    values: Tensor,
    rows: Tensor,
    states: Tensor,
    weight: Tensor,
    mean_weight: float,
    column_weight: Tensor | None = None,
) -> Tensor:
    B, C, K = rows.shape[0], continuous.shape[1], codes.shape[1]
    D = C + 2 * K
    x0, value, code = continuous.index_select(0, rows), values.index_select(0, rows), codes.index_select(0, rows)
    seen, known = ~torch.isnan(x0), code >= 0
    state = states[:, :C]
    active = seen & (state != CLEAN)
    w = torch.where(state == NOISY, weight[:, None], 1.0)
    d = torch.where(active, prediction[:, :C] - x0, 0.0)
    e = torch.where(active, prediction[:, D:] - value, 0.0)
    if column_weight is None:
        total = (w * d * d).sum() + mean_weight * (e * e).sum()
    else:
        total = ((w * d * d + mean_weight * e * e) * column_weight[:C]).sum()
    logits = prediction[:, C:D].view(B, K, 2)
    forward = logits[:, :, 1] - logits[:, :, 0]
    entropy = functional.softplus(torch.where(code == 1, -forward, forward))
    entropy = torch.where(known & (states[:, C:] != CLEAN), entropy, 0.0)
    total = total + (entropy if column_weight is None else entropy * column_weight[C:]).sum()
    return total / (seen.sum() + known.sum()).clamp(min=1)


def masked_noise_loss(
    prediction: Tensor,
    continuous: Tensor,
    codes: Tensor,
    rows: Tensor,
    states: Tensor,
    noise: Tensor | None = None,
) -> Tensor:
    B, C, K = rows.shape[0], continuous.shape[1], codes.shape[1]
    noise = torch.randn(B, C + 2 * K) if noise is None else noise
    active = states == NOISY
    first = active[:, :C] & ~torch.isnan(continuous.index_select(0, rows))
    second = active[:, C:] & (codes.index_select(0, rows) >= 0)
    mask = torch.cat([first, second[:, :, None].expand(B, K, 2).reshape(B, 2 * K)], 1)
    d = torch.where(mask, prediction - noise, 0.0)
    return (d * d).sum() / mask.sum().clamp(min=1)


def step(
    x: Tensor,
    prediction: Tensor,
    previous: Tensor,
    states: Tensor,
    coefficients: tuple[float, float, float, float],
    noise: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    B, D = x.shape
    C, K = 2 * states.shape[1] - D, D - states.shape[1]
    c0, c1, c2, c3 = coefficients
    p = torch.empty_like(x)
    p[:, :C] = prediction[:, :C]
    logits, pairs = prediction[:, C:D].view(B, K, 2), p[:, C:].view(B, K, 2)
    second = torch.sigmoid(logits[:, :, 1] - logits[:, :, 0])
    pairs[:, :, 1] = second
    pairs[:, :, 0] = 1 - second
    after = (c0 * x).add_(p, alpha=c1).add_(previous, alpha=c2)
    if c3:
        after.add_(torch.randn(B, D) if noise is None else noise, alpha=c3)
    clean = states == CLEAN
    clean = torch.cat([clean[:, :C], clean[:, C:, None].expand(B, K, 2).reshape(B, 2 * K)], 1)
    return torch.where(clean, x, after), p


def decode(x: Tensor, boundaries: Tensor, C: int) -> tuple[Tensor, Tensor]:
    """Like the op, but with every column's boundaries filled up with infinity to one length, ``[C, longest]``."""
    B = x.shape[0]
    places = torch.searchsorted(boundaries, x[:, :C].T.contiguous(), right=True, out_int32=True).T.contiguous()
    pairs = x[:, C:].view(B, -1, 2)
    return places, (pairs[:, :, 1] > pairs[:, :, 0]).to(torch.int16)
