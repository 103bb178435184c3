"""Fewer categories."""

from __future__ import annotations

import pandas as pd
import pytest
from frames import NO_TEXT, fit_codec

from missdiff_fast.table import cap_categories


def test_the_most_frequent_stay() -> None:
    column = pd.Series(["a"] * 3 + ["b", "c", "b", None, "d"], index=range(8, 0, -1), name="k")
    capped = cap_categories(column, keep=2)
    assert capped.tolist() == ["a", "a", "a", "b", "other", "b", NO_TEXT, "other"]
    assert capped.index.equals(column.index)
    assert capped.name == "k"
    assert column.tolist()[4] == "c"
    assert cap_categories(column, keep=1, other="rest").value_counts().to_dict() == {"a": 3, "rest": 4}
    assert cap_categories(column, keep=4) is column


@pytest.mark.parametrize("dtype", ["object", "string[python]", "string[pyarrow]", "category"])
def test_dtypes(dtype: str) -> None:
    capped = cap_categories(pd.Series(["a", "a", "b", None, "c"], dtype=dtype), keep=1)
    assert capped.dropna().tolist() == ["a", "a", "other", "other"]
    assert capped.isna().tolist()[3]
    if dtype == "category":
        assert list(capped.cat.categories) == ["a", "other"]
    else:
        assert capped.dtype == dtype


def test_it_makes_a_refused_column_fit() -> None:
    frame = pd.DataFrame({"k": [f"{i % 150}" for i in range(400)]})
    with pytest.raises(ValueError, match="cap_categories"):
        fit_codec(frame)
    frame["k"] = cap_categories(frame["k"], keep=50)
    assert fit_codec(frame).layout.cardinalities == (51,)


def test_keep_at_least_one() -> None:
    with pytest.raises(ValueError, match="keep must be at least 1, got 0"):
        cap_categories(pd.Series(["a"]), keep=0)


def test_strings_that_pandas_takes_for_equal_are_counted_apart() -> None:
    assert cap_categories(pd.Series(["a", "a\0", "a\0", "b"]), keep=1).tolist() == ["other", "a\0", "a\0", "other"]
