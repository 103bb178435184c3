"""Encoding and decoding of one column: a class for each kind of column.

Each holds ``keys`` (see `missdiff_fast.table.dtypes`): the distinct values that decoding can return, so that decoding
is one look-up.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
import torch
from pandas.api.extensions import ExtensionArray
from torch import Tensor

from missdiff_fast.table.cells import ColumnCells
from missdiff_fast.table.censored import Censored
from missdiff_fast.table.codec_ops import CodecOps
from missdiff_fast.table.dtypes import Dtype, key_dtype, restore
from missdiff_fast.table.literals import are_large
from missdiff_fast.table.resolution import Resolution

MAX_VALUES = 65_536  # distinct values kept of a continuous column
BLOCK = 32_768  # rows encoded at a time: intermediate results stay in the cache
_REACH = np.finfo(np.float32).max


def normal_quantile(u: np.ndarray) -> np.ndarray:
    """The standard normal's quantile function in float64."""
    quantiles = torch.from_numpy(np.array(u, dtype=np.float64))
    # PyTorch would share larger blocks among threads, but each column already has a thread.
    for start in range(0, len(quantiles), 16_384):
        block = quantiles[start : start + 16_384]
        torch.special.ndtri(block, out=block)
    return quantiles.numpy()


def increasing(values: np.ndarray) -> np.ndarray:
    """float32 numbers made strictly increasing, each raised by as few steps of float32 as needed."""
    bits = values.astype(np.float32).view(np.int32).astype(np.int64)
    order = np.where(bits < 0, -(bits & 0x7FFFFFFF), bits)
    step = np.arange(len(order))
    order = np.maximum.accumulate(order - step) + step if len(order) else order
    return np.where(order < 0, -order | 0x80000000, order).astype(np.uint32).view(np.float32)


