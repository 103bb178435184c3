"""Warnings of header lines and marks of missing cells that the reader was not told of."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

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
        "t.csv: the first line holds numbers such as '6' and was read as the header; if it is none, pass header=False"
    )
    assert warned("6,148,x\n1,85,y\n", header=False) == []
    assert warned("6m,a,b,c\n1,2,3,4\n") == []
    assert warned("2019,a,b,c\n1,2,3,4\n") == [], "one year among four names"


def test_a_header_of_strings_that_come_again_below_it(warned) -> None:
    (text,) = warned("yes,low,left\nno,high,left\nyes,low,right\n")
    assert "the first line holds 'yes', which comes again below it, and was read as the header" in text
    assert text.endswith("if it is none, pass header=False")
    assert warned("a,low,side,x\nno,low,left,1\nyes,low,right,2\n") == [], "one cell among four"


def test_a_second_header(warned) -> None:
    text = "X1,X2,X3\nage,sex,stay\n1,2,3\n4,5,6\n"
    (found,) = warned(text)
    assert found == (
        "t.csv: the first row holds texts such as 'age' where all others hold numbers; if it is the header and the "
        "line before it is none, pass skip_rows=1"
    )
    assert warned(text, skip_rows=1) == []
    assert warned("title,,\n" + text, skip_rows=1)[-1].endswith("pass skip_rows=2")


def test_marks_among_numbers(warned) -> None:
    text = "a,b,c,d\n1,?,x,1\n2,2,y,2\n?,3,?,3\n4,4,x,-\n"
    (found,) = warned(text)
    assert found == (
        "t.csv holds '?' in 3 columns ('a', 'b', 'c'); '-' in column 'd'. What stands for a missing cell has to be "
        "named, missing_values=['?', '-']; otherwise it counts as a category, and so do the numbers beside it"
    )
    (left,) = warned(text, missing_values=["?"])
    assert left.startswith("t.csv holds '-' in column 'd'. ")
    assert warned(text, missing_values=["?", "-"]) == []


def test_many_marks_are_cut_short(warned) -> None:
    names, first = "a,b,c,d,e", "?,?,?,?,1"
    rows = "\n".join(
        f"{i},{i},{i},{i},{mark}" for i, mark in enumerate(["low", "2", "3", "4", "5", "6", "7", "n.d.", "lost"])
    )
    (found,) = warned(f"{names}\n{first}\n{rows}\n")
    assert "'?' in 4 columns ('a', 'b', 'c', ...); 'low' in column 'e'; " in found
    assert "; and 1 more. What" in found


@pytest.mark.parametrize(
    "column",
    [
        ["I", "II", "III", "2", "IV"],
        ["1", "a", "b", "c", "d", "2", "3", "4", "5", "6"],
        ["1", "1", "1a", "1"],
        ["x", "y", "-", "y"],
        ["250", "401", "V45", "250", "401", "V45"],
        ["250", "401", "V45", "E", "250", "401"],
    ],
    ids=["mostly text", "many texts", "as many texts as numbers", "no numbers", "digits in the text", "and none"],
)
def test_codes_are_left_alone(warned, column: list[str]) -> None:
    assert warned("code,n,m,k\n" + "".join(f"{cell},1,2,3\n" for cell in column)) == []


def test_decimal_commas_are_numbers(warned) -> None:
    assert len(warned("a;b\n1,5;1\n2,25;2\nlost;3\n3,5;4\n")) == 1


def test_question_marks_among_codes(warned) -> None:
    (found,) = warned("code,n\n250,1\n401,2\nV45,3\n?,4\n250,5\n")
    assert found.startswith("t.csv holds '?' in column 'code'. ")


def test_a_second_header_with_digits(warned) -> None:
    assert warned("X1,X2\nage1,age2\n1,2\n3,4\n")[-1].endswith("pass skip_rows=1")


def test_string_columns_are_left_alone(warned) -> None:
    assert warned("a,n\n1,1\nlost,2\n3,3\n?,4\n", string_columns=["a"]) == []
