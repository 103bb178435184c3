"""Draws of missing cells from a joint normal distribution of numbers and categories, for tables with few rows."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from missdiff_fast._engine.joint_normal import MOST_CATEGORIES, conditional, one_hot, some_rows
from missdiff_fast._engine.protocols import Backend
from missdiff_fast._engine.random import derive, make_keys
from missdiff_fast._engine.sampling import draw_codes
from missdiff_fast._engine.tiling import tiles
from missdiff_fast.table.encoded import EncodedTable, Layout

ROUNDS = 20, 20  # How many rounds of the EM algorithm come before its moments are averaged, and how many are averaged.
AGAIN = 6, 10  # The same two numbers where the fit starts from another fitted distribution.
SWEEPS = 10  # How often the missing cells of a row are drawn in turn; the last draw is kept.
_STEPS = 15  # How many steps of conjugate gradients solve for the missing numbers of a row.
_RIDGE = 1e-3, 0.5  # The ridge is the first, plus the second times features per row, of each feature's variance.
_TILES = 16, 64, 256  # So many rows are drawn at once: the least of these that holds all, or the greatest.
_LEAST_VARIANCE = 1e-3  # The ridge of a feature of less variance is that of a feature of this variance.
_SCALES = 0.2, 1.2  # The least and the greatest factor of a drawn number's distance from its conditional mean.
_LEAST_PROBABILITY = 1e-4  # No category has a lower prior probability.
_LEAST_SHARE = 0.1  # The row's other categories lower a category's prior probability to this share of it at least.


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
        Of the features, with a ridge, float64 ``[P, P]``.
    scale : Tensor
        What a drawn number's distance from its conditional mean is multiplied by, because the ridge adds to it:
        float64 ``[C]``.

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
    scale: Tensor

    @staticmethod
    def width(layout: Layout) -> int:
        """P.

        >>> NormalDraws.width(Layout(2, (3, 100)))
        5
        """
        return layout.num_continuous + sum(last - first for _, first, last in _groups(layout))

    @classmethod
    def fit(
        cls,
        table: EncodedTable,
        backend: Backend,
        seed: int,
        start: NormalDraws | None = None,
        rounds: tuple[int, int] | None = None,
    ) -> NormalDraws:
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
        rounds : tuple of int, optional
            How many rounds come before the moments are averaged, and how many are averaged. By default 20 and 20, or
            with ``start`` 6 and 10.
        """
        table = some_rows(table)
        chain = _Chain.start(table)
        n, C = len(table), table.layout.num_continuous
        P = chain.x.shape[1]
        burn, averaged = rounds or (AGAIN if start else ROUNDS)
        if start is None:
            seen = chain.missing.logical_not()
            mean = (chain.x * seen).sum(0) / seen.sum(0).clamp(min=1)
            variance = ((chain.x - mean).square() * seen).sum(0) / seen.sum(0).clamp(min=1)
            start = cls(mean, torch.diag(variance + _RIDGE[0]), torch.ones_like(mean[:C]))
        joint = start
        rows = torch.arange(n, device=table.device)
        keys = make_keys(derive(seed, "joint"), 2 * (burn + averaged), table.device)
        first, second = torch.zeros_like(joint.mean), torch.zeros_like(joint.covariance)
        ridge = _RIDGE[0] + _RIDGE[1] * P / max(1, n)
        for r in range(burn + averaged):
            factors = _Factors.of(joint, table.layout)
            uniform = backend.uniform(rows, max(1, len(chain.groups)), keys[2 * r]).double()
            normal = backend.normal(rows, max(1, C), keys[2 * r + 1]).double()
            centre, noise = chain.sweep_apart(factors, uniform, normal)
            z = torch.cat([centre, chain.x[:, C:]], 1)
            share = 1.0 if r < burn else 1 / (r - burn + 1)
            moment = z.T @ z
            moment[:C, :C] += noise.T @ noise
            first, second = torch.lerp(first, z.mean(0), share), torch.lerp(second, moment / n, share)
            covariance = second - torch.outer(first, first)
            variances = covariance.diagonal().clamp(min=_LEAST_VARIANCE)
            joint = cls(first, covariance + torch.diag(ridge * variances), joint.scale)
        return replace(joint, scale=chain.errors(_Factors.of(joint, table.layout)) * (1 + P / max(1, n)) ** 0.5)

    def draw(
        self, table: EncodedTable, backend: Backend, seed: int, *, first_row: int = 0, columns: Tensor | None = None
    ) -> EncodedTable:
        """The table with the missing cells of all columns that have features drawn; row i depends on (seed, i) alone.

        With ``columns``, bool ``[J]``, only rows where one of these is missing are drawn. The codes of columns without
        features stay as they are, and ``values`` are left out.
        """
        layout, C = table.layout, table.layout.num_continuous
        factors, holes = _Factors.of(self, layout), ~table.observed()
        groups = [C + k for k, _, _ in _groups(layout)]
        swept = holes[:, groups].any(1)
        drawn = holes[:, :C].any(1) | swept if columns is None else holes[:, columns].any(1)
        continuous, codes = table.continuous.clone(), table.codes.clone()
        # Numbers are drawn at once: without a missing category nothing is drawn in turn.
        for picked, sweeps in ((drawn & swept, SWEEPS), (drawn & ~swept, 1)):
            index = picked.nonzero()[:, 0]
            size = next((size for size in _TILES if size >= len(index)), _TILES[-1])
            for begin, end, piece in tiles(table.rows(index), size):
                own, rows = index[begin:end], torch.nn.functional.pad(index[begin:end], (0, size - (end - begin)))
                new = self._drawn(piece, factors, backend, make_keys(seed, 2 * sweeps, table.device), first_row + rows)
                continuous[own], codes[own] = new.continuous[: end - begin], new.codes[: end - begin]
        return table.with_cells(continuous, codes, None)

    def _drawn(
        self, table: EncodedTable, factors: _Factors, backend: Backend, keys: Tensor, rows: Tensor
    ) -> EncodedTable:
        """The rows of one tile, which have these numbers, after a sweep for each two keys."""
        chain = _Chain.start(table)
        for s in range(0, len(keys), 2):
            uniform = backend.uniform(rows, max(1, len(chain.groups)), keys[s]).double()
            normal = backend.normal(rows, max(1, table.layout.num_continuous), keys[s + 1]).double()
            if s < len(keys) - 2:
                chain.sweep(factors, uniform, normal)
        centre, noise = chain.sweep_apart(factors, uniform, normal)
        numbers = (centre + self.scale * noise).to(table.continuous.dtype)
        continuous = torch.where(table.continuous.isnan(), numbers, table.continuous)
        return table.with_cells(continuous, torch.where(table.codes < 0, chain.codes, table.codes), None)


