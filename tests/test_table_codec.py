"""Encoding a table and decoding it again."""

from __future__ import annotations

import datetime
from typing import Any

import hypothesis
import numpy as np
import pandas as pd
import pytest
import torch
from frames import TEXT, assert_same_cells, encode, every_dtype, fill, fit_codec, missing_cells, through
from hypothesis import strategies as st
from hypothesis.extra import pandas as hpd

from missdiff_fast._engine.backend import ReferenceBackend
from missdiff_fast.table import Codec

FRAME = pd.DataFrame(
    {
        "age": [31, 45, 27, 45, 60],
        "sex": ["f", "m", None, "f", "m"],
        "pay": [1.25, np.nan, 3.75, 2.5, 1.25],
        "year": [2024] * 5,
        "ill": [True, False, False, True, False],
    }
)


@pytest.mark.parametrize("seed", [None, -1])
@pytest.mark.parametrize("name", every_dtype())
def test_every_dtype_comes_back(name: str, seed: int | None) -> None:
    column = every_dtype()[name]
    frame = pd.DataFrame({"x": column, "other": range(8)})
    codec = fit_codec(frame)
    decoded = through(codec, encode(codec, frame, seed=seed))
    assert_same_cells(decoded, frame, ~missing_cells(frame))
    assert not decoded.isna().any(axis=None)
    assert missing_cells(frame)[:, 0].tolist() == column.isna().tolist()


def test_category_dtype_keeps_unobserved_categories_and_order() -> None:
    column = every_dtype()["string ordered"]
    codec = fit_codec(pd.DataFrame({"x": column}))
    assert codec.category_values("x") == ["c", "b", "a", "ä"]
    decoded = codec.decode(torch.zeros(1, 0, dtype=torch.int32), torch.tensor([[2]], dtype=torch.int16))
    assert decoded["x"].dtype == column.dtype
    assert decoded["x"].cat.categories[0] == "never"


def columns() -> st.SearchStrategy[list[hpd.column]]:
    numbers = st.floats(-1e300, 1e300) | st.just(np.nan) | st.sampled_from([0.0, -0.0, 0.1, 5e-324])
    text = st.text(st.characters(codec="utf-8"), max_size=3) | st.none()
    made = {
        "float": hpd.column("float", elements=numbers, dtype=float),
        "int": hpd.column("int", elements=st.integers(-(2**63), 2**63 - 1), dtype="int64"),
        "unsigned": hpd.column("unsigned", elements=st.integers(0, 2**64 - 1), dtype="uint64"),
        "small": hpd.column("small", elements=st.integers(-3, 3), dtype="int8"),
        "single": hpd.column("single", elements=st.floats(-(2.0**99), 2.0**99, width=32), dtype="float32"),
        "text": hpd.column("text", elements=text, dtype=object),
        "flag": hpd.column("flag", elements=st.sampled_from([True, False, None]), dtype=object),
        "when": hpd.column(
            "when", elements=st.integers(-(2**62), 2**62).map(np.datetime64(0, "ns").__add__), dtype="M8[ns]"
        ),
    }
    return st.permutations(list(made)).map(lambda names: [made[name] for name in names])


@hypothesis.given(
    columns().flatmap(lambda c: hpd.data_frames(c, index=hpd.range_indexes(min_size=3, max_size=20))), st.integers()
)
@hypothesis.settings(max_examples=50, deadline=None, suppress_health_check=list(hypothesis.HealthCheck))
def test_any_frame_comes_back(frame: pd.DataFrame, seed: int) -> None:
    frame = frame.dropna(axis=1, how="all")
    hypothesis.assume(any(frame[name].nunique() > 1 for name in frame))
    codec = fit_codec(frame)
    table = encode(codec, frame, seed=seed)
    observed = ~missing_cells(frame)
    decoded = through(codec, table)
    assert_same_cells(decoded, frame, observed)
    filled = fill(codec, frame, decoded)
    assert_same_cells(filled, frame, observed)
    means = codec.decode_means(table.values.nan_to_num(), table.codes.clamp(min=0))
    for name in codec.schema.continuous:
        assert means[name].between(frame[name].min(), frame[name].max()).all()
        assert means[name].dtype == frame[name].dtype


