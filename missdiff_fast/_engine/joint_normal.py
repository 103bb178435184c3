"""A joint normal distribution of a table's columns: conditional means in closed form, for tables with few rows."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from missdiff_fast._engine.random import shuffled
from missdiff_fast._engine.tiling import tiles
from missdiff_fast.table.encoded import EncodedTable, Layout

_ROUNDS = 5  # of filling the missing cells and learning from them
_STEPS = 10  # of the solver of a row's conditional means
_RIDGE = 0.01, 0.2  # added to the features' variance of 1: a constant, and a multiple of features per row
_MOST = 5.0  # greatest distance of a feature from its mean, in standard deviations
MOST_ROWS = 8192  # to learn from
MOST_CATEGORIES = 64  # of a column that has features: the cost is the cube of their number
_LEAST_CORRELATION, _LEAST_HOLES = 0.2, 10  # of a column's holes with a feature, for an indicator of them
_TILE = 256  # rows of a call
_LEAST_PROBABILITY = 1e-4  # a linear prediction can be negative
_LEAST = 1e-6  # least standard deviation that a feature is divided by


@dataclass(frozen=True)
class JointNormal:
    """A joint normal distribution of normal scores, standardised values and one-hot categories, P features.

    Columns of more than 64 categories have none. A continuous column has two features: the score carries dependence
    that no outlier bends, the value is what imputation is about. Missing ones have the conditional mean given the
    observed ones.

    Parameters
    ----------
    mean, std : Tensor
        Mean and standard deviation of each feature, float64 ``[P]``.
    precision : Tensor
        Inverse covariance of the standardised features, float64 ``[P, P]``.
    indicators : Tensor
        The columns that have a feature which says whether their cell is missing, int64 ``[I]``: an age at diagnosis is
        missing where there is no diagnosis. Columns whose holes tell nothing about other cells have none.

    Examples
    --------
    >>> x = torch.linspace(-1.5, 1.5, 60)[:, None].repeat(1, 2)
    >>> table = EncodedTable(x, torch.zeros(60, 0, dtype=torch.int16), Layout(2), x)
    >>> joint = JointNormal.fit(table)
    >>> hidden = torch.tensor([[1.0, torch.nan]])
    >>> row = EncodedTable(hidden, torch.zeros(1, 0, dtype=torch.int16), Layout(2), hidden)
    >>> joint.predict(row).round(decimals=1)  # the second column equals the first
    tensor([[1., 1.]])
    """

    mean: Tensor
    std: Tensor
    precision: Tensor
    indicators: Tensor

    @classmethod
    def fit(cls, table: EncodedTable) -> JointNormal:
        """Learn from rows with missing cells, by rounds of filling them with conditional means.

        As in the EM algorithm a filled feature adds its conditional variance to the covariance; that of two filled
        features together is left out. A ridge shrinks the correlations, the more, the fewer rows there are.
        """
        table = some_rows(table)
        indicators = _telling(table)
        x = _features(table, indicators)
        missing = x.isnan()
        mean = x.nanmean(0).nan_to_num()  # a category may have no row
        std = (x - mean).square().nanmean(0).nan_to_num().sqrt().clamp(min=_LEAST)
        x = _standardised(x, mean, std)
        share, variance = missing.double().mean(0), torch.ones_like(mean)
        ridge = _RIDGE[0] + _RIDGE[1] * x.shape[1] / max(1, len(x))
        for _ in range(_ROUNDS):
            centre = x.mean(0)
            centred = x - centre
            covariance = centred.T @ centred / len(x) + torch.diag(share * variance + ridge)
            precision = torch.cholesky_inverse(torch.linalg.cholesky(covariance))
            variance = 1 / precision.diagonal()
            x = conditional(precision, centred, missing) + centre
        # In rows, as a model file has it: the bits of a matrix product depend on the order in memory.
        return cls(mean + std * centre, std, precision.contiguous(), indicators)

    def predict(self, table: EncodedTable) -> Tensor:
        """The standardised values, and the categories' probabilities: float32 ``[N, C + sum(V_k)]``.

        Observed cells have their own. A row's result does not depend on other rows.
        """
        done = [torch.empty((0, table.layout.width), device=table.device)]
        # Every tile has the same number of rows, on which the bits of a matrix product depend.
        for start, stop, piece in tiles(table, _TILE):
            x = _features(piece, self.indicators)
            missing = x.isnan()
            filled = conditional(self.precision, _standardised(x, self.mean, self.std), missing)
            x = torch.where(missing, filled * self.std + self.mean, x)
            done.append(_values_and_probabilities(x, table.layout)[: stop - start].float())
        return torch.cat(done)


def num_features(layout: Layout) -> int:
    """P: two for each continuous column, and one for each category of columns with at most 64.

    >>> num_features(Layout(3, (2, 1000)))
    8
    """
    return 2 * layout.num_continuous + sum(size for size in layout.cardinalities if size <= MOST_CATEGORIES)


def has_features(layout: Layout, device: torch.device | None = None) -> Tensor:
    """Which columns have features: bool ``[J]``."""
    few = [size <= MOST_CATEGORIES for size in layout.cardinalities]
    return torch.tensor([True] * layout.num_continuous + few, device=device)


def some_rows(table: EncodedTable) -> EncodedTable:
    """The rows that a distribution learns from: all, or `MOST_ROWS` of them chosen at random."""
    if len(table) <= MOST_ROWS:
        return table
    return table.rows(shuffled(len(table), seed=0)[:MOST_ROWS].to(table.device))


def one_hot(codes: Tensor, size: int) -> Tensor:
    """Codes ``[N]`` as float64 one-hot rows ``[N, size]``, NaN where missing."""
    codes = codes.long()
    hot = torch.nn.functional.one_hot(codes.clamp(min=0), size).double()
    return hot.masked_fill((codes < 0)[:, None], torch.nan)


def _telling(table: EncodedTable) -> Tensor:
    """The columns whose holes correlate with a feature of another column, int64 ``[I]``."""
    observed = table.observed()
    x = _features(table, torch.empty(0, dtype=torch.int64, device=table.device))
    seen = (~x.isnan()).double()
    x = (x - x.nanmean(0).nan_to_num()).nan_to_num(0.0)
    holes = (~observed).double()
    # Sums over the rows that observe the feature: of the hole, of both squares and of the product.
    count, share = seen.sum(0).clamp(min=1), (holes.T @ seen) / seen.sum(0).clamp(min=1)
    variance = (share * (1 - share) * count) * x.square().sum(0)
    correlation = (holes.T @ x) * variance.clamp(min=1e-12).rsqrt()
    enough = torch.minimum(share, 1 - share) * count >= _LEAST_HOLES
    strong = (correlation.abs() > _LEAST_CORRELATION + 3 * count.rsqrt()) & enough
    return strong.any(1).nonzero()[:, 0]


def _features(table: EncodedTable, indicators: Tensor) -> Tensor:
    """float64 ``[N, P]``: scores, values, one-hot categories, NaN where missing; and which columns are missing."""
    if table.values is None:
        raise ValueError("a joint normal distribution needs table.values, the standardised raw values")
    parts = [table.continuous.double(), table.values.double()]
    for k, size in enumerate(table.layout.cardinalities):
        if size <= MOST_CATEGORIES:
            parts.append(one_hot(table.codes[:, k], size))
    parts.append((~table.observed()[:, indicators]).double())
    return torch.cat(parts, 1)


def _standardised(x: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    """Features of mean 0 and variance 1, moved into the range; 0 where missing."""
    return ((x - mean) / std).nan_to_num(0.0).clamp(-_MOST, _MOST)


def conditional(
    precision: Tensor, x: Tensor, missing: Tensor, pull: Tensor | None = None, *, steps: int = _STEPS
) -> Tensor:
    """Rows of mean 0 whose missing features are solved for given the others.

    A row's missing features m solve ``precision[m, m] x[m] = pull[m] - precision[m, o] x[o]``: a few steps of conjugate
    gradients with the diagonal as preconditioner, of all rows at once, from the values that ``x`` has there. Without
    ``pull`` the solutions are conditional means; with that of a normal vector of covariance ``precision``, draws. In
    `JointNormal.fit` few steps are also a regularisation: exact solutions impute no better.
    """
    mask, diagonal = missing.to(x.dtype), precision.diagonal()
    residual = -(x @ precision) * mask
    if pull is not None:
        residual = residual + pull * mask
    x, direction = x.clone(), residual / diagonal
    power = (residual * direction).sum(1, keepdim=True)
    for _ in range(steps):
        image = (direction @ precision) * mask
        length = power / (direction * image).sum(1, keepdim=True).clamp(min=1e-30)
        x += length * direction
        residual = residual - length * image
        scaled = residual / diagonal
        power, before = (residual * scaled).sum(1, keepdim=True), power
        direction = scaled + (power / before.clamp(min=1e-30)) * direction
    return x


def _values_and_probabilities(x: Tensor, layout: Layout) -> Tensor:
    """The features but the scores, those of a column made probabilities: ``[N, C + sum(V_k)]``.

    A column without features has equal ones.
    """
    first = 2 * layout.num_continuous
    parts = [x[:, layout.num_continuous : first]]
    for size in layout.cardinalities:
        if size > MOST_CATEGORIES:
            parts.append(x.new_full((len(x), size), 1 / size))
            continue
        group = x[:, first : first + size].clamp(min=_LEAST_PROBABILITY)
        parts.append(group / group.sum(1, keepdim=True))
        first += size
    return torch.cat(parts, 1)
