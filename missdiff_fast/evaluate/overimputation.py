"""Whether draws of cells are as uncertain as they should be: coverage, energy score and log score."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pandas as pd

from missdiff_fast._frames import Frame, all_to_pandas
from missdiff_fast.errors import argument_error
from missdiff_fast.evaluate._hidden import HiddenCells, check_draws, hidden_cells
from missdiff_fast.evaluate._limits import limits_as_numbers
from missdiff_fast.evaluate._tables import as_numbers, check_table, times_as_dtypes

if TYPE_CHECKING:
    from collections.abc import Sequence

LEVELS = 0.5, 0.8, 0.95


class DrawsImputations(Protocol):
    """A model that fills the holes of a table several times, as `missdiff_fast.MissDiff` does."""

    def impute_draws(self, X: pd.DataFrame, /, *, num_draws: int, random_state: Any) -> Sequence[pd.DataFrame]:
        """``num_draws`` complete tables."""
        ...


def draw_scores(
    truth: Frame,
    draws: Sequence[Frame],
    observed: np.ndarray,
    continuous: Sequence[str] | None = None,
) -> pd.DataFrame:
    r"""Score the draws of each hidden cell against its true value, column by column.

    The energy score of M draws x_1 ... x_M of a cell whose true value is y is

    .. math:: \frac{1}{M} \sum_m d(x_m, y) - \frac{1}{M (M - 1)} \sum_{m < n} d(x_m, x_n)

    with d the absolute difference in standard deviations of the true column, or for categories 0 if they are equal and
    otherwise 1: half of the energy of `draw_errors`, in other units. Its mean is least where draws have the
    distribution of the truth given what is observed.

    Coverage is that of central intervals of numbers, and of sets of the most probable categories. Perfect draws have a
    coverage of exactly the level, on average, whatever M is and however often values repeat: y and the draws are then
    M + 1 values of one distribution, and each has the same chance to be at any place in their order (categories are
    ordered by how many of the M + 1 cells have them). Places of equal values, and that at an end of the interval, count
    in part. With few draws, coverage of a wide interval says little: of 20, one beyond which y lies still counts as
    0.475 covered at a level of 0.95. Take 39 draws or more for that level.

    Parameters
    ----------
    truth : DataFrame
        The true table, N rows and J columns.
    draws : sequence of DataFrame
        M >= 2 tables of the same rows in the same order, with the same columns, every hidden cell filled.
    observed : ndarray
        bool ``[N, J]``, False where the cell was hidden, in the columns' order of `truth`.
    continuous : sequence of str, optional
        The columns measured as numbers; dates and durations always are. Default: all with a numeric dtype in `truth`.

    Returns
    -------
    DataFrame
        One row for each column: ``column``; ``kind`` ("continuous" or "categorical"); ``hidden``, the number of hidden
        cells; ``energy_score``; ``log_score``, NaN for numbers: the mean of -log p(y), with p the share
        (m + 1/2) / (M + K/2), where m of the draws are y and the true column has K categories (about (K - 1) / 2M above
        that of ever more draws); ``coverage_50``, ``coverage_80`` and ``coverage_95``, shares. NaN for a column without
        hidden cells or a constant one of numbers.

    Raises
    ------
    ValueError
        Fewer than two draws, unlike columns or shapes, or a hidden cell that is not filled or whose truth is not known.

    References
    ----------
    Gneiting and Raftery (2007), Strictly proper scoring rules, JASA 102.
    Czado, Gneiting and Held (2009), Predictive model assessment for count data, Biometrics 65, for values that repeat.

    Examples
    --------
    >>> truth = pd.DataFrame({"x": [0.0, 5.0, 10.0, 5.0], "y": ["a", "b", "b", "a"]})
    >>> draws = [truth.assign(x=[x, 5.0, 10.0, 5.0]) for x in (1.0, 3.0, -2.0)]
    >>> observed = np.array([[False, True], [True, True], [True, True], [True, True]])
    >>> draw_scores(truth, draws, observed)[["hidden", "energy_score", "coverage_50"]].round(3).values.tolist()
    [[1.0, 0.094, 1.0], [0.0, nan, nan]]
    """
    check_draws(draws)
    truth, *draws = all_to_pandas(truth, *draws)
    rows = []
    columns: pd.DataFrame | None = None
    for j, cells in enumerate(hidden_cells(truth, draws, observed, continuous)):
        scores = [np.nan] * (2 + len(LEVELS))
        if len(cells.truth) and not np.isnan(cells.truth).any():
            if columns is None:  # here, because the cells are checked before
                columns = limits_as_numbers(times_as_dtypes(truth), *draws)[0]
            column = columns.iloc[:, j]
            energy = float((cells.distances().mean(0) - cells.mean_over_pairs() / 2).mean())
            scores[0] = energy * (_range_in_deviations(column) if cells.continuous else 1.0)
            if not cells.continuous:
                scores[1] = _log_score(cells, column.nunique())
            scores[2:] = _coverages(cells)
        rows.append((cells.column, "continuous" if cells.continuous else "categorical", len(cells.truth), *scores))
    names = [f"coverage_{round(100 * level)}" for level in LEVELS]
    return pd.DataFrame(rows, columns=["column", "kind", "hidden", "energy_score", "log_score", *names])


def overimputation(
    model: DrawsImputations,
    table: Frame,
    *,
    share: float = 0.1,
    num_draws: int = 39,
    random_state: int | None = 0,
    continuous: Sequence[str] | None = None,
) -> pd.DataFrame:
    """Hide observed cells of a table, draw them, and score the draws: no complete table is needed.

    The model is taken as it is. Cells that it was fitted on flatter it where it has memorised rows; take rows it has
    not seen, or fit it to a table from which the cells are hidden and use `draw_scores`. Cells that were missing from
    the start stay missing: the scores are those of cells that can be observed, which may be other ones.

    Parameters
    ----------
    model : object
        With a method ``impute_draws(table, num_draws=, random_state=)``: a fitted `missdiff_fast.MissDiff`.
    table : DataFrame
        With the columns that the model was fitted on, and with or without holes. Columns that the model set aside are
        left out.
    share : float
        Of the observed cells, to be hidden, independently of one another: in (0, 1).
    num_draws : int
        At least 2. Of 39, the ends of the intervals at 50, 80 and 95 % are draws.
    random_state : int, optional
        Seed of the hidden cells and of the draws; None for a random one.
    continuous : sequence of str, optional
        As of `draw_scores`.

    Returns
    -------
    DataFrame
        As `draw_scores` gives it: a row for each column.

    Raises
    ------
    TypeError, ValueError
        No table, a share outside (0, 1), or as of `draw_scores` and the model's method.

    References
    ----------
    Honaker, King and Blackwell (2011), Amelia II, J. Stat. Softw. 45, for overimputation. Näf, Grzesiak and Scornet
    (2025), How to rank imputation methods?, for energy scores without a complete table, and when they mislead.

    Examples
    --------
    >>> from missdiff_fast import MissDiff
    >>> table = pd.DataFrame({"x": [1.0, 2.0, None, 4.0] * 8, "y": ["a", "a", "b", None] * 8})
    >>> model = MissDiff(steps=2, refine=0, random_state=0).fit(table)
    >>> found = overimputation(model, table, share=0.3, num_draws=5)
    >>> found[["column", "hidden"]].values.tolist()
    [['x', 8], ['y', 5]]
    """
    # Here, because the other measures do without: the command's `evaluate` would start later.
    from missdiff_fast.missingness import hide

    (table,) = all_to_pandas(table)
    check_table(table, "given")
    if not 0 < share < 1:
        raise argument_error("share", f"must be greater than 0 and less than 1, got {share}", share)
    holes, observed = hide(table, "independent", share, random_state)
    aside = set(getattr(model, "set_aside_", {"column": ()})["column"])
    if aside:  # the model leaves their holes
        observed = observed | np.array([name in aside for name in table.columns])
        holes = table.where(observed)
    if getattr(model, "structural_missing", "fill") != "fill":  # every hidden cell has a value
        model = copy.copy(model)
        model.structural_missing = "fill"  # type: ignore[attr-defined]
    draws = model.impute_draws(holes, num_draws=num_draws, random_state=random_state)
    scores = draw_scores(table, draws, observed | table.isna().to_numpy(), continuous)
    return scores[~scores["column"].isin(aside)].reset_index(drop=True)


def _range_in_deviations(column: pd.Series) -> float:
    numbers = as_numbers(column)
    scaled = numbers / np.nanmax(np.abs(numbers))
    return float((np.nanmax(scaled) - np.nanmin(scaled)) / np.nanstd(scaled))


def _log_score(cells: HiddenCells, categories: int) -> float:
    right = (cells.draws == cells.truth).sum(0)
    return float(-np.log((right + 0.5) / (len(cells.draws) + categories / 2)).mean())


def _coverages(cells: HiddenCells) -> list[float]:
    """The share of cells within an interval or a set of each level.

    Each cell has the places from ``low`` to ``high`` among the draws and itself, of [0, 1], which it shares with equal
    values. It is covered as far as these are.
    """
    every = np.concatenate([cells.truth[None], cells.draws])
    if not cells.continuous:  # in the order of how many of these cells have the category
        every = np.stack([(every == one).sum(0) for one in every])
    low = (every < every[0]).mean(0)
    high = low + (every == every[0]).mean(0)
    found = []
    for level in LEVELS:
        ends = ((1 - level) / 2, (1 + level) / 2) if cells.continuous else (1 - level, 1.0)
        within = np.minimum(high, ends[1]) - np.maximum(low, ends[0])
        found.append(float((within.clip(min=0) / (high - low)).mean()))
    return found
