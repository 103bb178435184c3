"""Every op in plain PyTorch: the specification that the kernels are tested against.

The functions have the names and signatures of those in `missdiff_fast.ops` and run on any device. N rows are stored, B
of them are in a batch; widths C, K, J, D are those of `missdiff_fast.table.Layout`.

Random numbers are Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011) with counter
``(row low, row high, column // 4, step)`` and key ``(seed low, seed high)``; the column's last two bits choose one of
the four words. Floating-point work on them is float32 with every operation rounded once and no fused multiply-add, so
that any conforming processor gives the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from missdiff_fast.table.encoded import EncodedTable

if TYPE_CHECKING:
    from missdiff_fast.networks.packing import TrainingState

# State of one column in one row of a batch.
HIDDEN = 0  # the network sees nothing
NOISY = 1  # the network sees alpha x0 + sigma eps
CLEAN = 2  # the network sees x0

_WORD = 0xFFFFFFFF


def make_key(seed: int, step: int, device: torch.device | str | None = None) -> Tensor:
    """The key of the random numbers, int64 ``[2]``: a seed of 64 bits and a step of 32 bits.

    Examples
    --------
    >>> make_key(7, 3), make_key(2**64 - 1, 0)
    (tensor([7, 3]), tensor([-1,  0]))
    """
    seed &= 0xFFFFFFFFFFFFFFFF
    return torch.tensor([seed - (1 << 64) if seed >> 63 else seed, step], dtype=torch.int64, device=device)


def philox_words(c0: Tensor, c1: Tensor, c2: Tensor, c3: Tensor, k0: Tensor, k1: Tensor) -> tuple[Tensor, ...]:
    """Philox4x32-10 itself: four counter words and two key words, int64 in [0, 2^32), to four words like them.

    Examples
    --------
    >>> zero = torch.zeros(1, dtype=torch.int64)
    >>> [hex(int(word)) for word in philox_words(zero, zero, zero, zero, zero, zero)]  # as its authors give them
    ['0x6627e8d5', '0xe169c58d', '0xbc57ac4c', '0x9b00dbd8']
    """
    for _ in range(10):
        p0, p1 = c0 * 0xD2511F53, c2 * 0xCD9E8D57  # int64 wraps; the 64 bits are right all the same
        c0, c1, c2, c3 = ((p1 >> 32) & _WORD) ^ c1 ^ k0, p1 & _WORD, ((p0 >> 32) & _WORD) ^ c3 ^ k1, p0 & _WORD
        k0, k1 = (k0 + 0x9E3779B9) & _WORD, (k1 + 0xBB67AE85) & _WORD
    return c0, c1, c2, c3


def philox(rows: Tensor, columns: int, key: Tensor) -> Tensor:
    """Philox4x32-10 words for each row and column: int64 in [0, 2^32), ``[B, columns]``.

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
    """The upper 23 bits of each word as (2k + 1) / 2^24, exact in float32 and never 0 or 1."""
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
    """Uniform numbers in (0, 1), float32 ``[B, columns]``, a function of (key, row, column) alone.

    Parameters
    ----------
    rows : Tensor
        Global row numbers, int64 ``[B]``.
    columns : int
        How many numbers a row gets.
    key : Tensor
        From `make_key`, int64 ``[2]``.

    Examples
    --------
    >>> uniform(torch.arange(2), 3, make_key(0, 0))
    tensor([[0.3990, 0.8805, 0.7357],
            [0.9722, 0.3621, 0.6939]])
    """
    return _open_unit(philox(rows, columns, key))


def normal(rows: Tensor, columns: int, key: Tensor) -> Tensor:
    """Standard normal numbers by Box-Muller, float32 ``[B, columns]``; arguments as in `uniform`.

    Words 0 and 1 of a Philox block give columns 4b (cosine) and 4b + 1 (sine), words 2 and 3 the two columns after.

    Examples
    --------
    >>> normal(torch.arange(2), 3, make_key(0, 0))
    tensor([[ 0.9911, -0.9247, -0.6176],
            [-0.1536,  0.1808,  0.8317]])
    """
    pairs = (columns + 3) // 4 * 2
    u = _open_unit(philox(rows, 2 * pairs, key)).reshape(rows.shape[0], pairs, 2)
    # MKL's float32 square root is not correctly rounded; through float64 the rounding is always right.
    radius = torch.sqrt((-2.0 * _log(u[..., 0].contiguous())).double()).float()
    cosine, sine = _cos_sin_turn(u[..., 1].contiguous())
    return torch.stack([radius * cosine, radius * sine], 2).reshape(rows.shape[0], 2 * pairs)[:, :columns]


