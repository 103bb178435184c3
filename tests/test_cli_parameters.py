"""Options of the command for which the model has a parameter of another form: rounds of refinement, the first row."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from missdiff_fast import MissDiff
from missdiff_fast.cli import main


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    random = np.random.default_rng(0)
    values = random.normal(size=(60, 2)).round(1)
    table = pd.DataFrame(np.where(random.random(values.shape) < 0.2, np.nan, values), columns=["x", "y"])
    path = tmp_path_factory.mktemp("data") / "table.csv"
    table.to_csv(path, index=False)
    return path


def _fit(data: Path, model: Path, *options: str) -> MissDiff:
    small = ["--steps", "3", "--width", "8", "--blocks", "1", "--seed", "0", "--device", "cpu", "--quiet"]
    assert main(["fit", str(data), "-o", str(model), *small, *options]) == 0
    return MissDiff.load(model)


@pytest.mark.parametrize(
    ("options", "refine", "phases"),
    [([], None, 4), (["--no-refine"], 0, 3), (["--refine", "0"], 0, 3), (["--refine", "1"], 1, 4)],
)
def test_rounds_of_refinement(data: Path, tmp_path: Path, options: list[str], refine: int | None, phases: int) -> None:
    model = _fit(data, tmp_path / "m", *options)
    assert model.refine == refine
    assert len(model.history_) == phases


def test_chunks_continue_one_another(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _fit(data, tmp_path / "m")
    capsys.readouterr()

    def rows(count: int, *options: str) -> list[str]:
        assert main(["sample", str(tmp_path / "m"), "-n", str(count), "--seed", "4", *options]) == 0
        return capsys.readouterr().out.splitlines()[1:]

    assert rows(9) == rows(4) + rows(5, "--first-row", "4")


def test_a_first_row_before_the_first_is_refused(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _fit(data, tmp_path / "m")
    capsys.readouterr()
    assert main(["sample", str(tmp_path / "m"), "-n", "2", "--first-row", "-1"]) == 2
    assert "must be at least 0, got -1" in capsys.readouterr().err
