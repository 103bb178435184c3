"""Distance between complete samples and the observed cells of a table with holes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from missdiff_fast._engine.random import shuffled
from missdiff_fast.table.encoded import MISSING_CODE, EncodedTable, Layout

_SURE_PAIRS = 100  # rows of a correlation that counts in full
_MIN_PAIRS = 10  # rows of a correlation; those over fewer are left out
_WIDEST = 1000  # encoded columns that are all correlated with one another
_BLOCK = 500  # in a wider row, encoded columns that are correlated with one another
_MOST_CATEGORIES = 125  # in a wider row, of one column


@dataclass(frozen=True)
class Distance:
    """Distance between samples and observed cells; each part is 0 at best.

    Parameters
    ----------
    marginals : float
        Mean over columns with an observed cell of the Kolmogorov-Smirnov distance (scores) or the total variation
        (categories); 0 without any such column.
    pairs : float
        Mean absolute difference of the correlations of encoded columns, over pairs of columns that at least 10 rows
        observe both; 0 without any such pair. A pair that fewer than 100 rows observe counts in proportion to their
        number: it is known less surely, but in a table with many holes it may be all that tells of dependence. If
        there are more than 1,000 encoded columns, the columns are dealt into blocks of at most 500 at random, and the
        pairs are those within a block: time and memory grow with their number, not with its square. Of a column's
        categories the 125 most frequent ones count then.
    """

    marginals: float
    pairs: float

    @property
    def total(self) -> float:
        """The sum of both."""
        return self.marginals + self.pairs


def distance(table: EncodedTable, drawn: EncodedTable) -> Distance:
    """Compare drawn rows with the observed cells of a table.

    Parameters
    ----------
    table : EncodedTable
        N rows with holes.
    drawn : EncodedTable
        Any number of complete rows, of the same layout.

    Examples
    --------
    >>> from missdiff_fast.table import Layout
    >>> table = EncodedTable(torch.randn(1000, 2), torch.zeros(1000, 0, dtype=torch.int16), Layout(2))
    >>> distance(table, table).total
    0.0
    """
    layout = table.layout
    gaps = []
    for c in range(layout.num_continuous):
        seen = table.continuous[:, c]
        seen = seen[~seen.isnan()]
        if len(seen):
            gaps.append(_kolmogorov_smirnov(seen, drawn.continuous[:, c]))
    for k, size in enumerate(layout.cardinalities):
        seen = table.codes[:, k]
        seen = seen[seen >= 0]
        if len(seen):
            shares = [torch.bincount(codes.long(), minlength=size) / len(codes) for codes in (seen, drawn.codes[:, k])]
            gaps.append(0.5 * (shares[0] - shares[1]).abs().sum())
    differences, weights = map(torch.cat, zip(*(_differences(*pair) for pair in _blocks(table, drawn)), strict=True))
    pairs = float((differences * weights).sum() / weights.sum()) if len(differences) else 0.0
    return Distance(float(torch.stack(gaps).mean()) if gaps else 0.0, pairs)


def _kolmogorov_smirnov(first: Tensor, second: Tensor) -> Tensor:
    first, second = first.sort().values, second.sort().values
    points = torch.cat([first, second])
    shares = [torch.searchsorted(values, points, right=True) / len(values) for values in (first, second)]
    return (shares[0] - shares[1]).abs().max()


def _differences(table: EncodedTable, drawn: EncodedTable) -> tuple[Tensor, Tensor]:
    """Absolute differences of the correlations and their weights, one for each pair that counts."""
    want, count = _correlations(table)
    got, _ = _correlations(drawn)
    groups = table.layout.groups(table.device)
    used = (count >= _MIN_PAIRS) & (groups[:, None] < groups[None, :]) & want.isfinite() & got.isfinite()
    return (want - got).abs()[used], (count[used] / _SURE_PAIRS).clamp(max=1)


def _blocks(table: EncodedTable, drawn: EncodedTable) -> Iterator[tuple[EncodedTable, EncodedTable]]:
    """Both tables' columns in blocks of at most `_BLOCK` encoded ones: the tables themselves if they have no more."""
    layout = table.layout
    if layout.width <= _WIDEST:
        yield table, drawn
        return
    sizes = (1,) * layout.num_continuous + layout.cardinalities
    columns, width = list[int](), 0
    for j in shuffled(len(sizes), seed=0).tolist():
        size = min(sizes[j], _MOST_CATEGORIES)
        if width + size > _BLOCK:
            yield _part(columns, table, table), _part(columns, table, drawn)
            columns, width = [], 0
        columns.append(j)
        width += size
    yield _part(columns, table, table), _part(columns, table, drawn)


def _part(columns: list[int], seen: EncodedTable, table: EncodedTable) -> EncodedTable:
    """Some columns of a table; a category that is not among the most frequent seen ones has no one-hot column."""
    C = table.layout.num_continuous
    continuous, codes, sizes = [j for j in columns if j < C], list[Tensor](), list[int]()
    for k in sorted(j - C for j in columns if j >= C):
        cardinality = table.layout.cardinalities[k]
        counts = torch.bincount(seen.codes[seen.codes[:, k] >= 0, k].long(), minlength=cardinality)
        kept = counts.argsort(descending=True, stable=True)[:_MOST_CATEGORIES]
        names = torch.full((cardinality + 1,), len(kept), dtype=torch.int16, device=table.device)
        names[kept], names[-1] = torch.arange(len(kept), dtype=torch.int16, device=table.device), MISSING_CODE
        codes.append(names[table.codes[:, k].long()])
        sizes.append(len(kept))
    chosen = torch.stack(codes, 1) if codes else table.codes[:, :0]
    return EncodedTable(table.continuous[:, sorted(continuous)], chosen, Layout(len(continuous), tuple(sizes)))


def _correlations(table: EncodedTable) -> tuple[Tensor, Tensor]:
    """Correlations of encoded columns over the rows that observe both, and the number of these rows: ``[D, D]``."""
    groups = table.layout.groups(table.device)
    mask = table.observed()[:, groups].to(torch.float64)
    x = torch.cat([torch.nan_to_num(table.continuous, nan=0.0).to(torch.float64), table.one_hot(torch.float64)], 1)
    count = mask.T @ mask
    sums, squares = x.T @ mask, (x * x).T @ mask  # [i, j]: of column i over the rows that observe i and j
    spread = count * squares - sums**2
    return (count * (x.T @ x) - sums * sums.T) / (spread * spread.T).sqrt(), count
