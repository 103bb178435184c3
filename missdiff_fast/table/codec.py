"""From a table to its encoded form and back."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Sequence
from types import NoneType
from typing import Any, cast

import numpy as np
import pandas as pd
import torch
from pandas.api.extensions import ExtensionArray
from torch import Tensor

from missdiff_fast.ops import _library
from missdiff_fast.table.cells import Markers
from missdiff_fast.table.columns import Categorical, Coder, Continuous, are_whole, comparable
from missdiff_fast.table.dtypes import NUMBERS, as_frame, as_series
from missdiff_fast.table.encoded import EncodedTable, Layout
from missdiff_fast.table.filling import fill_column
from missdiff_fast.table.groups import Group, columns_of, encode_categorical, encode_continuous, groups
from missdiff_fast.table.learning import learn_columns
from missdiff_fast.table.progress import column_bar
from missdiff_fast.table.reading import Reader
from missdiff_fast.table.schema import Name, Schema
from missdiff_fast.table.state import read_state, write_state
from missdiff_fast.table.threads import in_threads


class Codec:
    """What was learnt of a table's columns: encodes the table for the model, and decodes what the model makes.

    Made by `Codec.fit` or `Codec.from_state`.

    Attributes
    ----------
    schema : Schema
        The columns in their original order.
    layout : Layout
        The continuous columns first, then the categorical ones, each in original order; constant ones are in neither.
    boundaries : Tensor
        Ascending normal-score boundaries, all continuous columns one after another, float32 ``[M]``.
    starts : Tensor
        Where each column's boundaries begin, and M at the end, int64 ``[C + 1]``.

    Examples
    --------
    >>> from missdiff_fast import reference
    >>> frame = pd.DataFrame({"age": [31, 45, 27], "sex": ["f", None, "m"]})
    >>> codec = Codec.fit(frame)
    >>> table = codec.encode(frame, seed=0)
    >>> table.codes.flatten().tolist()
    [0, -1, 1]
    >>> x = torch.cat([table.continuous, torch.eye(2)[table.codes[:, 0].long().clamp(min=0)]], 1)
    >>> bin_index, codes = reference.decode(x, codec.layout.offsets(), codec.boundaries, codec.starts)
    >>> codec.fill(frame, codec.decode(bin_index, codes))
       age sex
    0   31   f
    1   45   f
    2   27   m
    """

    def __init__(self, schema: Schema, coders: Sequence[Coder], markers: Markers) -> None:
        self.schema = schema
        self._coders = dict(zip(schema.names, coders, strict=True))
        self._markers = markers
        self._continuous = [cast(Continuous, self._coders[name]) for name in schema.continuous]
        self._categorical = [cast(Categorical, self._coders[name]) for name in schema.categorical]
        self.layout = Layout(len(self._continuous), tuple(len(coder.keys) for coder in self._categorical))
        edges = [coder.boundaries for coder in self._continuous]
        self.boundaries = torch.from_numpy(np.concatenate([np.empty(0, np.float32), *edges]))
        self.starts = torch.tensor([0, *(len(edge) for edge in edges)], dtype=torch.int64).cumsum(0)

    @classmethod
    def fit(
        cls,
        frame: pd.DataFrame,
        *,
        categorical_columns: Sequence[Name] | None = None,
        missing_values: Sequence[object] = (),
        max_categories: int = 100,
        verbose: bool = False,
    ) -> Codec:
        """Learn a table's columns.

        Columns of strings, booleans and categories are categorical, and so are those named, and numeric columns in
        which exactly two distinct values were observed, both whole numbers (flags such as 0 and 1). Other numbers,
        dates and times are continuous; columns with one distinct value are constant. Numbers that look like
        identifiers are warned of.

        Parameters
        ----------
        frame : DataFrame
            The table, with missing cells as NaN, None, NaT or NA.
        categorical_columns : sequence of str or int, optional
            Further columns to take as categories.
        missing_values : sequence of str or number
            Further values that stand for a missing cell: strings among strings, numbers among numbers. Where strings
            that are left without them are all numbers, the column is taken as numbers.
        max_categories : int
            The most categories that a column may have.
        verbose : bool
            Whether to show progress on stderr, where that is a terminal and it takes more than two seconds.

        Raises
        ------
        TypeError
            If ``frame`` is no DataFrame, or holds cells or names of a type that can't be taken.
        ValueError
            If the frame has no rows or columns, duplicate names, a column that is all missing, infinite, of mixed types
            or of too many categories, or no column that varies.
        """
        return cls(
            *learn_columns(
                frame,
                categorical_columns=categorical_columns,
                missing_values=missing_values,
                max_categories=max_categories,
                verbose=verbose,
            )
        )

    def encode(
        self, frame: pd.DataFrame, *, seed: int | None = None, partial: bool = False, verbose: bool = False
    ) -> EncodedTable:
        """Encode a table that has the learnt columns, in any order.

        Parameters
        ----------
        frame : DataFrame
            The table.
        seed : int, optional
            Ties of continuous columns are spread at random over their interval of ranks; without a seed they are put in
            its middle.
        partial : bool
            Whether columns may be absent; they count as missing.
        verbose : bool
            Whether to show progress, as in `fit`.

        Returns
        -------
        EncodedTable
            Of the frame's rows in their order, float32, with ``values`` (cut to what float32 can hold).

        Raises
        ------
        TypeError
            If ``frame`` is no DataFrame, ``seed`` no integer, or a column of another family than the learnt one.
        ValueError
            If a column is missing or not known, infinite or mixed, or holds a category that was not seen in `fit`.
        """
        given: object = seed
        if not isinstance(given, (int, np.integer, NoneType)):
            raise TypeError(f"seed must be None or an integer, got {type(seed).__name__}")
        reader = Reader(frame, self.schema, self._markers, partial=partial)
        rows, layout = len(frame), self.layout
        continuous = np.empty((rows, layout.num_continuous), dtype=np.float32)
        values = np.empty((rows, layout.num_continuous), dtype=np.float32)
        codes = np.empty((rows, layout.num_categorical), dtype=np.int16)

        def encode(group: Group) -> list[str]:
            cells = map(reader.read, group.names)
            # Where none is observed they may be of any family, and there is nothing to encode.
            found = [None if column is None or column.missing.all() else column for column in cells]
            if group.kind == "continuous":
                generators = [
                    None if seed is None else np.random.default_rng([seed & (1 << 64) - 1, group.first + i])
                    for i in range(len(found))
                ]
                coders, at = self._continuous[group.columns], np.s_[:, group.columns]
                encode_continuous(coders, found, generators, continuous[at], values[at])
            if group.kind == "categorical":
                strange = encode_categorical(self._categorical[group.columns], found, codes[:, group.columns])
                pairs = zip(group.names, strange, strict=True)
                return [self._unseen(name, keys[:1].tolist()[0]) for name, keys in pairs if len(keys)]
            return []

        unseen: list[str] = []
        with column_bar(len(self.schema), "encoding columns", verbose) as bar:
            pieces = groups(self.schema)
            # In plain PyTorch the op that encodes shares its work among threads itself.
            threads = torch.get_num_threads() if _library.load() else 1
            for group, told in zip(pieces, in_threads(encode, pieces, rows, threads), strict=True):
                unseen += told
                bar.update(len(group.names))
        reader.check()
        if unseen:
            raise ValueError(
                f"categories that were not seen in fit: {'; '.join(unseen)}. Replace them by known ones or by a "
                "missing value, or fit again with them"
            )
        return EncodedTable(torch.from_numpy(continuous), torch.from_numpy(codes), layout, torch.from_numpy(values))

    def decode(self, bin_index: Tensor, codes: Tensor) -> pd.DataFrame:
        """The table that `missdiff_fast.ops.decode`'s result stands for.

        Parameters
        ----------
        bin_index : Tensor
            int32 ``[B, C]``.
        codes : Tensor
            int16 ``[B, K]``.

        Returns
        -------
        DataFrame
            B rows with the original columns, order and dtypes; every value one that was observed.
        """
        self._check_shape(bin_index, codes)
        return self._frame(bin_index.cpu().numpy(), codes, lambda coder, cells: coder.table.take(cells))

    def decode_means(self, values: Tensor, codes: Tensor) -> pd.DataFrame:
        """The table of conditional means and categories.

        Parameters
        ----------
        values : Tensor
            Standardised values of the continuous columns, floating ``[B, C]``.
        codes : Tensor
            int16 ``[B, K]``.

        Returns
        -------
        DataFrame
            As in `decode`; continuous cells are within the observed range and rounded as the observed ones are.
        """
        self._check_shape(values, codes)
        values = values.detach().cpu()
        if values.dtype not in (torch.float32, torch.float64):
            values = values.to(torch.float32)
        return self._frame(values.numpy(), codes, Continuous.decode_means)

    def fill(self, frame: pd.DataFrame, filled: pd.DataFrame, *, verbose: bool = False) -> pd.DataFrame:
        """The frame with its missing cells taken from another of as many rows.

        Observed cells are kept bit for bit, and so are index, order and dtypes; a column whose dtype can't hold what it
        is filled with, or that marks missing cells by strings among numbers, comes back in the learnt dtype.
        Progress is shown if ``verbose``, as in `fit`.
        """
        reader, fits = Reader(frame, self.schema, self._markers), len(filled) == len(frame)
        names = list(reader.columns)
        absent = [name for name in names if name not in filled.columns]
        if absent:
            raise ValueError(f"filled has no column {absent[0]!r}: give all of {names}")
        sources = {name: filled[name] for name in names} if fits else {}

        def fill(name: Name) -> pd.Series | ValueError | None:
            cells = reader.read(name)
            if cells is None or not fits:
                return None
            try:
                return fill_column(reader.columns[name], sources[name], cells, self.schema[name])
            except ValueError as error:
                return error

        columns, errors = dict[Name, pd.Series](), list[ValueError]()
        with column_bar(len(names), "filling columns", verbose) as bar:
            for name, column in zip(names, in_threads(fill, names, len(frame)), strict=True):
                if isinstance(column, ValueError):
                    errors.append(column)
                elif column is not None:
                    columns[name] = column
                bar.update()
        reader.check()
        if not fits:
            raise ValueError(f"filled has {len(filled):,} rows, the frame {len(frame):,}: give as many")
        if errors:
            raise errors[0]
        result = as_frame(columns, frame.index)
        result.columns = frame.columns
        return result

    def category_values(self, column: Name) -> list[Any]:
        """A categorical column's categories in the order of their codes."""
        if not isinstance(column, (str, numbers.Integral)):
            raise TypeError(f"column must be the name of one column, got {column!r}")
        coder = self._coders.get(column)
        if not isinstance(coder, Categorical):
            kind = f"is {self.schema[column].kind}" if column in self.schema else "is not known"
            raise ValueError(f"column {column!r} {kind}: the categorical ones are {list(self.schema.categorical)}")
        return as_series(coder.table).tolist()

    def check_constants(self, frame: pd.DataFrame) -> None:
        """Refuse, by ValueError, an observed value that a constant column never had; absent columns pass."""
        reader = Reader(frame, self.schema, self._markers, partial=True)
        found = dict[Name, np.ndarray]()
        for name in self.schema.names:
            cells = reader.read(name)
            if cells is not None and name in self.schema.constant:
                found[name] = cells.observed
        reader.check()
        for name, observed in found.items():
            coder = self._coders[name]
            given, known = comparable(observed, coder.keys)
            strange = given != known[0]
            if strange.any():
                value, only = observed[strange].tolist()[0], as_series(coder.table).tolist()[0]
                raise ValueError(f"column {name!r} was constant in fit, {only!r}: {value!r} cannot be given")

    @property
    def scales(self) -> Tensor:
        """What a standardised value of 1 stands for in each continuous column, in raw units: float64 ``[C]``."""
        return torch.tensor([coder.resolution.sd for coder in self._continuous], dtype=torch.float64)

    @property
    def columns(self) -> list[Name]:
        """The columns' names in their original order."""
        return list(self.schema.names)

    def group(self, column: Name) -> int:
        """Which of the layout's categorical columns this is: from 0 to K - 1."""
        self.category_values(column)
        return self.schema.categorical.index(column)

    def state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """What was learnt, as JSON and tensors; `from_state` reads it back."""
        return write_state(self.schema, self._coders, self._markers)

    @classmethod
    def from_state(cls, meta: dict[str, Any], tensors: dict[str, Tensor]) -> Codec:
        """A codec from its `state`; ValueError if that is none."""
        return cls(*read_state(meta, tensors))

    def _frame(
        self, continuous: np.ndarray, codes: Tensor, decode: Callable[[Continuous, np.ndarray], ExtensionArray]
    ) -> pd.DataFrame:
        """A frame of what ``decode`` makes of the continuous columns ``[B, C]``, and of the codes ``[B, K]``."""
        categories, rows = codes.cpu().numpy(), len(codes)
        index = pd.RangeIndex(rows)

        def column(array: ExtensionArray) -> pd.Series:
            return as_series(array, index)

        def decode_group(group: Group) -> list[pd.Series]:
            if group.kind == "continuous":
                pairs = zip(self._continuous[group.columns], columns_of(continuous[:, group.columns]), strict=True)
                return [column(decode(coder, cells)) for coder, cells in pairs]
            if group.kind == "categorical":
                coded = zip(self._categorical[group.columns], columns_of(categories[:, group.columns]), strict=True)
                return [column(coder.table.take(cells)) for coder, cells in coded]
            zeros = np.zeros(rows, dtype=np.int64)
            return [column(self._coders[name].table.take(zeros)) for name in group.names]

        columns: dict[Name, pd.Series] = {}
        pieces = groups(self.schema)
        for group, decoded in zip(pieces, in_threads(decode_group, pieces, rows), strict=True):
            columns.update(zip(group.names, decoded, strict=True))
        return as_frame({name: columns[name] for name in self.schema.names}, index)

    def _check_shape(self, continuous: Tensor, codes: Tensor) -> None:
        expected = (len(codes), self.layout.num_continuous), (len(codes), self.layout.num_categorical)
        if (tuple(continuous.shape), tuple(codes.shape)) != expected:
            raise ValueError(
                f"shapes {tuple(continuous.shape)} and {tuple(codes.shape)}: expected "
                f"[B, {self.layout.num_continuous}] and [B, {self.layout.num_categorical}]"
            )

    def _unseen(self, name: Name, value: object) -> str:
        known, coder = self.category_values(name), self._coders[name]
        shown = ", ".join(map(repr, known[:5])) + (f", ... ({len(known)} in all)" if len(known) > 5 else "")
        numeric = coder.family in NUMBERS and not isinstance(coder.dtype, pd.CategoricalDtype)
        if numeric and len(known) == 2 and are_whole(coder.keys):
            shown += " (learnt as categorical because fit saw these two values only)"
        return f"column {name!r} holds {value!r}; known are {shown}"
