"""Categories that are similar: those of rows whose other columns are alike."""

from __future__ import annotations

import torch
from torch import Tensor

from missdiff_fast.table.encoded import EncodedTable

_MOST_FEATURES, _MOST_ROWS = 256, 1 << 17  # encoded columns and rows that are averaged
_COMPONENTS = 16  # principal components of the means
_SHRINK = 5.0  # cells of the overall mean that are added to a category's


def category_means(table: EncodedTable, k: int) -> Tensor:
    """The means of the other encoded columns in the rows of each category, less the overall ones.

    At most 256 encoded columns enter, those of the greatest variance. A missing cell counts as the mean. The means of
    rare categories are shrunken towards the overall ones.

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
    >>> scores = torch.tensor([-1.0, -1.0, 2.0]).repeat(10)[:, None]
    >>> codes = torch.tensor([0, 1, 2], dtype=torch.int16).repeat(10)[:, None]
    >>> category_means(EncodedTable(scores, codes, Layout(1, (3,))), 0).flatten().tolist()  # 10 cells, and 5 of mean 0
    [-0.6666666666666666, -0.6666666666666666, 1.3333333333333333]
    """
    stride = -(-len(table) // _MOST_ROWS)
    continuous, codes = (part[::stride].cpu() for part in (table.continuous, table.codes))
    code = codes[:, k].long()
    sums = torch.zeros((table.layout.cardinalities[k], 0), dtype=torch.float64)
    seen = code >= 0
    counts = torch.bincount(code[seen], minlength=len(sums))[:, None]
    blocks = []
    for which in _features(continuous, codes, k, table.layout.cardinalities):
        block = _centred(continuous, codes, which)[seen]
        blocks.append(torch.zeros(len(sums), dtype=torch.float64).index_add(0, code[seen], block))
    return torch.stack(blocks, 1) / (counts + _SHRINK) if blocks else sums


def similar_groups(means: Tensor, weights: Tensor, number: int) -> list[Tensor]:
    """Groups of similar categories, of equal size but for one: halves along the principal component, again and again.

    Parameters
    ----------
    means : Tensor
        Those of V categories, float64 ``[V, F]``.
    weights : Tensor
        The weight of each category, float64 ``[V]``.
    number : int
        The number of groups, at most V.

    Returns
    -------
    list of Tensor
        The members of each group, int64.

    Examples
    --------
    >>> similar_groups(torch.tensor([[1.0], [5.0], [1.1], [4.9]]).double(), torch.ones(4).double(), 2)
    [tensor([0, 2]), tensor([1, 3])]
    """
    spread = (means - weights @ means / weights.sum()) * weights[:, None].sqrt()
    axes = torch.linalg.eigh(spread.T @ spread).eigenvectors[:, -_COMPONENTS:]
    return _halve(means @ axes, weights, torch.arange(len(means)), number)


def _halve(points: Tensor, weights: Tensor, members: Tensor, number: int) -> list[Tensor]:
    if number == 1:
        return [members.sort().values]
    own, weight = points[members], weights[members]
    centred = (own - weight @ own / weight.sum()) * weight[:, None].sqrt()
    along = torch.zeros(len(members), dtype=torch.float64)
    if points.shape[1]:
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
