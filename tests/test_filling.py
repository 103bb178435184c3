"""Missing cells filled, observed ones kept."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from frames import TEXT, every_dtype, fill, fit_codec

from missdiff_fast.table import Codec


def constant_draw(codec: Codec, rows: int) -> pd.DataFrame:
    """The same row again and again: the second value of each column."""
    layout = codec.layout
    bin_index = torch.ones(rows, layout.num_continuous, dtype=torch.int32)
    return codec.decode(bin_index, torch.ones(rows, layout.num_categorical, dtype=torch.int16))


@pytest.mark.parametrize("name", every_dtype())
def test_every_dtype_is_filled_and_kept(name: str) -> None:
    index = pd.Index([5, 5, "a", 1.5, None, 0, 1, 2], name="row")
    frame = pd.DataFrame({"x": every_dtype()[name].set_axis(index), "other": pd.Series(range(8), index=index)})
    codec = fit_codec(frame)
    filled = fill(codec, frame, constant_draw(codec, 8))
    assert filled.dtypes.equals(frame.dtypes)
    assert filled.index.equals(index)
    assert filled.index.name == "row"
    assert not filled.isna().any(axis=None)
    hole = frame["x"].isna().to_numpy()
    pd.testing.assert_frame_equal(filled[~hole], frame[~hole], check_exact=True)
    if hole.any():
        assert filled["x"].iloc[3] == codec._coders["x"].table[1]
    assert not hole.any() or frame["x"].isna().iloc[3], "the frame itself must not change"


def test_observed_cells_are_kept_bit_for_bit() -> None:
    payload = np.array(
        [0x7FF8000000000123, 0x8000000000000000, 1, 0x3FF0000000000000, 0x4000000000000000], dtype=np.uint64
    )
    frame = pd.DataFrame({"x": payload.view(np.float64), "o": pd.Series(["a", None, "b", "a", "c"])})
    before = frame.copy(deep=True)
    filled = fill(fit_codec(frame), frame, constant_draw(fit_codec(frame), 5))
    assert filled["x"].to_numpy().view(np.uint64)[1:].tolist() == payload[1:].tolist()
    assert all(new is old for new, old in zip(filled["o"].drop(1), frame["o"].drop(1), strict=True))
    pd.testing.assert_frame_equal(frame, before)


@pytest.mark.parametrize("dtype", ["Int64", "Int8", "int8", "float32", "string", "string[pyarrow]", "datetime64[s]"])
def test_categories_keep_their_dtype(dtype: str) -> None:
    values = pd.Series([1, 2, 3]).astype("string" if dtype.startswith("string") else "int64").astype(dtype)
    kind = pd.CategoricalDtype(pd.Index(values, dtype=dtype))
    frame = pd.DataFrame({"x": pd.Categorical.from_codes([0, 1, -1, 2], dtype=kind), "y": [1.0, 2.0, 3.0, 4.0]})
    codec = fit_codec(frame)
    filled = fill(codec, frame, constant_draw(codec, 4))["x"]
    assert filled.dtype == kind
    assert filled.cat.categories.dtype == dtype
    assert filled.tolist() == [values[0], values[1], values[1], values[2]]
    narrow = frame.assign(x=frame["x"].cat.remove_categories([values[1]]))
    assert fill(codec, narrow, constant_draw(codec, 4))["x"].cat.categories.dtype == dtype


def test_order_of_the_frame_is_kept() -> None:
    frame = pd.DataFrame({"a": [1.0, np.nan, 3.0, 4.0], "b": ["x", "y", None, "x"]})
    codec = fit_codec(frame)
    turned = frame[["b", "a"]]
    filled = fill(codec, turned, constant_draw(codec, 4))
    assert list(filled.columns) == ["b", "a"]
    assert filled["a"].tolist() == [1.0, 3.0, 3.0, 4.0]
    assert filled["b"].tolist() == ["x", "y", "y", "x"]


def test_markers_are_replaced_in_the_learnt_dtype() -> None:
    frame = pd.DataFrame(
        {"n": ["1", "?", "3", "7"], "f": ["1.5", "2", "?", "4"], "s": ["a", "?", "b", "a"], "i": [-200, 5, 6, 7]}
    )
    codec = fit_codec(frame, missing_values=["?", -200])
    filled = fill(codec, frame, constant_draw(codec, 4))
    assert [str(dtype) for dtype in filled.dtypes] == ["Int64", "float64", str(TEXT), "int64"]
    assert filled["n"].tolist() == [1, 3, 3, 7]
    assert filled["f"].tolist() == [1.5, 2.0, 2.0, 4.0]
    assert filled["s"].tolist() == ["a", "b", "b", "a"]
    assert filled["i"].tolist() == [6, 5, 6, 7]
    later = pd.DataFrame({"n": ["1.5", "?"], "f": ["3", "2"], "s": ["a", "a"], "i": [1, 2]})
    assert fill(codec, later, constant_draw(codec, 2))["n"].tolist() == [1.5, 3.0], "an observed 1.5 stays 1.5"


def test_a_dtype_that_can_not_hold_the_fill_gives_way_to_the_learnt_one() -> None:
    codec = fit_codec(pd.DataFrame({"x": [0.25, 0.5, 0.75], "k": ["a", "b", "c"]}), missing_values=[-1])
    frame = pd.DataFrame({"x": [3, -1], "k": pd.Categorical(["a", None], categories=["a"])})
    filled = fill(codec, frame, constant_draw(codec, 2))
    assert filled["x"].tolist() == [3.0, 0.5]
    assert filled["k"].tolist() == ["a", "b"]
    nothing = pd.DataFrame({"x": [None, None], "k": [np.nan, np.nan]})
    filled = fill(codec, nothing, constant_draw(codec, 2))
    assert filled["x"].tolist() == [0.5, 0.5]
    assert filled["x"].dtype == "float64"
    assert filled["k"].tolist() == ["b", "b"]


@pytest.mark.parametrize(
    ("learnt", "later", "kept"),
    [
        (["0.5", "1.5", "2.5"], pd.array([2**53 + 1, None], dtype="Int64"), [2**53 + 1, 1.5]),
        (pd.array([2**63, 2**63 + 1, 2**63 + 2], dtype="UInt64"), pd.array([-5, None], dtype="Int64"), [-5, 2**63 + 1]),
        (pd.array([-7, -6, -5], dtype="Int64"), pd.array([2**63 + 1, None], dtype="UInt64"), [2**63 + 1, -6]),
        (["0.5", "1.5", "2.5"], ["9007199254740993", "?"], [2**53 + 1, 1.5]),
        (["3", "?", "4"], ["18446744073709551615", "?"], [2**64 - 1, 4]),
    ],
)
def test_observed_integers_are_kept_where_the_learnt_dtype_would_change_them(
    learnt: object, later: object, kept: list[object]
) -> None:
    numbers = pd.to_numeric(learnt) if isinstance(learnt, list) and "?" not in learnt else learnt
    codec = fit_codec(pd.DataFrame({"x": numbers, "other": [1, 2, 3]}), missing_values=["?"])
    layout = codec.layout
    draw = codec.decode(
        torch.ones(2, layout.num_continuous, dtype=torch.int32),
        torch.ones(2, layout.num_categorical, dtype=torch.int16),
    )
    filled = fill(codec, pd.DataFrame({"x": later, "other": [1, 2]}), draw)
    assert filled["x"].tolist() == kept


def test_nothing_missing_gives_the_frame() -> None:
    frame = pd.DataFrame({"a": [1, 2, 3], "b": ["x", "y", "x"]})
    codec = fit_codec(frame)
    pd.testing.assert_frame_equal(fill(codec, frame, constant_draw(codec, 3)), frame)
    with pytest.raises(ValueError, match="filled has 2 rows, the frame 3"):
        fill(codec, frame, constant_draw(codec, 2))
    assert fill(codec, frame.head(0), constant_draw(codec, 0)).shape == (0, 2)


def test_ordered_categories_get_the_learnt_order() -> None:
    sizes = pd.CategoricalDtype(["low", "mid", "high", "none"], ordered=True)
    frame = pd.DataFrame({"k": pd.Categorical(["low", "mid", "high", "mid"], dtype=sizes), "y": [1.0, 2.0, 3.0, 4.0]})
    codec = fit_codec(frame)
    part = pd.DataFrame({"k": pd.Categorical(["low", "high", None], ["low", "high"], ordered=True), "y": [1.0, 2, 3]})
    filled = fill(codec, part, constant_draw(codec, 3))["k"]
    assert filled.tolist() == ["low", "high", "mid"]
    assert filled.dtype == sizes
    loose = part.assign(k=part["k"].cat.as_unordered())
    assert list(fill(codec, loose, constant_draw(codec, 3))["k"].cat.categories) == ["low", "high", "mid"]
    whole = part.assign(k=pd.Categorical(["low", "mid", None], ["low", "mid"], ordered=True))
    assert fill(codec, whole, constant_draw(codec, 3))["k"].dtype == whole["k"].dtype, "it holds what is filled in"
    marked = fit_codec(frame, missing_values=["?"])
    part = part.assign(k=pd.Categorical(["low", "high", "?"], ["?", "low", "high"], ordered=True))
    assert fill(marked, part, constant_draw(marked, 3))["k"].dtype == sizes


@pytest.mark.parametrize("learnt", [["low", "mid", "high"], None])
@pytest.mark.parametrize("given", [["low", "high", "most"], ["high", "low"], ["low", "high"]])
def test_an_order_that_is_not_known_is_no_guess(learnt: list[str] | None, given: list[str]) -> None:
    cells = pd.Series(["low", "mid", "high", "mid"])
    if learnt:
        cells = cells.astype(pd.CategoricalDtype(learnt, ordered=True))
    codec = fit_codec(pd.DataFrame({"k": cells, "y": [1.0, 2.0, 3.0, 4.0]}))
    part = pd.DataFrame({"k": pd.Categorical(["low", "high", None], given, ordered=True), "y": [1.0, 2.0, 3.0]})
    draw = constant_draw(codec, 3).assign(k=pd.Series(["mid"] * 3, dtype=cells.dtype))
    if learnt and given == ["low", "high"]:
        assert fill(codec, part, draw)["k"].cat.categories.tolist() == learnt
        return
    with pytest.raises(ValueError, match=r"column 'k'.*'mid'.*low.*cat\.as_unordered"):
        fill(codec, part, draw)
