"""Text files with dates of other forms than ISO 8601, times of day, and marks of missing cells among numbers."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from commands import refused
from frames import REACH, TIME

from missdiff_fast import MissDiff
from missdiff_fast.cli import main
from missdiff_fast.errors import DataWarning
from missdiff_fast.table import read_table, write_table
from missdiff_fast.table.date_reading import Texts, read_local_dates
from missdiff_fast.table.dates import forms_of
from missdiff_fast.table.dtypes import holds_text
from missdiff_fast.table.text_lines import Lines

Read = Callable[..., tuple[pd.DataFrame, list[str]]]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Reads columns that are given by their cells; the frame, and what is told."""

    def read(columns: dict[str, list[str]], **options: Any) -> tuple[pd.DataFrame, list[str]]:
        rows = [",".join(cells) for cells in zip(*columns.values(), strict=True)]
        (tmp_path / "t.csv").write_text("\n".join([",".join(columns), *rows]) + "\n")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            frame = read_table(tmp_path / "t.csv", **options)
        return frame, [str(one.message) for one in caught]

    return read


def test_dates_whose_order_is_sure(read: Read) -> None:
    frame, told = read(
        {
            "dots": ["1.8.2022", "27.8.2022", ""],
            "day": ["01/02/2022", "", "13/02/2022"],
            "month": ["01-02-2022", "02-13-2022", "NA"],
            "sas": ["27AUG2022", "01JAN2022", ""],
        }
    )
    assert told == []
    assert frame["dots"].dt.day.tolist()[:2] == [1, 27]
    assert frame["day"].dt.month.tolist()[::2] == [2, 2]
    assert frame["month"].dt.month.tolist()[:2] == [1, 2]
    assert {dtype.kind for dtype in frame.dtypes} == {"M"}
    assert forms_of(frame) == {"dots": "D.M.YYYY", "day": "DD/MM/YYYY", "month": "MM-DD-YYYY", "sas": "DDMONYYYY"}


def test_dates_whose_order_no_cell_tells_stay_texts(read: Read) -> None:
    columns = {"seen": ["01/02/2022", "03/04/2022"], "x": ["1", "2"]}
    frame, (told,) = read(columns)
    assert frame["seen"].tolist() == columns["seen"]
    assert told == (
        "t.csv: column 'seen' holds dates whose order no cell tells, such as '01/02/2022': it is left as text; if the "
        "day stands first, pass date_order='day', or, if the month stands first, pass date_order='month'"
    )
    for order, months in (("day", [2, 4]), ("month", [1, 3])):
        frame, told_too = read(columns, date_order=order)
        assert (frame["seen"].dt.month.tolist(), told_too) == (months, [])
    assert read(columns, string_columns=["seen"])[1] == []
    with pytest.raises(ValueError, match="date_order must be 'day' or 'month', got 'year'"):
        read(columns, date_order="year")


def test_the_order_of_another_column_is_told(read: Read) -> None:
    columns = {"seen": ["01/02/2022", "03/04/2022"], "born": ["27/08/1950", "01/01/1950"]}
    frame, (told,) = read(columns)
    assert frame["seen"].dt.month.tolist() == [2, 4]
    assert told == (
        "t.csv: column 'seen' holds dates whose order none of their cells tells, such as '01/02/2022', and was read "
        "with the day first, as in column 'born'; if that is wrong, pass date_order='month', or to silence this, pass "
        "date_order='day'"
    )
    frame, told_too = read(columns, date_order="month")
    assert (frame["seen"].dt.month.tolist(), told_too) == ([1, 3], [])
    assert frame["born"].dt.month.tolist() == [8, 1], "its own cells tell it"
    frame, told_too = read({**columns, "died": ["08/27/2022", "08/28/2022"]})
    assert holds_text(frame["seen"].dtype), "two columns contradict each other"
    frame, told_too = read({"seen": columns["seen"], "born": ["27-08-1950", "01-01-1950"]})
    assert holds_text(frame["seen"].dtype), "the other column is written with dashes"


