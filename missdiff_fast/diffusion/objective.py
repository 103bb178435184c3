"""What one training step shows the network: noise levels and column states, drawn afresh for every row."""

from __future__ import annotations

import torch
from torch import Tensor

from missdiff_fast.config import ObjectiveConfig
from missdiff_fast.reference import CLEAN, HIDDEN, NOISY


def draw_sigma(unit_normal: Tensor, config: ObjectiveConfig) -> Tensor:
    """Noise levels ``[B]`` from standard normal numbers ``[B]``."""
    return torch.exp(unit_normal * config.log_sigma_std + config.log_sigma_mean)


def draw_states(uniform: Tensor, observed: Tensor, shown: Tensor, config: ObjectiveConfig) -> Tensor:
    """The state of every column of every row, uint8 ``[B, J]``.

    Only observed cells are ever clean. Cells that are neither observed nor shown are hidden.

    Parameters
    ----------
    uniform : Tensor
        Uniform numbers, ``[B, J + 2]``: the row's kind, the fraction that is picked, and one number for each column.
    observed : Tensor
        bool ``[B, J]``.
    shown : Tensor
        Cells that hold a value, be it observed or filled, bool ``[B, J]``.
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
