"""The Census Income table (UCI Adult), its usual split, and the hiding of its cells."""

from __future__ import annotations

from importlib import resources
from typing import Literal

import numpy as np
import pandas as pd

CENSUS_CONTINUOUS = ("age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week")
NUM_TRAIN, NUM_TEST = 16_000, 4_000

Mechanism = Literal["independent", "row", "column"]


def load_census() -> pd.DataFrame:
    """Load the whole table: 48,842 rows, 6 columns of whole numbers (int64) and 9 of strings.

    Source: Becker and Kohavi (1996), Adult, UCI Machine Learning Repository, https://doi.org/10.24432/C5XW20,
    CC BY 4.0. The rows are those of UCI's ``adult.data`` followed by ``adult.test``. The source's mark ``"?"`` for a
    missing string is kept, as a category of its own.

    Examples
    --------
    >>> census = load_census()
    >>> census.shape
    (48842, 15)
    >>> census["income"].value_counts().to_dict()
    {'<=50K': 37155, '>50K': 11687}
    """
    with resources.as_file(resources.files(__package__) / "census.csv.xz") as path:
        frame = pd.read_csv(path, keep_default_na=False)
    return frame.astype(dict.fromkeys(CENSUS_CONTINUOUS, "int64"))


def census_split(seed: int = 0) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Draw 20,000 rows of the table at random: 16,000 for training and 4,000 for testing.

    Parameters
    ----------
    seed : int
        Picks the rows and their order.

    Returns
    -------
    train, test : DataFrame
        Each with a fresh index from 0.

    Examples
    --------
    >>> train, test = census_split(seed=0)
    >>> len(train), len(test)
    (16000, 4000)
    """
    rows = load_census().sample(NUM_TRAIN + NUM_TEST, random_state=seed)
    return rows[:NUM_TRAIN].reset_index(drop=True), rows[NUM_TRAIN:].reset_index(drop=True)


def hide(
    frame: pd.DataFrame, mechanism: Mechanism = "independent", ratio: float = 0.2, seed: int = 0
) -> tuple[pd.DataFrame, np.ndarray]:
    """Take cells away completely at random (MCAR).

    Parameters
    ----------
    frame : DataFrame
        N rows, J columns.
    mechanism : {"independent", "row", "column"}
        Every cell by itself with probability `ratio`; or exactly ``int(J * ratio)`` cells of each row; or exactly
        ``int(N * ratio)`` cells of each column.
    ratio : float
        In [0, 1).
    seed : int
        Picks the cells.

    Returns
    -------
    holes : DataFrame
        `frame` without the hidden cells: whole numbers become float64 and bool becomes "boolean" where a column has a
        hole, as pandas needs a place for "missing".
    observed : ndarray
        bool ``[N, J]``, True where the cell is still there.

    Raises
    ------
    ValueError
        Unknown `mechanism`, or `ratio` outside [0, 1).

    Examples
    --------
    >>> holes, observed = hide(pd.DataFrame({"a": range(10), "b": list("abcdefghij")}), "column", 0.2)
    >>> holes.isna().sum().to_dict(), observed.shape
    ({'a': 2, 'b': 2}, (10, 2))
    """
    if not 0 <= ratio < 1:
        raise ValueError(f"ratio must be at least 0 and less than 1, not {ratio!r}")
    random = np.random.RandomState(seed)
    shape = num_rows, num_columns = frame.shape
    observed = np.ones(shape, dtype=bool)
    if mechanism == "independent":
        observed = random.rand(*shape) >= ratio
    elif mechanism == "row":
        np.put_along_axis(observed, np.argsort(random.rand(*shape), axis=1)[:, : int(num_columns * ratio)], False, 1)
    elif mechanism == "column":
        np.put_along_axis(observed, np.argsort(random.rand(*shape), axis=0)[: int(num_rows * ratio)], False, 0)
    else:
        raise ValueError(f"unknown mechanism {mechanism!r}; choose 'independent', 'row' or 'column'")
    columns = [_without(frame.iloc[:, j], observed[:, j]) for j in range(num_columns)]
    return (pd.concat(columns, axis=1) if columns else frame.copy()), observed


def _without(column: pd.Series, observed: np.ndarray) -> pd.Series:
    if observed.all():
        return column.copy()
    return (column.astype("boolean") if column.dtype == bool else column).where(observed)
