"""Quantiles of a column's scores, in drawn rows and in a table with its missing cells drawn."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from missdiff_fast._engine.protocols import Backend
from missdiff_fast._engine.random import derive, shuffled
from missdiff_fast._engine.sampling import fill
from missdiff_fast.config import SolverConfig
from missdiff_fast.config.drawing import LEAST_ROWS
from missdiff_fast.table.encoded import EncodedTable

_QUANTILES = 64  # of a column's scores at most
_CELLS = 50  # of the table between two quantiles at least
_OBSERVED = 0.5  # least number of observed cells of a column with calibrated scores, as a share of the most of any
_CHANCE = 1.628  # of 100 samples one is farther from its distribution, in units of 1 / sqrt(cells)
_FILLED = 1 << 15  # The share of drawn values is as exact as that of so many cells; see `ScoreCells.of`.


def calibrated(table: EncodedTable) -> list[int]:
    """The continuous columns whose scores are calibrated: those that enough rows observe."""
    count = table.observed()[:, : table.layout.num_continuous].sum(0).tolist()
    return [c for c, cells in enumerate(count) if cells >= _OBSERVED * max(count)]


def unremarkable(table: EncodedTable, drawn: EncodedTable, columns: Sequence[int]) -> list[int]:
    """Those of the columns whose observed scores differ from drawn ones by no more than chance explains.

    By the Kolmogorov-Smirnov distance at a level of 1 %: a table has many columns.
    """
    return [c for c in columns if _distance(*(ScoreCells(rows).scores(c)[0] for rows in (table, drawn))) < _CHANCE]


def _distance(one: Tensor, other: Tensor) -> float:
    """The greatest difference of the distribution functions, in units of its scale under one distribution."""
    if not (len(one) and len(other)):
        return math.inf
    places = torch.cat([one, other]).sort().values
    shares = [torch.searchsorted(side.sort().values, places, right=True) / len(side) for side in (one, other)]
    return float((shares[0] - shares[1]).abs().max()) / math.sqrt(1 / len(one) + 1 / len(other))


def quantiles(drawn: EncodedTable, target: ScoreCells, columns: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Quantiles of drawn scores and of the target's, for ``columns``, for others zeros: both ``[C, Q]``.

    Of a column with few cells some of the Q quantiles are repeated; of few rows there are none.
    """
    most = min(_QUANTILES, len(target.table) // _CELLS, len(drawn) // _CELLS)
    found = torch.zeros((2, drawn.layout.num_continuous, most if most >= 2 else 0), device=drawn.device)
    for c in columns if most >= 2 else ():
        cells = [ScoreCells(drawn).scores(c), target.scores(c)]
        number = min(most, *(int(weights.sum()) // _CELLS for _, weights in cells))
        if number >= 2:
            at = torch.linspace(0, number - 1, most, device=drawn.device).round()
            for side, (scores, weights) in zip(found, cells, strict=True):
                side[c] = _weighted(scores, weights, (at + 0.5) / number)
    return found[0], found[1]


def _weighted(scores: Tensor, weights: Tensor, at: Tensor) -> Tensor:
    scores, order = scores.sort()
    below = weights[order].cumsum(0)
    return scores[torch.searchsorted(below, at.double() * below[-1]).clamp(max=len(scores) - 1)].float()


@dataclass(frozen=True)
class ScoreCells:
    """The cells of a table, and some of its rows with their missing cells drawn, which stand for all missing cells."""

    table: EncodedTable
    filled: EncodedTable | None = None
    drawn: Tensor | None = None  # where cells of ``filled`` are drawn: bool [M, J]

    @classmethod
    def of(
        cls,
        table: EncodedTable,
        network: nn.Module,
        columns: Sequence[int],
        solver: SolverConfig,
        backend: Backend,
        seed: int,
    ) -> ScoreCells:
        """Draw missing cells, of as many rows as the columns' drawn values need.

        Of a column with few missing cells few rows do: its drawn cells are few among the observed ones. So the rows are
        in proportion to the largest missing share.
        """
        most = float((~table.observed())[:, list(columns)].float().mean(0).max())
        if most == 0:
            return cls(table)
        rows = shuffled(len(table), derive(seed, "choose", 3))[: max(LEAST_ROWS, math.ceil(most * _FILLED))]
        some = table.rows(rows.to(table.device))
        return cls(table, fill(network, some, solver, backend, derive(seed, "calibrate")), ~some.observed())

    def scores(self, c: int) -> tuple[Tensor, Tensor]:
        """The scores of a column's cells that are no atoms, and the number of cells that each stands for.

        Where all values are atoms nothing reads their scores, and those of the last one are given.
        """
        scores, weights = self._cells(c)
        if (k := self.table.layout.atoms().get(c)) is None:
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
