"""Calibration of a trained network: drawn rows get the marginal distributions of the table."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from missdiff_fast._engine.protocols import Backend
from missdiff_fast._engine.random import derive
from missdiff_fast._engine.sampling import fill
from missdiff_fast._engine.shares import hide_some, mean_chances, shares, shares_of
from missdiff_fast._engine.tiling import unknown
from missdiff_fast.config import Config
from missdiff_fast.networks import Denoiser
from missdiff_fast.table.encoded import EncodedTable, Layout

_FILLED = 1 << 15  # cells of a number that are drawn at most, where all of it is missing
_CONDITIONAL_ROWS = 1 << 13  # of the table, whose missing cells a round draws for the weights of rows with known cells
_CONDITIONAL_ROUNDS = 2
_HIDDEN = 0.1  # of the known cells of these rows
_LEAST_ROWS = 1024  # of a round, and of those whose missing cells are drawn
_PSEUDO_COUNT = 8.0  # added to each category's count, so that rare ones do not follow chance
_DAMPING = 0.7  # of the rounds after the first
_QUANTILES = 64  # of a column's scores at most
_CELLS = 50  # of the table between two quantiles at least
_OBSERVED = 0.5  # least number of observed cells of a column with calibrated scores, as a share of the most of any


@dataclass(frozen=True)
class Calibration:
    """Corrections of drawn rows.

    Parameters
    ----------
    log_weights : Tensor
        Logarithms of the weights of the categories, float32 ``[D - C]``. A weight multiplies the prior probability of
        its category, and with it the posterior at every noise level: the logarithm is added to the category's logit.
    conditional : Tensor
        The same for rows with known cells.
    drawn, wanted : Tensor
        Quantiles of each column's scores in drawn rows and in the table, ascending, float32 ``[C, Q]``, equal where a
        column is left as it is. Drawn scores are mapped from one to the other, between the quantiles in proportion.
        Of a column with atoms they are those of the cells with another value.

    Examples
    --------
    >>> calibration = Calibration.none(Layout(1, (2,)))
    >>> calibration.scores(torch.tensor([[0.5]])).tolist()
    [[0.5]]
    """

    log_weights: Tensor
    conditional: Tensor
    drawn: Tensor
    wanted: Tensor

    @classmethod
    def none(cls, layout: Layout, device: torch.device | None = None) -> Calibration:
        """No corrections."""
        quantiles = torch.zeros((layout.num_continuous, 0), device=device)
        weights = torch.zeros(layout.width - layout.num_continuous, device=device)
        return cls(weights, weights, quantiles, quantiles)

    def network(self, network: Denoiser, *, conditional: bool = False) -> Denoiser:
        """The network, or where there are weights a copy of it whose categories have them."""
        return _weighted(network, self.conditional if conditional else self.log_weights)

    def rows(self, x: Tensor, known: EncodedTable) -> Tensor:
        """Encoded rows ``[B, D]``, with corrected scores where nothing of a row is known: others are conditional.

        The score of an atom stays.
        """
        if self.drawn.shape[1] == 0:
            return x
        own, rest = x.split([self.drawn.shape[0], x.shape[1] - self.drawn.shape[0]], 1)
        free = ~known.observed().any(1, keepdim=True).repeat(1, own.shape[1])
        groups = rest.split(known.layout.cardinalities, 1)
        for c, k in _atoms(known.layout).items():
            free[:, c] &= groups[k].argmax(1) == groups[k].shape[1] - 1
        return torch.cat([torch.where(free, self.scores(own), own), rest], 1)

    def scores(self, scores: Tensor) -> Tensor:
        """Corrected scores, ``[B, C]``; beyond the outer quantiles all are moved as these are."""
        if self.drawn.shape[1] == 0:
            return scores
        moved = torch.empty_like(scores)
        for c, (drawn, wanted) in enumerate(zip(self.drawn, self.wanted, strict=True)):
            x = scores[:, c].contiguous()
            below = (torch.searchsorted(drawn, x) - 1).clamp(0, len(drawn) - 2)
            share = (x - drawn[below]) / (drawn[below + 1] - drawn[below]).clamp(min=1e-6)
            inside = torch.lerp(wanted[below], wanted[below + 1], share.clamp(0, 1))
            moved[:, c] = inside + (x - drawn[-1]).clamp(min=0) + (x - drawn[0]).clamp(max=0)
        return moved

    def tensors(self) -> dict[str, Tensor]:
        """The fields by name, in their order, for a model file."""
        names = "log_weights", "conditional_log_weights", "drawn_quantiles", "wanted_quantiles"
        return dict(zip(names, (self.log_weights, self.conditional, self.drawn, self.wanted), strict=True))

    @classmethod
    def of(cls, tensors: dict[str, Tensor], layout: Layout, device: torch.device) -> Calibration:
        """From the tensors of a model file; older versions have no quantiles, or no weights either."""
        none = cls.none(layout).tensors()
        return cls(*(tensors.get(name, default).to(device) for name, default in none.items()))


def calibrate(
    network: Denoiser, imputer: Denoiser, table: EncodedTable, config: Config, backend: Backend, seed: int
) -> Calibration:
    """Corrections with which drawn rows have categories as often, and scores distributed, as the table.

    The distributions to reach are those of the table with its missing cells filled given the observed ones, which under
    MAR are those of complete rows: missing categories count by their probabilities in one pass, numbers as drawn. Of
    columns with atoms the scores of other values are calibrated. Those of columns observed less than half as often as
    the one observed most stay as they are: their target would be drawn cells. Quantiles of drawn scores are those of
    the last round's rows.

    Rows with known cells have weights of their own, with which drawn categories are as frequent as their probabilities
    in one pass say.

    Parameters
    ----------
    network : Denoiser
        The trained network, which draws.
    imputer : Denoiser
        The network whose probabilities missing categories have.
    table : EncodedTable
        The training rows.
    config : Config
        Settings: ``calibration`` and the solver.
    backend : Backend
        The ops, the network's passes and the training step.
    seed : int
        Everything random follows from it.
    """
    layout, rounds = table.layout, config.calibration.rounds
    found = Calibration.none(layout, table.device)
    scores = _with_scores(table) if config.calibration.scores else []
    if rounds == 0 or not (layout.cardinalities or scores):
        return found
    found = replace(found, conditional=_conditional(network, imputer, table, config, backend, seed))
    wanted = shares(table, mean_chances(imputer, table, backend, derive(seed, "calibrate")))
    for r in range(rounds):
        # A round draws four times as many rows as the one before: the first differences are the largest.
        most = min(config.calibration.rows, max(_LEAST_ROWS, 4 * len(table)))
        nothing = unknown(max(_LEAST_ROWS, most >> 2 * (rounds - 1 - r)), layout, table.device)
        drawn = fill(found.network(network), nothing, config.solver, backend, derive(seed, "calibrate", r + 1))
        found = replace(found, log_weights=found.log_weights + _change(wanted, shares(drawn), len(drawn), r))
    if not scores:
        return found
    return replace(found, **_quantiles(drawn, _Cells.of(table, network, config, backend, seed), scores))


def _change(wanted: Tensor, drawn: Tensor, count: Tensor | int, r: int) -> Tensor:
    """What round ``r`` adds to the weights of categories, given their shares and the number of drawn cells."""
    least = _PSEUDO_COUNT / count
    return (_DAMPING if r else 1.0) * ((wanted + least) / (drawn + least)).log()


def _conditional(
    network: Denoiser, imputer: Denoiser, table: EncodedTable, config: Config, backend: Backend, seed: int
) -> Tensor:
    """The logarithms of the weights for rows with known cells, ``[D - C]``; a tenth of the known cells is hidden."""
    layout, seed = table.layout, derive(seed, "calibrate")
    weights = Calibration.none(layout, table.device).conditional
    if not layout.cardinalities:
        return weights
    order = torch.randperm(len(table), generator=torch.Generator().manual_seed(seed))
    some = hide_some(table.rows(order[:_CONDITIONAL_ROWS].to(table.device)), _HIDDEN, backend, seed)
    missing = some.codes < 0
    wanted, count = mean_chances(imputer, some, backend, seed), layout.of_groups(missing.sum(0).clamp(min=1))
    solver = replace(config.solver, steps=config.refine.solver_steps)
    for r in range(min(config.calibration.rounds, _CONDITIONAL_ROUNDS)):
        drawn = fill(_weighted(network, weights), some, solver, backend, derive(seed, "fill", r))
        weights = weights + _change(wanted, shares_of(drawn, missing), count, r)
    return weights


def _weighted(network: Denoiser, log_weights: Tensor) -> Denoiser:
    if not bool(log_weights.any()):
        return network
    network = copy.deepcopy(network)
    first = network.num_continuous
    with torch.no_grad():
        network.outputs.bias[first : first + len(log_weights)] += log_weights
    return network


def _with_scores(table: EncodedTable) -> list[int]:
    """The continuous columns whose scores are calibrated."""
    layout = table.layout
    count = table.observed()[:, : layout.num_continuous].sum(0).tolist()
    return [c for c, cells in enumerate(count) if cells >= _OBSERVED * max(count)]


def _atoms(layout: Layout) -> dict[int, int]:
    """The categorical column with the atoms of each continuous one that has some; the last category is no atom."""
    first = layout.num_categorical - len(layout.partners)
    return {c: k for k, c in enumerate(layout.partners, first) if c < layout.num_continuous}


def _quantiles(drawn: EncodedTable, target: _Cells, columns: list[int]) -> dict[str, Tensor]:
    """Quantiles of drawn scores, and for some columns those of the target, for others the same: ``[C, Q]``."""
    most = min(_QUANTILES, len(target.table) // _CELLS, len(drawn) // _CELLS)
    if most < 2:
        return {}
    quantiles = torch.zeros((2, drawn.layout.num_continuous, most), device=drawn.device)
    for c in columns:
        cells = [_Cells(drawn).scores(c), target.scores(c)]
        number = min(most, *(int(weights.sum()) // _CELLS for _, weights in cells))
        if number >= 2:
            # Of fewer than ``most`` quantiles some are repeated, between which nothing is mapped.
            at = torch.linspace(0, number - 1, most, device=drawn.device).round()
            for side, (scores, weights) in zip(quantiles, cells, strict=True):
                side[c] = _weighted_quantiles(scores, weights, (at + 0.5) / number)
    return {"drawn": quantiles[0], "wanted": quantiles[1]}


def _weighted_quantiles(scores: Tensor, weights: Tensor, at: Tensor) -> Tensor:
    scores, order = scores.sort()
    below = weights[order].cumsum(0)
    return scores[torch.searchsorted(below, at.double() * below[-1]).clamp(max=len(scores) - 1)].float()


@dataclass(frozen=True)
class _Cells:
    """The cells of a table, and some of its rows with their missing cells drawn, which stand for all missing cells."""

    table: EncodedTable
    filled: EncodedTable | None = None
    drawn: Tensor | None = None  # where cells of ``filled`` are drawn: bool [M, J]

    @classmethod
    def of(cls, table: EncodedTable, network: Denoiser, config: Config, backend: Backend, seed: int) -> _Cells:
        """Draw the missing cells of as many rows as the number with most of them needs."""
        missing = (~table.observed())[:, : table.layout.num_continuous].float().mean(0)
        most = float(missing[_with_scores(table)].max())
        if most == 0:
            return cls(table)
        seed = derive(seed, "calibrate")
        rows = torch.randperm(len(table), generator=torch.Generator().manual_seed(seed))
        rows = rows[: max(_LEAST_ROWS, math.ceil(most * _FILLED))].to(table.device)
        some = table.rows(rows)
        return cls(table, fill(network, some, config.solver, backend, seed), ~some.observed())

    def scores(self, c: int) -> tuple[Tensor, Tensor]:
        """The scores of a column's cells that are no atoms, and the number of cells that each stands for."""
        scores, weights = self._cells(c)
        if (k := _atoms(self.table.layout).get(c)) is None:
            return scores, weights
        other = self._cells(self.table.layout.num_continuous + k)[0] == self.table.layout.cardinalities[k] - 1
        return scores[other], weights[other]

    def _cells(self, j: int) -> tuple[Tensor, Tensor]:
        """The cells of column j of all J, observed ones and drawn ones, and the number that each stands for."""
        cells = _column(self.table, j)
        observed = ~torch.isnan(cells) if cells.is_floating_point() else cells >= 0
        weights = torch.ones(int(observed.sum()), dtype=torch.float64, device=cells.device)
        cells = cells[observed]
        if self.filled is None or self.drawn is None:
            return cells, weights
        drawn = _column(self.filled, j)[self.drawn[:, j]]
        weight = (len(self.table) - len(cells)) / max(1, len(drawn))
        return torch.cat([cells, drawn]), torch.cat([weights, weights.new_full((len(drawn),), weight)])


def _column(table: EncodedTable, j: int) -> Tensor:
    first = table.layout.num_continuous
    return table.continuous[:, j] if j < first else table.codes[:, j - first]
