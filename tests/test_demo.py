"""The demo with few steps: what it prints, writes and asks for."""

from __future__ import annotations

import contextlib
import errno
import importlib.util
import io
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from missdiff_fast import MissDiff
from missdiff_fast.cli import main
from missdiff_fast.datasets import census_split
from missdiff_fast.missingness import hide

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    for package in ("matplotlib", "sdmetrics", "xgboost", "sklearn"):
        pytest.importorskip(package)
    return tmp_path_factory.mktemp("demo") / "new" / "folder"


@pytest.fixture(scope="module")
def printed(folder: Path) -> str:
    """The output of a model of 30 steps, unrefined and not calibrated."""
    small = {"refine": 0, "settings": {"blend.rows_per_feature": 0, "calibration.rounds": 0}}
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(io.StringIO()) as output:
        for name, value in small.items():
            patch.setitem(MissDiff.__init__.__kwdefaults__, name, value)
        assert main(["demo", "-o", str(folder), "--steps", "30", "--quiet"]) == 0
    return output.getvalue()


def figures(printed: str, name: str) -> list[float]:
    line = next(line for line in printed.splitlines() if line.startswith(f"  {name}"))
    return [float(word) for word in line.removeprefix(f"  {name}").replace("%", "").split()]


def test_it_compares_with_real_rows_and_with_mean_and_mode(printed: str) -> None:
    assert printed.startswith("Census: 16,000 rows, 15 columns; 48,059 cells (20%) hidden at random")
    assert len(figures(printed, "missdiff's synthetic rows")) == 3
    assert figures(printed, "real rows, holes filled by mean/mode")[1] == pytest.approx(89.1)
    assert len(figures(printed, "trained on 16,000 synthetic rows")) == 2
    assert figures(printed, "trained on 16,000 complete real rows")[0] == pytest.approx(0.925, abs=0.005)
    assert figures(printed, "column mean/mode") == pytest.approx([0.122, 42.1])
    assert figures(printed, "missdiff ")[0] < 0.2
    assert "Time: fit " in printed


def test_it_writes_what_it_made(folder: Path, printed: str) -> None:
    assert sorted(path.name for path in folder.iterdir()) == [
        "imputed.csv",
        "marginals.png",
        "model.missdiff",
        "synthetic.csv",
    ]
    assert (folder / "marginals.png").read_bytes().startswith(PNG)
    train, _ = census_split(seed=0)
    imputed = pd.read_csv(folder / "imputed.csv", keep_default_na=False)
    observed = hide(train, "independent", 0.2, random_state=0)[1]
    assert np.array_equal(imputed.to_numpy(object)[observed], train.to_numpy(object)[observed])
    synthetic = pd.read_csv(folder / "synthetic.csv", keep_default_na=False)
    assert synthetic.dtypes.equals(train.dtypes)
    assert imputed.dtypes.equals(train.dtypes)
    assert len(synthetic) == 16_000


def test_the_command_it_proposes_works(folder: Path, printed: str, capsys: pytest.CaptureFixture[str]) -> None:
    line = printed.splitlines()[-1].split()
    assert line[0] == "missdiff"
    assert main(line[1:]) == 0
    rows = capsys.readouterr().out.splitlines()[1:]
    assert len(rows) == 5
    assert all(row.startswith("30,") and ",Female," in row for row in rows)
    assert MissDiff.load(folder / "model.missdiff").history_["step"].max() >= 30


def test_a_missing_package_is_told_before_any_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "matplotlib" else find(name))
    assert main(["demo", "-o", str(tmp_path / "out")]) == 2
    message = "missdiff: error: the demo needs the package 'matplotlib': pip install 'missdiff_fast[demo]'\n"
    assert capsys.readouterr().err == message
    assert not (tmp_path / "out").exists()


def test_a_folder_that_cannot_be_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert main(["demo", "-o", str(tmp_path / "file")]) == 2
    assert capsys.readouterr().err == f"missdiff: error: {tmp_path / 'file'}: File exists\n"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--seed -1", "--seed must lie in [0, 2**64), got -1"),
        ("--steps 0", "steps must be at least 1, got 0"),
        ("--device tpu", "'tpu'"),
        ("--device cuda", "use --device cpu"),
    ],
)
def test_bad_options_are_told_before_any_work(
    options: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr("missdiff_fast.demo.census_split", lambda **_: pytest.fail("the table was made"))
    assert main(["demo", "-o", str(tmp_path / "out"), *options.split()]) == 2
    out, err = capsys.readouterr()
    assert message in err
    assert (out, err.count("\n")) == ("", 1)
    assert not (tmp_path / "out").exists()


def test_a_folder_that_cannot_hold_the_files_is_told_before_any_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("missdiff_fast.demo.census_split", lambda **_: pytest.fail("the table was made"))
    (tmp_path / "model.missdiff").mkdir()
    assert main(["demo", "-o", str(tmp_path)]) == 2
    assert capsys.readouterr().err.startswith(f"missdiff: error: {tmp_path / 'model.missdiff'} is a folder")

    def full(**_: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr("tempfile.TemporaryFile", full)
    assert main(["demo", "-o", str(tmp_path)]) == 2
    message = f"missdiff: error: the folder {tmp_path} cannot be written to (Read-only file system)\n"
    assert capsys.readouterr().err == message


def test_marginals_of_few_columns_and_of_odd_ones(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from missdiff_fast.demo import plot_marginals

    real = pd.DataFrame({"constant": [3.0] * 5, "many": list("abcde"), "tiny": np.linspace(0, 1e-9, 5)})
    plot_marginals(real, real[:3], tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(PNG)
