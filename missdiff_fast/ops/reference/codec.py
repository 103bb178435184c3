"""Encoding and decoding of columns in plain PyTorch."""

from __future__ import annotations

import math
from itertools import pairwise

import torch
from torch import Tensor


def encode(
    cells: Tensor, keys: Tensor, ends: Tensor, boundaries: Tensor, count: int, share: Tensor | None = None
) -> Tensor:
    """The normal scores of a continuous column's cells: normal quantiles of their ranks among the observed cells.

    Parameters
    ----------
    cells : Tensor
        float32, float64 or int64 ``[N]``, none of them NaN.
    keys : Tensor
        Distinct values that decoding can return, strictly ascending, cells' dtype ``[V]``.
    ends : Tensor
        Start of each key's interval of ranks, as a fraction of all ranks, and 1 at the end: float64 ``[V + 1]``.
    boundaries : Tensor
        Scores that separate neighbouring keys, strictly ascending, float32 ``[V - 1]``.
    count : int
        Number of observed cells; ranks are clamped to half a cell's distance from 0 and 1.
    share : Tensor, optional
        Position of each cell in its key's interval, from 0 up to 1, float64 ``[N]``; the middle by default. A cell that
        is no key gets the rank between its neighbours' intervals.

    Returns
    -------
    Tensor
        float32 ``[N]``; a key's score lies between its boundaries, so that `decode` returns the key.

    Examples
    --------
    >>> keys, ends = torch.tensor([1.0, 2.0, 5.0]), torch.tensor([0.0, 0.25, 0.75, 1.0], dtype=torch.float64)
    >>> encode(torch.tensor([2.0, 5.0, 3.0]), keys, ends, torch.tensor([-0.6745, 0.6745]), 4)
    tensor([0.0000, 1.1503, 0.6745])
    """
    place = torch.searchsorted(keys.contiguous(), cells.contiguous())
    key = place.clamp(max=len(keys) - 1)
    known = keys[key] == cells
    width = torch.where(known, ends[key + 1] - ends[key], 0.0)
    u = ends[place] + width * (0.5 if share is None else share)
    scores = torch.special.ndtri(u.clamp(0.5 / count, 1 - 0.5 / count)).to(torch.float32)
    # Rounding to float32 must not move a key across its boundary.
    infinity = boundaries.new_full((1,), math.inf)
    low = torch.cat([-infinity, boundaries])[key]
    high = torch.cat([torch.nextafter(boundaries, -infinity), infinity])[key]
    return torch.where(known, torch.minimum(torch.maximum(scores, low), high), scores)


def decode(x: Tensor, offsets: Tensor, boundaries: Tensor, starts: Tensor) -> tuple[Tensor, Tensor]:
    """Bins of scores among their column's boundaries, and codes of one-hot groups.

    Parameters
    ----------
    x : Tensor
        ``[B, D]``, float32 or float64.
    offsets : Tensor
        `Layout.offsets`, int64 ``[K + 1]``.
    boundaries : Tensor
        Ascending boundaries of the scores, one continuous column after another, x's dtype ``[M]``.
    starts : Tensor
        Start of each column's boundaries, and M at the end: int64 ``[C + 1]``.

    Returns
    -------
    bin_index : Tensor
        For each continuous cell, the number of its column's boundaries that are at most x, all for a NaN: int32
        ``[B, C]``.
    codes : Tensor
        For each group, the first of its largest entries; for a group with a NaN its number of categories, which is no
        code: int16 ``[B, K]``.

    Examples
    --------
    >>> x = torch.tensor([[0.3, 0.1, 0.9], [-2.0, 0.5, 0.2]])
    >>> bin_index, codes = decode(x, torch.tensor([1, 3]), torch.tensor([-1.0, 0.0]), torch.tensor([0, 2]))
    >>> bin_index.tolist(), codes.tolist()
    ([[2], [0]], [[1], [0]])
    """
    groups, first = offsets.tolist(), starts.tolist()
    bin_index = torch.zeros((x.shape[0], groups[0]), dtype=torch.int32, device=x.device)
    for c, (a, b) in enumerate(pairwise(first)):
        bin_index[:, c] = torch.searchsorted(boundaries[a:b], x[:, c].contiguous(), right=True)
    codes = torch.zeros((x.shape[0], len(groups) - 1), dtype=torch.int16, device=x.device)
    for k, (a, b) in enumerate(pairwise(groups)):
        group = x[:, a:b]
        index = torch.arange(b - a, device=x.device).expand(group.shape)
        codes[:, k] = torch.where(group == group.amax(1, keepdim=True), index, b - a).amin(1)
    return bin_index, codes
