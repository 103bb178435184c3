"""Learning a frame: column kinds, and refused frames."""

from __future__ import annotations

import copy
import datetime
import decimal
import pickle

import numpy as np
import pandas as pd
import pytest
from frames import TEXT, encode, fit_codec, missing_cells

GOOD = [0.5, 1.5, 2.5]


def kind(values: object, **options: object) -> str:
    frame = pd.DataFrame({"x": values})
    frame["good"] = np.arange(len(frame))
    return fit_codec(frame, **options).schema["x"].kind  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1.0, 2.0, 3.0, np.nan], "continuous"),
        ([1.0, 2.0, 1.0, np.nan], "categorical"),
        ([1.0, 1.0, np.nan, np.nan], "constant"),
        ([3, 1, 2, 2], "continuous"),
        ([7, 9, 7, 7], "categorical"),
        ([1.5, 2.0, 1.5, np.nan], "continuous"),
        (pd.array([-0.25, None, 0.25], dtype="Float32"), "continuous"),
        (pd.array([4.0, None, 2.0], dtype="Float32"), "categorical"),
        ([True, False, True, True], "categorical"),
        ([True, None, True, True], "constant"),
        (["a", "b", None, "a"], "categorical"),
        ([1, 2, None, 3], "continuous"),
        (pd.Series([1, 2.5, None, 3], dtype=object), "continuous"),
        (pd.Categorical([1, 2, 3, 1]), "categorical"),
        (pd.to_datetime(["2020-01-01", "2020-01-02", None, "2020-01-01"]), "continuous"),
        ([datetime.date(2020, 1, 1), datetime.date(2020, 1, 2), None, datetime.date(2021, 1, 2)], "continuous"),
        (pd.to_timedelta([1, 2, 3, 3], unit="h"), "continuous"),
    ],
)
def test_kinds(values: object, expected: str) -> None:
    assert kind(values) == expected


def test_named_columns_are_categorical() -> None:
    assert kind([3, 1, 2, 2], categorical_columns=["x"]) == "categorical"
    with pytest.raises(ValueError, match=r"names \['y'\], not in the table; it has \['x', 'good'\]"):
        kind([3, 1, 2], categorical_columns=["y"])
    with pytest.raises(TypeError, match="must be a list such as"):
        kind([3, 1, 2], categorical_columns="x")


def test_markers_count_as_missing_among_their_own_kind() -> None:
    frame = pd.DataFrame(
        {
            "n": [1.0, -200.0, 3.0, 5.0],
            "s": ["a", "?", "b", "-200"],
            "i": [-200, 4, 5, 6],
            "c": pd.Categorical(["?", "x", "y", "x"]),
        }
    )
    codec = fit_codec(frame, missing_values=["?", -200, None, np.nan])
    assert missing_cells(frame, ["?", -200]).T.tolist() == [
        [False, True, False, False],
        [False, True, False, False],
        [True, False, False, False],
        [True, False, False, False],
    ]
    assert codec.category_values("s") == ["-200", "a", "b"]
    assert codec.category_values("c") == ["x", "y"]


def test_infinity_can_be_a_marker() -> None:
    frame = pd.DataFrame({"x": [1.0, np.inf, 2.0, 3.0]})
    codec = fit_codec(frame, missing_values=[np.inf])
    assert encode(codec, frame).observed().tolist() == [[True], [False], [True], [True]]


@pytest.mark.parametrize(
    ("cells", "dtype"), [(["1", "?", "2", "30"], pd.Int64Dtype()), (["1", "?", "2.5", "30"], np.dtype("float64"))]
)
def test_numbers_behind_markers_are_numbers(cells: list[str], dtype: object) -> None:
    frame = pd.DataFrame({"x": cells})
    column = fit_codec(frame, missing_values=["?"]).schema["x"]
    assert column.kind == "continuous"
    assert column.dtype == dtype
    assert column.parsed
    assert fit_codec(frame).schema["x"].kind == "categorical"
    assert fit_codec(pd.DataFrame({"x": ["1", "2", "30"]}), missing_values=["?"]).schema["x"].kind == "categorical"
    chosen = fit_codec(frame, missing_values=["?"], categorical_columns=["x"])
    assert sorted(chosen.category_values("x")) == sorted(set(cells) - {"?"})


@pytest.mark.parametrize(
    ("values", "error"), [("?", "must be a list"), ([["?"]], "list"), ([True], "True"), ([1j], "1j")]
)
def test_bad_markers(values: object, error: str) -> None:
    with pytest.raises(TypeError, match=error):
        kind(GOOD, missing_values=values)


@pytest.mark.parametrize("frame", [pd.DataFrame(), pd.DataFrame({"a": []}), pd.DataFrame(index=range(3))])
def test_empty_frames(frame: pd.DataFrame) -> None:
    with pytest.raises(ValueError, match=rf"the frame is empty \({len(frame)} rows, {frame.shape[1]} columns\)"):
        fit_codec(frame)


