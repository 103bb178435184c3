"""Errors and calibration of several random fillings of each hole."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from missdiff_fast._checks import check_count, check_positive
from missdiff_fast._frames import Frame
from missdiff_fast.evaluate._hidden import HiddenCells, check_draws, hidden_cells

if TYPE_CHECKING:
    from collections.abc import Sequence


def draw_errors(
    truth: Frame,
    draws: Sequence[Frame],
    observed: np.ndarray,
    continuous: Sequence[str] | None = None,
    *,
    level: float = 0.9,
) -> pd.DataFrame:
    r"""Compare the draws of each hidden cell with its true value y, column by column.

    The energy distance of M draws x_1 ... x_M from y is

    .. math:: \frac{2}{M} \sum_m d(x_m, y) - \frac{2}{M (M - 1)} \sum_{m < n} d(x_m, x_n)

    with d the absolute difference in units of the true column's range, or for categories 0 if they are equal and
    otherwise 1. It estimates without bias what ever more draws would give: twice the continuous ranked probability
    score of a number, the Brier score of a category. Its mean is least, for any M, where draws have the distribution of
    the truth given what is observed; a filling that never varies gets twice its mean absolute error. That of one cell
    can be negative.

    Source: Székely and Rizzo (2013), Energy statistics, J. Stat. Plan. Inference 143, for the distance; Gneiting and
    Raftery (2007), Strictly proper scoring rules, JASA 102, for its being a proper score; Ferro (2014), Fair scores for
    ensemble forecasts, Q. J. R. Meteorol. Soc. 140, for M - 1.

    Parameters
    ----------
    truth : DataFrame
        The complete table, N rows and J columns.
    draws : sequence of DataFrame
        M >= 2 tables of the same rows in the same order, with the same columns, every hidden cell filled.
    observed : ndarray
        bool ``[N, J]``, False where the cell was hidden, in the columns' order of `truth`.
    continuous : sequence of str, optional
        The columns measured as numbers; dates and durations always are. Default: all with a numeric dtype in `truth`.
    level : float
        The nominal coverage of the intervals, in (0, 1).

    Returns
    -------
    DataFrame
        One row for each column: ``column``; ``kind`` ("continuous" or "categorical"); ``hidden``, the number of hidden
        cells; ``energy``, the mean over them of the energy distance; ``coverage``, NaN for categories: the share of
        them from the l-th smallest to the l-th largest of their draws, both included, where l is as in
        `expected_coverage`. NaN for a column without hidden cells or a constant one.

    Raises
    ------
    ValueError
        Fewer than two draws, unlike columns or shapes, a hidden cell that is not filled or whose truth is not known, or
        a level outside (0, 1).

    Examples
    --------
    >>> truth = pd.DataFrame({"x": [0.0, 5.0, 10.0]})
    >>> draws = [pd.DataFrame({"x": [x, 5.0, 10.0]}) for x in (1.0, 3.0)]
    >>> observed = np.array([[False], [True], [True]])
    >>> draw_errors(truth, draws, observed)["energy"].round(3).item()  # 2 * (0.1 + 0.3) / 2 - 0.2
    0.2
    """
    check_draws(draws)
    place = _place(len(draws), level)
    rows = []
    for cells in hidden_cells(truth, draws, observed, continuous):
        energy = coverage = np.nan
        if len(cells.truth):
            pairs = cells.mean_over_pairs()
            energy = float((2 * cells.distances().mean(0) - pairs).mean())
            if cells.continuous and not np.isnan(energy):
                coverage = _coverage(cells, place)
        kind = "continuous" if cells.continuous else "categorical"
        rows.append((cells.column, kind, len(cells.truth), energy, coverage))
    return pd.DataFrame(rows, columns=["column", "kind", "hidden", "energy", "coverage"])


def row_energy(
    truth: Frame, draws: Sequence[Frame], observed: np.ndarray, continuous: Sequence[str] | None = None
) -> float:
    """Average over rows with hidden cells the energy distance of their draws, taken as wholes, from the truth.

    The formula and the arguments are those of `draw_errors`, and the distance of two rows is the square root of the sum
    over the row's hidden cells of the squared distances there. Unlike the cells' distances it measures whether a row's
    holes are filled consistently. Constant columns of numbers are left out; NaN without a hidden cell in
    another one.

    Examples
    --------
    >>> truth = pd.DataFrame({"x": [0.0, 10.0], "y": [0.0, 10.0]})
    >>> draws = [pd.DataFrame({"x": [x, 10.0], "y": [y, 10.0]}) for x, y in ((3.0, 4.0), (0.0, 0.0))]
    >>> row_energy(truth, draws, np.array([[False, False], [True, True]]))  # 0.5 + 0 - 0.5
    0.0
    """
    check_draws(draws)
    columns = [c for c in hidden_cells(truth, draws, observed, continuous) if not np.isnan(c.truth).any()]
    used = np.zeros(len(truth), dtype=bool)
    for cells in columns:
        used[cells.rows] = True
    to_truth, pairs = np.zeros(len(truth)), np.zeros(len(truth))
    for m in range(len(draws)):
        to_truth += _row_distances(columns, len(truth), m, None)
    for m, n in combinations(range(len(draws)), 2):
        pairs += _row_distances(columns, len(truth), m, n)
    count = len(draws)
    energy = 2 * to_truth / count - 2 * pairs / (count * (count - 1))
    return float(energy[used].mean()) if used.any() else np.nan


def expected_coverage(num_draws: int, level: float = 0.9) -> float:
    """Probability that a true value lies in the interval of M draws from its own distribution.

    The interval is that from the l-th smallest to the l-th largest draw with l = floor((M + 1) (1 - level) / 2), or 1
    if that is 0. A value drawn as the draws were has each of the M + 1 places among them with the same probability, so
    that it lies within with probability (M + 1 - 2 l) / (M + 1), or more where values repeat. Fewer draws than
    2 / (1 - level) - 1 (19 for a level of 0.9) cannot reach the level: 5 draws cover 0.667.

    Parameters
    ----------
    num_draws : int
        M, at least 2.
    level : float
        In (0, 1).

    Examples
    --------
    >>> [round(expected_coverage(m), 3) for m in (5, 19, 100)]
    [0.667, 0.9, 0.901]
    """
    if check_count("num_draws", num_draws, least=0) < 2:
        raise ValueError(f"an interval needs at least 2 draws, not {num_draws}")
    return (num_draws + 1 - 2 * _place(num_draws, level)) / (num_draws + 1)


def _place(num_draws: int, level: float) -> int:
    if check_positive("level", level) >= 1:
        raise ValueError(f"level must be between 0 and 1, not {level}")
    # 20 * (1 - 0.9) / 2 is a little below 1 in binary.
    return max(1, int((num_draws + 1) * (1 - level) / 2 + 1e-9))


def _coverage(cells: HiddenCells, place: int) -> float:
    ordered = np.sort(cells.draws, axis=0)
    return float(((ordered[place - 1] <= cells.truth) & (cells.truth <= ordered[-place])).mean())


def _row_distances(columns: Sequence[HiddenCells], num_rows: int, m: int, n: int | None) -> np.ndarray:
    squares = np.zeros(num_rows)
    for cells in columns:
        other = cells.truth if n is None else cells.draws[n]
        squares[cells.rows] += cells.between(cells.draws[m], other) ** 2
    return np.sqrt(squares)
