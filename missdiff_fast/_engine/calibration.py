"""Calibration of a trained network: drawn rows get the marginal distributions of the table."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from missdiff_fast._engine.protocols import Backend
from missdiff_fast._engine.random import derive
from missdiff_fast._engine.sampling import fill
from missdiff_fast._engine.tiling import unknown
from missdiff_fast.config import Config
from missdiff_fast.networks import Denoiser
from missdiff_fast.table.encoded import EncodedTable, Layout

_ROWS = 1 << 15  # most rows that the last round draws, and most rows of the table whose missing cells are drawn
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
    drawn, wanted : Tensor
        Quantiles of each column's scores in drawn rows and in the table, ascending, float32 ``[C, Q]``, equal where a
        column is left as it is. Drawn scores are mapped from one to the other, between the quantiles in proportion.

    Examples
    --------
    >>> calibration = Calibration.none(Layout(1, (2,)))
    >>> calibration.scores(torch.tensor([[0.5]])).tolist()
    [[0.5]]
    """

    log_weights: Tensor
    drawn: Tensor
    wanted: Tensor

    @classmethod
    def none(cls, layout: Layout, device: torch.device | None = None) -> Calibration:
        """No corrections."""
        quantiles = torch.zeros((layout.num_continuous, 0), device=device)
        return cls(torch.zeros(layout.width - layout.num_continuous, device=device), quantiles, quantiles)

    def network(self, network: Denoiser) -> Denoiser:
        """The network, or where there are weights a copy of it whose categories have them."""
        if not bool(self.log_weights.any()):
            return network
        network = copy.deepcopy(network)
        first = network.num_continuous
        with torch.no_grad():
            network.outputs.bias[first : first + len(self.log_weights)] += self.log_weights
        return network

    def rows(self, x: Tensor, known: EncodedTable) -> Tensor:
        """Encoded rows ``[B, D]``, with corrected scores where nothing of a row is known: others are conditional."""
        if self.drawn.shape[1] == 0:
            return x
        own, rest = x.split([self.drawn.shape[0], x.shape[1] - self.drawn.shape[0]], 1)
        free = ~known.observed().any(1, keepdim=True)
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
        return {"log_weights": self.log_weights, "drawn_quantiles": self.drawn, "wanted_quantiles": self.wanted}

    @classmethod
    def of(cls, tensors: dict[str, Tensor], layout: Layout, device: torch.device) -> Calibration:
        """From the tensors of a model file; older versions have no quantiles, or no weights either."""
        none = cls.none(layout).tensors()
        return cls(*(tensors.get(name, default).to(device) for name, default in none.items()))


def calibrate(network: Denoiser, table: EncodedTable, config: Config, backend: Backend, seed: int) -> Calibration:
    """Corrections with which drawn rows have categories as often, and scores distributed, as the table.

    The distributions to reach are those of the table with its missing cells drawn given the observed ones, which under
    MAR are those of complete rows. Scores of columns with atoms stay as they are: their atoms are calibrated. So do
    those of columns observed less than half as often as the one observed most, whose target would be drawn cells.

    Parameters
    ----------
    network : Denoiser
        The trained network.
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
    complete = _complete(network, table, config, backend, seed)
    most, wanted = min(_ROWS, max(1024, 4 * len(table))), _shares(complete)

    def drawn(found: Calibration, number: int, halvings: int) -> EncodedTable:
        """The rows of draw ``number``, half as many for each halving."""
        nothing = unknown(max(512, most >> halvings), layout, table.device)
        return fill(found.network(network), nothing, config.solver, backend, derive(seed, "calibrate", number))

    for r in range(rounds if layout.cardinalities else 0):
        # A round draws twice as many rows as the one before: the first differences are the largest.
        rows = drawn(found, r + 1, rounds - 1 - r)
        got, least = _shares(rows), _PSEUDO_COUNT / len(rows)
        weights = found.log_weights + (_DAMPING if r else 1.0) * ((wanted + least) / (got + least)).log()
        found = replace(found, log_weights=weights)
    if not scores:
        return found
    return Calibration(found.log_weights, *_quantiles(drawn(found, rounds + 1, 1), complete, scores))


def _with_scores(table: EncodedTable) -> list[int]:
    """The continuous columns whose scores are calibrated."""
    layout = table.layout
    count = table.observed()[:, : layout.num_continuous].sum(0).tolist()
    return [c for c, cells in enumerate(count) if cells >= _OBSERVED * max(count) and c not in layout.partners]


def _quantiles(drawn: EncodedTable, complete: EncodedTable, columns: list[int]) -> tuple[Tensor, Tensor]:
    """Quantiles of the scores of drawn rows and of complete ones, equal but for some columns: ``[C, Q]``."""
    number = min(_QUANTILES, len(complete) // _CELLS, len(drawn) // _CELLS)
    if number < 2:
        return (torch.zeros((drawn.layout.num_continuous, 0), device=drawn.device),) * 2
    at = (torch.arange(number, device=drawn.device) + 0.5) / number
    own, theirs = (table.continuous.sort(0).values[(at * len(table)).long()].T.float() for table in (drawn, complete))
    wanted = own.clone()
    wanted[columns] = theirs[columns]
    return own.contiguous(), wanted.contiguous()


def _complete(network: Denoiser, table: EncodedTable, config: Config, backend: Backend, seed: int) -> EncodedTable:
    """The table, or where cells are missing some of its rows with these cells drawn."""
    if bool(table.observed().all()):
        return table
    seed = derive(seed, "calibrate")
    rows = torch.randperm(len(table), generator=torch.Generator().manual_seed(seed))[:_ROWS].to(table.device)
    return fill(network, table.rows(rows), config.solver, backend, seed)


def _shares(table: EncodedTable) -> Tensor:
    """The share of each category among the cells of its column: ``[D - C]``."""
    sizes = enumerate(table.layout.cardinalities)
    counts = [torch.bincount(table.codes[:, k].long(), minlength=size) for k, size in sizes]
    return torch.cat([table.continuous.new_empty(0), *counts]) / len(table)
