"""The features that models of utility are given."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from missdiff_fast.evaluate._features import Features


def test_numbers_are_scaled_by_the_range_learnt_from() -> None:
    features = Features(pd.DataFrame({"x": [-2.0, 2.0], "constant": [3, 3]}), ["x", "constant"])
    out = features.transform(pd.DataFrame({"x": [-2.0, 0.0, 4.0], "constant": [3, 4, 3]}))
    assert out.tolist() == [[0.0, 0.0], [2.5, 5.0], [7.5, 0.0]]


def test_large_numbers_that_are_never_negative_become_logarithms() -> None:
    train = pd.DataFrame({"gain": [0, 1000], "debt": [-1, 1000], "small": [0, 999]})
    out = Features(train, list(train)).transform(pd.DataFrame({"gain": [0, -5, 20], "debt": 0, "small": 999}))
    assert out[:, 0].tolist() == pytest.approx([np.log(0.01), np.log(0.01), np.log(20)])
    assert out[:, 1].tolist() == pytest.approx([5 / 1001] * 3)
    assert out[:, 2].tolist() == [5.0] * 3


def test_categories_have_indicators_after_the_numbers_and_unseen_ones_none() -> None:
    train = pd.DataFrame({"word": ["b", "a", "b"], "x": [0, 1, 5]})
    out = Features(train, ["x"]).transform(pd.DataFrame({"x": [0, 1, 5], "word": ["a", "c", "b"]}))
    assert out.tolist() == [[0, 1, 0], [1, 0, 0], [5, 0, 1]]


def test_categories_of_unlike_dtypes_are_the_same() -> None:
    train = pd.DataFrame({"word": pd.Categorical(["a", "b"]), "flag": [True, False], "number": [1, 2]})
    other = train.astype({"word": "string", "flag": "boolean", "number": "Int64"})
    features = Features(train, [])
    np.testing.assert_array_equal(features.transform(train), features.transform(other))
    assert features.transform(other).sum() == 6


def test_the_hundred_most_frequent_categories_have_indicators() -> None:
    words = [f"w{i:03}" for i in range(150)]
    train = pd.DataFrame({"word": words + words[50:]})
    out = Features(train, []).transform(pd.DataFrame({"word": words}))
    assert out.shape == (150, 100)
    assert out.sum(1).tolist() == [0] * 50 + [1] * 100


def test_times_are_numbers() -> None:
    train = pd.DataFrame(
        {"when": pd.to_datetime(["2024-01-01", "2024-01-11"], utc=True), "long": pd.to_timedelta([0, 5], "h")}
    )
    other = pd.DataFrame({"when": pd.to_datetime(["2024-01-05"], utc=True), "long": pd.to_timedelta([90], "m")})
    first = Features(train.astype({"when": "datetime64[s, UTC]"}), list(train)).transform(other)
    # Days since 1970 are more than a thousand, hours here are not.
    assert first.tolist() == [pytest.approx([np.log(19727), 1.5])]


def test_no_column_makes_no_feature() -> None:
    assert Features(pd.DataFrame(index=range(3)), []).transform(pd.DataFrame(index=range(2))).shape == (2, 0)
