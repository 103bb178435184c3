"""How often each category occurs: in observed cells, in drawn ones, and by the network's probabilities."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from missdiff_fast._engine.folds import shown_states
from missdiff_fast._engine.imputation import one_pass
from missdiff_fast._engine.protocols import Backend
from missdiff_fast._engine.random import derive, shuffled
from missdiff_fast._engine.shrinkage import expected
from missdiff_fast.diffusion.states import HIDDEN
from missdiff_fast.table.encoded import EncodedTable

_PREDICTED = 1 << 16  # most rows whose missing categories are predicted
_CHECKED = 1 << 13  # most observed cells of a column that are predicted
_CHECKED_ROWS = 1 << 17  # the same of all columns
_CHECKED_COLUMNS = 256  # most columns whose observed cells are predicted
_LEAST_SHARE = 1e-12
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


def log_ratio(one: Tensor, other: Tensor, count: Tensor | int) -> Tensor:
    """The logarithm of the ratio of two shares of ``count`` cells; of few cells it is near 0.

    >>> one, other = torch.tensor([[0.5, 0.0], [0.25, 0.01]], dtype=torch.float64)
    >>> log_ratio(one, other, 800).exp().round(decimals=2).tolist()
    [1.96, 0.5]
    """
    least = _PSEUDO_COUNT / count
    return ((one + least) / (other + least)).log()


def missing_shares(network: nn.Module, table: EncodedTable, backend: Backend, seed: int) -> Tensor:
    """The expected share of each category in the missing cells of its column: float32 ``[D - C]``.

    `mean_chances` tells them, with an error that is taken to be the same as in observed cells: up to 8,192 of each
    column are hidden and predicted. The ratios of their shares to the predicted ones, shrunk by what chance explains,
    are those of the missing cells. Of more than 256 columns with missing cells those with the most are corrected. The
    shares are 0 where no cell is missing.
    """
    layout, found = table.layout, mean_chances(network, table, backend, derive(seed, "choose", 0))
    observed = table.codes >= 0
    missing = (~observed).sum(0)
    holes = [k for k in missing.argsort(descending=True)[:_CHECKED_COLUMNS].tolist() if missing[k] > 0]
    most = min(_CHECKED, _CHECKED_ROWS // max(1, len(holes)))
    checked, ratios, variances = [], [], []
    for k in holes:
        rows = observed[:, k].nonzero()[:, 0]
        rows = rows[shuffled(len(rows), derive(seed, "choose", 4 + k)).to(table.device)[:most]]
        if len(rows):
            some = table.rows(rows)
            predicted = mean_chances(network, _without(some, k), backend, derive(seed, "choose", 0), [k])
            chances = predicted.split(layout.cardinalities)[k]
            seen = torch.bincount(some.codes[:, k].long(), minlength=len(chances)) / len(rows)
            checked.append(k)
            ratios.append(log_ratio(seen, chances, len(rows)))
            variances.append((1 - chances) / (len(rows) * chances + _PSEUDO_COUNT))
    if not checked:
        return found
    groups = list(found.split(layout.cardinalities))
    shrunk = expected(torch.cat(ratios), torch.cat(variances)).split([len(ratio) for ratio in ratios])
    for k, ratio in zip(checked, shrunk, strict=True):
        share = groups[k] * ratio.exp()
        groups[k] = share / share.sum().clamp(min=_LEAST_SHARE)
    return torch.cat(groups)


def _without(table: EncodedTable, k: int) -> EncodedTable:
    """The table with categorical column k hidden, and its partners."""
    whole = table.layout.with_partners(torch.arange(table.layout.num_columns, device=table.device)[None])
    shown = (whole != whole[:, table.layout.num_continuous + k]).expand(len(table), -1)
    return table.without(shown_states(table, shown) == HIDDEN)


def mean_chances(
    network: nn.Module, table: EncodedTable, backend: Backend, seed: int, columns: Sequence[int] | None = None
) -> Tensor:
    """The mean probability, in one pass, of each category in the missing cells of its column: float32 ``[D - C]``.

    0 where none is missing, and outside ``columns``, of 0 to K - 1, which are all by default. Of more than 65,536 rows
    with missing categories, some are predicted.
    """
    layout = table.layout
    columns = range(layout.num_categorical) if columns is None else columns
    rows = (table.codes < 0).any(1).nonzero()[:, 0]
    some = table.rows(rows[shuffled(len(rows), seed)[:_PREDICTED].to(table.device)])
    sums = torch.zeros(layout.width - layout.num_continuous, dtype=torch.float64, device=table.device)
    totals = [sums.split(layout.cardinalities)[k] for k in columns]
    for start, stop, logits, _ in one_pass(network, some, backend):
        missing = some.codes[start:stop] < 0
        groups = logits.split(layout.cardinalities, 1)
        for k, total in zip(columns, totals, strict=True):
            total += torch.softmax(groups[k].double()[missing[:, k]], 1).sum(0)
    return (sums / layout.of_groups((some.codes < 0).sum(0).clamp(min=1))).float()