@dataclass(frozen=True)
class Constant:
    """A column with one distinct observed value, which every decoded row has."""

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
    def fit(cls, dtype: Dtype, cells: ColumnCells) -> Categorical:
        """Learn the observed categories: in the order of a category dtype, else ascending."""
        keys, _ = cells.distinct
        if not isinstance(dtype, pd.CategoricalDtype):
            keys = np.unique(keys)
        return cls(dtype, cells.family, as_keys(keys, dtype, cells.family))

    @cached_property
    def table(self) -> ExtensionArray:
        """The categories in the order of their codes, in the column's dtype."""
        return restore(self.keys, self.dtype, self.family)

    def encode(self, cells: ColumnCells) -> tuple[np.ndarray, np.ndarray]:
        """Codes int16 ``[N]``, -1 where missing, and the observed keys that are no known category."""
        keys, codes = cells.keys, cells.codes
        if codes is None:
            codes, keys = pd.factorize(keys)
            codes[cells.missing] = -1
        here, there = comparable(keys, self.keys)
        place = pd.Index(there, dtype=there.dtype).get_indexer(pd.Index(here, dtype=here.dtype))
        if np.array_equal(place, np.arange(len(keys))):
            return codes.astype(np.int16, copy=False), keys[:0]
        unseen = place < 0
        if unseen.any():
            unseen &= np.bincount(codes[codes >= 0], minlength=len(keys)) > 0
        return np.append(place, -1).astype(np.int16)[codes], keys[unseen]


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
        Number of observed cells.
    resolution : Resolution
        For conditional means: standardising, and rounding as the observed values are.
    censored : Censored, optional
        As of the cells: some of the values are limits.
    """

    dtype: Dtype
    family: str
    keys: np.ndarray
    cumulative: np.ndarray
    boundaries: np.ndarray
    count: int
    resolution: Resolution
    censored: Censored | None = None

    @classmethod
    def fit(cls, dtype: Dtype, cells: ColumnCells) -> Continuous:
        """Learn the distribution of the observed cells."""
        values, counts = cells.distinct
        values = as_keys(values, dtype, cells.family)
        resolution = Resolution.fit(as_keys(cells.observed, dtype, cells.family), values, counts, dtype, cells.family)
        if cells.censored is not None:
            resolution = resolution.rounding_as(values[~cells.censored.are_limits(values)])
        below = np.cumsum(counts)
        total = int(below[-1])
        kept = np.arange(len(values))
        if len(values) > MAX_VALUES:
            # Even ranks can meet the same frequent value twice, so a few places may stay unused.
            limits = np.empty(0, dtype=np.int64)
            if cells.censored is not None and len(cells.censored.limits) <= MAX_VALUES // 2:
                limits = np.flatnonzero(cells.censored.are_limits(values))
            ranks = np.linspace(0, total - 1, MAX_VALUES - len(limits)).round().astype(np.int64)
            kept = np.union1d(np.searchsorted(below, ranks, side="right"), limits)
        # Half of the cells dropped between two kept values go to either of them.
        next_start = np.append((below - counts)[kept[1:]], total)
        cumulative = (below[kept] + next_start) / (2 * total)
        boundaries = increasing(normal_quantile(cumulative[:-1]).astype(np.float32))
        return cls(dtype, cells.family, values[kept], cumulative, boundaries, total, resolution, cells.censored)

    @cached_property
    def table(self) -> ExtensionArray:
        """The kept values, in the column's dtype."""
        return restore(self.keys, self.dtype, self.family)

    def encode(
        self, cells: ColumnCells, generator: np.random.Generator | None, ops: CodecOps
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Normal scores and standardised values of the cells, both float32, NaN where missing: by `BLOCK` rows.

        Ties are spread at random over their interval of ranks, or put in its middle without a generator.
        """
        blocks = [slice(start, start + BLOCK) for start in range(0, len(cells.missing), BLOCK)]
        keys = cells.per_cell()
        within = self.resolution.within(keys, ~cells.missing if cells.missing.any() else True)
        ranked, known = self._ranked(keys, ~cells.missing)
        own, ends, boundaries = map(as_tensor, (known, np.append(0.0, self.cumulative), self.boundaries))

        def encode(rows: slice) -> tuple[np.ndarray, np.ndarray]:
            given, missing = keys[rows], cells.missing[rows]
            holes = bool(missing.any())
            given = given[~missing] if holes else given
            # Usually both are one array: select its observed cells once.
            ranks = given if ranked is keys else ranked[rows][~missing]
            share = None if generator is None else torch.from_numpy(generator.random(len(given)))
            scores = ops.encode(as_tensor(ranks), own, ends, boundaries, self.count, share).numpy()
            values = self.resolution.standardise(given, within)
            np.clip(values, -_REACH, _REACH, out=values)
            return (_spread(scores, ~missing), _spread(values, ~missing)) if holes else (scores, values)

        yield from map(encode, blocks)

    def _ranked(self, given: np.ndarray, present: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Given keys and the column's own, or numbers that are in the same order, in a type that `encode` takes."""
        given, keys = comparable(given, self.keys)
        if keys.dtype in (np.float32, np.float64, np.int64):
            return given, keys
        # Types that the op does not take are ranked here: the column's keys become odd numbers, cells between them even
        # ones. (Only observed cells are searched: a NaN misleads NumPy about the cell after it.)
        place = np.zeros(len(given), dtype=np.int64)
        place[present] = np.searchsorted(keys, given[present])
        return 2 * place + (keys.take(place, mode="clip") == given), 2 * np.arange(len(keys)) + 1

    def decode_means(self, values: np.ndarray, outliers: bool = True) -> ExtensionArray:
        """The column whose cells have these standardised values ``[B]``: in range, and rounded as the observed ones.

        Without ``outliers`` the range is that of the other values. ValueError if one is NaN.
        """
        if np.isnan(values).any():
            raise ValueError("values hold NaN: no conditional mean can be told from them")
        resolution = self.resolution if outliers else self.resolution.without_outliers()
        keys = np.empty(len(values), dtype=resolution.key_dtype)
        for start in range(0, len(values), BLOCK):
            rows = slice(start, start + BLOCK)
            keys[rows] = resolution.raw(values[rows])
            if self.censored is not None:
                keys[rows] = self._at_limits(keys[rows], resolution, values[rows])
        return restore(keys, self.dtype, self.family)

    def _at_limits(self, keys: np.ndarray, resolution: Resolution, values: np.ndarray) -> np.ndarray:
        """Keys of standardised values ``[B]``, of which those beyond a limit are the limit."""
        assert self.censored is not None
        ends = self.censored.ends(self.keys).within(resolution.least, resolution.greatest)
        # float32 does not tell a limit from its number: it is the one that more cells have.
        error = 4 * np.finfo(np.float32).eps * (1 + np.abs(values)) * resolution.sd
        counts = np.diff(self.cumulative, prepend=0.0)
        slack = np.zeros((2, len(values)))
        for side, limits in enumerate((ends.below[-1:], ends.above[:1])):
            for at in np.searchsorted(self.keys, limits):  # of one limit, or none
                number = (at + 1, at - 1)[side]
                near = np.abs(self.keys.take(number, mode="clip") - self.keys[at]) <= error
                slack[side] = np.where(near & (counts.take(number, mode="clip") > counts[at]), -error, error)
        return ends.put(keys, resolution.unrounded().raw(values), slack)


Coder = Constant | Categorical | Continuous


def as_tensor(array: np.ndarray) -> Tensor:
    """The array as a tensor: a copy where PyTorch takes none, of a read-only array or one of a negative stride."""
    return torch.from_numpy(np.require(array, requirements=["C", "W"]))


def _spread(numbers: np.ndarray, where: np.ndarray) -> np.ndarray:
    """The numbers where ``where`` is true, NaN elsewhere, as float32."""
    result = np.full(len(where), np.nan, dtype=np.float32)
    result[where] = numbers
    return result


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
