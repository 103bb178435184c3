"""bench/quality: resuming, what cannot be had, the page, and the readers of the tables that it knows."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from benchmarks import ROOT, bench_on_the_path, load  # noqa: F401

pytest.importorskip("sdmetrics")
pytest.importorskip("xgboost")
pytest.importorskip("matplotlib")

ROWS = 80
FACTS = {
    "machine": json.dumps({"processor": "Some CPU", "cores": 2, "simd": "avx2"}),
    "versions": json.dumps({"python": "3.11.7", "torch": "2.13.0", "missdiff_fast": "0.1.0"}),
    "threads": 1,
    "commit": "abc1234",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of tables with a tiny one, in a folder within."""
    random = np.random.default_rng(0)
    x = random.normal(size=ROWS).round(3)
    table = pd.DataFrame({"id": range(ROWS), "x": x, "w": 2 * x + random.normal(size=ROWS).round(3)})
    table["y"] = np.where(x > 0, "yes", "no")
    (tmp_path / "data" / "within").mkdir(parents=True)
    table.to_csv(tmp_path / "data" / "within" / "tiny.csv", index=False)
    return tmp_path / "data"


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tiny table among the known ones."""
    tables = load("quality.tables")
    monkeypatch.setitem(tables.TABLES, "tiny", tables.Table("tiny.csv", "y", drop=("id",)))


def command(monkeypatch: pytest.MonkeyPatch, out: Path, *options: str) -> pd.DataFrame:
    """Run ``python bench/quality`` in this process, and read its file."""
    monkeypatch.setattr(sys, "argv", ["quality", "--threads", "1", "--out", str(out), *options])
    monkeypatch.setattr(load("store"), "facts", lambda: {n: _read(v) for n, v in FACTS.items()})
    load("quality.command").main()
    return pd.read_csv(out / "runs.csv")


def _read(value: Any) -> Any:
    return json.loads(value) if isinstance(value, str) and value.startswith("{") else value


def test_an_interrupted_command_goes_on_where_it_stopped(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, folder: Path, tiny: None
) -> None:
    methods, out, calls = load("quality.methods"), tmp_path / "out", []
    plain = methods.METHODS["mean_mode"]

    def counted(holes: pd.DataFrame, seed: int, effort: Any) -> Any:
        calls.append(seed)
        if len(calls) == 3:
            raise KeyboardInterrupt
        if len(calls) == 5:
            raise ValueError("this once")
        return plain(holes, seed, effort)

    monkeypatch.setitem(methods.METHODS, "mean_mode", counted)
    options = ["--data", str(folder), "--tables", "tiny", "--methods", "mean_mode", "--mechanisms", "column"]
    with pytest.raises(KeyboardInterrupt):
        command(monkeypatch, out, *options, "--seeds", "0", "1", "2", "3")
    before = (out / "runs.csv").read_text()
    assert pd.read_csv(out / "runs.csv")["seed"].tolist() == [0, 1]
    assert (out / "quality.md").exists()
    with pytest.raises(SystemExit):  # one failed
        command(monkeypatch, out, *options, "--seeds", "0", "1", "2", "3")
    runs = pd.read_csv(out / "runs.csv")
    assert calls == [0, 1, 2, 2, 3]
    assert runs["error"].fillna("").tolist() == ["", "", "", "ValueError: this once"]
    assert "ValueError: this once" in (out / "quality.md").read_text()
    assert (out / "runs.csv").read_text().startswith(before), "finished runs have changed"
    runs = command(monkeypatch, out, *options, "--seeds", "0", "1", "2", "3")
    assert calls == [0, 1, 2, 2, 3, 3]
    assert runs["error"].isna().all()
    assert "## Failed" not in (out / "quality.md").read_text()
    command(monkeypatch, out, *options, "--seeds", "0", "1", "2", "3")
    assert len(calls) == 6


def test_every_method_of_the_package_runs_and_is_measured(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, folder: Path, tiny: None
) -> None:
    """Under ``--quick``, on a table with a target."""
    methods = load("quality.methods")
    monkeypatch.setitem(methods.QUICK.settings, "missdiff_fast", {"steps": 5, "refine": 0})
    monkeypatch.setitem(methods.QUICK.settings, "gain", {"iterations": 3})
    options = ["--data", str(folder), "--tables", "tiny", "--quick", "--methods", *methods.METHODS]
    runs = command(monkeypatch, tmp_path / "out", *options).set_index("method")
    assert runs.index.tolist() == list(methods.METHODS)
    measures = ["overall", "overall_all_pairs", "auroc", "rmse", "category_error", "energy", "fit_s"]
    assert runs[measures].notna().all(axis=None)
    assert runs["coverage_95"].dropna().index.tolist() == ["missdiff_fast", "iterative"]
    assert (runs["rows"] == 64).all()
    assert (runs["commit"] == "abc1234").all()


def test_measures_of_a_method_that_knows_the_truth(folder: Path, tiny: None) -> None:
    tables, measure, methods = load("quality.tables"), load("quality.measure"), load("quality.methods")
    outcome = load("quality.outcome").Outcome
    train, test = tables.TABLES["tiny"].load(folder, 1000)
    observed = np.random.default_rng(1).random(train.shape) > 0.3
    exact = outcome({}, "1", filled=train, draws=[train, train])
    found = measure.measure(train, test, "y", exact, observed, methods.Effort(2, len(train)))
    assert found["rmse"] == found["category_error"] == found["energy"] == 0
    assert found["overall"] == 100
    assert found["coverage_80"] == pytest.approx(0.8)
    assert found["auroc"] > 0.9
    alone = measure.measure(train, test, None, outcome({}, "1", filled=train), observed, methods.Effort(2, 20))
    assert alone["energy"] == 0
    assert not {"auroc", "coverage_80"} & alone.keys()


def test_what_cannot_be_had_is_skipped_with_its_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, folder: Path, tiny: None
) -> None:
    rivals = load("quality.rivals")
    assert rivals.unavailable("tvae", None) == "no environment for rivals: `make rivals`, or pass --python"
    fake = tmp_path / "python"  # one without packages
    fake.write_text("#!/bin/sh\necho 'ModuleNotFoundError: no such package' >&2\nexit 1\n")
    fake.chmod(0o755)
    options = ["--data", str(folder), "--tables", "tiny", "pima", "--python", str(fake), "--quick"]
    runs = command(monkeypatch, tmp_path / "out", *options, "--methods", "mean_mode", *rivals.RIVALS)
    assert runs["method"].tolist() == ["mean_mode"]
    page = (tmp_path / "out" / "quality.md").read_text()
    for name in rivals.RIVALS:
        assert f"- {name}: ModuleNotFoundError: no such package" in page
    assert f"- pima: no file pima-indians-diabetes.csv in {folder}" in page
    with pytest.raises(FileNotFoundError, match="pass --data FOLDER"):
        load("quality.tables").TABLES["pima"].load(None, 100)


STUB = """
class ImputationKernel:
    def __init__(self, table, num_datasets, mean_match_strategy, random_state):
        self.table, self.strategies = table, mean_match_strategy
    def mice(self, rounds):
        if self.strategies[CATEGORIES] == "normal" and CERTAIN:
            raise ValueError("data must be finite, check for nan or inf values")
    def complete_data(self, m):
        made = self.table.copy()
        for name in made:
            number = made[name].dtype.kind == "f"
            made[name] = made[name].fillna(m if number else made[name].mode()[0])
        return made
