"""Rows drawn under conditions: ranges and lists of values in ``given``."""

import datetime

import numpy as np
import pandas as pd
import pytest

from missdiff_fast import MissDiff
from missdiff_fast.cli.given import parse_given
from missdiff_fast.errors import DataError, DataTypeError
from missdiff_fast.table import Column
from missdiff_fast.table.conditions import Condition, cells_that_meet

STAY = Column("days", "continuous", np.dtype("float64"), "float")
FAST = {"blend.rows_per_feature": 0, "calibration.rounds": 0}


@pytest.fixture(scope="module")
def table():
    random = np.random.default_rng(0)
    ward = random.choice(list("ABCD"), 2000, p=[0.4, 0.3, 0.2, 0.1])
    age = random.integers(20, 90, 2000)
    return pd.DataFrame(
        {
            "ward": ward,
            "age": age,
            "days": np.where(ward == "A", 1.0, 20.0) + random.exponential(1.0, 2000).round(2),
            "seen": pd.Timestamp("2024-01-01") + pd.to_timedelta(random.integers(0, 300, 2000), unit="D"),
            "born": [datetime.date(2024 - one, 1, 1) for one in age],
            "flag": random.integers(0, 2, 2000),
        }
    ).mask(random.random((2000, 6)) < 0.1)


@pytest.fixture(scope="module")
def model(table):
    return MissDiff(steps=300, refine=0, settings=FAST, random_state=0).fit(table.convert_dtypes(convert_string=False))


def test_all_rows_meet_all_conditions(model):
    given = {"age": pd.Interval(60, 80, "both"), "ward": ["A", "B"], "flag": 1}
    rows = model.sample(300, given=given)
    assert rows["age"].between(60, 80).all()
    assert set(rows["ward"]) == {"A", "B"}
    assert rows["flag"].eq(1).all()
    assert rows["age"].dtype == "Int64"
    assert rows["age"].nunique() > 15
    assert rows.notna().all(axis=None)


def test_other_cells_follow_from_them(model):
    rows = model.sample(1000, given={"ward": {"A", "D"}})
    share = (rows["ward"] == "A").mean()
    assert share == pytest.approx(0.8, abs=0.06)  # .4 of .5: five standard deviations of 1,000 draws
    stay = rows.groupby("ward")["days"].median()
    assert stay["A"] < 5 < 15 < stay["D"]
    # And the other way round, where 40 % of all rows have ward A.
    assert (model.sample(300, given={"days": pd.Interval(0, 4)})["ward"] == "A").mean() > 0.75


@pytest.mark.parametrize(
    ("column", "interval", "least", "greatest"),
    [
        ("days", pd.Interval(1.5, 21.0, "left"), 1.5, 20.99),
        ("age", pd.Interval(40, 70, "neither"), 41, 69),
        ("age", pd.Interval(60, np.inf), 61, 89),
        (
            "seen",
            pd.Interval(pd.Timestamp("2024-02-01"), pd.Timestamp("2024-06-30"), "both"),
            "2024-02-01",
            "2024-06-30",
        ),
        (
            "born",
            pd.Interval(pd.Timestamp("1950-01-01"), pd.Timestamp("1980-01-01"), "both"),
            "1950-01-01",
            "1980-01-01",
        ),
    ],
)
def test_ranges_of_every_kind(model, column, interval, least, greatest):
    cells = model.sample(100, given={column: interval})[column]
    cells = pd.to_datetime(cells) if column in ("seen", "born") else cells
    assert cells.min() >= type(cells.min())(least)
    assert cells.max() <= type(cells.max())(greatest)


def test_a_row_depends_on_the_seed_and_its_number_alone(model):
    given = {"age": pd.Interval(60, 80), "ward": ["A", "B"]}
    rows = model.sample(40, given=given, random_state=3)
    later = model.sample(10, given=given, random_state=3, first_row=30)
    pd.testing.assert_frame_equal(rows[30:].reset_index(drop=True), later)
    assert not model.sample(40, given=given, random_state=4).equals(rows)