def test_all_missing_columns_are_all_named() -> None:
    frame = pd.DataFrame({"a": [np.nan] * 3, "b": GOOD, "c": [None] * 3, "d": ["?"] * 3})
    with pytest.raises(ValueError, match=r"columns 'a'; 'c'; 'd' have no observed cell: drop the columns, frame\.drop"):
        fit_codec(frame, missing_values=["?"])
    with pytest.raises(ValueError, match="no cell of the frame is observed"):
        fit_codec(frame[["a", "c"]])


def test_a_column_must_vary() -> None:
    with pytest.raises(ValueError, match="no column varies"):
        fit_codec(pd.DataFrame({"a": [1, 1], "b": ["x", None]}))


def test_infinite_values() -> None:
    frame = pd.DataFrame({"a": [np.inf, -np.inf, 1.0], "b": GOOD, "c": [1.0, 2.0, np.inf]})
    with pytest.raises(
        ValueError, match=r"columns 'a' \(2 of 3 cells\); 'c' \(1 of 3 cells\) have infinite values: rep"
    ):
        fit_codec(frame)


def test_range_beyond_float() -> None:
    with pytest.raises(ValueError, match=r"column 'a' .* has a range beyond float64: rescale"):
        fit_codec(pd.DataFrame({"a": [-1.7e308, 0.0, 1.7e308]}))


def test_mixed_types() -> None:
    frame = pd.DataFrame({"a": pd.Series(["x", 3, None]), "b": GOOD, "c": pd.Series([True, 2, 3], dtype=object)})
    with pytest.raises(
        ValueError, match=r"columns 'a' \(str \('x'\) and int \(3\)\); 'c' \(bool \(True\) and int \(2\)\) mix t"
    ):
        fit_codec(frame)


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ([1j, 2j, 3j], "complex128"),
        ([[1], [2], [3]], "list"),
        ([{}, {}, {}], "dict"),
        ([b"a", b"b", b"c"], "bytes"),
        ([decimal.Decimal(1)] * 3, "Decimal"),
        ([datetime.time(1)] * 3, "time"),
        (pd.period_range("2020", periods=3), "period"),
        (pd.interval_range(0, 3), "interval"),
        (pd.Categorical(pd.interval_range(0, 3)), "interval"),
        (pd.arrays.SparseArray([1.0, 2.0, 3.0]), "Sparse"),
        (np.array([1, 2, 3], dtype=np.longdouble), "float128"),
        (pd.Series([["a"], ["b"], ["c"]], dtype=object), "list"),
    ],
)
def test_unsupported_types(values: object, named: str) -> None:
    frame = pd.DataFrame({"x": values, "good": GOOD})
    with pytest.raises(TypeError, match=r"column 'x' \(.*\) can't be taken: convert to numbers") as caught:
        fit_codec(frame)
    assert named in str(caught.value)


def test_numbers_beyond_64_bits() -> None:
    frame = pd.DataFrame({"x": pd.Series([2**70, 1, 2], dtype=object), "good": GOOD})
    with pytest.raises(
        ValueError, match=r"column 'x' \(.*too large.*\) has values out of reach \(numbers must fit 64 bits"
    ):
        fit_codec(frame)


def test_high_cardinality() -> None:
    frame = pd.DataFrame(
        {"a": [f"v{i % 120}" for i in range(400)], "b": range(0, 800, 2), "c": [i % 101 for i in range(400)]}
    )
    message = r"columns 'a' \(120 > 100\); 'c' \(101 > 100\) have too many categories: drop.*cap_categories.*keep=50"
    with pytest.raises(ValueError, match=message):
        fit_codec(frame, categorical_columns=["c"])
    codec = fit_codec(frame, categorical_columns=["c"], max_categories=120)
    assert codec.layout.cardinalities == (120, 101)
    for bad in (1, 40_000):
        with pytest.raises(ValueError, match=f"max_categories must be from 2 to 32,767, got {bad}"):
            fit_codec(frame, max_categories=bad)


def test_identifiers_and_free_text() -> None:
    frame = pd.DataFrame({"name": [f"person {i}" for i in range(40)], "x": range(40)})
    with pytest.raises(ValueError, match=r"'name' \(40 in 40 cells\) holds a different string in nearly every row"):
        fit_codec(frame)
    assert fit_codec(frame, categorical_columns=["name"]).layout.cardinalities == (40,)
    assert fit_codec(frame.head(29)).layout.cardinalities == (29,)


def test_markers_of_another_type_do_not_mix_a_column() -> None:
    frame = pd.DataFrame(
        {"n": pd.Series([1, "?", 3.5, 4]), "s": pd.Series(["a", -200, "b", "a"]), "p": ["5", "?", "-200", "7.5"]}
    )
    codec = fit_codec(frame, missing_values=["?", -200])
    assert [column.family for column in codec.schema] == ["float", "string", "float"]
    assert missing_cells(frame, ["?", -200]).tolist() == [[False] * 3, [True] * 3, [False, False, True], [False] * 3]
    with pytest.raises(ValueError, match=r"'n' \(int \(1\) and str \('x'\)\) mixes types"):
        fit_codec(frame.assign(n=pd.Series([1, "?", "x", 4])), missing_values=["?", -200])


