"""Delimited text read as it is meant, or refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from frames import TEXT

from missdiff_fast.table import read_table


@pytest.fixture
def read(tmp_path: Path):
    def read(text: str | bytes, name: str = "table.csv", **options: object) -> pd.DataFrame:
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return read_table(path, **options)  # type: ignore[arg-type]

    return read


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_separator_line_ends_and_encoding_are_found(read, separator: str, end: str, encoding: str) -> None:
    lines = [["name", "µg/L", "n"], ["Zoë", "1.5", "3"], ["O'Neil", "", "4"], ["Åke", "2.25", "5"]]
    text = end.join(separator.join(line) for line in lines) + end
    frame = read(text.encode(encoding))
    assert list(frame.columns) == ["name", "µg/L", "n"]
    assert frame["name"].tolist() == ["Zoë", "O'Neil", "Åke"]
    assert frame["n"].tolist() == [3, 4, 5]
    np.testing.assert_array_equal(frame["µg/L"], [1.5, np.nan, 2.25])


def test_separator_and_encoding_given(read) -> None:
    assert read("a:b\n1:2\n", separator=":")["b"].tolist() == [2]
    assert read("a  b\n1   2\n\n3 4\n", separator=r"\s+")["b"].tolist() == [2, 4]
    assert read("a,b\nЖ,2\n".encode("koi8-r"), encoding="koi8-r")["a"].tolist() == ["Ж"]
    for separator in ("::", "", "\n", "\r", "é", '"'):
        with pytest.raises(ValueError, match="separator must be one character of ASCII"):
            read("a,b\n1,2\n", "table.tsv", separator=separator)
    with pytest.raises(ValueError, match="encoding 'utf-99' is not known"):
        read("a,b\n1,2\n", encoding="utf-99")
    with pytest.raises(ValueError, match=r"table\.csv is not utf-8 text .* give the right encoding"):
        read("a,b\né,2\n".encode("latin-1"), encoding="utf-8")
    with pytest.raises(ValueError, match="holds NUL characters"):
        read(b"a,b\n\x00,2\n")


def test_suffixes_tell_separators(read) -> None:
    assert read("a,x\tb\n1,5\t2\n", "t.tsv").columns.tolist() == ["a,x", "b"]
    assert read("a,x|b\n1,5|2\n", "t.psv").columns.tolist() == ["a,x", "b"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a;b\n2,6;1\n3;1\n", [2.6, 3.0]),
        ("a;b\n2,625;1\n0,5;1\n", [2.625, 0.5]),
        ("a;b\n-1,5;x\n1,25;18.00.00\n", [-1.5, 1.25]),
        ("a;b\n1,234;1\n5,678;1\n", ["1,234", "5,678"]),
        ("a;b\n1,5;1.5\n2,5;2.5\n", ["1,5", "2,5"]),
        ("a;b\n1.5;1\n2.5;1\n", [1.5, 2.5]),
    ],
)
def test_decimal_comma_is_found_where_it_is_sure(read, text: str, expected: list[object]) -> None:
    assert read(text)["a"].tolist() == expected


def test_decimal_given(read) -> None:
    assert read("a;b\n1,234;1\n", decimal=",")["a"].tolist() == [1.234]
    with pytest.raises(ValueError, match="decimal must be"):
        read("a;b\n1,234;1\n", decimal="'")


def test_thousands_are_not_guessed(read) -> None:
    assert read('a,b\n"1,234",1\n"5,678",2\n')["a"].tolist() == ["1,234", "5,678"]


def test_quotes(read) -> None:
    frame = read('name,n,note\n"Allen, Miss",1,"two\nlines"\n"say ""hi""",2,"a,b"\n')
    assert frame["name"].tolist() == ["Allen, Miss", 'say "hi"']
    assert frame["note"].tolist() == ["two\nlines", "a,b"]


@pytest.mark.parametrize("rows", [2, 30_000])
def test_a_quote_that_is_not_closed_is_told(read, rows: int) -> None:
    with pytest.raises(ValueError, match=r'table.csv, line 3: a quote \("\) opens in the row .* is not closed'):
        read('a,b\n1,2\n3,"4\n' + "5,6\n" * rows)
    with pytest.raises(ValueError, match=r"line 4: a quote"):
        read('a,b\n1,"x\ny"\n"3,4')


def test_missing_cells(read) -> None:
    words = ["", "NA", "NaN", "nan", "NULL", "null", "<NA>", "N/A", "n/a", "#N/A", '""']
    frame = read("a,b\n" + "".join(f"{word},1\n" for word in words) + "None,1\n-,1\n")
    assert frame["a"].isna().sum() == len(words)
    assert frame["a"].tolist()[-2:] == ["None", "-"]


