"""Tables whose first row is data, rows of units, uneven rows and files of other names: read as they are, and told."""

from __future__ import annotations

import gzip
import warnings
from pathlib import Path
from typing import Any

import pytest

from missdiff_fast.cli.main import main
from missdiff_fast.errors import DataError, DataWarning
from missdiff_fast.table import read_table
from missdiff_fast.table.heading import has_header
from missdiff_fast.table.label_lines import label_rows

PEOPLE = [["39", "State-gov", "77516", "2174"], ["50", "Private", "83311", "0"], ["38", "Private", "215646", "0"]] * 3


def rows_of(*columns: str) -> list[list[str]]:
    """Rows of columns that are written as texts with blanks."""
    return [list(row) for row in zip(*(column.split() for column in columns), strict=True)]


def test_a_first_row_like_the_others_is_data() -> None:
    with pytest.warns(
        DataWarning, match="first line holds numbers such as '39' and was read as data.*pass header=True"
    ):
        assert not has_header([*PEOPLE, ["40", "State-gov", "12", "0"]], "t.csv")
    texts = rows_of("a b a c b c a", "x x y y x y x", "u v u v w w u")
    with pytest.warns(DataWarning, match="first line holds 'a', as the rows below it do"):
        assert not has_header(texts, "t.csv")


@pytest.mark.parametrize("mark", [".", "-", "unknown"])
def test_usual_marks_in_a_first_row_are_no_names(mark: str) -> None:
    body = rows_of("31 44 52 60 29 71 38 44", f"1.5 {mark} 2 {mark} 3 4 {mark} 5", "3 1 4 1 5 9 2 6", "7 7 8 8 9 9 7 8")
    with pytest.warns(DataWarning, match="first line holds numbers such as '70' and was read as data"):
        assert not has_header([["70", mark, "2", "9"], *body], "t.csv")


@pytest.mark.parametrize(
    "cells",
    [
        [["age", "work", "weight", "gain"], *PEOPLE],
        [["code", "2010", "2011", "2012"], *rows_of("a b c d e f", "1 2 3 4 5 6", "6 5 4 3 2 1", "1 1 2 2 3 3")],
        [["sex", "ward"], *rows_of("f m f m f m", "A B A B A B")],
        [["age", "sex"], *rows_of("age 1 2 3 4 5 6", "sex f m f m f m")],  # files put under one another
        [["", "x"], *rows_of("1 2 3 4 5 6", "a b c d e f")],
        [["1", "a"], ["2", "a"], ["3", "b"]],  # too few to tell
    ],
)
def test_a_header_is_one(cells: list[list[str]]) -> None:
    assert has_header(cells, "t.csv")


def test_rows_of_labels() -> None:
    body = rows_of("170 165 180 171 166 181 190 155 160", "61 72 80 65 70 71 90 50 55", "A B A B A B A B A")
    assert label_rows([["height", "weight", "ward"], *body], header=True) == {}
    assert label_rows([["height", "weight", "ward"], ["cm", "kg", "-"], *body], header=True) == {1: "cm"}
    types = [["height", "weight", "ward"], ["cm", "kg", "-"], ["float", "int", "text"], *body]
    assert label_rows(types, header=True) == {1: "cm", 2: "float"}
    assert label_rows(types, header=False) == {}
    # Missing cells, marks and limits are no labels.
    assert label_rows([["height", "weight", "ward"], ["NA", "<40", "A"], ["?", "", "B"], *body], header=True) == {}


@pytest.mark.parametrize(
    "row", [["Ann", "unknown", "61"], ["Ann", "refused", ""], ["Ann", "unknown", "unknown"], ["Ann", "P1", "P2"]]
)
def test_a_person_is_no_row_of_labels(row: list[str]) -> None:
    body = [[f"P{i}", str(20 + i), str(50.5 + i)] for i in range(12)]
    assert label_rows([["name", "age", "weight"], row, *body], header=True) == {}