def _one_hot(table: EncodedTable, rows: Tensor, low: float, high: float) -> Tensor:
    """Encoded clean rows ``[B, D]``; 0 where missing."""
    cells, codes = table.continuous[rows], table.codes[rows].long()
    x0 = [torch.where(cells.isnan(), 0.0, cells)]
    # In the table's type: torch.where would make float32 of numbers.
    off, on, zero = (torch.full((), level, dtype=cells.dtype, device=cells.device) for level in (low, high, 0.0))
    for k, size in enumerate(table.layout.cardinalities):
        code = codes[:, k : k + 1]
        hot = torch.where(code == torch.arange(size, device=codes.device), on, off)
        x0.append(torch.where(code >= 0, hot, zero))
    return torch.cat(x0, 1)


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
    dtype: torch.dtype | None = None,
) -> Tensor:
    """Gather rows, expand one-hot groups, and hide, noise or keep each column: ``x_t``, ``[B, D]``.

    A noisy cell becomes ``alpha x0 + sigma eps``, a clean one ``x0``, a hidden one 0; x0 of a missing cell is 0. Noise
    is ``normal(rows, D, key)``.

    Parameters
    ----------
    table : EncodedTable
        The clean table.
    rows : Tensor
        Which rows, int64 ``[B]``; also the row numbers of the noise.
    states : Tensor
        HIDDEN, NOISY or CLEAN for each column of each row, uint8 ``[B, J]``.
    alpha, sigma : Tensor
        Per-row coefficients, ``[B]``, of the table's dtype.
    key : Tensor
        From `make_key`.
    low, high : float
        What one-hot columns hold off and on.
    dtype : torch.dtype, optional
        Of the result: the table's own (default), or a 16-bit one, to which the result is rounded.

    Examples
    --------
    >>> from missdiff_fast.table.encoded import Layout
    >>> cells, codes = torch.tensor([[0.5], [2.0]]), torch.tensor([[1], [-1]], dtype=torch.int16)
    >>> table, one = EncodedTable(cells, codes, Layout(1, (2,))), torch.ones(2)
    >>> states = torch.tensor([[CLEAN, CLEAN], [HIDDEN, CLEAN]], dtype=torch.uint8)
    >>> perturb(table, torch.arange(2), states, one, one, make_key(0, 0))
    tensor([[0.5000, 0.0000, 1.0000],
            [0.0000, 0.0000, 0.0000]])
    """
    x0 = _one_hot(table, rows, low, high)
    state = states[:, table.layout.groups(table.device)]
    eps = normal(rows, x0.shape[1], key).to(x0.dtype)
    noisy = state == NOISY
    # Cells without noise are replaced before the maths: an infinite one would be a NaN in alpha's gradient.
    mixed = alpha[:, None] * torch.where(noisy, x0, 0.0) + sigma[:, None] * eps
    x = torch.where(noisy, mixed, torch.where(state == CLEAN, x0, 0.0))
    return x.to(dtype or x.dtype)


