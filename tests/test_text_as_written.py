"""Cells of text files come back as they are written, character for character."""

from __future__ import annotations

import datetime
import io
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from missdiff_fast.table import read_table, write_table
from missdiff_fast.table.frame_writing import write_delimited
from missdiff_fast.table.io import read_written
from missdiff_fast.table.sources import ReadOptions
from missdiff_fast.table.text_writing import Rewriter


def read(path: Path, **options: Any) -> tuple[pd.DataFrame, Rewriter]:
    """A table and its rewriter."""
    frame, written = read_written(path, ReadOptions(**{"keep_blank_rows": True, **options}))
    assert written is not None
    return frame, Rewriter(frame, written(), path.suffix)


def rewritten(path: Path, table: pd.DataFrame | None = None, to: str | None = None, **options: Any) -> str:
    """What is written for a table that was read, by default for the one that it is."""
    frame, rewriter = read(path, **options)
    stream = io.StringIO(newline="")
    own = rewriter.separator(".csv") if to is None else to
    rewriter.write(frame if table is None else table, stream, own, keep_missing=True)
    return stream.getvalue()


def filled(path: Path, values: dict[str, list[object]], **options: Any) -> list[str]:
    """The lines that are written where these values fill the missing cells of the columns."""
    frame, _ = read(path, **options)
    table = frame.copy()
    for name, new in values.items():
        holes = frame[name].isna()
        cells = frame[name].astype(object).to_numpy(copy=True)
        cells[holes] = new
        table[name] = pd.Series(cells).infer_objects()
    return rewritten(path, table, **options).splitlines()


AS_THEY_ARE = [
    "a,b\n1, x \n2,TRUE\n,x\n",
    'a,b\n1,"say ""hi"""\n2,"x, y"\n3, "z" \n',
    'a,b\r\n"one\r\ntwo",1\r\n"x\ny",\r\n',
    'a,b\n"one\r\ntwo",1\n"x\ry",2\n',
    'a;"b";c\n1,50;"007";NA\n;;x\n;;\n2,5;"8";null\n',
    "a\tb\n1\tx\n2.0\t\n",
    " a , b\n 5,  x\n 6, y\n",
    ",x\n1,2.50\n2,4\n",
    'x\n"a, b"\n\nc\n',
    'a,b\n"1"x,2\nx"1",3\n',
    "a\nx\n\n\ny\n",
    "a,b\n1,x\n,\n , \n2,NA\n",
    "a,b\n1e3,TRUE\n4,false\n2.0,True\n",
    "a,b\r\n1,x\r\n2,y",
    "a;b\n1;x\n2;",
    "a\nx\ny",
]


