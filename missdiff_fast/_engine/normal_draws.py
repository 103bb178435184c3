"""Draws of missing cells from a joint normal distribution of numbers and categories, for tables with few rows."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from missdiff_fast._engine.protocols import Backend
from missdiff_fast._engine.random import derive, make_keys
from missdiff_fast._engine.tiling import tiles
from missdiff_fast.table.encoded import EncodedTable, Layout

_ROUNDS = 20, 20  # of drawing and learning: before moments are averaged, and while they are
_AGAIN = 6, 10  # the same for a distribution that starts from another
_SWEEPS = 10  # over the missing cells of a row, before they count as drawn
_STEPS = 15  # of the solver of a row's conditional distribution
_RIDGE = 1e-3, 0.1  # added to variances of 1: a constant, and a multiple of features per row
_MOST_ROWS = 8192  # to learn from
_MOST_CATEGORIES = 64  # of a column that has features
_TILE = 256  # rows of a call
_PSEUDO_COUNT = 0.5  # of each category


@dataclass(frozen=True)
class NormalDraws:
    """A joint normal distribution of scores and one-hot categories, P features, of which missing cells are drawn.

    Given the categories, numbers are normal with means linear in the categories. A category has its share as prior
    probability, and the likelihood of the other cells of the row. Columns of more than 64 categories have no features.

    Parameters
    ----------
    mean : Tensor
        Of each feature, float64 ``[P]``.
    covariance : Tensor
        Of the features, float64 ``[P, P]``.

    Examples
    --------
    >>> from missdiff_fast._engine.backend import ReferenceBackend
    >>> x = torch.linspace(-1.5, 1.5, 60)[:, None].repeat(1, 2)
    >>> table = EncodedTable(x, torch.zeros(60, 0, dtype=torch.int16), Layout(2))
    >>> joint = NormalDraws.fit(table, ReferenceBackend(), 0)
    >>> row = EncodedTable(torch.tensor([[1.0, torch.nan]]), torch.zeros(1, 0, dtype=torch.int16), Layout(2))
    >>> drawn = joint.draw(row, ReferenceBackend(), 0).continuous
    >>> bool((drawn[0, 1] - 1).abs() < 0.3)  # the second column equals the first
    True
    """

    mean: Tensor
    covariance: Tensor

    @classmethod
    def fit(cls, table: EncodedTable, backend: Backend, seed: int, start: NormalDraws | None = None) -> NormalDraws:
        """Learn from rows with missing cells, by rounds of drawing them and learning from the draws.

        The stochastic EM algorithm, with the moments of the last rounds averaged.

        Parameters
        ----------
        table : EncodedTable
            The rows.
        backend : Backend
            Of the random numbers.
        seed : int
            Says which cells are drawn when.
        start : NormalDraws, optional
            Where to begin, for example the distribution of the rows that these were drawn from.
        """
        if len(table) > _MOST_ROWS:
            order = torch.randperm(len(table), generator=torch.Generator().manual_seed(0))
            table = table.rows(order[:_MOST_ROWS].to(table.device))
        chain = _Chain.start(table)
        n, C = len(table), table.layout.num_continuous
        P = chain.x.shape[1]
        burn, averaged = _AGAIN if start else _ROUNDS
        if start is None:
            seen = chain.missing.logical_not()
            mean = (chain.x * seen).sum(0) / seen.sum(0).clamp(min=1)
            variance = ((chain.x - mean).square() * seen).sum(0) / seen.sum(0).clamp(min=1)
            start = cls(mean, torch.diag(variance + _RIDGE[0]))
        joint = start
        rows = torch.arange(n, device=table.device)
        keys = make_keys(derive(seed, "joint"), 2 * (burn + averaged), table.device)
        first, second = torch.zeros_like(joint.mean), torch.zeros_like(joint.covariance)
        ridge = _RIDGE[0] + _RIDGE[1] * P / max(1, n)
        for r in range(burn + averaged):
            factors = _Factors.of(joint, table.layout, n)
            uniform = backend.uniform(rows, max(1, len(chain.groups)), keys[2 * r]).double()
            normal = backend.normal(rows, max(1, C), keys[2 * r + 1]).double()
            centre, noise = chain.sweep(factors, uniform, normal)
            z = torch.cat([centre, chain.x[:, C:]], 1)
            share = 1.0 if r < burn else 1 / (r - burn + 1)
            moment = z.T @ z
            moment[:C, :C] += noise.T @ noise
            first, second = torch.lerp(first, z.mean(0), share), torch.lerp(second, moment / n, share)
            covariance = second - torch.outer(first, first)
            diagonal = covariance.diagonal().clamp(min=1e-6)
            joint = cls(first, covariance + torch.diag(ridge * diagonal + 1e-9))
        return joint

    def draw(self, table: EncodedTable, backend: Backend, seed: int, *, first_row: int = 0) -> EncodedTable:
        """The table with the missing cells of all columns that have features drawn; row i depends on (seed, i) alone.

        The codes of other columns stay as they are, and ``values`` are left out.
        """
        layout = table.layout
        C = layout.num_continuous
        factors = _Factors.of(self, layout, _MOST_ROWS)
        keys = make_keys(seed, 2 * _SWEEPS, table.device)
        continuous, codes = table.continuous.clone(), table.codes.clone()
        for begin, end, piece in tiles(table, _TILE):
            rows = torch.arange(first_row + begin, first_row + begin + _TILE, device=table.device)
            chain = _Chain.start(piece)
            for s in range(_SWEEPS):
                uniform = backend.uniform(rows, max(1, len(chain.groups)), keys[2 * s]).double()
                normal = backend.normal(rows, max(1, C), keys[2 * s + 1]).double()
                chain.sweep(factors, uniform, normal)
            own = slice(0, end - begin)
            continuous[begin:end] = torch.where(
                piece.continuous.isnan(), chain.x[:, :C].to(continuous.dtype), piece.continuous
            )[own]
            codes[begin:end] = torch.where(piece.codes < 0, chain.codes, piece.codes)[own]
        return EncodedTable(continuous, codes, layout)


@dataclass(frozen=True)
class _Factors:
    """What the conditional distributions need."""

    mean: Tensor
    precision: Tensor
    root: Tensor  # of the numbers' block of the precision, lower triangular [C, C]
    offset: Tensor  # log probabilities of the categories, [P]

    @classmethod
    def of(cls, joint: NormalDraws, layout: Layout, num_rows: int) -> _Factors:
        C = layout.num_continuous
        precision = torch.cholesky_inverse(torch.linalg.cholesky(joint.covariance)).contiguous()
        root = torch.linalg.cholesky(precision[:C, :C])
        offset = torch.zeros_like(joint.mean)
        for _, first, last in _groups(layout):
            own = slice(first, last)
            prior = (joint.mean[own] * num_rows).clamp(min=0) + _PSEUDO_COUNT
            alone = torch.linalg.inv(joint.covariance[own, own])
            # The likelihood of a category alone would be that of a normal distribution, in place of its share.
            offset[own] = (prior / prior.sum()).log() + (
                _forms(alone, joint.mean[own]) - _forms(precision[own, own], joint.mean[own])
            ) / 2
        return cls(joint.mean, precision, root, offset)


def _forms(matrix: Tensor, mean: Tensor) -> Tensor:
    """The quadratic form of each category's one-hot row about the mean: ``[V]``."""
    apart = torch.eye(len(mean), dtype=mean.dtype, device=mean.device) - mean
    return ((apart @ matrix) * apart).sum(1)


