"""Scores of predictions, by hand and against scikit-learn; the models' grids."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from missdiff_fast.evaluate._models import grid_points, make_model, model_names
from missdiff_fast.evaluate._scores import class_f1, classification_scores, regression_scores, weighted_f1


def test_f1_of_each_class_by_hand() -> None:
    truth, predicted = np.array([0, 0, 0, 1, 2]), np.array([0, 0, 1, 1, 0])
    # Class 0: 2 hits, named 3 times each. 1: 1 hit, 1 in truth, 2 named. 2: no hit. 3: in neither.
    assert class_f1(truth, predicted, 4).tolist() == pytest.approx([4 / 6, 2 / 3, 0, 0])


def test_weighted_f1_by_hand() -> None:
    f1, shares = np.array([0.9, 0.5, 0.1]), np.array([0.6, 0.3, 0.1])
    assert weighted_f1(f1, shares) == pytest.approx((0.4 * 0.9 + 0.7 * 0.5 + 0.9 * 0.1) / 2)
    assert weighted_f1(np.ones(3), shares) == pytest.approx(1)
    # With two classes each F1 has the other class's share as its weight.
    assert weighted_f1(f1[:2], np.array([0.75, 0.25])) == pytest.approx(0.25 * 0.9 + 0.75 * 0.5)


@pytest.mark.parametrize("classes", [2, 3, 5])
def test_scores_against_scikit_learn(classes: int) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    random = np.random.default_rng(classes)
    truth = random.integers(classes, size=200)
    probability = random.dirichlet(np.ones(classes), 200).round(2)  # with ties
    probability /= probability.sum(1, keepdims=True)
    predicted = probability.argmax(1)
    shares = np.bincount(truth) / len(truth)
    scores = classification_scores(truth, predicted, probability, shares)
    each = metrics.f1_score(truth, predicted, average=None)
    expected = {
        "accuracy": metrics.accuracy_score(truth, predicted),
        "macro_f1": metrics.f1_score(truth, predicted, average="macro"),
        "weighted_f1": ((1 - shares) * each).sum() / (classes - 1),
        "auroc": metrics.roc_auc_score(truth, probability if classes > 2 else probability[:, 1], multi_class="ovr"),
    }
    if classes == 2:
        expected["binary_f1"] = metrics.f1_score(truth, predicted, average="binary")
    assert scores == pytest.approx(expected)


def test_auroc_is_the_share_of_pairs_in_order() -> None:
    score = np.array([0.1, 0.4, 0.4, 0.8])
    probability = np.stack([1 - score, score], 1)
    # Pairs of a 0 and a 1: (.1, .4) right, (.1, .8) right, (.4, .4) a tie, (.4, .8) right.
    scores = classification_scores(np.array([0, 0, 1, 1]), np.array([0, 0, 0, 1]), probability, np.array([0.5, 0.5]))
    assert scores["auroc"] == pytest.approx(3.5 / 4)


def test_a_prediction_of_a_class_that_is_not_real_is_wrong() -> None:
    truth, predicted = np.array([0, 1, 1, 0]), np.array([0, 1, 2, 0])
    scores = classification_scores(truth, predicted, np.eye(3)[predicted][:, :2], np.array([0.5, 0.5]))
    assert scores == pytest.approx(
        {"accuracy": 0.75, "binary_f1": 2 / 3, "macro_f1": (1 + 2 / 3) / 3, "weighted_f1": 5 / 6, "auroc": 0.75}
    )


def test_rmse_and_r2_by_hand() -> None:
    scores = regression_scores(np.array([1.0, 2.0, 6.0]), np.array([2.0, 2.0, 4.0]))
    assert scores == pytest.approx({"rmse": np.sqrt(5 / 3), "r2": 1 - 5 / 14})


def test_rmse_and_r2_against_scikit_learn() -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    truth, predicted = np.random.default_rng(0).normal(size=(2, 50))
    assert regression_scores(truth, predicted) == pytest.approx(
        {"rmse": metrics.mean_squared_error(truth, predicted) ** 0.5, "r2": metrics.r2_score(truth, predicted)}
    )


def test_full_grids_are_those_of_the_table_less_what_makes_the_same_trees() -> None:
    counts = {name: len(grid_points(name, "full")) for name in model_names("classification")}
    # Of 3 x 4 pairs of split and leaf, max(split, 2 leaf) tells 3, 2, 1 and 1 apart for leaves of 1, 2, 4 and 8.
    assert counts == {
        "decision_tree": 4 * 7,
        "adaboost": 4,
        "logistic_regression": 4 * 3 * 3,
        "mlp": 3 * 2 * 2,
        "random_forest": 3 * 7,
        "xgboost": 3 * 2 * 3 * 2,
    }
    assert grid_points("linear_regression", "full") == [{}]


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_defaults_are_the_libraries_own_and_small_grids_are_small(task: str) -> None:
    pytest.importorskip("sklearn")
    pytest.importorskip("xgboost")
    for name in model_names(task):
        default: dict[str, Any] = grid_points(name, None)[0]
        if name != "xgboost":  # it documents its defaults in its manual only: 100 trees of depth 6
            known = make_model(name, task, {}, 0).get_params()
            assert default == {key: known[key] for key in default}
        assert 1 <= len(grid_points(name, "small")) <= 2


def test_xgboost_takes_a_hundred_trees_of_depth_six_by_default() -> None:
    pytest.importorskip("sklearn")
    pytest.importorskip("xgboost")
    x = np.random.default_rng(0).normal(size=(300, 4))
    y = (x[:, 0] + x[:, 1] ** 2 > 1).astype(int)
    models = [
        make_model("xgboost", "classification", point, 0).fit(x, y) for point in ({}, *grid_points("xgboost", None))
    ]
    assert models[0].get_booster().num_boosted_rounds() == 100
    np.testing.assert_array_equal(*(model.predict_proba(x) for model in models))


def test_one_tree_for_points_of_which_one_alone_is_kept() -> None:
    pytest.importorskip("sklearn")
    random = np.random.default_rng(0)
    x, y = random.normal(size=(200, 3)), random.integers(2, size=200)
    to = random.normal(size=(500, 3))
    for name in ("decision_tree", "random_forest"):
        for task in ("classification", "regression"):
            first, second = (
                make_model(name, task, {"min_samples_split": split, "min_samples_leaf": 4}, 0).fit(x, y).predict(to)
                for split in (2, 8)
            )
            np.testing.assert_array_equal(first, second)
