"""Noise levels and column states of a training step, drawn independently for every row."""

from __future__ import annotations

import torch
from torch import Tensor

from missdiff_fast.config import ObjectiveConfig
from missdiff_fast.diffusion.states import CLEAN, HIDDEN, NOISY


def draw_sigma(unit_normal: Tensor, config: ObjectiveConfig) -> Tensor:
    """Noise levels ``[B]`` from standard normal numbers ``[B]``."""
    return torch.exp(unit_normal * config.log_sigma_std + config.log_sigma_mean)


def column_weights(observed: Tensor, power: float, cap: float) -> Tensor:
    """Weights of the columns in the loss, by how often each is observed: float64 ``[J]``.

    Each weight is ``rate ** -power``, at most ``cap`` times the least, scaled so that the mean over observed cells is
    1. A column that is never observed gets the greatest weight, which has no effect.

    Parameters
    ----------
    observed : Tensor
        Which cells are observed, bool ``[N, J]``.
    power : float
        At least 0. With 0 all columns have the same weight, with 1 the same total weight.
    cap : float
        At least 1.

    Examples
    --------
    >>> column_weights(torch.tensor([[True, True], [True, False], [True, False], [True, False]]), 0.5, 10.0)
    tensor([0.8333, 1.6667], dtype=torch.float64)
    """
    count = observed.sum(0).double()
    if not bool(count.any()):
        return torch.ones_like(count)
    weights = (count / count.max()).pow(-power).clamp(max=cap)
    return weights * (count.sum() / (count * weights).sum())


def draw_states(uniform: Tensor, observed: Tensor, shown: Tensor, config: ObjectiveConfig) -> Tensor:
    """The state of every column of every row, uint8 ``[B, J]``.

    Only observed cells can be clean. Cells that are neither observed nor shown are hidden.

    Parameters
    ----------
    uniform : Tensor
        Uniform numbers, ``[B, J + 2]``: the row's kind, the fraction of picked columns, and one number for each column.
    observed : Tensor
        bool ``[B, J]``.
    shown : Tensor
        Cells that hold a value, observed or filled, bool ``[B, J]``.
    config : ObjectiveConfig
        Shares of the kinds of row.
    """
    kind, fraction, column = uniform[:, :1], uniform[:, 1:2], uniform[:, 2:]
    picked = column < fraction
    cut_clean = config.clean_share
    cut_hidden = cut_clean + config.hidden_share
    cut_impute = cut_hidden + config.impute_share
    clean_row = kind < cut_clean
    hidden_row = (kind >= cut_clean) & (kind < cut_hidden)
    impute_row = (kind >= cut_hidden) & (kind < cut_impute)
    clean = observed & ((clean_row & picked) | (impute_row & ~picked))
    hidden = ~shown | ((hidden_row | impute_row) & picked)
    hidden |= impute_row & ~observed  # a one-pass imputation sees no filled cell
    states = torch.full(observed.shape, NOISY, dtype=torch.uint8, device=observed.device)
    return states.masked_fill_(hidden, HIDDEN).masked_fill_(clean, CLEAN)