def test_conditions_that_hardly_any_row_meets():
    random = np.random.default_rng(0)

    def draw(start, number):
        return pd.DataFrame({"days": random.exponential(1.0, number)})

    with pytest.raises(DataError, match=r"of 131,072 rows drawn, none has 'days' in \(1000, 2000\]: widen") as caught:
        cells_that_meet([Condition(STAY, pd.Interval(1000, 2000), "'days' in (1000, 2000]")], draw, np.zeros(3))
    assert caught.value.columns == ("days",)
    with pytest.raises(DataError, match=r"\d+ have 'days' in \(9.5, 20\] \(1 in [\d,]+\)"):
        cells_that_meet([Condition(STAY, pd.Interval(9.5, 20), "'days' in (9.5, 20]")], draw, np.zeros(3))


def test_draws_stop_once_enough_rows_meet_the_conditions():
    calls = []

    def draw(start, number):
        calls.append((start, number))
        return pd.DataFrame({"days": np.arange(start, start + number) % 10.0})

    cells = cells_that_meet([Condition(STAY, (3.0,), "3 days")], draw, np.array([0.0, 0.5, 1 - 2**-24]))
    assert cells["days"].tolist() == [3.0] * 3
    assert calls == [(0, 4096), (4096, 4096), (8192, 8192)]


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (
            {"ward": ["A", "Z"]},
            DataError,
            "column 'ward' has no value 'Z' among those that the model draws: leave it out",
        ),
        ({"ward": []}, DataError, "the list of values of column 'ward' is empty"),
        ({"ward": pd.Interval(0, 1)}, DataTypeError, "column 'ward' holds strings, which have no range: give a list"),
        (
            {"age": pd.Interval(200, 300)},
            DataError,
            r"no training row has 'age' in \(200, 300\]; the column has 20 to 89",
        ),
        (
            {"seen": pd.Interval(1, 2)},
            DataTypeError,
            r"the ends of \(1, 2\] cannot be compared with the cells of column",
        ),
        ({"street": ["x"]}, DataError, "column 'street' is not learnt"),
    ],
)
def test_conditions_that_cannot_be_met_are_refused_at_once(model, given, error, message):
    with pytest.raises(error, match=message):
        model.sample(5, given=given)


def test_ranges_and_lists_on_the_command_line(model):
    codec = model.codec_
    assert parse_given(codec, "age=60..80") == ("age", pd.Interval(60, 80, "both"))
    assert parse_given(codec, "age=80..") == ("age", pd.Interval(80, 89, "both"))
    assert parse_given(codec, "days=..2.5")[1].right == 2.5
    assert parse_given(codec, "ward in A,B") == ("ward", ["A", "B"])
    assert parse_given(codec, "age in 60,61") == ("age", [60, 61])
    day = pd.Timestamp("2024-02-01")
    assert parse_given(codec, "seen=2024-02-01..2024-02-01")[1] == pd.Interval(day, day, "both")
    assert parse_given(codec, "born=1950-01-01..1960-01-01")[1].left == pd.Timestamp("1950-01-01")
    with pytest.raises(ValueError, match="'x' is no whole number"):
        parse_given(codec, "age=60..x")
    with pytest.raises(ValueError, match="80 is greater than 60"):
        parse_given(codec, "age=80..60")
    with pytest.raises(ValueError, match="'Z' is no category"):
        parse_given(codec, "ward in A,Z")


def test_a_value_with_a_comma_is_in_quotes():
    table = pd.DataFrame({"place": ["Bonn", "Ulm, Süd", "Köln..Mitte"] * 20, "x": np.arange(60.0)})
    codec = MissDiff(steps=2, refine=0, settings=FAST, random_state=0).fit(table).codec_
    assert parse_given(codec, 'place in "Ulm, Süd",Bonn') == ("place", ["Ulm, Süd", "Bonn"])
    assert parse_given(codec, "place=Köln..Mitte") == ("place", "Köln..Mitte")


