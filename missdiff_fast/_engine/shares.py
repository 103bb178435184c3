"""How often each category occurs: in observed cells, in drawn ones, and by the network's probabilities."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from missdiff_fast._engine.folds import shown_states
from missdiff_fast._engine.imputation import one_pass
from missdiff_fast._engine.protocols import Backend
from missdiff_fast._engine.random import derive, shuffled
from missdiff_fast.diffusion.states import HIDDEN
from missdiff_fast.table.encoded import EncodedTable

_PREDICTED = 1 << 16  # most rows whose missing categories are predicted
_CHECKED = 1 << 13, 1 << 17  # most observed cells that are predicted, of one column and of all
_PSEUDO_COUNT = 8.0  # added to each category's count, so that rare ones do not follow chance


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


def missing_shares(network: nn.Module, table: EncodedTable, backend: Backend, seed: int) -> Tensor:
    """The expected share of each category in the missing cells of its column: float32 ``[D - C]``.

    Those that `mean_chances` gives, times the ratio of the shares in observed cells to those that it gives for these
    cells, hidden: what the network gets wrong there it gets wrong in the missing cells too. 0 where none is missing.
    """
    layout, found = table.layout, mean_chances(network, table, backend, derive(seed, "choose", 0))
    first, observed = layout.num_continuous, table.codes >= 0
    holes = (~observed).any(0).nonzero()[:, 0].tolist()
    most = min(_CHECKED[0], _CHECKED[1] // max(1, len(holes)))
    whole = layout.with_partners(torch.arange(layout.num_columns)[None])[0]
    groups = list(found.split(layout.cardinalities))
    for k in holes:
        rows = observed[:, k].nonzero()[:, 0]
        rows = rows[shuffled(len(rows), derive(seed, "choose", 4 + k)).to(table.device)[:most]]
        if len(rows):
            some, shown = table.rows(rows), (whole != whole[first + k]).expand(len(rows), -1).to(table.device)
            hidden = some.without(shown_states(some, shown) == HIDDEN)
            chances = mean_chances(network, hidden, backend, derive(seed, "choose", 0)).split(layout.cardinalities)[k]
            seen = torch.bincount(some.codes[:, k].long(), minlength=len(chances)) / len(rows)
            least = _PSEUDO_COUNT / len(rows)
            corrected = groups[k] * (seen + least) / (chances + least)
            groups[k] = corrected / corrected.sum()
    return torch.cat([*groups, found.new_empty(0)])


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
