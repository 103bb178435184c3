"""The scripts in examples/ run, with few training steps, and print what they promise."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


def run(name: str, folder: Path) -> str:
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / f"{name}.py", "--steps", "20"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path, "TMPDIR": str(folder)},
        text=True,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_each_example_has_a_test() -> None:
    assert [path.stem for path in EXAMPLES] == ["complete_rows", "pooled_mean", "scikit_learn"]


def test_complete_rows(tmp_path: Path) -> None:
    shown = run("complete_rows", tmp_path)
    assert re.search(r"^[56],\d{3} of 30,000 cells are missing in .*census\.csv$", shown, re.MULTILINE)
    assert re.search(r"^0 of 30,000 cells are missing in .*synthetic\.csv$", shown, re.MULTILINE)


def test_pooled_mean(tmp_path: Path) -> None:
    shown = run("pooled_mean", tmp_path)
    found = re.search(r"pooled over draws +(-?[\d.]+), standard error ([\d.]+)$", shown, re.MULTILINE)
    assert found is not None
    assert 100 < float(found[1]) < 150
    assert 0 < float(found[2]) < 5


def test_scikit_learn(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    shown = run("scikit_learn", tmp_path)
    accuracies = [float(found) for found in re.findall(r"accuracy ([\d.]+)$", shown, re.MULTILINE)]
    assert len(accuracies) == 3
    assert min(accuracies) > 0.5  # three kinds of wine
