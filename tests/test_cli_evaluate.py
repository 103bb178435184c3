"""``missdiff evaluate`` as its user meets it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("sdmetrics")
pytest.importorskip("sklearn")

from missdiff_fast.cli import main
from missdiff_fast.evaluate import report


def table(seed: int) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    x = random.normal(size=150).round(3)
    y = np.where(x + random.normal(size=150) > 0, "yes", "no")
    return pd.DataFrame({"x": x, "ward": random.choice([1, 2, 3], 150), "y": y})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """real.csv, synthetic.csv and test.csv."""
    for seed, name in enumerate(["real", "synthetic", "test"]):
        table(seed).to_csv(tmp_path / f"{name}.csv", index=False)
    return tmp_path


def run(folder: Path, *args: object) -> int:
    try:
        return main(["evaluate", f"{folder}/real.csv", f"{folder}/synthetic.csv", *map(str, args)])
    except SystemExit as stop:
        return int(str(stop.code))


def refused(capsys: pytest.CaptureFixture[str], folder: Path, *args: object) -> str:
    """Run the command, which must end with code 2, nothing on stdout and one line on stderr; the line."""
    code = run(folder, *args)
    output = capsys.readouterr()
    assert (code, output.out, output.err.count("\n")) == (2, "", 1), output.err
    return output.err.removeprefix("missdiff: error: ").rstrip("\n")


def test_fidelity_is_printed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(folder) == 0
    lines = capsys.readouterr().out.splitlines()
    found = report(table(0), table(1))["value"]
    names = ["overall", "shapes", "trends", "overall_all_pairs", "trends_all_pairs"]
    assert [line.split() for line in lines[1:6]] == [
        [name, f"{value:.2f}"] for name, value in zip(names, found, strict=True)
    ]


def test_the_worst_columns_and_pairs_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    real = table(0).assign(**{f"c{i}": list("ab") * 75 for i in range(6)})
    shares = {f"c{i}": ["a"] * (75 + 5 * i) + ["b"] * (75 - 5 * i) for i in range(6)}
    real.to_csv(tmp_path / "real.csv", index=False)
    real.assign(**shares).to_csv(tmp_path / "synthetic.csv", index=False)
    assert run(tmp_path) == 0
    head, columns, pairs = capsys.readouterr().out.strip().split("\n\n")
    assert len(head.splitlines()) == 6
    assert [line.split() for line in columns.splitlines()[1:]] == [
        ["c5", "83.33"],
        ["c4", "86.67"],
        ["c3", "90.00"],
        ["c2", "93.33"],
        ["c1", "96.67"],
    ]
    assert len(pairs.splitlines()) == 6
    assert run(tmp_path, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["worst_columns"][0] == {"column": "c5", "score": pytest.approx(100 * 25 / 30)}
    scores = [one["score"] for one in found["worst_pairs"]]
    assert scores == sorted(scores)
    assert {"first", "second", "score"} == set(found["worst_pairs"][0])
    assert main(["evaluate", f"{tmp_path}/real.csv", f"{tmp_path}/real.csv"]) == 0
    assert "Worst" not in capsys.readouterr().out


def test_everything_is_written_as_a_table_too(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--test", folder / "test.csv", "--target", "y", "--model", "decision_tree", "--seed", 3]
    assert run(folder, *arguments, "--continuous", "x", "-o", folder / "out.csv") == 0
    assert "decision_tree" in capsys.readouterr().out
    expected = report(
        table(0),
        table(1),
        test=table(2),
        target="y",
        models=["decision_tree"],
        continuous=["x"],
        random_state=3,
    )
    found = pd.read_csv(folder / "out.csv", keep_default_na=False)
    pd.testing.assert_frame_equal(found, expected)


def test_whole_rows_are_compared_if_asked_for(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("xgboost")
    options = ["--detection", "--precision-recall", "--seed", 3]
    assert run(folder, *options) == 0
    printed = {line.split()[0]: line.split()[1] for line in capsys.readouterr().out.splitlines() if line[:2] == "  "}
    found = report(table(0), table(1), detection=True, precision_recall=True, random_state=3)[5:]
    expected = {name: f"{value:.4f}" for name, value in zip(found["metric"], found["value"], strict=True)}
    assert len(expected) == 5
    assert printed.items() >= expected.items()
    table(1).head(5).to_csv(folder / "synthetic.csv", index=False)
    assert refused(capsys, folder, *options) == "SYNTHETIC has 5 rows; at least 10 are needed: give it more rows"


def test_a_column_of_strings_that_look_like_numbers_in_one_table(folder: Path) -> None:
    real = table(0).assign(code=["x7"] * 75 + ["007"] * 75)
    real.to_csv(folder / "real.csv", index=False)
    table(1).assign(code="007").to_csv(folder / "synthetic.csv", index=False)
    assert run(folder) == 0


def test_categorical_columns_are_compared_as_they_are_written(folder: Path) -> None:
    for name, codes in (("real", ["01", "1", "10"]), ("synthetic", ["1", "1", "10"]), ("test", ["01", "1", "10"])):
        table(0).assign(code=codes * 50).to_csv(folder / f"{name}.csv", index=False)
    found = {}
    for options in ((), ("--categorical", "code")):
        assert run(folder, "-o", folder / "out.csv", *options) == 0
        found[options] = pd.read_csv(folder / "out.csv").set_index("metric")["value"]["shapes"]
    assert found[()] == 100
    assert found["--categorical", "code"] < 95
    assert run(folder, "--categorical", "cod") == 2


def test_flags_with_holes_are_the_same_flags_where_there_are_none(folder: Path) -> None:
    whole = table(0).assign(flag=np.arange(150) % 3 == 0, code=[f"{i % 2:03}" for i in range(150)])
    hidden = np.arange(150)[:, None] < [0, 0, 0, 20, 0]
    whole.astype({"flag": object}).mask(hidden).to_csv(folder / "real.csv", index=False)
    for name in ("synthetic", "test"):
        whole.to_csv(folder / f"{name}.csv", index=False)
    utility = ["--test", folder / "test.csv", "--target", "flag", "--model", "decision_tree"]
    assert run(folder, "-o", folder / "out.csv", *utility) == 0
    found = pd.read_csv(folder / "out.csv").set_index("metric")["value"]
    assert found["shapes"] > 98  # a fifteenth of the flags is hidden
    assert "binary_f1" in found  # there are two classes, not True beside "True"


def test_real_rows_may_have_holes(folder: Path) -> None:
    table(0).mask(np.random.default_rng(0).random((150, 3)) < 0.2).to_csv(folder / "real.csv", index=False)
    assert run(folder, "--test", folder / "test.csv", "--target", "y", "--model", "decision_tree") == 0


def test_columns_that_differ_are_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table(1).assign(more=1).to_csv(folder / "synthetic.csv", index=False)
    assert refused(capsys, folder) == (
        "column 'more' is in SYNTHETIC only; both tables need the same columns: drop it, --drop 'more'"
    )
    table(1).assign(x="high").to_csv(folder / "synthetic.csv", index=False)
    message = "column 'x' holds numbers in REAL and categories in SYNTHETIC; give it one dtype"
    assert refused(capsys, folder) == message


def test_targets_that_cannot_be_predicted_are_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    test = ["--test", folder / "test.csv"]
    assert refused(capsys, folder, *test, "--target", "z").startswith("--target 'z': the table has no such column; it")
    together = "--test TEST and --target COL go together: rows to test on, and the column to predict"
    assert refused(capsys, folder, *test) == together
    assert refused(capsys, folder, "--target", "y") == together
    table(1).assign(y="yes").to_csv(folder / "synthetic.csv", index=False)
    message = "column 'y' of SYNTHETIC has one class, 'yes': a target with one class cannot be learnt or judged by"
    assert refused(capsys, folder, *test, "--target", "y") == message


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--continuous", "z"], "--continuous 'z': the table has no such column"),
        (["--continuous", "y"], "column 'y' is named as continuous, but its dtype is object"),
        (["--test", "{}/none.csv", "--target", "y"], "none.csv: there is no such file"),
        (["--test", "{}/test.csv", "--target", "y", "--model", "svm"], "'svm' is no model for classification"),
        (["--test", "{}/test.csv", "--target", "y", "--grid", "huge"], "argument --grid: invalid choice: 'huge'"),
        (["--test", "{}/test.csv", "--target", "y", "--seed", "-1"], "--seed must lie in [0, 2**32), got -1"),
        (["--jobs", "0"], "--jobs must be 1 or more, or -1 for one for each core"),
        (["-o", "{}/real.csv"], "would overwrite"),
        (["-o", "{}/none/out.csv"], "there is no folder"),
    ],
)
def test_bad_options_are_refused(
    args: list[str], message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert message in refused(capsys, folder, *(arg.format(folder) for arg in args))


def test_missing_cells_of_test_rows_are_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table(2).replace({"y": {"no": "?"}}).to_csv(folder / "test.csv", index=False)
    arguments = ["--test", folder / "test.csv", "--target", "y", "--missing-values", "?"]
    message = "column 'y' of TEST has missing cells; fill them, or drop the rows that have them"
    assert refused(capsys, folder, *arguments) == message
