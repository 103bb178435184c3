"""Utility: scores, on real rows, of models trained on synthetic ones."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, get_args

import pandas as pd

from missdiff_fast._checks import check_count
from missdiff_fast._frames import Frame, all_to_pandas
from missdiff_fast.errors import DataError, argument_error
from missdiff_fast.evaluate._features import Features
from missdiff_fast.evaluate._fitting import Task, choose, find_targets, find_task, fit_points
from missdiff_fast.evaluate._limits import limits_as_numbers
from missdiff_fast.evaluate._models import Grid, Point, grid_points, model_names
from missdiff_fast.evaluate._tables import (
    check_complete,
    check_same_categories,
    check_same_columns,
    check_same_kinds,
    check_seed,
    continuous_columns,
    times_as_dtypes,
)
from missdiff_fast.remedies import Do

if TYPE_CHECKING:
    from collections.abc import Sequence


def utility(
    train: Frame,
    test: Frame,
    target: str,
    *,
    real_train: Frame | None = None,
    models: str | Sequence[str] | None = None,
    task: Task = "auto",
    positive: object = None,
    continuous: Sequence[str] | None = None,
    random_state: int = 0,
    grid: Grid = "full",
    n_jobs: int = 1,
    log_target: bool = False,
    max_rows: int | None = 50_000,
) -> pd.DataFrame:
    """Train models on one table and test them on another.

    Every point of a model's grid is fitted on `train`. For each metric by itself the point that is best on `real_train`
    is chosen, the first among equals, and its value on `test` is given; `test` takes no part in the choice. Without
    `real_train` there is nothing to choose by, and each model is fitted once with its library's defaults.

    Parameters
    ----------
    train : DataFrame
        The complete rows to learn from, synthetic or real.
    test : DataFrame
        Complete real rows that the maker of `train` has not seen, with the same columns.
    target : str
        The column to predict.
    real_train : DataFrame, optional
        The complete real rows by which grid points are chosen: those that `train` was made from.
    models : str or sequence of str, optional
        Of "decision_tree", "adaboost", "logistic_regression" (for regression "linear_regression"), "mlp",
        "random_forest" and "xgboost"; default: all six.
    task : {"auto", "classification", "regression"}
        "auto": regression if `test` has more than 20 different values of a target of numbers, durations or dates.
    positive : object, optional
        Of two classes the one that counts as positive; default: the last in sorted order.
    continuous : sequence of str, optional
        The features taken as numbers; dates and durations always are. Default: all with a numeric dtype. The others are
        taken as categories.
    random_state : int
        Picks the rows under `max_rows` and seeds the models.
    grid : {"full", "small"}
        "full": the 172 points of Kim et al. (2023), Table 26 (136 for regression). "small": one or two of a model's
        points, for a first look: decision tree of depth 8 or 16 with 8 rows in a leaf, AdaBoost of 50 or 100 stumps,
        logistic regression with C of 0.1 or 1, an MLP of 100 units in 50 passes, random forest of depth 8 or 16 with 4
        rows in a leaf, XGBoost of 100 trees of depth 5 or 50 of depth 10.
    n_jobs : int
        Threads that fit grid points side by side; -1 takes as many as there are cores. The figures are the same.
    log_target : bool
        For regression, whether log(1 + y) is learnt and measured in place of y; durations count in hours.
    max_rows : int, optional
        The most rows of `train` and of `real_train` that are used, picked at random; None uses all. `test` is used
        whole.

    Returns
    -------
    DataFrame
        A row for each model and metric: ``model``; ``metric``; ``value``; ``parameters``, those of the chosen point, as
        keyword arguments are written. The metrics of classification are shares in [0, 1]: ``accuracy``; ``binary_f1``,
        of the positive class (two classes only); ``macro_f1``; ``weighted_f1``, the sum over the K classes of
        (1 - p) / (K - 1) times their F1, p being the class's share of the rows of `real_train` and `test` together (of
        `real_train` alone where the point is chosen, of `test` without a `real_train`); ``auroc``, for more than two
        classes the mean of each against the rest. Those of regression are ``rmse``, in the target's units (durations in
        hours, dates in days) or, under `log_target`, of log(1 + y), and ``r2``.

    Raises
    ------
    ImportError
        Without scikit-learn, or xgboost where that is asked for.
    ValueError
        Unlike or unknown columns, or unlike kinds of them; missing or infinite cells; numbers out of all proportion to
        those of `train`; a table whose target has a single class or value, or no class in common with `train`; a
        `positive` that is no class, an unknown model, task or grid, a `random_state` outside [0, 2**32), or a target
        below 0 with `log_target`.

    Notes
    -----
    Numbers are scaled by their range in `train`, or their logarithm taken where they are large and never negative;
    categories get an indicator each, and one that `train` has not gets none. Where no stump of AdaBoost is better than
    chance on `train`, the classes' shares there are predicted. Source of the protocol: Kim et al. (2023), STaSy, which
    the paper of MissDiff follows.

    Examples
    --------
    >>> table = pd.DataFrame({"x": range(100), "y": ["no"] * 50 + ["yes"] * 50})
    >>> utility(table, table, "y", models="decision_tree").head(2)[["metric", "value"]].values.tolist()
    [['accuracy', 1.0], ['binary_f1', 1.0]]
    """
    train, test, real_train = all_to_pandas(train, test, real_train)
    tables = _check_tables(train, test, real_train, target)
    train, test = tables["train"], tables["test"]
    if grid not in get_args(Grid):
        raise ValueError(f"grid must be 'full' or 'small', not {grid!r}")
    check_seed(random_state)
    if max_rows is not None:
        check_count("max_rows", max_rows, least=2)
    if check_count("n_jobs", n_jobs, least=-(1 << 20)) == 0:
        raise argument_error("n_jobs", "must be 1 or more, or -1 for as many as there are cores, got 0", n_jobs)
    kind = find_task(task, test[target])
    chosen = _check_models(models, kind)
    others = train.drop(columns=target)
    if not len(others.columns):
        problem = f"the tables have no column but the target {target!r}, and nothing to learn it from"
        raise DataError("columns", problem, columns=[target], remedy=Do("give them other columns"), joint="; ")
    named = continuous
    if continuous is not None and not isinstance(continuous, str):
        named = [column for column in continuous if column != target]
    numbers = set(continuous_columns(others, named))
    categorical = [column for column in others if column not in numbers]
    for name, table in tables.items():
        # A target of two classes may come as 0 and 1 in one table and as bool in another.
        check_same_kinds(others, table, ("train", name))
        check_same_categories(train, table, categorical, ("train", name))
        if kind == "regression":
            check_same_kinds(train[[target]], table, ("train", name))
        else:
            check_same_categories(train, table, [target], ("train", name))
    tables = {name: table if name == "test" else _cap(table, max_rows, random_state) for name, table in tables.items()}
    targets = find_targets({name: table[target] for name, table in tables.items()}, kind, positive, log_target)
    features = Features(tables["train"][list(others)], numbers)
    x = {name: features.transform(table[list(others)], name) for name, table in tables.items()}
    points = [(name, point) for name in chosen for point in grid_points(name, None if real_train is None else grid)]
    found = fit_points(points, random_state, x, targets, n_jobs)
    rows = []
    for name in chosen:
        tried = [(point, scores) for (owner, point), scores in zip(points, found, strict=True) if owner == name]
        for metric in tried[0][1]["test"]:
            best = 0 if real_train is None else choose([scores["real_train"][metric] for _, scores in tried], metric)
            point, scores = tried[best]
            rows.append((name, metric, scores["test"][metric], _text(point)))
    return pd.DataFrame(rows, columns=["model", "metric", "value", "parameters"])


def _check_tables(
    train: pd.DataFrame, test: pd.DataFrame, real_train: pd.DataFrame | None, target: str
) -> dict[str, pd.DataFrame]:
    tables = {"train": train, "test": test} | ({} if real_train is None else {"real_train": real_train})
    for name, table in tables.items():
        check_same_columns(train, table, ("train", name))
        if not pd.api.types.is_hashable(target) or target not in table:
            remedy = Do(f"name one of {list(table.columns)}")
            raise DataError(
                "columns", f"no column named {target!r} to predict", value=target, remedy=remedy, joint="; "
            )
        tables[name] = times_as_dtypes(table)
        check_complete(table, name)
    return dict(zip(tables, limits_as_numbers(*tables.values()), strict=True))


def _check_models(models: str | Sequence[str] | None, task: str) -> list[str]:
    if models is not None and not isinstance(models, Iterable):
        raise TypeError(f"models must be a name or a list of names, got {models!r}")
    known = model_names(task)
    asked = known if models is None else [models] if isinstance(models, str) else list(dict.fromkeys(models))
    unknown = [name for name in asked if name not in known]
    if unknown or not asked:
        raise ValueError(f"{repr(unknown[0]) if unknown else 'nothing'} is no model for {task}; name some of {known}")
    return asked


def _cap(table: pd.DataFrame, most: int | None, random_state: int) -> pd.DataFrame:
    return table if most is None or len(table) <= most else table.sample(most, random_state=random_state)


def _text(point: Point) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in point.items())
