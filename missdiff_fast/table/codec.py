"""Encoding a table, and decoding it."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from functools import partial
from types import NoneType
from typing import Any, cast

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from missdiff_fast.errors import DataError, DataWarning, argument_type_error, warn
from missdiff_fast.remedies import Do
from missdiff_fast.table.atoms import Atoms
from missdiff_fast.table.cells import Markers
from missdiff_fast.table.codec_ops import CodecOps
from missdiff_fast.table.columns import Categorical, Coder, Continuous, as_tensor, comparable
from missdiff_fast.table.dates import forms_of
from missdiff_fast.table.decoding import decode_table
from missdiff_fast.table.dtypes import as_series
from missdiff_fast.table.encoded import EncodedTable, Layout
from missdiff_fast.table.encoding import encode_table
from missdiff_fast.table.filling import fill_table
from missdiff_fast.table.learning import learn_columns
from missdiff_fast.table.relations import Relation, Relations, find_relations
from missdiff_fast.table.schema import Name, Schema
from missdiff_fast.table.spelling import match_spelling
from missdiff_fast.table.state import read_state, write_state
from missdiff_fast.table.structural import StructuralHole, StructuralHoles, find_structural, read_structural
from missdiff_fast.table.table_cells import TableCells, read_learnt


class Codec:
    """Learnt properties of a table's columns: encodes the table for the model, and decodes the model's output.

    Made by `Codec.fit` or `Codec.from_state`. A frame is read once, by `read_frame` where it is to be learnt and by
    `Codec.read` later; all other methods take the cells.

    Attributes
    ----------
    schema : Schema
        The columns in their original order.
    relations : Relations
        What is known of columns that others determine.
    structural : StructuralHoles
        What is known of cells that are missing because of what another column says.
    layout : Layout
        The continuous columns first, then the categorical ones, each in original order; constant ones are in neither.
        The last continuous columns are the residuals of relations.
    boundaries : Tensor
        Ascending normal-score boundaries, all continuous columns one after another, float32 ``[M]``.
    starts : Tensor
        Where each column's boundaries begin, and M at the end, int64 ``[C + 1]``.
    ops : CodecOps
        The backend that encodes; another may be assigned.

    Examples
    --------
    >>> from missdiff_fast._engine.backend import ReferenceBackend
    >>> from missdiff_fast.ops import reference
    >>> from missdiff_fast.table import read_frame
    >>> cells = read_frame(pd.DataFrame({"age": [31, 45, 27], "sex": ["f", None, "m"]}))
    >>> codec = Codec.fit(cells, ops=ReferenceBackend())
    >>> table = codec.encode(cells, seed=0)
    >>> table.codes.flatten().tolist()
    [0, -1, 1]
    >>> x = torch.cat([table.continuous, torch.eye(2)[table.codes[:, 0].long().clamp(min=0)]], 1)
    >>> bin_index, codes = reference.decode(x, codec.layout.offsets(), codec.boundaries, codec.starts)
    >>> codec.fill(cells, codec.decode(bin_index, codes))
       age sex
    0   31   f
    1   45   f
    2   27   m
    """

    def __init__(
        self,
        schema: Schema,
        coders: Sequence[Coder],
        markers: Markers,
        ops: CodecOps,
        relations: Sequence[Relation] = (),
        structural: Sequence[StructuralHole] = (),
    ) -> None:
        self.schema = schema
        own = dict(zip(schema.names, coders, strict=True))
        self.relations, self.structural = Relations(schema, own, relations), StructuralHoles(schema, own, structural)
        self._coders, self._modelled = self.relations.coders, self.relations.schema
        self._markers, self.ops = markers, ops
        self._continuous = [cast(Continuous, self._coders[name]) for name in self._modelled.continuous]
        self._categorical = [cast(Categorical, self._coders[name]) for name in schema.categorical]
        cardinalities = tuple(len(coder.keys) for coder in self._categorical)
        self.layout = Layout(len(self._continuous), cardinalities, parents=self.relations.parents)
        edges = [coder.boundaries for coder in self._continuous]
        self.boundaries = torch.from_numpy(np.concatenate([np.empty(0, np.float32), *edges]))
        self.starts = torch.tensor([0, *(len(edge) for edge in edges)], dtype=torch.int64).cumsum(0)

    @classmethod
    def fit(
        cls,
        cells: TableCells,
        *,
        ops: CodecOps,
        max_categories: int = 10_000,
        relations: bool = False,
        structural: bool = False,
        verbose: bool = False,
    ) -> Codec:
        """Learn a table's columns.

        Columns of strings, booleans and categories are categorical, and so are those named, and numeric columns in
        which exactly two distinct values were observed, both whole numbers (flags such as 0 and 1). Other numbers,
        dates and times are continuous, those named whatever their values; columns with one distinct value are constant.

        Parameters
        ----------
        cells : TableCells
            What `read_frame` read of the table.
        ops : CodecOps
            The backend that encodes.
        max_categories : int
            The most categories that a column may have.
        relations : bool
            Whether to look for columns that others determine (see `missdiff_fast.table.relations`).
        structural : bool
            Whether to look for structural holes (see `missdiff_fast.table.structural`).
        verbose : bool
            Whether to show progress on stderr, where that is a terminal and it takes more than two seconds.

        Raises
        ------
        TypeError
            If the frame holds cells of a type that can't be taken.
        ValueError
            If the frame has no rows or columns, a column that is all missing, infinite, of mixed types or of too many
            categories, or no column that varies.
        """
        schema, coders = learn_columns(cells, max_categories=max_categories, verbose=verbose)
        schema = schema.with_forms(forms_of(cells.frame))
        named = dict(zip(schema.names, coders, strict=True))
        return cls(
            schema,
            coders,
            cells.markers,
            ops,
            find_relations(cells, schema, named) if relations else (),
            find_structural(cells, schema, named) if structural else (),
        )

    def read(self, frame: pd.DataFrame, *, partial: bool = False, verbose: bool = False) -> TableCells:
        """Read a table that has the learnt columns, in any order.

        A text that is no known category is the one that has other white space around it, or other line ends, if there
        is just one.

        Parameters
        ----------
        frame : DataFrame
            The table.
        partial : bool
            Whether columns may be absent; they count as missing.
        verbose : bool
            Whether to show progress, as in `fit`.

        Raises
        ------
        TypeError
            If ``frame`` is no DataFrame, or a column of another family than the learnt one.
        ValueError
            If a column is missing or not known, infinite or mixed.
        """
        cells = read_learnt(frame, self.schema, self._markers, partial=partial, verbose=verbose)
        coders = {column.name: self._coders[column.name] for column in self.schema if column.family == "string"}
        return match_spelling(cells, {name: coder.keys for name, coder in coders.items()})

    def encode(self, cells: TableCells, *, seed: int | None = None, verbose: bool = False) -> EncodedTable:
        """Encode cells.

        Parameters
        ----------
        cells : TableCells
            Those that the codec was fitted on, or what `read` gave.
        seed : int, optional
            Ties of continuous columns are spread at random over their interval of ranks; without a seed they are put in
            its middle.
        verbose : bool
            Whether to show progress, as in `fit`.

        Returns
        -------
        EncodedTable
            Of the frame's rows in their order, float32, with ``values`` (cut to what float32 can hold).

        Raises
        ------
        TypeError
            If ``seed`` is no integer.
        ValueError
            If a column holds a category that was not seen in `fit`.
        """
        given: object = seed
        if not isinstance(given, (int, np.integer, NoneType)):
            raise TypeError(f"seed must be None or an integer, got {type(seed).__name__}")
        coders = self._continuous, self._categorical
        cells = self.relations.add_residuals(cells)
        return encode_table(cells, self._modelled, *coders, self.layout, self.ops, seed=seed, verbose=verbose)

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
            B rows with the original columns, order and dtypes; every value one that was observed. Columns with limits
            of measurement are float64; `written` gives their texts. The residuals come last; `settle` uses them and
            leaves them out.
        """
        self._check_shape(bin_index, codes)
        places, categories = bin_index.cpu().numpy(), codes.cpu().numpy()
        return decode_table(self._modelled, self._coders, places, categories, lambda coder, own: coder.table.take(own))

    def written(self, decoded: pd.DataFrame) -> pd.DataFrame:
        """Decoded or settled rows with limits of measurement, such as ``<0.1``, as the table writes them."""
        columns = {column.name: column.censored for column in self.schema if column.censored is not None}
        decoded = decoded.copy(deep=False) if columns else decoded
        for name, censored in columns.items():
            decoded[name] = censored.column(decoded[name].to_numpy(), decoded.index)
        return decoded

    def ranks(self) -> list[Tensor]:
        """The middle of the ranks of each kept value of each continuous column, from 0 to 1: float64 ``[V]`` each."""
        ends = [torch.from_numpy(np.append(0.0, coder.cumulative)) for coder in self._continuous]
        return [(end[:-1] + end[1:]) / 2 for end in ends]

    def scores(self, bin_index: Tensor) -> Tensor:
        """The scores of values, given by their places, in the middle of their ranks: float32 ``[B, C]``."""
        columns = zip(self.ranks(), bin_index.T.long(), strict=True)
        scores = [torch.special.ndtri(ranks[places]).float() for ranks, places in columns]
        return torch.stack(scores, 1) if scores else torch.empty(bin_index.shape)

    def without_outliers(self, table: EncodedTable) -> EncodedTable:
        """An encoded table whose standardised values are those of its cells moved into the range without outliers.

        A column has outliers where `missdiff_fast.table.outliers` finds some in `fit`; the scores stay as they are.
        """
        usual = [coder.resolution.usual for coder in self._continuous]
        if not any(usual) or table.values is None:
            return table
        everything = -torch.inf, torch.inf
        low, high = table.values.new_tensor([everything if ends is None else ends for ends in usual]).T
        return table.with_cells(table.continuous, table.codes, table.values.clamp(low, high))

    def decode_means(
        self, values: Tensor, codes: Tensor, exact: Tensor | None = None, *, outliers: bool = True
    ) -> pd.DataFrame:
        """The table of conditional means and categories.

        Parameters
        ----------
        values : Tensor
            Standardised values of the continuous columns, floating ``[B, C]``.
        codes : Tensor
            int16 ``[B, K]``.
        exact : Tensor, optional
            The place of a kept value that a continuous cell has in place of its mean, int32 ``[B, C]``; -1 for none.
        outliers : bool
            Whether means may lie among a column's outliers, and not within the range of the other values only.

        Returns
        -------
        DataFrame
            As in `decode`; continuous cells are within the observed range and rounded as the observed ones are.
        """
        self._check_shape(values, codes)
        values = values.detach().cpu()
        if values.dtype not in (torch.float32, torch.float64):
            values = values.to(torch.float32)
        decode = partial(Continuous.decode_means, outliers=outliers)
        frame = decode_table(self._modelled, self._coders, values.numpy(), codes.cpu().numpy(), decode)
        if exact is not None:
            for name, coder, places in zip(self._modelled.continuous, self._continuous, exact.T.numpy(), strict=True):
                if (places >= 0).any():
                    known = as_series(coder.table.take(places.clip(min=0)))
                    frame[name] = frame[name].mask(places >= 0, known)
        return frame

    def missing(self, holes: pd.DataFrame) -> Tensor:
        """Which encoded cells are missing in rows with these holes, bool ``[N, columns]``: bool ``[N, C + K]``."""
        holes = self.relations.residual_holes(holes)
        return as_tensor(holes[[*self._modelled.continuous, *self.schema.categorical]].to_numpy(dtype=bool))

    def settle(
        self,
        decoded: pd.DataFrame,
        cells: TableCells,
        uniform: np.ndarray | None = None,
        holes: pd.DataFrame | None = None,
        *,
        recorded: bool = False,
    ) -> pd.DataFrame:
        """Decoded rows in which relations hold, and sources agree with structural holes; without the residuals.

        A column that others determine is computed from them. Where it is known and one of them is not, that one is
        solved for, or of several consistent values one is chosen.

        Parameters
        ----------
        decoded : DataFrame
            What `decode` or `decode_means` gave, N rows.
        cells : TableCells
            The known cells of the rows, which are never moved.
        uniform : ndarray, optional
            One uniform number for each row, which chooses among several values by how frequent they are; without it
            the most frequent category or the nearest number is taken.
        holes : DataFrame, optional
            The cells that are to be missing, bool ``[N, columns]``, in rows without known cells; none by default. The
            relations hold among the others.
        recorded : bool
            Whether unknown cells are holes of a table, which may tell a value, not cells to be drawn.
        """
        agreed, kept = self.structural.agree(decoded, cells, holes, recorded=recorded)
        return self.relations.settle(agreed, cells, uniform, holes, kept)

    def allowed(self, column: Name, cells: TableCells) -> np.ndarray | None:
        """Which categories of a column the known cells of each row allow, bool ``[N, V]``; None for all."""
        return self.relations.allowed(column, cells)

    def fill(self, cells: TableCells, filled: pd.DataFrame, *, verbose: bool = False) -> pd.DataFrame:
        """The frame that was read, with its missing cells taken from another of as many rows.

        Observed cells are kept bit for bit, and so are index, order and dtypes; categories that the frame writes with
        other white space than fit saw are filled in as it writes them; a column whose dtype can't hold what it
        is filled with, or that marks missing cells by strings among numbers, comes back in the learnt dtype. Columns
        that the frame lacks come last.

        Parameters
        ----------
        cells : TableCells
            What `read` gave, or what the codec was fitted on.
        filled : DataFrame
            N rows with all columns in their learnt dtypes.
        verbose : bool
            Whether to show progress, as in `fit`.

        Raises
        ------
        ValueError
            If ``filled`` lacks a column or has another number of rows, or the learnt order does not give the place of a
            category that an ordered column is filled with.
        """
        if cells.spelling:
            filled = filled.copy(deep=False)
            for name, own in cells.spelling.items():
                filled[name] = [own.get(value, value) for value in filled[name]]
        return fill_table(cells, filled, self.schema, verbose=verbose)

    def category_values(self, column: Name) -> list[Any]:
        """A categorical column's categories in the order of their codes."""
        if not isinstance(column, (str, numbers.Integral)):
            raise argument_type_error("column", f"must be the name of one column, got {column!r}", column)
        coder = self._coders.get(column)
        if not isinstance(coder, Categorical):
            kind = f"is {self.schema[column].kind}" if column in self.schema else "is not known"
            problem = f"column {column!r} {kind}: the categorical ones are {list(self.schema.categorical)}"
            raise DataError("kind", problem, columns=[column], remedy=Do("name one of them"), joint="; ")
        return as_series(coder.table).tolist()

    def values(self, column: Name) -> pd.Series:
        """The values of a column that `decode` can return, ascending or in the order of their codes."""
        return as_series(self._coders[column].table)

    def numbers(self, column: Name, cells: pd.Series) -> pd.Series:
        """The numbers of cells of a column with limits such as ``<0.1``: float64, NaN where missing."""
        found = self.read(pd.DataFrame({column: cells}), partial=True).found[column]
        return pd.Series(np.where(found.missing, np.nan, found.per_cell()), index=cells.index)

    def check_constants(self, cells: TableCells) -> None:
        """Refuse, by ValueError, an observed value that a constant column never had; absent columns pass."""
        for name in self.schema.constant:
            found = cells.observed(name)
            if found is None:
                continue
            observed, coder = found.observed, self._coders[name]
            given, known = comparable(observed, coder.keys)
            strange = given != known[0]
            if strange.any():
                value, only = observed[strange].tolist()[0], as_series(coder.table).tolist()[0]
                if (censored := self.schema[name].censored) is not None:
                    only = censored.write(known)[0]
                    value = cells.columns[name][~found.missing][strange].iloc[0]
                problem = f"column {name!r} was constant in fit, {only!r}: {value!r} cannot be given"
                remedies = Do(f"give {only!r}"), Do("leave the column out")
                raise DataError("constant", problem, columns=[name], value=value, remedy=remedies, joint="; ")

    def warn_of_range(self, cells: TableCells) -> None:
        """Warn of observed numbers, dates and times beyond those that fit saw; absent columns pass."""
        beyond = {name: text for name in self.schema.continuous if (text := self._beyond(name, cells))}
        if beyond:
            wrong = "given values lie beyond those of the training rows, so the other cells of these rows are a guess"
            problem, remedy = f"{wrong}: {'; '.join(beyond.values())}", Do("check them, and their unit")
            warn(DataWarning("range", problem, columns=list(beyond), remedy=remedy, joint="; "))

    def _beyond(self, name: Name, cells: TableCells) -> str:
        """The first cell of a column beyond the learnt range, with that range; empty if there is none."""
        found, coder = cells.observed(name), cast(Continuous, self._coders[name])
        if found is None:
            return ""
        keys, known = comparable(found.per_cell(), coder.keys)
        place = np.flatnonzero(~found.missing & ((keys < known[0]) | (keys > known[-1])))
        if not len(place):
            return ""
        value = cells.columns[name].iloc[[place[0]]].tolist()[0]
        ends, censored = as_series(coder.table.take([0, len(coder.keys) - 1])), self.schema[name].censored
        least, greatest = (ends if censored is None else censored.column(ends.to_numpy())).tolist()
        return f"{value} in column {name!r} ({least} to {greatest})"

    @property
    def scales(self) -> Tensor:
        """The raw units of a standardised value of 1 in each continuous column: float64 ``[C]``."""
        return torch.tensor([coder.resolution.sd for coder in self._continuous], dtype=torch.float64)

    @property
    def columns(self) -> list[Name]:
        """The columns' names in their original order."""
        return list(self.schema.names)

    def group(self, column: Name) -> int:
        """The position of a column among the layout's categorical ones, from 0 to K - 1."""
        self.category_values(column)
        return self.schema.categorical.index(column)

    def atoms(self, share: float, count: int, budget: int, spike: float = 0.0, layout: Layout | None = None) -> Atoms:
        """The frequent values of the continuous columns; arguments as those of `missdiff_fast.table.atoms.Atoms`.

        ``layout`` is the codec's by default.
        """
        return Atoms(self._continuous, self.layout if layout is None else layout, share, count, budget, spike)

    def state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """The learnt properties as JSON and tensors; `from_state` reads them back."""
        meta, tensors = write_state(self.schema, self._coders, self._markers, self.relations.found)
        return meta | ({"structural": self.structural.state()} if self.structural.found else {}), tensors

    @classmethod
    def from_state(cls, meta: dict[str, Any], tensors: dict[str, Tensor], *, ops: CodecOps) -> Codec:
        """A codec from its `state`; ValueError if the state is not valid."""
        schema, coders, markers, relations = read_state(meta, tensors)
        structural = read_structural(meta.get("structural", []), schema)
        return cls(schema, coders, markers, ops, relations, structural)

    def _check_shape(self, continuous: Tensor, codes: Tensor) -> None:
        expected = (len(codes), self.layout.num_continuous), (len(codes), self.layout.num_categorical)
        if (tuple(continuous.shape), tuple(codes.shape)) != expected:
            raise ValueError(
                f"shapes {tuple(continuous.shape)} and {tuple(codes.shape)}: expected "
                f"[B, {self.layout.num_continuous}] and [B, {self.layout.num_categorical}]"
            )
