"""The encoded table and the layout of its columns."""

from __future__ import annotations

from dataclasses import InitVar, dataclass, field

import torch
from torch import Tensor

MISSING_CODE = -1  # a missing categorical cell; a missing continuous cell is NaN


@dataclass(frozen=True)
class Layout:
    """The order of a table's columns in the encoded row.

    The encoded row holds C continuous columns first and then one group of ``V_k`` one-hot columns for each of the K
    categorical columns. J = C + K counts columns, D = C + sum(V_k) encoded ones.

    Parameters
    ----------
    num_continuous : int
        C.
    cardinalities : tuple of int
        ``V_k``, the number of categories of each categorical column, K of them, each at least 1.
    partners : tuple of int
        The last categorical columns may belong to other columns: to those that they are atoms of, or to the entries
        whose places they are (see `missdiff_fast.table.atoms` and `missdiff_fast.table.wide`). The number of the other
        column of each, from 0 to J - 1, which has no partner itself. Both are hidden, noisy or clean together.
    parents : tuple of tuple of int
        The last continuous columns may be residuals (see `missdiff_fast.table.relations`): the numbers of the
        continuous columns that each is computed of. A residual is clean only where all of them are, and hidden where
        one of them is.

    Examples
    --------
    >>> layout = Layout(2, (3, 4))
    >>> layout.num_columns, layout.width
    (4, 9)
    >>> layout.offsets().tolist()
    [2, 5, 9]
    >>> layout.groups().tolist()
    [0, 1, 2, 2, 2, 3, 3, 3, 3]
    """

    num_continuous: int
    cardinalities: tuple[int, ...] = ()
    partners: tuple[int, ...] = ()
    parents: tuple[tuple[int, ...], ...] = field(default=(), repr=False)

    @property
    def num_categorical(self) -> int:
        """K."""
        return len(self.cardinalities)

    @property
    def num_columns(self) -> int:
        """J, the columns of the model: those of the table, and those that belong to them."""
        return self.num_continuous + len(self.cardinalities)

    @property
    def width(self) -> int:
        """D, the columns of the encoded row."""
        return self.num_continuous + sum(self.cardinalities)

    def offsets(self, device: torch.device | str | None = None) -> Tensor:
        """Start of each one-hot group, and D at the end: int64 ``[K + 1]``."""
        ends = torch.tensor((self.num_continuous, *self.cardinalities), dtype=torch.int64)
        return ends.cumsum(0).to(device)

    def groups(self, device: torch.device | str | None = None) -> Tensor:
        """The column of each encoded column: int64 ``[D]``."""
        sizes = torch.tensor((1,) * self.num_continuous + self.cardinalities, dtype=torch.int64)
        return torch.repeat_interleave(torch.arange(self.num_columns), sizes).to(device)

    def of_groups(self, x: Tensor) -> Tensor:
        """Values of the categorical columns ``[K]``, repeated for each of their categories: ``[D - C]``.

        >>> Layout(1, (2, 3)).of_groups(torch.tensor([5, 6])).tolist()
        [5, 5, 6, 6, 6]
        """
        return x.repeat_interleave(torch.tensor(self.cardinalities, dtype=torch.int64, device=x.device))

    def atoms(self) -> dict[int, int]:
        """The continuous columns that have atoms, and the categorical column of each: its number, from 0 to K - 1.

        The column's last category is "another value"; where all values are atoms it is one of them.

        >>> Layout(2, (3, 4), partners=(1,)).atoms()
        {1: 1}
        """
        first = self.num_categorical - len(self.partners)
        return {c: k for k, c in enumerate(self.partners, first) if c < self.num_continuous}

    def with_partners(self, x: Tensor) -> Tensor:
        """Numbers of the columns ``[B, n + J]``, after n others; a column that has a partner gets the partner's."""
        if not self.partners:
            return x
        places = torch.tensor(self.partners, device=x.device) + (x.shape[1] - self.num_columns)
        return torch.cat([x[:, : -len(self.partners)], x[:, places]], 1)

    def with_own_partners(self, x: Tensor) -> Tensor:
        """Numbers of the columns that are no partners, and after them those of the partners: ``[B, J]``.

        >>> Layout(1, (2, 2), (0,)).with_own_partners(torch.tensor([[5, 6]])).tolist()
        [[5, 6, 5]]
        """
        return torch.cat([x, x[:, list(self.partners)]], 1) if self.partners else x

    def whole(self, device: torch.device | None = None) -> Tensor:
        """Which of the J columns are no part of another, as its atoms or residual are: bool ``[J]``.

        >>> Layout(1, (2, 2), (0,)).whole().tolist()
        [True, True, False]
        """
        whole = torch.arange(self.num_columns, device=device) < self.num_columns - len(self.partners)
        whole[self.residuals()] = False
        return whole

    def with_residuals(self, states: Tensor) -> Tensor:
        """States ``[B, J]`` in which each residual, with its partners, has the least clean state of its parents."""
        if not self.parents:
            return states
        states, first = states.clone(), self.num_continuous - len(self.parents)
        for residual, parents in enumerate(self.parents, first):
            states[:, residual] = states[:, list(parents)].amin(1)
        for k, partner in enumerate(self.partners, self.num_columns - len(self.partners)):
            if first <= partner < self.num_continuous:
                states[:, k] = states[:, partner]
        return states

    def residuals(self) -> list[int]:
        """The numbers of the residuals and of their partners, among all J columns."""
        first = self.num_continuous - len(self.parents)
        partners = enumerate(self.partners, self.num_columns - len(self.partners))
        own = (k for k, partner in partners if first <= partner < self.num_continuous)
        return [*range(first, self.num_continuous), *own]