def test_missing_values_of_the_user(read) -> None:
    frame = read("a,b,c\n?,-200,x\n5, -200.0 ,?\n6,7.5,-200\n", missing_values=["?", -200])
    np.testing.assert_array_equal(frame["a"], [np.nan, 5, 6])
    np.testing.assert_array_equal(frame["b"], [np.nan, np.nan, 7.5])
    assert frame["c"].tolist()[::2] == ["x", "-200"]
    assert frame["c"].isna().tolist() == [False, True, False]
    with pytest.raises(TypeError, match="must be a list"):
        read("a\n1\n", missing_values="?")


def test_white_space_around_separators_goes(read) -> None:
    frame = read("  a , b ,c\nx ,  1 ,\t? \n y, 2, 7\n NA , ,8 \n", missing_values=["?"])
    assert list(frame.columns) == ["a", "b", "c"]
    assert frame["a"].tolist()[:2] == ["x", "y"]
    np.testing.assert_array_equal(frame["b"], [1, 2, np.nan])
    np.testing.assert_array_equal(frame["c"], [np.nan, 7, 8])
    assert frame["a"].isna().tolist() == [False, False, True]


def test_numbers_keep_every_digit(read) -> None:
    frame = read("a,b\n0.1,9007199254740993\n0.30000000000000004,1\n1.7976931348623157e308,18446744073709551615\n")
    assert frame["a"].tolist() == [0.1, 0.30000000000000004, 1.7976931348623157e308]
    assert frame["b"].tolist() == [9007199254740993, 1, 18446744073709551615]


SERIALS = [404684003123456789, 404684003123456790, 404684003123456791]


@pytest.mark.parametrize(
    ("first", "dtype"),
    [
        (SERIALS[0], "Int64"),
        (2**53 + 1, "Int64"),
        (-(2**63), "Int64"),
        (2**63 - 3, "Int64"),
        (2**63 + 1, "UInt64"),
        (2**64 - 3, "UInt64"),
    ],
)
@pytest.mark.parametrize("cell", ["{}", " {}", '"{}"', "{} "])
def test_whole_numbers_beyond_float64_with_holes_are_exact(read, first: int, dtype: str, cell: str) -> None:
    numbers = [first, first + 1, first + 2, 7]
    rows = [*map(cell.format, numbers), "", "NA", " ", "?", '""']
    frame = read("sn,b\n" + "".join(f"{row},1\n" for row in rows), missing_values=["?"])
    assert frame["sn"].dtype == dtype
    assert frame["sn"].tolist() == [*numbers, *[pd.NA] * 5]
    whole = read("sn,b\n" + "".join(f"{cell.format(number)},1\n" for number in numbers))["sn"]
    assert (whole.dtype, whole.tolist()) == (dtype.lower(), numbers)
    bare = read("".join(f"{row},1\n" for row in rows), header=False, missing_values=["?"])
    assert bare[0].tolist() == frame["sn"].tolist()


def test_whole_numbers_that_no_dtype_holds_stay_as_they_are_written(read) -> None:
    for first in ("-1", "18446744073709551616", "-9223372036854775809"):
        frame = read(f"a,b\n{first},1\n9223372036854775809,2\n,3\nNA,4\n5,5\n")
        assert frame["a"].dtype == TEXT
        assert frame["a"].tolist() == [first, "9223372036854775809", np.nan, np.nan, "5"]
    amounts = read("a,b\n18446744073709551616,1\n1.5,2\n,3\n")["a"]
    assert (amounts.dtype, amounts.tolist()[:2]) == ("float64", [2.0**64, 1.5]), "amounts are floats"
    assert read("a;b\n1.500;1\n2.500;2\n", decimal=",")["a"].tolist() == ["1.500", "2.500"], "thousands are not"


def test_a_mark_that_is_a_number_is_exact_too(read) -> None:
    text = "a,b\n9007199254740992,1\n9007199254740993,2\n,3\n"
    assert read(text, missing_values=[2**53 + 1])["a"].tolist() == [2**53, pd.NA, pd.NA]
    assert read(text, missing_values=[2.0**53])["a"].tolist() == [pd.NA, 2**53 + 1, pd.NA]
    assert read(text, missing_values=["9007199254740993"])["a"].tolist() == [2**53, pd.NA, pd.NA]
    assert read(text.replace(",3", "x,3"), missing_values=["9007199254740993", "x"])["a"].tolist()[0] == 2**53
    unsigned = "a,b\n18446744073709551615,1\n18446744073709551614,2\n"
    assert read(unsigned, missing_values=["18446744073709551615"])["a"].tolist() == [pd.NA, 2**64 - 2]
    beyond = "a,b\n18446744073709551616,1\n18446744073709551617,2\n"
    assert read(beyond, missing_values=["18446744073709551617"])["a"].isna().tolist() == [False, True]
    assert read("a,b\n1e20,1\n1.5,2\n", missing_values=["1e20"])["a"].isna().tolist() == [True, False]
    assert read(text.replace(",3", "1,3"), missing_values=[2.0**53])["a"].tolist()[1:] == [2**53 + 1, 1]


