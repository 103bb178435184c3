"""Mean and mode, MICE and MissForest."""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np
import pandas as pd
import pytest
from baseline_tables import check_filled, mixed_table

from missdiff_fast import MissDiff
from missdiff_fast.baselines import (
    CSDITImputer,
    DiffDelete,
    DiffMean,
    GAINImputer,
    MeanModeImputer,
    MICEImputer,
    MissForestImputer,
    STaSy,
)
from missdiff_fast.baselines._chained import means_and_modes
from missdiff_fast.baselines._encoding import EncodedCells
from missdiff_fast.baselines.imputers import linear_regression
from missdiff_fast.evaluate import fill_mean_mode

IMPUTERS = {
    "mean": lambda **settings: MeanModeImputer(**settings),
    "mice": lambda **settings: MICEImputer(**settings),
    "forest": lambda **settings: MissForestImputer(num_trees=5, **settings),
}


@pytest.mark.parametrize("name", IMPUTERS)
class TestEveryImputer:
    def test_only_holes_are_filled(self, name: str) -> None:
        table = mixed_table()
        check_filled(table, IMPUTERS[name](random_state=0).fit_impute(table))

    def test_other_rows_are_filled_each_by_itself(self, name: str) -> None:
        table, other = mixed_table(), mixed_table(seed=1)
        other = other.assign(text=other["text"].where(other["text"].isin(table["text"])))
        imputer = IMPUTERS[name](random_state=0).fit(table)
        filled = imputer.impute(other)
        check_filled(other.drop(columns=["float", "whole", "day"]), filled.drop(columns=["float", "whole", "day"]))
        pd.testing.assert_frame_equal(imputer.impute(other[10:20]), filled[10:20])

    def test_a_column_without_holes_in_fit_may_have_some_later(self, name: str) -> None:
        x = np.arange(40.0)
        table = pd.DataFrame({"x": x, "y": x, "z": np.where(x < 20, "a", "b")})
        filled = IMPUTERS[name](random_state=0).fit(table).impute(table.assign(y=np.nan, z=None))
        assert not filled.isna().any(axis=None)
        if name != "mean":
            assert np.abs(filled["y"] - x).max() < 4
            assert (filled["z"] == table["z"]).mean() > 0.9

    def test_the_same_seed_gives_the_same(self, name: str) -> None:
        table = mixed_table()
        filled = [IMPUTERS[name](random_state=3).fit_impute(table) for _ in range(2)]
        pd.testing.assert_frame_equal(*filled)

    def test_no_rows_to_impute(self, name: str) -> None:
        table = mixed_table()
        assert IMPUTERS[name](random_state=0).fit(table).impute(table[:0]).shape == (0, table.shape[1])

    def test_a_table_of_one_column_gets_means(self, name: str) -> None:
        table = pd.DataFrame({"x": [0.0, 4.0, np.nan, 5.0]})
        assert IMPUTERS[name](random_state=0).fit_impute(table)["x"][2] == 3.0

    def test_marked_missing_values(self, name: str) -> None:
        table = pd.DataFrame({"x": [0, 2, 4, -9], "y": ["a", "a", "?", "b"]})
        filled = IMPUTERS[name](random_state=0, missing_values=(-9, "?")).fit_impute(table)
        assert filled["y"][2] in ("a", "b")
        assert 0 <= filled["x"][3] <= 4

    def test_bad_input(self, name: str) -> None:
        table = mixed_table()
        with pytest.raises(ValueError, match="not fitted"):
            IMPUTERS[name]().impute(table)
        with pytest.raises(ValueError, match="empty"):
            IMPUTERS[name]().fit(table[:0])
        with pytest.raises(ValueError, match="'nowhere'"):
            IMPUTERS[name]().fit(table, categorical_columns=["nowhere"])
        with pytest.raises(ValueError, match="other"):
            IMPUTERS[name]().fit(table).impute(table.assign(other=1))
        with pytest.raises(TypeError, match="random_state"):
            IMPUTERS[name](random_state=0.5).fit(table)


def test_means_and_modes_by_hand() -> None:
    cells = EncodedCells(np.array([[0.0, 1.0], [0.5, np.nan], [np.nan, 0.0]]), np.array([[2, 1], [-1, 0], [2, -1]]))
    means, modes = means_and_modes(cells, (3, 2))
    assert means.tolist() == [0.25, 0.5]
    assert modes.tolist() == [2, 0]  # of equally frequent ones the first


def test_means_are_those_of_the_plain_filling_rounded_as_the_column_is() -> None:
    table = pd.DataFrame({"x": [1.5, 2.25, np.nan, 4.0], "n": [1.0, 2.0, 6.0, np.nan], "y": ["b", "b", "a", None]})
    plain = fill_mean_mode(table)
    assert plain.loc[2, "x"] == pytest.approx(7.75 / 3)
    pd.testing.assert_frame_equal(MeanModeImputer().fit_impute(table), plain.round({"x": 2, "n": 0}))