@pytest.mark.parametrize("text", AS_THEY_ARE)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_file_comes_back_as_it_is(text: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(text.encode())
    assert rewritten(tmp_path / "t.csv") == text


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("seed", range(20))
def test_any_file_comes_back_as_it_is(seed: int, tmp_path: Path) -> None:
    random = np.random.default_rng(seed)
    end, mark = random.choice(["\n", "\r\n"]), random.choice([",", ";", "\t", "|"])
    inner = ["NA", "", " ", "1", "2.50", "TRUE", "é", "x y", "?", "007", "2024-01-05"]
    special = [*inner, "a\r\nb", "a\nb", "a\rb", 'say ""hi""', "a,b", "a;b", "a\tb", "a|b", " x "]

    def cell() -> str:
        space = random.choice(["", "", " "])
        if random.random() < 0.3:
            return f'{space}"{random.choice(special)}"{random.choice(["", "", " "])}'
        return f"{space}{random.choice(inner)}{random.choice(['', '', ' '])}"

    rows = [mark.join(["first", '"second"', "third"]), *(mark.join(cell() for _ in range(3)) for _ in range(12))]
    # Where a cell is blank the row must not be.
    rows[1], rows[-1] = mark.join(["u", "v", "w"]), mark.join(["1", "2", "3"])
    text = end.join(rows) + end
    (tmp_path / "t.csv").write_bytes(text.encode())
    assert rewritten(tmp_path / "t.csv", to=mark, separator=mark) == text
    frame, _ = read(tmp_path / "t.csv", separator=mark)
    other = rewritten(tmp_path / "t.csv", to="^", separator=mark)
    (tmp_path / "o.csv").write_bytes(other.encode())
    again, _ = read(tmp_path / "o.csv", separator="^")
    pd.testing.assert_frame_equal(again, frame)


@pytest.mark.parametrize(
    ("text", "values", "lines"),
    [
        ("x,y\n2.0,a\n3.0,a\n,b\n,b\n", {"x": [3.0, 7.0]}, ["3.0,b", "7.0,b"]),
        ("x,y\n2.50,a\n3.25,a\n,b\n,b\n", {"x": [2.5, 7.125]}, ["2.50,b", "7.125,b"]),
        ("x,y\n4,a\n4.5,a\n,b\n,b\n", {"x": [4.0, 7.0]}, ["4,b", "7,b"]),
        ("x;y\n4,5;a\n3,25;a\n;b\n;b\n", {"x": [4.5, 6.75]}, ["4,5;b", "6,75;b"]),
        ("x,y\nTRUE,a\nFALSE,a\n,b\n,b\n", {"x": [True, False]}, ["TRUE,b", "FALSE,b"]),
        ("x,y\nfalse,a\nfalse,a\n,b\n,b\n", {"x": [True, False]}, ["true,b", "false,b"]),
        ("x,y\nFriday   ,1\nFriday   ,1\n,2\n,2\n", {"x": ["Friday", "Monday"]}, ["Friday   ,2", "Monday,2"]),
        ('x,y\n"u",1\n"v",1\n,2\n,2\n', {"x": ["u", "w"]}, ['"u",2', '"w",2']),
        ("x,y\nu,1\nv,1\n,2\n,2\n", {"x": ["a, b", "NA"]}, ['"a, b",2', '"NA",2']),
        (
            "x,y\n2024-01-05,1\n2024-01-06,1\n,2\n,2\n",
            {"x": [pd.Timestamp("2024-01-05"), pd.Timestamp("2024-02-29")]},
            ["2024-01-05,2", "2024-02-29,2"],
        ),
        (
            "x,y\n2024-01-05T13:30,1\n2024-01-06T00:00,1\n,2\n,2\n",
            {"x": [pd.Timestamp("2024-01-05 14:00"), pd.Timestamp("2024-02-29 00:00:01")]},
            ["2024-01-05T14:00,2", "2024-02-29T00:00:01,2"],
        ),
    ],
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_new_cells_are_written_as_the_others(
    text: str, values: dict[str, list[object]], lines: list[str], tmp_path: Path
) -> None:
    (tmp_path / "t.csv").write_text(text)
    found = filled(tmp_path / "t.csv", values)
    assert found[:3] == text.splitlines()[:3]
    assert found[3:] == lines


def test_white_space_separates_no_more(tmp_path: Path) -> None:
    (tmp_path / "t.data").write_text("a  b\n1.50   x\n  2.25 y,z\n")
    assert rewritten(tmp_path / "t.data", to=",", separator=r"\s+") == 'a,b\n1.50,x\n2.25,"y,z"\n'
    _, rewriter = read(tmp_path / "t.data", separator=r"\s+")
    assert [rewriter.separator(target) for target in (".csv", ".tsv", ".psv")] == [",", "\t", "|"]


FRAME = pd.DataFrame(
    {
        "text": ["NA", "a\rb", "a\r\nb", 'q"', "x, y", None, "null", "é"],
        "kind": pd.Categorical(["NA", "u", None, "u", "u", "v", "v", "v"]),
        "x": [0.1, np.nan, 1e-7, 1e300, 2.0, 3.0, -0.0, 5.0],
        "n": pd.array([1, None, 2**60, 3, 4, 5, 6, 7], dtype="Int64"),
        "flag": [True, False] * 4,
        "time": pd.to_datetime(["2024-01-05", None, "2024-01-05 13:30:00.5", *["2024-02-29"] * 5], format="ISO8601"),
        "day": pd.to_datetime(["2024-01-05"] * 7 + [None]),
    }
)


@pytest.mark.filterwarnings("error")
def test_texts_come_back_from_text(tmp_path: Path) -> None:
    write_table(FRAME, tmp_path / "t.csv")
    again = read_table(tmp_path / "t.csv")
    texts = ["text", "kind"]
    pd.testing.assert_frame_equal(again.drop(columns=texts), FRAME.drop(columns=texts), check_dtype=False)
    assert again["kind"].fillna("-").tolist() == FRAME["kind"].astype(object).fillna("-").tolist()
    assert again["text"].fillna("-").tolist() == FRAME["text"].fillna("-").tolist()
    one = pd.DataFrame({"x": ["NA", None, "a\rb", "u"]})
    write_table(one, tmp_path / "one.csv")
    assert read_table(tmp_path / "one.csv")["x"].fillna("-").tolist() == ["NA", "-", "a\rb", "u"]


@pytest.mark.parametrize("rows", [8, 20_000])
def test_text_is_as_pandas_writes_it(rows: int) -> None:
    numbers = FRAME.drop(columns=["text", "kind"]).assign(
        date=[datetime.date(2024, 1, 5), None] * 4, zone=FRAME["time"].dt.tz_localize("UTC"), odd=[True, None] * 4
    )
    numbers["code"] = pd.Categorical([1.5, None] * 4)
    frame = pd.concat([numbers] * (rows // 8), ignore_index=True)
    stream = io.StringIO()
    write_delimited(frame, stream)
    # pandas formats the times of a long table piece by piece, so all at once here.
    assert stream.getvalue() == frame.to_csv(index=False, lineterminator="\n", chunksize=rows)


def test_an_empty_text_is_told(tmp_path: Path) -> None:
    frame = pd.DataFrame({"x": ["", "a", None, " "]})
    with pytest.warns(UserWarning, match=r"column 'x' holds 2 empty texts, which .* write a \.parquet or \.feather"):
        write_table(frame, tmp_path / "t.csv")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        write_table(frame, tmp_path / "t.parquet")


def test_what_is_no_cell_of_the_table_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("title\na,b\n1,2.0,\n3,4,\n", encoding="utf-8-sig")
    with pytest.warns(UserWarning, match="empty columns without a name were dropped"):
        assert rewritten(tmp_path / "t.csv", skip_rows=1) == "a,b\n1,2.0\n3,4\n"
    (tmp_path / "t.tsv").write_text("a\nx\n\t\ny\n")
    assert rewritten(tmp_path / "t.tsv", separator="\t") == "a\nx\n\ny\n"
    (tmp_path / "t.csv").write_bytes("a;b\r\n1,50;µ\r\n".encode("utf-16"))
    assert rewritten(tmp_path / "t.csv", header=False) == "a;b\r\n1,50;µ\r\n"


def test_ends_of_lines_and_the_separator_that_excel_is_told(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(b"a,b\r1,x\r2,y\r")
    assert rewritten(tmp_path / "t.csv") == "a,b\r1,x\r2,y\r"
    (tmp_path / "t.csv").write_text("sep=;\na;b\n1,5;x\n2,5;y\n")
    frame = read_table(tmp_path / "t.csv")
    assert frame.to_dict("list") == {"a": [1.5, 2.5], "b": ["x", "y"]}


def test_the_separator_of_each_kind_of_file(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a;b\n1,5;x\n2,5;y\n")
    _, rewriter = read(tmp_path / "t.csv")
    kinds = (".csv", ".txt", ".tsv", ".tab", ".psv")
    assert [rewriter.separator(kind) for kind in kinds] == [";", ";", "\t", "\t", "|"]
    (tmp_path / "t.tsv").write_text("a\tb\n1,5\tx\n2,5\ty\n")
    assert read(tmp_path / "t.tsv")[1].separator(".csv") == ";"
    assert rewritten(tmp_path / "t.csv", to="|") == "a|b\n1,5|x\n2,5|y\n"


def test_a_line_that_is_skipped_below_the_header_stays_in_the_file(tmp_path: Path) -> None:
    text = "a,b\ncm,kg\n1,x\n2,y\n"
    (tmp_path / "t.csv").write_text(text)
    assert rewritten(tmp_path / "t.csv", skip_lines=[2]) == text
