"""Warnings of header lines and of markers of missing cells that no option names."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
from frames import REACH

from missdiff_fast.errors import DataWarning
from missdiff_fast.table import read_table


@pytest.fixture
def warned(tmp_path: Path):
    def warned(text: str, **options: object) -> list[str]:
        path = tmp_path / "t.csv"
        path.write_text(text)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            read_table(path, **options)  # type: ignore[arg-type]
        assert all(warning.filename == __file__ for warning in caught), "it tells where read_table was called"
        return [str(warning.message) for warning in caught]

    return warned


def test_a_header_of_numbers(warned) -> None:
    (text,) = warned("6,148,x\n1,85,y\n")
    assert text == (
        "t.csv: the first line holds numbers such as '6' and was read as the header; if it is not the header, pass "
        "header=False"
    )
    assert warned("6,148,x\n1,85,y\n", header=False) == []
    assert warned("6m,a,b,c\n1,2,3,4\n") == []
    assert warned("2019,a,b,c\n1,2,3,4\n") == [], "one year among four names"


def test_a_header_of_strings_that_come_again_below_it(warned) -> None:
    (text,) = warned("yes,low,left\nno,high,left\nyes,low,right\n")
    assert "the first line holds 'yes', which comes again below it, and was read as the header" in text
    assert text.endswith("if it is not the header, pass header=False")
    assert warned("a,low,side,x\nno,low,left,1\nyes,low,right,2\n") == [], "one cell among four"


def test_a_second_header(warned) -> None:
    text = "X1,X2,X3\nage,sex,stay\n1,2,3\n4,5,6\n"
    (found,) = warned(text)
    assert found == (
        "t.csv: line 2 holds texts such as 'age' where all others hold numbers; if it is the header and the line "
        "before it is not, pass skip_rows=1, or, if it holds units, types or labels, leave it out, skip_lines=[2]"
    )
    assert warned(text, skip_rows=1) == []
    assert (
        "pass skip_rows=2, or, if it holds units, types or labels, leave it out, skip_lines=[3]"
        in (warned("title,,\n" + text, skip_rows=1)[-1])
    )


def test_a_header_read_as_data(warned) -> None:
    (found,) = warned("age,sex,stay\n1,m,?\n4,f,6\n7,f,8\n", header=False, missing_values=["?"])
    assert found == (
        "t.csv: line 1 holds texts such as 'age' where all others hold numbers; if it is the header, leave out "
        "header=False"
    )
    header, marks = warned("age,sex,stay\n1,m,?\n4,f,6\n7,f,8\n", header=False)
    assert header == found
    assert marks.startswith("t.csv holds '?' in 1 cell of column 2: ")
    names = "age," + ",".join(f"name{i}" for i in range(9))
    rows = "".join(f"{i}," + ",".join("abc"[(i + j) % 3] for j in range(9)) + "\n" for i in range(6))
    (found,) = warned(f"{names}\n{rows}", header=False)
    assert "such as 'age'" in found, "the only column of numbers"
    (found,) = warned("1,lost,2,5\n1,3,2,5\n4,5,6,8\n7,7,8,8\n", header=False)
    assert "'lost' in 1 cell of column 1" in found, "a mark in the first row"


def test_texts_among_dates(warned) -> None:
    (found,) = warned("d,n\n2024-01-05,1\nlater,2\n2024-01-06,3\n2024-01-07 10:30,4\n")
    assert found.startswith("t.csv holds 'later' in 1 cell of column 'd': such texts are categories, ")


def test_cells_that_make_texts_of_dates_or_numbers(warned) -> None:
    text = "d,x,n,k\n2020-02-28,1.5,18446744073709551616,a\n2020-02-30,1e999,7,b\n,-2.5,,c\n2020-03-01,,9,a\n"
    days, sizes, wholes = warned(text)
    end = ", so that the whole column is text: mend it"
    marked = "have it count as missing, missing_values="
    assert (
        days == f"t.csv: column 'd' holds '2020-02-30' in 1 cell, no date from {REACH}{end}, or {marked}['2020-02-30']"
    )
    assert (
        sizes == f"t.csv: column 'x' holds '1e999' in 1 cell, no number that float64 holds{end}, or {marked}['1e999']"
    )
    assert wholes == (
        f"t.csv: column 'n' holds '18446744073709551616' in 1 cell, no whole number of 64 bits{end}; {marked}"
        "['18446744073709551616']; or, if they are amounts, write one of the numbers with a decimal point"
    )
    assert warned(text, missing_values=["2020-02-30", "1e999", "18446744073709551616"]) == []
    assert warned(text, string_columns=["d", "x", "n"]) == []
    (signs,) = warned("n,k\n-1,a\n9223372036854775808,b\n5,b\n")
    assert "column 'n' holds '9223372036854775808' in 1 cell, no whole number of 64 bits" in signs
    (both,) = warned("d;x\n1,5;a\n-1e999;b\n1e999;b\n", decimal=",")
    assert "column 'd' holds '-1e999' in 1 cell, '1e999' in 1 cell, no number" in both


@pytest.mark.parametrize("cell", ["1e999", "-1e999", "-1.8e308"])
def test_no_number_becomes_infinity(tmp_path: Path, cell: str) -> None:
    (tmp_path / "t.csv").write_text(f"x,k\n1.5,a\n{cell},b\n,c\n")
    with pytest.warns(DataWarning, match=f"column 'x' holds '{cell}' in 1 cell, no number that float64 holds"):
        frame = read_table(tmp_path / "t.csv")
    assert frame["x"].tolist()[:2] == ["1.5", cell]
    (tmp_path / "t.csv").write_text("x,k\n1.5,a\n-inf,b\n,c\n")
    assert read_table(tmp_path / "t.csv")["x"].tolist()[:2] == [1.5, -np.inf]


def test_leading_zeros(warned) -> None:
    text = "zip,icd,day,n\n02139,1E2,01/02/2024,1\n10115,100,05:30,0\n08001,01E2,1,0.5\n,,,\n1,2,3,4\n"
    (found,) = warned(text)
    assert found == (
        "t.csv: columns of numbers lose leading zeros ('02139' in column 'zip', '01E2' in column 'icd'): if they are "
        "codes, read them as text, string_columns=['zip', 'icd']"
    )
    assert warned(text, string_columns=["zip", "icd"]) == []
    assert "'0404684003123456789' in column 'n'" in warned("n,k\n0404684003123456789,a\n,b\n,b\n")[0]
    assert warned("a,b\n007,x\nabc,y\n01,y\n1a,x\n2b,y\n") == [], "text, of which nothing is lost"
    assert "'-07' in column 0" in warned("-07,1\n5,2\n", header=False)[0]
    assert "'007,5' in column 'a'" in warned('a;b\n"007,5";1\n8;2\n')[0]
    assert "'007' in column 'a'" in warned("a b\n1  2\n007 3\n", separator=r"\s+")[0]
    assert "'00' in column 'hour'" in warned("hour,b\n00,1\n01,2\n" + "10,3\n" * 9)[0]
    assert warned("a,b,007,d,e\n0.7,00:45,0e5,1,1\n-0.5,00:30,0,1,1\n1,00:30,2,1,1\n") == [], (
        "times of day are no numbers"
    )


def test_marks_in_many_columns_are_told_shortly(warned) -> None:
    names = [f"x{number}" for number in range(9)]
    (told,) = warned(f"{','.join(names)}\n" + "".join(f"{','.join([cell] * 9)}\n" for cell in ("1", "2", "?", "3")))
    assert told == (
        "t.csv: '?' in 9 cells of 9 columns ('x0', 'x1', 'x2', ...), among numbers or dates, was read as missing; if "
        "they are values, read the 9 columns as text, the first of them by string_columns=['x0', 'x1', 'x2'], or, if "
        "they are missing in columns of text, too, name them, missing_values=['?']"
    )


def test_marks_among_numbers(warned) -> None:
    text = "a,b,c,d\n1,?,x,1\n2,2,y,2\n?,3,?,3\n4,4,x,-\n"
    read, kept = warned(text)
    assert read == (
        "t.csv: '?' in 2 cells of 2 columns ('a', 'b'); '-' in 1 cell of column 'd', among numbers or dates, were read "
        "as missing; if they are values, read the columns as text, string_columns=['a', 'b', 'd'], or, if they are "
        "missing in columns of text, too, name them, missing_values=['?', '-']"
    )
    assert kept == (
        "t.csv holds '?' in 1 cell of column 'c': such texts are categories, and so are the numbers or dates beside "
        "them; if they stand for missing cells, name them, missing_values=['?']"
    )
    (left,) = warned(text, missing_values=["?"])
    assert left.startswith("t.csv: '-' in 1 cell of column 'd', among numbers or dates, was read as missing; ")
    assert warned(text, string_columns=["a", "b", "c", "d"]) == []
    assert warned(text, missing_values=["?", "-"]) == []


def test_many_marks_are_cut_short(warned) -> None:
    names, first = "a,b,c,d,e", "?,?,?,?,1"
    rows = "\n".join(
        f"{'uvw'[i % 3]},u,v,{'vw'[i % 2]},{mark}"
        for i, mark in enumerate(["low", "2", "3", "4", "5", "6", "7", "n.d.", "lost"])
    )
    marks, words = warned(f"{names}\n{first}\n{rows}\nu,u,v,w,high\n")
    assert "'?' in 4 cells of 4 columns ('a', 'b', 'c', ...): such" in marks
    assert "'high' in 1 cell of column 'e'; 'lost' in 1 cell" in words
    assert "; and 1 more: such" in words
    assert "missing_values=['high', 'lost', 'low', 'n.d.']" in words, "all of them"


@pytest.mark.parametrize(
    "column",
    [
        ["I", "II", "III", "2", "IV"],
        ["1", "1", "1a", "1"],
        ["x", "y", "-", "y"],
        ["250", "V45", "V46", "401", "E", "250", "250", "401"],
    ],
    ids=["mostly text", "as many texts as numbers", "no numbers", "more texts than numbers"],
)
def test_codes_are_left_alone(warned, column: list[str]) -> None:
    assert warned("code,n,m,k\n" + "".join(f"{cell},1,2,3\n" for cell in column)) == []


def test_decimal_commas_are_numbers(warned) -> None:
    assert len(warned("a;b\n1,5;1\n2,25;2\nlost;3\n3,5;4\n")) == 1


def test_question_marks_among_codes(warned) -> None:
    text = "code,n\n250,1\n401,2\nV45,3\n?,4\n250,5\n"
    mark, code = warned(text)
    assert mark.startswith("t.csv holds '?' in 1 cell of column 'code': ")
    assert "'V45' in 1 cell of column 'code'" in code
    assert warned(text, string_columns=["code"]) == []
    (alone,) = warned("code,n\n250,1\nV40,2\nV45,3\n?,4\n250,5\n")
    assert alone == mark, "a column of texts"
    assert warned("code,n\n1,1\n1,2\n#REF!,3\n1,4\n") != [], "a single number and a mark"


def test_a_second_header_with_digits(warned) -> None:
    assert warned("X1,X2\nage1,age2\n1,2\n3,4\n")[-1].count("pass skip_rows=1") == 1


def test_string_columns_are_left_alone(warned) -> None:
    assert warned("a,n\n1,1\nlost,2\n3,3\n?,4\n", string_columns=["a"]) == []