def test_regression_by_hand() -> None:
    # y = 2 a - b + 3; the third input does not vary.
    inputs = np.array([[0.0, 0.0, 5.0], [1.0, 0.0, 5.0], [0.0, 1.0, 5.0], [1.0, 1.0, 5.0]])
    weights, intercept = linear_regression(inputs, inputs[:, :1] * 2 - inputs[:, 1:2] + 3)
    np.testing.assert_allclose(weights[:, 0], [2.0, -1.0, 0.0], atol=1e-4)
    np.testing.assert_allclose(intercept, [3.0], atol=1e-4)


def linear_table(rows: int = 200) -> tuple[pd.DataFrame, pd.DataFrame]:
    """A table with y = 3 a - 2 b and the same with holes in all but a."""
    generator = np.random.default_rng(0)
    a, b = generator.random((2, rows)).round(2)
    truth = pd.DataFrame({"a": a, "b": b, "y": (3 * a - 2 * b).round(2)})
    hidden = generator.random(rows)
    hidden[[truth["y"].argmin(), truth["y"].argmax()]] = 1.0  # what is filled stays in the observed range
    return truth, truth.assign(b=truth["b"].where(hidden > 0.2), y=truth["y"].where((hidden < 0.2) | (hidden > 0.4)))


def test_mice_recovers_a_linear_relation() -> None:
    truth, holes = linear_table()
    pd.testing.assert_frame_equal(MICEImputer().fit_impute(holes), truth)


def test_mice_agrees_with_scikit_learn_on_numbers() -> None:
    pytest.importorskip("sklearn.experimental.enable_iterative_imputer")
    from sklearn.impute import IterativeImputer
    from sklearn.linear_model import LinearRegression

    generator = np.random.default_rng(1)
    values = generator.normal(size=(300, 4)) + generator.normal(size=(300, 1))
    holes = np.where(generator.random(values.shape) < [0.1, 0.2, 0.3, 0.4], np.nan, values)
    low, high = np.nanmin(holes, 0), np.nanmax(holes, 0)
    theirs = IterativeImputer(LinearRegression(), max_iter=100, tol=1e-7, min_value=low, max_value=high)
    ours = MICEImputer(max_rounds=100, tolerance=1e-7)
    frame = pd.DataFrame(holes, columns=list("abcd"))
    np.testing.assert_allclose(ours.fit_impute(frame), theirs.fit_transform(holes), atol=1e-4)


def test_mice_tells_categories_from_other_columns() -> None:
    x = np.arange(90)
    truth = pd.DataFrame({"x": x % 3 == 0, "y": x % 3 == 1, "c": np.array(["u", "v", "w"])[x % 3]})
    hidden = np.random.default_rng(0).random(90) < 0.3
    imputer = MICEImputer()
    filled = imputer.fit_impute(truth.assign(c=truth["c"].mask(hidden)))
    pd.testing.assert_frame_equal(filled, truth)
    assert imputer.rounds_ == 2  # nothing changes in the second


def test_mice_gets_more_categories_right_than_one_hot_columns_by_themselves() -> None:
    pytest.importorskip("sklearn.experimental.enable_iterative_imputer")
    from sklearn.impute import IterativeImputer

    x = np.arange(210)
    flag = (x % 3 == 0) ^ (x % 7 == 0)
    truth = pd.DataFrame({"a": flag, "b": x % 3 == 1, "c": np.array(["u", "v", "w"])[x % 3]})
    hidden = np.random.default_rng(0).random(210) < 0.3
    ours = MICEImputer().fit_impute(truth.assign(c=truth["c"].mask(hidden)))
    dense = np.column_stack([truth["a"], truth["b"], np.eye(3)[x % 3]]).astype(float)
    dense[hidden, 2:] = np.nan
    theirs = IterativeImputer(max_iter=100, tol=1e-4).fit_transform(dense)[:, 2:].argmax(1)
    right = (ours["c"] == truth["c"])[hidden].mean()
    assert right > 0.8
    assert right > (theirs == x % 3)[hidden].mean() + 0.1


def test_forest_recovers_a_step() -> None:
    x = np.arange(200) / 2
    truth = pd.DataFrame({"x": x, "y": np.where(x < 38.5, 1.0, 4.0), "z": np.where(x < 75, "no", "yes"), "w": x % 50})
    hidden = np.random.default_rng(0).random((200, 2)) < 0.2
    hidden[[76, 77, 149, 150]] = False  # next to a step either side may be right
    holes = truth.assign(y=truth["y"].mask(hidden[:, 0]), z=truth["z"].mask(hidden[:, 1]))
    filled = MissForestImputer(num_trees=30, random_state=0).fit_impute(holes)
    assert (filled["z"] == truth["z"]).all()
    assert np.abs(filled["y"] - truth["y"]).mean() < 0.02


