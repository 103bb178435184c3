"""Hiding cells of a table: completely at random, at random, and not at random.

The paper's five mechanisms. Completely at random (MCAR): ``row``, ``column`` and ``independent``. At random (``mar``)
and not at random (``nmar``): the logistic masks of Muzellec et al. (2020), Missing Data Imputation using Optimal
Transport, whose inputs are the columns that the mask of every other column depends on.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from typing import Literal, get_args

import numpy as np
import pandas as pd

from missdiff_fast._engine.random import check_seed
from missdiff_fast._frames import Frame, to_pandas
from missdiff_fast.errors import DataError, DataWarning, argument_error, argument_type_error
from missdiff_fast.missingness.logit import draw_inputs, fit_intercept, sigmoid
from missdiff_fast.remedies import Adjust, AtLeast, Do, Pass
from missdiff_fast.table.literals import with_room

Mechanism = Literal["row", "column", "independent", "mar", "nmar"]
Target = Literal["overall", "columns"]
MECHANISMS: tuple[Mechanism, ...] = get_args(Mechanism)
TARGETS: tuple[Target, ...] = get_args(Target)


def observed_mask(
    X: Frame,
    mechanism: Mechanism,
    ratio: float,
    random_state: int | None = None,
    *,
    observed_share: float = 0.3,
    target: Target = "overall",
) -> np.ndarray:
    """Draw which cells of a table stay observed.

    Parameters
    ----------
    X : DataFrame
        N rows, J columns of any dtypes that `missdiff_fast.MissDiff` takes. A cell that is missing already stays so.
    mechanism : {"row", "column", "independent", "mar", "nmar"}
        ``row`` hides exactly ``floor(J * ratio)`` cells of each row and ``column`` exactly ``floor(N * ratio)`` of each
        column, chosen uniformly (whether they were missing already or not); ``independent`` hides each cell with
        probability `ratio`.
        ``mar`` draws the input columns, which lose no cell; each other column loses a cell with a probability that is
        a logistic function of the row's inputs.
        ``nmar`` does the same, and then hides each cell of the input columns too, with probability `ratio`, so that
        what the other columns' masks depend on is itself missing in places.
    ratio : float
        Share of the cells to hide, in (0, 1).
    random_state : int, optional
        Makes the mask repeatable; None draws another one each time.
    observed_share : float
        Of ``mar`` and ``nmar``: share of the columns that are inputs, in (0, 1); at least one is, and one is not.
    target : {"overall", "columns"}
        Of ``mar``: the part of the table that attains `ratio`. ``overall``, the whole table: the K input columns lose
        nothing, so each other column loses ``ratio * J / (J - K)`` of its cells. ``columns``, each column that is not
        an input, as in Muzellec et al.: the whole table then loses ``ratio * (J - K) / J``.
        (``nmar`` attains it in every column, hence in the whole table.)

    Returns
    -------
    ndarray
        bool ``[N, J]``, True where the cell is observed.

    Raises
    ------
    TypeError
        X is not a DataFrame, or a numeric argument is not a number.
    ValueError
        `ratio` or `observed_share` outside (0, 1); unknown `mechanism` or `target`; for ``row``, ``mar`` and ``nmar``,
        a table of one column; for ``mar`` and ``nmar``, one in which no column varies, a column of mixed or infinite
        cells; for ``mar`` a `ratio` that the whole table cannot attain because the input columns stay complete.

    Warns
    -----
    UserWarning
        ``row`` or ``column`` hides no cell at all, as the floor is 0.

    Notes
    -----
    The paper has a mask "re-scaled to attain a given missing ratio" and does not say of what. The same ratio is used
    there for all mechanisms, side by side, so that by default the whole table loses as much under each of them.

    Logits are drawn as in the paper's source: a weight from N(0, 1) for each input, the sum scaled to a standard
    deviation of 1, and an intercept for each masked column, found by bisection, with which the mean probability over
    the rows is the one asked for. The source has numbers only. Here numbers, dates and durations enter standardised,
    their missing cells as the mean; a column of categories enters one-hot, with a weight from N(0, 1) for each
    category, centred and scaled so that it counts as much as one column of numbers, however many categories it has and
    in whatever order they come. A column that does not vary contributes nothing, and is drawn as an input only when
    too few columns vary.

    ``row``, ``column`` and ``independent`` turn one field of uniform numbers, that of the seed, into holes: common
    random numbers. Masks of the three with one seed are nearly the same holes (of the cells of the Census table that
    ``column`` hides at 0.2, ``independent`` hides 99 %, ``row`` 80 %), so that what is measured under them differs by
    the mechanism more than by chance, and is not independent. ``mar`` and ``nmar`` with one seed have the same input
    columns and weights. For independent masks give each mechanism a seed of its own.

    Examples
    --------
    >>> table = pd.DataFrame({"a": range(10), "b": list("abcdefghij"), "c": [1.5, 2.5] * 5})
    >>> (~observed_mask(table, "column", 0.2, random_state=0)).sum(axis=0).tolist()
    [2, 2, 2]
    >>> mask = observed_mask(table, "mar", 0.5, random_state=0)
    >>> mask.all(axis=0).tolist()  # "c" is the input
    [False, False, True]
    """
    X, _ = to_pandas(X)
    _check(X, mechanism, ratio, observed_share, target)
    seed = check_seed(random_state)
    _warn_of_none(X.shape, mechanism, ratio)
    if mechanism in ("mar", "nmar"):
        random = np.random.default_rng([seed, 1])
        observed = np.ones(X.shape, dtype=bool)
        for j, probability in _logistic(X, mechanism, ratio, seed, observed_share, target):
            observed[:, j] = random.random(len(X)) >= probability
    else:
        observed = _completely_at_random(X.shape, mechanism, ratio, seed)
    return observed & X.notna().to_numpy(dtype=bool)


def missing_probability(
    X: Frame,
    mechanism: Mechanism,
    ratio: float,
    random_state: int | None = None,
    *,
    observed_share: float = 0.3,
    target: Target = "overall",
) -> np.ndarray:
    """Give the probability with which `observed_mask`, given the same arguments, hides each cell.

    Parameters
    ----------
    X, mechanism, ratio, random_state, observed_share, target
        As of `observed_mask`.

    Returns
    -------
    ndarray
        float64 ``[N, J]``: for ``row`` and ``column``, in which cells go missing together, of each cell by itself;
        0 in the input columns of ``mar``; 1 where a cell is missing already.

    Raises
    ------
    TypeError, ValueError
        As of `observed_mask`.

    Examples
    --------
    >>> table = pd.DataFrame({"a": range(10), "b": range(10, 20)})
    >>> missing_probability(table, "mar", 0.2, random_state=0).mean(axis=0).round(6).tolist()
    [0.0, 0.4]
    """
    X, _ = to_pandas(X)
    _check(X, mechanism, ratio, observed_share, target)
    num_rows, num_columns = X.shape
    if mechanism in ("mar", "nmar"):
        probability = np.zeros(X.shape)
        for j, column in _logistic(X, mechanism, ratio, check_seed(random_state), observed_share, target):
            probability[:, j] = column
    elif mechanism == "row":
        probability = np.full(X.shape, floor_share(num_columns, ratio) / max(num_columns, 1))
    elif mechanism == "column":
        probability = np.full(X.shape, floor_share(num_rows, ratio) / max(num_rows, 1))
    else:
        probability = np.full(X.shape, float(ratio))
    probability[X.isna().to_numpy(dtype=bool)] = 1
    return probability


def hide(
    X: Frame,
    mechanism: Mechanism = "independent",
    ratio: float = 0.2,
    random_state: int | None = None,
    *,
    observed_share: float = 0.3,
    target: Target = "overall",
) -> tuple[Frame, np.ndarray]:
    """Take cells away from a table.

    Parameters
    ----------
    X, mechanism, ratio, random_state, observed_share, target
        As of `observed_mask`.

    Returns
    -------
    holes : DataFrame
        `X` without the hidden cells: whole numbers become float64 (Int64 where float64 would round them) and bool
        becomes "boolean" where a column has a hole, as pandas needs a place for "missing".
    observed : ndarray
        bool ``[N, J]``, True where the cell is still there.

    Raises
    ------
    TypeError, ValueError
        As of `observed_mask`.

    Examples
    --------
    >>> holes, observed = hide(pd.DataFrame({"a": range(10), "b": list("abcdefghij")}), "column", 0.2, random_state=0)
    >>> holes.isna().sum().to_dict(), observed.shape
    ({'a': 2, 'b': 2}, (10, 2))
    """
    own = X
    X, kind = to_pandas(own)
    observed = observed_mask(X, mechanism, ratio, random_state, observed_share=observed_share, target=target)
    columns = [_without(X.iloc[:, j], observed[:, j]) for j in range(X.shape[1])]
    return kind.give(pd.concat(columns, axis=1) if columns else X.copy(), own), observed


def floor_share(count: int, ratio: float) -> int:
    """``floor(count * ratio)`` of the ratio as it is written: 29 of 100 for 0.29, though 100 * 0.29 is 28.999...

    >>> floor_share(100, 0.29), floor_share(15, 0.2), floor_share(4, 0.2)
    (29, 3, 0)
    """
    return math.floor(count * ratio * (1 + 1e-12))


def _check(X: object, mechanism: object, ratio: object, observed_share: object, target: object) -> None:
    if not isinstance(X, pd.DataFrame):
        raise TypeError(f"X must be a pandas or polars DataFrame or a pyarrow Table, got {type(X).__name__}")
    if mechanism not in MECHANISMS:
        raise ValueError(f"unknown mechanism {mechanism!r}; choose one of {', '.join(MECHANISMS)}")
    for name, value in (("ratio", ratio), ("observed_share", observed_share)):
        if not isinstance(value, (int, float, np.integer, np.floating)) or isinstance(value, bool):
            raise argument_type_error(name, f"must be a number, got {value!r}", value)
        if not 0 < value < 1:
            raise argument_error(name, f"must be greater than 0 and less than 1, got {value}", value)
    if mechanism == "row" and X.shape[1] == 1:
        raise ValueError(
            "mechanism 'row' hides a share of each row's cells, floored, and the table has 1 column, so that it hides "
            "none; choose column or independent"
        )
    if target not in TARGETS:
        raise ValueError(f"unknown target {target!r}; choose one of {', '.join(TARGETS)}")


def _warn_of_none(shape: tuple[int, int], mechanism: Mechanism, ratio: float) -> None:
    count, what = (shape[1], "columns") if mechanism == "row" else (shape[0], "rows")
    if mechanism in ("row", "column") and min(shape) and not floor_share(count, ratio):
        problem = f"mechanism {mechanism!r} hides no cell: floor({count} {what} * {ratio:g}) = 0"
        remedies = AtLeast("ratio", f"{1 / count:.4g}"), Do("choose independent")
        warnings.warn(DataWarning("ratio", problem, value=ratio, remedy=remedies, joint="; "), stacklevel=3)


def _completely_at_random(shape: tuple[int, int], mechanism: Mechanism, ratio: float, seed: int) -> np.ndarray:
    random = np.random.RandomState(seed if seed < 2**32 else [seed % 2**32, seed >> 32])
    if mechanism == "independent":
        return random.rand(*shape) >= ratio
    axis = 1 if mechanism == "row" else 0
    order = np.argsort(random.rand(*shape), axis=axis)
    hidden = order[:, : floor_share(shape[1], ratio)] if axis else order[: floor_share(shape[0], ratio)]
    observed = np.ones(shape, dtype=bool)
    np.put_along_axis(observed, hidden, False, axis)
    return observed


def _logistic(
    X: pd.DataFrame, mechanism: Mechanism, ratio: float, seed: int, observed_share: float, target: Target
) -> Iterator[tuple[int, np.ndarray | float]]:
    """Each column that can lose cells, by its position, with the probability that it does ``[N]``, or of any row."""
    num_rows, num_columns = X.shape
    if num_columns < 2:
        raise ValueError(
            f"mechanism {mechanism!r} needs at least 2 columns, one for the others' masks to depend on, and the table "
            f"has {num_columns}; choose column or independent"
        )
    if num_rows == 0:
        return
    random = np.random.default_rng([seed, 0])
    inputs = draw_inputs(X, min(max(floor_share(num_columns, observed_share), 1), num_columns - 1), random)
    rate = float(ratio)
    if mechanism == "mar" and target == "overall":
        most = 1 - len(inputs) / num_columns
        rate = ratio / most
        if rate >= 1:
            raise DataError(
                "ratio",
                f"ratio {ratio} is out of reach: {len(inputs)} of the {num_columns} columns stay complete, so less "
                f"than {most:.4g} of the cells can go missing",
                value=ratio,
                remedy=(
                    Adjust("lower", ("ratio", "observed_share")),
                    Pass("target", "columns", goal="count only the other columns,"),
                ),
                joint="; ",
            )
    for j in range(num_columns):
        if j not in inputs:
            logit = np.zeros(num_rows)
            for column in inputs.values():
                logit += column.weigh(random)
            logit /= logit.std(ddof=1)
            yield j, sigmoid(logit + fit_intercept(logit, rate))
        elif mechanism == "nmar":
            yield j, rate


def _without(column: pd.Series, observed: np.ndarray) -> pd.Series:
    kept = observed | column.isna().to_numpy(dtype=bool)
    if kept.all():
        return column.copy()
    if column.dtype == bool:
        column = column.astype("boolean")
    return with_room(column).where(kept)
