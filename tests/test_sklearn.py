"""The estimators in scikit-learn's hands: its own checks, pipelines, searches, clones and pickles."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("sklearn", minversion="1.6")

import joblib
from scipy import sparse
from sklearn.base import BaseEstimator, clone
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.validation import check_is_fitted

from missdiff_fast import MissDiff
from missdiff_fast.sklearn import MissDiffImputer

SMALL: dict[str, Any] = {"steps": 2, "width": 8, "blocks": 1, "refine": 0, "random_state": 0, "device": "cpu"}
SMALL["settings"] = {"blend.rows_per_feature": 0, "calibration.rounds": 0}

_COLUMN = "predict_proba takes the name of the column to predict, besides X"
_PLACE = "score_samples estimates with noise that depends on the number of the row"
_EXPECTED = {
    "check_estimators_unfitted": _COLUMN,
    "check_n_features_in_after_fitting": _COLUMN,
    "check_estimators_dtypes": _COLUMN,
    "check_estimators_pickle": _COLUMN,
    "check_dict_unchanged": _COLUMN,
    "check_fit_idempotent": _COLUMN,
    "check_fit2d_predict1d": _COLUMN,
    "check_methods_sample_order_invariance": _PLACE,
    "check_methods_subset_invariance": _PLACE,
}


@parametrize_with_checks([MissDiffImputer(**SMALL)])
def test_the_imputer_passes_every_check(estimator: Any, check: Any) -> None:
    check(estimator)


@parametrize_with_checks([MissDiff(**SMALL)], expected_failed_checks=lambda _: _EXPECTED)
def test_the_model_passes_the_checks_that_suit_a_generator(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.fixture
def X() -> np.ndarray:  # noqa: N802
    random = np.random.default_rng(0)
    values = random.normal(size=(80, 3)).cumsum(1).round(2)
    return np.where(random.random(values.shape) < 0.2, np.nan, values)


@pytest.fixture
def y(X: np.ndarray) -> np.ndarray:
    return (np.nan_to_num(X[:, 0]) > 0).astype(int)


@pytest.fixture
def frame(X: np.ndarray) -> pd.DataFrame:
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    frame["kind"] = pd.Series(["u", "v", None, "w"] * 20, dtype="category")
    return frame


class TestParameters:
    @pytest.mark.parametrize("kind", [MissDiff, MissDiffImputer])
    def test_positional_arguments_are_refused(self, kind: type) -> None:
        with pytest.raises(TypeError, match="takes 1 positional argument but 2 were given"):
            kind("paper")

    @pytest.mark.parametrize("kind", [MissDiff, MissDiffImputer])
    def test_clone_set_and_print(self, kind: type) -> None:
        model = kind(steps=7, missing_values=["?"], settings={"solver.steps": 3})
        assert isinstance(model, BaseEstimator)
        assert clone(model).get_params() == model.get_params()
        assert model.set_params(steps=8, refine=1) is model
        assert (model.steps, model.refine) == (8, 1)
        assert repr(kind(steps=7)) == f"{kind.__name__}(steps=7)"
        with pytest.raises(ValueError, match="Invalid parameter 'step'"):
            model.set_params(step=8)

    def test_both_have_the_same(self) -> None:
        assert MissDiffImputer().get_params() == MissDiff().get_params()

    def test_a_clone_fits_the_same(self, frame: pd.DataFrame) -> None:
        model = MissDiff(**SMALL).fit(frame)
        other = clone(model)
        with pytest.raises(NotFittedError):
            check_is_fitted(other)
        pd.testing.assert_frame_equal(other.fit(frame).sample(9), model.sample(9), check_exact=True)
        check_is_fitted(other)


class TestImputer:
    def test_an_array_comes_back_as_an_array(self, X: np.ndarray) -> None:
        for dtype in (np.float64, np.float32):
            held = X.astype(dtype)
            filled = MissDiffImputer(**SMALL).fit_transform(held)
            assert filled.dtype == dtype
            assert not np.isnan(filled).any()
            np.testing.assert_array_equal(filled[~np.isnan(held)], held[~np.isnan(held)])

    def test_an_array_of_objects_comes_back_as_one(self) -> None:
        X = np.array([[1.0, "a"], [2.0, "b"], [None, "b"], [4.0, None]] * 8, dtype=object)
        filled = MissDiffImputer(**SMALL).fit_transform(X)
        assert filled.dtype == object
        assert filled[:2].tolist() == [[1.0, "a"], [2.0, "b"]]
        assert not pd.isna(filled).any()

    def test_a_frame_comes_back_as_a_frame(self, frame: pd.DataFrame) -> None:
        imputer = MissDiffImputer(**SMALL)
        filled = imputer.fit_transform(frame.set_axis(frame.index + 5))
        assert filled.dtypes.equals(frame.dtypes)
        assert filled.index.tolist() == (frame.index + 5).tolist()
        assert not filled.isna().to_numpy().any()
        pd.testing.assert_frame_equal(filled, MissDiff(**SMALL).fit(frame).impute(frame.set_axis(frame.index + 5)))
        assert imputer.get_feature_names_out().tolist() == ["a", "b", "c", "kind"]
        assert imputer.feature_names_in_.tolist() == ["a", "b", "c", "kind"]
        assert imputer.n_features_in_ == 4
        assert imputer.model_.sample(3).shape == (3, 4)

    def test_a_frame_without_names_of_strings(self, X: np.ndarray) -> None:
        frame = pd.DataFrame(X)
        imputer = MissDiffImputer(**SMALL).fit(frame)
        assert not hasattr(imputer, "feature_names_in_")
        assert imputer.transform(frame).columns.tolist() == [0, 1, 2]
        np.testing.assert_array_equal(imputer.transform(X), imputer.transform(frame))

    def test_frames_and_arrays_mixed(self, X: np.ndarray) -> None:
        frame = pd.DataFrame(X, columns=["a", "b", "c"])
        imputer = MissDiffImputer(**SMALL).fit(X)
        with pytest.warns(UserWarning, match="X has feature names"):
            filled = imputer.transform(frame)
        assert filled.columns.tolist() == ["a", "b", "c"]
        np.testing.assert_array_equal(filled, imputer.transform(X))
        with pytest.warns(UserWarning, match="X does not have valid feature names"):
            assert isinstance(MissDiffImputer(**SMALL).fit(frame).transform(X), np.ndarray)

    def test_set_output(self, X: np.ndarray, frame: pd.DataFrame) -> None:
        filled = MissDiffImputer(**SMALL).set_output(transform="pandas").fit_transform(X)
        assert filled.columns.tolist() == ["x0", "x1", "x2"]
        kept = MissDiffImputer(**SMALL).set_output(transform="pandas").fit_transform(frame)
        pd.testing.assert_frame_equal(kept, MissDiffImputer(**SMALL).fit_transform(frame))

    def test_no_rows(self, X: np.ndarray) -> None:
        assert MissDiffImputer(**SMALL).fit(X).transform(X[:0]).shape == (0, 3)

    @pytest.mark.parametrize("kind", [MissDiff, MissDiffImputer])
    def test_sparse_tables_are_refused(self, X: np.ndarray, kind: type) -> None:
        with pytest.raises(TypeError, match="Sparse data was passed"):
            kind(**SMALL).fit(sparse.csr_array(np.nan_to_num(X)))

    @pytest.mark.parametrize("kind", [MissDiff, MissDiffImputer])
    def test_infinite_values_are_refused(self, X: np.ndarray, kind: type) -> None:
        with pytest.raises(ValueError, match=r"columns 'x0' \(1 of 80 cells\).* infinite values"):
            kind(**SMALL).fit(np.where(np.arange(80)[:, None] == 3, np.inf, X))

    def test_columns_in_another_order_are_refused(self, frame: pd.DataFrame) -> None:
        imputer = MissDiffImputer(**SMALL).fit(frame)
        with pytest.raises(ValueError, match="same order"):
            imputer.transform(frame[["kind", "c", "b", "a"]])

    def test_not_fitted(self, X: np.ndarray) -> None:
        with pytest.raises(NotFittedError):
            MissDiffImputer().transform(X)
        with pytest.raises(NotFittedError, match="not fitted: call fit first"):
            MissDiff().sample(1)

    def test_a_refit_that_fails_leaves_no_mix(self, frame: pd.DataFrame) -> None:
        """The names of one table with the model of another would be a mix."""
        other = frame[["a", "b"]].assign(z=np.inf)
        imputer, model = MissDiffImputer(**SMALL).fit(frame), MissDiff(**SMALL).fit(frame)
        for estimator in (imputer, model):
            with pytest.raises(ValueError, match="infinite values"):
                estimator.fit(other)
        with pytest.raises(NotFittedError):
            check_is_fitted(imputer)
        with pytest.raises(NotFittedError):
            imputer.transform(frame)
        assert model.feature_names_in_.tolist() == list(frame.columns)
        assert model.n_features_in_ == frame.shape[1]
        assert not model.impute(frame).isna().any().any()

    def test_parameters_reach_the_model(self, frame: pd.DataFrame) -> None:
        parameters = {**SMALL, "categorical_columns": ["a"], "max_categories": 99}
        imputer = MissDiffImputer(**parameters).fit(frame)
        assert imputer.model_.get_params() == {**imputer.get_params(), "structural_missing": "fill"}
        assert imputer.model_.codec_.schema["a"].kind == "categorical"


class TestTogether:
    def test_pipeline(self, X: np.ndarray, y: np.ndarray) -> None:
        pipeline = make_pipeline(MissDiffImputer(**SMALL), StandardScaler(), LogisticRegression()).fit(X, y)
        assert pipeline.predict(X).shape == (80,)
        assert pipeline[:-1].get_feature_names_out().tolist() == ["x0", "x1", "x2"]

    def test_the_model_at_the_end_of_a_pipeline(self, X: np.ndarray, y: np.ndarray) -> None:
        model = make_pipeline(StandardScaler(), MissDiff(**SMALL)).fit(X, y)[-1]
        assert model.sample(4).columns.tolist() == ["x0", "x1", "x2"]

    def test_column_transformer(self, frame: pd.DataFrame, y: np.ndarray) -> None:
        transformer = ColumnTransformer(
            [
                ("numbers", MissDiffImputer(**SMALL), ["a", "b", "c"]),
                ("kind", make_pipeline(MissDiffImputer(**SMALL), OneHotEncoder(sparse_output=False)), ["kind"]),
            ],
            verbose_feature_names_out=False,
        )
        encoded = transformer.fit_transform(frame)
        assert encoded.shape == (80, 6)
        assert not np.isnan(encoded).any()
        assert transformer.get_feature_names_out().tolist() == ["a", "b", "c", "kind_u", "kind_v", "kind_w"]

    def test_grid_search(self, X: np.ndarray, y: np.ndarray) -> None:
        pipeline = Pipeline([("impute", MissDiffImputer(**SMALL)), ("predict", LogisticRegression())])
        search = GridSearchCV(pipeline, {"impute__steps": [1, 3], "impute__width": [4, 8]}, cv=2).fit(X, y)
        assert set(search.best_params_) == {"impute__steps", "impute__width"}
        assert np.isfinite(search.cv_results_["mean_test_score"]).all()
        assert search.predict(X).shape == (80,)

    def test_pickle_and_joblib(self, frame: pd.DataFrame, tmp_path: Path) -> None:
        imputer = MissDiffImputer(**SMALL).fit(frame)
        joblib.dump(imputer, tmp_path / "imputer")
        expected = imputer.transform(frame)
        for other in (pickle.loads(pickle.dumps(imputer)), joblib.load(tmp_path / "imputer")):
            pd.testing.assert_frame_equal(other.transform(frame), expected, check_exact=True)

    def test_fits_in_worker_processes(self, frame: pd.DataFrame) -> None:
        models = joblib.Parallel(n_jobs=2)(joblib.delayed(MissDiff(**SMALL).fit)(frame) for _ in range(2))
        for model in models:
            pd.testing.assert_frame_equal(model.sample(5), MissDiff(**SMALL).fit(frame).sample(5), check_exact=True)


class TestY:
    """The second argument of fit was once a list of column names, and is now ignored."""

    def test_labels_are_ignored(self, X: np.ndarray) -> None:
        frame = pd.DataFrame(X)  # columns 0, 1 and 2, which labels could be taken for
        y = pd.Series([0, 1] * 40)
        models = [MissDiff(**SMALL).fit(frame, labels) for labels in (None, y, y.to_numpy(), y.tolist(), [])]
        for model in models:
            assert {column.kind for column in model.codec_.schema} == {"continuous"}
            pd.testing.assert_frame_equal(model.sample(5), models[0].sample(5), check_exact=True)

    @pytest.mark.parametrize("names", [["a"], ("a", "b"), "a", pd.Index(["b"]), np.array(["a", "c"])])
    @pytest.mark.parametrize("kind", [MissDiff, MissDiffImputer])
    def test_column_names_are_refused(self, frame: pd.DataFrame, names: Any, kind: type) -> None:
        with pytest.raises(TypeError, match=r"fit ignores y, got the column names \['.*categorical_columns=\["):
            kind(**SMALL).fit(frame, names)

    def test_numbers_of_columns_are_refused(self, X: np.ndarray) -> None:
        with pytest.raises(TypeError, match="fit ignores y, got the column names"):
            MissDiff(**SMALL).fit(pd.DataFrame(X), [0, 2])


def test_without_scikit_learn() -> None:
    """The model has parameters, a text form and its error all the same; the imputer says what to install."""
    code = """
