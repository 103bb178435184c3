"""The table and the batch that the ops are timed on."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from missdiff_fast.ops.reference import make_key
from missdiff_fast.table.encoded import EncodedTable, Layout

CONTINUOUS, PAIRS = 27, 46
LAYOUT = Layout(CONTINUOUS, (2,) * PAIRS)
MISSING = 0.1


@dataclass(frozen=True)
class Workload:
    """All rows of a table in one batch: N = B, and by default C = 27, K = 46 pairs, D = 119."""

    table: EncodedTable
    rows: Tensor  # int64 [B], shuffled, as in training
    states: Tensor  # uint8 [B, J], the three states mixed
    alpha: Tensor  # [B]
    sigma: Tensor  # [B]
    weight: Tensor  # [B]
    column_weight: Tensor  # [J]
    key: Tensor
    prediction: Tensor  # [B, D + C]
    x: Tensor  # [B, D]
    previous: Tensor  # [B, D]
    boundaries: Tensor  # [M]
    starts: Tensor  # [C + 1]

    def head(self, size: int) -> Workload:
        """The first rows of the batch, of the same table."""
        return self.piece(0, size)

    def piece(self, first: int, last: int) -> Workload:
        """Some rows of the batch, of the same table."""
        cut = {
            name: getattr(self, name)[first:last]
            for name in ("rows", "states", "alpha", "sigma", "weight", "prediction", "x", "previous")
        }
        whole = {name: getattr(self, name) for name in ("column_weight", "key", "boundaries", "starts")}
        return Workload(self.table, **whole, **cut)

    def to(self, device: torch.device) -> Workload:
        """The same on another device."""
        return Workload(**{name: getattr(self, name).to(device) for name in self.__dataclass_fields__})

    def halved(self) -> Workload:
        """With predictions in bfloat16; `x` serves as the prediction of noise."""
        return replace(self, prediction=self.prediction.bfloat16(), x=self.x.bfloat16())

    def double(self) -> Workload:
        """In float64, for the truth of a sum: float32 adds up differently on each device."""
        t, floats = self.table, ("weight", "column_weight", "prediction", "x")
        assert t.values is not None
        table = EncodedTable(t.continuous.double(), t.codes, t.layout, t.values.double())
        return replace(self, table=table, **{name: getattr(self, name).double() for name in floats})


def make_workload(size: int, layout: Layout = LAYOUT) -> Workload:
    """A seeded workload of so many rows; all categorical columns have as many categories."""
    g = torch.Generator().manual_seed(0)
    C, K = layout.num_continuous, layout.num_categorical
    scores = torch.randn(size, C, generator=g)
    values = torch.randn(size, C, generator=g)
    codes = torch.randint(layout.cardinalities[0], (size, K), generator=g, dtype=torch.int16)
    absent = torch.rand(size, layout.num_columns, generator=g) < MISSING
    scores[absent[:, :C]] = torch.nan
    values[absent[:, :C]] = torch.nan
    codes[absent[:, C:]] = -1
    sigma = torch.exp(1.4 * torch.randn(size, generator=g) - 0.5)
    # As many distinct values as hospital columns have: from a pain score of 10 to a lactate of thousands.
    counts = torch.logspace(1, 3.5, C).long()
    boundaries = torch.cat([torch.randn(int(n), generator=g).sort().values for n in counts])
    return Workload(
        EncodedTable(scores, codes, layout, values),
        torch.randperm(size, generator=g),
        torch.randint(3, (size, layout.num_columns), generator=g, dtype=torch.uint8),
        1 / torch.sqrt(1 + sigma**2),
        sigma,
        (1 + sigma**2) / sigma**2,
        torch.linspace(0.5, 5.0, layout.num_columns),
        make_key(0, 0),
        torch.randn(size, layout.width + C, generator=g),
        torch.randn(size, layout.width, generator=g),
        torch.randn(size, layout.width, generator=g),
        boundaries,
        torch.cat([torch.zeros(1, dtype=torch.int64), counts.cumsum(0)]),
    )
