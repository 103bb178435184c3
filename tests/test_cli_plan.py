"""``missdiff plan``, and ``missdiff fit --config``."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from commands import refused

from missdiff_fast import MissDiff
from missdiff_fast.cli import main

FIT = ("--steps", "2", "--no-refine", "--width", "8", "--blocks", "1", "--seed", "0", "--quiet")


@pytest.fixture
def export(tmp_path: Path) -> Path:
    """A CSV file with an identifier, a number with a sentinel, a code and a text; separated by semicolons."""
    lines = [
        f"{number + 1:05};{number % 50 + 18 if number % 9 else -1};{number % 7};says {number}" for number in range(150)
    ]
    (tmp_path / "export.csv").write_text("\n".join(["case;age;ward;note", *lines, ""]))
    return tmp_path / "export.csv"


def run(*arguments: object) -> None:
    assert main([*map(str, arguments)]) == 0


def test_the_plan_is_printed_and_written(export: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("plan", export, "--separator", ";", "-o", tmp_path / "plan.toml")
    told = capsys.readouterr()
    lines = told.out.splitlines()
    assert lines[0] == "150 rows, 4 columns"
    assert lines[1].split() == ["column", "dtype", "missing", "distinct", "treatment", "warnings"]
    assert lines[3].split(maxsplit=5)[4:] == ["continuous", "-1 may stand for missing cells (17 of them)"]
    assert told.err == ""  # identifiers with leading zeros are read as text
    assert (tmp_path / "plan.toml").read_text().splitlines() == [
        "# Written by 'missdiff plan'. Change what is wrong, and pass the file to 'missdiff fit --config'.",
        'separator = ";"',
        "",
        "[treatments]",
        '"case" = "identifier"',
        '"age" = "continuous"  # -1 may stand for missing cells (17 of them)',
        '"ward" = "continuous"  # may be a code, not an amount: then make it categorical',
        '"note" = "text"',
    ]


def test_json(export: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("plan", export, "--json", "--treat", "case=text", "--drop", "note", "--missing-values", "-1")
    plan = json.loads(capsys.readouterr().out)
    assert plan["rows"] == 150
    assert [(one["column"], one["treatment"]) for one in plan["columns"]] == [
        ("case", "text"),
        ("age", "continuous"),
        ("ward", "continuous"),
    ]
    assert plan["columns"][1]["missing"] == pytest.approx(17 / 150)
    assert plan["columns"][1]["warnings"] == []


def test_a_changed_plan_is_fitted(export: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("plan", export, "-o", tmp_path / "plan.toml")
    text = (tmp_path / "plan.toml").read_text().replace('"ward" = "continuous"', '"ward" = "categorical"')
    head = 'missing-values = ["-1"]\nbatch-size = 32\nno-refine = true\nbackend = "reference"\nlearning-rate = 1e-4\n'
    (tmp_path / "plan.toml").write_text(f'{head}{text}\n[settings]\nsolver.steps = 3\n"training.ema" = 0.5\n')
    capsys.readouterr()
    run("fit", export, "-o", tmp_path / "m", "--config", tmp_path / "plan.toml", *FIT)
    assert capsys.readouterr().err == ""  # what the file sets aside is not warned of
    model = MissDiff.load(tmp_path / "m")
    assert (model.batch_size, model.refine, model.learning_rate, model.settings) == (
        32,
        0,
        1e-4,
        {"solver.steps": 3, "training.ema": 0.5},
    )
    assert {one.name: one.kind for one in model.codec_.schema} == {"age": "continuous", "ward": "categorical"}
    run("sample", tmp_path / "m", "-n", "20", "--missing", "--plain", "-o", tmp_path / "s.csv", "--quiet")
    rows = pd.read_csv(tmp_path / "s.csv", dtype={"case": str})
    assert list(rows.columns) == ["case", "age", "ward"]
    assert rows["case"].str.fullmatch(r"\d{5}").all()
    assert not set(rows["case"]) & {f"{number + 1:05}" for number in range(150)}
    assert not (rows["age"] == -1).any()
    run("impute", tmp_path / "m", export, "-o", tmp_path / "i.csv", "--quiet")
    filled, table = (pd.read_csv(path, sep=";", dtype=str) for path in (tmp_path / "i.csv", export))
    assert filled[["case", "note", "ward"]].equals(table[["case", "note", "ward"]])


def test_the_command_line_counts_more(export: Path, tmp_path: Path) -> None:
    head = 'epochs = 3\nseed = 5\neffort = "best"\ndrop = ["age"]\n'
    treatments = '[treatments]\nward = "continuous"\nnote = "text"\n"case" = "text"\n'
    (tmp_path / "c.toml").write_text(head + treatments)
    options = ["--effort", "default", "--treat", "case=identifier", "--categorical", "ward", "--drop", "note"]
    run("fit", export, "-o", tmp_path / "m", "--config", tmp_path / "c.toml", *options, *FIT)
    model = MissDiff.load(tmp_path / "m")
    assert (model.steps, model.epochs, model.effort, model.seed_) == (2, None, "default", 0)
    assert model.columns_ == ["case", "ward"]
    assert (model.treatments, model.categorical_columns) == ({"case": "identifier"}, ["ward"])


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "step = 3",
            "'step' is no option of a file; the file can have the tables treatments and settings, and backend, ",
        ),
        ("config = 'x'", "'config' is no option of a file"),
        ("steps = 'many'", "'steps' cannot be 'many'"),
        ("steps = [3]", "'steps' must be one value, not [3]"),
        ("drop = 'note'", "'drop' must be a list of texts, not 'note'"),
        ("quiet = 1", "'quiet' must be true or false, not 1"),
        ("backend = 'fast'", "'backend' must be one of auto, native, reference, not 'fast'"),
        ("treatments = 1", "'treatments' must be a table, [treatments]"),
        ("steps = ", "is no TOML file: Invalid value"),
        ("output = 'm'", "'output' is no option of a file"),
        ("drop = [true]", "'drop' must be a list of texts, not [True]"),
        ("steps = 3\nepochs = 2", "'steps' and 'epochs' set the same; give one of them"),
        ("refine = 2\nno-refine = true", "'refine' and 'no-refine' set the same"),
        ("[settings]\nx = 2024-01-01", "'x' cannot be 2024-01-01"),
    ],
)
def test_files_that_cannot_be_followed(
    text: str, told: str, export: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "c.toml").write_text(text)
    error = refused(capsys, "fit", export, "-o", tmp_path / "m", "--config", tmp_path / "c.toml")
    assert told in error
    assert not (tmp_path / "m").exists()


def test_unknown_columns_are_refused(export: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "c.toml").write_text("[treatments]\nwrad = 'text'")
    assert main(["fit", str(export), "-o", f"{tmp_path}/m", "--config", f"{tmp_path}/c.toml"]) == 2
    told = capsys.readouterr().err
    assert "error: --treat names ['wrad'], not in the table; it has ['case', 'age', 'ward', 'note']" in told


def test_a_file_that_is_not_there(export: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gone = tmp_path / "gone.toml"
    assert refused(capsys, "fit", export, "-o", tmp_path / "m", "--config", gone) == (
        f"--config {gone}: No such file or directory"
    )


def test_given_identifiers(export: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("fit", export, "-o", tmp_path / "m", "--treat", "case=identifier", *FIT)
    run("sample", tmp_path / "m", "-n", "1", "--given", "case=00007", "--given", "note=new")
    assert capsys.readouterr().out.splitlines()[1].startswith("00007;")
    run("fit", export, "-o", tmp_path / "m", *FIT)
    run("impute", tmp_path / "m", export, "-o", tmp_path / "filled.tsv")
    assert (tmp_path / "filled.tsv").read_text().splitlines()[1].startswith("00001\t")


def test_columns_that_are_not_learnt_are_shown_and_not_compared(
    export: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("sdmetrics")
    run("fit", export, "-o", tmp_path / "m", *FIT)
    run("sample", tmp_path / "m", "-n", "150", "-o", tmp_path / "s.csv", "--quiet")
    run("info", tmp_path / "m")
    shown = [line.split()[:2] for line in capsys.readouterr().out.splitlines()[-4:]]
    assert shown == [["case", "identifier"], ["age", "continuous"], ["ward", "continuous"], ["note", "text"]]
    run("evaluate", export, tmp_path / "s.csv")
    told = capsys.readouterr()
    assert "that a fit sets aside are not compared: 'case' (identifier), 'note' (text)" in told.err
    compared = float(told.out.split("overall")[1].split()[0])
    run("evaluate", export, tmp_path / "s.csv", "--drop", "case", "--drop", "note")
    alone = capsys.readouterr()
    assert "not compared" not in alone.err
    assert float(alone.out.split("overall")[1].split()[0]) == compared