def test_numbers_written_in_two_ways_are_one_value() -> None:
    codec = fit_codec(pd.DataFrame({"x": ["01", "1", "?", "2", "1.0"]}), missing_values=["?"])
    assert codec.category_values("x") == [1.0, 2.0]


def test_not_a_number_inside_a_nullable_column_is_missing() -> None:
    column = pd.Series([0.0, 1.0, 2.0, 3.0], dtype="Float64")
    frame = pd.DataFrame({"x": column / column})
    frame["y"] = column
    frame.loc[3, "x"] = 4.0
    assert missing_cells(frame).tolist() == [[True, False], [False] * 2, [False] * 2, [False] * 2]


def ids(count: int = 100, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).permutation(np.arange(count) * 7 + 10**6)


def test_identifiers_that_are_learnt_are_warned_of(recwarn: pytest.WarningsRecorder) -> None:
    frame = pd.DataFrame({"id": ids(), "x": np.arange(100)[::-1], 0: ids(seed=1), "y": np.arange(100) % 9})
    fit_codec(frame)
    assert [str(warning.message) for warning in recwarn] == [
        "columns 'id', 'x' look like identifiers: their values would stand in synthetic rows; if they are identifiers, "
        "drop them, frame.drop(columns=['id', 'x'])"
    ]
    fit_codec(frame[["id", "y"]], categorical_columns=["id"])
    assert len(recwarn) == 1


def test_numbers_among_marks_are_exact() -> None:
    decimals = ["0.1257302210933933", "-0.1321048632913019", "0.6404226504432821", "?"]
    frame = pd.DataFrame(
        {
            "u": ["18446744073709551615", "?", "9223372036854775809", "3"],
            "i": ["9007199254740993", "9007199254740992", "?", "-5"],
            "x": decimals,
            "far": ["18446744073709551615", "-1", "-1", "?"],
        }
    )
    codec = fit_codec(frame, missing_values=["?"])
    assert [(column.family, str(column.dtype)) for column in codec.schema] == [
        ("integer", "UInt64"),
        ("integer", "Int64"),
        ("float", "float64"),
        ("string", str(TEXT)),
    ]
    assert codec._coders["u"].keys.tolist() == [3, 2**63 + 1, 2**64 - 1]
    assert codec._coders["i"].keys.tolist() == [-5, 2**53, 2**53 + 1]
    assert codec._coders["x"].keys.tolist() == sorted(map(float, decimals[:3]))


def test_a_mark_among_large_integers_is_exact() -> None:
    frame = pd.DataFrame({"n": [2**53, 2**53 + 1, 2**53 + 2, 7]})
    for mark in (2**53 + 1, 2.0**53):
        codec = fit_codec(frame, missing_values=[mark, 2**80, float("inf")])
        assert codec._coders["n"].keys.tolist() == sorted({2**53, 2**53 + 1, 2**53 + 2, 7} - {int(mark)})


@pytest.mark.parametrize(
    "cells",
    [
        ["beta", "alpha", None, "gamma", "gamma", np.nan, "12", "?"],
        ["1.5", "?", "12", "1.50", None, "300", "12", "?"],
        [10**3, None, 10**3 + 1, 1.5 * 10**3, "?", pd.NA, np.nan, 7],
        [True, None, False, True, np.nan, True, False, True],
        [datetime.date(2001, 2, 3), None, datetime.date(1999, 1, 1), *[datetime.date(2001, 2, 3)] * 5],
        ["beta", 1000, None, 2.5, "beta", [1], 1, 1],
        [1e400, 1.5, None, 2.5, 1e400, 2.5, 1.5, 1.0],
        [datetime.datetime(2001, 2, 3, tzinfo=datetime.timezone.utc), None, *[datetime.datetime(2001, 2, 3)] * 6],
    ],
)
def test_cells_that_share_their_objects_are_read_as_those_that_do_not(cells: list[object]) -> None:
    """Equal cells are one object each where a reader made them, and then told apart by address."""
    bin_index = np.random.default_rng(0).integers(0, len(cells), 3000)
    bin_index[: len(cells)] = range(len(cells))
    shared = pd.Series([cells[place] for place in bin_index], dtype=object)
    own = pd.Series([copy.copy(pickle.loads(pickle.dumps(cells[place]))) for place in bin_index], dtype=object)
    results = []
    for column in (shared, own):
        frame = pd.DataFrame({"x": column, "y": np.arange(3000) % 7})
        try:
            codec = fit_codec(frame, missing_values=["?"])
        except (TypeError, ValueError) as error:
            results.append((type(error), str(error)))
            continue
        table = encode(codec, frame, seed=0)
        results.append((codec.state()[0], table.codes.tolist(), table.continuous.nan_to_num(nan=99).tolist()))
    assert results[0] == results[1]
