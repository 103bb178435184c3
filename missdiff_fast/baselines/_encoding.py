"""Encoding of tables for the baselines: numbers in [0, 1] and categories as codes, or both as one matrix."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pandas as pd
import torch

from missdiff_fast._engine.backend import ReferenceBackend
from missdiff_fast.table import Codec, Layout, TableCells


@dataclass(frozen=True)
class EncodedCells:
    """N rows: continuous columns first, then categorical ones, as in `missdiff_fast.table.Layout`.

    Parameters
    ----------
    values : ndarray
        Continuous cells, the range observed in fit mapped to [0, 1]: float64 ``[N, C]``; NaN where missing.
    codes : ndarray
        Categories, int64 ``[N, K]``; -1 where missing.
    """

    values: np.ndarray
    codes: np.ndarray

    def __len__(self) -> int:
        return len(self.values)

    def rows(self, index: np.ndarray) -> EncodedCells:
        """Some of the rows, by number or bool mask."""
        return EncodedCells(self.values[index], self.codes[index])


class Encoder:
    """Min-max scaling and one-hot coding on top of the package's codec, which keeps dtypes, ranges and resolution.

    Examples
    --------
    >>> from missdiff_fast.table import read_frame
    >>> cells = read_frame(pd.DataFrame({"age": [20, 30, 60], "sex": ["f", None, "m"]}))
    >>> encoder = Encoder.fit(cells)
    >>> encoder.dense(encoder.encode(cells)).round(2).tolist()
    [[0.0, 1.0, 0.0], [0.25, nan, nan], [1.0, 0.0, 1.0]]
    >>> encoder.decode(encoder.cells(np.array([[0.25, 0.3, 0.2]]))).iloc[0].to_dict()
    {'age': 30, 'sex': 'f'}
    """

    def __init__(self, codec: Codec, low: np.ndarray, span: np.ndarray) -> None:
        self.codec, self._low, self._span = codec, low, span

    @classmethod
    def fit(cls, cells: TableCells, max_categories: int = 100) -> Encoder:
        """Learn the columns of a table; errors are those of `missdiff_fast.table.Codec.fit`."""
        # The baselines take standardised values, which no op computes: they need no compiled extension.
        codec = Codec.fit(cells, ops=ReferenceBackend(), max_categories=max_categories)
        values = _values(codec, cells)[0]
        low = np.nanmin(values, axis=0)
        return cls(codec, low, np.nanmax(values, axis=0) - low)

    @property
    def layout(self) -> Layout:
        """The columns, without the constant ones."""
        return self.codec.layout

    def encode(self, cells: TableCells) -> EncodedCells:
        """Encode cells of a table with the learnt columns."""
        values, codes = _values(self.codec, cells)
        return EncodedCells((values - self._low) / self._span, codes)

    def decode(self, cells: EncodedCells) -> pd.DataFrame:
        """Complete cells as a table with the learnt columns, dtypes, ranges and resolution."""
        values = torch.from_numpy(np.clip(cells.values, 0.0, 1.0) * self._span + self._low)
        return self.codec.decode_means(values, torch.from_numpy(cells.codes.astype(np.int16)))

    def dense(self, cells: EncodedCells) -> np.ndarray:
        """The cells as one matrix, categories one-hot: float64 ``[N, D]``; NaN where missing."""
        groups = [cells.values]
        for k, size in enumerate(self.layout.cardinalities):
            code = cells.codes[:, k]
            groups.append(np.where(code[:, None] < 0, np.nan, np.eye(size)[code]))
        return np.concatenate(groups, axis=1)

    def cells(self, dense: np.ndarray) -> EncodedCells:
        """A complete matrix ``[N, D]`` as cells; the largest column of a group is its category."""
        C = self.layout.num_continuous
        codes = np.empty((len(dense), self.layout.num_categorical), dtype=np.int64)
        for k, block in enumerate(self.blocks()[C:]):
            codes[:, k] = dense[:, block].argmax(1)
        return EncodedCells(dense[:, :C].astype(np.float64), codes)

    def blocks(self) -> list[slice]:
        """The matrix columns of each of the J table columns."""
        C, offsets = self.layout.num_continuous, self.layout.offsets().tolist()
        groups = [slice(a, b) for a, b in pairwise(offsets)]
        return [slice(c, c + 1) for c in range(C)] + groups


def _values(codec: Codec, cells: TableCells) -> tuple[np.ndarray, np.ndarray]:
    """Standardised values float64 ``[N, C]`` and codes int64 ``[N, K]``."""
    table = codec.encode(cells)
    assert table.values is not None
    return table.values.numpy().astype(np.float64), table.codes.numpy().astype(np.int64)