def test_a_mark_that_is_a_number_is_no_other_text(read) -> None:
    for own in ({}, {"string_columns": ["a"]}):
        texts = read("a,b\n7,1\n007,2\nx,3\n7.0,4\n", missing_values=["007"], **own)["a"]
        assert texts.isna().tolist() == [False, True, False, False]
    numbers = read("a,b\n-9.0,1\n-9,2\n1.5,3\n", missing_values=["-9"])["a"]
    assert numbers.isna().tolist() == [True, True, False], "but all forms of its number among numbers"


def test_iso_dates_are_dates_and_others_strings(read) -> None:
    frame = read("d,t,o,m\n2024-02-29,2024-02-29 13:30:00.5,1/2/2024,2024-01-01\n,2024-03-01T01:00,3/2/2024,soon\n")
    assert frame["d"].tolist() == [pd.Timestamp("2024-02-29"), pd.NaT]
    assert frame["t"].tolist() == [pd.Timestamp("2024-02-29 13:30:00.5"), pd.Timestamp("2024-03-01 01:00")]
    assert frame["o"].tolist() == ["1/2/2024", "3/2/2024"]
    assert frame["m"].tolist() == ["2024-01-01", "soon"]
    assert read("d,x\n2024-02-30,1\n2024-02-28,1\n")["d"].tolist() == ["2024-02-30", "2024-02-28"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2\n3\n", r"line 3: 1 field where the header has 2: mend"),
        ("a,b\n1,2\n3,4,5\n6,7\n8,9,10\n", r"line 3: 3 fields .* 2 \(and 1 more such: line 5\): mend"),
        ("a,b\n1,2,7\n3,4\n5,6\n", r"line 2: 3 fields where the header has 2"),
        ('a,b\n"x\ny",2\n3,4,5\n', r"line 4: 3 fields where the header has 2"),
        ("a,b\n1,2,\n3,4\n5,6,\n", r"line 3: 2 fields where most lines have 3"),
        ("a,b\n1,2,3,4\n1,2,3,4\n", r"line 2: 4 fields where the header has 2"),
        ("a,b\nr1,2,3\nr2,4,5\n", r"line 2: 3 fields where the header has 2: name every column"),
        ("a,b,c\n1,2\n3,4\n", r"line 2: 2 fields where the header has 3"),
    ],
)
def test_ragged_rows_are_refused_by_line(read, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read(text)


def test_a_separator_at_the_end_of_every_line(read) -> None:
    with pytest.warns(UserWarning, match="empty columns without a name were dropped"):
        frame = read("a,b\n1,2,\n3,4,\n")
    assert frame.to_dict("list") == {"a": [1, 3], "b": [2, 4]}
    with pytest.warns(UserWarning, match=r"dropped \(Unnamed: 2, Unnamed: 3\)"):
        frame = read("a;b;;\n1;2;;\n3;4;;\n")
    assert frame.to_dict("list") == {"a": [1, 3], "b": [2, 4]}
    assert list(read("a,b,\n1,2\n3,4\n").columns) == ["a", "b"]


def test_blank_rows_at_the_end_go_with_a_warning_and_others_stay(read) -> None:
    with pytest.warns(UserWarning, match="table.csv: 2 blank rows were dropped"):
        frame = read("a;b\n1;2\n\n3;\n;\n ; \n\n")
    assert frame["a"].tolist() == [1, 3]
    assert frame["a"].dtype == "int64"
    assert read("a;b\n1;2\n;\n\n3;\n")["a"].isna().tolist() == [False, True, False]
    assert read("a,b\n,\n1,2\n")["a"].isna().tolist() == [True, False]
    with pytest.warns(UserWarning, match=r"table\.csv: its last rows, 2, have no cell and are taken as rows"):
        assert read("a,b\n1,2\n,\n,\n", keep_blank_rows=True)["a"].isna().tolist() == [False, True, True]
    assert read('a,b\n"x, y",2\n"",\nz,1\n')["a"].isna().tolist() == [False, True, False]
    assert read(",\n1,2\n", header=False)[0].isna().tolist() == [True, False]
    assert read("a,b\nNA,NA\n1,2\n")["a"].isna().tolist() == [True, False], "missing is not blank"


@pytest.mark.filterwarnings("error")
def test_blank_lines_of_one_column_are_missing_cells(read) -> None:
    assert read("x\n\n1\n\n\n2\n")["x"].isna().tolist() == [True, False, True, True, False]
    assert read('x\n"a, b"\n\n""\nc\n""\n')["x"].isna().tolist() == [False, True, True, False, True]
    assert read("\n1\n\n2\n", header=False)[0].isna().tolist() == [True, False, True, False]
    assert read("title\n\nx\n1\n\n2", skip_rows=2)["x"].isna().tolist() == [False, True, False]
    assert read("x\n1\n\n2\n", separator=r"\s+")["x"].isna().tolist() == [False, True, False]
    with pytest.raises(UserWarning, match=r"2 blank lines at its end were dropped; .* write NA"):
        read("x\n1\n\n2\n\n\n")
    assert len(read("x\n1\n\n2\n\n\n", keep_blank_rows=True)) == 5


def test_column_without_name_but_with_cells_stays(read) -> None:
    frame = read(",x\n1,2\n3,4\n")
    assert list(frame.columns) == ["Unnamed: 0", "x"]


def test_header(read) -> None:
    frame = read("1,?,a\n2,5,b\n", header=False, missing_values=["?"])
    assert list(frame.columns) == [0, 1, 2]
    assert frame[2].tolist() == ["a", "b"]
    assert read("X1,X2\nid,age\n1,2\n", skip_rows=1).to_dict("list") == {"id": [1], "age": [2]}
    with pytest.warns(UserWarning, match="first line holds numbers such as '6'.* pass header=False"):
        assert len(read("6,148,x\n1,85,y\n")) == 1
    with pytest.raises(ValueError, match=r"column names '1', 'A' more than once in line 1: .*header=False"):
        read("A,1,A,1\n1,2,3,4\n")
    with pytest.raises(ValueError, match="skip_rows must be 0 or more, got -1"):
        read("a,b\n1,2\n", skip_rows=-1)


def test_line_breaks_within_names_stay(read) -> None:
    frame = read('"body\nweight",x,"first\r\nname",firstname\n1,2,a,b\n')
    assert list(frame.columns) == ["body\nweight", "x", "first\nname", "firstname"]
    assert frame.iloc[0].tolist() == [1, 2, "a", "b"]


def test_the_name_given_to_a_column_without_one_is_no_others(read) -> None:
    with pytest.raises(ValueError, match=r"'Unnamed: 1' more than once in line 1 \(a column .* called so\): give each"):
        read("a,,Unnamed: 1\n1,2,3\n")
    assert list(read("a,,Unnamed: 2\n1,2,3\n").columns) == ["a", "Unnamed: 1", "Unnamed: 2"]


def test_lines_that_differ_are_named(read) -> None:
    text = "a,b\n" + "1,2\n1,2,3\n" * 6 + "1,2\n"
    with pytest.raises(ValueError, match=r"line 3: .*\(and 5 more such: lines 5, 7, 9, \.\.\.\): mend"):
        read(text)


def test_one_column(read) -> None:
    assert read("x\n1\n2\n")["x"].tolist() == [1, 2]
    assert read('x\n"a, b"\n""\nc\n')["x"].tolist()[0] == "a, b"


@pytest.mark.parametrize("text", ["", "\n\n", "  \n"])
def test_empty_file(read, text: str) -> None:
    with pytest.raises(ValueError, match=r"table.csv is empty"):
        read(text)


def test_header_alone_gives_no_rows(read) -> None:
    assert read("a,b\n").shape == (0, 2)


def test_string_columns_are_read_as_they_are_written(read) -> None:
    text = "icd,day,n,empty,odd\n 007 ,2024-02-29,1,,a\n250,,2,NA,1\n4e1,2024-03-01,3, ,2.50\n"
    frame = read(text, string_columns=["icd", "day", "empty", "odd", "absent"])
    assert frame["icd"].tolist() == ["007", "250", "4e1"]
    assert frame["day"].tolist() == ["2024-02-29", np.nan, "2024-03-01"]
    assert frame["n"].dtype == np.int64
    assert frame["empty"].isna().all()
    assert frame["empty"].dtype == TEXT
    assert frame["odd"].tolist() == ["a", "1", "2.50"]
    assert read("1,x\n02,y\n", header=False, string_columns=["0"])[0].tolist() == ["1", "02"]
    assert read("a,b\n-9,1\n8,-9\n", string_columns=["a"], missing_values=["-9"])["a"].tolist() == [np.nan, "8"]
    marked = read("a,b\n-9.0,-9.0\n-09,8\n-9,9\n9,9\n", string_columns=["a"], missing_values=[-9])
    assert marked["a"].fillna("").tolist() == ["", "-09", "", "9"], "a number stands for its plain forms"
