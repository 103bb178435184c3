"""Texts among numbers, and lines of units below the header: what is said of them, and whether the advice works."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from missdiff_fast import MissDiff
from missdiff_fast.cli import main
from missdiff_fast.errors import DataError
from missdiff_fast.table import read_table
from missdiff_fast.table.odd_texts import texts_among_numbers

RNG = np.random.default_rng(0)
QUICK = [
    *("--steps", "2", "--width", "16", "--no-refine", "--seed", "0"),
    *("--setting", "blend.rows_per_feature=0", "--setting", "calibration.rounds=0"),
]
OPTION = re.compile(r"--[a-z-]+(?:=| )'(?:[^']|'\\'')*'")


def column(*odd: str, decimals: int = 1, rows: int = 60) -> list[str]:
    numbers = RNG.normal(5, 1, rows).round(decimals).astype(str).tolist()
    return [odd[i // 10 % len(odd)] if i % 10 == 3 else number for i, number in enumerate(numbers)]


def write(path: Path, cells: list[str]) -> None:
    lines = [f'"{cell}",{i % 7},{"mf"[i % 2]}' for i, cell in enumerate(cells)]
    path.write_text("\n".join(["crp,n,sex", *lines]) + "\n")


def fit(capsys: Any, path: Path, *options: str) -> tuple[int, str]:
    code = main(["fit", str(path), "-o", f"{path}.model", *QUICK, *options])
    return code, capsys.readouterr().err


def kind(path: Path) -> str:
    return MissDiff.load(f"{path}.model").codec_.schema["crp"].kind


@pytest.mark.parametrize("decimals", [1, 4])
@pytest.mark.parametrize(
    "odd",
    [["~5"], ["#REF!"], ["§"], ["<LOD"], ["#DIV/0!"], ["3.2*"], ["V45", "V46"], ["--", "it's", "~0.1"]],
    ids=" ".join,
)
def test_texts_are_named_and_the_advice_works(tmp_path: Path, capsys: Any, odd: list[str], decimals: int) -> None:
    path = tmp_path / "t.csv"
    write(path, column(*odd, decimals=decimals))
    code, said = fit(capsys, path)
    assert code in (0, 2)
    for text in odd:
        assert f"{text!r} in {6 // len(odd)} cells of column 'crp'" in said
    assert "such texts are categories, and so are the numbers" in said
    if code:
        error = said.splitlines()[-1]
        assert error.startswith("missdiff: error: column 'crp' (")
        assert "holds texts among its numbers or dates, so that each of these is a category: " in error
        assert set(odd) == set(shlex.split(" ".join(OPTION.findall(error)).replace("=", " "))[1:-2:2])
    marks = [option for option in OPTION.findall(said) if option.startswith("--missing-values")]
    options = shlex.split(" ".join(dict.fromkeys(marks)))
    assert fit(capsys, path, *options) == (0, "")
    assert kind(path) == "continuous"
    codes = [option for option in OPTION.findall(said) if option.startswith("--categorical")]
    if codes and code == 0:
        assert fit(capsys, path, *shlex.split(codes[0]))[0] == 0
        assert kind(path) == "categorical"


def test_texts_too_many_to_be_named(tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "t.csv"
    write(path, column(*[f"V{i}" for i in range(20)], rows=200))
    code, said = fit(capsys, path)
    assert code == 0
    assert said.startswith(
        "missdiff: warning: t.csv holds texts among numbers or dates ('V0' in 1 cell, 'V1' in 1 cell"
    )
    assert said.endswith(
        "; if they are codes, read the column as text, --categorical 'crp', or write numbers or dates in their place\n"
    )
    assert fit(capsys, path, "--categorical", "crp") == (0, "")


def test_python_names_the_texts_too() -> None:
    frame = pd.DataFrame({"crp": column("3.2*", decimals=6), "x": range(60)})
    model = MissDiff(steps=2, width=16, refine=0, random_state=0, verbose=False)
    with pytest.raises(DataError) as caught:
        model.fit(frame)
    assert str(caught.value) == (
        "column 'crp' ('3.2*' in 6 cells) holds texts among its numbers or dates, so that each of these is a category: "
        "if the texts stand for missing cells, name them, missing_values=['3.2*']; write numbers or dates in their "
        "place; or drop the column, frame.drop(columns=['crp'])"
    )
    model.missing_values = ["3.2*"]
    assert model.fit(frame).codec_.schema["crp"].kind == "continuous"
    free = pd.DataFrame({"note": [f"says {i}" for i in range(59)] + ["?"], "x": np.arange(60) % 7})
    with pytest.warns(UserWarning, match="'note' .* holds free text"):
        model.fit(free)


def test_texts_of_parquet_files_are_named(tmp_path: Path) -> None:
    frame = pd.DataFrame({"crp": column("3.2*"), "code": column("V45"), "lists": [[1]] * 60})
    frame.to_parquet(tmp_path / "t.parquet")
    with pytest.warns(UserWarning, match=r"t.parquet holds '3\.2\*' in 6 cells of column 'crp'") as caught:
        read_table(tmp_path / "t.parquet", string_columns=["code"])
    assert len(caught) == 1
    assert caught[0].filename == __file__


@pytest.mark.parametrize(
    ("cells", "odd"),
    [
        ("1 2 3 <5", []),
        ("1 2 3 <5 ?", ["?"]),
        ("1 2 <5 ?", ["<5", "?"]),
        ("<1 <1 <1 2", ["<1"]),
        ("<1 <2 >3 5", ["<1", "<2", ">3"]),
        ("2024-01-01 2024-01-02T10:00Z unknown", ["unknown"]),
        ("a b c 1", []),
        ("<1 <2", []),
        ("1 2 a b", []),
    ],
)
def test_which_texts_are_odd(cells: str, odd: list[str]) -> None:
    counts = pd.Series(cells.split()).value_counts(sort=False).to_dict()
    assert list(texts_among_numbers({str(text): count for text, count in counts.items()})) == odd


ROWS = "".join(f"{170 + i % 9},{60 + i % 11}.5,{'mf'[i % 2]}\n" for i in range(60))


@pytest.mark.parametrize("extra", ["cm,kg,-\n", "int,float,str\n", '"body height, cm",weight (kg),gender\ncm,kg,-\n'])
def test_lines_of_units_are_no_rows_by_the_advice(tmp_path: Path, capsys: Any, extra: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"crp,weight,sex\n{extra}{ROWS}")
    count = extra.count("\n")
    code, said = fit(capsys, path)
    where = "line 2 holds" if count == 1 else "lines 2 to 3 hold"
    assert said.startswith(f"missdiff: warning: t.csv: {where} texts such as ")
    assert "--skip-rows" not in said
    assert said.count("\n") == 1
    options = shlex.split(" ".join(OPTION.findall(said)))
    assert options == [word for line in range(2, 2 + count) for word in ("--skip-line", str(line))]
    assert (code, *fit(capsys, path, *options)) == (0, 0, "")
    assert kind(path) == "continuous"
    assert list(MissDiff.load(f"{path}.model").columns_) == ["crp", "weight", "sex"]
    assert main(["impute", f"{path}.model", str(path), "-o", f"{tmp_path}/o.csv", *options]) == 0
    assert (tmp_path / "o.csv").read_text() == path.read_text()  # with these lines


def test_lines_that_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("x\nkg\n\n1\n2\n")
    assert read_table(path, skip_lines=[2])["x"].isna().tolist() == [True, False, False], "an empty line is a cell"
    path.write_text("title\n\na;b\nkg;m\n1;2\n3;4\n")
    assert read_table(path, skip_rows=2, skip_lines=[4, 5]).to_dict("list") == {"a": [3], "b": [4]}
    assert read_table(path, skip_lines=[1, 4]).to_dict("list") == {"a": [1, 3], "b": [2, 4]}
    for line in (0, 9):
        with pytest.raises(
            ValueError, match=rf"skip_lines must name lines from 1 to \d, the last of t.csv, got {line}"
        ):
            read_table(path, skip_lines=[line])
