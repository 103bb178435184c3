"""How often a training step takes each row: rows that hold rarely observed columns more often."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

_UNEVEN = 2.0  # the most observed column's cells, as a multiple of a column's, beyond which that column is rare
_MOST = 4.0  # visits of a row for each visit of one without rare columns
_LOSS = 1.3  # greatest loss of visits of rows without rare columns, as a multiple of what those with them gain
_MEETING = 2.0  # least number of rare columns that a row with any has, on average
_CELLS = 1 << 22  # of the table at a time


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
        Visits at which a column's cell is in the loss: float64 ``[J]``, at most those of any row that has one.

    Examples
    --------
    >>> observed = torch.ones(200, 3, dtype=torch.bool)
    >>> observed[50:, 1:] = False  # a quarter observes the second column and the third
    >>> visits = Visits.of(observed, batch_size=10)
    >>> visits.rows[[0, 199]].tolist(), visits.columns.tolist()
    ([4.0, 1.0], [1.0, 4.0, 4.0])
    """

    rows: Tensor
    columns: Tensor

    @classmethod
    def of(
        cls, observed: Tensor, batch_size: int, *, whole: Tensor | None = None, filled: Tensor | None = None
    ) -> Visits | None:
        """From the observed cells, bool ``[N, J]``; None where rows are visited equally often.

        These are tables whose columns are all observed at least half as often as the most observed one, those whose
        rare columns seldom meet in a row, those of too few rows, and those of which so many rows hold a rare column
        that more visits to them are more to few.

        Parameters
        ----------
        observed : Tensor
            bool ``[N, J]``.
        batch_size : int
            Rows of a step.
        whole : Tensor, optional
            The columns that are no part of another, such as its atoms: bool ``[J]``, all by default.
        filled : Tensor, optional
            The columns whose cells are in the loss where they are not observed, too: bool ``[J]``, none by default.
        """
        # A row has fewer visits in a pass than there are batches, so that no batch needs it twice.
        most = min(_MOST, len(observed) // batch_size - 1)
        if most <= _UNEVEN:
            return None
        share = observed.sum(0) / len(observed)
        rarity = (share.max() / share.clamp(min=1e-12)).clamp(max=most)
        rarity = torch.where((rarity > _UNEVEN) & (share > 0), rarity, 1.0)
        rare = rarity > 1 if whole is None else (rarity > 1) & whole
        counts = observed[:, rare].sum(1)
        if float(counts.sum()) < _MEETING * float((counts > 0).sum()) or not bool(rare.any()):
            return None
        pieces = observed.split(max(1, _CELLS // max(1, observed.shape[1])))
        rows = torch.cat([torch.where(piece, rarity, 1.0).amax(1) for piece in pieces]).double()
        # Of as many visits in all, rows with the rarest column get most / mean times as many, rows without 1 / mean.
        while most > _UNEVEN and float(rows.clamp(max=most).mean()) ** 2 > _LOSS * most:
            most -= 1
        rows = rows.clamp(max=most)
        if most <= _UNEVEN or bool((rows == rows[0]).all()):
            return None
        least = torch.full_like(rarity, torch.inf, dtype=torch.float64)
        for piece, visits in zip(pieces, rows.split(len(pieces[0])), strict=True):
            has = piece if filled is None else piece | filled
            least = torch.minimum(least, torch.where(has, visits[:, None], torch.inf).amin(0))
        return cls(rows, least.nan_to_num(posinf=1.0))

    def order(self, batch_size: int, generator: torch.Generator) -> Iterator[Tensor]:
        """Row numbers of endless batches, int64 ``[batch_size]`` each, without repetition.

        In each pass through the batches a row gets its share of the visits, rounded up or down at random.
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
        return uniform < (self.columns / self.rows[rows, None]).to(uniform.dtype)
