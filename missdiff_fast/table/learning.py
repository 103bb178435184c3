"""Learning a table's columns."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pandas as pd

from missdiff_fast._progress import progress_bar
from missdiff_fast.errors import argument_error
from missdiff_fast.table.cells import ColumnCells, RefusedError
from missdiff_fast.table.columns import Categorical, Coder, Constant, Continuous, are_whole
from missdiff_fast.table.dtypes import NUMBERS, Dtype, dtype_to_json, with_plain_zone, zone_of
from missdiff_fast.table.identifiers import differ, is_identifier, warn_of_identifiers
from missdiff_fast.table.limit_reading import decimal_of
from missdiff_fast.table.odd_texts import MOST_NAMED, listed, texts_among_numbers
from missdiff_fast.table.schema import Column, Name, Refusals, Schema
from missdiff_fast.table.table_cells import TableCells
from missdiff_fast.table.threads import in_threads

MAX_CATEGORIES = 32_767  # codes are int16


def learn_columns(cells: TableCells, *, max_categories: int, verbose: bool = False) -> tuple[Schema, list[Coder]]:
    """The schema and the coder of each column; see `missdiff_fast.table.Codec.fit`."""
    names = list(cells.columns)
    if not names or not len(cells):
        raise ValueError(f"the frame is empty ({len(cells)} rows, {len(names)} columns): give at least one of each")
    if not 2 <= max_categories <= MAX_CATEGORIES:
        rule = f"must be from 2 to {MAX_CATEGORIES:,}, got {max_categories}"
        raise argument_error("max_categories", rule, max_categories)

    decimal = decimal_of(cells.frame)

    def learn(name: Name) -> _Learnt | RefusedError:
        if name in cells.refused:
            return cells.refused[name]
        # A copy frees its caches with itself; the cells are kept for encoding.
        found = replace(cells.found[name])
        chosen = "categorical" if name in cells.categorical_columns else ""
        chosen = "continuous" if name in cells.continuous_columns else chosen
        try:
            return _learn(name, cells.columns[name].dtype, found, chosen, max_categories, decimal)
        except RefusedError as refused:
            return refused

    refusals, columns, coders, identifiers = Refusals(), list[Column](), list[Coder](), list[Name]()
    with progress_bar(total=len(names), desc="learning columns", unit="column", verbose=verbose) as bar:
        for name, learnt in zip(names, in_threads(learn, names, len(cells)), strict=True):
            if isinstance(learnt, RefusedError):
                refusals.add(name, learnt)
            else:
                columns.append(learnt.column)
                coders.append(learnt.coder)
                if learnt.identifier:
                    identifiers.append(name)
            bar.update()
    if not coders and refusals.only("empty"):
        raise ValueError("no cell of the frame is observed: give a table with observed cells")
    refusals.raise_any()
    if all(column.kind == "constant" for column in columns):
        raise ValueError("no column varies: each has one distinct observed value, so there is nothing to learn")
    warn_of_identifiers(identifiers)
    return Schema(tuple(columns)), coders


class _Learnt(NamedTuple):
    """The learnt column and coder, and whether the column looks like an identifier."""

    column: Column
    coder: Coder
    identifier: bool = False


def _learn(
    name: Name, dtype: Dtype, cells: ColumnCells, chosen: str, max_categories: int, decimal: str | None
) -> _Learnt:
    """Learn a column, which may be chosen to be "categorical" or "continuous"; RefusedError if it can't be taken."""
    if cells.missing.all():
        raise RefusedError("empty", "")
    family = cells.family
    if cells.parsed:
        integers = pd.UInt64Dtype() if cells.keys.dtype.kind == "u" else pd.Int64Dtype()
        dtype = np.dtype(np.float64) if family == "float" else integers
    if cells.censored is not None:
        dtype = np.dtype(np.float64)
    dtype = with_plain_zone(dtype)
    try:
        dtype_to_json(dtype)
    except TypeError as error:
        raise RefusedError("unsupported" if zone_of(dtype) is None else "zone", str(error)) from error
    distinct, counts = cells.distinct
    coder: Coder
    if len(distinct) == 1:
        kind = "constant"
        coder = Constant(dtype, family, Categorical.fit(dtype, cells).keys)
    elif (
        chosen == "categorical"
        or family in ("string", "boolean")
        or isinstance(dtype, pd.CategoricalDtype)
        or (family in NUMBERS and len(distinct) == 2 and are_whole(distinct) and not chosen)
    ):
        kind = "categorical"
        observed, many = int(np.count_nonzero(~cells.missing)), len(distinct) > max_categories
        if family == "string" and not chosen:
            if many or differ(len(distinct), observed):
                _refuse_texts_among_numbers(distinct, counts, decimal)
            if differ(len(distinct), observed):
                raise RefusedError("identifier", f"{len(distinct):,} in {observed:,} cells")
        if many:
            raise RefusedError("cardinality", f"{len(distinct):,} > {max_categories:,}")
        coder = Categorical.fit(dtype, cells)
    else:
        kind = "continuous"
        coder = Continuous.fit(dtype, cells)
        identifier = family in NUMBERS and not chosen and is_identifier(name, cells.observed, len(distinct))
        return _Learnt(Column(name, kind, dtype, family, cells.parsed, censored=cells.censored), coder, identifier)
    return _Learnt(Column(name, kind, dtype, family, cells.parsed, censored=cells.censored), coder)


def _refuse_texts_among_numbers(distinct: np.ndarray, counts: np.ndarray, decimal: str | None) -> None:
    """RefusedError that names the texts if strings are mostly numbers or dates."""
    texts = texts_among_numbers(dict(zip(distinct.tolist(), counts.tolist(), strict=True)), decimal)
    if texts:
        raise RefusedError("texts", listed(texts), list(texts) if len(texts) <= MOST_NAMED else [])
