"""The last noise level of draws of missing cells: with it, draws differ from one another as much as from the truth."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import combinations

import torch
from torch import Tensor, nn

from missdiff_fast._engine.folds import HIDDEN_SHARE, hide_some
from missdiff_fast._engine.protocols import Backend
from missdiff_fast._engine.random import derive, make_key
from missdiff_fast._engine.sampling import fill
from missdiff_fast.config import SolverConfig
from missdiff_fast.table.encoded import EncodedTable

_DRAWS = 4  # of each hidden cell
_LEAST_CELLS = 1000  # hidden: of so many the spread is known to 3 %, and of fewer the lowest level is kept
_LEAST_RATIO = 1e-3  # of distances; draws that agree and are wrong would have none


def choose_sigma_min(
    network: nn.Module, held_out: EncodedTable, solver: SolverConfig, highest: float, backend: Backend, seed: int
) -> float:
    """The least noise level of draws of missing cells, from ``solver.sigma_min`` to ``highest``.

    The last step of the solver returns the mean of what is left open: the higher its level, the less drawn numbers
    spread, while categories, which a trained network decides too early, spread a little more. Of an exact network the
    lowest level is the best. A trained one adds its errors to the spread of numbers, and most where the known cells
    leave little of it.

    A fifth of the known cells of the held-out rows is hidden and drawn at the lowest and the highest level. Draws that
    have the distribution of the truth are as far from one another as from it. The level is that of equal distances, if
    they are equal between the two, or else the better one. Of fewer than 1,000 hidden cells it is the lowest.

    Parameters
    ----------
    network : nn.Module
        The trained network.
    held_out : EncodedTable
        Rows that it was not trained on.
    solver : SolverConfig
        Noise levels.
    highest : float
        The highest level to choose; at most half of ``solver.sigma_max`` is.
    backend : Backend
        The ops, the network's passes and the training step.
    seed : int
        Everything random follows from it.
    """
    lowest, highest = solver.sigma_min, min(highest, solver.sigma_max / 2)
    if highest <= lowest:
        return lowest
    held_out = replace(held_out, values=None)
    holes = hide_some(held_out, HIDDEN_SHARE, make_key(derive(seed, "hide"), 1, held_out.device), backend)
    hidden = held_out.observed() & ~holes.observed()
    if int(hidden.sum()) < _LEAST_CELLS:
        return lowest
    low, high = (
        _excess(network, held_out, holes, hidden, replace(solver, sigma_min=level), backend, derive(seed, "hide", 3))
        for level in (lowest, highest)
    )
    if low * high < 0:
        return lowest + (highest - lowest) * low / (low - high)
    return lowest if abs(low) <= abs(high) else highest


def _excess(
    network: nn.Module,
    truth: EncodedTable,
    holes: EncodedTable,
    hidden: Tensor,
    solver: SolverConfig,
    backend: Backend,
    seed: int,
) -> float:
    """The logarithm of how much farther draws are from one another than from the truth; 0 where all are right."""
    copies = holes.rows(torch.arange(len(holes), device=holes.device).repeat(_DRAWS))
    filled = fill(network, copies, solver, backend, seed)
    draws = [filled.rows(slice(m * len(truth), (m + 1) * len(truth))) for m in range(_DRAWS)]
    apart = sum(_distance(one, other, hidden) for one, other in combinations(draws, 2)) / math.comb(_DRAWS, 2)
    wrong = sum(_distance(one, truth, hidden) for one in draws) / _DRAWS
    return math.log(max(apart / wrong, _LEAST_RATIO)) if wrong else 0.0


def _distance(one: EncodedTable, other: EncodedTable, cells: Tensor) -> float:
    """The sum over cells, bool ``[N, J]``, of the difference of scores, and of 1 where categories are not equal."""
    numbers, categories = (one.continuous - other.continuous).abs(), (one.codes != other.codes).to(one.continuous.dtype)
    return float(torch.cat([numbers, categories], 1)[cells].double().sum())
