"""How often a training step takes each row: rows that hold rarely observed columns more often."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

_UNEVEN = 2.0  # the most observed column's cells, as a multiple of a column's, beyond which that column is rare
_MOST = 8.0  # visits of a row for each visit of one without rare columns


@dataclass(frozen=True)
class Visits:
    """Rows with rare columns are visited more often, and the loss of other columns is left out of some visits.

    Of a column that few rows observe, and of two that fewer still observe together, a training that visits all rows as
    often sees too little to learn from. A row is visited in proportion to the rarity of its rarest column. To the loss
    each cell of a column contributes at equally many visits, so more visits change no distribution that is learnt.

    Parameters
    ----------
    rows : Tensor
        Visits of each row, those of rows without rare columns being 1: float64 ``[N]``.
    columns : Tensor
        Visits at which a column's cell is in the loss: float64 ``[J]``, at most those of any row that observes it.

    Examples
    --------
    >>> observed = torch.ones(200, 2, dtype=torch.bool)
    >>> observed[50:, 1] = False  # a quarter observes the second column
    >>> visits = Visits.of(observed, batch_size=10)
    >>> visits.rows[[0, 199]].tolist(), visits.columns.tolist()
    ([4.0, 1.0], [1.0, 4.0])
    """

    rows: Tensor
    columns: Tensor

    @classmethod
    def of(cls, observed: Tensor, batch_size: int) -> Visits | None:
        """From the observed cells, bool ``[N, J]``; None where rows are visited equally often.

        These are tables whose columns are all observed at least half as often as the most observed one, and those of
        too few rows for a batch to hold none twice.
        """
        share = observed.double().mean(0)
        # A row is repeated less often than there are batches.
        most = min(_MOST, len(observed) // batch_size - 1)
        if most <= _UNEVEN:
            return None
        rows = torch.ones(len(observed), dtype=torch.float64, device=observed.device)
        rarity = (share.max() / share.clamp(min=1e-12)).clamp(max=most)
        rare = ((rarity > _UNEVEN) & (share > 0)).nonzero()[:, 0].tolist()
        if not rare:
            return None
        for j in rare:
            rows = torch.where(observed[:, j], rows.clamp(min=rarity[j]), rows)
        return cls(rows, torch.stack([rows.masked_fill(~cells, torch.inf).amin() for cells in observed.T]))

    def order(self, batch_size: int, generator: torch.Generator) -> Iterator[Tensor]:
        """Row numbers of endless batches, int64 ``[batch_size]`` each, without repetition.

        In a pass of N visits a row gets its share of them, rounded up or down at random.
        """
        rows = self.rows.cpu()
        count = len(rows) // batch_size
        while True:
            order = torch.randperm(len(rows), generator=generator)
            ends = rows[order].cumsum(0)
            start = torch.rand((), generator=generator, dtype=torch.float64)
            at = (torch.arange(count * batch_size) + start) * (ends[-1] / (count * batch_size))
            visited = order[torch.searchsorted(ends, at, right=True).clamp(max=len(rows) - 1)]
            # Repetitions follow one another, so they are dealt to different batches, which are shuffled.
            yield from visited.view(batch_size, count).T[torch.randperm(count, generator=generator)]

    def counted(self, rows: Tensor, uniform: Tensor) -> Tensor:
        """The cells that are in the loss of a visit of these rows, int64 ``[B]``: bool ``[B, J]``.

        ``uniform`` are random numbers in [0, 1), of that shape.
        """
        return uniform * self.rows[rows, None] < self.columns
