"""Random tables and batches for the tests of the ops."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from missdiff_fast.diffusion.states import CLEAN, NOISY
from missdiff_fast.ops import reference
from missdiff_fast.table.encoded import EncodedTable, Layout

LAYOUTS = {
    "mixed": Layout(5, (2, 3, 1, 7, 2)),
    "one_of_each": Layout(1, (2,)),
    "no_continuous": Layout(0, (3, 129, 1)),
    "no_categorical": Layout(7),
    "one_category": Layout(2, (1, 1, 1)),
    "big_groups": Layout(3, (129, 2, 1, 64, 17)),
    "clinical": Layout(27, (2,) * 46),
}

SMALL_LAYOUTS = {
    "mixed": Layout(2, (2, 3, 1)),
    "no_continuous": Layout(0, (3, 1, 4)),
    "no_categorical": Layout(3),
}


@dataclass(frozen=True)
class Batch:
    """The arguments of `perturb` and of the losses."""

    table: EncodedTable
    rows: Tensor  # int64 [B]
    states: Tensor  # uint8 [B, J]
    alpha: Tensor  # [B]
    sigma: Tensor  # [B]
    weight: Tensor  # [B]
    key: Tensor

    def used(self, *, hidden: bool = True) -> Tensor:
        """The table cells that enter a loss, with or without hidden ones, bool ``[B, J]``."""
        seen = self.table.observed()[self.rows]
        wanted = self.states != CLEAN if hidden else self.states == NOISY
        return seen & wanted

    def used_columns(self, *, hidden: bool = True, means: bool = True) -> Tensor:
        """`used` for every column of a prediction, bool ``[B, D + C]`` with the conditional means, else ``[B, D]``."""
        used = self.used(hidden=hidden)
        encoded = used[:, self.table.layout.groups(used.device)]
        return torch.cat([encoded, used[:, : self.table.layout.num_continuous]], 1) if means else encoded

    def to(self, device: torch.device | str) -> Batch:
        """The same batch on a device."""
        rest = self.rows, self.states, self.alpha, self.sigma, self.weight, self.key
        return Batch(self.table.to(device), *(x.to(device) for x in rest))

    def double(self) -> Batch:
        """The same batch in float64."""
        table = self.table
        values = None if table.values is None else table.values.double()
        wide = EncodedTable(table.continuous.double(), table.codes, table.layout, values)
        alpha, sigma, weight = self.alpha.double(), self.sigma.double(), self.weight.double()
        return Batch(wide, self.rows, self.states, alpha, sigma, weight, self.key)


def make_table(
    layout: Layout, size: int = 211, dtype: torch.dtype = torch.float32, *, seed: int = 0, missing: float = 0.3
) -> EncodedTable:
    """A random table; about ``missing`` of its cells are missing, and all of row 0 (unless nothing is)."""
    g = torch.Generator().manual_seed(seed)
    scores = torch.randn(size, layout.num_continuous, generator=g, dtype=torch.float64).to(dtype)
    values = (scores.double() * 0.7 + scores.double() ** 2 / 3).to(dtype)
    sizes = torch.tensor(layout.cardinalities, dtype=torch.float64)
    codes = (torch.rand(size, layout.num_categorical, generator=g, dtype=torch.float64) * sizes).to(torch.int16)
    absent = torch.rand(size, layout.num_columns, generator=g) < missing
    absent[0] = missing > 0
    scores[absent[:, : layout.num_continuous]] = torch.nan
    values[absent[:, : layout.num_continuous]] = torch.nan
    codes[absent[:, layout.num_continuous :]] = -1
    return EncodedTable(scores, codes, layout, values)


def make_batch(
    layout: Layout,
    batch: int = 67,
    dtype: torch.dtype = torch.float32,
    *,
    seed: int = 0,
    missing: float = 0.3,
    step: int = 3,
) -> Batch:
    """A random batch of a random table. Its first row is row 0, in which every cell is missing."""
    g = torch.Generator().manual_seed(seed + 1)
    table = make_table(layout, 211, dtype, seed=seed, missing=missing)
    rows = torch.randint(len(table), (batch,), generator=g)
    rows[:1] = 0
    states = torch.randint(3, (batch, layout.num_columns), generator=g).to(torch.uint8)
    sigma = torch.exp(torch.randn(batch, generator=g, dtype=torch.float64) - 0.5)
    alpha = 1 / torch.sqrt(1 + sigma**2)
    weight = (1 + sigma**2) / sigma**2
    key = reference.make_key(20_000 + seed, step)
    return Batch(table, rows, states, alpha.to(dtype), sigma.to(dtype), weight.to(dtype), key)


def make_prediction(rows: int, columns: int, dtype: torch.dtype = torch.float32, *, seed: int = 0) -> Tensor:
    """Normal numbers of standard deviation 3, so that the softmax of a group is not flat."""
    g = torch.Generator().manual_seed(seed + 2)
    return (3 * torch.randn(rows, columns, generator=g, dtype=torch.float64)).to(dtype)


def strided(x: Tensor) -> Tensor:
    """The same numbers in memory with gaps in every dimension, two dimensions transposed."""
    room = torch.empty([2 * n + 1 for n in reversed(x.shape)], dtype=x.dtype, device=x.device)
    view = room.permute(*reversed(range(x.dim())))[tuple(slice(1, None, 2) for _ in x.shape)]
    view.copy_(x)
    return view


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Run with this number of PyTorch threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
