"""Frequent values of continuous columns, modelled as categories beside the column's scores."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from missdiff_fast.table.columns import MAX_VALUES, Continuous
from missdiff_fast.table.encoded import EncodedTable, Layout

_MOST = 256  # atoms of one column, the most frequent ones
_OBSERVED = 0.5  # least number of observed cells of a column with atoms, as a share of the most that any column has
_LARGE = 0.05  # share of an atom that is kept whatever the number of atoms
_SURE = 0.95  # probability from which an imputed number is the atom, and not the conditional mean


@dataclass(frozen=True)
class _Column:
    """The atoms of one continuous column, of V kept values.

    Parameters
    ----------
    index : int
        The column's place among the continuous ones.
    bins : Tensor
        The places of the atoms among the kept values, ascending, int64 ``[A]``.
    codes : Tensor
        The category of each kept value, its atom or, as the last, "another value": int16 ``[V + 1]``, the last -1.
    others : Tensor
        The places of the kept values that are no atoms, ascending, int64 ``[V - A]``.
    boundaries : Tensor
        Those of the column, float32 ``[V - 1]``.
    """

    index: int
    bins: Tensor
    codes: Tensor
    others: Tensor
    boundaries: Tensor

    @property
    def cardinality(self) -> int:
        """The number of categories."""
        return len(self.bins) + (len(self.others) > 0)

    def to(self, device: torch.device) -> _Column:
        """This column on another device."""
        tensors = (x.to(device) for x in (self.bins, self.codes, self.others, self.boundaries))
        return _Column(self.index, *tensors)


class Atoms:
    """The atoms of a table: values of continuous columns that are frequent enough to be categories of their own.

    A column with atoms keeps its score, and the model's table gets a categorical column beside it: which atom the cell
    is, or another value. Both are observed, hidden, noisy or clean together.

    Parameters
    ----------
    columns : sequence of Continuous
        The continuous columns.
    layout : Layout
        That of the table without atoms.
    share : float
        The least share of a column's observed cells that an atom has, up to 1, which is none.
    count : int
        The least number of cells that an atom has.
    budget : int
        The most atoms of all columns; of more, those of the greatest shares, and all of a share of 5 % and more.
    spike : float
        The least share of a column's most frequent value, else the column has no atoms but limits of measurement.

    Attributes
    ----------
    plain : Layout
        That of the table without atoms.
    layout : Layout
        That of the table with atoms: their categorical columns come last.

    Examples
    --------
    >>> import pandas as pd
    >>> from missdiff_fast._engine.backend import ReferenceBackend
    >>> from missdiff_fast.table import Codec, read_frame
    >>> cells = read_frame(pd.DataFrame({"paid": [0, 0, 0, 120, None, 75]}))
    >>> codec = Codec.fit(cells, ops=ReferenceBackend())
    >>> atoms = codec.atoms(share=0.5, count=2, budget=10)
    >>> atoms.layout
    Layout(num_continuous=1, cardinalities=(2,), partners=(0,))
    >>> atoms.add(codec.encode(cells)).codes.flatten().tolist()  # 0 is the atom 0; 120 and 75 are other values
    [0, 0, 0, 1, -1, 1]
    """

    def __init__(
        self, columns: Sequence[Continuous], layout: Layout, share: float, count: int, budget: int, spike: float = 0.0
    ) -> None:
        self.plain = layout
        # Of a column that few rows observe, few cells would have to teach many categories.
        enough = _OBSERVED * max((column.count for column in columns), default=0)
        often = {
            i: _frequent(column, share, count, spike if column.count >= enough else np.inf)
            for i, column in enumerate(columns)
        }
        chosen = [i for i, (bins, _) in often.items() if len(bins)]
        found = [often[i] for i in chosen]
        shares = np.concatenate([np.empty(0), *(shares for _, shares in found)])
        limits = [_are_limits(columns[i])[often[i][0]] for i in chosen]
        kept = (shares >= _LARGE) | np.concatenate([np.empty(0, dtype=bool), *limits])
        kept[np.argsort(-shares, kind="stable")[:budget]] = True  # of equal ones, those of the first columns
        of_columns = np.split(kept, np.cumsum([len(bins) for bins, _ in found]))[:-1]
        atoms = [bins[own] for (bins, _), own in zip(found, of_columns, strict=True)]
        self._columns = [_column(i, columns[i], bins) for i, bins in zip(chosen, atoms, strict=True) if len(bins)]
        self._copies: dict[torch.device, list[_Column]] = {}
        cardinalities = layout.cardinalities + tuple(column.cardinality for column in self._columns)
        partners = layout.partners + tuple(column.index for column in self._columns)
        self.layout = replace(layout, cardinalities=cardinalities, partners=partners)

    def add(self, table: EncodedTable) -> EncodedTable:
        """The table with the categorical columns of the atoms, read off the scores."""
        if not self._columns:
            return table
        codes = [table.codes]
        for column in self._columns_on(table.device):
            scores = table.continuous[:, column.index].contiguous()
            boundaries = column.boundaries.to(scores.dtype)
            place = torch.searchsorted(boundaries, scores, right=True)
            code = column.codes[place.masked_fill(scores.isnan(), len(column.codes) - 1)]
            if len(column.others):
                # The score of a number that fit did not see is the boundary between its neighbours.
                unseen = (place > 0) & (scores == boundaries[(place - 1).clamp(min=0)])
                code = code.masked_fill(unseen, len(column.bins))
            codes.append(code[:, None])
        return EncodedTable(table.continuous, torch.cat(codes, 1), self.layout, table.values)

    def removed(self, table: EncodedTable) -> EncodedTable:
        """The table without the categorical columns of the atoms: the inverse of `add`."""
        return table.leading(self.plain)

    def settle(self, bin_index: Tensor, codes: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        """Decoded cells whose numbers are the atoms that were drawn, or where none was drawn no atom.

        Where another value was drawn with the score of an atom, the score chooses among the other values next to the
        atom, a tenth of them, so that none of them becomes a spike of its own.

        Parameters
        ----------
        bin_index : Tensor
            int32 ``[B, C]``.
        codes : Tensor
            Those of the table with atoms, int16 ``[B, K']``.
        x : Tensor
            The encoded rows, of which the scores are read, ``[B, D]``.

        Returns
        -------
        bin_index, codes : Tensor, Tensor
            int32 ``[B, C]`` and int16 ``[B, K]``, of the table without atoms, on the rows' device; a GPU does not wait.
        """
        if not self._columns:
            return bin_index, codes
        K = self.plain.num_categorical
        bin_index = bin_index.clone()
        for k, column in enumerate(self._columns_on(x.device), K):
            code, place = codes[:, k].long(), bin_index[:, column.index].long()
            drawn = code < len(column.bins)
            wrong = ~drawn & (column.codes[place] < len(column.bins))
            place = torch.where(drawn, column.bins[code.clamp(max=len(column.bins) - 1)], place)
            if len(column.others):
                # To take the wrong ones alone, the host has to know their number: on a GPU all are computed.
                at = wrong.nonzero()[:, 0] if x.device.type == "cpu" else slice(None)
                beside = _beside(column, place[at], x[at, column.index])
                place[at] = torch.where(wrong[at], beside, place[at])
            bin_index[:, column.index] = place.int()
        return bin_index, codes[:, :K]

    def _columns_on(self, device: torch.device) -> list[_Column]:
        """The columns with their tensors on a device, to which they are copied once."""
        if device not in self._copies:
            self._copies[device] = [column.to(device) for column in self._columns]
        return self._copies[device]

    def sure(self, logits: Tensor) -> Tensor:
        """The atoms that are nearly certain.

        Parameters
        ----------
        logits : Tensor
            Those of the one-hot groups of the table with atoms, ``[B, D - C]``.

        Returns
        -------
        Tensor
            The atom's place among the column's kept values, int32 ``[B, C]``; -1 where none is nearly certain.
        """
        places = torch.full((len(logits), self.plain.num_continuous), -1, dtype=torch.int32, device=logits.device)
        groups = logits.split(self.layout.cardinalities, 1)[self.plain.num_categorical :]
        for column, group in zip(self._columns_on(logits.device), groups, strict=True):
            chance, code = torch.softmax(group, 1).max(1)
            atom = column.bins[code.clamp(max=len(column.bins) - 1)].int()
            certain = (chance >= _SURE) & (code < len(column.bins))
            places[:, column.index] = torch.where(certain, atom, -1)
        return places


def _beside(column: _Column, place: Tensor, scores: Tensor) -> Tensor:
    """Other values next to atoms, the further along the score lies between the two nearest ones the greater."""
    low, high = (column.boundaries.new_full((1,), end) for end in (-torch.inf, torch.inf))
    ends = torch.cat([low, column.boundaries, high])
    # The nearest other values are at the ends of a run of atoms: the last one below it ends where the run begins.
    below = torch.searchsorted(column.others, place)
    before, after = torch.cat([low, ends[column.others + 1]]), torch.cat([ends[column.others], high])
    low, high, at = (torch.special.ndtr(x.double()) for x in (before[below], after[below], scores))
    share = ((at - low) / (high - low).clamp(min=1e-300)).clamp(0, 1)
    reach = max(1, len(column.others) // 10)
    first, last = (below - reach).clamp(min=0), (below + reach).clamp(max=len(column.others))
    return column.others[(first + (share * (last - first)).long()).clamp(max=last - 1)]


def _frequent(column: Continuous, share: float, count: int, spike: float) -> tuple[np.ndarray, np.ndarray]:
    """The places of a column's frequent values among its kept ones, ascending, and their shares: both ``[A]``.

    Limits of measurement are among them from ``count`` cells on, unless atoms are turned off.
    """
    counts = np.diff(column.cumulative, prepend=0.0) * column.count
    if len(column.keys) > MAX_VALUES // 2:
        # Values may have been dropped, whose cells count as their neighbours': up to one even rank for each side.
        count = max(count, math.ceil(4 * column.count / MAX_VALUES))
    least = max(count, share * column.count)
    bins = np.flatnonzero(counts >= least - 0.01)  # counts are whole but for rounding
    if (counts[bins] / column.count).max(initial=0.0) < spike:
        bins = bins[:0]
    if share < 1:
        bins = np.union1d(bins, np.flatnonzero(_are_limits(column) & (counts >= count - 0.01)))
    if len(bins) > _MOST:
        bins = np.sort(bins[np.argsort(-counts[bins].round(), kind="stable")[:_MOST]])
    return bins, counts[bins] / column.count


def _are_limits(column: Continuous) -> np.ndarray:
    """Which of a column's kept values are limits of measurement, bool ``[V]``."""
    if column.censored is None:
        return np.zeros(len(column.keys), dtype=bool)
    return column.censored.are_limits(column.keys)


def _column(index: int, column: Continuous, bins: np.ndarray) -> _Column:
    V = len(column.keys)
    codes = np.full(V + 1, len(bins), dtype=np.int16)
    codes[bins], codes[-1] = np.arange(len(bins)), -1
    return _Column(
        index,
        torch.from_numpy(bins),
        torch.from_numpy(codes),
        torch.from_numpy(np.setdiff1d(np.arange(V), bins)),
        torch.from_numpy(column.boundaries),
    )
