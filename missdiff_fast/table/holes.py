"""The holes of a table's rows: which cells are missing together, and rows with such holes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from missdiff_fast.table.dtypes import as_frame, as_series
from missdiff_fast.table.schema import Name
from missdiff_fast.table.table_cells import TableCells

_MOST_ROWS = 1 << 17  # whose holes are kept
_MOST_BYTES = 1 << 23  # which these take


@dataclass(frozen=True)
class Holes:
    """Which cells are missing together, and in how many rows.

    Parameters
    ----------
    columns : tuple of str or int
        The names of the J columns.
    patterns : ndarray
        The distinct sets of missing cells, eight columns a byte, uint8 ``[P, ceil(J / 8)]``; a bit is 1 where a cell is
        missing.
    counts : ndarray
        The number of rows that have each, int64 ``[P]``.

    Examples
    --------
    >>> from missdiff_fast.table import read_frame
    >>> cells = read_frame(pd.DataFrame({"age": [31, None, 27, 45], "sex": ["f", None, "m", "f"]}))
    >>> holes = Holes.learn(cells, seed=0)
    >>> holes.counts.tolist()
    [3, 1]
    >>> holes.draw(np.array([0.2, 0.8])).values.tolist()
    [[False, False], [True, True]]
    """

    columns: tuple[Name, ...]
    patterns: np.ndarray
    counts: np.ndarray

    @classmethod
    def learn(cls, cells: TableCells, seed: int) -> Holes:
        """The holes of a table; of more than 131,072 rows, or of fewer where there are many columns, those of some."""
        columns = tuple(cells.columns)
        most = min(_MOST_ROWS, max(1, _MOST_BYTES // -(-len(columns) // 8)))
        rows: slice | np.ndarray = slice(None)
        if len(cells) > most:
            rows = np.sort(np.random.default_rng(seed).choice(len(cells), most, replace=False))
        missing = np.stack([cells.found[name].missing[rows] for name in columns], 1)
        return cls(columns, *np.unique(np.packbits(missing, 1), axis=0, return_counts=True))

    @property
    def any(self) -> bool:
        """Whether a cell is missing."""
        return bool(self.patterns.any())

    @property
    def ever(self) -> list[Name]:
        """The columns that have holes."""
        bits = np.unpackbits(np.bitwise_or.reduce(self.patterns), count=len(self.columns))
        return [name for name, bit in zip(self.columns, bits, strict=True) if bit]

    def distinct(self) -> pd.DataFrame:
        """The distinct sets of missing cells, bool ``[P, J]``."""
        return self._frame(self.patterns)

    def draw(self, uniform: np.ndarray) -> pd.DataFrame:
        """The holes of N rows, each those of a row of the table: bool ``[N, J]``, from uniform numbers ``[N]``."""
        below = self.counts.cumsum()
        chosen = np.searchsorted(below, uniform * below[-1], side="right").clip(max=len(below) - 1)
        return self._frame(self.patterns[chosen])

    def _frame(self, patterns: np.ndarray) -> pd.DataFrame:
        bits = np.unpackbits(patterns, 1, count=len(self.columns)).astype(bool)
        return pd.DataFrame(bits, columns=pd.Index(self.columns, dtype=object))

    def blank(self, rows: pd.DataFrame, holes: pd.DataFrame) -> pd.DataFrame:
        """The rows with holes where ``holes`` is True, both ``[N, J]``.

        A column of NumPy integers or booleans that has holes in the table gets pandas' nullable dtype of the same name,
        with or without a hole in these rows.

        >>> rows = pd.DataFrame({"age": [31, 45], "sex": ["f", "m"]})
        >>> holes = Holes(("age", "sex"), np.array([[0], [128]], dtype=np.uint8), np.array([3, 1]))
        >>> holes.blank(rows, holes.draw(np.array([0.9, 0.1])))
            age sex
        0  <NA>   f
        1    45   m
        """
        columns = dict(rows.items())
        for name in self.ever:
            columns[name] = without_cells(columns[name], holes[name].to_numpy())
        return as_frame(columns, rows.index)

    def tensors(self) -> dict[str, Tensor]:
        """The patterns and their counts by name, for a model file."""
        return {"patterns": torch.from_numpy(self.patterns), "counts": torch.from_numpy(self.counts)}

    @classmethod
    def of(cls, columns: Sequence[Name], tensors: Mapping[str, Tensor]) -> Holes:
        """From the tensors of a model file; KeyError where one is not there, ValueError where they do not fit."""
        patterns, counts = (tensors[name].cpu().numpy() for name in ("patterns", "counts"))
        fits = patterns.shape == (len(counts), -(-len(columns) // 8)) and patterns.dtype == np.uint8
        whole = counts.ndim == 1 and counts.dtype == np.int64 and len(counts) > 0
        if not (fits and whole and (counts > 0).all() and counts.astype(float).sum() <= _MOST_ROWS):
            raise ValueError("the holes of a model file do not hold together")
        return cls(tuple(columns), patterns, counts)


def without_cells(column: pd.Series, holes: np.ndarray) -> pd.Series:
    """A column without some cells, ``holes`` bool ``[N]``; of NumPy's integers or booleans in a nullable dtype."""
    if column.dtype.kind in "iub" and isinstance(column.dtype, np.dtype):
        column = column.convert_dtypes()
    places = np.where(holes, -1, np.arange(len(column)))
    return as_series(column.array.take(places, allow_fill=True), column.index)