def masked_loss(
    prediction: Tensor,
    table: EncodedTable,
    rows: Tensor,
    states: Tensor,
    weight: Tensor,
    *,
    mean_weight: float = 0.3,
    column_weight: Tensor | None = None,
) -> Tensor:
    """Loss of a prediction of x0 over observed cells that are not clean, by the number of observed cells: a scalar.

    For continuous cells ``w (x0_hat - x0)^2 + mean_weight (mean - value)^2``, where w is the row's weight if the column
    is noisy and 1 if it is hidden; for categorical cells the cross entropy of the group's logits; all of it times the
    column's weight. 0 if nothing is observed.

    Parameters
    ----------
    prediction : Tensor
        ``[B, D + C]``: x0_hat of the continuous columns, logits, and conditional means of the standardised raw values.
    table : EncodedTable
        The table, with ``values``; its missing cells never enter.
    rows, states : Tensor
        As in `perturb`.
    weight : Tensor
        Per-row weight of a noisy continuous cell, ``[B]``.
    mean_weight : float
        Weight of the conditional mean.
    column_weight : Tensor, optional
        Weight of each table column's loss, ``[J]``, of ``weight``'s dtype: ones by default. The divisor stays the
        number of observed cells. A column of weight 0 does not enter, as if it were clean.

    Examples
    --------
    >>> from missdiff_fast.table.encoded import Layout
    >>> cells, codes = torch.tensor([[0.5], [torch.nan]]), torch.tensor([[1], [-1]], dtype=torch.int16)
    >>> table = EncodedTable(cells, codes, Layout(1, (2,)), cells)
    >>> noisy = torch.full((2, 2), NOISY, dtype=torch.uint8)
    >>> masked_loss(torch.zeros(2, 4), table, torch.arange(2), noisy, torch.ones(2))
    tensor(0.5091)
    >>> round((0.5**2 + 0.3 * 0.5**2 + math.log(2)) / 2, 4)  # the first row's two cells; the second has none
    0.5091
    """
    if table.values is None:
        raise ValueError("masked_loss needs table.values, the standardised raw values")
    layout, dtype = table.layout, _wide(prediction.dtype)
    C, D = layout.num_continuous, layout.width
    x0, codes, values = table.continuous[rows], table.codes[rows].long(), table.values[rows]
    seen = ~torch.isnan(x0)
    observed = torch.cat([seen, codes >= 0], 1)
    active = observed & (states != CLEAN)
    if column_weight is None:
        column_weight = weight.new_ones(layout.num_columns)
    active &= column_weight != 0
    # Cells that do not enter are replaced before the maths: 0 times the NaN of a missing cell would be a NaN gradient.
    used = torch.cat([active[:, layout.groups(table.device)], active[:, :C]], 1)
    prediction = torch.where(used, prediction.to(dtype), 0.0)
    x0, values = torch.where(seen, x0, 0.0), torch.where(seen, values, 0.0)
    w = torch.where(states[:, :C] == NOISY, weight[:, None], 1.0)
    squared = w * (prediction[:, :C] - x0) ** 2 + mean_weight * (prediction[:, D:] - values) ** 2
    total = (column_weight[:C] * torch.where(active[:, :C], squared, 0.0)).sum()
    logits = prediction[:, C:D].split(layout.cardinalities, 1) if layout.cardinalities else ()
    for k, group in enumerate(logits):
        entropy = torch.logsumexp(group, 1) - group.gather(1, codes[:, k : k + 1].clamp(min=0))[:, 0]
        total = total + column_weight[C + k] * torch.where(active[:, C + k], entropy, 0.0).sum()
    return total / observed.sum().clamp(min=1)


