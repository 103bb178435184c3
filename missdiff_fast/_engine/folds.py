"""Observed cells hidden, to be compared with their truth: some of each row, or in folds each in one."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from missdiff_fast._engine.protocols import Backend
from missdiff_fast.diffusion.states import CLEAN, HIDDEN
from missdiff_fast.table.encoded import EncodedTable

FOLDS = 5
HIDDEN_SHARE = 0.2  # of the known cells of rows that measure draws


def folds(table: EncodedTable, rows: Tensor, key: Tensor, backend: Backend) -> Iterator[tuple[Tensor, EncodedTable]]:
    """For each fold the cells that are hidden, bool ``[N, J]``, and the table without them.

    A column and its partners are hidden together, and residuals with the columns that they are computed of.

    Parameters
    ----------
    table : EncodedTable
        N rows.
    rows : Tensor
        Their numbers, int64 ``[N]``; a row's folds depend on its number and the key alone.
    key : Tensor
        int64 ``[2]``.
    backend : Backend
        Of the random numbers.
    """
    observed = table.observed()
    fold = table.layout.with_partners((backend.uniform(rows, table.layout.num_columns, key) * FOLDS).floor())
    for k in range(FOLDS):
        hidden = observed & (shown_states(table, fold != k) == HIDDEN)
        yield hidden, table.without(hidden)


def hide_some(table: EncodedTable, share: float, key: Tensor, backend: Backend) -> EncodedTable:
    """The table with a share of the columns hidden in each row; other arguments as in `folds`."""
    rows = torch.arange(len(table), device=table.device)
    chosen = table.layout.with_partners(backend.uniform(rows, table.layout.num_columns, key)) < share
    return table.without(shown_states(table, ~chosen) == HIDDEN)


def shown_states(table: EncodedTable, shown: Tensor) -> Tensor:
    """Observed cells that are shown are clean, others hidden, and residuals with their parents: uint8 ``[N, J]``."""
    states = torch.where(table.observed() & shown, CLEAN, HIDDEN).to(torch.uint8)
    return table.layout.with_residuals(states)