ENDS = ["", "\0", "a", "a\0b", "a\0", "\ud800", r"'\ud800'"]  # alike where a string is told by its C string or its repr


@pytest.mark.parametrize("dtype", [object, "string[python]", "string[pyarrow]", "category"])
@pytest.mark.parametrize("holes", [[], [None]])
def test_strings_that_pandas_takes_for_equal_are_told_apart(dtype: str | type, holes: list[None]) -> None:
    texts = ENDS if dtype in (object, "category") else ENDS[:5]  # the others hold no half of a character
    for repeats in (1, 9):  # cells that share objects or not
        cells = pd.Series([*texts, *holes] * repeats, dtype=object)
        if dtype == "category":  # pandas 3 can't cast halves of characters
            codes = [-1 if cell is None else texts.index(cell) for cell in cells.tolist()]
            column = pd.Series(pd.Categorical.from_codes(codes, pd.Index(texts, dtype=object)))
        else:
            column = cells.astype(dtype)
        frame = pd.DataFrame({"text": column, "n": range(len(cells))})
        codec = fit_codec(frame)
        assert codec.category_values("text") == (texts if dtype == "category" else sorted(texts))
        decoded = through(codec, encode(codec, frame))
        assert_same_cells(decoded, frame, ~missing_cells(frame))
        assert_same_cells(fill(codec, frame, decoded), frame, ~missing_cells(frame))
        seen = fit_codec(frame[frame["text"].isin(["", "a"])])
        with pytest.raises(ValueError, match=r"column 'text' holds '\\x00'; known are '', 'a'"):
            encode(seen, frame)
        marked = missing_cells(frame, ["a"])[:, 0]
        assert marked.tolist() == [text in ("a", None) for text in cells]


@pytest.mark.parametrize("dtype", [object, "category"])
def test_categories_that_pandas_takes_for_equal_are_filled_in(dtype: object) -> None:
    texts = ["a", "a\0", "b"]
    column = pd.Series(["a", "a\0", "b", "b"], dtype=pd.CategoricalDtype(texts) if dtype == "category" else dtype)
    codec = fit_codec(pd.DataFrame({"text": column, "n": range(4)}))
    holes = pd.DataFrame({"text": pd.Categorical([None, None, "b"], categories=["b"]), "n": [0, 1, 2]})
    filled = fill(codec, holes, pd.DataFrame({"text": column[:3], "n": [0, 1, 2]}))
    assert filled["text"].tolist() == ["a", "a\0", "b"]


def test_encoded_table_is_compact_and_ordered() -> None:
    codec = fit_codec(FRAME)
    table = encode(codec, FRAME)
    assert codec.schema.continuous == ("age", "pay")
    assert codec.schema.categorical == ("sex", "ill")
    assert codec.columns == list(FRAME.columns)
    assert codec.group("ill") == 1
    assert table.layout == codec.layout
    assert table.layout.cardinalities == (2, 2)
    assert table.continuous.dtype == torch.float32
    assert table.values.dtype == torch.float32
    assert table.codes.dtype == torch.int16
    assert table.codes.is_contiguous()
    assert table.continuous.is_contiguous()
    assert table.codes.tolist() == [[0, 1], [1, 0], [-1, 0], [0, 1], [1, 0]]
    assert torch.equal(torch.isnan(table.continuous), torch.isnan(table.values))
    assert codec.starts.tolist() == [0, 3, 5]
    assert codec.boundaries.dtype == torch.float32


def test_values_are_standardised() -> None:
    values = encode(fit_codec(FRAME), FRAME).values
    pay = FRAME["pay"].dropna()
    expected = (FRAME["pay"] - pay.mean()) / pay.std(ddof=0)
    np.testing.assert_allclose(values[:, 1].numpy(), expected.to_numpy(), rtol=1e-6)


