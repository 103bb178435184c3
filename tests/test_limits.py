"""Limits of measurement: their texts, their places among numbers, and how columns with them are read and written."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from missdiff_fast._engine.backend import ReferenceBackend
from missdiff_fast.table import Codec, TableCells, read_frame
from missdiff_fast.table.cells import ColumnCells
from missdiff_fast.table.censored import Censored, NumberStyle
from missdiff_fast.table.limit_reading import with_decimal
from missdiff_fast.table.limits import Ends, is_limit, read_texts

TINY = np.finfo(np.float64).tiny


def place(text: str, decimal: str | None = None) -> float:
    found = read_texts([text], decimal)
    assert found is not None
    return float(found.places[0])


def column(cells: Any, **arguments: Any) -> ColumnCells:
    return read_frame(pd.DataFrame({"x": cells}), **arguments).found["x"]


def texts(cells: Any, **arguments: Any) -> list[str] | None:
    """The limits of a column; None if it is no column of numbers with limits."""
    censored = column(cells, **arguments).censored
    return None if censored is None else [text for _, text in censored.limits]


def test_a_limit_is_just_beyond_its_number() -> None:
    below, above = np.nextafter(0.1, -np.inf), np.nextafter(89.0, np.inf)
    assert place("<=0.1") == place("≤ 0.1") == below
    assert place("<0.1") == place("<  .1") == place("<1e-1") == np.nextafter(below, -np.inf)
    assert place(">=89") == place("≥89") == place("89+") == above
    assert place("> 89") == place(">89.0") == np.nextafter(above, np.inf)
    assert place("<0,1", ",") == place("<0.1")
    assert (place("<0"), place("<=0"), place(">0")) == (-2 * TINY, -TINY, 2 * TINY)
    assert place("< -3") < place("<=-3") < -3 < place(">=-3") < place("> -3")
    assert place("<1") < place("<=1") < 1 < place(">=1") < place(">1")  # the numbers below 1 are closer to one another


@pytest.mark.parametrize(
    "text", ["~5", "3.2*", "<LOD", "80-89", "<0.1 mg", "++", "<", "V45", "1:40", "<<1", "<1.000.0"]
)
def test_other_texts_are_no_limits(text: str) -> None:
    assert not is_limit(text)
    assert read_texts([text]) is None


def test_texts_whose_order_float64_cannot_tell() -> None:
    assert read_texts(["<9007199254740992", "1"]) is None
    assert read_texts(["<=1", "0.9999999999999998"]) is None
    assert read_texts(["<1e999"]) is None


def test_the_decimal_mark_is_found() -> None:
    for cells, decimal in ((["0,5", "<0,1"], ","), (["0.5", "<0.1"], "."), (["5", "<1"], "."), (["1,5", "1,500"], ",")):
        found = read_texts(cells)
        assert found is not None
        assert found.decimal == decimal
    assert read_texts(["1,500", "<1,000"]) is None, "these may be thousands"
    assert read_texts(["0,5", "0.5"]) is None
    assert read_texts(["1.500", "<1.000"], ",") is None, "where the comma is the mark, a point separates thousands"


@pytest.mark.parametrize(
    ("cells", "limits"),
    [
        ("<0.1 0.1 2 3", ["<0.1"]),
        ("18 19 20 89+", ["89+"]),
        ("1 2 3 <=1 <1 >3 ≥3", ["<1", "<=1", "≥3", ">3"]),
        ("<0.1 <0.5 <0.5 1 2 3", ["<0.1", "<0.5"]),
        ("<1 1 2", None),
        ("<1 <2 >3", None),
        ("0 1+ 2+ 3+ 1 2", None),
        ("1 2 3 2+", None),
        ("0-17 18-64 65+", None),
        ("<0.1 0.1 2 3 ?", None),
        ("<0.1 0.1 2 3 4 5 3.2*", None),
        ("1 2 3 4", None),
        ("<1 a b c", None),
    ],
)
def test_which_columns_are_numbers_with_limits(cells: str, limits: list[str] | None) -> None:
    assert texts(cells.split()) == limits
    assert column(cells.split()).family == ("string" if limits is None else "float")


def test_spellings_of_one_limit() -> None:
    cells = ["< 0.1", "<0.1", "<0.10", "<0.1", " <0.1 ", "5", "6", "7", ">=9", "≥9", "≥9", None]
    read = column(cells)
    assert texts(cells) == ["<0.1", "≥9"]
    assert len(set(read.keys[:5])) == 1
    assert read.missing.tolist() == [False] * 11 + [True]


def test_numbers_beside_texts_as_objects() -> None:
    assert texts([5.2, "<0.1", 3, 4, None]) == ["<0.1"]
    assert column([5.2, "<0.1", 3, np.float64(4), np.nan]).keys[[0, 2, 3]].tolist() == [5.2, 3, 4]
    assert texts([5, "< 1", 3, 4, "?"], missing_values=["?"]) == ["< 1"]
    assert texts([5, 7, "<1", -9, 4], missing_values=[-9]) == ["<1"]
    for cells in ([True, "<1", 3, 4, 5], [5.2, "<0.1", 3, "?"], [2**53, "<1", 3, 4], [5.0, "<1"]):
        refused = read_frame(pd.DataFrame({"x": pd.Series(cells, dtype=object)})).refused["x"]
        assert refused.kind == "mixed"
    refused = read_frame(pd.DataFrame({"x": [5.2, "<0.1", 3, "?"]})).refused["x"]
    assert refused.detail == "float (5.2) and str ('?')", "the limit is not at fault"


def test_marks_of_missing_cells() -> None:
    cells = ["<0.1", "?", "1", "2", "3", "-9"]
    read = column(cells, missing_values=["?", -9])
    assert read.missing.tolist() == [False, True, False, False, False, True]
    assert texts(cells, missing_values=["<0.1", "?"]) is None
    assert column(cells, missing_values=["<0.1", "?"]).family == "integer"


def test_treatments_decide() -> None:
    grades = ["0", "1+", "2+", "1+"]
    assert texts(grades) is None
    assert texts(grades, treatments={"x": "continuous"}) == ["1+", "2+"]
    assert texts(["<1", "1", "2", "3"], treatments={"x": "identifier"}) is None
    assert texts(["<1", "1", "2", "3"], categorical_columns=["x"]) is None
    assert texts(["1", "2", "3"], treatments={"x": "continuous"}) is None, "without a limit they stay texts"


def test_categories_stay_categories() -> None:
    assert texts(pd.Categorical(["<1", "1", "2", "3"])) is None
    for dtype in ("string[python]", "string[pyarrow]", pd.ArrowDtype(__import__("pyarrow").string())):
        assert texts(pd.Series(["<1", "1", "2", "3", None], dtype=dtype)) == ["<1"]


@pytest.mark.parametrize(
    ("numbers", "decimal", "written"),
    [
        (["5.20", "0.35"], ".", {7.0: "7.00", 0.125: "0.125", -0.5: "-0.50"}),
        (["5", "12"], ".", {7.0: "7", 89.0: "89", 1e22: "10000000000000000000000", 0.0: "0"}),
        (["0,5", "1,25"], ",", {7.0: "7,0", 0.125: "0,125"}),
        ([".5", "1.5"], ".", {0.25: ".25", -0.5: "-.5", 3.0: "3.0"}),
        (["1e-7", "0.5"], ".", {1e-7: "1e-07", 0.25: "0.25"}),
        (["0.0000001", "0.5"], ".", {1e-7: "0.0000001"}),
    ],
)
def test_numbers_are_written_as_the_column_has_them(numbers: list[str], decimal: str, written: dict[Any, str]) -> None:
    style = NumberStyle.of(numbers, decimal)
    for number, text in written.items():
        assert style.write(number, decimal) == text
        assert float(text.replace(",", ".")) == number


def codec_of(frame: pd.DataFrame) -> tuple[Codec, TableCells]:
    cells = read_frame(frame)
    return Codec.fit(cells, ops=ReferenceBackend()), cells


FORMS = {
    "texts": ["<0.1", "0.50", "2.25", "7.10", "<0.1", "> 9"],
    "objects": pd.Series(["<0.1", 0.5, 2.25, 7.1, "<0.1", "> 9"], dtype=object),
    "whole": pd.Series(["<1", 2, 3, 7, "<1", "> 9"], dtype=object),
    "string": pd.array(["<0.1", "0.50", "2.25", "7.10", "<0.1", "> 9"], dtype="string"),
    "arrow": pd.Series(["<0.1", "0.50", "2.25", "7.10", "<0.1", "> 9"], dtype="string[pyarrow]"),
}


@pytest.mark.parametrize("form", FORMS)
def test_decoded_cells_are_the_given_ones(form: str) -> None:
    frame = pd.DataFrame({"x": FORMS[form], "y": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]})
    codec, cells = codec_of(frame)
    codec = Codec.from_state(*codec.state(), ops=ReferenceBackend())
    keys = codec._coders["x"].keys
    observed = cells.found["x"].per_cell()
    places = np.searchsorted(keys, observed)
    assert np.array_equal(keys[places], observed)
    assert codec.schema["x"].kind == "continuous"
    rows = pd.DataFrame({"x": keys[places], "y": frame["y"]})
    pd.testing.assert_frame_equal(codec.written(rows), frame)
    assert [type(cell) for cell in codec.written(rows)["x"]] == [type(cell) for cell in frame["x"]]


def test_scores_are_in_order() -> None:
    cells = [">5", "3", "<=1", "<1", "1", "≥5", "5"]
    codec, read = codec_of(pd.DataFrame({"x": cells}))
    scores = codec.encode(read).continuous[:, 0]
    assert [cells[i] for i in scores.argsort()] == ["<1", "<=1", "1", "3", "5", "≥5", ">5"]


def test_means_beyond_a_limit_are_the_limit() -> None:
    frame = pd.DataFrame({"x": ["<1.2"] * 3 + ["2", "4", "5", "8"] + [">8"] * 2})
    codec, _ = codec_of(frame)
    coder = codec._coders["x"]
    standard = [(number - coder.resolution.mean - coder.resolution.centre) / coder.resolution.sd for number in
                (-5.0, 1.0, 1.19, 1.3, 1.7, 4.4, 7.6, 8.4, 99.0)]  # fmt: skip
    import torch

    values = torch.tensor(standard, dtype=torch.float64)[:, None]
    means = codec.decode_means(values, torch.empty((len(standard), 0), dtype=torch.int16))
    written = codec.written(means)["x"].tolist()
    assert written == ["<1.2", "<1.2", "<1.2", "<1.2", "2", "4", "8", ">8", ">8"], "1.3 would be rounded to 1"


def test_means_between_limits() -> None:
    ends = Ends.of(np.array([0.1, 0.5, 3.0]), np.array([9.0]), np.array([0.1, 0.5, 1.0, 3.0, 4.0, 9.0]))
    assert ends.below.tolist() == [0.1, 0.5], "numbers lie below 3 too"
    numbers = np.array([0.0, 0.1, 0.3, 0.7, 2.0, 9.5])
    assert ends.put(numbers, numbers, np.zeros((2, 6))).tolist() == [0.1, 0.1, 0.5, 0.7, 2.0, 9.0]


@pytest.mark.parametrize("more", [1, 9])
def test_a_mean_at_a_limit_is_what_more_cells_have(more: int) -> None:
    """float32 does not tell ``<1`` from 1: a copied value is what it was copied of, most likely."""
    frame = pd.DataFrame({"x": ["<1"] * 5 + ["1"] * more + ["2", "3", "4"]})
    codec, read = codec_of(frame)
    values = codec.encode(read).values
    assert values is not None
    import torch

    means = codec.decode_means(values, torch.empty((len(values), 0), dtype=torch.int16))
    written = codec.written(means)["x"]
    assert written[0] == ("<1" if more == 1 else "1")
    assert written.tolist()[-3:] == ["2", "3", "4"]


def test_rare_limits_of_many_values_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("missdiff_fast.table.columns.MAX_VALUES", 50)
    cells = [f"{number / 100:.2f}" for number in range(1000)] + ["<0.00", "<5", ">9.99"]
    codec, _ = codec_of(pd.DataFrame({"x": cells}))
    coder = codec._coders["x"]
    assert len(coder.keys) <= 50
    assert {place("<0"), place("<5"), place(">9.99")} <= set(coder.keys)


def test_the_state_is_read_back() -> None:
    censored = Censored.learn(np.dtype(object), ["<0,1", "0,50", "> 7", "1,25"], decimal=",")
    assert Censored.from_state(censored.state()) == censored
    with pytest.raises(KeyError):
        Censored.from_state({"dtype": {"dtype": "object"}, "style": None})
    codec, _ = codec_of(pd.DataFrame({"x": ["<1", "1", "2", "3"]}))
    meta, tensors = codec.state()
    meta["columns"][0]["family"] = "integer"
    with pytest.raises(ValueError, match="codec state is damaged"):
        Codec.from_state(meta, tensors, ops=ReferenceBackend())


def test_the_decimal_mark_of_a_file_counts() -> None:
    cells = ["1.500", "<1.000", "950", "2.250"]
    assert texts(cells) == ["<1.000"]
    frame = with_decimal(pd.DataFrame({"x": cells}), ",")
    assert read_frame(frame).found["x"].family == "string"


@pytest.mark.parametrize(
    ("own", "missing", "filled"),
    [
        (["<0.1", None, "5.50"], [1], ["<0.1", "7.10", "5.50"]),
        (["< 0.1", None, "5.50"], [1], ["< 0.1", "< 0.1", "5.50"]),
        ([0.5, None, 5.5], [1], [0.5, 7.1, 5.5]),
        ([0.5, None, 5.5], [1], [0.5, "<0.1", 5.5]),
        ([None, None, None], [0, 1, 2], ["<0.1", "7.10", "2.25"]),
        (["0.5", 3.0, None], [2], ["0.5", 3.0, 7.1]),
    ],
)
def test_cells_are_filled_in_the_table_s_own_form(own: list[Any], missing: list[int], filled: list[Any]) -> None:
    codec, _ = codec_of(pd.DataFrame({"x": FORMS["texts"]}))
    frame = pd.DataFrame({"x": own})
    cells = codec.read(frame)
    values = frame["x"].map(lambda _: 0.5).astype(float)
    for at in missing:
        values[at] = place(filled[at]) if str(filled[at])[0] == "<" else float(filled[at])
    result = codec.fill(cells, pd.DataFrame({"x": values}))
    assert result["x"].tolist() == filled
    if all(isinstance(cell, float) for cell in filled):
        assert result["x"].dtype == np.float64


def test_other_texts_are_refused_after_fit() -> None:
    codec, _ = codec_of(pd.DataFrame({"x": FORMS["texts"]}))
    with pytest.raises(TypeError, match=r"column 'x' has string cells .* and '\?' is none"):
        codec.read(pd.DataFrame({"x": ["<0.1", "?", "3"]}))
    plain, _ = codec_of(pd.DataFrame({"x": [1.0, 2.0, 3.0, 4.0]}))
    with pytest.raises(TypeError, match=r"column 'x' has string cells .* and '<0.1' is none"):
        plain.read(pd.DataFrame({"x": ["<0.1", "1", "2", "3"]}))
