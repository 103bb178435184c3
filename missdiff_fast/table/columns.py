"""How one column is encoded and decoded: a class for each kind of column.

Each holds ``keys`` (see `missdiff_fast.table.dtypes`): the distinct values that the column can come back with, so that
decoding is one look-up.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
import torch
from pandas.api.extensions import ExtensionArray

from missdiff_fast.table.cells import Cells
from missdiff_fast.table.dtypes import Dtype, key_dtype, restore
from missdiff_fast.table.literals import are_large
from missdiff_fast.table.resolution import Resolution

MAX_VALUES = 65_536  # distinct values kept of a continuous column


def normal_quantile(u: np.ndarray) -> np.ndarray:
    """The standard normal's quantile function in float64."""
    return torch.special.ndtri(torch.from_numpy(np.ascontiguousarray(u, dtype=np.float64))).numpy()


def increasing(values: np.ndarray) -> np.ndarray:
    """float32 numbers made strictly increasing, each raised by as few steps of float32 as needed."""
    bits = values.astype(np.float32).view(np.int32).astype(np.int64)
    order = np.where(bits < 0, -(bits & 0x7FFFFFFF), bits)
    step = np.arange(len(order))
    order = np.maximum.accumulate(order - step) + step if len(order) else order
    return np.where(order < 0, -order | 0x80000000, order).astype(np.uint32).view(np.float32)


@dataclass(frozen=True)
class Constant:
    """A column with one distinct observed value, which every row comes back with."""

    dtype: Dtype
    family: str
    keys: np.ndarray  # [1]

    @cached_property
    def table(self) -> ExtensionArray:
        """The value, in the column's dtype."""
        return restore(self.keys, self.dtype, self.family)


@dataclass(frozen=True)
class Categorical:
    """A column of categories: the code of a cell is its key's place among the distinct observed keys."""

    dtype: Dtype
    family: str
    keys: np.ndarray  # [V]

    @classmethod
    def fit(cls, dtype: Dtype, cells: Cells) -> Categorical:
        """Learn the observed categories: in the order of a category dtype, else ascending."""
        if cells.codes is None:
            return cls(dtype, cells.family, as_keys(np.unique(cells.observed()), dtype, cells.family))
        seen = np.bincount(cells.codes[~cells.missing], minlength=len(cells.keys)) > 0
        keys = cells.keys[seen]
        if not isinstance(dtype, pd.CategoricalDtype):
            keys = np.unique(keys)
        return cls(dtype, cells.family, as_keys(keys, dtype, cells.family))

    @cached_property
    def table(self) -> ExtensionArray:
        """The categories in the order of their codes, in the column's dtype."""
        return restore(self.keys, self.dtype, self.family)

    def encode(self, cells: Cells) -> tuple[np.ndarray, np.ndarray]:
        """Codes int16 ``[N]``, -1 where missing, and the observed keys that are no known category."""
        keys, codes = cells.keys, cells.codes
        if codes is None:
            codes, keys = pd.factorize(keys)
            codes = np.where(cells.missing, -1, codes)
        here, there = comparable(keys, self.keys)
        place = pd.Index(there, dtype=there.dtype).get_indexer(pd.Index(here, dtype=here.dtype))
        used = np.bincount(codes[codes >= 0], minlength=len(keys)) > 0
        unseen = keys[used & (place < 0)]
        return np.append(place, -1)[codes].astype(np.int16), unseen