def test_seed_spreads_ties_and_repeats() -> None:
    frame = pd.DataFrame({"x": [0.0] * 500 + list(range(1, 51))})
    codec = fit_codec(frame)
    first, again, other, middle = (encode(codec, frame, seed=seed).continuous for seed in (1, 1, 2, None))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert len(first[:500].unique()) > 490
    assert len(middle[:500].unique()) == 1
    assert float(first.std()) == pytest.approx(1, abs=0.05)


def test_column_order_and_absent_columns() -> None:
    codec = fit_codec(FRAME)
    table, turned = encode(codec, FRAME, seed=3), encode(codec, FRAME[FRAME.columns[::-1]], seed=3)
    assert torch.equal(table.codes, turned.codes)
    assert torch.equal(table.continuous.nan_to_num(), turned.continuous.nan_to_num())
    part = encode(codec, FRAME[["sex"]], partial=True)
    assert torch.equal(part.codes[:, 0], table.codes[:, 0])
    assert (part.codes[:, 1] == -1).all()
    assert torch.isnan(part.continuous).all()
    nothing = encode(codec, pd.DataFrame(index=range(4)), partial=True)
    assert len(nothing) == 4
    assert not nothing.observed().any()
    assert len(encode(codec, FRAME.head(0))) == 0


def test_values_out_of_range_and_unseen_are_ranked() -> None:
    codec = fit_codec(pd.DataFrame({"x": [0.0, 10.0, 20.0, 30.0], "y": [1, 2, 3, 4]}))
    scores = encode(codec, pd.DataFrame({"x": [-5.0, 0.0, 15.0, 30.0, 99.0], "y": [9, 0, 2, -(10**9), 3]})).continuous
    assert torch.isfinite(scores).all()
    assert scores[:, 0].tolist() == sorted(scores[:, 0].tolist())
    assert float(scores[2, 0]) == pytest.approx(0)
    assert float(scores[0, 1]) > float(scores[4, 1]) > float(scores[2, 1]) > float(scores[3, 1])


def test_families_that_may_stand_for_each_other() -> None:
    codec = fit_codec(pd.DataFrame({"i": [1, 2, 3], "f": [0.5, 1.0, 2.0], "s": ["a", "b", "a"], "b": [0, 1, 1]}))
    same = encode(codec, pd.DataFrame({"i": [1, 2, 3], "f": [0.5, 1.0, 2.0], "s": ["a", "b", "a"], "b": [0, 1, 1]}))
    other = pd.DataFrame(
        {
            "i": [1.0, 2.0, 3.0],
            "f": pd.Series([0.5, 1.0, 2.0], dtype="Float64"),
            "s": pd.Categorical(["a", "b", "a"], categories=["b", "a", "zzz"]),
            "b": pd.Series([0, 1, 1], dtype="float32"),
        }
    )
    table = encode(codec, other)
    assert torch.equal(table.continuous, same.continuous)
    assert torch.equal(table.codes, same.codes)
    assert torch.equal(encode(codec, other.assign(s=other["s"].astype("string"))).codes, same.codes)
    whole = encode(codec, pd.DataFrame({"i": [2], "f": [1], "s": [None], "b": [pd.NA]}))
    assert torch.equal(whole.continuous[0], same.continuous[1])
    assert whole.codes.tolist() == [[-1, -1]]


