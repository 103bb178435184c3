"""How far filled cells are from the hidden truth, and the plainest filling to compare with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from missdiff_fast.evaluate._common import check_same_columns, continuous_columns

if TYPE_CHECKING:
    from collections.abc import Sequence


def imputation_errors(
    truth: pd.DataFrame, filled: pd.DataFrame, observed: np.ndarray, continuous: Sequence[str] | None = None
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
        The columns measured as numbers; default: all with a numeric dtype in `truth`.

    Returns
    -------
    DataFrame
        One row for each column: ``column``; ``kind`` ("continuous" or "categorical"); ``hidden``, the number of hidden
        cells; ``error``, NaN without any. The error is the root mean squared error after `truth`'s own range is mapped
        to [0, 1] (NaN for a constant column), or the share of wrong categories.

    Raises
    ------
    ValueError
        Unlike columns or shapes, or a hidden cell that is not filled, or a truth that is not known.

    Examples
    --------
    >>> truth = pd.DataFrame({"x": [0.0, 5.0, 10.0], "y": ["a", "b", "b"]})
    >>> filled = pd.DataFrame({"x": [1.0, 5.0, 10.0], "y": ["b", "b", "b"]})
    >>> observed = np.array([[False, False], [True, False], [True, True]])
    >>> imputation_errors(truth, filled, observed)["error"].tolist()
    [0.1, 0.5]
    """
    check_same_columns(truth, filled, ("true", "filled"))
    if observed.shape != truth.shape or len(filled) != len(truth):
        raise ValueError(
            f"the true table is {truth.shape}, the filled one {filled.shape} and the mask {observed.shape}; "
            "they must have the same rows and columns"
        )
    numbers = set(continuous_columns(truth, continuous))
    rows = []
    for j, column in enumerate(truth.columns):
        hidden = ~observed[:, j]
        want, got = truth[column][hidden], filled[column][hidden]
        if want.isna().any() or got.isna().any():
            raise ValueError(f"column {column!r} has hidden cells that are not filled or whose truth is not known")
        if column in numbers:
            error = _range_error(
                want.to_numpy(float), got.to_numpy(float), truth[column].to_numpy(float, na_value=np.nan)
            )
        else:
            error = float(np.mean(want.to_numpy(object) != got.to_numpy(object))) if hidden.any() else np.nan
        rows.append((column, "continuous" if column in numbers else "categorical", int(hidden.sum()), error))
    return pd.DataFrame(rows, columns=["column", "kind", "hidden", "error"])


def imputation(
    truth: pd.DataFrame, filled: pd.DataFrame, observed: np.ndarray, continuous: Sequence[str] | None = None
) -> pd.DataFrame:
    """Average the errors of `imputation_errors` over columns.

    Returns
    -------
    DataFrame
        One row: ``rmse``, in units of the range, mean over continuous columns; ``category_error`` in per cent, mean
        over categorical ones. NaN without any such column.

    Examples
    --------
    >>> truth = pd.DataFrame({"x": [0.0, 5.0, 10.0], "y": ["a", "b", "b"]})
    >>> filled = pd.DataFrame({"x": [1.0, 5.0, 10.0], "y": ["b", "b", "b"]})
    >>> observed = np.array([[False, False], [True, False], [True, True]])
    >>> imputation(truth, filled, observed).iloc[0].to_dict()
    {'rmse': 0.1, 'category_error': 50.0}
    """
    errors = imputation_errors(truth, filled, observed, continuous).groupby("kind")["error"].mean()
    rmse, wrong = errors.get("continuous", np.nan), errors.get("categorical", np.nan)
    return pd.DataFrame({"rmse": [rmse], "category_error": [100 * wrong]})


def fill_mean_mode(frame: pd.DataFrame, continuous: Sequence[str] | None = None) -> pd.DataFrame:
    """Fill each hole with its column's mean, or with its most frequent category (the first in order among equals).

    Parameters
    ----------
    frame : DataFrame
        A table with holes, some cell of each column observed.
    continuous : sequence of str, optional
        The columns to fill with means; default: all with a numeric dtype.

    Raises
    ------
    ValueError
        A column without any observed cell.

    Examples
    --------
    >>> fill_mean_mode(pd.DataFrame({"x": [1.0, 3.0, None], "y": ["a", "a", None]})).iloc[2].to_dict()
    {'x': 2.0, 'y': 'a'}
    """
    numbers = set(continuous_columns(frame, continuous))
    filled = {}
    for column in frame.columns:
        cells = frame[column]
        if not cells.notna().any():
            raise ValueError(f"column {column!r} has no observed cell; drop it")
        if column in numbers:
            filled[column] = cells.astype("float64").fillna(cells.mean()) if cells.isna().any() else cells
        else:
            filled[column] = cells.where(cells.notna(), cells.mode().iloc[0])
    return pd.DataFrame(filled, index=frame.index)


def _range_error(want: np.ndarray, got: np.ndarray, whole: np.ndarray) -> float:
    span = np.nanmax(whole) - np.nanmin(whole)
    if span == 0 or not len(want):
        return np.nan
    return float(np.sqrt(np.mean(((got - want) / span) ** 2)))
