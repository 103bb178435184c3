"""The three kinds of rules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from missdiff_fast.rules.expressions import Expression, evaluate, variables
from missdiff_fast.table.schema import Name

_COMPARE = {"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal}


@dataclass(frozen=True)
class Inequality:
    """A range or an inequality, such as ``0 <= age <= 120``.

    Parameters
    ----------
    text : str
        The rule as its user wrote it.
    terms : tuple of Expression
        What is compared, two or more.
    signs : tuple of str
        The signs between the terms: one of ``<``, ``<=``, ``>`` and ``>=`` each.
    """

    text: str
    terms: tuple[Expression, ...]
    signs: tuple[str, ...]

    @property
    def kind(self) -> str:
        """What `missdiff_fast.MissDiff.rules_` calls it."""
        return "range" if len(self.columns) == 1 else "inequality"

    @cached_property
    def columns(self) -> tuple[Name, ...]:
        """The columns that it names."""
        return tuple(dict.fromkeys(name for term in self.terms for name in variables(term)))

    @property
    def parts(self) -> list[tuple[Expression, str, Expression]]:
        """The pairs of neighbouring terms, with the sign between them."""
        return list(zip(self.terms[:-1], self.signs, self.terms[1:], strict=True))

    def holds(self, numbers: Mapping[Name, np.ndarray]) -> np.ndarray:
        """Whether it holds in each row, bool ``[N]``; not where a term has no value."""
        values = [evaluate(term, numbers) for term in self.terms]
        parts = zip(values[:-1], self.signs, values[1:], strict=True)
        return np.asarray(np.logical_and.reduce([_COMPARE[sign](one, other) for one, sign, other in parts]))


@dataclass(frozen=True)
class Derived:
    """A column that is computed from others, such as ``bmi = weight / height**2``.

    Parameters
    ----------
    text : str
        The rule as its user wrote it.
    column : str or int
        The column.
    expression : Expression
        What it is computed as.
    rounded : bool
        Whether the column is rounded to as many decimals as the training table has; else to its dtype alone.
    """

    text: str
    column: Name
    expression: Expression
    rounded: bool = True

    @property
    def kind(self) -> str:
        """What `missdiff_fast.MissDiff.rules_` calls it."""
        return "derived"

    @cached_property
    def sources(self) -> tuple[Name, ...]:
        """The columns that it is computed from."""
        return tuple(dict.fromkeys(variables(self.expression)))

    @cached_property
    def columns(self) -> tuple[Name, ...]:
        """The columns that it names."""
        return tuple(dict.fromkeys((self.column, *self.sources)))

    def compute(self, numbers: Mapping[Name, np.ndarray]) -> np.ndarray:
        """The column's numbers, not rounded, float64 ``[N]``."""
        computed, shape = evaluate(self.expression, numbers), numbers[self.column].shape
        return computed if computed.shape == shape else np.broadcast_to(computed, shape)


@dataclass(frozen=True, eq=False)
class Combinations:
    """Columns whose values come only in the combinations of the training table.

    Parameters
    ----------
    text : str
        The rule as its user wrote it.
    columns : tuple of str or int
        The columns, K of them.
    places : ndarray
        The places of the columns' values in each combination of the table, int64 ``[P, K]``.
    counts : ndarray
        How many rows have each combination, int64 ``[P]``.
    """

    text: str
    columns: tuple[Name, ...]
    places: np.ndarray = field(default_factory=lambda: np.empty((0, 0), dtype=np.int64), repr=False)
    counts: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64), repr=False)

    @property
    def kind(self) -> str:
        """What `missdiff_fast.MissDiff.rules_` calls it."""
        return "combinations"

    def among(self, places: np.ndarray) -> np.ndarray:
        """Whether rows of places ``[N, K]`` are combinations of the table: bool ``[N]``."""
        found, prefix = np.ones(len(places), dtype=bool), np.zeros(len(places), dtype=np.int64)
        for column, (width, known) in zip(places.T, self._prefixes, strict=True):
            pair = prefix * width + column
            prefix = np.searchsorted(known, pair).clip(max=len(known) - 1)
            found &= (column >= 0) & (column < width) & (known[prefix] == pair)
        return found

    @cached_property
    def _prefixes(self) -> list[tuple[int, np.ndarray]]:
        """Of each column, the number of its places, and the known pairs of a combination of those before and a place.

        Pairs are whole numbers, ascending, so that a combination so far is the place of its pair.
        """
        prefixes, prefix = [], np.zeros(len(self.places), dtype=np.int64)
        for column in self.places.T:
            width = int(column.max()) + 1
            known, prefix = np.unique(prefix * width + column, return_inverse=True)
            prefixes.append((width, known))
        return prefixes


Rule = Inequality | Derived | Combinations