def test_units_and_dates_may_differ() -> None:
    days = pd.to_datetime(["2020-01-01", "2020-01-02", "2020-01-04"])
    codec = fit_codec(pd.DataFrame({"d": days, "z": days.tz_localize("UTC")}))
    expected = encode(codec, pd.DataFrame({"d": days, "z": days.tz_localize("UTC")})).continuous
    dates = pd.Series([datetime.date(2020, 1, 1), datetime.date(2020, 1, 2), datetime.date(2020, 1, 4)], dtype=object)
    for column in (days.as_unit("s"), dates):
        frame = pd.DataFrame({"d": column, "z": days.as_unit("ms").tz_localize("UTC").tz_convert("Asia/Tokyo")})
        assert torch.equal(encode(codec, frame).continuous, expected)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (
            {"age": ["x", "y", "z", "x", "y"]},
            TypeError,
            rf"'age' has string cells \(dtype {TEXT}\), but integer ones \(dtype int64\)",
        ),
        ({"sex": [1, 2, 1, 2, 1]}, TypeError, r"'sex' has integer cells \(dtype int64\), but string ones"),
        ({"ill": [1, 0, 1, 0, 1]}, TypeError, "'ill' has integer cells"),
        ({"pay": pd.to_datetime(["2020"] * 5)}, TypeError, "'pay' has datetime cells"),
        ({"pay": [np.inf, 1, 2, 3, 4]}, ValueError, r"'pay' \(1 of 5 cells\) has infinite values"),
        ({"sex": ["f", 1, "m", "f", "f"]}, ValueError, r"'sex' \(str \('f'\) and int \(1\)\) mixes types"),
        ({"sex": ["f", "x", "y", "f", "m"]}, ValueError, r"column 'sex' holds 'x'; known are 'f', 'm'"),
        ({"extra": 1}, ValueError, r"columns \['extra'\] were not there in fit: drop them"),
    ],
)
def test_encoding_errors(change: dict[str, object], error: type[Exception], message: str) -> None:
    codec = fit_codec(FRAME)
    with pytest.raises(error, match=message):
        encode(codec, FRAME.assign(**change))


def test_missing_columns_no_frame_and_twice() -> None:
    codec = fit_codec(FRAME)
    with pytest.raises(ValueError, match=r"columns \['age', 'ill'\] are not in the table: add them"):
        encode(codec, FRAME.drop(columns=["age", "ill"]))
    with pytest.raises(TypeError, match="DataFrame or a pyarrow Table, got dict"):
        encode(codec, {"age": [1]})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="duplicate column names 'age'"):
        encode(codec, pd.concat([FRAME, FRAME[["age"]]], axis=1))


@pytest.mark.parametrize("learnt", [[0, 1, 0, 1], [True, False, True, False]])
def test_a_column_without_a_cell_may_have_categories_of_another_type(learnt: list[Any]) -> None:
    codec = fit_codec(pd.DataFrame({"a": learnt, "n": np.arange(4.0)}))
    missing = pd.DataFrame({"a": pd.Categorical([None] * 4, categories=["x", "y"]), "n": np.arange(4.0)})
    assert encode(codec, missing).codes.tolist() == [[-1]] * 4


_DAY, _HOUR = datetime.date(2000, 1, 1), datetime.datetime(2000, 1, 1, 1)


@pytest.mark.parametrize(
    "categories", [[_DAY, datetime.date(1999, 1, 1)], [_HOUR, datetime.datetime(1999, 1, 1)], [datetime.timedelta(1)]]
)
@pytest.mark.parametrize("ordered", [True, False])
def test_categories_that_no_model_file_can_hold_are_refused_in_fit(categories: list[Any], ordered: bool) -> None:
    cells = pd.Categorical.from_codes([0, len(categories) - 1, -1], pd.Index(categories, dtype=object), ordered=ordered)
    with pytest.raises(TypeError, match=f"column 'a'.*{type(categories[0]).__name__}.*convert"):
        fit_codec(pd.DataFrame({"a": cells, "n": np.arange(3.0)}))


@pytest.mark.parametrize(
    "cells",
    [
        [pd.Timestamp(5), pd.Timestamp(1005)],
        [pd.Timedelta(5), pd.Timedelta(2005)],
        [np.datetime64(5, "ns"), np.datetime64(1005, "ns")],
    ],
)
def test_nanoseconds_in_objects_are_refused_rather_than_lost(cells: list[Any]) -> None:
    column = pd.Series([*cells, None] * 3, dtype=object)
    with pytest.raises(ValueError, match=r"column 'a'.*nanoseconds.*pandas\.to_datetime"):
        fit_codec(pd.DataFrame({"a": column, "n": np.arange(9.0)}))


