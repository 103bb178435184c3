"""Diff-delete, and the deletion of incomplete rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from baseline_tables import mixed_table

from missdiff_fast import MissDiff
from missdiff_fast.baselines import DiffDelete, NoCompleteRowError, STaSy, delete_incomplete

TABLE = pd.DataFrame({"x": [1.0, np.nan, 3.0, 4.0], "y": ["a", "b", None, "?"]}, index=[7, 8, 9, 10])


def test_rows_with_a_hole_are_deleted() -> None:
    pd.testing.assert_frame_equal(delete_incomplete(TABLE), TABLE.loc[[7, 10]])
    pd.testing.assert_frame_equal(delete_incomplete(TABLE, missing_values=["?"]), TABLE.loc[[7]])
    complete = mixed_table().dropna()
    pd.testing.assert_frame_equal(delete_incomplete(complete), complete)


def test_marks_are_looked_for_among_cells_of_their_kind() -> None:
    table = pd.DataFrame({"flag": [True, False], "name": ["0", "a"], "x": [1.0, 2.0]})
    pd.testing.assert_frame_equal(delete_incomplete(table, missing_values=[0]), table)


def test_numbers_among_which_marks_stood_become_numbers() -> None:
    table = pd.DataFrame({"x": ["1", "?", "-9", "4"], "code": ["7", "?", "8", "9"]}, index=[4, 5, 6, 7])
    expected = pd.DataFrame({"x": [1, 4], "code": ["7", "9"]}, index=[4, 7])
    pd.testing.assert_frame_equal(delete_incomplete(table, ["?", -9], categorical_columns=["code"]), expected)
    pd.testing.assert_frame_equal(
        delete_incomplete(table.set_axis([0, 1], axis=1), ["?", -9], [1]), expected.set_axis([0, 1], axis=1)
    )
    age = np.random.default_rng(0).integers(20, 90, 300).astype(str)
    table = pd.DataFrame({"age": np.where(np.arange(300) % 5 == 0, "?", age), "sex": ["f", "m"] * 150})
    settings = {"preset": "default", "steps": 2, "random_state": 0, "verbose": False, "missing_values": ["?"]}
    for model in (DiffDelete(**settings), STaSy("delete", 1, 0, hidden=(8,), verbose=False, missing_values=["?"])):
        assert pd.api.types.is_integer_dtype(model.fit(table).sample(3)["age"])


def test_a_column_that_cannot_be_taken_is_named() -> None:
    with pytest.raises(ValueError, match=r"column 'x'.*infinite"):
        delete_incomplete(pd.DataFrame({"x": [1.0, np.inf], "y": [None, "b"]}))
    with pytest.raises(TypeError, match="missing_values must be a list"):
        delete_incomplete(TABLE, "?")


@pytest.mark.parametrize("missing_values", [(), (4, "?")])
def test_no_complete_row(missing_values: tuple[object, ...]) -> None:
    table = TABLE.loc[[8, 9, 10]] if missing_values else TABLE.loc[[8, 9]]
    with pytest.raises(ValueError, match=r"no row is complete: each of the \d has a hole"):
        delete_incomplete(table, missing_values)
    with pytest.raises(NoCompleteRowError, match="no row is complete"):
        DiffDelete(preset="default", steps=1, missing_values=missing_values, verbose=False).fit(table)


def test_complete_rows_that_are_all_the_same() -> None:
    with pytest.raises(NoCompleteRowError, match="1 of 3"):
        DiffDelete(preset="default", verbose=False).fit(TABLE.loc[[7, 8, 9]])


def test_it_is_the_model_of_the_complete_rows() -> None:
    table = mixed_table(200)
    settings = {"preset": "default", "steps": 5, "random_state": 0, "verbose": False}
    model = DiffDelete(**settings).fit(table)
    expected = MissDiff(**settings).fit(table.dropna()).sample(20)
    sampled = model.sample(20)
    pd.testing.assert_frame_equal(sampled, expected)
    assert sampled.dtypes.to_dict() == table.dtypes.to_dict()
    assert not model.sample(20, random_state=1).equals(sampled)


def test_the_default_is_the_papers_preset_and_settings_pass_through() -> None:
    small = {"width": 8, "blocks": 1, "settings": {"diffusion.steps": 5}}
    model = DiffDelete(epochs=1, batch_size=8, random_state=0, verbose=False, **small).fit(mixed_table(200))
    assert (model.model_.preset, model.model_.epochs, model.model_.batch_size) == ("paper", 1, 8)
    assert len(model.sample(3)) == 3


def test_bad_input() -> None:
    with pytest.raises(ValueError, match="not fitted"):
        DiffDelete().sample(1)
    with pytest.raises(TypeError, match="DataFrame"):
        DiffDelete().fit([1, 2])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="nonsense"):
        DiffDelete(nonsense=1).fit(TABLE)
