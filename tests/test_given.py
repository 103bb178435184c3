"""Known values as they are written on a command line."""

from __future__ import annotations

import datetime

import numpy as np
import pandas as pd
import pytest
from frames import encode, fit_codec

from missdiff_fast.cli.given import parse_given
from missdiff_fast.table import Codec, Column
from missdiff_fast.table.given import in_learnt_dtypes, read_given_dates

FRAME = pd.DataFrame(
    {
        "n": [1, 2, 3, 4],
        "n=x": [0.5, 1.5, 2.5, 3.5],
        "flag": [True, False, True, False],
        "grade": pd.Categorical(["a", "b", "a", "b"], ["b", "a"], ordered=True),
        "level": [1.0, 2.5, 1.0, 2.5],
        "when": pd.date_range("2024-01-01", periods=4, unit="ns"),
        "zoned": pd.date_range("2024-01-01", periods=4, unit="ns", tz="Europe/Berlin"),
        "day": [datetime.date(2024, 1, d) for d in (1, 2, 3, 4)],
        "span": pd.to_timedelta([1, 2, 3, 4], unit="h"),
        "same": "north",
        7: [5, 6, 7, 9],
    }
)


@pytest.fixture(scope="module")
def codec() -> Codec:
    return fit_codec(FRAME, categorical_columns=["level"])


@pytest.mark.parametrize(
    ("text", "column", "value"),
    [
        ("n=3", "n", 3),
        ("n= 3", "n", 3),
        ("n=x=2.25", "n=x", 2.25),
        ("flag=True", "flag", True),
        ("flag=false", "flag", False),
        ("grade=a", "grade", "a"),
        ("level=1", "level", 1.0),
        ("level=2.50", "level", 2.5),
        ("when=2024-01-02", "when", pd.Timestamp("2024-01-02")),
        ("when=2024-01-02 12:30", "when", pd.Timestamp("2024-01-02 12:30")),
        ("zoned=2024-01-02", "zoned", pd.Timestamp("2024-01-02", tz="Europe/Berlin")),
        ("zoned=2024-01-02T00:00Z", "zoned", pd.Timestamp("2024-01-02 01:00", tz="Europe/Berlin")),
        ("day=2024-01-03", "day", datetime.date(2024, 1, 3)),
        ("when= 2024-1-2T12:30:15.5 ", "when", pd.Timestamp("2024-01-02 12:30:15.5")),
        ("day=2024-01-03 00:00", "day", datetime.date(2024, 1, 3)),
        ("day=3.1.2024", "day", datetime.date(2024, 1, 3)),
        ("when=01/13/2024", "when", pd.Timestamp("2024-01-13")),
        ("when=3 January 2024 13:30", "when", pd.Timestamp("2024-01-03 13:30")),
        ("span=90min", "span", pd.Timedelta(hours=1.5)),
        ("span=-1:30:00", "span", pd.Timedelta(hours=-1.5)),
        ("same=north", "same", "north"),
        ("7=6", 7, 6),
    ],
)
def test_values_have_the_type_of_their_column(codec: Codec, text: str, column: object, value: object) -> None:
    assert parse_given(codec, text) == (column, value)
    assert type(parse_given(codec, text)[1]) is type(value)
    encode(codec, pd.DataFrame({column: [value]}), partial=True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("n", "write COL=VALUE"),
        ("m=1", "there is no column 'm'; the columns are n, n=x, flag"),
        ("n=", "'' is no whole number"),
        ("n=1e400", "is no whole number"),
        ("n=x=nan", "'nan' is no number"),
        ("n=x=inf", "'inf' is no number"),
        ("flag=perhaps", "'perhaps' is no category; the model knows False, True"),
        ("grade=c", "'c' is no category; the model knows b, a"),
        ("level=high", "'high' is no category; the model knows 1.0, 2.5"),
        ("when=soon", "'soon' is no date and time"),
        ("when=", "'' is no date and time"),
        ("when=2024-01-02T00:00Z", "is no date and time"),
        ("day=2024-13-01", "is no date"),
        ("n=1_0", "'1_0' is no whole number"),
        ("n=\u0661", "'\u0661' is no whole number"),
        ("n=99999999999999999999999", "'99999999999999999999999' is out of reach of column 'n', int64"),
        (f"n={'9' * 5000}", "9' is no whole number"),
        ("n=x=1_0", "'1_0' is no number"),
        ("level=2_5e-1", "'2_5e-1' is no category"),
        ("when=now", "'now' is no date and time such as 2024-02-29 13:30"),
        ("when=today", "'today' is no date and time"),
        ("when=13:30", "'13:30' is no date and time"),
        ("when=2", "'2' is no date and time"),
        ("when=1/2/2024", "'1/2/2024' is no date and time"),
        ("when=3000-01-01", "'3000-01-01' is out of reach of column 'when', datetime64[ns]"),
        ("zoned=3000-01-01", "'3000-01-01' is out of reach of column 'zoned', datetime64[ns, Europe/Berlin]"),
        ("zoned=now", "'now' is no date and time"),
        ("day=today", "'today' is no date such as 2024-02-29"),
        ("day=2024-01-03 13:30", "'2024-01-03 13:30' is no date"),
        ("span=long", "'long' is no duration"),
        ("span=5", "'5' is no duration such as 90min"),
        ("span=300000000 days", "is no duration"),
        ("span=NaT", "'NaT' is no duration"),
    ],
)
def test_what_is_no_value_is_refused(codec: Codec, text: str, message: str) -> None:
    with pytest.raises(ValueError, match="--given ") as refusal:
        parse_given(codec, text)
    assert message in str(refusal.value)


