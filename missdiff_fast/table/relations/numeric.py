"""The search for columns that are differences, linear or log-linear formulas of others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from missdiff_fast.table.relations.fields import Field
from missdiff_fast.table.relations.relation import Numeric

LEAST_ROWS = 50  # rows in which a relation must be seen
_MOST_SOURCES, _MOST_TRIED = 3, 5  # of a formula, and of one from which some may be left out
_RESIDUAL = 0.1  # the greatest spread of a residual, in that of the column
# An exact formula gives the column's value in so many rows, and is at most so far from it, in units of the resolution.
_EQUAL, _WITHIN, _SLACK = 0.99, 0.999, 0.55
_GAIN = 3.0  # by which a further source must narrow what is left by a formula that holds
_COVERED = 0.3  # the least share of rows that a source must be observed in
_REACH = 5.0  # cells are cut at so many spreads from the median while sources are sought


@dataclass(frozen=True)
class Fit:
    """A formula, and how well it holds.

    Parameters
    ----------
    relation : Numeric
        The formula, without a residual.
    exact : bool
        Whether rounding explains all that is left.
    spread : float
        The spread of the residual in that of the column.
    error : float
        The mean distance between the formula and the column, before rounding.
    """

    relation: Numeric
    exact: bool
    spread: float
    error: float


class _Moments(NamedTuple):
    """Standardised cells ``[n, C]`` in the forms that correlations are computed of, 0 where missing."""

    seen: np.ndarray
    mask: np.ndarray
    filled: np.ndarray
    squares: np.ndarray

    @classmethod
    def of(cls, standard: np.ndarray) -> _Moments:
        seen = ~np.isnan(standard)
        filled = np.where(seen, standard, 0.0)
        return cls(seen, seen.astype(np.float64), filled, filled**2)


def find_numeric(fields: Sequence[Field], numbers: np.ndarray) -> list[Fit]:
    """Formulas that hold among some rows: at most one for each number of sources, column and scale.

    Parameters
    ----------
    fields : sequence of Field
        The continuous columns, C of them.
    numbers : ndarray
        Their cells, float64 ``[n, C]``; NaN where missing.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        positive = np.array([bool(field.numbers[0] > 0) and not field.timed for field in fields], dtype=bool)
        logs = np.where(positive, np.log(np.where(numbers > 0, numbers, np.nan)), np.nan)
    found = []
    for log, columns in ((False, numbers), (True, logs)):
        moments = _Moments.of(_standardise(columns))
        for b in np.flatnonzero(moments.seen.any(0)):
            found += _sources(int(b), fields, numbers, columns, moments, log=log)
    return found


def judge(relation: Numeric, field: Field, own: np.ndarray, others: Sequence[np.ndarray]) -> Fit | None:
    """How well a formula holds in some rows, all with observed cells; None if it does not, or they are too few.

    It must hold in all rows, and in those without the most frequent value of the column.
    """
    if len(own) < LEAST_ROWS:
        return None
    values, counts = np.unique(own, return_counts=True)
    rare = own != values[counts.argmax()]
    if np.count_nonzero(rare) < LEAST_ROWS:
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        given = relation.compute(others, 0.0)
        error = np.abs(own - given)
        rounded = np.abs(own - field.nearest(np.where(np.isfinite(given), given, 0.0)))
    tiny = 1e-6 * _spread(own[rare])
    near, same = error <= (_SLACK * field.quantum or tiny), rounded <= (0.01 * field.quantum or tiny)
    if all(near[rows].mean() >= _WITHIN and same[rows].mean() >= _EQUAL for rows in (..., rare)):
        return Fit(relation, True, 0.0, float(error.mean()))
    left, scale = relation.remainder(own, others), np.log(own) if relation.log else own
    ratios = []
    for rows in (np.isfinite(left), np.isfinite(left) & rare):
        whole = _spread(scale[rows])
        ratios.append(_spread(left[rows]) / whole if whole > 0 else np.inf)
    return Fit(relation, False, max(ratios), float(error.mean())) if max(ratios) <= _RESIDUAL else None