def test_a_file_of_separators_is_empty(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(";;\n;;\n")
    with pytest.raises(ValueError, match=r"t\.csv is empty"):
        read_table(tmp_path / "t.csv")


def units(rows: int = 20) -> str:
    return "height,weight\ncm,kg\n" + "".join(f"{150 + i % 40},{'' if i % 5 == 1 else 50 + i}\n" for i in range(rows))


def test_a_line_of_units_stays_in_the_file(tmp_path: Path, capsys: Any) -> None:
    data, model, out = tmp_path / "t.csv", tmp_path / "m", tmp_path / "o.csv"
    data.write_text(units())
    assert main(["fit", str(data), "-o", str(model), "--steps", "2", "--no-refine"]) == 0
    assert (
        "line 2 holds texts such as 'cm' where the others hold numbers, so it was left out" in capsys.readouterr().err
    )
    assert main(["impute", str(model), str(data), "-o", str(out)]) == 0
    before, after = data.read_text().splitlines(), out.read_text().splitlines()
    assert len(after) == len(before) == 22
    assert after[:2] == before[:2]
    assert all(new == old for new, old in zip(after, before, strict=True) if not old.endswith(","))
    assert read_table(data, skip_lines=[2]).equals(read_table(out).mask(read_table(data, skip_lines=[2]).isna()))
    # Told not to leave it out, it is a row.
    with pytest.warns(DataWarning, match="leave it out, skip_lines"):
        assert len(read_table(data, skip_lines=())) == 21


def test_one_uneven_line_in_a_hundred_is_told_and_stays_in_the_file(tmp_path: Path, capsys: Any) -> None:
    lines = ["a,b,c", *(f"{i},{i % 7},{'xyz'[i % 3]}" for i in range(250))]
    lines[40], lines[77], lines[90] = "39,,4,x", "76,6,", "89,5,z,"
    data, model, out = tmp_path / "t.csv", tmp_path / "m", tmp_path / "o.csv"
    data.write_text("\n".join(lines) + "\n")
    with pytest.warns(DataWarning) as told:
        frame = read_table(data)
    assert [str(one.message).partition(";")[0] for one in told] == [
        "t.csv: line 91 ends with a separator after the last field",
        "t.csv, line 41: 4 fields where the header has 3: no row is read of this line",
    ]
    assert len(frame) == 249
    assert frame["c"].isna().sum() == 1
    assert main(["fit", str(data), "-o", str(model), "--steps", "2", "--no-refine", "--treat", "a=continuous"]) == 0
    assert main(["impute", str(model), str(data), "-o", str(out)]) == 0
    after = out.read_text().splitlines()
    assert after[40] == lines[40]
    assert after[77].startswith("76,6,")
    assert len(after[77]) == 6
    assert [a for i, a in enumerate(after) if i not in (77, 90)] == [
        b for i, b in enumerate(lines) if i not in (77, 90)
    ]
    capsys.readouterr()
    data.write_text("\n".join([*lines, "1,2", "1", "3,4,5,6"]) + "\n")
    with pytest.raises(
        DataError, match=r"line 41: 4 fields where the header has 3 \(and 3 more such: lines 252, 253, 254\)"
    ):
        read_table(data)


def test_delimited_text_of_any_name(tmp_path: Path) -> None:
    for path, content in ((tmp_path / "adult.test", units().encode()), (tmp_path / "export", units().encode())):
        path.write_bytes(content)
        with pytest.warns(DataWarning, match="its name does not tell its kind, so it was read as delimited text"):
            assert read_table(path, skip_lines=[2]).shape == (20, 2)
    with gzip.open(tmp_path / "t.test.gz", "wb") as file:
        file.write(units().encode())
    with pytest.warns(DataWarning, match="t.test.gz: its name does not tell its kind"):
        assert read_table(tmp_path / "t.test.gz", skip_lines=[2]).shape == (20, 2)
    (tmp_path / "t.bin").write_bytes(b"\x00\x01\x02")
    with pytest.raises(DataError, match="files of this kind are not known"):
        read_table(tmp_path / "t.bin")


ARFF = """% a comment
@relation labor

@attribute 'wage increase' numeric
@ATTRIBUTE grade {1, 2}
@attribute\tplan\t{none, 'e m p', "x"}
@attribute note string
@data
4.5,1,'e m p','it\\'s, so'
?,2,none,?
% between
3,1,?,"a"
"""


def test_only_the_question_mark_is_missing_in_arff(tmp_path: Path) -> None:
    (tmp_path / "t.arff").write_text(
        "@attribute region {NA, EU, 'New York'}\n@attribute n integer\n@attribute s string\n@data\n"
        "NA,1,'null'\nEU,?,\"a, b\"\n'New York',3,?\n?,2,x\n"
    )
    frame = read_table(tmp_path / "t.arff")
    assert frame["region"].tolist()[:3] == ["NA", "EU", "New York"]
    assert frame["s"].tolist()[:2] == ["null", "a, b"]
    assert frame["n"].dtype == "Int64"
    assert frame.isna().sum().tolist() == [1, 1, 1]


def test_arff(tmp_path: Path) -> None:
    path = tmp_path / "t.arff"
    path.write_text(ARFF)
    frame = read_table(path)
    assert list(frame.columns) == ["wage increase", "grade", "plan", "note"]
    assert frame["wage increase"].tolist()[::2] == [4.5, 3.0]
    assert frame["grade"].tolist() == ["1", "2", "1"]
    assert frame["plan"].tolist()[:2] == ["e m p", "none"]
    assert frame["note"].tolist()[::2] == ["it's, so", "a"]
    assert frame.isna().sum().tolist() == [1, 0, 1, 1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (ARFF.replace("@data", ""), "has no line @data"),
        ("@data\n1\n", "has no attributes above a line @data"),
        (ARFF.replace("numeric", ""), "line 4: .* is no attribute with a name and a type"),
        (ARFF.replace("3,1,?", "3,1"), "line 12: 3 fields where the file has 4 attributes"),
        (ARFF + "{0 1}\n", "line 13: sparse rows are not read"),
        (ARFF.replace("grade", "plan"), "'plan' more than once among its attributes"),
    ],
)
def test_arff_that_is_damaged(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "t.arff").write_text(text)
    with pytest.raises(DataError, match=message):
        read_table(tmp_path / "t.arff")


@pytest.mark.parametrize(
    ("first", "header"),
    [("2019,2020", True), ("2,1", True), ("10,20,30", True), ("5.1,3.5", False), ("1.5,2.5,9", False), ("7,7", False)],
)
def test_numbers_with_equal_steps_are_names(first: str, header: bool) -> None:
    width = first.count(",") + 1
    rows = [[str(7.3 * i % 5 + k) for k in range(width)] for i in range(30)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert has_header([first.split(","), *rows], "t.csv") == header