@dataclass(frozen=True)
class EncodedTable:
    """N rows of a table, encoded. NaN and -1 are the mask: no other mask is stored, and no one-hot column.

    Parameters
    ----------
    continuous : Tensor
        Normal scores of the continuous cells, float32 or float64 ``[N, C]``; NaN where missing.
    codes : Tensor
        Categories, int16 ``[N, K]``; -1 where missing.
    layout : Layout
        The order of the columns.
    values : Tensor, optional
        The standardised raw values that the scores stand for, same shape and dtype as ``continuous``.
    known_offsets : Tensor, optional
        ``offsets`` of a table of the same columns on the same device, which `with_cells` hands on. Without them they
        are copied to the device, for which the host waits.

    Attributes
    ----------
    offsets : Tensor
        `Layout.offsets` on the table's device, int64 ``[K + 1]``.
    """

    continuous: Tensor  # [N, C]
    codes: Tensor  # [N, K] int16
    layout: Layout
    values: Tensor | None = None  # [N, C]
    known_offsets: InitVar[Tensor | None] = field(default=None, kw_only=True)
    offsets: Tensor = field(init=False, repr=False)

    def __post_init__(self, known_offsets: Tensor | None) -> None:
        # Not a cached property: before Python 3.12 that takes a lock, which torch.compile cannot trace.
        offsets = self.layout.offsets(self.device) if known_offsets is None else known_offsets
        object.__setattr__(self, "offsets", offsets)

    def __len__(self) -> int:
        return self.continuous.shape[0]

    @property
    def device(self) -> torch.device:
        """The device of the cells."""
        return self.continuous.device

    def observed(self) -> Tensor:
        """True where a cell is observed: bool ``[N, J]``, the continuous columns first."""
        return torch.cat([~torch.isnan(self.continuous), self.codes >= 0], 1)

    def one_hot(self, dtype: torch.dtype) -> Tensor:
        """The categorical columns as one-hot groups, ``[N, D - C]``; a missing cell's group is 0."""
        parts = [torch.empty((len(self), 0), dtype=dtype, device=self.device)]
        for k, size in enumerate(self.layout.cardinalities):
            parts.append((self.codes[:, k : k + 1] == torch.arange(size, device=self.device)).to(dtype))
        return torch.cat(parts, 1)

    def to(self, device: torch.device | str) -> EncodedTable:
        """This table on another device."""
        values = None if self.values is None else self.values.to(device)
        return EncodedTable(self.continuous.to(device), self.codes.to(device), self.layout, values)

    def with_cells(self, continuous: Tensor, codes: Tensor, values: Tensor | None) -> EncodedTable:
        """Other cells of the same columns on the same device: a GPU is not waited for."""
        return EncodedTable(continuous, codes, self.layout, values, known_offsets=self.offsets)

    def leading(self, layout: Layout) -> EncodedTable:
        """The first continuous and the first categorical columns, those of ``layout``."""
        C, K = layout.num_continuous, layout.num_categorical
        values = None if self.values is None else self.values[:, :C]
        return EncodedTable(self.continuous[:, :C], self.codes[:, :K], layout, values)

    def without(self, cells: Tensor) -> EncodedTable:
        """This table with some cells missing, bool ``[N, J]``."""
        numbers, codes = cells.split([self.layout.num_continuous, self.layout.num_categorical], 1)
        return self.with_cells(
            self.continuous.masked_fill(numbers, torch.nan),
            self.codes.masked_fill(codes, MISSING_CODE),
            None if self.values is None else self.values.masked_fill(numbers, torch.nan),
        )

    def rows(self, index: Tensor | slice) -> EncodedTable:
        """Some of the rows, by int64 index or slice."""
        values = None if self.values is None else self.values[index]
        return self.with_cells(self.continuous[index], self.codes[index], values)