def masked_noise_loss(prediction: Tensor, table: EncodedTable, rows: Tensor, states: Tensor, key: Tensor) -> Tensor:
    """Squared error of a prediction of eps over observed noisy encoded cells, by their number: a scalar.

    The paper's objective (Algorithm 1). eps is drawn again from the key of `perturb`, not stored.

    Parameters
    ----------
    prediction : Tensor
        eps_hat, ``[B, D]``.
    table, rows, states, key
        As in `perturb`.

    Examples
    --------
    >>> from missdiff_fast.table.encoded import Layout
    >>> table = EncodedTable(torch.zeros(2, 3), torch.zeros(2, 0, dtype=torch.int16), Layout(3))
    >>> rows, noisy, key = torch.arange(2), torch.full((2, 3), NOISY, dtype=torch.uint8), make_key(0, 0)
    >>> masked_noise_loss(normal(rows, 3, key), table, rows, noisy, key)
    tensor(0.)
    """
    groups = table.layout.groups(table.device)
    observed = torch.cat([~torch.isnan(table.continuous[rows]), table.codes[rows] >= 0], 1)
    active = (observed & (states == NOISY))[:, groups]
    prediction = prediction.to(_wide(prediction.dtype))
    eps = normal(rows, prediction.shape[1], key).to(prediction.dtype)
    residual = torch.where(active, prediction, eps) - eps  # an unused NaN must not reach the gradient as 0 times NaN
    return (residual**2).sum() / active.sum().clamp(min=1)


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

    p is the prediction, after a softmax over each one-hot group if asked. This one form holds the paper's Algorithm 2,
    DDIM, DPM-Solver++(2M) (Lu et al., 2022) and SDE solvers.

    Parameters
    ----------
    x : Tensor
        ``[B, D]``, float32 or float64.
    prediction : Tensor
        ``[B, D]`` (or wider: the rest is ignored), x's dtype or a 16-bit one.
    previous : Tensor, optional
        p of the last step, ``[B, D]``; needed where c2 is not 0.
    states : Tensor
        uint8 ``[B, J]``.
    offsets : Tensor
        `Layout.offsets`, int64 ``[K + 1]``.
    coefficients : Tensor
        (c0, c1, c2, c3), ``[4]``, x's dtype.
    rows, key : Tensor
        Of the noise ``normal(rows, D, key)``, drawn only where c3 is not 0.
    softmax : bool
        Whether one-hot groups of the prediction are logits.

    Returns
    -------
    next, p : Tensor
        Both ``[B, D]``; p is the next call's ``previous``.

    Examples
    --------
    >>> x, states, offsets = torch.zeros(1, 3), torch.tensor([[NOISY, NOISY]], dtype=torch.uint8), torch.tensor([1, 3])
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


def encode(
    cells: Tensor, keys: Tensor, ends: Tensor, boundaries: Tensor, count: int, share: Tensor | None = None
) -> Tensor:
    """The normal scores of a continuous column's cells, by their ranks among the observed ones.

    Parameters
    ----------
    cells : Tensor
        float32, float64 or int64 ``[N]``, none of them NaN.
    keys : Tensor
        The distinct values that the column can come back with, strictly ascending, cells' dtype ``[V]``.
    ends : Tensor
        Where the interval of ranks of each key begins, as a share of all, and 1 at the end: float64 ``[V + 1]``.
    boundaries : Tensor
        The scores between the keys, strictly ascending, float32 ``[V - 1]``.
    count : int
        How many cells were observed in all: ranks keep half a cell's distance from 0 and 1.
    share : Tensor, optional
        Where in its key's interval each cell is put, from 0 up to 1, float64 ``[N]``; in the middle by default. A cell
        that is no key is put between its neighbours' intervals.

    Returns
    -------
    Tensor
        float32 ``[N]``; a key's score lies between the key's boundaries, so that `decode` leads back to it.

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
    # Rounding to float32 must not carry a key over its boundary.
    infinity = boundaries.new_full((1,), math.inf)
    low = torch.cat([-infinity, boundaries])[key]
    high = torch.cat([torch.nextafter(boundaries, -infinity), infinity])[key]
    return torch.where(known, torch.minimum(torch.maximum(scores, low), high), scores)


def decode(x: Tensor, offsets: Tensor, boundaries: Tensor, starts: Tensor) -> tuple[Tensor, Tensor]:
    """Scores to places in each column's value table, and one-hot groups to codes.

    Parameters
    ----------
    x : Tensor
        ``[B, D]``, float32 or float64.
    offsets : Tensor
        `Layout.offsets`, int64 ``[K + 1]``.
    boundaries : Tensor
        The ascending score boundaries of all continuous columns, one column after another, x's dtype ``[M]``.
    starts : Tensor
        Where each column's boundaries begin, and M at the end: int64 ``[C + 1]``.

    Returns
    -------
    places : Tensor
        For each continuous cell, the number of its column's boundaries that are at most x: int32 ``[B, C]``.
    codes : Tensor
        For each group, the first of the largest entries: int16 ``[B, K]``.

    Examples
    --------
    >>> x = torch.tensor([[0.3, 0.1, 0.9], [-2.0, 0.5, 0.2]])
    >>> places, codes = decode(x, torch.tensor([1, 3]), torch.tensor([-1.0, 0.0]), torch.tensor([0, 2]))
    >>> places.tolist(), codes.tolist()
    ([[2], [0]], [[1], [0]])
    """
    groups, first = offsets.tolist(), starts.tolist()
    places = torch.zeros((x.shape[0], groups[0]), dtype=torch.int32, device=x.device)
    for c, (a, b) in enumerate(pairwise(first)):
        places[:, c] = torch.searchsorted(boundaries[a:b], x[:, c].contiguous(), right=True)
    codes = torch.zeros((x.shape[0], len(groups) - 1), dtype=torch.int16, device=x.device)
    for k, (a, b) in enumerate(pairwise(groups)):
        group = x[:, a:b]
        index = torch.arange(b - a, device=x.device).expand(group.shape)
        codes[:, k] = torch.where(group == group.amax(1, keepdim=True), index, b - a).amin(1)
    return places, codes


def _wide(dtype: torch.dtype) -> torch.dtype:
    """The type in which a loss is accumulated: at least float32."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def mlp_predict(network: nn.Module, x: Tensor, states: Tensor, level: Tensor) -> Tensor:
    """What a network predicts of rows at one noise level: ``[B, D + C]``.

    Parameters
    ----------
    network : nn.Module
        A `missdiff_fast.networks.Denoiser`, or whatever is called like one.
    x : Tensor
        ``[B, D]``.
    states : Tensor
        uint8 ``[B, J]``.
    level : Tensor
        sigma, ``[1]``.

    Examples
    --------
    >>> network = lambda x, sigma, states: x / (sigma**2 + 1)
    >>> mlp_predict(network, torch.ones(1, 2), torch.ones(1, 2, dtype=torch.uint8), torch.ones(1))
    tensor([[0.5000, 0.5000]])
    """
    prediction: Tensor = network(x, level, states)
    return prediction


