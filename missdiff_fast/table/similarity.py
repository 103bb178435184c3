"""Categories that are similar: those of rows whose other columns are alike."""

from __future__ import annotations

import torch
from torch import Tensor

from missdiff_fast.table.encoded import MISSING_CODE, EncodedTable

_MOST_FEATURES, _MOST_ROWS = 256, 1 << 17  # encoded columns and rows that are averaged
_NEIGHBOURS = 10  # categories on either side whose mean is a category's before its own cells are seen
_FIFTHS = torch.special.ndtri(torch.tensor([0.2, 0.4, 0.6, 0.8], dtype=torch.float64))  # of normal scores
_TINY = 1e-12
_COMPONENTS, _ROUNDS = 16, 10  # principal components in which categories are grouped, and rounds of moving centres


def category_points(table: EncodedTable, k: int) -> Tensor:
    """The categories of a column as points, near to one another where the rows' other columns are alike.

    A point is the mean of the other encoded columns, in units of their spread within a category. The mean of a rare
    category is little but noise, so it is drawn towards what can be expected: the mean of its neighbours, as far as
    neighbours are alike at all (as those of the codes of diseases and places are, which sort by kind), else the overall
    one. A number enters with its score and with the fifth of the column in which it lies. At most 256 encoded columns
    enter, those of the greatest variance. A missing cell counts as the mean.

    Parameters
    ----------
    table : EncodedTable
        N rows.
    k : int
        The categorical column, of V categories.

    Returns
    -------
    Tensor
        float64 ``[V, F]``.

    Examples
    --------
    >>> from missdiff_fast.table import Layout
    >>> codes = torch.arange(4, dtype=torch.int16).repeat(50)[:, None]
    >>> scores = (codes % 2 * 2.0 - 1) + torch.tensor([0.5, 0.5, 0.5, 0.5, -0.5, -0.5, -0.5, -0.5]).repeat(25)[:, None]
    >>> category_points(EncodedTable(scores, codes, Layout(1, (4,))), 0)[:, 0].round().tolist()
    [-2.0, 2.0, -2.0, 2.0]
    """
    stride = -(-len(table) // _MOST_ROWS)
    continuous, codes = (part[::stride].cpu() for part in (table.continuous, table.codes))
    seen = codes[:, k] >= 0
    code, V = codes[seen, k].long(), table.layout.cardinalities[k]
    count = torch.bincount(code, minlength=V).double()
    fifths = torch.bucketize(continuous, _FIFTHS.to(continuous.dtype)).to(codes.dtype)
    codes = torch.cat([codes, fifths.masked_fill(continuous.isnan(), MISSING_CODE)], 1)
    sizes = table.layout.cardinalities + (len(_FIFTHS) + 1,) * table.layout.num_continuous
    points = [
        _expected(_centred(continuous, codes, which)[seen], code, count)
        for which in _features(continuous, codes, k, sizes)
    ]
    return torch.stack(points, 1) if points else torch.zeros((V, 0), dtype=torch.float64)


def _expected(cells: Tensor, code: Tensor, count: Tensor) -> Tensor:
    """The expected mean of each category, in units of the spread within one: float64 ``[V]``."""
    total, known = torch.zeros_like(count).index_add(0, code, cells), (count > 0).sum()
    mean, near = total / count.clamp(min=1), _around(total) / _around(count).clamp(min=1)
    alike = ((count * mean * near).sum() / (count * near**2).sum().clamp(min=_TINY)).clamp(0, 1)
    start = alike * near
    within = (((cells**2).sum() - (count * mean**2).sum()) / (count.sum() - known).clamp(min=1)).clamp(min=_TINY)
    between = (((count * (mean - start) ** 2).sum() - known * within) / count.sum()).clamp(min=0)
    trust = count * between / (count * between + within)
    return (start + trust * (mean - start)) / within.sqrt()


def _around(numbers: Tensor) -> Tensor:
    """The sums of the neighbours' numbers."""
    sums = torch.nn.functional.pad(numbers.cumsum(0), (_NEIGHBOURS + 1, _NEIGHBOURS))
    sums[len(sums) - _NEIGHBOURS :] = sums[len(sums) - _NEIGHBOURS - 1]
    return sums[2 * _NEIGHBOURS + 1 :] - sums[: len(numbers)] - numbers


def similar_groups(points: Tensor, weights: Tensor, number: int, most: int) -> list[Tensor]:
    """Groups of categories that are near to one another.

    Weighted k-means, which begins with halves along the principal component, halved again. Then the categories choose
    the nearest group with room, those of most weight first.

    Parameters
    ----------
    points : Tensor
        V categories, float64 ``[V, F]``.
    weights : Tensor
        The weight of each category, float64 ``[V]``.
    number, most : int
        The most groups, and the most members of one; there are at least V places in all.

    Returns
    -------
    list of Tensor
        The members of each group, ascending, int64.

    Examples
    --------
    >>> similar_groups(torch.tensor([[1.0], [5.0], [1.1], [4.9]]).double(), torch.ones(4).double(), 2, 2)
    [tensor([0, 2]), tensor([1, 3])]
    """
    spread = (points - weights @ points / weights.sum()) * weights[:, None].sqrt()
    points = points @ torch.linalg.eigh(spread.T @ spread).eigenvectors[:, -_COMPONENTS:]
    group = torch.empty(len(points), dtype=torch.int64)
    for g, members in enumerate(_halve(points, weights, torch.arange(len(points)), number)):
        group[members] = g
    for _ in range(_ROUNDS):
        weight = torch.zeros(number, dtype=torch.float64).index_add(0, group, weights)
        sums = points.new_zeros((number, points.shape[1])).index_add(0, group, points * weights[:, None])
        distance = torch.cdist(points, sums / weight[:, None].clamp(min=_TINY))
        group = distance.argmin(1)
    room, nearest, order = [most] * number, group.tolist(), weights.argsort(descending=True, stable=True)
    for v in order.tolist():
        if not room[nearest[v]]:
            nearest[v] = int(distance[v].argmin())
        room[nearest[v]] -= 1
        if not room[nearest[v]]:
            distance[:, nearest[v]] = torch.inf
    group = torch.tensor(nearest)
    return [(group == g).nonzero()[:, 0] for g in range(number) if room[g] < most]


def _halve(points: Tensor, weights: Tensor, members: Tensor, number: int) -> list[Tensor]:
    if number == 1:
        return [members]
    own, weight = points[members], weights[members]
    along = torch.zeros(len(members), dtype=torch.float64)
    if points.shape[1]:
        centred = (own - weight @ own / weight.sum()) * weight[:, None].sqrt()
        axis = torch.linalg.eigh(centred.T @ centred).eigenvectors[:, -1]
        along = own @ (axis * axis[axis.abs().argmax()].sign())
    members = members[along.argsort(stable=True)]
    left = number // 2
    cut = len(members) * left // number
    return _halve(points, weights, members[:cut], left) + _halve(points, weights, members[cut:], number - left)


_Which = tuple[int, int]  # a continuous column and -1, or a categorical column and its category


def _features(continuous: Tensor, codes: Tensor, k: int, cardinalities: tuple[int, ...]) -> list[_Which]:
    """The encoded columns of the greatest variance, in their order."""
    which: list[_Which] = [(c, -1) for c in range(continuous.shape[1])]
    variances = [(~continuous.isnan()).double().mean(0)]
    for j, size in enumerate(cardinalities):
        if j != k:
            share = torch.bincount(codes[codes[:, j] >= 0, j].long(), minlength=size).double() / len(codes)
            variances.append(share * (1 - share))
            which += [(j, v) for v in range(size)]
    best = torch.cat(variances).argsort(descending=True, stable=True)[:_MOST_FEATURES].sort().values
    return [which[place] for place in best.tolist()]


def _centred(continuous: Tensor, codes: Tensor, which: _Which) -> Tensor:
    """One encoded column less its mean, 0 where missing: float64 ``[N]``."""
    j, v = which
    cells = continuous[:, j].double() if v < 0 else (codes[:, j] == v).double()
    seen = ~cells.isnan() if v < 0 else codes[:, j] >= 0
    return torch.where(seen, cells - cells[seen].mean(), 0.0)