def _sources(
    b: int, fields: Sequence[Field], numbers: np.ndarray, columns: np.ndarray, moments: _Moments, *, log: bool
) -> list[Fit]:
    """Formulas of one column, of sources chosen one by one by their correlation with what is left."""
    seen = moments.seen
    left, rows = moments.filled[:, b].copy(), seen[:, b].copy()
    chosen: list[int] = []
    found: list[Fit] = []
    scale = 1.0  # what is left, in units of the column, is divided by this
    while len(chosen) < _MOST_TRIED and np.count_nonzero(rows) >= LEAST_ROWS:
        strength, count = _correlations(np.where(rows, left, 0.0), rows, moments)
        strength[[b, *chosen]] = 0
        best = _most_useful(strength, count)
        if strength[best] < (0.3 if not chosen else 0.5 if found else 0.05):
            break
        chosen.append(best)
        fewer = rows & seen[:, best]
        if np.count_nonzero(fewer) < max(LEAST_ROWS, 0.5 * np.count_nonzero(rows) if found else 0):
            break
        rows = fewer
        before = _spread(left[rows])
        fit, left[rows] = _fit(b, chosen, fields, numbers[rows], columns[rows], log=log)
        if found and _GAIN * _spread(left[rows]) > before * scale:
            break  # without this source the formula is as good
        if fit is not None:
            found.append(fit)
            if fit.exact:
                break
        scale = _spread(left[rows])
        if not scale > 0 or (
            len(chosen) > 1 and np.var(_cut(left[rows])) > np.var(_cut(columns[rows, b])) / len(chosen)
        ):
            break
        middle = np.median(left[rows])
        left = np.clip((left - middle) / scale, -_REACH, _REACH)
    return found


def _fit(
    b: int, chosen: Sequence[int], fields: Sequence[Field], numbers: np.ndarray, columns: np.ndarray, *, log: bool
) -> tuple[Fit | None, np.ndarray]:
    """The simplest formula of the chosen sources that holds, and the residual of the fitted one."""
    own, others = columns[:, b], columns[:, list(chosen)]
    slopes, intercept = _least_squares(own, others)
    left = own - others @ slopes - intercept
    if len(chosen) > 1:  # sources that change less than what is left are left out
        least = 1e-3 * _spread(own)
        if not log and fields[b].quantum > 0:  # a short stay between dates of many years is no noise
            least = min(least, fields[b].quantum)
        least = max(least, 0.5 * _spread(left))
        kept = [i for i, slope in enumerate(slopes) if abs(slope) * _spread(others[:, i]) >= least]
        if not 0 < len(kept) <= _MOST_SOURCES:
            return None, left
        if len(kept) < len(chosen):
            chosen, others = [chosen[i] for i in kept], others[:, kept]
            slopes, intercept = _least_squares(own, others)
    names = tuple(fields[a].name for a in chosen)

    def tried(coefficients: Iterable[float], intercept: float) -> Fit | None:
        relation = Numeric(fields[b].name, names, log, tuple(map(float, coefficients)), float(intercept))
        return judge(relation, fields[b], numbers[:, b], [numbers[:, a] for a in chosen])

    plain = tried(slopes, intercept)
    if plain is None:
        return None, left
    if len(chosen) == 1 and not log and fields[b].timed == fields[chosen[0]].timed and 0.8 < slopes[0] < 1.25:
        difference = tried([1.0], 0.0)
        if difference is not None and difference.spread <= 1.5 * plain.spread + 0.01:
            plain = difference
    if plain.exact and plain.relation.kind == "difference":
        return plain, left
    for digits in (1, 2, 3, 4, 6):  # a simpler formula is the truer one if it is exact
        rounded = np.array([_rounded(slope, digits) for slope in slopes])
        if (rounded == 0).any():
            continue
        rest = float(np.median(own - others @ rounded))
        for constant in (0.0, _constant(rest, digits, log), rest):
            simple = tried(rounded, constant)
            if simple is not None and simple.exact and simple.error <= 1.05 * plain.error + 1e-9 * _spread(own):
                return simple, left
    return plain, left


