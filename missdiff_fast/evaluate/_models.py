"""Models that measure a table's utility, and their grids of hyper-parameters.

Source: Kim et al. (2023), STaSy, Table 26, for the grids "full". There AdaBoost and logistic regression are fitted to
targets of two classes only; here, as both support more classes, to any target. For regression the same grids serve the
corresponding regressors, and linear regression has none.
"""

from __future__ import annotations

from itertools import product
from typing import Any, Literal, NamedTuple

from missdiff_fast.evaluate._tables import require

Point = dict[str, Any]
Grid = Literal["full", "small"]


class _Model(NamedTuple):
    module: str
    classifier: str
    regressor: str
    default: Point
    full: dict[str, tuple[Any, ...]]
    small: tuple[Point, ...]


_LEAVES = {"min_samples_split": (2, 4, 8), "min_samples_leaf": (1, 2, 4, 8)}
_NO_LEAVES = {"min_samples_split": 2, "min_samples_leaf": 1}

# "default" spells out the libraries' own defaults.
_MODELS = {
    "decision_tree": _Model(
        "sklearn.tree",
        "DecisionTreeClassifier",
        "DecisionTreeRegressor",
        {"max_depth": None, **_NO_LEAVES},
        {"max_depth": (4, 8, 16, 32), **_LEAVES},
        ({"max_depth": 8, "min_samples_leaf": 8}, {"max_depth": 16, "min_samples_leaf": 8}),
    ),
    "adaboost": _Model(
        "sklearn.ensemble",
        "AdaBoostClassifier",
        "AdaBoostRegressor",
        {"n_estimators": 50},
        {"n_estimators": (10, 50, 100, 200)},
        ({"n_estimators": 50}, {"n_estimators": 100}),
    ),
    "logistic_regression": _Model(
        "sklearn.linear_model",
        "LogisticRegression",
        "",
        {"max_iter": 100, "C": 1.0, "tol": 1e-4},
        {"max_iter": (10, 50, 100, 200), "C": (0.01, 0.1, 1.0), "tol": (1e-1, 1e-2, 1e-4)},
        ({"max_iter": 100, "C": 0.1, "tol": 1e-2}, {"max_iter": 100, "C": 1.0, "tol": 1e-2}),
    ),
    "linear_regression": _Model("sklearn.linear_model", "", "LinearRegression", {}, {}, ({},)),
    "mlp": _Model(
        "sklearn.neural_network",
        "MLPClassifier",
        "MLPRegressor",
        {"hidden_layer_sizes": (100,), "max_iter": 200, "alpha": 1e-4},
        {"hidden_layer_sizes": ((100,), (200,), (100, 100)), "max_iter": (50, 100), "alpha": (1e-4, 1e-3)},
        ({"hidden_layer_sizes": (100,), "max_iter": 50, "alpha": 1e-3},),
    ),
    "random_forest": _Model(
        "sklearn.ensemble",
        "RandomForestClassifier",
        "RandomForestRegressor",
        {"max_depth": None, **_NO_LEAVES},
        {"max_depth": (8, 16, None), **_LEAVES},
        ({"max_depth": 8, "min_samples_leaf": 4}, {"max_depth": 16, "min_samples_leaf": 4}),
    ),
    "xgboost": _Model(
        "xgboost",
        "XGBClassifier",
        "XGBRegressor",
        {"n_estimators": 100, "max_depth": 6},
        {"n_estimators": (10, 50, 100), "min_child_weight": (1, 10), "max_depth": (5, 10, 20), "gamma": (0, 1)},
        (
            {"n_estimators": 100, "min_child_weight": 1, "max_depth": 5, "gamma": 0},
            {"n_estimators": 50, "min_child_weight": 10, "max_depth": 10, "gamma": 1},
        ),
    ),
}


def model_names(task: str) -> list[str]:
    """List the models for "classification" or "regression".

    Examples
    --------
    >>> model_names("regression")
    ['decision_tree', 'adaboost', 'linear_regression', 'mlp', 'random_forest', 'xgboost']
    """
    return [
        name for name, model in _MODELS.items() if (model.classifier if task == "classification" else model.regressor)
    ]


def grid_points(name: str, grid: Grid | None) -> list[Point]:
    """List a model's points of a grid, or, for None, its library's defaults alone.

    A tree splits a node of max(min_samples_split, 2 min_samples_leaf) rows or more; of points that agree in this and in
    all else the first alone is kept, as the others would make the same model.

    Examples
    --------
    >>> grid_points("xgboost", None)
    [{'n_estimators': 100, 'max_depth': 6}]
    >>> [len(grid_points(name, "full")) for name in model_names("classification")]  # 48, 4, 36, 12, 36 and 36 in all
    [28, 4, 36, 12, 21, 36]
    """
    model = _MODELS[name]
    if grid is None:
        return [dict(model.default)]
    if grid == "small":
        return [dict(point) for point in model.small]
    points = [dict(zip(model.full, values, strict=True)) for values in product(*model.full.values())]
    kept: dict[str, Point] = {}
    for point in points:
        leaf, split = point.get("min_samples_leaf", 1), point.get("min_samples_split", 2)
        key = repr({**point, "min_samples_split": max(split, 2 * leaf)})
        kept.setdefault(key, point)
    return list(kept.values())


def make_model(name: str, task: str, point: Point, random_state: int) -> Any:
    """Make an estimator that has not been fitted, of one thread."""
    model = _MODELS[name]
    made = getattr(require(model.module), model.classifier if task == "classification" else model.regressor)(**point)
    known = made.get_params()
    fixed = {"random_state": random_state, "n_jobs": 1}
    # In some releases, setting a deprecated argument warns.
    return made.set_params(**{key: value for key, value in fixed.items() if key in known and name not in _UNSEEDED})


# Least squares and lbfgs draw no random numbers, and take one thread as they are.
_UNSEEDED = {"logistic_regression", "linear_regression"}
