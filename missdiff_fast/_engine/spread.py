"""The last noise level of draws of missing cells: with it, the truth has every place among draws equally often."""

from __future__ import annotations

import math
from collections.abc import Sequence
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
_COPIES = 3  # of the held-out rows at most, each with other cells hidden
_ENOUGH_CELLS = 4000  # hidden, for which no more copies are made
_LEAST_CELLS = 1000  # hidden: of so many the spread is known to about 4 %, and of fewer the lowest level is kept
_LEAST_RATIO = 1e-3  # of distances; draws that agree and are wrong would have none


def choose_sigma_min(
    network: nn.Module, held_out: EncodedTable, solver: SolverConfig, highest: float, backend: Backend, seed: int
) -> float:
    """The least noise level of draws of missing cells, from ``solver.sigma_min`` to ``highest``.

    The last step of the solver returns the mean of what is left open: the higher its level, the less drawn numbers
    spread, while categories, which a trained network decides too early, spread a little more. Of an exact network the
    lowest level is the best. A trained one adds its errors to the spread of numbers, and most where the known cells
    leave little of it.

    A fifth of the known cells of the held-out rows is hidden and drawn at the lowest and the highest level. A number
    drawn as the truth is has every place among draws equally often: the level is that at which its mean distance from
    the middle place is as expected, if there is one between the two, or else the better one. With fewer than 1,000
    hidden numbers the categories tell it, whose draws then differ from one another as often as from the truth. With few
    hidden cells of either kind it is the lowest level.

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
    C = held_out.layout.num_continuous
    cells = HIDDEN_SHARE * max(int(part.sum()) for part in held_out.observed().tensor_split([C], 1))
    number = min(_COPIES, math.ceil(_ENOUGH_CELLS / max(1, cells)))
    truth = held_out.rows(torch.arange(len(held_out), device=held_out.device).repeat(number))
    holes = hide_some(truth, HIDDEN_SHARE, make_key(derive(seed, "hide"), 1, truth.device), backend)
    hidden = (truth.observed() & ~holes.observed()).tensor_split([C], 1)
    if max(int(cells.sum()) for cells in hidden) < _LEAST_CELLS:
        return lowest
    low, high = (
        _excess(network, truth, holes, hidden, replace(solver, sigma_min=level), backend, derive(seed, "hide", 3))
        for level in (lowest, highest)
    )
    if low * high < 0:
        return lowest + (highest - lowest) * low / (low - high)
    return lowest if abs(low) <= abs(high) else highest


def _excess(
    network: nn.Module,
    truth: EncodedTable,
    holes: EncodedTable,
    hidden: Sequence[Tensor],
    solver: SolverConfig,
    backend: Backend,
    seed: int,
) -> float:
    """The excess of the draws' spread: greater than 0 where draws are too wide, less where they are too narrow.

    Of numbers, the expected distance of the truth from the middle place less the mean distance. Of categories, the
    logarithm of a ratio: how often two draws differ, divided by how often a draw differs from the truth.
    """
    copies = holes.rows(torch.arange(len(holes), device=holes.device).repeat(_DRAWS))
    filled = fill(network, copies, solver, backend, seed)
    draws = [filled.rows(slice(m * len(truth), (m + 1) * len(truth))) for m in range(_DRAWS)]
    numbers, categories = hidden
    if int(numbers.sum()) >= _LEAST_CELLS:
        # Values, which may be equal; scores of equal ones are not.
        own, *theirs = ((rows.continuous if rows.values is None else rows.values)[numbers] for rows in (truth, *draws))
        return _expected_distance(_DRAWS) - float(_distance_from_middle(own, torch.stack(theirs)).mean())
    apart = sum(_differ(one, other, categories) for one, other in combinations(draws, 2)) / math.comb(_DRAWS, 2)
    wrong = sum(_differ(one, truth, categories) for one in draws) / _DRAWS
    return math.log(max(apart / wrong, _LEAST_RATIO)) if wrong else 0.0


def _differ(one: EncodedTable, other: EncodedTable, cells: Tensor) -> int:
    """How many of the categorical cells, bool ``[N, K]``, have not the same category."""
    return int((one.codes != other.codes)[cells].sum())


def _distance_from_middle(truth: Tensor, draws: Tensor) -> Tensor:
    """How far the place of each truth among its draws ``[M, n]`` is from the middle one, from 0 to 1: ``[n]``.

    Among equal ones it has several places, whose mean distance counts.

    >>> _distance_from_middle(torch.tensor([0.0, 1.0, 5.0]), torch.tensor([[1.0, 1.0, 1.0], [2.0, 2.0, 2.0]])).tolist()
    [1.0, 0.5, 1.0]
    """
    number = len(draws)
    below, equal = (draws < truth).sum(0), (draws == truth).sum(0)
    places = torch.arange(number + 1, device=truth.device)[:, None]
    shared = (places >= below) & (places <= below + equal)
    distance = (2 * places / number - 1).abs()
    return (distance * shared).sum(0) / shared.sum(0)


def _expected_distance(number: int) -> float:
    """The expected distance where every place among the draws is equally likely.

    >>> _expected_distance(4)
    0.6
    """
    return sum(abs(2 * place / number - 1) for place in range(number + 1)) / (number + 1)
