"""Errors of filled cells, worked by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from missdiff_fast.evaluate import fill_mean_mode, imputation, imputation_errors

TRUTH = pd.DataFrame(
    {
        "a": [0.0, 2.0, 4.0, 10.0],  # range 10
        "b": [5, 5, 7, 9],  # range 4
        "c": ["u", "v", "u", "w"],
        "d": ["x", "x", "y", "y"],
    }
)
OBSERVED = np.array([[0, 1, 0, 1], [0, 1, 0, 1], [1, 1, 0, 1], [1, 0, 1, 0]], dtype=bool)
FILLED = pd.DataFrame(
    {"a": [3.0, 6.0, 4.0, 10.0], "b": [5.0, 5.0, 7.0, 8.0], "c": ["u", "u", "w", "w"], "d": ["x", "x", "y", "y"]}
)


def test_errors_by_column() -> None:
    errors = imputation_errors(TRUTH, FILLED, OBSERVED).set_index("column")
    assert errors["kind"].tolist() == ["continuous", "continuous", "categorical", "categorical"]
    assert errors["hidden"].tolist() == [2, 1, 3, 1]
    # a: sqrt((0.3^2 + 0.4^2) / 2); b: 1/4; c: two of three wrong; d: right.
    assert errors["error"].tolist() == pytest.approx([np.sqrt(0.125), 0.25, 2 / 3, 0.0])
    assert errors["mae"].tolist() == pytest.approx([0.35, 0.25, np.nan, np.nan], nan_ok=True)


def test_averages() -> None:
    result = imputation(TRUTH, FILLED, OBSERVED)
    assert list(result.columns) == ["rmse", "mae", "category_error"]
    assert result["rmse"].item() == pytest.approx((np.sqrt(0.125) + 0.25) / 2)
    assert result["mae"].item() == pytest.approx(0.3)
    assert result["category_error"].item() == pytest.approx(100 / 3)


def test_cells_that_were_not_hidden_do_not_count() -> None:
    wrong = FILLED.assign(a=[3.0, 6.0, -99.0, -99.0], d=["?", "?", "?", "y"])
    pd.testing.assert_frame_equal(imputation_errors(TRUTH, wrong, OBSERVED), imputation_errors(TRUTH, FILLED, OBSERVED))


def test_a_column_without_hidden_cells_or_range_is_left_out_of_the_mean() -> None:
    truth, filled = TRUTH.assign(b=5), FILLED.assign(b=6)
    observed = OBSERVED.copy()
    observed[:, 3] = True
    errors = imputation_errors(truth, filled, observed)["error"]
    assert errors.isna().tolist() == [False, True, False, True]
    result = imputation(truth, filled, observed)
    assert result["rmse"].item() == pytest.approx(np.sqrt(0.125))
    assert result["category_error"].item() == pytest.approx(200 / 3)


def test_numbers_may_be_measured_as_categories() -> None:
    errors = imputation_errors(TRUTH, FILLED, OBSERVED, continuous=["a"]).set_index("column")
    assert errors.loc["b", ["kind", "hidden", "error"]].tolist() == ["categorical", 1, 1.0]


def test_nullable_numbers_are_numbers() -> None:
    truth = TRUTH.astype({"b": "Int64"})
    assert imputation(truth, FILLED.astype({"b": "Int64"}), OBSERVED)["rmse"].item() == pytest.approx(
        imputation(TRUTH, FILLED, OBSERVED)["rmse"].item()
    )


def test_durations_and_dates_are_numbers() -> None:
    lasting = pd.to_timedelta(TRUTH["a"], unit="h"), pd.to_timedelta(FILLED["a"], unit="h")
    errors = imputation_errors(TRUTH.assign(a=lasting[0]), FILLED.assign(a=lasting[1]), OBSERVED)
    assert errors["error"].iloc[0] == pytest.approx(np.sqrt(0.125))
    day = pd.Timestamp("2024-02-29", tz="Asia/Tokyo")
    errors = imputation_errors(TRUTH.assign(a=day + lasting[0]), FILLED.assign(a=day + lasting[1]), OBSERVED)
    assert errors["error"].iloc[0] == pytest.approx(np.sqrt(0.125))


def test_only_one_kind_of_column_gives_nan_for_the_other() -> None:
    result = imputation(TRUTH[["c", "d"]], FILLED[["c", "d"]], OBSERVED[:, 2:])
    assert np.isnan(result["rmse"].item())
    assert result["category_error"].item() == pytest.approx(100 / 3)


@pytest.mark.parametrize(
    ("filled", "observed", "message"),
    [
        (FILLED.drop(columns="a"), OBSERVED, "column 'a' is in the true table only"),
        (FILLED[:3], OBSERVED, "must have the same rows and columns"),
        (FILLED, OBSERVED[:, :3], "must have the same rows and columns"),
        (FILLED.assign(c=[None, "u", "u", "w"]), OBSERVED, "column 'c' has hidden cells that are not filled"),
        (
            FILLED.assign(a="3"),
            OBSERVED,
            "column 'a' holds numbers in the true table and categories in the filled table",
        ),
    ],
)
def test_what_cannot_be_compared_is_refused(filled: pd.DataFrame, observed: np.ndarray, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        imputation_errors(TRUTH, filled, observed)


def test_mean_and_mode() -> None:
    holes = TRUTH.where(OBSERVED)
    filled = fill_mean_mode(holes)
    assert filled["a"].tolist() == [7.0, 7.0, 4.0, 10.0]
    assert filled["b"].tolist() == pytest.approx([5, 5, 7, 17 / 3])
    assert filled["c"].tolist() == ["w", "w", "w", "w"]
    assert filled["d"].tolist() == ["x", "x", "y", "x"]
    assert holes["a"].isna().sum() == 2


def test_the_mode_of_dates() -> None:
    days = pd.Series(pd.to_datetime(["2024-01-01", None, "2024-01-03", "2024-01-03"]))
    assert fill_mean_mode(days.to_frame("day"))["day"].tolist() == days.fillna(days[2]).tolist()


def test_mean_and_mode_keep_complete_columns_and_the_index() -> None:
    table = TRUTH.set_axis([4, 3, 2, 1])
    pd.testing.assert_frame_equal(fill_mean_mode(table), table)


def test_mean_and_mode_of_numbers_taken_as_categories_and_of_nullable_dtypes() -> None:
    holes = pd.DataFrame({"n": pd.array([1, 1, 4, None], dtype="Int64"), "k": [2.0, 2.0, 5.0, np.nan]})
    filled = fill_mean_mode(holes, continuous=["n"])
    assert filled["n"].tolist() == [1.0, 1.0, 4.0, 2.0]
    assert filled["k"].tolist() == [2.0, 2.0, 5.0, 2.0]


@pytest.mark.parametrize("dtype", ["Int64", "UInt64", "int64[pyarrow]"])
def test_mean_and_mode_leave_great_integers_as_they_are(dtype: str) -> None:
    great = 2**53 + 1
    column = pd.Series([great, None, great + 2], dtype=object).astype(dtype)
    filled = fill_mean_mode(pd.DataFrame({"n": column}))["n"]
    assert filled.dtype == dtype
    assert [filled[0], filled[2]] == [great, great + 2]
    assert great <= filled[1] <= great + 2
    assert fill_mean_mode(pd.DataFrame({"n": column // great}))["n"].tolist() == [1.0, 1.0, 1.0]
    top = pd.Series([2**63 - 1, None], dtype=object).astype(dtype)
    assert fill_mean_mode(pd.DataFrame({"n": top}))["n"].tolist() == [2**63 - 1] * 2


@pytest.mark.parametrize("dtype", ["float16", "float32", "Float32"])
def test_a_mean_does_not_overflow(dtype: str) -> None:
    great = 6e4 if dtype == "float16" else 3e38
    filled = fill_mean_mode(pd.DataFrame({"x": pd.Series([great, great, None], dtype=dtype)}))["x"]
    assert filled[2] == pytest.approx(great, rel=1e-3)


def test_a_column_never_observed_has_no_mean() -> None:
    with pytest.raises(ValueError, match="column 'a' has no observed cell; drop it"):
        fill_mean_mode(pd.DataFrame({"a": [np.nan, np.nan]}))