@pytest.mark.parametrize(
    ("cells", "told"),
    [
        (["27/08/2022", "08/27/2022"], "dates with the day first, such as '27/08/2022', and with the month first"),
        (["27.08.22", "01.02.23"], "dates with years of two digits, such as '27.08.22', whose century is open"),
        (["27-Aug-22", "01-Feb-2023"], "dates with years of two digits, such as '27-Aug-22'"),
        (["27.08.2022", "2022-08-28"], "dates or times in several forms, such as '27.08.2022' and '2022-08-28'"),
        (["27.08.2022", "14:05"], "dates or times in several forms, such as '27.08.2022' and '14:05'"),
        (["2:05 PM", "14:05"], "dates or times in several forms, such as '2:05 PM' and '14:05'"),
        (
            ["27.08.2022", "30.02.2022"],
            f"'30.02.2022' in 1 cell, no date from {REACH}, so that the whole column is text",
        ),
        (
            ["27.08.2022 10:00:00.000000001", "31.12.9999 10:00"],
            "'31.12.9999 10:00' in 1 cell, no date from 1678 to 2261, so that the whole column is text",
        ),
        (
            ["2022-08-27T10:00:00.000000001", "9999-12-31"],
            "'9999-12-31' in 1 cell, no date from 1678 to 2261, so that the whole column is text",
        ),
    ],
)
def test_columns_of_dates_that_stay_texts(read: Read, cells: list[str], told: str) -> None:
    frame, (found,) = read({"x": ["1", "2"], "d": cells})
    assert frame["d"].tolist() == cells
    assert found.startswith(f"t.csv: column 'd' holds {told}")


@pytest.mark.parametrize("far", ["31.12.9999", "9999-12-31"])
def test_dates_that_only_microseconds_reach(read: Read, far: str) -> None:
    """They are dates where pandas counts microseconds."""
    near = far.replace("9999", "2022")
    frame, found = read({"x": ["1", "2"], "d": [near, far]})
    if TIME == "datetime64[ns]":
        assert frame["d"].tolist() == [near, far]
        assert found[0].startswith(f"t.csv: column 'd' holds '{far}' in 1 cell, no date from 1678 to 2261, so that")
    else:
        assert found == []
        assert frame["d"].dt.year.tolist() == [2022, 9999]
        assert frame["d"].dtype == TIME


def test_one_text_among_dates_or_times_is_named(read: Read) -> None:
    frame, (told,) = read({"d": ["1.8.2022", "2.8.2022", "later", "3.8.2022"], "n": list("1234")})
    assert holds_text(frame["d"].dtype)
    assert told.startswith("t.csv holds 'later' in 1 cell of column 'd': such texts are categories, ")
    frame, (told,) = read({"d": ["9:05", "14:05", "noon", "16:00"], "n": list("1234")})
    assert holds_text(frame["d"].dtype)
    assert told.startswith("t.csv holds 'noon' in 1 cell of column 'd': ")


_AMONG = "in 1 cell among dates or times such as"
_LEFT = ": it is left as text; write all in one form, or, if they stand for missing cells, name them, missing_values="