def mlp_sample(
    network: nn.Module,
    x: Tensor,
    states: Tensor,
    offsets: Tensor,
    levels: Tensor,
    coefficients: Tensor,
    rows: Tensor,
    keys: Tensor,
    *,
    step: Callable[..., tuple[Tensor, Tensor]] = step,
) -> Tensor:
    """All steps of a solver: at each level the network's prediction, then `step` with it and the one before.

    Parameters
    ----------
    network : nn.Module
        As in `mlp_predict`.
    x : Tensor
        Where the solver starts: noisy columns at the first level, ``[B, D]``.
    states : Tensor
        uint8 ``[B, J]``.
    offsets : Tensor
        Of the one-hot groups, int64 ``[K + 1]``.
    levels : Tensor
        sigma of each step, ``[steps]``.
    coefficients : Tensor
        Those of each `step`, ``[steps, 4]``; the first step has no prediction before it.
    rows : Tensor
        Global row numbers, int64 ``[B]``.
    keys : Tensor
        Of each step's noise, int64 ``[steps, 2]``.
    step : callable
        `step`, or the compiled one.

    Returns
    -------
    Tensor
        ``[B, D]``.

    Examples
    --------
    >>> network = lambda x, sigma, states: x / (sigma[:, None] ** 2 + 1)
    >>> last = torch.tensor([[0.0, 1.0, 0.0, 0.0]])  # the prediction itself
    >>> noisy, keys = torch.ones(1, 2, dtype=torch.uint8), make_key(0, 0)[None]
    >>> mlp_sample(network, torch.ones(1, 2), noisy, torch.tensor([2]), torch.ones(1), last, torch.arange(1), keys)
    tensor([[0.5000, 0.5000]])
    """
    previous = None
    for i in range(len(levels)):
        prediction = mlp_predict(network, x, states, levels[i : i + 1])
        x, previous = step(x, prediction, previous, states, offsets, coefficients[i], rows, keys[i])
    return x


