"""Lines and rows of text that are found in blocks, and cells that are parsed in parts, as if all were taken at once."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from missdiff_fast.errors import DataWarning
from missdiff_fast.table import read_table, text_lines, text_parsing
from missdiff_fast.table.io import read_written
from missdiff_fast.table.row_finding import find_rows
from missdiff_fast.table.sources import ReadOptions
from missdiff_fast.table.text_lines import Lines

TEXTS = [
    "a,b\n1,2\n",
    "a,b\r\n1,2\r\n\r\n,\r\n3,4",
    "a\rb\r\r\nc\n\rd",
    'a,b\n"x\ny",2\n"",""\n\n "p, q",3\n',
    'a,b\r\n"x\r\ny ""z""","u\r\r\nv"\r\n\t, \r\n"1" ,2\r\n',
    'a,b\nä,\u00a0\n\u00a0,""\n"é","""",\n',
    '5" pipe,"b"\n6 "x" y,"c\nd"\n',
    '"a"\n"b" "c",d\n',
]


@pytest.fixture(params=[1, 3, 2**20])
def blocks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_lines, "_BLOCK", request.param)


@pytest.mark.usefixtures("blocks")
@pytest.mark.parametrize("text", TEXTS)
def test_lines_are_those_of_the_text(text: str) -> None:
    lines = Lines(text.encode())
    parts = re.split("(\r\n|\r|\n)", text)
    assert list(lines) == parts[::2]
    assert [lines.end(number) for number in range(1, len(lines))] == parts[1::2]
    assert lines.written(1, len(lines)) == text
    numbers = np.arange(1, len(lines) + 1)
    assert list(lines.each_written(numbers, numbers)) == parts[::2]


@pytest.mark.usefixtures("blocks")
@pytest.mark.parametrize("skipped", [0, 2])
@pytest.mark.parametrize("text", TEXTS)
def test_rows_are_those_of_the_csv_module(text: str, skipped: int) -> None:
    lines = Lines(text.encode())
    if skipped:
        lines.blank(skipped, skipped)
    rows = find_rows(lines, ",", "t.csv")
    reader = csv.reader(list(lines), skipinitialspace=True)
    expected = [(reader.line_num, row) for row in reader]
    assert rows.last.tolist() == [last for last, _ in expected]
    assert rows.first.tolist() == [1, *(rows.last[:-1] + 1).tolist()]
    one_field = int('"' not in text)  # an empty line; a text with quotes has none there
    assert rows.fields.tolist() == [len(row) or one_field for _, row in expected]
    assert rows.blank.tolist() == [not any(cell.strip() for cell in row) for _, row in expected]


@pytest.mark.usefixtures("blocks")
def test_changed_lines_are_read_and_the_others_are_as_written() -> None:
    lines = Lines(b'a,b\r\n"x\r\ny",2\r\n1,2,,\r\n\r\n3,4')
    rows = find_rows(lines, ",", "t.csv")
    lines.change(4, "1,2")
    lines.change(5, '"",""')
    assert b"".join(lines.pieces(rows.first, rows.last)) == b'a,b\n"x\r\ny",2\n1,2\n"",""\n3,4'
    assert lines.written(2, 4) == '"x\r\ny",2\r\n1,2,,'
    lines.blank(2, 3)
    assert b"".join(lines.pieces(rows.first, rows.last)).split() == b'a,b 1,2 "","" 3,4'.split()


COLUMNS = {
    "whole": ["1", "2", "3", "4", "5", "6"],
    "holes": ["1", "2", "", "4", "5", "6"],
    "late float": ["0", "2", "3", "4", "5", "6.5"],
    "minus zero": ["-0", "2", "3", "4", "5", "6.5"],
    "late text": ["1", "2", "3", "4", "5", "x"],
    "early text": ["x", "2", "03", "", "5", "6"],
    "large": ["1", "2", "3", "4", "5", "9223372036854775808"],
    "huge": ["99999999999999999999", "2", "3", "4", "5", "1.5"],
    "huge late": ["1.5", "2", "3", "4", "5", "99999999999999999999"],
    "large and hole": ["9223372036854775808", "", "3", "4", "1.5", "6"],
    "bool": ["True", "False", "True", "True", "", "False"],
    "bool, then text": ["True", "False", "True", "True", "", "no"],
    "empty": ["", "", "", "", "", ""],
    "late": ["", "", "", "", "", "x"],
    "only true": ["True", "", "True", "True", "1", "2"],
}


@pytest.mark.parametrize("cells", [1, 2 * len(COLUMNS), 5 * len(COLUMNS)])
def test_columns_parsed_in_parts_are_as_parsed_at_once(
    cells: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t.csv"
    rows = [",".join(row) for row in zip(*COLUMNS.values(), strict=True)]
    path.write_text("\n".join([",".join(f'"{name}"' for name in COLUMNS), *rows]))
    expected = read_table(path)
    monkeypatch.setattr(text_parsing, "_CELLS", cells)
    found = read_table(path)
    pd.testing.assert_frame_equal(found, expected)
    assert np.signbit(found["minus zero"]).tolist() == [True, *[False] * 5]
    assert found["late text"].tolist() == COLUMNS["late text"]


def test_all_rows_of_a_part_may_lack_their_last_field(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.tsv"
    path.write_text("1\t2\n3\t\t\n4\t\t\nx\ty\nx\t5\n6\t\t\n")
    monkeypatch.setattr(text_parsing, "_CELLS", 2)
    with pytest.warns(DataWarning, match="end with a separator"):
        frame = read_table(path, header=False)
    assert frame[0].tolist() == ["1", "3", "4", "x", "x", "6"]
    assert frame[1].fillna("").tolist() == ["2", "", "", "y", "5", ""]


def test_a_file_without_a_column_of_numbers_may_have_leading_zeros(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,b\n007,x\nlow,y\n08,z\n")
    frame, written = read_written(path, ReadOptions(separator=","))
    assert frame["a"].tolist() == ["007", "low", "08"]
    assert list(written().rows()) == [["007", "x"], ["low", "y"], ["08", "z"]]
