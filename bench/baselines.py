"""The ops as one would write them in PyTorch for this table: 27 continuous columns and 46 of two categories.

They are the kernels' rivals, eager and through torch.compile. They use what the general ops cannot: groups are pairs,
so one-hot columns are a reshape, a softmax is a sigmoid of a difference and a cross entropy a softplus. Noise is
`torch.randn`'s unless it is given, for comparison with the reference.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from missdiff_fast.diffusion.states import CLEAN, NOISY

# Beyond this number of shapes a compiled function would run eagerly without a warning.
torch._dynamo.config.recompile_limit = 32
torch._dynamo.config.fail_on_recompile_limit_hit = True


@cache
def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function through torch.compile, anew for every shape.

    On a CPU with PyTorch's own generator, as Inductor's is several times slower there; on a GPU Inductor's is part of
    the kernel that it makes.
    """
    options = {} if torch.cuda.is_available() else {"fallback_random": True}
    return torch.compile(function, dynamic=False, options=options)


def rival(implementation: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """A function as a rival calls it: compiled for "compile", else as it is."""
    return compiled(function) if implementation == "compile" else function


def encode(continuous: Tensor, codes: Tensor) -> Tensor:
    """Clean encoded rows, 0 where a cell is missing."""
    B, C, K = codes.shape[0], continuous.shape[1], codes.shape[1]
    x0 = continuous.new_empty(B, C + 2 * K)
    x0[:, :C] = continuous.nan_to_num(nan=0.0, posinf=math.inf, neginf=-math.inf)
    x0[:, C:].view(B, K, 2).copy_(codes[:, :, None] == torch.arange(2, dtype=codes.dtype, device=codes.device))
    return x0


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
    x0 = encode(continuous.index_select(0, rows), codes.index_select(0, rows))
    noisy = torch.randn(B, C + 2 * K, device=rows.device) if noise is None else noise.clone()
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
    prediction, seen, known = prediction.float(), ~torch.isnan(x0), code >= 0
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
    noise = torch.randn(B, C + 2 * K, device=rows.device) if noise is None else noise
    active = states == NOISY
    first = active[:, :C] & ~torch.isnan(continuous.index_select(0, rows))
    second = active[:, C:] & (codes.index_select(0, rows) >= 0)
    mask = torch.cat([first, second[:, :, None].expand(B, K, 2).reshape(B, 2 * K)], 1)
    d = torch.where(mask, prediction.float() - noise, 0.0)
    return (d * d).sum() / mask.sum().clamp(min=1)


def step(
    x: Tensor,
    prediction: Tensor,
    previous: Tensor,
    states: Tensor,
    coefficients: Sequence[float] | Tensor,
    noise: Tensor | None = None,
    *,
    noisy: bool = False,
) -> tuple[Tensor, Tensor]:
    """Like the op; with coefficients as numbers, or in a tensor where it is compiled: once for all of them."""
    B, D = x.shape
    C, K = 2 * states.shape[1] - D, D - states.shape[1]
    c0, c1, c2, c3 = coefficients
    prediction = prediction.float()
    p = torch.empty_like(x)
    p[:, :C] = prediction[:, :C]
    logits, pairs = prediction[:, C:D].view(B, K, 2), p[:, C:].view(B, K, 2)
    second = torch.sigmoid(logits[:, :, 1] - logits[:, :, 0])
    pairs[:, :, 1] = second
    pairs[:, :, 0] = 1 - second
    parts = [(p, c1), (previous, c2)]
    if noisy:
        parts.append((torch.randn(B, D, device=x.device) if noise is None else noise, c3))
    after = c0 * x
    for part, c in parts:
        after = after + c * part if isinstance(c, Tensor) else after.add_(part, alpha=c)
    clean = states == CLEAN
    clean = torch.cat([clean[:, :C], clean[:, C:, None].expand(B, K, 2).reshape(B, 2 * K)], 1)
    return torch.where(clean, x, after), p


def filled(boundaries: Tensor, starts: Tensor) -> Tensor:
    """Every column's boundaries with infinity after them, ``[C, longest]``."""
    columns = [boundaries[a:b] for a, b in pairwise(starts.tolist())]
    if not columns:
        return boundaries.new_empty(0, 0)
    return torch.nn.utils.rnn.pad_sequence(columns, batch_first=True, padding_value=math.inf)


def decode(x: Tensor, boundaries: Tensor, C: int) -> tuple[Tensor, Tensor]:
    """Like the op, but with the boundaries as `filled` has them."""
    B = x.shape[0]
    bin_index = torch.searchsorted(boundaries, x[:, :C].T.contiguous(), right=True, out_int32=True).T.contiguous()
    pairs = x[:, C:].view(B, -1, 2)
    return bin_index, (pairs[:, :, 1] > pairs[:, :, 0]).to(torch.int16)