def test_large_categories_are_told_apart() -> None:
    codec = fit_codec(pd.DataFrame({"k": [2**53, 2**53 + 2, 5, 2**53]}), categorical_columns=["k"])
    assert parse_given(codec, "k=9007199254740992.0") == ("k", 2**53)
    with pytest.raises(ValueError, match="'9007199254740993' is no category"):
        parse_given(codec, "k=9007199254740993")


def test_texts_for_dates_of_iso_8601_in_python() -> None:
    column = Column("seen", "continuous", np.dtype("M8[ns]"), "datetime", form="0000-00-00")
    texts = ["2022-08-27", "27.08.2022", "08/27/2022", "27. August 2022"]
    read = read_given_dates(pd.DataFrame({"seen": texts}), [column])
    assert read["seen"].tolist() == [pd.Timestamp("2022-08-27")] * 4
    with pytest.raises(TypeError, match=r"given value '05/06/2022' of column 'seen' .*: write it like 2022-08-27"):
        read_given_dates(pd.DataFrame({"seen": ["05/06/2022"]}), [column])
    kept = read_given_dates(pd.DataFrame({"seen": ["?", "2022-08-27"]}), [column], ["?"])
    assert kept["seen"].tolist() == ["?", pd.Timestamp("2022-08-27")]


@pytest.mark.parametrize("form", ["0000-00-00", "DD.MM.YYYY"])
@pytest.mark.parametrize("text", ["9999-12-31", "31.12.9999", "1500-01-01 10:00"])
def test_a_date_out_of_reach_is_told_as_such(form: str, text: str) -> None:
    column = Column("seen", "continuous", np.dtype("M8[ns]"), "datetime", form=form)
    with pytest.raises(ValueError, match=r"column 'seen' can't be held by its dtype datetime64\[ns\]: give one that"):
        in_learnt_dtypes(read_given_dates(pd.DataFrame({"seen": [text]}), [column]), [column])
    with pytest.raises(TypeError, match="'2022-02-31' of column 'seen' is no date or time"):
        read_given_dates(pd.DataFrame({"seen": ["2022-02-31"]}), [column])