def mlp_train_step(
    state: TrainingState,
    table: EncodedTable,
    rows: Tensor,
    states: Tensor,
    judged: Tensor,
    sigma: Tensor,
    weight: Tensor,
    key: Tensor,
    *,
    learning_rate: float,
    decay: float,
    mean_weight: float = 0.3,
    column_weight: Tensor | None = None,
) -> Tensor:
    """One training step: `perturb`, network, `masked_loss`, gradients, AdamW without weight decay, average of weights.

    Parameters
    ----------
    state : TrainingState
        Taken one step further.
    table, rows, states
        As in `perturb`, which takes alpha for 1.
    judged : Tensor
        The states by which the loss is taken, uint8 ``[B, J]``: columns marked as clean have none.
    sigma, weight : Tensor
        Noise level and weight of each row, ``[B]``, as in `perturb` and `masked_loss`.
    key : Tensor
        Of the noise, int64 ``[2]``.
    learning_rate : float
        Of this step. AdamW's betas are 0.9 and 0.999, its epsilon 1e-8.
    decay : float
        By which the average of the weights forgets.
    mean_weight, column_weight
        As in `masked_loss`.

    Returns
    -------
    Tensor
        The loss before the step, a scalar.

    References
    ----------
    Loshchilov and Hutter (2019), Decoupled Weight Decay Regularization.

    Examples
    --------
    >>> from missdiff_fast.networks import Denoiser
    >>> from missdiff_fast.networks.packing import TrainingState
    >>> from missdiff_fast.table.encoded import Layout
    >>> cells, codes = torch.tensor([[0.5], [torch.nan]]), torch.tensor([[1], [-1]], dtype=torch.int16)
    >>> table = EncodedTable(cells, codes, Layout(1, (2,)), cells)
    >>> state = TrainingState.of(Denoiser(table.layout, width=8, blocks=1))
    >>> noisy, one = torch.ones(2, 2, dtype=torch.uint8), torch.ones(2)
    >>> mlp_train_step(
    ...     state, table, torch.arange(2), noisy, noisy, one, one, make_key(0, 0), learning_rate=0.1, decay=0.9
    ... ).shape
    torch.Size([])
    """
    x = perturb(table, rows, states, torch.ones_like(sigma), sigma, key)
    with torch.enable_grad():
        weights = state.current()
        prediction = torch.func.functional_call(state.network, weights, (x, sigma, states))
        loss = masked_loss(
            prediction, table, rows, judged, weight, mean_weight=mean_weight, column_weight=column_weight
        )
        gradients = torch.autograd.grad(loss, list(weights.values()), materialize_grads=True)
    state.steps += 1
    schedule = torch.tensor([learning_rate, state.steps, decay], dtype=torch.float64)
    adamw(*state.flat(), state.lay_out(gradients), schedule)
    return loss.detach()


def adamw(weights: Tensor, mean: Tensor, square: Tensor, average: Tensor, gradient: Tensor, schedule: Tensor) -> None:
    """One step of AdamW without weight decay, and of the moving average of the weights, in place.

    AdamW's betas are 0.9 and 0.999, its epsilon 1e-8.

    Parameters
    ----------
    weights, mean, square, average : Tensor
        ``[P]``: the weights, the moving averages of the gradient and of its square, and that of the weights.
    gradient : Tensor
        ``[P]``.
    schedule : Tensor
        Learning rate, number of this step from 1, and how much of itself the average of the weights keeps: float64
        ``[3]``.

    References
    ----------
    Loshchilov and Hutter (2019), Decoupled Weight Decay Regularization.

    Examples
    --------
    >>> weights, mean, square, average = torch.zeros(4, 3).unbind()
    >>> adamw(weights, mean, square, average, torch.tensor([2.0, -1.0, 0.0]), torch.tensor([0.1, 1.0, 0.5]).double())
    >>> weights, average
    (tensor([-0.1000,  0.1000,  0.0000]), tensor([-0.0500,  0.0500,  0.0000]))
    """
    rate, step, decay = schedule.tolist()
    mean.lerp_(gradient, 1 - 0.9)
    square.mul_(0.999).addcmul_(gradient, gradient, value=1 - 0.999)
    root = (square / (1 - 0.999**step)).sqrt() + 1e-8
    weights.addcdiv_(mean, root, value=-rate / (1 - 0.9**step))
    average.lerp_(weights, 1 - decay)
