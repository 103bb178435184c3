"""How often each category occurs: in observed cells, in drawn ones, and by the network's probabilities."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from missdiff_fast._engine.imputation import one_pass
from missdiff_fast._engine.protocols import Backend
from missdiff_fast._engine.random import shuffled
from missdiff_fast.table.encoded import EncodedTable

_PREDICTED = 1 << 16  # most rows whose missing categories are predicted


def shares(table: EncodedTable, missing: Tensor | None = None) -> Tensor:
    """The share of each category among the cells of its column: float32 ``[D - C]``.

    Parameters
    ----------
    table : EncodedTable
        N rows.
    missing : Tensor, optional
        The shares among the missing cells, ``[D - C]``; without them the table has no missing categories.

    Examples
    --------
    >>> from missdiff_fast.table.encoded import Layout
    >>> codes = torch.tensor([[0], [1], [1], [-1]], dtype=torch.int16)
    >>> shares(EncodedTable(torch.zeros(4, 0), codes, Layout(0, (2,))), torch.tensor([1.0, 0.0])).tolist()
    [0.5, 0.5]
    """
    observed = table.codes >= 0
    found = shares_of(table, observed)
    if missing is None:
        return found
    known = table.layout.of_groups(observed.float().mean(0))
    return known * found + (1 - known) * missing.float()


def shares_of(table: EncodedTable, cells: Tensor) -> Tensor:
    """The share of each category among some cells of its column, bool ``[N, K]``, 0 where there are none."""
    parts = [table.continuous.new_empty(0, dtype=torch.float32)]
    for k, size in enumerate(table.layout.cardinalities):
        codes = table.codes[cells[:, k], k].long()
        parts.append(torch.bincount(codes, minlength=size) / max(1, len(codes)))
    return torch.cat(parts)


def mean_chances(network: nn.Module, table: EncodedTable, backend: Backend, seed: int) -> Tensor:
    """The mean probability, in one pass, of each category in the missing cells of its column: float32 ``[D - C]``.

    0 where none is missing. Of more than 65,536 rows with missing categories, some are predicted.
    """
    layout = table.layout
    rows = (table.codes < 0).any(1).nonzero()[:, 0]
    some = table.rows(rows[shuffled(len(rows), seed)[:_PREDICTED].to(table.device)])
    sums = torch.zeros(layout.width - layout.num_continuous, dtype=torch.float64, device=table.device)
    for start, stop, logits, _ in one_pass(network, some, backend):
        missing = some.codes[start:stop] < 0
        groups = enumerate(logits.split(layout.cardinalities, 1))
        sums += torch.cat([torch.softmax(group.double()[missing[:, k]], 1).sum(0) for k, group in groups])
    return (sums / layout.of_groups((some.codes < 0).sum(0).clamp(min=1))).float()