@dataclass
class _Chain:
    """Some rows whose missing cells are drawn in turn."""

    x: Tensor  # features [B, P]
    codes: Tensor
    missing: Tensor  # [B, P]
    groups: list[tuple[int, int, int]]
    fresh: bool = True

    @classmethod
    def start(cls, table: EncodedTable) -> _Chain:
        parts = [table.continuous.double()]
        groups = _groups(table.layout)
        for k, first, last in groups:
            codes = table.codes[:, k].long()
            one_hot = torch.nn.functional.one_hot(codes.clamp(min=0), last - first).double()
            parts.append(one_hot.masked_fill((codes < 0)[:, None], torch.nan))
        x = torch.cat(parts, 1)
        return cls(x.nan_to_num(0.0), table.codes.clone(), x.isnan(), groups)

    def sweep(self, factors: _Factors, uniform: Tensor, normal: Tensor) -> tuple[Tensor, Tensor]:
        """Draw the missing categories of each column in turn, then all missing numbers at once.

        The numbers, their conditional means, and what was drawn about them, both ``[B, C]``.
        """
        C = normal.shape[1] if self.x.shape[1] else 0
        C = factors.root.shape[0]
        x = self.x - factors.mean
        if self.fresh:
            # The means given the known cells, of categories too, begin the chain near its end.
            x = _solved(factors.precision, torch.where(self.missing, 0.0, x), self.missing, None)
        for g, (k, first, last) in enumerate(self.groups):
            hole = self.missing[:, first]
            own = slice(first, last)
            if self.fresh:
                chance = (x[:, own] + factors.mean[own]).clamp(min=1e-4)
            else:
                rest = x @ factors.precision[:, own] - x[:, own] @ factors.precision[own, own]
                chance = torch.softmax(factors.offset[own] - rest, 1)
            below = chance.cumsum(1)
            code = (below[:, :-1] <= uniform[:, g : g + 1] * below[:, -1:]).sum(1)
            one_hot = torch.nn.functional.one_hot(code, last - first).to(x.dtype) - factors.mean[own]
            x[:, own] = torch.where(hole[:, None], one_hot, x[:, own])
            self.codes[:, k] = torch.where(hole, code.to(self.codes.dtype), self.codes[:, k])
        missing = self.missing.clone()
        missing[:, C:] = False
        numbers = missing[:, :C]
        pull = torch.zeros_like(x)
        pull[:, :C] = normal[:, :C] @ factors.root.T
        both = _solved(
            factors.precision,
            torch.cat([x, torch.zeros_like(x)]),
            torch.cat([missing, missing]),
            torch.cat([torch.zeros_like(x), pull]),
        )
        centre, noise = both[: len(x)], both[len(x) :, :C] * numbers
        x = centre.clone()
        x[:, :C] += noise
        self.x, self.fresh = x + factors.mean, False
        return centre[:, :C] + factors.mean[:C], noise


