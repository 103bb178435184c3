"""The two kinds of relation between columns: a formula, and a table of values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from missdiff_fast.table.columns import Continuous
from missdiff_fast.table.relations.fields import Field
from missdiff_fast.table.schema import Name


@dataclass(frozen=True, eq=False)
class Numeric:
    """A column that is a formula of others, but for a residual.

    Parameters
    ----------
    column : str or int
        The column.
    sources : tuple of str or int
        The others, S of them.
    log : bool
        Whether the formula is of logarithms: log B = sum of a_i log A_i + b. Else B = sum of a_i A_i + b.
    coefficients : tuple of float
        a_i, S of them.
    intercept : float
        b.
    residual : Continuous, optional
        The coder of the residual, B or log B less the formula; None where rounding leaves none.
    """

    column: Name
    sources: tuple[Name, ...]
    log: bool
    coefficients: tuple[float, ...]
    intercept: float
    residual: Continuous | None = None

    @property
    def kind(self) -> str:
        """What `missdiff_fast.MissDiff.relations_` calls it."""
        if self.log:
            return "log-linear"
        return "difference" if self.coefficients == (1.0,) and self.intercept == 0 else "linear"

    @property
    def formula(self) -> str:
        """The formula as text."""
        if self.log:
            terms = [str(a) if c == 1 else f"{a}^{c:.6g}" for c, a in zip(self.coefficients, self.sources, strict=True)]
            text = " * ".join([f"{np.exp(self.intercept):.6g}", *terms])
            return f"({text}) * exp(residual)" if self.residual is not None else text
        terms = [str(a) if c == 1 else f"{c:.6g} * {a}" for c, a in zip(self.coefficients, self.sources, strict=True)]
        terms += [f"{self.intercept:.6g}"] * (self.intercept != 0) + ["residual"] * (self.residual is not None)
        return " + ".join(terms)

    def remainder(self, own: np.ndarray, others: Sequence[np.ndarray]) -> np.ndarray:
        """The residual of each row, float64 ``[N]``; NaN where a cell is missing or has no logarithm."""
        result = self._scale(own) - self.intercept
        for coefficient, other in zip(self.coefficients, others, strict=True):
            result = result - coefficient * self._scale(other)
        return np.where(np.isfinite(result), result, np.nan)

    def compute(self, others: Sequence[np.ndarray], residual: np.ndarray | float) -> np.ndarray:
        """The column's numbers, not rounded, float64 ``[N]``."""
        result = np.asarray(self.intercept + residual, dtype=np.float64)
        for coefficient, other in zip(self.coefficients, others, strict=True):
            result = result + coefficient * self._scale(other)
        return self._back(result)

    def solve(self, i: int, own: np.ndarray, others: Sequence[np.ndarray], residual: np.ndarray | float) -> np.ndarray:
        """The numbers of source ``i``, not rounded, at which the formula gives the column's: float64 ``[N]``."""
        result = self._scale(own) - self.intercept - residual
        for j, (coefficient, other) in enumerate(zip(self.coefficients, others, strict=True)):
            if j != i:
                result = result - coefficient * self._scale(other)
        return self._back(result / self.coefficients[i])

    def _scale(self, numbers: np.ndarray) -> np.ndarray:
        if not self.log:
            return numbers
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.log(numbers)

    def _back(self, numbers: np.ndarray) -> np.ndarray:
        if not self.log:
            return numbers
        with np.errstate(over="ignore"):
            return np.exp(numbers)


@dataclass(frozen=True, eq=False)
class Determined:
    """A column of which every value of another has one.

    Parameters
    ----------
    column, source : str or int
        The column, and the other.
    image : ndarray
        The place of the column's value for each kept value of the source, int32 ``[V]``; -1 where none was seen.
    counts : ndarray
        How many cells have each kept value of the source, int64 ``[V]``.
    steps : bool
        Whether neighbouring values of the source share the column's value, as hours share a day.
    """

    column: Name
    source: Name
    image: np.ndarray
    counts: np.ndarray
    steps: bool

    @property
    def sources(self) -> tuple[Name, ...]:
        """The source alone."""
        return (self.source,)

    @property
    def kind(self) -> str:
        """What `missdiff_fast.MissDiff.relations_` calls it."""
        return "step" if self.steps else "determined"

    @property
    def formula(self) -> str:
        """The numbers of values of the source and of the column, as text."""
        known = self.image[self.image >= 0]
        return f"{len(known):,} values of {self.source} to {len(np.unique(known)):,}"

    def compute(self, source: Field, numbers: np.ndarray) -> np.ndarray:
        """The place of the column's value for each number of the source, int64 ``[N]``; -1 where it is not known.

        A number that was not seen, or not with the column, has the value that both its neighbours have, or of steps the
        nearer one's.
        """
        place = source.places(numbers)
        result = np.where(place >= 0, self.image[place], -1).astype(np.int64)
        between = (result < 0) & ~np.isnan(numbers)
        if source.continuous and between.any():
            known = np.flatnonzero(self.image >= 0)
            marks, image = source.numbers[known], self.image[known]
            above = np.searchsorted(marks, numbers[between]).clip(1, len(marks) - 1)
            low, high = image[above - 1], image[above]
            nearer = np.where(numbers[between] - marks[above - 1] <= marks[above] - numbers[between], low, high)
            inside = (numbers[between] > marks[0]) & (numbers[between] < marks[-1])
            result[between] = np.where(inside & (low == high), low, nearer if self.steps else -1)
        return result


Relation = Numeric | Determined
