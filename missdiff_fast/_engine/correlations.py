"""Correction of how drawn scores depend on one another: a network mislearns columns that few rows observe.

Like is compared with like: a column's regression on the others in the rows that observe it with that of cells drawn in
the same rows. Under MAR these are not like complete rows, but the difference is the network's error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from missdiff_fast._engine.folds import shown_states
from missdiff_fast._engine.protocols import Backend
from missdiff_fast._engine.random import derive, shuffled
from missdiff_fast._engine.sampling import fill
from missdiff_fast._engine.shrinkage import expected
from missdiff_fast._engine.tiling import unknown
from missdiff_fast.config import SolverConfig
from missdiff_fast.config.drawing import LEAST_ROWS
from missdiff_fast.diffusion.states import HIDDEN
from missdiff_fast.table.encoded import EncodedTable

_MOST_COLUMNS = 512  # of a table whose scores are moved
_COPIES = 2  # of the rows whose cells are drawn again, at most
_MOST_CELLS = 1 << 24  # of these
_CELLS = 50  # of a column at least, and two more for each column of its regression; of a pair at least
_ROWS = 512  # that are mapped at a time
_RIDGE = 1e-3  # added to the variances of the columns of a regression: some may determine one another
_LEAST_LEFT = 1e-6, 1e-2  # bounds of the least variance of a combination of scores that regressions leave
_LEAST_STD = 1e-6  # that is divided by
_LEAST_SPREAD = 0.01  # of (1 - r^2)^2, which divided by the cells is the sampling variance of a correlation r


@dataclass(frozen=True)
class LinearMap:
    """New scores of some columns, linear in the scores of all.

    Parameters
    ----------
    columns : Tensor
        The columns, int64 ``[R]``.
    factors, shift : Tensor
        float32 ``[R, C]`` and ``[R]``: the new scores of a row x are ``factors @ x + shift``.

    Examples
    --------
    >>> twice = LinearMap(torch.tensor([1]), torch.tensor([[0.0, 2.0]]), torch.tensor([1.0]))
    >>> twice(torch.tensor([[3.0, 4.0]])).tolist()
    [[3.0, 9.0]]
    """

    columns: Tensor
    factors: Tensor
    shift: Tensor

    @classmethod
    def none(cls, num_columns: int, device: torch.device | None = None) -> LinearMap:
        """All scores stay."""
        columns = torch.empty(0, dtype=torch.int64, device=device)
        return cls(columns, torch.empty((0, num_columns), device=device), torch.empty(0, device=device))

    def __call__(self, scores: Tensor) -> Tensor:
        """The mapped scores, ``[B, C]``.

        Columns are added one by one: the bits of a matrix product depend on the number of rows. A few rows at a time,
        so that their sums stay in the cache.
        """
        if not len(self.columns):
            return scores
        mapped, columns = scores.clone(), self.factors.T.contiguous()
        for own, part in zip(scores.split(_ROWS), mapped.split(_ROWS), strict=True):
            new = self.shift.repeat(len(own), 1)
            product = torch.empty_like(new)
            for c, factors in enumerate(columns):
                new += torch.mul(own[:, c : c + 1], factors, out=product)
            part[:, self.columns] = new
        return mapped


def correction(
    network: nn.Module,
    table: EncodedTable,
    drawn: EncodedTable,
    common: Sequence[int],
    solver: SolverConfig,
    backend: Backend,
    rows: int,
    seed: int,
) -> LinearMap:
    """The least change of drawn scores that takes the network's errors out of their linear dependence.

    In the rows that observe a rare column all cells of rare columns are drawn again given the others. Errors are the
    differences between the table and these rows, of the same cells: of the slopes on the common columns, and of the
    correlations of what these regressions leave. Shrunk by what chance explains, they are added to the slopes and
    correlations of the drawn rows, as far as the same cells of rows drawn from nothing agree: these have the errors of
    `MissDiff.sample`, but are of other rows. Scores of the common columns and of residuals stay.

    Parameters
    ----------
    network : nn.Module
        The trained network.
    table : EncodedTable
        The training rows.
    drawn : EncodedTable
        Complete rows that the network drew.
    common : sequence of int
        The continuous columns that enough rows observe.
    solver : SolverConfig
        Noise levels.
    backend : Backend
        The ops, the network's passes and the training step.
    rows : int
        Most rows to draw in.
    seed : int
        Everything random follows from it.

    Returns
    -------
    LinearMap
        None where no column has enough cells, where chance explains all differences, and for very wide tables.
    """
    layout, C = table.layout, table.layout.num_continuous
    kept = set(common) | set(layout.residuals())
    count, least = (~table.continuous.isnan()).sum(0).tolist(), _CELLS + 2 * len(common)
    rare = [c for c in range(C) if c not in kept and count[c] >= least]
    none = LinearMap.none(C, table.device)
    if not rare or C > _MOST_COLUMNS:
        return none
    useful = (~table.continuous[:, rare].isnan()).any(1).nonzero()[:, 0]
    rows = min(rows, _MOST_CELLS // C)
    chosen = useful[shuffled(len(useful), derive(seed, "correlate")).to(table.device)[:rows]]
    number = min(rows, max(LEAST_ROWS, _COPIES * len(chosen)))
    some = table.rows(chosen.repeat(-(-number // len(chosen)))[:number])
    stay, move = (torch.tensor(list(columns), dtype=torch.int64, device=table.device) for columns in (common, rare))
    known, nothing, hidden = _known(some, stay), unknown(number, layout, table.device), ~some.observed()
    drawing = (known, 1), (nothing, 2)
    given, free = (
        fill(network, rows, solver, backend, derive(seed, "correlate", m)).without(hidden) for rows, m in drawing
    )
    scores = drawn.continuous.double()
    mean, covariance = scores.mean(0), torch.cov(scores.T).reshape(C, C)
    # Slopes on uncorrelated scores of variance 1, which have about equal sampling variances.
    white = _power(covariance[stay][:, stay], -0.5, _RIDGE)
    seen = _Regressions.of(table.continuous[chosen], stay, move, white)
    ours = [_Regressions.of(rows.continuous, stay, move, white) for rows in (given, free)]
    steeper = _agreed(*(expected(seen.slopes - own.slopes, seen.variances + own.variances) for own in ours)) @ white
    change = _agreed(*(_change(_correlations(seen.left), _correlations(own.left)) for own in ours))
    if not (bool(steeper.any()) or bool(change.any())):
        return none
    factors = _factors(covariance, steeper, change, stay, move)
    # The regressions of the drawn rows turn about the means of the rows that observe the columns.
    away = torch.linalg.solve(white, seen.centres.T).T - mean[stay]
    shift = mean[move] - (steeper * away).sum(1) - factors @ mean
    return LinearMap(move, factors.float(), shift.float())


def _known(table: EncodedTable, stay: Tensor) -> EncodedTable:
    """The rows without the numbers of other columns than these."""
    kept = torch.ones((1, table.layout.num_columns), dtype=torch.bool, device=table.device)
    kept[:, : table.layout.num_continuous] = False
    kept[:, stay] = True
    kept = table.layout.with_partners(kept).expand(len(table), -1)
    return replace(table.without(shown_states(table, kept) == HIDDEN), values=None)


@dataclass(frozen=True)
class _Regressions:
    """Linear regressions of R columns on S transformed others, each over the rows that observe the column.

    Cells of the S columns that are missing count as 0, the mean of all observed scores.
    """

    slopes: Tensor  # float64 [R, S]
    variances: Tensor  # of the slopes' errors
    centres: Tensor  # means of the S columns in the rows of each regression, [R, S]
    left: Tensor  # what the regressions leave, NaN where missing, [N, R]

    @classmethod
    def of(cls, scores: Tensor, stay: Tensor, move: Tensor, transform: Tensor) -> _Regressions:
        """Of scores ``[N, C]``, with the columns ``stay`` multiplied by a matrix ``[S, S]``."""
        x = scores[:, stay].double().nan_to_num(0.0) @ transform
        y = scores[:, move].double()
        ridge = _RIDGE * torch.eye(x.shape[1], dtype=x.dtype, device=x.device)
        left, slopes = torch.full_like(y, torch.nan), x.new_zeros((y.shape[1], x.shape[1]))
        variances, centres = torch.zeros_like(slopes), torch.zeros_like(slopes)
        for r, column in enumerate(y.T):
            rows = (~column.isnan()).nonzero()[:, 0]
            n, own, values = max(1, len(rows)), x[rows], column[rows]
            centres[r] = own.sum(0) / n
            own, values = own - centres[r], values - values.sum() / n
            inverse = torch.linalg.inv(own.T @ own / n + ridge)
            slopes[r] = inverse @ (own.T @ values / n)
            left[rows, r] = values - own @ slopes[r]
            variances[r] = left[rows, r].square().sum() / n**2 * inverse.diagonal()
        return cls(slopes, variances, centres, left)


def _correlations(left: Tensor) -> tuple[Tensor, Tensor]:
    """The correlation of each pair of columns of mean 0 over the rows that hold both, and their number: ``[R, R]``."""
    seen, x = (~left.isnan()).double(), left.nan_to_num(0.0)
    square = x.square().T @ seen
    return (x.T @ x) / (square * square.T).sqrt().clamp(min=_LEAST_STD), seen.T @ seen


def _agreed(one: Tensor, other: Tensor) -> Tensor:
    """The smaller of two errors that have the same sign; 0 where they have not."""
    return torch.where(one * other > 0, torch.where(one.abs() < other.abs(), one, other), 0.0)


def _change(seen: tuple[Tensor, Tensor], ours: tuple[Tensor, Tensor]) -> Tensor:
    """The expected errors of correlations, from two correlations and their numbers of rows: ``[R, R]``."""
    pairs = ((seen[1] >= _CELLS) & (ours[1] >= _CELLS)).triu(1)
    variances = (1 - seen[0].square()).square().clamp(min=_LEAST_SPREAD) * (1 / seen[1] + 1 / ours[1])
    change = torch.zeros_like(variances)
    change[pairs] = expected((seen[0] - ours[0])[pairs], variances[pairs])
    return change + change.T


def _factors(covariance: Tensor, steeper: Tensor, change: Tensor, stay: Tensor, move: Tensor) -> Tensor:
    """Factors ``[R, C]`` of scores that change their regressions and what these leave, and as little else as possible.

    Parameters
    ----------
    covariance : Tensor
        Of the drawn scores, ``[C, C]``.
    steeper : Tensor
        What is to be added to the slopes of the R columns that move on the S that stay, ``[R, S]``.
    change : Tensor
        What is to be added to the correlations of what the regressions leave, ``[R, R]``.
    stay, move : Tensor
        The columns, int64 ``[S]`` and ``[R]``.
    """
    own, cross = covariance[stay][:, stay], covariance[stay][:, move]
    ridge = _RIDGE * torch.eye(len(stay), dtype=own.dtype, device=own.device)
    slopes = torch.linalg.solve(own + ridge, cross).T
    product = slopes @ cross
    left = covariance[move][:, move] - product - product.T + slopes @ own @ slopes.T
    std = left.diagonal().clamp(min=_LEAST_STD**2).sqrt()
    least = float(torch.linalg.eigvalsh(left)[0].clamp(*_LEAST_LEFT))
    root, inverse = _power(left, 0.5, least), _power(left, -0.5, least)
    wanted = _power(left + change * std.outer(std), 1.0, least)
    scale = std / wanted.diagonal().sqrt()  # which the least variance may have changed
    # The optimal transport between two normal distributions.
    moved = inverse @ _power(root @ (wanted * scale.outer(scale)) @ root, 0.5, least**2) @ inverse
    factors = covariance.new_zeros((len(move), len(covariance)))
    factors[:, stay] = slopes + steeper - moved @ slopes
    factors[:, move] = moved
    return factors


def _power(matrix: Tensor, exponent: float, least: float) -> Tensor:
    """A power of a symmetric matrix whose eigenvalues are made ``least`` at least."""
    values, vectors = torch.linalg.eigh((matrix + matrix.T) / 2)
    return (vectors * values.clamp(min=least).pow(exponent)) @ vectors.T
