"""Categorical columns of many categories, shown to the model as two columns of few."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import torch
from torch import Tensor

from missdiff_fast.table.encoded import MISSING_CODE, EncodedTable, Layout
from missdiff_fast.table.similarity import Rows, category_points, similar_groups

_SINGLE_SHARE = 0.002  # of the column's observed cells, from which a category is an entry of its own
_ROOM = 2  # places of a group, in units of its categories if groups had the same number
_BLOCK = 1 << 24  # probabilities computed at a time


@dataclass(frozen=True)
class _Column:
    """A column of V categories as entries and places.

    Parameters
    ----------
    index : int
        The column's place among the categorical ones.
    entry : Tensor
        The entry of each category, int16 ``[V]``: its own, or that of its group. The groups come last.
    place : Tensor
        The place of each category within its group, int16 ``[V]``; 0 is the place of entries of one category.
    share : Tensor
        The share of observed cells of each category, float64 ``[V]``.
    """

    index: int
    entry: Tensor
    place: Tensor
    share: Tensor
    _copies: dict[torch.device, tuple[Tensor, Tensor, Tensor]] = field(default_factory=dict, init=False, repr=False)

    @property
    def sizes(self) -> tuple[int, int]:
        """The number of entries and of places."""
        return int(self.entry.max()) + 1, int(self.place.max()) + 1

    @cached_property
    def codes(self) -> Tensor:
        """The category of each pair, int16 ``[entries, places]``.

        The places that a group has no category for are dealt out to its categories by the shares of both.
        """
        codes = torch.empty(self.sizes, dtype=torch.int16)
        of_place = torch.zeros(self.sizes[1], dtype=torch.float64).index_add(0, self.place.long(), self.share)
        for entry in range(self.sizes[0]):
            members = (self.entry == entry).nonzero()[:, 0]
            members = members[self.place[members].argsort()]
            ends = self.share[members].cumsum(0)
            unused = of_place.index_fill(0, self.place[members].long(), 0.0)
            middles = (unused.cumsum(0) - unused / 2) / unused.sum().clamp(min=1e-300) * ends[-1]
            codes[entry] = members[torch.searchsorted(ends, middles).clamp(max=len(members) - 1)]
            codes[entry, self.place[members].long()] = members.to(torch.int16)
        return codes

    @cached_property
    def within(self) -> Tensor:
        """The log share of each category in its entry, less that of its place over all groups: float32 ``[V]``."""
        within = self.share.log()
        for size, index in zip(self.sizes, (self.entry.long(), self.place.long()), strict=True):
            within -= torch.zeros(size, dtype=torch.float64).index_add(0, index, self.share).log()[index]
        return torch.where(self.place > 0, within, 0.0).float()

    def _on(self, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
        """``entry``, ``place`` and ``within`` on a device, to which they are copied once: int64 and float32."""
        if device not in self._copies:
            self._copies[device] = self.entry.long().to(device), self.place.long().to(device), self.within.to(device)
        return self._copies[device]

    def log_chances(self, entries: Tensor, places: Tensor) -> Tensor:
        """The log probability of each category from the logits of entries and places: ``[B, V]``.

        An entry has its probability. A group's is shared out among its categories by their shares in training, times
        how much likelier than in training the model finds the place.
        """
        entry, place, within = self._on(entries.device)
        likelier = torch.log_softmax(places, 1)[:, place].masked_fill(place == 0, 0.0) + within
        total = torch.full_like(entries, -torch.inf).scatter_reduce(
            1, entry.expand_as(likelier), likelier, "amax", include_self=False
        )
        shared = torch.zeros_like(entries).index_add(1, entry, (likelier - total[:, entry]).exp())
        norm = torch.log_softmax(entries, 1) - total - shared.log()
        return likelier + norm[:, entry]


class Wide:
    """The columns of a table that have too many categories to be one-hot columns.

    The model's table has two columns in place of each. The first tells the entry: a frequent category, or a group of
    similar ones. The second tells the place in the group, by frequency. Each has about sqrt(V) categories, so that the
    encoded row is narrow. Both are observed, hidden, noisy or clean together.

    Parameters
    ----------
    layout : Layout
        That of the table without such columns.
    columns : sequence
        What `learn` or `from_state` found.

    Attributes
    ----------
    plain : Layout
        That of the table without such columns.
    layout : Layout
        That of the model's table: entries stand where the column was, places come last.

    Examples
    --------
    >>> codes = torch.arange(20, dtype=torch.int16)[:, None].repeat(3, 1)
    >>> table = EncodedTable(torch.zeros(60, 0), codes, Layout(0, (20,)))
    >>> wide = Wide.learn(table, one_hot=10)
    >>> wide.layout
    Layout(num_continuous=0, cardinalities=(7, 9), partners=(0,))
    """

    def __init__(self, layout: Layout, columns: Sequence[_Column] = ()) -> None:
        self.plain, self._columns = layout, tuple(columns)
        entries, places = list(layout.cardinalities), []
        for column in self._columns:
            entries[column.index], last = column.sizes
            places.append(last)
        partners = tuple(layout.num_continuous + column.index for column in self._columns)
        self.layout = replace(layout, cardinalities=(*entries, *places), partners=layout.partners + partners)

    @classmethod
    def learn(cls, table: EncodedTable, one_hot: int) -> Wide:
        """Group the categories of the columns that have more than ``one_hot`` of them."""
        wide = [k for k, size in enumerate(table.layout.cardinalities) if size > one_hot]
        if not wide:
            return cls(table.layout)
        rows = Rows.of(table)
        return cls(table.layout, [_learn(table, k, one_hot, rows) for k in wide])

    def state(self) -> dict[str, Tensor]:
        """Entries, places and shares of the columns as tensors by name, which `from_state` reads."""
        fields = ("entry", "place", "share")
        return {f"{column.index}.{name}": getattr(column, name) for column in self._columns for name in fields}

    @classmethod
    def from_state(cls, layout: Layout, state: Mapping[str, Tensor]) -> Wide:
        """The inverse of `state`; KeyError where it is not complete."""
        indices = sorted({int(name.partition(".")[0]) for name in state})
        columns = [_Column(k, *(state[f"{k}.{name}"].cpu() for name in ("entry", "place", "share"))) for k in indices]
        return cls(layout, columns)

    def add(self, table: EncodedTable) -> EncodedTable:
        """The table with entries and places in place of the columns."""
        if not self._columns:
            return table
        codes, places = table.codes.clone(), []
        for column in self._columns:
            own = table.codes[:, column.index].long()
            codes[:, column.index] = _looked_up(column.entry, own)
            places.append(_looked_up(column.place, own)[:, None])
        return EncodedTable(table.continuous, torch.cat([codes, *places], 1), self.layout, table.values)

    def join(self, codes: Tensor) -> Tensor:
        """The categories of drawn entries and places; a place that the group does not have stands for one that it has.

        Parameters
        ----------
        codes : Tensor
            int16 ``[B, K']``.

        Returns
        -------
        Tensor
            int16 ``[B, K]``.
        """
        if not self._columns:
            return codes
        joined = codes[:, : self.plain.num_categorical].clone()
        for column, places in zip(self._columns, codes[:, self.plain.num_categorical :].T, strict=True):
            joined[:, column.index] = column.codes.to(codes.device)[joined[:, column.index].long(), places.long()]
        return joined

    def chances(self, logits: Tensor, k: int) -> Tensor:
        """The probability of each category of column k.

        Parameters
        ----------
        logits : Tensor
            Those of the one-hot groups, ``[B, D - C]``; more columns may follow.
        k : int
            A categorical column of the plain table.

        Returns
        -------
        Tensor
            ``[B, V]``; rows sum to 1.
        """
        groups = logits[:, : sum(self.layout.cardinalities)].split(self.layout.cardinalities, 1)
        for place, column in enumerate(self._columns, self.plain.num_categorical):
            if column.index == k:
                return column.log_chances(groups[k], groups[place]).exp()
        return torch.softmax(groups[k], 1)

    def most_probable(self, codes: Tensor, logits: Tensor) -> Tensor:
        """The most probable categories, int16 ``[B, K]``; ``codes`` ``[B, K']`` has those of all other columns."""
        codes = codes[:, : self.plain.num_categorical].clone()
        for column in self._columns:
            rows = max(1, _BLOCK // len(column.entry))
            best = [self.chances(part, column.index).argmax(1) for part in logits.split(rows)]
            codes[:, column.index] = torch.cat(best).to(codes)
        return codes


def _looked_up(names: Tensor, codes: Tensor) -> Tensor:
    """The name of each category, int16 ``[N]``; that of a missing cell is `MISSING_CODE`, which is -1."""
    return torch.cat([names, names.new_tensor([MISSING_CODE])]).to(codes.device)[codes]


def _learn(table: EncodedTable, k: int, one_hot: int, rows: Rows) -> _Column:
    codes = table.codes[:, k].cpu()
    V = table.layout.cardinalities[k]
    # Half a cell more for each: a category may be in rows that training does not see.
    counts = torch.bincount(codes[codes >= 0].long(), minlength=V).double() + 0.5
    share = counts / counts.sum()
    order = counts.argsort(descending=True, stable=True)
    single = order[: min(int((share >= _SINGLE_SHARE).sum()), one_hot // 2)]
    rest = order[len(single) :].sort().values
    number = math.ceil(math.sqrt(len(rest)))
    groups = similar_groups(category_points(rows, k)[rest], counts[rest], number, _ROOM * number)
    entry, place = torch.zeros(V, dtype=torch.int16), torch.zeros(V, dtype=torch.int16)
    entry[single] = torch.arange(len(single), dtype=torch.int16)
    first = int(len(single) > 0)  # place 0 is that of the single entries
    for group, members in enumerate(groups, len(single)):
        own = rest[members]
        own = own[counts[own].argsort(descending=True, stable=True)]
        entry[own] = group
        place[own] = torch.arange(first, first + len(own), dtype=torch.int16)
    return _Column(k, entry, place, share)