@pytest.mark.parametrize(
    ("cells", "odd", "told"),
    [
        (
            ["27.8.2022", "2.9.2022", "3.9.2022"],
            "0",
            "t.csv holds '0' in 1 cell of column 'd': such texts are categories",
        ),
        (["27.8.2022", "2.9.2022", "3.9.2022"], "00.00.0000", "t.csv holds '00.00.0000' in 1 cell of column 'd': such"),
        (["2022-08-27", "2022-09-02", "2022-09-03"], "1900", "t.csv holds '1900' in 1 cell of column 'd': such texts"),
        (
            ["27.8.2022", "2.9.2022", "3.9.2022"],
            "0000-00-00",
            f"t.csv: column 'd' holds '0000-00-00' {_AMONG} '27.8.2022'{_LEFT}['0000-00-00']",
        ),
        (
            ["2022-08-27", "2022-09-02", "2022-09-03"],
            "31.02.2022",
            f"t.csv: column 'd' holds '31.02.2022' {_AMONG} '2022-08-27'{_LEFT}['31.02.2022']",
        ),
        (
            ["27.8.2022 9:05", "2.9.2022 9:10", "3.9.2022 9:00"],
            "3.9.2022 24:00",
            "t.csv holds '3.9.2022 24:00' in 1 cell",
        ),
    ],
)
def test_few_cells_that_make_text_of_a_column_of_dates_are_told(
    read: Read, cells: list[str], odd: str, told: str
) -> None:
    frame, (found,) = read({"d": [*cells, odd], "n": list("1234")})
    assert frame["d"].tolist() == [*cells, odd]
    assert found.startswith(told)
    assert ("write 24:00 as 00:00 of the next day" in found) == ("24:00" in odd)
    # As a missing value of the whole table, a number would empty other columns.
    assert ("missing_values" in found) == (not odd.isdecimal())
    assert ("leave the cells of" in found) == odd.isdecimal()
    assert read({"d": [*cells, ""], "n": list("1234")})[1] == []


def test_a_date_among_numbers_is_told(read: Read) -> None:
    _, (told,) = read({"x": ["1.5", "2.5", "3", "2022-08-27"], "n": list("1234")})
    assert told.startswith("t.csv holds '2022-08-27' in 1 cell of column 'x': ")
    assert "if they stand for missing cells, leave the cells of '2022-08-27' empty" in told
    assert "missing_values" not in told


@pytest.mark.parametrize(
    ("cells", "odd", "others"),
    [
        (["27.8.2022", "2.9.2022", "3.9.2022"], "2022-08-30", ["2022-08-30", "2022-09-02", "2022-09-03", "2022-09-04"]),
        (["2022-08-27", "2022-09-02", "2022-09-03"], "30.8.2022", ["30.8.2022", "2.9.2022", "3.9.2022", "4.9.2022"]),
        (["27.8.2022", "2.9.2022", "3.9.2022"], "14:05", ["14:05", "9:05", "10:30", "11:45"]),
        (
            ["2022-08-27 10:00Z", "2022-09-02 10:00Z", "2022-09-03 10:00Z"],
            "2022-08-30 10:00",
            ["2022-08-30 10:00", "2022-09-02 10:00", "2022-09-03 10:00", "2022-09-04 10:00"],
        ),
    ],
)
def test_no_date_or_time_is_to_be_a_mark_that_empties_true_cells(
    read: Read, cells: list[str], odd: str, others: list[str]
) -> None:
    columns = {"d": [*cells, odd], "e": others}
    _, told = read(columns)
    (about,) = (text for text in told if "column 'd'" in text)
    assert "missing_values" not in about
    assert f"leave the cells of '{odd}' empty" in about or "if it stands for a missing cell, leave it empty" in about
    assert read(columns, missing_values=[odd])[0]["e"].isna().sum() == 1, "what naming it would do"
    assert read({"d": [*cells, ""], "e": others})[0].isna().sum().tolist() == [1, 0]


def test_the_end_of_a_day_is_told(read: Read) -> None:
    frame, (told,) = read({"at": ["09:05", "24:00", "14:30"], "n": list("123")})
    assert frame["at"].max() == pd.Timedelta(hours=24)
    assert told == (
        "t.csv: column 'at' holds '24:00' in 1 cell, read as the end of the day, after all other times; if it is "
        "midnight at the beginning of a day, write 00:00"
    )
    assert read({"at": ["09:05", "24:00", "30:30"], "n": list("123")})[1] == [], "durations"


