"""Targets of classification and regression, and the fitting of one model to them."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

import numpy as np
import pandas as pd

from missdiff_fast.errors import DataError, Text
from missdiff_fast.evaluate._models import Point, make_model
from missdiff_fast.evaluate._scores import classification_scores, regression_scores
from missdiff_fast.evaluate._tables import as_numbers, continuous_columns, in_order, require
from missdiff_fast.remedies import Do, Table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Task = Literal["auto", "classification", "regression"]
_MANY = 20
_GREATEST = 1e18  # the models compute in float32, squares among the rest


class Targets(NamedTuple):
    """The target column of each of the tables "train", "test" and, if given, "real_train".

    Parameters
    ----------
    task : {"classification", "regression"}
        The kind of prediction.
    y : dict
        int64 codes of classes ``[N]``, those of the real tables before any that only "train" has; or float64 ``[N]``.
    shares : dict
        float64 ``[K]``: shares of the K real classes that weight the scores of a table; empty for numbers.
    """

    task: str
    y: dict[str, np.ndarray]
    shares: dict[str, np.ndarray]


def find_task(task: Task, target: pd.Series) -> str:
    """Tell classification from regression by a column of the test table."""
    if task not in get_args(Task):
        raise ValueError(f"task must be one of {list(get_args(Task))}, not {task!r}")
    measurable = bool(continuous_columns(target.to_frame(), None))
    if task == "auto":
        return "regression" if measurable and target.nunique() > _MANY else "classification"
    if task == "regression" and not measurable:
        problem = f"column {target.name!r} is of dtype {target.dtype}; regression needs a target of numbers"
        remedies = Do("convert it to numbers"), Do("predict its classes", when="if it holds names")
        raise DataError("target", problem, columns=[target.name], remedy=remedies, joint="; ")
    return task


def find_targets(columns: Mapping[str, pd.Series], task: str, positive: object, log_target: bool) -> Targets:
    """Encode a target's columns, complete ones, by the names of their tables."""
    for name, column in columns.items():
        if column.nunique() == 1:
            what = "value" if task == "regression" else "class"
            only = column.astype("object").iloc[0]
            template = (
                "column {column!r} of {table} has one {what}, {only!r}: a target with one {what} cannot be learnt or "
                "judged by"
            )
            problem = Text(template, column=column.name, table=Table(name), what=what, only=only)
            raise DataError("target", problem, columns=[column.name], value=only)
    if task == "regression":
        return _numbers(columns, positive, log_target)
    if log_target:
        target = columns["test"].name
        wrong = f"log_target is for regression; column {target!r} is a target of classes"
        raise DataError("target", wrong, columns=[target], remedy=Do("leave it out"))
    return _classes(columns, positive)


def fit_points(
    points: Sequence[tuple[str, Point]], random_state: int, x: Mapping[str, np.ndarray], targets: Targets, n_jobs: int
) -> list[dict[str, dict[str, float]]]:
    """Fit each model of `points` as `fit_point` does, several side by side."""
    joblib = require("joblib")
    fits = (joblib.delayed(fit_point)(name, point, random_state, x, targets) for name, point in points)
    # The order of a sum changes the figures, so each fit uses one thread.
    with warnings.catch_warnings(), require("threadpoolctl").threadpool_limits(1):
        warnings.simplefilter("ignore")  # the grid's small numbers of iterations do not converge, as expected
        return list(joblib.Parallel(n_jobs=n_jobs, require="sharedmem")(fits))


def fit_point(
    name: str, point: Point, random_state: int, x: Mapping[str, np.ndarray], targets: Targets
) -> dict[str, dict[str, float]]:
    """Fit a model to the table "train" and score its predictions for the others: metrics by name, by table."""
    y = targets.y["train"]
    classes, codes = np.unique(y, return_inverse=True)  # XGBoost wants the codes 0 ... k - 1
    regression = targets.task == "regression"
    model = make_model(name, targets.task, point, random_state)
    scores = {}
    try:
        model.fit(x["train"], y if regression else codes)
    except ValueError as error:
        if name != "adaboost" or "worse than random" not in str(error):
            raise
        model = require("sklearn.dummy").DummyClassifier(strategy="prior").fit(x["train"], codes)
    for table in x.keys() - {"train"}:
        truth = targets.y[table]
        if regression:
            scores[table] = regression_scores(truth, np.asarray(model.predict(x[table]), dtype=float))
        else:
            shares = targets.shares[table]
            probability = _by_class(model.predict_proba(x[table]), classes, len(shares))
            scores[table] = classification_scores(truth, classes[model.predict(x[table])], probability, shares)
    return scores


