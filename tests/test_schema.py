"""Names of columns, the schema, and how faults are told."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from frames import fit_codec

from missdiff_fast.table.cells import RefusedError
from missdiff_fast.table.schema import Refusals, check_frame


def test_names_are_strings_and_integers_as_they_are() -> None:
    assert check_frame(pd.DataFrame([[1, 2, 3]], columns=["a", 1, "1"])) == ["a", 1, "1"]
    names = check_frame(pd.DataFrame(np.zeros((1, 2)), columns=np.array([3, 4])))
    assert names == [3, 4]
    assert all(type(name) is int for name in names)


@pytest.mark.parametrize("value", [None, [1, 2], {"a": [1]}, np.zeros((2, 2)), pd.Series([1])])
def test_only_a_frame_is_taken(value: object) -> None:
    with pytest.raises(TypeError, match=f"DataFrame or a pyarrow Table, got {type(value).__name__}.*wrap it"):
        check_frame(value)


@pytest.mark.parametrize("name", [1.5, None, True, pd.Timestamp("2020-01-01"), ("a", "b")])
def test_other_names_are_refused(name: object) -> None:
    frame = pd.DataFrame([[1]])
    frame.columns = pd.Index([name], dtype=object, tupleize_cols=False)
    with pytest.raises(TypeError, match="names must be strings or integers; rename"):
        check_frame(frame)


def test_duplicate_names_are_all_named() -> None:
    with pytest.raises(ValueError, match="duplicate column names 'b', 3: give each"):
        check_frame(pd.DataFrame([[0] * 6], columns=["b", "a", "b", 3, 3, "b"]))


def test_schema_finds_columns_by_name_and_kind() -> None:
    frame = pd.DataFrame({"k": ["a", "b", "c"], 7: [1.0, 2.0, 4.0], "one": [5, 5, 5], "two": [0, 1, 1]})
    schema = fit_codec(frame).schema
    assert schema.names == ("k", 7, "one", "two")
    assert len(schema) == 4
    assert (schema.continuous, schema.categorical, schema.constant) == ((7,), ("k", "two"), ("one",))
    assert [column.kind for column in schema] == ["categorical", "continuous", "constant", "categorical"]
    assert 7 in schema
    assert "7" not in schema
    assert schema["two"].dtype == np.dtype("int64")
    assert schema["k"].family == "string"
    with pytest.raises(KeyError):
        schema["7"]


def test_refusals_name_all_columns_and_kinds() -> None:
    refusals = Refusals()
    refusals.raise_any()
    refusals.add("a", RefusedError("infinite", "2 of 9 cells"))
    refusals.add(5, RefusedError("infinite", "1 of 9 cells"))
    refusals.add("c", RefusedError("empty", ""))
    assert not refusals.only("empty")
    with pytest.raises(
        ValueError,
        match=r"^columns 'a' \(2 of 9 cells\); 5 \(1 of 9 cells\) have infinite values: rep.*\. "
        r"Also, column 'c' has no observed cell: drop the column, frame\.drop",
    ):
        refusals.raise_any()