"""


@pytest.mark.parametrize("certain", [False, True])
def test_a_rival_fills_in_another_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, certain: bool) -> None:
    """With a package of that name which fills draw m's numbers by m, and like it fails at a probability of 1."""
    (tmp_path / "miceforest.py").write_text(f"CATEGORIES, CERTAIN = '1', {certain}\n{STUB}")
    (tmp_path / "miceforest-7.1.dist-info").mkdir()
    (tmp_path / "miceforest-7.1.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: miceforest\nVersion: 7.1\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    rivals = load("quality.rivals")
    assert rivals.unavailable("miceforest", sys.executable) == ""
    table = pd.DataFrame({"a b": [1.5, None, 2.5, 3.5], "NA": ["NA", "x, y", None, "x, y"], "n": [1, 2, 3, 4]})
    found = rivals.run("miceforest", table, 0, 3, 2, sys.executable)
    assert found.version == "7.1"
    assert found.synthetic is None
    assert [len(draw) for draw in found.draws] == [2, 2, 2]
    assert [draw["a b"].tolist() for draw in found.draws] == [[1.5, 0], [1.5, 1], [1.5, 2]]
    assert found.filled.to_dict("list") == {
        "a b": [1.5, 1, 2.5, 3.5],
        "NA": ["NA", "x, y", "x, y", "x, y"],
        "n": [1, 2, 3, 4],
    }
    with pytest.raises(RuntimeError, match="KeyError"):
        rivals.run("another", table, 0, 3, 2, sys.executable)


def made_up_runs() -> pd.DataFrame:
    """Two tables, two seeds; forest is best on one; late has one seed alone."""
    measure, rows = load("quality.measure"), []
    for table, errors in {"a": (0.3, 0.2, 0.1, 0.25), "b": (0.1, 0.2, 0.3, 0.4)}.items():
        for method, error in zip(("missdiff_fast", "forest", "mice", "mean_mode"), errors, strict=True):
            for seed in range(2):
                key = dict(zip(measure.KEY, (table, 1000, "row", 0.2, seed, method, False), strict=True))
                scores = {"rmse": error + seed / 100, "category_error": 30.0, "energy": 0.5, "overall": 90.0}
                rows.append({**key, "columns": 4, "missing": 0.0, **scores, "fit_s": 2.0, **FACTS})
    rows.append({**rows[0], "method": "late", "rmse": 0.0})
    rows.append({**rows[1], "method": "late", "rmse": None, "error": "ValueError: too late"})
    return pd.DataFrame(rows, columns=measure.COLUMNS)


def test_the_page_has_means_ranks_and_failures(tmp_path: Path) -> None:
    page = load("quality.page")
    page.write(made_up_runs(), {"tvae": "not there"}, tmp_path, "quality")
    text = (tmp_path / "quality.md").read_text()
    assert "| a (1,000 rows) | 0.3050 | 0.2050 | **0.1050** | 0.2550 | 0.0000\\* |" in text
    assert "| b (1,000 rows) | **0.1050** | 0.2050 | 0.3050 | 0.4050 | - |" in text
    assert (
        "- a (1,000 rows), RMSE of filled numbers, share of the column's range: place 4 with 0.3050; mice 0.1050, "
        "forest 0.2050, mean_mode 0.2550\n" in text
    )
    assert "- b (1,000 rows)" not in text
    assert "- a (1,000 rows), row, seed 1, late: ValueError: too late" in text
    assert "- tvae: not there" in text
    assert (
        "- Some CPU, 2 cores, 1 threads, SIMD avx2; Python 3.11.7, torch 2.13.0, missdiff_fast 0.1.0 at abc1234."
        in text
    )
    assert "![quality-imputation](quality-imputation.png)" in text
    assert (tmp_path / "quality-imputation.png").read_bytes().startswith(b"\x89PNG")
    assert not (tmp_path / "quality-coverage.png").exists()


def test_whole_census_runs_are_the_figures_of_the_readme() -> None:
    census, runs = load("quality.census"), made_up_runs()
    runs["rows"] = 16_000
    assert len(census.figures(runs)) == 0
    found = census.figures(runs.replace({"table": {"a": "census"}}))
    assert found["seed"].tolist() == [0, 1]
    assert found["mean_mode_rmse"].tolist() == [0.25, 0.26]
    stored = pd.read_csv(load("store").QUALITY).columns
    assert set(stored) <= set(found.columns)


def test_formats_of_files(tmp_path: Path) -> None:
    formats = load("quality.formats")
    arff = tmp_path / "t.arff"
    arff.write_text("% a\n@relation t\n@ATTRIBUTE 'two words' {a,'b c'}\n@attribute n real\n@data\n'b c',?\na,1.5\n%\n")
    found = formats.read_file(arff)
    assert found.columns.tolist() == ["two words", "n"]
    assert found["two words"].tolist() == ["b c", "a"]
    assert found["n"].isna().tolist() == [True, False]
    arff.write_text("@relation t\n@attribute n real\n@data\n1,2\n")
    with pytest.raises(ValueError, match="row 1 has 2 cells where there are 1 attributes"):
        formats.read_file(arff)
    arff.write_text("@relation t\n")
    with pytest.raises(ValueError, match="no line @data"):
        formats.read_file(arff)
    (tmp_path / "t.csv").write_bytes(b"X1,X2\rID,y\r1,2\r3,4\r")
    assert formats.read_file(tmp_path / "t.csv", skip_rows=1).to_dict("list") == {"ID": [1, 3], "y": [2, 4]}


def test_a_table_is_made_ready() -> None:
    table = load("quality.tables").Table("t.csv", "y", drop=("id",), categories=("ward",), zeros=("x",))
    frame = pd.DataFrame({"id": [1, 2, 3, 4], "x": [0, 1, 2, 3], "ward": [1.0, 2.0, None, 3.0], "y": [0, 1, 2, None]})
    frame["two"], frame["many"] = [5, 5, 6, 6], [f"m{i}" for i in range(4)]
    found = table.ready(frame)
    assert found.columns.tolist() == ["x", "ward", "y", "two", "many"]
    assert len(found) == 3  # one had no target
    assert found["x"].isna().tolist() == [True, False, False]
    assert found["ward"].fillna("").tolist() == ["1", "2", ""]
    assert found["y"].tolist() == ["0", "1", "2"]
    assert found["two"].tolist() == ["5", "5", "6"]
    assert table.ready(pd.concat([frame] * 60).assign(many=[f"m{i}" for i in range(240)]))["many"].nunique() == 51


# Columns, and those of numbers, of 1,000 rows.
READ = {
    "adult": (15, 6),
    "credit_default": (24, 20),  # carriage returns alone end its lines
    "diabetes130": (37, 8),
    "physionet2019": (26, 22),  # bars
    "air_quality": (14, 14),  # semicolons and decimal commas
    "hypothyroid": (27, 6),  # ARFF
    "kidney": (25, 11),
    "german": (21, 6),  # no header
    "seoul_bikes": (13, 10),  # a byte-order mark
}


def test_every_known_table_is_read(real_data: Path) -> None:
    tables = load("quality.tables").TABLES
    for name, table in tables.items():
        train, test = table.load(real_data, 1000)
        assert train.columns.tolist() == test.columns.tolist(), name
        assert len(train) == min(1000, round(0.8 * (len(train) + len(test)))) or name == "census", name
        numbers = [c for c in train.columns if pd.api.types.is_numeric_dtype(train[c])]
        assert (train.shape[1], len(numbers)) == READ.get(name, (train.shape[1], len(numbers))), name
        for column in train.columns.difference(numbers):
            known = train[column].dropna()
            assert known.map(type).eq(str).all(), f"{name}: {column}"
            assert 1 < known.nunique() <= 51, f"{name}: {column}"
            assert name == "census" or not known.isin(["?", ""]).any(), f"{name}: {column}"
        assert table.target is None or (train[table.target].notna().all() and train[table.target].nunique() > 1), name
    air = tables["air_quality"].load(real_data, 1000)[0]
    assert air["T"].between(-10, 50).sum() == air["T"].notna().sum()
    assert air["Time"].between(0, 23).all()


def test_the_documentation_names_what_there_is() -> None:
    text = (ROOT / "docs" / "quality.md").read_text(encoding="utf-8")
    assert "python bench/quality --data FOLDER --tables support2" in text
    assert "support2" in load("quality.tables").TABLES
    worker = load("quality.rival_worker")
    assert tuple(worker.RIVALS) == load("quality.rivals").RIVALS
    needed = load("quality.rivals").REQUIREMENTS.read_text().lower()
    assert all(f"{package.lower()}==" in needed for _, package, _ in worker.RIVALS.values())
