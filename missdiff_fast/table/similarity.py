"""Categories that are similar: those of rows whose other columns are alike."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from missdiff_fast.table.encoded import MISSING_CODE, EncodedTable

_MOST_FEATURES, _MOST_ROWS = 256, 1 << 17  # encoded columns and rows that are averaged
_NEIGHBOURS = 10  # categories on either side whose mean is a category's before its own cells are seen
_FIFTHS = torch.special.ndtri(torch.tensor([0.2, 0.4, 0.6, 0.8], dtype=torch.float64))  # of normal scores
_TINY = 1e-12
_COMPONENTS, _ROUNDS = 16, 10  # principal components in which categories are grouped, and rounds of moving centres


_Which = tuple[int, int]  # a continuous column and -1, or a categorical column and its category


@dataclass(frozen=True)
class Rows:
    """Rows whose columns say which categories are alike: the same for every column whose categories are compared.

    Parameters
    ----------
    continuous : Tensor
        Normal scores, ``[N, C]``.
    codes : Tensor
        Categories, and after them the fifths of the continuous columns, int16 ``[N, K + C]``.
    cardinalities : tuple of int
        Of the codes.
    """

    continuous: Tensor
    codes: Tensor
    cardinalities: tuple[int, ...]

    @classmethod
    def of(cls, table: EncodedTable) -> Rows:
        """A table's rows, or of very many some of them, on the CPU."""
        stride = -(-len(table) // _MOST_ROWS)
        continuous, codes = (part[::stride].cpu() for part in (table.continuous, table.codes))
        fifths = torch.bucketize(continuous, _FIFTHS.to(continuous.dtype)).to(codes.dtype)
        codes = torch.cat([codes, fifths.masked_fill(continuous.isnan(), MISSING_CODE)], 1)
        sizes = table.layout.cardinalities + (len(_FIFTHS) + 1,) * table.layout.num_continuous
        return cls(continuous, codes, sizes)

    @cached_property
    def which(self) -> list[_Which]:
        """The encoded columns."""
        categories = [(j, v) for j, size in enumerate(self.cardinalities) for v in range(size)]
        return [(c, -1) for c in range(self.continuous.shape[1])] + categories

    @cached_property
    def variances(self) -> Tensor:
        """The variance of each encoded column, float64."""
        variances = [(~self.continuous.isnan()).double().mean(0)]
        for j, size in enumerate(self.cardinalities):
            own = self.codes[:, j]
            share = torch.bincount(own[own >= 0].long(), minlength=size).double() / len(own)
            variances.append(share * (1 - share))
        return torch.cat(variances)

    def features(self, k: int) -> list[_Which]:
        """The encoded columns of the greatest variance, in their order, without those of categorical column k."""
        others = torch.tensor([v < 0 or j != k for j, v in self.which], dtype=torch.bool).nonzero()[:, 0]
        best = self.variances[others].argsort(descending=True, stable=True)[:_MOST_FEATURES].sort().values
        return [self.which[place] for place in others[best].tolist()]

    def centred(self, which: _Which) -> Tensor:
        """One encoded column less its mean, 0 where missing: float64 ``[N]``."""
        j, v = which
        cells = self.continuous[:, j].double() if v < 0 else (self.codes[:, j] == v).double()
        seen = ~cells.isnan() if v < 0 else self.codes[:, j] >= 0
        return torch.where(seen, cells - cells[seen].mean(), 0.0)


def category_points(rows: Rows, k: int) -> Tensor:
    """The categories of a column as points, near to one another where the rows' other columns are alike.

    A point is the mean of the other encoded columns, in units of their spread within a category. The mean of a rare
    category is little but noise, so it is drawn towards what can be expected: the mean of its neighbours, as far as
    neighbours are alike at all (as those of the codes of diseases and places are, which sort by kind), else the overall
    one. A number enters with its score and with the fifth of the column in which it lies. At most 256 encoded columns
    enter, those of the greatest variance. A missing cell counts as the mean.

    Parameters
    ----------
    rows : Rows
        The table's.
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
    >>> category_points(Rows.of(EncodedTable(scores, codes, Layout(1, (4,)))), 0)[:, 0].round().tolist()
    [-2.0, 2.0, -2.0, 2.0]
    """
    seen = rows.codes[:, k] >= 0
    code, V = rows.codes[seen, k].long(), rows.cardinalities[k]
    count = torch.bincount(code, minlength=V).double()
    points = [_expected(rows.centred(which)[seen], code, count) for which in rows.features(k)]
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
