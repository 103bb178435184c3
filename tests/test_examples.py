"""The scripts in examples/ run, with few training steps, and print what they promise."""

from __future__ import annotations

import re
import runpy
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

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
    assert [path.stem for path in EXAMPLES] == ["complete_rows", "hospital_export", "pooled_mean", "scikit_learn"]


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