@pytest.mark.parametrize("mark", ["1.1.1900", "1900-01-01", "01/01/1900", "1 January 1900"])
def test_a_date_in_any_form_marks_missing_cells(read: Read, mark: str) -> None:
    columns = {"d": ["01.01.1900", "27.08.2022", "28.08.2022"], "n": list("123")}
    frame, told = read(columns, missing_values=[mark])
    assert (frame["d"].isna().tolist(), told) == ([True, False, False], [])
    frame, told = read({"d": ["1900-01-01", "2022-08-27", "2022-08-28"], "n": list("123")}, missing_values=[mark])
    assert (frame["d"].isna().tolist(), told) == ([True, False, False], [])


def test_marks_are_read_in_the_order_of_their_column(read: Read) -> None:
    columns = {"d": ["01/02/1900", "02/01/1900", "28/08/2022"], "at": ["09:05", "10:00", "23:10"], "n": list("123")}
    frame, told = read(columns, missing_values=["1/2/1900", "9:05"])
    assert (frame.isna().sum().tolist(), told) == ([1, 1, 0], [])
    assert frame["d"].isna()[0], "the first of February"


def test_marks_that_no_cell_has_are_told(read: Read) -> None:
    columns = {"d": ["01.01.1900", "27.08.2022"], "n": ["-9", "2.50"], "t": ["x", "say"]}
    frame, (told,) = read(columns, missing_values=["02.01.1900", "?", -9, -99])
    assert told == (
        "t.csv: no cell is '02.01.1900', '?', -99, given as missing values: write them as the cells have them"
    )
    assert frame.isna().sum().tolist() == [0, 1, 0]
    assert read(columns, missing_values=["-9", -9, "x", "2.5", 2.5, "say"])[1] == []
    assert read(columns, missing_values=["99", 99])[1] == [
        "t.csv: no cell is '99', given as a missing value: write it as the cells have it"
    ]


@pytest.mark.parametrize("separator", ["~", "^", ":", "]", "-", ",", ";", r"\s+"])
def test_marks_are_found_between_any_separators(tmp_path: Path, separator: str) -> None:
    sign = " " if separator == r"\s+" else separator
    mark = 9 if separator == "-" else -9
    rows = [("a", "b"), (str(mark), "x"), ("3", "?"), ("4.5", "y")]
    (tmp_path / "t.csv").write_text("".join(f"{sign.join(row)}\n" for row in rows))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        frame = read_table(tmp_path / "t.csv", separator=separator, missing_values=[mark, str(mark), "?"])
    assert frame.isna().to_numpy().tolist() == [[True, False], [False, True], [False, False]]


@pytest.mark.parametrize(
    ("cell", "mark"),
    [
        ("1e3", "1000"),
        ("1E3", "1e3"),
        ("1000", "1e3"),
        ("-1.50E+03", "-1500"),
        ("-.15e4", "-1500.0"),
        ("100e-1", "10"),
        (".5", "0.5"),
        ("-0.50", "-.5"),
        ("5e-1", ".5"),
        ("0e5", "0"),
        (".0", "0.0"),
        ("+7.0", "7"),
    ],
)
def test_marks_that_write_a_number_otherwise_are_found(read: Read, cell: str, mark: str) -> None:
    frame, told = read({"a": [cell, "2.25", "3"], "n": list("456")}, missing_values=[mark])
    assert (frame["a"].isna().tolist(), told) == ([True, False, False], [])
    frame, told = read({"a": [cell, "2.25", "3"], "n": list("456")}, missing_values=[mark, float(mark)])
    assert (frame["a"].isna().tolist(), told) == ([True, False, False], [])
    (told,) = read({"a": ["2.25", "3"], "n": [f"{cell}1", "x"]}, missing_values=[mark])[1]
    assert told.startswith(f"t.csv: no cell is {mark!r}, given as a missing value")