def test_forest_stops_when_the_difference_grows_in_all_kinds() -> None:
    judge = MissForestImputer()._judge
    assert judge({"continuous": 2.0, "categorical": 0.5}, None) == (True, False)
    before = {"continuous": 1.0, "categorical": 0.5}
    assert judge({"continuous": 2.0, "categorical": 0.4}, before) == (True, False)
    assert judge({"continuous": 0.9, "categorical": 0.6}, before) == (True, False)
    assert judge({"continuous": 2.0, "categorical": 0.5}, before) == (False, True)


def test_forest_differences_by_hand() -> None:
    imputer = MissForestImputer(num_trees=1, random_state=0).fit(
        pd.DataFrame({"x": [0.0, 1.5, np.nan], "y": ["a", "b", "a"], "z": ["c", "d", "c"]})
    )
    old = np.array([[0.0, 0, 0], [1.0, 1, 1], [0.5, 0, 1]])
    new = np.array([[0.0, 0, 0], [1.0, 1, 1], [1.0, 1, 1]])
    missing = np.array([[0, 0, 0], [0, 0, 0], [1, 1, 1]], dtype=bool)
    assert imputer._change(old, new, missing) == {"continuous": 0.25 / 2.0, "categorical": 0.5}
    missing[:, 0] = False
    assert set(imputer._change(old, new, missing)) == {"categorical"}


def test_rounds_end_at_the_most_allowed() -> None:
    imputer = MICEImputer(max_rounds=2, tolerance=1e-12)
    assert imputer.fit(linear_table()[1]).rounds_ == 2


@pytest.mark.parametrize(
    ("imputer", "match"),
    [
        (MICEImputer(max_rounds=0), "max_rounds"),
        (MICEImputer(tolerance=0.0), "tolerance"),
        (MissForestImputer(num_trees=0), "num_trees"),
    ],
)
def test_bad_settings(imputer: Any, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        imputer.fit(mixed_table())


def test_forest_without_scikit_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def fail(name: str, *arguments: Any) -> Any:
        if name.startswith("sklearn"):
            raise ModuleNotFoundError(f"No module named {name!r}", name="sklearn")
        return real(name, *arguments)

    monkeypatch.setattr(builtins, "__import__", fail)
    with pytest.raises(ImportError, match=r"pip install 'missdiff_fast\[evaluate\]'"):
        MissForestImputer().fit(mixed_table())


@pytest.mark.parametrize(
    "estimator",
    [
        MeanModeImputer(missing_values=["?"]),
        MICEImputer(max_rounds=3, random_state=1),
        MissForestImputer(num_trees=7),
        GAINImputer(iterations=5),
        CSDITImputer(epochs=2, verbose=False),
        DiffDelete(epochs=2, random_state=3),
        DiffMean(preset="default"),
        STaSy("mean", hidden=(8, 8)),
        MissDiff(steps=7, missing_values=["?"], settings={"ema": 0.5}),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_scikit_learn_clones_them(estimator: Any) -> None:
    base = pytest.importorskip("sklearn.base")
    for one in (estimator, base.clone(estimator)):
        other = base.clone(one)
        assert type(other) is type(estimator)
        assert other.get_params() == estimator.get_params(deep=False) == one.get_params(deep=True)


def test_a_clone_of_what_was_fitted_is_not_fitted() -> None:
    base = pytest.importorskip("sklearn.base")
    imputer = MICEImputer(max_rounds=2).fit(mixed_table())
    other = base.clone(imputer)
    assert other.get_params() == imputer.get_params()
    with pytest.raises(ValueError, match="not fitted"):
        other.impute(mixed_table())


def _fit_columns(make: Any, columns: Any) -> None:
    """Fit with categorical columns, which MissDiff takes in its constructor."""
    if make is MissDiff:
        make(categorical_columns=columns).fit(mixed_table())
    else:
        make().fit(mixed_table(), columns)


@pytest.mark.parametrize("make", [MeanModeImputer, DiffDelete, DiffMean, STaSy, MissDiff])
@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (5, "categorical_columns must be a list of column names, not 5"),
        ([["x"]], r"categorical_columns holds \['x'\], which is no column name: give strings or integers"),
        ("x", r"categorical_columns must be a list such as \['x'\], not the string 'x'"),
    ],
)
def test_categorical_columns_that_are_no_list(make: Any, columns: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        _fit_columns(make, columns)


@pytest.mark.parametrize("make", [MeanModeImputer, DiffDelete, DiffMean, STaSy, MissDiff])
@pytest.mark.parametrize("values", [None, 5, b"?", iter(["?"])])
def test_missing_values_that_are_no_list(make: Any, values: Any) -> None:
    with pytest.raises(TypeError, match=r"missing_values must be a list such as \['\?'\], or \(\) for none, not "):
        make(missing_values=values).fit(mixed_table())


def test_a_fit_that_fails_leaves_nothing_fitted() -> None:
    imputer = MICEImputer().fit(mixed_table())
    imputer.max_rounds = 0
    with pytest.raises(ValueError, match="max_rounds"):
        imputer.fit(mixed_table())
    assert imputer.get_params()["max_rounds"] == 0
