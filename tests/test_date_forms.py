"""Dates and times of day in other forms than ISO 8601: how their texts are read, and written again."""

from __future__ import annotations

import pandas as pd
import pytest

from missdiff_fast.table.date_forms import find_form, split, to_iso
from missdiff_fast.table.date_reading import Texts, read_local_dates
from missdiff_fast.table.date_writing import is_of_family, read_as, write_in

FORMS = {
    "DD.MM.YYYY": ["27.08.2022", "01.12.1999"],
    "D.M.YYYY": ["27.8.2022", "1.12.1999"],
    "D.MM.YYYY": ["27.08.2022", "1.12.1999"],
    "DD.MM.YYYY hh:mm": ["27.08.2022 14:05", "01.02.2022 00:00"],
    "D.M.YYYY h:mm:ss": ["1.8.2022 9:05:30", "27.12.2022 14:05:00"],
    "DD.MM.YYYY hh:mm:ss.000": ["27.08.2022 14:05:30.125", "01.02.2022 00:00:00.500"],
    "DD/MM/YYYY": ["27/08/2022", "01/02/2022"],
    "MM/DD/YYYY": ["08/27/2022", "01/02/2022"],
    "M/D/YYYY h:mm AM": ["8/27/2022 2:05 PM", "1/2/2022 12:30 AM"],
    "M/D/YYYY h:mm:ssam": ["8/27/2022 2:05:09pm", "1/2/2022 12:30:00am"],
    "DD-MM-YYYY": ["27-08-2022", "01-02-2022"],
    "MM-DD-YYYY": ["08-27-2022", "01-02-2022"],
    "YYYY/MM/DD": ["2022/08/27", "2022/01/02"],
    "YYYY/M/D hh:mm": ["2022/8/27 14:05", "2022/1/2 09:00"],
    "DD-Mon-YYYY": ["27-Aug-2022", "01-May-2022"],
    "D Mon YYYY": ["27 Aug 2022", "1 May 2022"],
    "DDMONYYYY": ["27AUG2022", "01MAY2022"],
    "DDmonYYYY": ["27aug2022", "01may2022"],
    "DDMONYYYY:hh:mm:ss": ["27AUG2022:14:05:30", "01MAY2022:00:00:00"],
    "DD Month YYYY": ["27 August 2022", "01 May 2022"],
    "D. Monat YYYY hh:mm": ["27. August 2022 14:05", "1. Mai 2022 00:00"],
    "DD-Mär-YYYY": ["27-Dez-2022", "01-Mär-2022"],
    "D.MRZ.YYYY": ["27.DEZ.2022", "1.MRZ.2022"],
    "hh:mm": ["14:05", "09:05"],
    "h:mm": ["14:05", "9:05"],
    "hh:mm:ss": ["14:05:30", "09:05:00"],
    "h:mm AM": ["2:05 PM", "12:05 AM"],
    "h:mm:ss.0": ["125:10:00.5", "9:05:00.0"],
}


@pytest.mark.parametrize("form", FORMS)
def test_what_is_read_is_written_again(form: str) -> None:
    texts = FORMS[form]
    values, forms = read_local_dates({"x": Texts(dict.fromkeys(texts, 1))}, "t.csv")
    assert forms == {"x": form}
    assert write_in(values["x"], form).tolist() == texts
    assert [read_as(text, form) for text in texts] == values["x"].tolist()
    assert is_of_family(form, "timedelta" if form.startswith("h") else "datetime")
    assert not is_of_family(form, "zoned")


def test_values() -> None:
    assert read_as("1.8.2022", "DD.MM.YYYY") == pd.Timestamp("2022-08-01")
    assert read_as("1/8/2022", "MM/DD/YYYY") == pd.Timestamp("2022-01-08")
    assert read_as("1/8/2022", "DD/MM/YYYY") == pd.Timestamp("2022-08-01")
    assert read_as("12:05 AM", "h:mm AM") == pd.Timedelta(minutes=5)
    assert read_as("12:05 PM", "h:mm AM") == pd.Timedelta(hours=12, minutes=5)
    assert read_as("27AUG2022:14:05:30.5", "DDMONYYYY") == pd.Timestamp("2022-08-27 14:05:30.5")
    for text, form in (
        ("30.02.2022", "DD.MM.YYYY"),
        ("27/08/2022", "MM/DD/YYYY"),
        ("27/08/2022", "DD.MM.YYYY"),
        ("27.08.22", "DD.MM.YYYY"),
        ("2022-08-27", "DD.MM.YYYY"),
        ("14:05", "DD.MM.YYYY"),
        ("27.08.2022", "hh:mm"),
        ("27.08.2022", ""),
    ):
        assert read_as(text, form) is None, text


@pytest.mark.parametrize(
    "text",
    [
        *("120/80", "1/2", "1.2.3", "1.15.0", "555-123-4567", "50-00-0", "32.01.2022", "27.13.2022", "0.1.2022"),
        *("27.08.2022 24:00", "27.08.2022 14:60", "27.08-2022", "27AUX2022", "2022/13/01", "16:9", "1:60", "13:05 PM"),
        *("27.08.2022,14:05", "27-Aug 2022", "1:2:3", "0:05 AM", "", "Aug", "27.08.20222"),
    ],
)
def test_what_is_no_date(text: str) -> None:
    assert split(text) is None


def test_orders() -> None:
    assert to_iso(split("1/8/2022"), "day") == "2022-08-01"  # type: ignore[arg-type]
    assert to_iso(split("1/8/2022 9:05 pm"), "month") == "2022-01-08T21:05:00"  # type: ignore[arg-type]
    orders = {text: split(text).orders() for text in ("1/8/2022", "13/8/2022", "8-13-2022", "1.8.2022", "1AUG2022")}  # type: ignore[union-attr]
    assert orders == {
        "1/8/2022": ("day", "month"),
        "13/8/2022": ("day",),
        "8-13-2022": ("month",),
        "1.8.2022": ("day",),
        "1AUG2022": ("day",),
    }


def test_padding_is_that_of_most_cells() -> None:
    cells = [split("1.8.2022"), split("02.08.2022"), split("27.12.2022")]
    assert find_form(cells, [3, 2, 9], "day") == "D.M.YYYY"  # type: ignore[arg-type]
    assert find_form(cells, [2, 3, 9], "day") == "DD.MM.YYYY"  # type: ignore[arg-type]
    assert find_form(cells[2:], [9], "day") == "DD.MM.YYYY", "none tells it"  # type: ignore[arg-type]


def test_more_detail_where_the_form_would_lose_some() -> None:
    times = pd.Series(pd.to_datetime(["2022-08-27 00:00", "2022-08-27 14:05:30.25", None], format="ISO8601"))
    assert write_in(times, "DD.MM.YYYY").tolist()[:2] == ["27.08.2022 00:00:00.00", "27.08.2022 14:05:30.25"]
    assert write_in(times, "DDMONYYYY").tolist()[1] == "27AUG2022:14:05:30.25"
    assert write_in(times, "DD.MM.YYYY hh:mm").isna().tolist() == [False, False, True]
    assert write_in(times[:1], "DD.MM.YYYY").tolist() == ["27.08.2022"]
    clock = pd.Series(pd.to_timedelta(["0:05:00", "26:00:01"]))
    assert write_in(clock, "h:mm AM").tolist() == ["0:05:00", "26:00:01"], "no half of the day has 26 hours"
    below = pd.Series(pd.to_timedelta(["-1 days"]))
    assert write_in(below, "hh:mm").equals(below), "no time of day"