def _solved(precision: Tensor, x: Tensor, missing: Tensor, pull: Tensor | None) -> Tensor:
    """Rows of mean 0 whose missing features m solve ``precision[m, m] x[m] = pull[m] - precision[m, o] x[o]``.

    A few steps of conjugate gradients with the diagonal as preconditioner, of all rows at once, from the values that
    ``x`` has there. Without ``pull`` the solutions are conditional means; with that of a normal vector of covariance
    ``precision``, draws.
    """
    mask, diagonal = missing.to(x.dtype), precision.diagonal()
    residual = -(x @ precision) * mask
    if pull is not None:
        residual = residual + pull * mask
    x, direction = x.clone(), residual / diagonal
    power = (residual * direction).sum(1, keepdim=True)
    for _ in range(_STEPS):
        image = (direction @ precision) * mask
        length = power / (direction * image).sum(1, keepdim=True).clamp(min=1e-30)
        x += length * direction
        residual = residual - length * image
        scaled = residual / diagonal
        power, before = (residual * scaled).sum(1, keepdim=True), power
        direction = scaled + (power / before.clamp(min=1e-30)) * direction
    return x


def _groups(layout: Layout) -> list[tuple[int, int, int]]:
    """Of each categorical column with features: its number among them, and where its features begin and end."""
    groups, first = [], layout.num_continuous
    for k, size in enumerate(layout.cardinalities):
        if size <= _MOST_CATEGORIES:
            groups.append((k, first, first + size))
            first += size
    return groups