def _least_squares(own: np.ndarray, others: np.ndarray) -> tuple[np.ndarray, float]:
    """Slopes and intercept, fitted again without the rows that are far off."""
    middle, centre = others.mean(0), own.mean()
    scale = others.std(0)
    scale[scale == 0] = 1.0
    design = np.column_stack([(others - middle) / scale, np.ones(len(own))])
    kept = np.ones(len(own), dtype=bool)
    for _ in range(3):
        part = design[kept]
        solution = np.linalg.lstsq(part.T @ part, part.T @ (own[kept] - centre), rcond=None)[0]
        error = np.abs(own - centre - design @ solution)
        kept = error <= max(6 * np.median(error), np.partition(error, len(error) * 9 // 10)[len(error) * 9 // 10])
    slopes = solution[:-1] / scale
    return slopes, float(solution[-1] + centre - slopes @ middle)


def _most_useful(strength: np.ndarray, count: np.ndarray) -> int:
    """The strongest column, or one that is nearly as strong and observed in more rows."""
    best = int(strength.argmax())
    near = (1 - strength**2 <= 4 * (1 - strength[best] ** 2)) & (strength > 0.95) & (count > 1.2 * count[best])
    return int(np.where(near, strength, 0).argmax()) if near.any() else best


def _correlations(left: np.ndarray, rows: np.ndarray, moments: _Moments) -> tuple[np.ndarray, np.ndarray]:
    """The absolute correlation of what is left with each column, and of how many rows it is: both float64 ``[C]``.

    It is 0 of columns that few of the rows observe.
    """
    weights = np.stack([rows.astype(np.float64), left, left**2])
    count, total, square = weights @ moments.mask
    (own, product, _), own_square = weights @ moments.filled, weights[0] @ moments.squares
    with np.errstate(invalid="ignore", divide="ignore"):
        covariance = product - own * total / count
        variances = (own_square - own**2 / count) * (square - total**2 / count)
        result = np.abs(covariance) / np.sqrt(variances)
    often = count >= max(LEAST_ROWS, _COVERED * np.count_nonzero(rows))
    return np.where(often & (variances > 1e-12) & np.isfinite(result), result, 0.0), count


def _standardise(columns: np.ndarray) -> np.ndarray:
    """Each column less its median, in units of its spread, cut where it is far away; NaN stays."""
    result = np.full(columns.shape, np.nan)
    for c in range(columns.shape[1]):
        cells = columns[:, c][~np.isnan(columns[:, c])]
        if len(cells) >= LEAST_ROWS and (scale := _spread(cells) or float(cells.std())) > 0:
            result[:, c] = np.clip((columns[:, c] - np.median(cells)) / scale, -_REACH, _REACH)
    return result


def _spread(numbers: np.ndarray) -> float:
    """The distance between the 5 % and 95 % quantiles; 0 for none."""
    if not len(numbers):
        return 0.0
    ends = round(0.05 * (len(numbers) - 1)), round(0.95 * (len(numbers) - 1))
    ordered = np.partition(numbers, ends)
    return float(ordered[ends[1]] - ordered[ends[0]])


def _cut(numbers: np.ndarray) -> np.ndarray:
    ends = round(0.02 * (len(numbers) - 1)), round(0.98 * (len(numbers) - 1))
    ordered = np.partition(numbers, ends)
    return np.clip(numbers, ordered[ends[0]], ordered[ends[1]])


def _rounded(number: float, digits: int) -> float:
    return float(f"{number:.{digits}g}")


def _constant(intercept: float, digits: int, log: bool) -> float:
    """An intercept of a simple number."""
    if not log:
        return _rounded(intercept, digits)
    with np.errstate(over="ignore"):
        factor = np.exp(intercept)
    return float(np.log(_rounded(factor, digits))) if np.isfinite(factor) and factor > 0 else intercept
