"""Utility: the choice of grid points, the features, what is asked of the tables, and figures worked otherwise."""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("sklearn")
pytest.importorskip("xgboost")

from sklearn.metrics import f1_score, roc_auc_score
from sklearn.tree import DecisionTreeClassifier

from missdiff_fast.evaluate import utility
from missdiff_fast.evaluate._features import Features

SIX = ["decision_tree", "adaboost", "logistic_regression", "mlp", "random_forest", "xgboost"]


def table(flip: bool = False) -> pd.DataFrame:
    x = np.arange(200)
    return pd.DataFrame({"x": x, "word": ["p", "q"] * 100, "y": np.where((x < 100) ^ flip, "no", "yes")})


def noisy(seed: int, rows: int = 300, classes: int = 2) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    x, z = random.normal(size=(2, rows))
    score = x + np.sin(3 * z) + random.normal(size=rows)
    y = np.digitize(score, np.linspace(-1, 1, classes - 1) if classes > 2 else [0.0])
    return pd.DataFrame({"x": x, "z": z, "y": np.array(["a", "b", "c", "d"])[y]})


def numeric(seed: int, rows: int = 300) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    x = random.uniform(0, 3, rows)
    return pd.DataFrame({"x": x, "w": random.choice(["u", "v"], rows), "y": np.exp(x) + random.normal(size=rows) ** 2})


def values(result: pd.DataFrame, model: str) -> dict[str, float]:
    return result[result["model"] == model].set_index("metric")["value"].to_dict()


def test_a_learnable_target_is_learnt_and_one_turned_round_is_always_wrong() -> None:
    for train, value in ((table(), 1.0), (table(flip=True), 0.0)):
        result = utility(train, table(), "y", models="xgboost")
        assert list(result.columns) == ["model", "metric", "value", "parameters"]
        assert values(result, "xgboost") == dict.fromkeys(
            ["accuracy", "binary_f1", "macro_f1", "weighted_f1", "auroc"], value
        )
        assert set(result["parameters"]) == {"n_estimators=100, max_depth=6"}


def test_column_order_does_not_matter() -> None:
    first = utility(noisy(0), noisy(1), "y", models="decision_tree")
    second = utility(noisy(0)[["y", "x", "z"]], noisy(1)[["z", "y", "x"]], "y", models="decision_tree")
    pd.testing.assert_frame_equal(first, second)


def test_all_six_models_by_their_defaults() -> None:
    result = utility(noisy(0), noisy(1), "y")
    assert result["model"].unique().tolist() == SIX
    assert len(result) == 6 * 5
    assert result[result["metric"] == "auroc"]["value"].between(0.65, 1).all()


def test_all_six_models_for_numbers() -> None:
    result = utility(numeric(0), numeric(1), "y", real_train=numeric(2), grid="small")
    assert result["model"].unique().tolist() == [name.replace("logistic", "linear") for name in SIX]
    assert result["metric"].tolist() == ["rmse", "r2"] * 6
    assert result[(result["metric"] == "r2") & (result["model"] != "mlp")]["value"].between(0.7, 1).all()


def test_more_than_two_classes() -> None:
    train, test = noisy(0, classes=4), noisy(1, classes=4)
    result = utility(train, test, "y", real_train=noisy(2, classes=4), grid="small")
    assert result["metric"].tolist() == ["accuracy", "macro_f1", "weighted_f1", "auroc"] * 6
    assert result[result["metric"] == "auroc"]["value"].between(0.6, 1).all()


def test_figures_are_those_of_scikit_learn() -> None:
    train, test = noisy(0, classes=3), noisy(1, classes=3)
    found = values(utility(train, test, "y", models="decision_tree"), "decision_tree")
    features = Features(train[["x", "z"]], ["x", "z"])
    x, to = (features.transform(frame) for frame in (train, test))
    model = DecisionTreeClassifier(random_state=0).fit(x, train["y"])
    predicted = model.predict(to)
    each = f1_score(test["y"], predicted, average=None)
    share = test["y"].value_counts(normalize=True).sort_index().to_numpy()
    assert found == pytest.approx(
        {
            "accuracy": model.score(to, test["y"]),
            "macro_f1": f1_score(test["y"], predicted, average="macro"),
            "weighted_f1": ((1 - share) / 2 * each).sum(),
            "auroc": roc_auc_score(test["y"], model.predict_proba(to), multi_class="ovr"),
        }
    )