def choose(values: Sequence[float], metric: str) -> int:
    """Find the index of the best value, the first among equals.

    Examples
    --------
    >>> choose([0.5, 0.7, 0.7], "auroc"), choose([0.5, 0.7, 0.5], "rmse")
    (1, 0)
    """
    return int(np.argmin(values) if metric == "rmse" else np.argmax(values))


def _numbers(columns: Mapping[str, pd.Series], positive: object, log_target: bool) -> Targets:
    y = {name: as_numbers(column) for name, column in columns.items()}
    if positive is not None:
        raise ValueError(f"positive={positive!r} is for targets of two classes, not for regression")
    if log_target:
        for name, values in y.items():
            if values.min() < 0:
                template = (
                    "column {column!r} of {table} has the value {least}; log_target, log(1 + y), needs a target that "
                    "is never negative"
                )
                column, least = columns[name].name, values.min()
                problem = Text(template, column=column, table=Table(name), least=least)
                raise DataError("target", problem, columns=[column], value=least)
        y = {name: np.log1p(values) for name, values in y.items()}
    for name, values in y.items():
        greatest = float(np.abs(values).max())
        if greatest > _GREATEST:
            template = (
                "column {column!r} of {table} has values up to {greatest:g}, and no model takes a target beyond "
                "{most:g}"
            )
            column = columns[name].name
            problem = Text(template, column=column, table=Table(name), greatest=greatest, most=_GREATEST)
            raise DataError("target", problem, columns=[column], value=greatest, remedy=Do("rescale it"), joint="; ")
    return Targets("regression", y, {})


def _classes(columns: Mapping[str, pd.Series], positive: object) -> Targets:
    real = in_order(pd.concat([cells.astype("object") for name, cells in columns.items() if name != "train"]))
    column = columns["test"].name
    if positive is not None:
        if positive not in real:
            wrong = f"positive={positive!r} is no class of column {column!r}; it has {real}"
            raise DataError(
                "target", wrong, columns=[column], value=positive, remedy=Do("give one of them"), joint="; "
            )
        if len(real) > 2:
            wrong = f"positive is for two classes; column {column!r} has {real}"
            raise DataError("target", wrong, columns=[column], value=positive, remedy=Do("leave it out"))
        real = sorted(real, key=lambda value: bool(value == positive))
    learnt, asked = (columns[name].astype("object").unique().tolist() for name in ("train", "test"))
    if not set(learnt) & set(asked):
        template = (
            "column {column!r} has no class that is both in {train}, such as {learnt!r}, and in {test}, such as "
            "{asked!r}"
        )
        tables = {"train": Table("train"), "test": Table("test")}
        problem = Text(template, column=column, learnt=learnt[0], asked=asked[0], **tables)
        raise DataError("target", problem, columns=[column], remedy=Do("write them alike"), joint="; ")
    made_up = [value for value in in_order(columns["train"]) if value not in real]
    index = pd.Index([*real, *made_up], dtype="object")
    y = {name: index.get_indexer(pd.Index(cells, dtype="object")) for name, cells in columns.items()}
    counts = {name: np.bincount(codes, minlength=len(real)) for name, codes in y.items() if name != "train"}
    counts["test"] = np.sum(list(counts.values()), axis=0)
    return Targets("classification", y, {name: count / count.sum() for name, count in counts.items()})


def _by_class(probability: np.ndarray, classes: np.ndarray, num_classes: int) -> np.ndarray:
    """Reorder probabilities from the learnt classes to the real ones, which need not be the same."""
    placed = np.zeros((len(probability), num_classes))
    known = classes < num_classes
    placed[:, classes[known]] = probability[:, known]
    return placed
