"""Errors of filled cells against the hidden truth, and filling by mean and mode to compare with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from missdiff_fast._frames import Frame, to_pandas
from missdiff_fast.errors import DataError
from missdiff_fast.evaluate._hidden import hidden_cells
from missdiff_fast.evaluate._tables import as_numbers, check_finite, check_table, continuous_columns, is_time
from missdiff_fast.evaluate.draws import draw_errors, expected_coverage, row_energy
from missdiff_fast.remedies import Drop

if TYPE_CHECKING:
    from collections.abc import Sequence


def imputation_errors(
    truth: Frame, filled: Frame, observed: np.ndarray, continuous: Sequence[str] | None = None
) -> pd.DataFrame:
    """Measure the error of each column on the cells that were hidden.

    Parameters
    ----------
    truth : DataFrame
        The complete table, N rows and J columns.
    filled : DataFrame
        The same rows in the same order, with the same columns, every hidden cell filled.
    observed : ndarray
        bool ``[N, J]``, False where the cell was hidden, in the columns' order of `truth`.
    continuous : sequence of str, optional
        The columns measured as numbers; dates and durations always are. Default: all with a numeric dtype in `truth`.

    Returns
    -------
    DataFrame
        One row for each column: ``column``; ``kind`` ("continuous" or "categorical"); ``hidden``, the number of hidden
        cells; ``error``, NaN without any; ``mae``, NaN for categories. The error is the root mean squared error after
        `truth`'s own range is mapped to [0, 1] (NaN for a constant column), or the share of wrong categories; ``mae``
        is the mean absolute error in the same units.

    Raises
    ------
    ValueError
        Unlike columns, kinds of columns, or shapes; rows in another order; a hidden cell that is not filled, or a truth
        that is not known; infinite cells.
    TypeError
        No tables, or a mask of anything but True and False.

    Examples
    --------
    >>> truth = pd.DataFrame({"x": [0.0, 5.0, 10.0], "y": ["a", "b", "b"]})
    >>> filled = pd.DataFrame({"x": [1.0, 5.0, 10.0], "y": ["b", "b", "b"]})
    >>> observed = np.array([[False, False], [True, False], [True, True]])
    >>> imputation_errors(truth, filled, observed)["error"].tolist()
    [0.1, 0.5]
    """
    rows = []
    for cells in hidden_cells(truth, [filled], observed, continuous):
        distance = cells.distances()[0]
        mean = float(distance.mean()) if len(distance) else np.nan
        if cells.continuous:
            squared = float((distance**2).mean()) if len(distance) else np.nan
            rows.append((cells.column, "continuous", len(cells.truth), np.sqrt(squared), mean))
        else:
            rows.append((cells.column, "categorical", len(cells.truth), mean, np.nan))
    return pd.DataFrame(rows, columns=["column", "kind", "hidden", "error", "mae"])


def imputation(
    truth: Frame,
    filled: Frame,
    observed: np.ndarray,
    continuous: Sequence[str] | None = None,
    *,
    draws: Sequence[Frame] | None = None,
    level: float = 0.9,
) -> pd.DataFrame:
    """Average the errors of `imputation_errors` over columns, and, given draws, the measures of `draw_errors`.

    Parameters
    ----------
    truth, filled, observed, continuous
        As of `imputation_errors`. Means or medians of draws have a smaller RMSE than a single draw.
    draws : sequence of DataFrame, optional
        Two or more tables like `filled`, each a random filling, as `missdiff_fast.MissDiff.impute_draws` gives them.
    level : float
        The nominal coverage of the draws' intervals, in (0, 1).

    Returns
    -------
    DataFrame
        One row: ``rmse`` and ``mae``, in units of the range, means over continuous columns; ``category_error`` in per
        cent, mean over categorical ones. NaN without any such column. With `draws` also ``energy`` and
        ``category_energy``, means over continuous and categorical columns of the cells' energy distances;
        ``row_energy``, the mean over rows of those of whole rows; ``coverage``, the share of hidden continuous cells
        that lie in the interval of their draws, and ``expected_coverage``, its value for perfect draws.

    Raises
    ------
    ValueError
        As of `imputation_errors` and `draw_errors`.

    Examples
    --------
    >>> truth = pd.DataFrame({"x": [0.0, 5.0, 10.0], "y": ["a", "b", "b"]})
    >>> filled = pd.DataFrame({"x": [1.0, 5.0, 10.0], "y": ["b", "b", "b"]})
    >>> observed = np.array([[False, False], [True, False], [True, True]])
    >>> imputation(truth, filled, observed).iloc[0].to_dict()
    {'rmse': 0.1, 'mae': 0.1, 'category_error': 50.0}
    """
    found = imputation_errors(truth, filled, observed, continuous)
    means = found.groupby("kind")[["error", "mae"]].mean().reindex(["continuous", "categorical"])
    row = {
        "rmse": means.at["continuous", "error"],
        "mae": means.at["continuous", "mae"],
        "category_error": 100 * means.at["categorical", "error"],
    }
    if draws is not None:
        each = draw_errors(truth, draws, observed, continuous, level=level)
        energies = each.groupby("kind")["energy"].mean()
        counted = each[each["coverage"].notna()]
        inside, hidden = (counted["coverage"] * counted["hidden"]).sum(), counted["hidden"].sum()
        row |= {
            "energy": energies.get("continuous", np.nan),
            "category_energy": energies.get("categorical", np.nan),
            "row_energy": row_energy(truth, draws, observed, continuous),
            "coverage": inside / hidden if hidden else np.nan,
            "expected_coverage": expected_coverage(len(draws), level),
        }
    return pd.DataFrame({name: [float(value)] for name, value in row.items()})


def fill_mean_mode(frame: Frame, continuous: Sequence[str] | None = None) -> Frame:
    """Fill each hole with its column's mean, or with its most frequent category (the first in order among equals).

    Parameters
    ----------
    frame : DataFrame
        A table with holes, some cell of each column observed.
    continuous : sequence of str, optional
        The columns to fill with means; default: all with a numeric dtype. Dates and durations are not.

    Returns
    -------
    DataFrame
        Filled columns of numbers are float64, or have their dtype and a rounded mean where that would change integers
        beyond 2**53.

    Raises
    ------
    TypeError, ValueError
        No table or rows, a column without any observed cell, or with infinite ones.

    Examples
    --------
    >>> fill_mean_mode(pd.DataFrame({"x": [1.0, 3.0, None], "y": ["a", "a", None]})).iloc[2].to_dict()
    {'x': 2.0, 'y': 'a'}
    """
    own = frame
    frame, kind = to_pandas(own)
    check_table(frame, "given")
    check_finite(frame, "given")
    numbers = set(continuous_columns(frame, continuous))
    filled = {}
    for column in frame.columns:
        cells = frame[column]
        if not cells.notna().any():
            problem, drop = f"column {column!r} has no observed cell", Drop((column,), what="it")
            raise DataError("empty", problem, columns=[column], remedy=drop, joint="; ")
        if column in numbers and not is_time(cells):
            filled[column] = _fill_mean(cells) if cells.isna().any() else cells
        else:
            filled[column] = cells.where(cells.notna(), cells.mode().iloc[0])
    return kind.give(pd.DataFrame(filled, index=frame.index), own)


def _fill_mean(cells: pd.Series) -> pd.Series:
    floats = pd.Series(as_numbers(cells), index=cells.index, name=cells.name)  # a narrower float's mean can overflow
    mean = float(floats.mean())
    if not pd.api.types.is_integer_dtype(cells.dtype) or not (floats.abs() >= 2**53).any():
        return floats.fillna(mean)
    seen = cells.dropna()
    return cells.fillna(min(max(round(mean), int(seen.min())), int(seen.max())))