def test_the_weights_of_weighted_f1_are_of_all_real_rows() -> None:
    train, real, test = table(), table()[40:], table()[:120]  # "no": 60 of 160, 100 of 120
    result = utility(train.assign(y=table()["y"].where(table()["x"] < 150, "no")), test, "y", models="decision_tree")
    everything = utility(train, test, "y", models="decision_tree", real_train=real, grid="small")
    assert values(everything, "decision_tree")["weighted_f1"] == 1.0
    assert values(result, "decision_tree")["weighted_f1"] == 1.0
    # A model that calls every row of the test table "no": F1 of "no" is 2 * 100 / (120 + 100), of "yes" 0.
    blind = train.assign(y=np.where(np.arange(200) == 199, "yes", "no"))
    found = utility(blind, test, "y", models="adaboost")
    assert values(found, "adaboost")["weighted_f1"] == pytest.approx((1 - 100 / 120) * 200 / 220)
    found = utility(blind, test, "y", models="adaboost", real_train=real, grid="small")
    assert values(found, "adaboost")["weighted_f1"] == pytest.approx((1 - 160 / 280) * 200 / 220)


def by_hand(train: pd.DataFrame, test: pd.DataFrame) -> dict[str, float]:
    """The accuracy of each of the 48 points of the decision tree's grid."""
    features = Features(train[["x", "z"]], ["x", "z"])
    x, to = (features.transform(frame) for frame in (train, test))
    names = ["max_depth", "min_samples_split", "min_samples_leaf"]
    points = [dict(zip(names, point, strict=True)) for point in product((4, 8, 16, 32), (2, 4, 8), (1, 2, 4, 8))]
    return {
        ", ".join(f"{name}={value}" for name, value in point.items()): DecisionTreeClassifier(**point, random_state=0)
        .fit(x, train["y"])
        .score(to, test["y"])
        for point in points
    }


def test_the_grid_point_is_chosen_by_the_real_training_rows_and_never_by_the_test_rows() -> None:
    train, real, test = noisy(0), noisy(1), noisy(2)
    on_real, on_test = by_hand(train, real), by_hand(train, test)
    best = max(on_real, key=on_real.__getitem__)
    assert on_test[best] < max(on_test.values())  # or peeking could not be told
    result = utility(train, test, "y", models="decision_tree", real_train=real).set_index("metric")
    assert result.at["accuracy", "parameters"] == best
    assert result.at["accuracy", "value"] == pytest.approx(on_test[best])


def test_another_test_table_leaves_every_choice_as_it_is() -> None:
    train, real, test = noisy(0), noisy(1), noisy(2)
    inverted = test.assign(y=test["y"].map({"a": "b", "b": "a"}))
    models = ["decision_tree", "logistic_regression"]
    first = utility(train, test, "y", models=models, real_train=real)
    second = utility(train, inverted[:50], "y", models=models, real_train=real)
    assert first["parameters"].tolist() == second["parameters"].tolist()
    assert (first["value"] != second["value"]).any()
    third = utility(train, test, "y", models=models, real_train=inverted)
    assert first["parameters"].tolist() != third["parameters"].tolist()


def test_each_metric_has_its_own_choice_and_the_least_error_is_the_best() -> None:
    train, real, test = numeric(0), numeric(1), numeric(2)
    result = utility(train, test, "y", models="decision_tree", real_train=real).set_index("metric")
    assert result.at["rmse", "parameters"] == result.at["r2", "parameters"]
    variance = test["y"].var(ddof=0)
    assert result.at["r2", "value"] == pytest.approx(1 - result.at["rmse", "value"] ** 2 / variance)
    chosen = utility(noisy(0), noisy(1), "y", models=["decision_tree"], real_train=noisy(3)).set_index("metric")
    assert chosen.at["accuracy", "parameters"] != chosen.at["auroc", "parameters"]


def test_the_same_figures_again_and_with_more_processes() -> None:
    train, real, test = noisy(0), noisy(1), noisy(2)
    models = ["decision_tree", "mlp", "random_forest", "xgboost"]
    arguments = {"real_train": real, "grid": "small", "random_state": 3, "models": models}
    first = utility(train, test, "y", **arguments)
    pd.testing.assert_frame_equal(utility(train, test, "y", **arguments), first)
    pd.testing.assert_frame_equal(utility(train, test, "y", **arguments, n_jobs=2), first)
    assert not utility(train, test, "y", **(arguments | {"random_state": 4}))["value"].equals(first["value"])