def test_a_seed_that_is_none_is_named() -> None:
    frame = pd.DataFrame({"n": np.arange(9.0)})
    codec = fit_codec(frame)
    with pytest.raises(TypeError, match="seed must be None or an integer, got float"):
        encode(codec, frame, seed=1.5)  # type: ignore[arg-type]


def test_filled_lacks_a_column() -> None:
    frame = pd.DataFrame({"a": [1.0, 2.0, None], "b": [1.0, 2.0, 3.0]})
    with pytest.raises(ValueError, match="filled has no column 'b'"):
        fill(fit_codec(frame), frame, frame[["a"]])


@pytest.mark.parametrize("marker", [2**64, -(2**63) - 1, 10**300])
def test_markers_beyond_64_bits_are_stored(marker: int) -> None:
    frame = pd.DataFrame({"a": [1, 2, 3]})
    codec = fit_codec(frame, missing_values=[marker])
    again = Codec.from_state(*codec.state(), ops=ReferenceBackend())
    assert encode(again, frame).continuous.tolist() == encode(codec, frame).continuous.tolist()


def test_numbers_as_close_as_numbers_can_be(recwarn: pytest.WarningsRecorder) -> None:
    frame = pd.DataFrame({"a": [0.0, 5e-324] * 40, "n": np.arange(80.0)})
    codec = fit_codec(frame)
    table = encode(codec, frame)
    assert table.values is not None
    assert bool(torch.isfinite(table.values).all())
    assert list(map(str, recwarn)) == []
    means = codec.decode_means(table.values, table.codes)["a"]
    assert set(means) <= {0.0, 5e-324}


def test_unseen_categories_list_a_few_known_ones_and_all_columns() -> None:
    codec = fit_codec(pd.DataFrame({"k": list("abcdefgh"), "b": [0, 1] * 4}))
    with pytest.raises(
        ValueError,
        match=r"'k' holds 'z'; known are 'a', 'b', 'c', 'd', 'e', ... \(8 in all\).*'b' holds 2; known are 0, 1",
    ):
        encode(codec, pd.DataFrame({"k": ["z"], "b": [2]}))


def test_an_unseen_number_is_told_why_the_column_is_categorical() -> None:
    codec = fit_codec(pd.DataFrame({"dose": [1.0, 2.0, None], "arm": pd.Categorical([1, 2, 1]), "x": [0.5, 1.5, 0.5]}))
    with pytest.raises(
        ValueError, match=r"holds 1\.5; known are 1\.0, 2\.0 \(learnt as categorical because fit saw th"
    ):
        encode(codec, pd.DataFrame({"dose": [1.5], "arm": [2], "x": [0.7]}))
    with pytest.raises(ValueError, match=r"holds 3; known are 1, 2\. Replace"):
        encode(codec, pd.DataFrame({"dose": [2], "arm": [3], "x": [0.7]}))


@pytest.mark.parametrize(("verbose", "disable"), [(False, True), (True, None)])
def test_progress_counts_the_columns(verbose: bool, disable: bool | None, monkeypatch: pytest.MonkeyPatch) -> None:
    bars = []

    class Bar:
        def __init__(self, **options: object) -> None:
            self.options, self.done = options, 0
            bars.append(self)

        def __enter__(self) -> Bar:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def update(self, columns: int = 1) -> None:
            self.done += columns

    monkeypatch.setattr("missdiff_fast._progress.tqdm", Bar)
    codec = fit_codec(FRAME, verbose=verbose)
    cells = codec.read(FRAME, verbose=verbose)
    codec.fill(cells, through(codec, codec.encode(cells, verbose=verbose)), verbose=verbose)
    encode(codec, FRAME[["sex"]], partial=True, verbose=verbose)
    steps = [
        f"{step} columns" for step in ["reading", "learning", "reading", "encoding", "filling", "reading", "encoding"]
    ]
    assert [bar.options["desc"] for bar in bars] == steps
    assert [bar.done for bar in bars] == [5, 5, 5, 5, 5, 1, 5]
    assert [bar.options["total"] for bar in bars] == [bar.done for bar in bars]
    assert all((bar.options["delay"], bar.options["disable"]) == (2, disable) for bar in bars)


