"""Correction of the correlations of drawn scores: a network mislearns pairs of columns that few rows observe together.

Like is compared with like: the correlation of a pair in the rows that observe both with that of cells drawn in the same
rows. Under MAR neither is that of complete rows, but their difference is the network's error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from missdiff_fast._engine.protocols import Backend
from missdiff_fast._engine.random import derive, shuffled
from missdiff_fast._engine.sampling import fill
from missdiff_fast.config import SolverConfig
from missdiff_fast.config.drawing import LEAST_ROWS
from missdiff_fast.table.encoded import EncodedTable

_COPIES = 4  # of the rows whose cells are drawn again, at most
_MOST_CELLS = 1 << 24  # of these
_CELLS = 50  # of a pair at least
_NARROW = 0.05  # least variance of a combination of columns that stay, in the rows that observe others
_RIDGE = 1e-3  # added to the variances of 1 of the columns that stay: some may determine one another
_LEAST = 1e-6, 1e-2  # bounds of the least variance of a combination of scores that the others leave
_HALVINGS = 60  # of the interval that holds the variance of the errors


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
        """The mapped scores, ``[B, C]``; a row's do not depend on other rows, as in a matrix product their bits do."""
        if not len(self.columns):
            return scores
        new = self.shift.expand(len(scores), -1)
        for c, factor in enumerate(self.factors.T):
            new = new + scores[:, c : c + 1] * factor
        mapped = scores.clone()
        mapped[:, self.columns] = new
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
    """The least change of drawn scores that takes the network's errors out of their correlations.

    The scores of columns that many rows observe stay. Those of the others, but for residuals, get other linear
    regressions on them, and what these leave is moved as little as possible to have the wanted covariance.

    An error is the correlation of a pair in the rows that observe both less that in the same rows with the rarely
    observed cells drawn again, given the others. Its expected value is an empirical Bayes estimate, which shrinks it by
    its sampling variance. The errors of pairs of two rarely observed columns have another variance than those of one.

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
        None where no pair of enough cells has an error beyond chance.
    """
    C = table.layout.num_continuous
    uncommon = [c for c in range(C) if c not in common]
    rare = [c for c in uncommon if c not in table.layout.residuals()]
    observed = ~table.continuous.isnan()
    useful = (observed[:, rare].any(1) & (observed.sum(1) > 1)).nonzero()[:, 0]
    rows = min(rows, _MOST_CELLS // max(1, C))
    chosen = useful[shuffled(len(useful), derive(seed, "correlate")).to(table.device)[:rows]]
    seen, seen_cells, means = _correlations(table.continuous[chosen])
    kinds = _kinds(seen_cells, rare)
    if not any(bool(pairs.any()) for pairs in kinds):
        return LinearMap.none(C, table.device)
    number = min(rows, max(LEAST_ROWS, _COPIES * len(chosen)))
    some = table.rows(chosen.repeat(-(-number // len(chosen)))[:number])
    known = replace(some, continuous=some.continuous.clone(), values=None)
    known.continuous[:, uncommon] = torch.nan
    again = fill(network, known, solver, backend, derive(seed, "correlate", 1), hidden=~some.observed())
    ours, our_cells, _ = _correlations(again.continuous)
    variance = (1 - seen.square()).square().clamp(min=_LEAST[1]) * (1 / seen_cells + 1 / our_cells)
    change = torch.zeros_like(seen)
    for pairs in kinds:
        change[pairs] = _expected((seen - ours)[pairs], variance[pairs])
    if not bool(change.any()):
        return LinearMap.none(C, table.device)
    scores = drawn.continuous.double()
    mean, std = scores.mean(0), scores.std(0).clamp(min=_LEAST[0])
    before = torch.corrcoef(((scores - mean) / std).T)
    stay, move = (torch.tensor(list(columns), dtype=torch.int64, device=table.device) for columns in (common, rare))
    share = _std(table.continuous[chosen][:, stay]) / std[stay]
    change[stay] *= share[:, None]
    change[:, stay] *= share
    factors, steeper = _factors(before, change, seen[stay][:, stay] * share.outer(share), stay, move)
    factors = factors * std[move, None] / std
    # The network's regressions are right where the columns are observed, so that they turn about the means there.
    centre = (means[stay][:, move].T - mean[stay]) / std[stay]
    shift = mean[move] - factors @ mean - std[move] * (steeper * centre).sum(1)
    return LinearMap(move, factors.float(), shift.float())


def _correlations(scores: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Of each pair of columns, over the rows that hold both: correlation, number of rows, and mean of the first one.

    All float64 ``[C, C]``.
    """
    seen = (~scores.isnan()).double()
    x = scores.double().nan_to_num(0.0)
    cells = seen.T @ seen
    count = cells.clamp(min=1)
    mean = (x.T @ seen) / count  # of the row's column in the rows that hold both
    variance = (x.square().T @ seen) / count - mean.square()
    covariance = (x.T @ x) / count - mean * mean.T
    return (covariance / (variance * variance.T).sqrt().clamp(min=_LEAST[0])).clamp(-1, 1), cells, mean


def _std(scores: Tensor) -> Tensor:
    """The standard deviation of each column's observed scores, float64 ``[C]``; 1 where there are none."""
    scores = scores.double()
    return (scores - scores.nanmean(0)).square().nanmean(0).sqrt().nan_to_num(1.0)


def _kinds(cells: Tensor, rare: Sequence[int]) -> list[Tensor]:
    """The pairs of two rare columns, and those of one, that enough rows hold: bool ``[C, C]`` each."""
    is_rare = torch.zeros(len(cells), dtype=torch.bool, device=cells.device)
    is_rare[list(rare)] = True
    enough = (cells >= _CELLS).fill_diagonal_(False)
    return [enough & (is_rare[:, None] & is_rare), enough & (is_rare[:, None] ^ is_rare)]


def _expected(errors: Tensor, variances: Tensor) -> Tensor:
    """Errors shrunk by their sampling variances: their expected values under a normal prior around 0."""
    own = _variance(errors.square(), variances)
    return errors * own / (own + variances)


def _variance(squares: Tensor, variances: Tensor) -> float:
    """The variance of the expected errors, from squared errors and their sampling variances.

    The estimate of Paule and Mandel (1982), with a mean of 0: the squares divided by both variances average to 1.
    """
    if not len(squares) or float((squares / variances).mean()) <= 1:
        return 0.0
    low, high = 0.0, float(squares.max())
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        above = float((squares / (variances + middle)).mean()) > 1
        low, high = (middle, high) if above else (low, middle)
    return low


def _factors(before: Tensor, change: Tensor, narrow: Tensor, stay: Tensor, move: Tensor) -> tuple[Tensor, Tensor]:
    """Factors of standardised scores that change their covariance, and as little else as possible.

    Parameters
    ----------
    before : Tensor
        The covariance of the drawn scores, ``[C, C]``.
    change : Tensor
        What is to be added to it in the rows that observe the columns, ``[C, C]``.
    narrow : Tensor
        The covariance of the columns that stay in these rows. Under MAR the regressions on them, and what these leave,
        are the same as in all rows.
    stay, move : Tensor
        The S columns that stay, and the R others.

    Returns
    -------
    factors, steeper : Tensor, Tensor
        ``[R, C]``, and the change of the slopes of the regressions on the columns that stay, ``[R, S]``.
    """
    own, cross = before[stay][:, stay], before[stay][:, move]
    ridge = _RIDGE * torch.eye(len(stay), dtype=before.dtype, device=before.device)
    slopes = torch.linalg.solve(own + ridge, cross).T
    steeper = change[move][:, stay] @ _power(narrow, -1.0, _NARROW)
    new = slopes + steeper
    product = slopes @ cross
    left = before[move][:, move] - product - product.T + slopes @ own @ slopes.T
    wanted = left + change[move][:, move] - new @ narrow @ new.T + slopes @ narrow @ slopes.T
    least = float(torch.linalg.eigvalsh(left)[0].clamp(*_LEAST))
    root, inverse = _power(left, 0.5, least), _power(left, -0.5, least)
    # The optimal transport between two normal distributions.
    moved = inverse @ _power(root @ _power(wanted, 1.0, least) @ root, 0.5, least**2) @ inverse
    factors = torch.zeros((len(move), len(before)), dtype=before.dtype, device=before.device)
    factors[:, stay] = new - moved @ slopes
    factors[:, move] = moved
    return factors, steeper


def _power(matrix: Tensor, exponent: float, least: float) -> Tensor:
    """A power of a symmetric matrix whose eigenvalues are made ``least`` at least."""
    values, vectors = torch.linalg.eigh((matrix + matrix.T) / 2)
    return (vectors * values.clamp(min=least).pow(exponent)) @ vectors.T