def test_marks_that_write_the_number_of_cells_that_stay_are_told(read: Read) -> None:
    for cells, mark in ((["1000", "3"], "1e3"), (["1e3", "x"], "1000"), ([".5", "x"], "0.5")):
        frame, told = read({"a": cells, "n": ["4", "5"]}, missing_values=[mark])
        assert frame["a"].astype(str).tolist() == cells
        assert f"t.csv: no cell is {mark!r}, given as a missing value: write it as the cells have it" in told
    # The parser has removed the cell of one column, so that the mark is not idle.
    assert read({"a": ["1000", "3"], "b": ["1e3", "2.5"]}, missing_values=["1e3"])[1] == []
    assert read({"a": ["1000", "3"], "b": ["1000.0", "2.5"]}, missing_values=["1e3"])[1] == []


def test_a_mark_as_text_and_number_is_looked_for_once(read: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, find = list[str](), Lines.find

    def note(lines: Lines, pattern: re.Pattern[bytes]) -> Iterator[re.Match[bytes]]:
        asked.append(pattern.pattern.decode())
        return find(lines, pattern)

    monkeypatch.setattr(Lines, "find", note)
    (told,) = read({"a": ["1.5", "3"], "n": ["4", "5"]}, missing_values=["-9", -9, -9.0])[1]
    assert "no cell is '-9'" in told
    assert (len(asked), len(set(asked))) == (2, 2), "as it is written, and by its value"


def test_marks_of_a_model_need_no_cell(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "marks.csv").write_text("a,b\n" + "".join(f"{n},{n % 7}\n" for n in range(30)) + "-9,?\n")
    (folder / "rest.csv").write_text("a,b\n1,2\n,3\n4,5\n")
    marks = ["--missing-values=-9", "--missing-values=?"]
    model = str(folder / "marks")
    fit = ["fit", str(folder / "marks.csv"), "-o", model, "--set", "training.steps=1", "--quiet"]
    assert main([*fit, *marks]) == 0
    assert "no cell is" not in capsys.readouterr().err
    assert main(["impute", model, str(folder / "rest.csv"), "-o", str(folder / "filled.csv"), "--quiet"]) == 0
    assert "no cell is" not in capsys.readouterr().err
    assert main(["plan", str(folder / "rest.csv"), *marks[1:]]) == 0
    assert "no cell is '?', given as a missing value" in capsys.readouterr().err


def test_names_of_months_in_english_and_german(read: Read, tmp_path: Path) -> None:
    columns = {
        "full": ["27 August 2022", "1 May 2022", "3 October 2022"],
        "german": ["27. Mai 2022", "1. Oktober 2022", "3. März 2022"],
        "short": ["27-Dez-2022", "01-Okt-2022", "03-Mrz-2022"],
        "other": ["27 MÄR 2022 10:05", "01 DEZ 2022 09:00", "03 JAN 2022 11:00"],
    }
    frame, told = read(columns)
    assert told == []
    assert frame.apply(lambda column: column.dt.month).to_numpy().T.tolist() == [
        [8, 5, 10],
        [5, 10, 3],
        [12, 10, 3],
        [3, 12, 1],
    ]
    assert forms_of(frame) == {
        "full": "D Month YYYY",
        "german": "D. Monat YYYY",
        "short": "DD-Mrz-YYYY",
        "other": "DD MÄR YYYY hh:mm",
    }
    write_table(frame, tmp_path / "again.csv")
    assert (tmp_path / "again.csv").read_text() == (tmp_path / "t.csv").read_text()
    assert read({"d": ["27. Jänner 2022", "1. März 2022"], "n": list("12")})[0]["d"].dt.month.tolist() == [1, 3]


def test_texts_that_are_no_dates_stay_texts(read: Read) -> None:
    columns = {
        "pressure": ["120/80", "135/90", "110/70"],
        "part": ["1/2", "2/2", "1/2"],
        "version": ["1.2.2003", "1.15.0", "2.0.1"],
        "phone": ["555-123-4567", "555-124-4567", "555-123-4568"],
        "titre": ["1:10", "1:20", "1:40"],
        "ratio": ["120:80", "1:80", "2:30"],
        "many": ["1:10", "1:20", "1:80"],
        "code": ["32-01-2003", "45-2-2003", "3-4-2003"],
    }
    frame, told = read(columns)
    assert told == []
    assert frame.to_dict("list") == columns


def test_times_of_day_are_durations(read: Read, tmp_path: Path) -> None:
    columns = {"at": ["14:05", "", "09:05"], "clock": ["0:00:00", "23:59:59", "9:05:30"], "long": ["25:10", "9:00", ""]}
    frame, told = read(columns)
    assert told == []
    assert frame["at"].tolist()[::2] == [pd.Timedelta(hours=14, minutes=5), pd.Timedelta(hours=9, minutes=5)]
    assert frame["long"].tolist()[0] == pd.Timedelta(hours=25, minutes=10)
    assert forms_of(frame) == {"at": "hh:mm", "clock": "h:mm:ss", "long": "h:mm"}
    write_table(frame, tmp_path / "o.csv")
    assert (tmp_path / "o.csv").read_text() == (tmp_path / "t.csv").read_text()
    write_table(frame, tmp_path / "o.parquet")
    assert read_table(tmp_path / "o.parquet")["at"].equals(frame["at"]), "durations, as other formats hold them"


def test_usual_marks_among_numbers_and_dates(read: Read) -> None:
    columns = {
        "crea": ["0.8", "?", "1.1", "-", "?"],
        "seen": ["1.8.2022", "27.8.2022", "unknown", "", "k.A."],
        "born": ["1950-01-01", ".", "1960-01-01", "1970-01-01", "."],
        "crp": ["<0.1", "0.5", "2.5", "7", "--"],
        "sex": ["m", "f", "unknown", "?", "m"],
    }
    frame, (told, sex) = read(columns)
    assert frame["crea"].isna().tolist() == [False, True, False, True, True]
    assert frame["crea"].dtype == "float64"
    assert frame["seen"].isna().tolist() == [False, False, True, True, True]
    assert frame["born"].dt.year.tolist()[2:4] == [1960, 1970]
    assert frame["crp"].tolist()[:4] == ["<0.1", "0.5", "2.5", "7"]
    assert pd.isna(frame["crp"][4])
    assert frame["sex"].tolist() == columns["sex"], "categories"
    assert told.startswith("t.csv: '.' in 2 cells of column 'born'; '?' in 2 cells of column 'crea'; '-' in 1 cell of ")
    assert "; and 3 more, among numbers or dates, were read as missing; if they are values, read the 4 columns " in told
    assert "if they are missing in columns of text, too, name them, missing_values=['.', '?', '-'" in told
    assert sex.startswith("t.csv holds '?' in 1 cell of column 'sex'")
    kept, told_now = read(columns, string_columns=["crea", "seen", "born", "crp", "sex"])
    assert (kept.astype(object).fillna("").to_dict("list"), told_now) == (columns, [])
    named, told_now = read(columns, missing_values=["?", "-", "unknown", "k.A.", ".", "--"])
    assert (named["crea"].equals(frame["crea"]), told_now) == (True, [])


@pytest.mark.parametrize(
    "cells",
    [
        ["1", "-", "1", "-"],  # a flag
        ["1", "-", "a", "2"],
        ["-", "+", "++", "1"],
        ["none", "1", "2", "none"],
        ["-", "-", "?", "-"],
    ],
    ids=" ".join,
)
def test_marks_of_other_columns_are_texts(read: Read, cells: list[str]) -> None:
    frame, _ = read({"x": cells, "n": list("1234")})
    assert frame["x"].tolist() == cells


def test_marks_among_identifiers_with_leading_zeros(read: Read) -> None:
    cells = [f"{number:06}" for number in range(137, 400)]
    frame, told = read({"patient_id": [*cells, "?"], "x": [str(i % 7) for i in range(264)]})
    assert frame["patient_id"].tolist()[:263] == cells
    assert pd.isna(frame["patient_id"][263])
    assert told[0].startswith("t.csv: '?' in 1 cell of column 'patient_id', among numbers")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An export of a hospital, and a model of it."""
    folder, random = tmp_path_factory.mktemp("export"), np.random.default_rng(0)
    names = ["admission", "born", "sas", "at", "crea", "sex"]
    rows = []
    for _ in range(80):
        day, month, hour, minute = (int(random.integers(1, top)) for top in (29, 13, 24, 60))
        cells = [
            f"{day}.{month}.{2020 + day % 2} {hour}:{minute:02}",
            f"{month:02}/{day:02}/{1930 + day}",
            f"{day:02}{date(2022, month, day):%b}2022".upper(),
            f"{hour:02}:{minute:02}",
            ["0.8", "1.1", "?", "-", "2.3"][minute % 5],
            "mf"[day % 2],
        ]
        rows.append(["" if random.random() < 0.1 else cell for cell in cells])
    (folder / "t.csv").write_text("\n".join([",".join(names), *map(",".join, rows)]) + "\n")
    fit = ["--steps", "2", "--no-refine", "--width", "16", "--seed", "0"]
    assert main(["fit", f"{folder}/t.csv", "-o", f"{folder}/m", *fit]) == 0
    return folder


SHAPES = {
    "admission": r"\d{1,2}\.\d{1,2}\.202[01] \d{1,2}:\d\d",
    "born": r"[01]\d/[0-3]\d/19\d\d",
    "sas": r"[0-3]\d[A-Z]{3}2022",
    "at": r"[0-2]\d:[0-5]\d",
    "crea": r"\d\.\d",
}


def test_rows_drawn_have_the_forms_of_the_file(folder: Path) -> None:
    assert main(["sample", f"{folder}/m", "-n", "30", "-o", f"{folder}/s.csv", "--seed", "0"]) == 0
    drawn = pd.read_csv(folder / "s.csv", dtype=str)
    for name, shape in SHAPES.items():
        assert drawn[name].str.fullmatch(shape).all(), name


def test_imputing_writes_observed_cells_as_they_are(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["impute", f"{folder}/m", f"{folder}/t.csv", "-o", f"{folder}/f.csv"]) == 0
    assert "among numbers or dates, were read as missing" in capsys.readouterr().err
    before, after = (pd.read_csv(folder / name, dtype=str, keep_default_na=False) for name in ("t.csv", "f.csv"))
    for name, shape in SHAPES.items():
        holes = before[name].isin(["", "?", "-"])
        assert holes.any()
        assert (after[name] == before[name])[~holes].all(), name
        assert after[name][holes].str.fullmatch(shape).all(), name


def test_a_model_knows_the_order_of_its_dates(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of cells none of which tells it, and beside numbers of which none is left."""
    path = folder / "few.csv"
    path.write_text("admission,born,sas,at,crea,sex\n,02/03/1940,,9:05,?,m\n1.2.2020,,27AUG2022,,?,f\n")
    assert main(["impute", f"{folder}/m", str(path)]) == 0
    out, said = capsys.readouterr()
    assert "order" not in said
    rows = [line.split(",") for line in out.splitlines()[1:]]
    assert rows[0][1] == "02/03/1940"
    assert rows[1][1][:2] in {f"{month:02}" for month in range(1, 13)}
    assert all(float(row[4]) > 0 for row in rows)


@pytest.mark.parametrize(
    ("given", "column", "shape"),
    [
        ("admission=27.8.2020", "admission", r"27\.8\.2020 0:00"),
        ("admission=2020-08-27 14:05", "admission", r"27\.8\.2020 14:05"),
        ("admission=01.01.2020..31.12.2020", "admission", r".*\.2020 .*"),
        ("admission=2020-01-01..2020-12-31", "admission", r".*\.2020 .*"),
        ("born=08/27/1950", "born", "08/27/1950"),
        ("at=9:05", "at", "09:05"),
        ("at=12:00..14:00", "at", r"1[234]:\d\d"),
    ],
)
def test_given_values_in_the_form_of_the_column(
    folder: Path, capsys: pytest.CaptureFixture[str], given: str, column: str, shape: str
) -> None:
    assert main(["sample", f"{folder}/m", "-n", "3", "--given", given, "-o", f"{folder}/g.csv", "--seed", "0"]) == 0
    assert pd.read_csv(folder / "g.csv", dtype=str)[column].str.fullmatch(shape).all()


def test_given_values_in_another_form_are_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sample = ("sample", folder / "m", "-n", "3", "--given")
    assert "'5/8/2020' is no date and time such as 2024-02-29 13:30 or 27.8.2022 14:05 (column 'admission')" in refused(
        capsys, *sample, "admission=5/8/2020"
    )
    assert "(column 'born')" in refused(capsys, *sample, "born=27/08/1950")
    assert "'noon' is no duration such as 90min or 14:05 (column 'at')" in refused(capsys, *sample, "at=noon")


def test_given_texts_in_python(folder: Path) -> None:
    model = MissDiff.load(folder / "m")
    for text in ("27.8.2020 14:05", "2020-08-27 14:05", "08/27/2020 2:05 PM", "27 August 2020 14:05"):
        rows = model.sample(2, given={"admission": text}, random_state=0)
        assert rows["admission"].tolist() == [pd.Timestamp("2020-08-27 14:05")] * 2
    rows = model.sample(2, given={"at": "9:05"}, random_state=0)
    assert rows["at"].tolist() == [pd.Timedelta(hours=9, minutes=5)] * 2
    told = (
        "given value '5/8/2020' of column 'admission' is no date or time, or may be several: write it like 27.8.2022 14"
    )
    with pytest.raises(TypeError, match=told):
        model.sample(2, given={"admission": "5/8/2020"})
    with pytest.raises(TypeError, match=r"given value '27/08/1950' of column 'born'.*: write it like 08/27/2022"):
        model.sample(2, given={"born": "27/08/1950"})


@pytest.mark.parametrize("text", ["2022-02-30", "30.2.2022"])
def test_given_days_that_do_not_exist_are_named(folder: Path, text: str) -> None:
    with pytest.raises(TypeError, match=f"given value '{text}' of column 'admission' is no date"):
        MissDiff.load(folder / "m").sample(2, given={"admission": text})


@pytest.mark.parametrize(("form", "text"), [("YYYY/MM/DD", "01/02/2022"), ("DD-Mon-YYYY", "01-02-2022")])
def test_a_known_form_of_other_dates_tells_no_order(form: str, text: str) -> None:
    with pytest.warns(DataWarning, match="column 'seen' holds dates whose order no cell tells"):
        assert read_local_dates({"seen": Texts({text: 2}, form)}, "t.csv") == ({}, {})


def test_plans_tell_the_forms(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", f"{folder}/t.csv", "--json"]) == 0
    columns = {one["column"]: one for one in json.loads(capsys.readouterr().out)["columns"]}
    assert columns["admission"]["warnings"] == ["dates written as D.M.YYYY h:mm"]
    assert columns["at"]["warnings"] == ["times of day written as hh:mm"]
    assert {columns[name]["treatment"] for name in SHAPES} == {"continuous"}


def test_the_order_of_dates_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, plan = tmp_path / "t.csv", tmp_path / "p.toml"
    data.write_text("seen,x\n" + "".join(f"0{i % 9 + 1}/0{i % 7 + 1}/2022,{i % 5}\n" for i in range(70)))
    assert main(["plan", str(data)]) == 0
    assert "if the month stands first, pass --date-order month" in capsys.readouterr().err
    assert main(["plan", str(data), "--date-order", "day", "-o", str(plan)]) == 0
    out, said = capsys.readouterr()
    assert "dates written as DD/MM/YYYY" in out
    assert said == ""
    assert 'date-order = "day"' in plan.read_text()
    assert "invalid choice: 'year'" in refused(capsys, "plan", data, "--date-order", "year")
