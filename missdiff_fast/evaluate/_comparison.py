"""Two tables made ready for comparison: checked, encoded, and with as many rows and like holes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd

from missdiff_fast._checks import check_count
from missdiff_fast._frames import all_to_pandas
from missdiff_fast.errors import DataError, Text
from missdiff_fast.evaluate._limits import limits_as_numbers
from missdiff_fast.evaluate._tables import (
    as_numbers,
    check_finite,
    check_same_categories,
    check_same_columns,
    check_same_kinds,
    check_seed,
    continuous_columns,
    times_as_dtypes,
)
from missdiff_fast.remedies import Do, Drop, Table
from missdiff_fast.table.strings import factorize

if TYPE_CHECKING:
    from collections.abc import Sequence

_NAMES = "real", "synthetic"
_MAX_INDICATORS = 100


class Cells(NamedTuple):
    """Cells of N rows.

    Parameters
    ----------
    numbers : ndarray
        float64 ``[N, C]``, NaN where missing.
    codes : ndarray
        int64 ``[N, K]``, -1 where missing. A category has one code in both tables of a comparison.
    """

    numbers: np.ndarray
    codes: np.ndarray

    @property
    def missing(self) -> np.ndarray:
        """Which cells are missing, bool ``[N, C + K]``."""
        return np.concatenate([np.isnan(self.numbers), self.codes < 0], axis=1)

    def take(self, rows: np.ndarray) -> Cells:
        """Some of the rows, by their numbers."""
        return Cells(self.numbers[rows], self.codes[rows])

    def hide(self, holes: np.ndarray) -> Cells:
        """The same rows without the cells of a bool mask ``[N, C + K]``."""
        count = self.numbers.shape[1]
        return Cells(np.where(holes[:, :count], np.nan, self.numbers), np.where(holes[:, count:], -1, self.codes))


def check_comparable(
    real: pd.DataFrame, synthetic: pd.DataFrame, continuous: Sequence[str] | None
) -> tuple[pd.DataFrame, pd.DataFrame, set[str]]:
    """Check two tables, which may have holes.

    Returns both with times as pandas' dtypes and columns in the order of ``real``, and the columns taken as numbers.
    Raises what the checks of `_tables` raise, and for a column without any value.
    """
    real, synthetic = all_to_pandas(real, synthetic)
    check_same_columns(real, synthetic, _NAMES)
    real, synthetic = limits_as_numbers(times_as_dtypes(real), times_as_dtypes(synthetic))
    for name, table in zip(_NAMES, (real, synthetic), strict=True):
        check_finite(table, name)
        for column in table.columns:
            if not table[column].notna().any():
                problem = Text("column {column!r} of {table} has no value to compare", column=column, table=Table(name))
                raise DataError("empty", problem, columns=[column], remedy=Drop((column,), what="it"), joint="; ")
    numbers = set(continuous_columns(real, continuous))
    check_same_kinds(real, synthetic, _NAMES)
    check_same_categories(real, synthetic, [column for column in real.columns if column not in numbers], _NAMES)
    return real, synthetic[real.columns], numbers


def encode(real: pd.DataFrame, synthetic: pd.DataFrame, continuous: Sequence[str] | None) -> tuple[Cells, Cells]:
    """Check and encode two tables; raises as `check_comparable`."""
    real, synthetic, numbers = check_comparable(real, synthetic, continuous)
    tables = real, synthetic
    values = [[as_numbers(table[column]) for column in real.columns if column in numbers] for table in tables]
    codes: tuple[list[np.ndarray], list[np.ndarray]] = [], []
    for column in real.columns:
        if column not in numbers:
            both = _sorted_codes(pd.concat([table[column].astype(object) for table in tables], ignore_index=True))
            codes[0].append(both[: len(real)])
            codes[1].append(both[len(real) :])
    first, second = (
        Cells(_columns(x, len(table), float), _columns(y, len(table), np.int64))
        for x, y, table in zip(values, codes, tables, strict=True)
    )
    return first, second


def sample_alike(
    real: Cells, synthetic: Cells, *, max_rows: int | None, random_state: int, least: int
) -> tuple[Cells, Cells]:
    """Sample as many rows of both tables, and give the rows of each the holes of rows of the other.

    Holes would tell two tables apart, or hide that they differ. So where a table has holes, its rows are divided at
    random into rows that are compared and as many that lend their holes to the compared rows of the other table. If
    cells are missing completely at random, compared rows of one distribution keep one distribution.

    Parameters
    ----------
    real, synthetic : Cells
        The tables.
    max_rows : int or None
        The most rows of each that are compared.
    random_state : int
        Picks the rows.
    least : int
        The least number of rows of each that can be compared.
    """
    check_seed(random_state)
    if max_rows is not None:
        check_count("max_rows", max_rows, least=least)
    tables = real, synthetic
    lends = [bool(table.missing.any()) for table in tables]
    counts = [len(table.numbers) // (1 + lending) for table, lending in zip(tables, lends, strict=True)]
    for name, table, count, lending in zip(_NAMES, tables, counts, lends, strict=True):
        if count < least:
            rows = len(table.numbers)
            template = "{table} has {rows} row{plural}; at least {least} are needed{why}"
            why = ", as some of its cells are missing" * lending
            problem = Text(
                template,
                table=Table(name),
                rows=rows,
                plural="s" * (rows != 1),
                least=least * (1 + lending),
                why=why,
            )
            remedies = [Do("give it more rows"), *([Do("fill the missing cells")] if lending else [])]
            raise DataError("rows", problem, value=rows, remedy=remedies)
    count = min(counts) if max_rows is None else min(*counts, max_rows)
    random = np.random.default_rng(random_state)
    orders = [random.permutation(len(table.numbers)) for table in tables]
    compared = [table.take(order[:count]) for table, order in zip(tables, orders, strict=True)]
    for k, lending in enumerate(lends):
        if lending:
            holes = tables[k].take(orders[k][count : 2 * count]).missing
            compared[1 - k] = compared[1 - k].hide(holes)
    return compared[0], compared[1]


def make_features(real: Cells, synthetic: Cells, fill: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Numeric features of two tables, float64 ``[N, F]`` and ``[M, F]``: numbers, then indicators of categories.

    Missing numbers become ``fill``, float64 ``[C]``. Indicators are of the 100 most frequent categories of both tables
    together, and of missing cells as one category; other categories share an indicator.
    """
    parts = [[np.where(np.isnan(table.numbers), fill, table.numbers)] for table in (real, synthetic)]
    for j in range(real.codes.shape[1]):
        first, second = real.codes[:, j] + 1, synthetic.codes[:, j] + 1
        counts = np.bincount(np.concatenate([first, second]))
        kept = np.argsort(-counts, kind="stable")[:_MAX_INDICATORS]
        kept = np.sort(kept[counts[kept] > 0])
        place = np.full(len(counts), len(kept))
        place[kept] = np.arange(len(kept))
        width = len(kept) + bool(np.count_nonzero(counts) > len(kept))
        for part, codes in zip(parts, (first, second), strict=True):
            part.append((place[codes][:, None] == np.arange(width)).astype(float))
    return np.concatenate(parts[0], axis=1), np.concatenate(parts[1], axis=1)


def mean(numbers: np.ndarray) -> np.ndarray:
    """Means of the columns of numbers ``[N, C]`` without missing ones; sums of huge numbers do not overflow."""
    return np.asarray(np.nansum(numbers / (~np.isnan(numbers)).sum(axis=0), axis=0))


def _sorted_codes(cells: pd.Series) -> np.ndarray:
    """Codes of categories in sorted order; by order of appearance they would tell which table is first."""
    codes, distinct = factorize(cells)
    values = list(distinct)
    try:
        order = sorted(range(len(values)), key=values.__getitem__)
    except TypeError:
        order = sorted(range(len(values)), key=lambda k: (type(values[k]).__name__, str(values[k])))
    place = np.empty(len(values) + 1, np.int64)
    place[order] = np.arange(len(values))
    place[-1] = -1
    return place[codes]


def _columns(columns: list[np.ndarray], rows: int, dtype: type) -> np.ndarray:
    return np.stack(columns, axis=1).astype(dtype) if columns else np.zeros((rows, 0), dtype)
