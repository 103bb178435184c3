"""Random numbers in plain PyTorch: Philox4x32-10, uniform and normal."""

from __future__ import annotations

import math

import torch
from torch import Tensor

_WORD = 0xFFFFFFFF


def make_key(seed: int, step: int, device: torch.device | str | None = None) -> Tensor:
    """The key of random numbers, int64 ``[2]``: a seed of 64 bits and a step of 32 bits.

    Examples
    --------
    >>> make_key(7, 3), make_key(2**64 - 1, 0)
    (tensor([7, 3]), tensor([-1,  0]))
    """
    seed &= 0xFFFFFFFFFFFFFFFF
    return torch.tensor([seed - (1 << 64) if seed >> 63 else seed, step], dtype=torch.int64, device=device)


def philox_words(c0: Tensor, c1: Tensor, c2: Tensor, c3: Tensor, k0: Tensor, k1: Tensor) -> tuple[Tensor, ...]:
    """Philox4x32-10: four counter words and two key words to four random words, all int64 in [0, 2^32).

    Examples
    --------
    >>> zero = torch.zeros(1, dtype=torch.int64)
    >>> [hex(int(word)) for word in philox_words(zero, zero, zero, zero, zero, zero)]  # as in the authors' test vectors
    ['0x6627e8d5', '0xe169c58d', '0xbc57ac4c', '0x9b00dbd8']
    """
    for _ in range(10):
        p0, p1 = c0 * 0xD2511F53, c2 * 0xCD9E8D57  # int64 wraps around; the 64 bits are those of the unsigned product
        c0, c1, c2, c3 = ((p1 >> 32) & _WORD) ^ c1 ^ k0, p1 & _WORD, ((p0 >> 32) & _WORD) ^ c3 ^ k1, p0 & _WORD
        k0, k1 = (k0 + 0x9E3779B9) & _WORD, (k1 + 0xBB67AE85) & _WORD
    return c0, c1, c2, c3


def philox(rows: Tensor, columns: int, key: Tensor) -> Tensor:
    """Philox4x32-10 word of each row and column: int64 in [0, 2^32), ``[B, columns]``.

    Examples
    --------
    >>> philox(torch.arange(2), 2, make_key(0, 0))
    tensor([[1713891541, 3781805453],
            [4175744164, 1555169499]])
    """
    blocks = (columns + 3) // 4
    shape = (rows.shape[0], blocks)
    c0 = (rows & _WORD)[:, None].expand(shape)
    c1 = ((rows >> 32) & _WORD)[:, None].expand(shape)
    c2 = torch.arange(blocks, device=rows.device).expand(shape)
    c3 = (key[1] & _WORD).expand(shape)
    words = philox_words(c0, c1, c2, c3, key[0] & _WORD, (key[0] >> 32) & _WORD)
    return torch.stack(words, 2).reshape(shape[0], 4 * blocks)[:, :columns]


def _open_unit(words: Tensor) -> Tensor:
    """(2k + 1) / 2^24 for the upper 23 bits k of each word: exact in float32 and never 0 or 1."""
    return ((words >> 9) * 2 + 1).to(torch.float32) * (1.0 / 16777216.0)


def _log(u: Tensor) -> Tensor:
    """Natural logarithm of float32 in (0, 1), as FreeBSD's logf computes it."""
    bits = u.view(torch.int32) + (0x3F800000 - 0x3F3504F3)
    exponent = ((bits >> 23) - 0x7F).to(torch.float32)
    f = ((bits & 0x007FFFFF) + 0x3F3504F3).view(torch.float32) - 1.0
    s = f / (2.0 + f)
    z = s * s
    w = z * z
    r = z * (0.66666662693 + w * 0.28498786688) + w * (0.40000972152 + w * 0.24279078841)
    half = 0.5 * f * f
    return s * (half + r) + exponent * 9.0580006145e-06 - half + f + exponent * 6.9313812256e-01


def _cos_sin_turn(u: Tensor) -> tuple[Tensor, Tensor]:
    """Cosine and sine of ``2 pi u`` for float32 u in (0, 1), by quadrant and Cephes' polynomials."""
    t = u * 4.0
    quadrant = (t + 0.5).to(torch.int32)
    y = (t - quadrant.to(torch.float32)) * (math.pi / 2)
    z = y * y
    sine = y + y * z * (-1.6666654611e-1 + z * (8.3321608736e-3 + z * -1.9515295891e-4))
    cosine = 1.0 - 0.5 * z + z * z * (4.166664568298827e-2 + z * (-1.388731625493765e-3 + z * 2.443315711809948e-5))
    odd = (quadrant & 1) == 1
    c, s = torch.where(odd, sine, cosine), torch.where(odd, cosine, sine)
    return torch.where(((quadrant + 1) & 2) == 2, -c, c), torch.where((quadrant & 2) == 2, -s, s)


def uniform(rows: Tensor, columns: int, key: Tensor) -> Tensor:
    """Uniform numbers in (0, 1), each a function of key, row and column alone.

    Parameters
    ----------
    rows : Tensor
        Global row numbers, int64 ``[B]``.
    columns : int
        Numbers in a row.
    key : Tensor
        From `make_key`, int64 ``[2]``.

    Returns
    -------
    Tensor
        float32 ``[B, columns]``.

    Examples
    --------
    >>> uniform(torch.arange(2), 3, make_key(0, 0))
    tensor([[0.3990, 0.8805, 0.7357],
            [0.9722, 0.3621, 0.6939]])
    """
    return _open_unit(philox(rows, columns, key))


def normal(rows: Tensor, columns: int, key: Tensor) -> Tensor:
    """Standard normal numbers by Box-Muller; arguments and result as in `uniform`.

    Words 0 and 1 of Philox block b give columns 4b (cosine) and 4b + 1 (sine), words 2 and 3 the next two columns.

    Examples
    --------
    >>> normal(torch.arange(2), 3, make_key(0, 0))
    tensor([[ 0.9911, -0.9247, -0.6176],
            [-0.1536,  0.1808,  0.8317]])
    """
    pairs = (columns + 3) // 4 * 2
    u = _open_unit(philox(rows, 2 * pairs, key)).reshape(rows.shape[0], pairs, 2)
    # MKL's float32 square root is not correctly rounded; computed in float64 and then rounded it is.
    radius = torch.sqrt((-2.0 * _log(u[..., 0].contiguous())).double()).float()
    cosine, sine = _cos_sin_turn(u[..., 1].contiguous())
    return torch.stack([radius * cosine, radius * sine], 2).reshape(rows.shape[0], 2 * pairs)[:, :columns]