def test_no_more_rows_than_asked_are_learnt_from() -> None:
    train = noisy(0, rows=400)
    few = train.sample(50, random_state=7)
    capped = utility(train, noisy(1), "y", models="decision_tree", random_state=7, max_rows=50)
    pd.testing.assert_frame_equal(capped, utility(few, noisy(1), "y", models="decision_tree", random_state=7))
    assert not capped["value"].equals(utility(train, noisy(1), "y", models="decision_tree")["value"])


def test_the_positive_class_may_be_named() -> None:
    train, test = noisy(0), noisy(1)
    last, first = (
        values(utility(train, test, "y", models="logistic_regression", positive=name), "logistic_regression")
        for name in ("b", "a")
    )
    assert last == values(utility(train, test, "y", models="logistic_regression"), "logistic_regression")
    for metric in ("accuracy", "macro_f1", "weighted_f1", "auroc"):
        assert first[metric] == pytest.approx(last[metric])
    assert last["macro_f1"] == pytest.approx((last["binary_f1"] + first["binary_f1"]) / 2)


def test_classes_may_be_in_one_table_only() -> None:
    train, test = noisy(0, classes=4), noisy(1, classes=3)
    more = utility(train, test, "y")
    assert more["metric"].tolist() == ["accuracy", "macro_f1", "weighted_f1", "auroc"] * 6
    less = utility(test, train, "y", real_train=train, grid="small", models=["xgboost", "mlp"])
    assert less["value"].between(0, 1).all()


def test_a_target_without_any_pattern_can_be_asked_for() -> None:
    blind = pd.DataFrame({"x": [0.0] * 8, "y": ["a", "b"] * 4})
    assert values(utility(blind, blind, "y", models="adaboost"), "adaboost")["auroc"] == 0.5


def test_targets_of_bool_and_of_small_numbers_are_classes() -> None:
    truth = table()
    for y in (truth["x"] < 100, (truth["x"] < 100).astype(int), pd.Series(np.where(truth["x"] < 100, 2.5, 4.0))):
        result = utility(truth.assign(y=y), truth.assign(y=y), "y", models="decision_tree")
        assert values(result, "decision_tree")["binary_f1"] == 1.0
    nullable = utility(
        truth.assign(y=(truth["x"] < 100).astype("boolean")), truth.assign(y=y == 2.5), "y", models="mlp"
    )
    assert values(nullable, "mlp")["accuracy"] > 0.9


