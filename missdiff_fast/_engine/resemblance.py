"""Distance between complete samples and the observed cells of a table with holes."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from missdiff_fast.table.encoded import EncodedTable

_MIN_PAIRS = 100  # rows of a correlation; those over fewer are left out


@dataclass(frozen=True)
class Distance:
    """Distance between samples and observed cells; each part is 0 at best.

    Parameters
    ----------
    marginals : float
        Mean over columns with an observed cell of the Kolmogorov-Smirnov distance (scores) or the total variation
        (categories); 0 without any such column.
    pairs : float
        Mean absolute difference of the correlations of encoded columns, over pairs of columns that at least 100 rows
        observe both; 0 without any such pair.
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
    want, count = _correlations(table)
    got, _ = _correlations(drawn)
    groups = layout.groups(table.device)
    used = (count >= _MIN_PAIRS) & (groups[:, None] < groups[None, :]) & want.isfinite() & got.isfinite()
    differences = (want - got).abs()[used]
    pairs = float(differences.mean()) if len(differences) else 0.0
    return Distance(float(torch.stack(gaps).mean()) if gaps else 0.0, pairs)


def _kolmogorov_smirnov(first: Tensor, second: Tensor) -> Tensor:
    first, second = first.sort().values, second.sort().values
    points = torch.cat([first, second])
    shares = [torch.searchsorted(values, points, right=True) / len(values) for values in (first, second)]
    return (shares[0] - shares[1]).abs().max()


def _correlations(table: EncodedTable) -> tuple[Tensor, Tensor]:
    """Correlations of encoded columns over the rows that observe both, and the number of these rows: ``[D, D]``."""
    groups = table.layout.groups(table.device)
    mask = table.observed()[:, groups].to(torch.float64)
    columns = [torch.nan_to_num(table.continuous, nan=0.0).to(torch.float64)]
    for k, size in enumerate(table.layout.cardinalities):
        columns.append((table.codes[:, k : k + 1] == torch.arange(size, device=table.device)).to(torch.float64))
    x = torch.cat(columns, 1)
    count = mask.T @ mask
    sums, squares = x.T @ mask, (x * x).T @ mask  # [i, j]: of column i over the rows that observe i and j
    spread = count * squares - sums**2
    return (count * (x.T @ x) - sums * sums.T) / (spread * spread.T).sqrt(), count
