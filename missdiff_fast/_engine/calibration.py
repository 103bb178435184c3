"""Calibration of a trained network: the categories of drawn rows get the shares that they have in the table."""

from __future__ import annotations

import copy

import torch
from torch import Tensor

from missdiff_fast._engine.protocols import Backend
from missdiff_fast._engine.random import derive
from missdiff_fast._engine.sampling import fill
from missdiff_fast._engine.tiling import unknown
from missdiff_fast.config import Config
from missdiff_fast.networks import Denoiser
from missdiff_fast.table.encoded import EncodedTable

_ROWS = 1 << 15  # most rows that the last round draws, and most rows of the table whose missing cells are drawn
_PSEUDO_COUNT = 8.0  # added to each category's count, so that rare ones do not follow chance
_DAMPING = 0.7  # of the rounds after the first


def calibrate(network: Denoiser, table: EncodedTable, config: Config, backend: Backend, seed: int) -> Tensor:
    """Weights of the categories, with which drawn rows have them as often as the table.

    A weight multiplies the prior probability of its category, and with it the posterior at every noise level: its
    logarithm is added to the category's logit. The shares to reach are those of the table with its missing cells drawn
    given the observed ones, which under MAR are those of complete rows.

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

    Returns
    -------
    Tensor
        Logarithms of the weights, float32 ``[D - C]``; 0 without any rounds.
    """
    layout = table.layout
    weights = torch.zeros(layout.width - layout.num_continuous, device=table.device)
    if config.calibration.rounds == 0 or not layout.cardinalities:
        return weights
    wanted = _shares(_complete(network, table, config, backend, seed))
    most = unknown(min(_ROWS, max(1024, 4 * len(table))), layout, table.device)
    for r in range(config.calibration.rounds):
        # A round draws twice as many rows as the one before: the first differences are the largest.
        nothing = most.rows(slice(max(512, len(most) >> (config.calibration.rounds - 1 - r))))
        drawn = fill(weighted(network, weights), nothing, config.solver, backend, derive(seed, "calibrate", r + 1))
        got, least = _shares(drawn), _PSEUDO_COUNT / len(nothing)
        weights += (_DAMPING if r else 1.0) * ((wanted + least) / (got + least)).log()
    return weights


def weighted(network: Denoiser, weights: Tensor) -> Denoiser:
    """A copy of the network whose categories have these weights, given by their logarithms ``[D - C]``."""
    network = copy.deepcopy(network)
    first = network.num_continuous
    with torch.no_grad():
        network.outputs.bias[first : first + len(weights)] += weights
    return network


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
    return torch.cat(counts) / len(table)