@dataclass(frozen=True)
class _Factors:
    """Matrices of a distribution from which cells are drawn given others.

    Parameters
    ----------
    mean, precision : Tensor
        Of the features, ``[P]`` and ``[P, P]``.
    root : Tensor
        The lower triangular root of the numbers' block of the precision, ``[C, C]``.
    likelihood : Tensor
        What the numbers tell of the categories: minus the logarithm of their density given the categories is half the
        quadratic form of this matrix about the mean, but for a term of the numbers alone. ``[P, P]``.
    forms : Tensor
        Half the quadratic form of each category's one-hot row alone, ``[P]``.
    weights : Tensor
        The categories' probabilities given the other categories are linear in these: ``[P, P]``.
    """

    mean: Tensor
    precision: Tensor
    root: Tensor
    likelihood: Tensor
    forms: Tensor
    weights: Tensor

    @classmethod
    def of(cls, joint: NormalDraws, layout: Layout) -> _Factors:
        """Of a distribution."""
        C = layout.num_continuous
        precision = _inverse(joint.covariance)
        root = torch.linalg.cholesky(precision[:C, :C])
        alone = _inverse(joint.covariance[C:, C:])
        likelihood, weights = precision.clone(), torch.zeros_like(precision)
        likelihood[C:, C:] -= alone
        forms = torch.zeros_like(joint.mean)
        for _, first, last in _groups(layout):
            own = slice(first, last)
            apart = torch.eye(last - first, dtype=precision.dtype, device=precision.device) - joint.mean[own]
            forms[own] = ((apart @ likelihood[own, own]) * apart).sum(1) / 2
            block = alone[:, first - C : last - C]
            weights[C:, own] = -torch.linalg.solve(block[first - C : last - C], block, left=False)
            weights[own, own] = 0.0
        return cls(joint.mean, precision, root, likelihood, forms, weights)

    def chances(self, x: Tensor, own: slice) -> Tensor:
        """The probability of each category of one column given all other cells, rows ``[B, P]`` of mean 0: ``[B, V]``.

        Not the normal density of one-hot rows, which makes two rare categories that meet a few times inseparable.
        """
        prior = self.mean[own].clamp(min=_LEAST_PROBABILITY)
        prior = torch.maximum(self.mean[own] + x @ self.weights[:, own], _LEAST_SHARE * prior)
        told = x @ self.likelihood[:, own] - x[:, own] @ self.likelihood[own, own]
        return torch.softmax(prior.log() - told - self.forms[own], 1)


