"""Folds of the observed cells of held-out rows: each cell is hidden in one fold, to be compared with its truth."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from missdiff_fast._engine.protocols import Backend
from missdiff_fast.diffusion.states import CLEAN, HIDDEN
from missdiff_fast.table.encoded import MISSING_CODE, EncodedTable

FOLDS = 5


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
    layout, C, observed = table.layout, table.layout.num_continuous, table.observed()
    fold = layout.with_partners((backend.uniform(rows, layout.num_columns, key) * FOLDS).floor())
    for k in range(FOLDS):
        states = torch.where(observed & (fold != k), CLEAN, HIDDEN).to(torch.uint8)
        hidden = observed & (layout.with_residuals(states) == HIDDEN)
        yield (
            hidden,
            EncodedTable(
                table.continuous.masked_fill(hidden[:, :C], torch.nan),
                table.codes.masked_fill(hidden[:, C:], MISSING_CODE),
                layout,
                None if table.values is None else table.values.masked_fill(hidden[:, :C], torch.nan),
            ),
        )
