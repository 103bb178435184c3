"""The scripts in examples/ run, with few training steps, and print what they promise."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from missdiff_fast import MissDiff

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[[str], str]:
    """Runs an example with models of 20 steps, unrefined and not calibrated, and gives what it prints."""
    small = {"refine": 0, "settings": {"blend.rows_per_feature": 0, "calibration.rounds": 0}}
    for name, value in small.items():
        monkeypatch.setitem(MissDiff.__init__.__kwdefaults__, name, value)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def run_example(name: str) -> str:
        path = ROOT / "examples" / f"{name}.py"
        monkeypatch.setattr(sys, "argv", [str(path), "--steps", "20"])
        runpy.run_path(str(path), run_name="__main__")
        return capsys.readouterr().out

    return run_example


def test_each_example_has_a_test() -> None:
    assert [path.stem for path in EXAMPLES] == [
        *("complete_rows", "hospital_export", "model_per_card", "pooled_mean", "scikit_learn")
    ]


def test_complete_rows(run: Callable[[str], str]) -> None:
    shown = run("complete_rows")
    assert re.search(r"^[56],\d{3} of 30,000 cells are missing in .*census\.csv$", shown, re.MULTILINE)
    assert re.search(r"^0 of 30,000 cells are missing in .*synthetic\.csv$", shown, re.MULTILINE)


def test_hospital_export(run: Callable[[str], str], tmp_path: Path) -> None:
    """The file is the one of docs/how-to/export.md."""
    assert run("hospital_export") == "stays.csv: 600 stays, 13 columns\n"
    lines = (tmp_path / "stays.csv").read_bytes().decode("cp1252").split("\r\n")
    assert len(lines) == 602
    page = (ROOT / "docs" / "how-to" / "export.md").read_text(encoding="utf-8")
    assert all(f"    {line}\n" in page for line in lines[:3])


def test_model_per_card_in_one_process(run: Callable[[str], str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RANK", raising=False)
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    assert re.fullmatch(r"process 0: imputed-0\.csv, from a model on .+\n", run("model_per_card"))


def test_model_per_card_in_two_processes(tmp_path: Path) -> None:
    """Started by torchrun, each process has a seed and a file of its own, and the first pools what both found."""
    script = str(ROOT / "examples" / "model_per_card.py")
    started = "torch.distributed.run", "--standalone", "--nproc-per-node", "2", script, "--steps", "20"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    done = subprocess.run(
        [sys.executable, "-m", *started],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    told = sorted(line for line in done.stdout.splitlines() if line.startswith("process "))
    assert [line.split(",")[0] for line in told] == [f"process {rank}: imputed-{rank}.csv" for rank in range(2)]
    one, other = (pd.read_csv(tmp_path / f"imputed-{rank}.csv") for rank in range(2))
    assert not one.isna().any(axis=None)
    assert one["age"].equals(other["age"])
    assert not one["pressure"].equals(other["pressure"])
    assert re.search(r"^mean pressure [\d.]+, standard error [\d.]+, from 2 models$", done.stdout, re.MULTILINE)


def test_pooled_mean(run: Callable[[str], str]) -> None:
    shown = run("pooled_mean")
    found = re.search(r"pooled over draws +(-?[\d.]+), standard error ([\d.]+)$", shown, re.MULTILINE)
    assert found is not None
    assert 100 < float(found[1]) < 150
    assert 0 < float(found[2]) < 5


def test_scikit_learn(run: Callable[[str], str]) -> None:
    pytest.importorskip("sklearn")
    shown = run("scikit_learn")
    accuracies = [float(found) for found in re.findall(r"accuracy ([\d.]+)$", shown, re.MULTILINE)]
    assert len(accuracies) == 3
    assert min(accuracies) > 0.5  # three kinds of wine