def test_limits_of_measurement():
    random = np.random.default_rng(0)
    crp = ["<0.5" if one < 0.5 else f"{one:.1f}" for one in random.exponential(2, 600)]
    model = MissDiff(steps=5, refine=0, settings=FAST, random_state=0).fit(
        pd.DataFrame({"crp": crp, "x": random.normal(size=600)})
    )
    assert set(model.sample(50, given={"crp": pd.Interval(0, 1)})["crp"]) <= {
        "<0.5",
        *(f"{n / 10:.1f}" for n in range(5, 11)),
    }
    assert set(model.sample(20, given={"crp": ["<0.5", 1.0, "1.1"]})["crp"]) == {"<0.5", "1.0", "1.1"}
    with pytest.raises(DataError, match=r"column 'crp' has no value '<0\.1' among those"):
        model.sample(5, given={"crp": ["<0.1"]})
    low = parse_given(model.codec_, "crp=<0.5..0.6")
    assert {"<0.5"} <= set(model.sample(60, given=dict([low]))["crp"]) <= {"<0.5", "0.5", "0.6"}
    assert parse_given(model.codec_, "crp=..<0.5")[1].right == low[1].left < 0.5
    with pytest.raises(ValueError, match=r"3 is greater than <0\.5 \(column 'crp'\)"):
        parse_given(model.codec_, "crp=3..<0.5")


def test_the_kind_of_frame_stays(model):
    pytest.importorskip("pyarrow")
    model.frame_kind_ = "pyarrow"
    try:
        assert type(model.sample(3, given={"ward": ["A", "B"]})).__name__ == "Table"
    finally:
        model.frame_kind_ = "pandas"


def test_times_of_day_and_arrays_of_other_libraries():
    polars, pyarrow = pytest.importorskip("polars"), pytest.importorskip("pyarrow")
    random = np.random.default_rng(0)
    at = [datetime.time(hour) for hour in random.choice([8, 9, 10], 300)]
    zoned = pd.Series(pd.to_datetime(random.choice(["2024-01-05", "2024-02-06"], 300))).dt.tz_localize("Europe/Berlin")
    cells = {"at": at, "age": random.integers(20, 90, 300), "ward": random.choice(list("ABC"), 300), "seen": zoned}
    model = MissDiff(steps=3, refine=0, settings=FAST, random_state=0).fit(pd.DataFrame(cells))
    eight, nine = datetime.time(8), datetime.time(9)
    rows = model.sample(20, given={"at": eight, "age": pd.Interval(30, 60)})
    assert set(rows["at"]) == {eight}
    assert rows["age"].between(30, 60, inclusive="right").all()
    rows = model.sample(40, given={"at": [eight, nine], "ward": pd.Categorical(["A", "B"])})
    assert set(rows["at"]) == {eight, nine}
    assert set(rows["ward"]) == {"A", "B"}
    wards = (polars.Series(["A"]), pyarrow.array(["A"]), pyarrow.chunked_array([["A"]]), pd.array(["A"]), ("A",))
    for ward in wards:
        assert set(model.sample(5, given={"ward": ward})["ward"]) == {"A"}
    some = np.unique(cells["age"])[:50]
    for ages in (some, pd.array(some), polars.Series(some), pd.Series(some, dtype="Float32")):
        assert set(model.sample(9, given={"age": ages})["age"]) <= set(some)
    day = np.array(["2024-01-04T23:00"], dtype="datetime64[ns]")  # of no zone
    with pytest.raises(DataError, match="column 'seen' has no value"):
        model.sample(5, given={"seen": day})
    assert set(model.sample(5, given={"seen": [zoned.min().tz_convert("UTC")]})["seen"]) == {zoned.min()}
    for wrong in ([8], [datetime.time(7)], [None]):
        with pytest.raises(DataError, match="column 'at' has no value"):
            model.sample(5, given={"at": wrong})