def _inverse(matrix: Tensor) -> Tensor:
    return torch.cholesky_inverse(torch.linalg.cholesky(matrix)).contiguous()


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
            parts.append(one_hot(table.codes[:, k], last - first))
        x = torch.cat(parts, 1)
        return cls(x.nan_to_num(0.0), table.codes.clone(), x.isnan(), groups)

    def sweep(self, factors: _Factors, uniform: Tensor, normal: Tensor) -> None:
        """Draw the missing categories of each column in turn, then all missing numbers at once."""
        x, C = self._drawn_categories(factors, uniform), len(factors.root)
        numbers = _solved_numbers(factors, x[:, :C], self.missing[:, :C], _pull(factors, normal) - _told(factors, x))
        self.x = torch.cat([numbers, x[:, C:]], 1) + factors.mean

    def sweep_apart(self, factors: _Factors, uniform: Tensor, normal: Tensor) -> tuple[Tensor, Tensor]:
        """As `sweep`; the numbers' conditional means, and what was drawn about them, both ``[B, C]``."""
        x, C = self._drawn_categories(factors, uniform), len(factors.root)
        missing = self.missing[:, :C]
        centre = _solved_numbers(factors, x[:, :C], missing, -_told(factors, x))
        noise = _solved_numbers(factors, torch.zeros_like(centre), missing, _pull(factors, normal))
        self.x = torch.cat([centre + noise, x[:, C:]], 1) + factors.mean
        return centre + factors.mean[:C], noise

    def errors(self, factors: _Factors) -> Tensor:
        """Root mean square errors of the known numbers given all other cells, in the distribution's units: ``[C]``."""
        C = len(factors.root)
        pulled = ((self.x - factors.mean) @ factors.precision)[:, :C] * factors.precision.diagonal()[:C].rsqrt()
        known = ~self.missing[:, :C]
        mean = (pulled.square() * known).sum(0) / known.sum(0).clamp(min=1)
        return mean.sqrt().clamp(*_SCALES)

    def _drawn_categories(self, factors: _Factors, uniform: Tensor) -> Tensor:
        """The features about their means, with new categories."""
        x, first_time = self.x - factors.mean, self.fresh
        if first_time:
            # The means given the known cells, of categories too, begin the chain near its end.
            known = torch.where(self.missing, 0.0, x)
            x, self.fresh = conditional(factors.precision, known, self.missing, steps=_STEPS), False
        for g, (k, first, last) in enumerate(self.groups):
            hole, own = self.missing[:, first], slice(first, last)
            if first_time:
                chance = (x[:, own] + factors.mean[own]).clamp(min=_LEAST_PROBABILITY)
            else:
                chance = factors.chances(x, own)
            code = draw_codes(chance, uniform[:, g : g + 1])[:, 0]
            x[:, own] = torch.where(hole[:, None], one_hot(code, last - first) - factors.mean[own], x[:, own])
            self.codes[:, k] = torch.where(hole, code.to(self.codes.dtype), self.codes[:, k])
        return x


def _pull(factors: _Factors, normal: Tensor) -> Tensor:
    """Normal rows whose covariance is the precision of the numbers, ``[B, C]``."""
    C = len(factors.root)
    return normal[:, :C] @ factors.root.T


def _told(factors: _Factors, x: Tensor) -> Tensor:
    """The categories' part of the numbers' equations, of rows ``[B, P]`` of mean 0: ``[B, C]``."""
    C = len(factors.root)
    return x[:, C:] @ factors.precision[C:, :C]


def _solved_numbers(factors: _Factors, numbers: Tensor, missing: Tensor, pull: Tensor) -> Tensor:
    """Numbers ``[B, C]`` of mean 0, the missing ones solved for by the numbers' block of the precision alone.

    See `conditional`; the categories' part is in ``pull``.
    """
    C = len(factors.root)
    return conditional(factors.precision[:C, :C], numbers, missing, pull, steps=_STEPS)


def _groups(layout: Layout) -> list[tuple[int, int, int]]:
    """Of each categorical column with features: its number among them, and where its features begin and end."""
    groups, first = [], layout.num_continuous
    for k, size in enumerate(layout.cardinalities):
        if size <= MOST_CATEGORIES:
            groups.append((k, first, first + size))
            first += size
    return groups