@dataclass(frozen=True)
class Continuous:
    """A column of numbers, dates or times: the normal score of a cell is that of its rank among the observed ones.

    Equal cells share an interval of ranks. Between the intervals of two successive values lies a boundary, so that a
    score's value is found by counting the boundaries that are at most the score.

    Parameters
    ----------
    dtype : dtype
        Of the column.
    family : str
        Of its cells.
    keys : ndarray
        The distinct observed values, ascending, at most `MAX_VALUES` of them: ``[V]``.
    cumulative : ndarray
        The share of cells that lie below the boundary after each value, the last 1: float64 ``[V]``.
    boundaries : ndarray
        Strictly increasing scores, float32 ``[V - 1]``.
    count : int
        How many cells were observed.
    resolution : Resolution
        For conditional means: standardising, and rounding as the observed values are.
    """

    dtype: Dtype
    family: str
    keys: np.ndarray
    cumulative: np.ndarray
    boundaries: np.ndarray
    count: int
    resolution: Resolution

    @classmethod
    def fit(cls, dtype: Dtype, cells: Cells) -> Continuous:
        """Learn the distribution of the observed cells."""
        observed = as_keys(cells.observed(), dtype, cells.family)
        values, counts = np.unique(observed, return_counts=True)
        resolution = Resolution.fit(observed, values, dtype, cells.family)
        below = np.cumsum(counts)
        total = int(below[-1])
        kept = np.arange(len(values))
        if len(values) > MAX_VALUES:
            # Even ranks can meet the same frequent value twice, so a few places may stay unused.
            ranks = np.linspace(0, total - 1, MAX_VALUES).round().astype(np.int64)
            kept = np.unique(np.searchsorted(below, ranks, side="right"))
        # Half of the cells dropped between two kept values go to either of them.
        next_start = np.append((below - counts)[kept[1:]], total)
        cumulative = (below[kept] + next_start) / (2 * total)
        boundaries = increasing(normal_quantile(cumulative[:-1]).astype(np.float32))
        return cls(dtype, cells.family, values[kept], cumulative, boundaries, total, resolution)

    @cached_property
    def table(self) -> ExtensionArray:
        """The kept values, in the column's dtype."""
        return restore(self.keys, self.dtype, self.family)

    def encode(self, cells: Cells, generator: np.random.Generator | None) -> tuple[np.ndarray, np.ndarray]:
        """Normal scores and standardised values of the cells, both float32 ``[N]``, NaN where missing.

        Ties are spread at random over their interval of ranks, or put in its middle without a generator.
        """
        scores = np.full(len(cells.missing), np.nan, dtype=np.float32)
        values = scores.copy()
        present = ~cells.missing
        given = cells.observed()
        if len(given) == 0:
            return scores, values
        reach = np.finfo(np.float32).max
        values[present] = np.clip(self.resolution.standardise(given), -reach, reach)
        cells_, keys = comparable(given, self.keys)
        place = np.minimum(np.searchsorted(keys, cells_, side="left"), len(keys))
        exact = keys[np.minimum(place, len(keys) - 1)] == cells_
        ends = np.concatenate([[0.0], self.cumulative, [1.0]])
        share = np.full(len(given), 0.5) if generator is None else generator.random(len(given))
        u = ends[place] + np.where(exact, ends[place + 1] - ends[place], 0.0) * share
        u = np.clip(u, 0.5 / self.count, 1 - 0.5 / self.count)
        score = normal_quantile(u).astype(np.float32)
        # Rounding to float32 must not carry a known value over its boundary.
        low = np.append(np.float32(-np.inf), self.boundaries)
        high = np.append(np.nextafter(self.boundaries, np.float32(-np.inf)), np.float32(np.inf))
        inside = np.minimum(place, len(keys) - 1)
        scores[present] = np.where(exact, np.clip(score, low[inside], high[inside]), score)
        return scores, values

    def decode_means(self, values: np.ndarray) -> ExtensionArray:
        """The column whose cells have these standardised values ``[B]``: in range, and rounded as the observed ones."""
        return restore(self.resolution.raw(values), self.dtype, self.family)


Coder = Constant | Categorical | Continuous


def are_whole(numbers: np.ndarray) -> bool:
    """Whether all of these integers or floats are whole numbers."""
    return bool((numbers == np.trunc(numbers)).all())


def as_keys(keys: np.ndarray, dtype: Dtype, family: str) -> np.ndarray:
    """Keys in the type that a column of this dtype has (they have another where the cells were read as strings)."""
    return keys.astype(key_dtype(dtype, family), copy=False)


def comparable(given: np.ndarray, known: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Given keys and a column's own in one type in which equal values are equal."""
    if given.dtype == known.dtype or known.dtype == np.dtype(object):
        return given, known
    if given.dtype.kind == "f" and known.dtype.kind == "f":
        with np.errstate(over="ignore"):
            return given.astype(known.dtype), known
    if are_large(given) or are_large(known):  # as Python's numbers, which compare exactly
        return given.astype(object), known.astype(object)
    return given.astype(np.float64), known.astype(np.float64)
