"""Diff-mean."""

from __future__ import annotations

import pandas as pd
import pytest
from baseline_tables import mixed_table

from missdiff_fast import MissDiff
from missdiff_fast.baselines import DiffMean, MeanModeImputer

SETTINGS = {"preset": "default", "steps": 5, "random_state": 0, "verbose": False}


def test_it_is_the_model_of_the_filled_table() -> None:
    table = mixed_table()
    sampled = DiffMean(**SETTINGS).fit(table).sample(20)
    expected = MissDiff(**SETTINGS).fit(MeanModeImputer().fit_impute(table)).sample(20)
    pd.testing.assert_frame_equal(sampled, expected)
    assert sampled.dtypes.to_dict() == table.dtypes.to_dict()


def test_marked_values_are_filled_too() -> None:
    table = pd.DataFrame({"x": [1, 2, 3, -9] * 10, "y": ["a", "?", "a", "b"] * 10})
    model = DiffMean(**SETTINGS, missing_values=(-9, "?")).fit(table)
    sampled = model.sample(200)
    assert set(sampled["y"]) <= {"a", "b"}
    assert sampled["x"].min() >= 1


def test_named_columns_are_filled_with_their_mode() -> None:
    table = pd.DataFrame({"code": [5.0, 5.0, 90.0, 70.0, None], "x": [1.0, 2.0, 3.0, 4.0, 5.0]})
    model = DiffMean(**SETTINGS).fit(table, categorical_columns=["code"])
    assert model.model_.codec_.category_values("code") == [5.0, 70.0, 90.0]


def test_bad_input() -> None:
    with pytest.raises(ValueError, match="not fitted"):
        DiffMean().sample(1)
    with pytest.raises(ValueError, match="no observed cell"):
        DiffMean(**SETTINGS).fit(pd.DataFrame({"x": [None, None], "y": [1, 2]}))