def test_zone_against_none() -> None:
    days = pd.to_datetime(["2020-01-01", "2020-01-02", "2020-01-04"])
    with pytest.raises(TypeError, match=r"'d' has zoned cells .* but datetime ones"):
        encode(fit_codec(pd.DataFrame({"d": days})), pd.DataFrame({"d": days.tz_localize("UTC")}))


def test_numbers_in_strings_after_fit() -> None:
    codec = fit_codec(pd.DataFrame({"x": ["1", "?", "2", "30"], "s": ["1", "x", "2", "x"]}), missing_values=["?"])
    table = encode(codec, pd.DataFrame({"x": ["30", "1", None], "s": ["1", "?", "2"]}))
    assert float(table.continuous[0, 0]) > float(table.continuous[1, 0])
    assert torch.isnan(table.continuous[2, 0])
    assert table.codes[:, 0].tolist() == [0, -1, 1]
    assert torch.equal(
        encode(codec, pd.DataFrame({"x": [30.0, 1, None], "s": ["1", "?", "2"]})).continuous[:2], table.continuous[:2]
    )
    with pytest.raises(TypeError, match="'x' has string cells"):
        encode(codec, pd.DataFrame({"x": ["30", "many"], "s": ["1", "2"]}))


def test_shapes_are_checked() -> None:
    codec = fit_codec(FRAME)
    for bin_index, codes in [((2, 1), (2, 2)), ((2, 2), (2, 3)), ((2, 2), (3, 2))]:
        with pytest.raises(ValueError, match=r"expected \[B, 2\] and \[B, 2\]"):
            codec.decode(torch.zeros(bin_index, dtype=torch.int32), torch.zeros(codes, dtype=torch.int16))
    with pytest.raises(ValueError, match="values hold NaN"):
        codec.decode_means(torch.full((1, 2), torch.nan), torch.zeros(1, 2, dtype=torch.int16))
    assert codec.decode(torch.zeros(0, 2, dtype=torch.int32), torch.zeros(0, 2, dtype=torch.int16)).shape == (0, 5)


def test_constant_columns_come_back_and_are_filled() -> None:
    frame = pd.DataFrame({"x": [1, 2, 3], "c": [None, "same", None]})
    codec = fit_codec(frame)
    decoded = codec.decode(torch.zeros(2, 1, dtype=torch.int32), torch.zeros(2, 0, dtype=torch.int16))
    assert decoded["c"].tolist() == ["same", "same"]
    assert (
        fill(codec, frame, codec.decode(torch.zeros(3, 1, dtype=torch.int32), torch.zeros(3, 0, dtype=torch.int16)))[
            "c"
        ].tolist()
        == ["same"] * 3
    )


def test_categories_of_other_columns_are_refused() -> None:
    codec = fit_codec(FRAME)
    assert codec.category_values("sex") == ["f", "m"]
    assert codec.category_values("ill") == [False, True]
    for column, told in [("age", "is continuous"), ("year", "is constant"), ("nose", "is not known")]:
        with pytest.raises(ValueError, match=rf"column '{column}' {told}: the categorical ones are \['sex', 'ill'\]"):
            codec.group(column)


@pytest.mark.parametrize("zones", [("UTC", "UTC"), ("UTC", "Europe/Paris"), ("UTC", None)])
def test_objects_with_time_zones_have_a_remedy(zones: tuple[str | None, str | None]) -> None:
    times = [pd.Timestamp("2024-02-29", tz=zones[i % 2]) for i in range(10)]
    frame = pd.DataFrame({"x": pd.Series([*times, None], dtype=object), "y": range(11)})
    with pytest.raises(
        TypeError, match=r"column 'x' \(2024-02-29 .*\) holds datetimes .*pandas.to_datetime\(frame\[column\], utc=True"
    ):
        fit_codec(frame)
    frame["x"] = pd.to_datetime(frame["x"], utc=True)
    assert fit_codec(frame).schema["x"].family == "zoned"