def test_the_task_may_be_named() -> None:
    truth = table().assign(y=table()["x"] // 20)
    assert set(utility(truth, truth, "y", models="decision_tree")["metric"]) >= {"accuracy"}
    assert utility(truth, truth, "y", models="decision_tree", task="regression")["metric"].tolist() == ["rmse", "r2"]
    with pytest.raises(ValueError, match="column 'word' is of dtype object; regression needs a target of numbers"):
        utility(truth, truth, "word", task="regression")
    with pytest.raises(ValueError, match="task must be one of"):
        utility(truth, truth, "y", task="ranking")  # type: ignore[arg-type]


def test_rmse_and_r2_by_hand() -> None:
    x = np.repeat([0.0, 1.0], 30)
    train = pd.DataFrame({"x": x, "y": np.where(x == 0, 2.0, 4.0) + np.tile([-1.0, 0.0, 1.0], 20)})
    test = train.assign(y=train["y"] + 1)  # always one above what is predicted
    result = values(utility(train, test, "y", models="linear_regression", task="regression"), "linear_regression")
    assert result["rmse"] == pytest.approx(np.sqrt(1 + 2 / 3))
    assert result["r2"] == pytest.approx(0)  # the variance of y is 1 + 2/3 too


def test_the_logarithm_of_the_target_and_durations_in_hours() -> None:
    train, test = numeric(0), numeric(1)
    logged = [frame.assign(y=np.log1p(frame["y"])) for frame in (train, test)]
    result = utility(train, test, "y", models="linear_regression", log_target=True)
    expected = utility(*logged, "y", models="linear_regression")
    assert result["value"].tolist() == pytest.approx(expected["value"].tolist())
    lasting = [frame.assign(y=pd.to_timedelta(frame["y"], unit="h")) for frame in (train, test)]
    result = utility(*lasting, "y", models="linear_regression", log_target=True)
    assert result["value"].tolist() == pytest.approx(expected["value"].tolist())
    with pytest.raises(ValueError, match=r"column 'y' of the train table has the value -1\.0; log_target"):
        utility(train.assign(y=train["y"].where(train.index > 0, -1.0)), test, "y", log_target=True)
    with pytest.raises(ValueError, match="log_target is for regression"):
        utility(table(), table(), "y", log_target=True)


def test_dates_durations_categories_and_unseen_ones_serve_as_features() -> None:
    days = np.arange(200)
    train = pd.DataFrame(
        {
            "when": pd.date_range("2024-01-01", periods=200),
            "long": pd.to_timedelta(days % 7, unit="D"),
            "kind": pd.Categorical(["u", "v"] * 100),
            "flag": pd.array([True, False] * 100, dtype="boolean"),
            "y": np.where(days < 100, "early", "late"),
        }
    )
    test = train.assign(kind=["u", "new"] * 100)
    assert values(utility(train, test, "y", models="decision_tree"), "decision_tree")["accuracy"] == 1.0


def test_numbers_may_be_taken_as_categories() -> None:
    train = pd.DataFrame({"code": np.tile(np.arange(6), 40), "y": np.tile([0, 1], 120)})
    as_numbers = utility(train, train, "y", models="logistic_regression")
    as_classes = utility(train, train, "y", models="logistic_regression", continuous=[])
    assert values(as_classes, "logistic_regression")["accuracy"] == 1.0
    assert values(as_numbers, "logistic_regression")["accuracy"] < 1.0


@pytest.mark.parametrize(
    ("train", "arguments", "message"),
    [
        (table().drop(columns="x"), {}, "column 'x' is in the test table only"),
        (table(), {"target": "z"}, "no column named 'z' to predict"),
        (table()[:50], {}, "column 'y' of the train table has one class, 'no': a target with one class"),
        (table(), {"real_train": table()[:50]}, "column 'y' of the real_train table has one class, 'no'"),
        (table(), {"real_train": table().assign(more=1)}, "column 'more' is in the real_train table only"),
        (table().mask(table()["x"] == 3), {}, "column 'x' of the train table has missing cells; fill them, or drop"),
        (table().replace({"word": {"q": None}}), {}, "column 'word' of the train table has missing cells"),
        (table().assign(x=np.r_[np.inf, :199]), {}, "column 'x' of the train table has infinite cells"),
        (
            table().assign(x=table()["word"]),
            {},
            "column 'x' holds categories in the train table and numbers in the tes",
        ),
        (table()[:0], {}, "the train table has no rows"),
        (table(), {"positive": "maybe"}, r"positive='maybe' is no class of column 'y'; it has \['no', 'yes'\]"),
        (table(), {"target": "x", "positive": 1}, "positive=1 is for targets of two classes, not for regression"),
        (table(), {"models": ["svm"]}, "'svm' is no model for classification; name some of .*'xgboost'"),
        (table(), {"models": []}, "nothing is no model for classification"),
        (table(), {"target": "x", "models": "logistic_regression"}, "'logistic_regression' is no model for regression"),
        (table().assign(x=7), {"target": "x"}, "column 'x' of the train table has one value, 7"),
        (table(), {"grid": "huge"}, "grid must be 'full' or 'small', not 'huge'"),
        (table(), {"random_state": -1}, r"random_state must lie in \[0, 2\*\*32\), got -1"),
        (table(), {"random_state": 2**32}, r"random_state must lie in \[0, 2\*\*32\), got 4294967296"),
        (table(), {"max_rows": 1}, "max_rows must be at least 2, got 1"),
        (table(), {"continuous": ["word"]}, "column 'word' is named as continuous, but its dtype is object"),
        (pd.concat([table(), table()["x"]], axis=1), {}, "column 'x' is in the train table more than once"),
    ],
)
def test_what_cannot_be_measured_is_refused(train: pd.DataFrame, arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        utility(train, table(), **({"target": "y"} | arguments))  # type: ignore[arg-type]


def test_a_test_table_of_one_class_and_a_target_alone_are_refused() -> None:
    with pytest.raises(ValueError, match="column 'y' of the test table has one class, 'yes'"):
        utility(table(), table()[150:], "y")
    with pytest.raises(ValueError, match="no column but the target 'y'"):
        utility(table()[["y"]], table()[["y"]], "y")
