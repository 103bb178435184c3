"""The paper's encoding: numbers mapped to [0, 1] by their observed range, and the encoding of missing cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from missdiff_fast.table.encoded import EncodedTable, Layout
from missdiff_fast.table.schema import Name

_FARTHEST = 1e9  # its square, and sums of such squares, stay well within float32


@dataclass(frozen=True)
class MinMax:
    """Ranges of the continuous columns, and the encoding of missing cells.

    A missing number is 0 in either form. With ``missing="category"``, as the paper has it, a missing category is a
    category of its own, the last of its column's, and one-hot columns hold 0 and 1. With ``missing="zero"``, as the
    released code has it, all of the column's one-hot columns, which hold -1 and 1, are 0; and numbers are
    ``(x - least + 1) / (range + 1)``, so that 0 is no observed value (by a hair, where the range is wide).

    Parameters
    ----------
    low, span : Tensor
        Least standardised value of each continuous column and its range, float32 ``[C]``.
    margin : Tensor
        Added to a number scaled to a range of 1, float32 ``[C]``: 0, or 1 / range for "zero".
    layout : Layout
        Of the encoded rows, with the further categories.
    missing : {"category", "zero"}
        See above.

    Examples
    --------
    >>> values, codes = torch.tensor([[-1.0], [1.0], [torch.nan]]), torch.tensor([[0], [-1], [1]], dtype=torch.int16)
    >>> table = EncodedTable(values, codes, Layout(1, (2,)), values)
    >>> min_max = MinMax.fit(table, torch.tensor([10.0], dtype=torch.float64))
    >>> encoded = min_max.encode(table)
    >>> encoded.continuous[:, 0].tolist(), encoded.codes[:, 0].tolist()  # the missing category is 2
    ([0.0, 1.0, nan], [0, 2, 1])
    >>> min_max.values(torch.tensor([[0.25, 0.0, 0.0, 1.0]])).tolist()
    [[-0.5]]
    """

    low: Tensor
    span: Tensor
    margin: Tensor
    layout: Layout
    missing: str

    @classmethod
    def fit(cls, table: EncodedTable, scales: Tensor, missing: str = "category") -> MinMax:
        """Learn the ranges of a table's observed cells.

        Parameters
        ----------
        table : EncodedTable
            With ``values``; some cell of every column observed.
        scales : Tensor
            The raw units that a standardised value of 1 stands for, float64 ``[C]``.
        missing : {"category", "zero"}
            As above.
        """
        values = _values(table)
        low = torch.where(values.isnan(), torch.inf, values).amin(0)
        span = torch.where(values.isnan(), -torch.inf, values).amax(0) - low
        return cls.make(low, span, scales, table.layout, missing)

    @classmethod
    def make(cls, low: Tensor, span: Tensor, scales: Tensor, layout: Layout, missing: str) -> MinMax:
        """From the ranges that `fit` learns; ``layout`` is the table's."""
        if missing == "category":
            layout = Layout(layout.num_continuous, tuple(size + 1 for size in layout.cardinalities))
            return cls(low, span, torch.zeros_like(low), layout, missing)
        return cls(low, span, (1 / (span.double() * scales.to(span.device))).float(), layout, missing)

    @property
    def levels(self) -> tuple[float, float]:
        """The values of one-hot columns, off and on."""
        return (0.0, 1.0) if self.missing == "category" else (-1.0, 1.0)

    def encode(self, table: EncodedTable) -> EncodedTable:
        """The table on these scales: a missing number stays NaN, a missing category is the last one or stays -1."""
        x = ((_values(table) - self.low) / self.span + self.margin) / (1 + self.margin)
        codes = table.codes
        if self.missing == "category":
            last = torch.tensor(self.layout.cardinalities, dtype=torch.int16, device=codes.device) - 1
            codes = torch.where(codes < 0, last, codes)
        return EncodedTable(x, codes, self.layout)

    def values(self, x: Tensor) -> Tensor:
        """Standardised values ``[B, C]`` of encoded rows ``[B, D]``, the inverse of `encode` for numbers."""
        x = x[:, : self.layout.num_continuous]
        return (x * (1 + self.margin) - self.margin) * self.span + self.low

    def categories(self, x: Tensor) -> Tensor:
        """The one-hot groups of encoded rows, ``[B, D - C]``, with the missing category excluded."""
        groups = x[:, self.layout.num_continuous :].clone()
        if self.missing == "category":
            ends = self.layout.offsets(x.device)[1:] - self.layout.num_continuous
            groups[:, ends - 1] = -torch.inf
        return groups


def check_near(x: Tensor, names: Sequence[Name]) -> None:
    """Refuse numbers that lie so far outside of the observed range that a network cannot compute with them.

    Parameters
    ----------
    x : Tensor
        Numbers on a scale where the range is about 1, ``[N, C]``; NaN where missing.
    names : sequence of str or int
        Of the C columns.

    Raises
    ------
    ValueError
        With the first such column and row.
    """
    far = (x.abs() > _FARTHEST).nonzero()
    if len(far):
        row, column = far[0].tolist()
        raise ValueError(
            f"column {names[column]!r} has a number in row {row:,} (counted from 0) that is about "
            f"{float(x[row, column].abs()):.0e} times the range that fit saw: correct it, or make it missing"
        )


def _values(table: EncodedTable) -> Tensor:
    if table.values is None:
        raise ValueError("the min-max encoding needs table.values, the standardised raw values")
    return table.values
