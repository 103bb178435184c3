"""The same seed gives the rows that it gave when they were stored, from a new fit and from the model file of then."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest
import stored_rows
import torch

from missdiff_fast.ops import _library

STORED = Path(__file__).parent / "stored"
_SAME = torch.__version__.startswith("2.13.0") and platform.machine() == "x86_64"
pytestmark = pytest.mark.skipif(not _SAME, reason="the rows were stored under torch 2.13.0 on x86-64")
_RUNS = [f"{preset}-{backend}" for preset in stored_rows.PRESETS for backend in stored_rows.BACKENDS]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The rows of today, made in a process whose instruction sets are those of the stored ones."""
    folder = tmp_path_factory.mktemp("rows")
    program = [sys.executable, str(STORED.parent / "stored_rows.py"), str(folder), str(STORED)]
    environment = {**os.environ, **stored_rows.ENVIRONMENT, "PYTHONPATH": str(STORED.parents[1])}
    subprocess.run(program, cwd=STORED.parents[1], env=environment, check=True)
    return folder


@pytest.mark.parametrize("source", ["fit", "load"])
@pytest.mark.parametrize("run", _RUNS)
def test_rows_are_the_stored_ones(written: Path, run: str, source: str) -> None:
    if run.partition("-")[2] not in stored_rows.installed():
        pytest.skip("missdiff_fast was installed without its compiled ops")
    stored = sorted((STORED / run).glob("*.csv"))
    assert len(stored) == (9 if run.startswith("default") else 8)
    drawn = sorted((written / source / run).glob("*.csv"))
    assert len(drawn) == (len(stored) if source == "fit" else len(stored) - 5)
    for path in drawn:
        assert path.read_text() == (STORED / run / path.name).read_text(), path.name


def test_without_the_extension_the_other_backend_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_library, "load", lambda: False)
    monkeypatch.setattr(stored_rows, "fit", lambda preset, backend: (preset, backend))
    monkeypatch.setattr(stored_rows, "_write", lambda model, to, loaded=False: to.mkdir(parents=True))
    stored_rows.write(tmp_path, STORED)
    runs = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.glob("*/*"))
    assert runs == [f"{source}/{preset}-reference" for source in ("fit", "load") for preset in ("default", "paper")]