import sys
sys.modules["sklearn"] = None
import numpy as np, pytest
from missdiff_fast import MissDiff
model = MissDiff(steps=2, width=8, refine=0, random_state=0)
assert repr(model) == "MissDiff(random_state=0, refine=0, steps=2, width=8)", model
assert model.get_params(deep=True)["steps"] == 2 and list(model.get_params()) == sorted(model.get_params())
assert model.set_params(blocks=1) is model and model.blocks == 1
with pytest.raises(ValueError, match="invalid parameter 'step' for MissDiff; it has backend, batch_size"):
    model.set_params(step=1)
for error in (ValueError, AttributeError):
    with pytest.raises(error, match="not fitted: call fit first"):
        model.sample(1)
assert model.fit(np.arange(40.0).reshape(20, 2)).sample(3).shape == (3, 2)
with pytest.raises(ImportError, match="needs scikit-learn 1.6 or later: pip install"):
    import missdiff_fast.sklearn
"""
    subprocess.run([sys.executable, "-c", code], check=True)


class TestInputs:
    def test_numbers_and_holes_beside_texts_in_lists(self) -> None:
        X = [["a", 2], [np.nan, 3], ["b", np.nan], ["a", 1]]
        filled = MissDiffImputer(**SMALL).fit_transform(X)
        assert filled[0].tolist() == ["a", 2]
        assert filled[1, 0] in ("a", "b")
        assert filled[1, 1] == 3
        assert filled[2, 1] in (1, 2, 3)

    def test_integers_that_floats_do_not_hold_are_refused(self) -> None:
        imputer = MissDiffImputer(**SMALL)
        with pytest.raises(ValueError, match=r"column 'x0' holds integers beyond 2\*\*53"):
            imputer.fit_transform(np.array([[2**53 + 1, 1], [2**53 + 3, 2], [5, 3]]))

    def test_names_that_are_used_up_once_are_refused(self) -> None:
        frame = pd.DataFrame({"i": [1, 2, 3, 4], "x": [0.5, 1.5, 2.5, 0.1]})
        with pytest.raises(TypeError, match="categorical_columns must be a list of column names"):
            MissDiff(categorical_columns=iter(["i"]), **SMALL).fit(frame)  # type: ignore[arg-type]

    def test_labels_that_are_column_names_are_labels(self) -> None:
        X = np.random.default_rng(0).normal(size=(3, 3))
        assert MissDiff(**SMALL).fit(pd.DataFrame(X, columns=["a", "b", "c"]), ["a", "b", "b"]).fitted
