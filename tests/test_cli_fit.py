"""``missdiff fit`` as its user meets it."""

from __future__ import annotations

import errno
import subprocess
import sys
from pathlib import Path

import pytest
from commands import files, raises, refused

from missdiff_fast import MissDiff
from missdiff_fast.cli import main


class TestFit:
    def test_the_model_is_there_and_knows_its_columns(self, model: str) -> None:
        loaded = MissDiff.load(model)
        assert list(loaded.columns_) == ["age", "dose=mg", "sex", "ward"]
        assert loaded.codec_.schema["ward"].kind == "categorical"
        assert loaded.codec_.schema["age"].family == "integer"

    def test_a_column_named_twice_is_named(self, data: str, tmp_path: Path) -> None:
        twice = [part for option in ("--drop patient", "--categorical ward") for part in [*option.split()] * 2]
        assert main(["fit", data, "-o", f"{tmp_path}/m", "--steps", "2", *twice]) == 0
        assert list(MissDiff.load(f"{tmp_path}/m").columns_) == ["age", "dose=mg", "sex", "ward"]

    def test_a_mark_is_no_number_that_python_alone_would_read(self, tmp_path: Path) -> None:
        (tmp_path / "t.csv").write_text("a,b\n" + "".join(f"{i},{i % 7}\n" for i in range(1, 41)))
        assert main(["fit", f"{tmp_path}/t.csv", "-o", f"{tmp_path}/m", "--steps", "2", "--missing-values", "1_0"]) == 0
        assert MissDiff.load(f"{tmp_path}/m").missing_values == ("1_0",)

    def test_quiet_where_stderr_is_no_terminal(self, data: str, tmp_path: Path) -> None:
        line = f"-m missdiff_fast fit {data} -o {tmp_path}/m --drop patient --steps 2"
        done = subprocess.run([sys.executable, *line.split()], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")

    def test_progress_where_stderr_is_a_terminal(
        self, data: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
        line = ["fit", data, "-o", f"{tmp_path}/m", "--drop", "patient", "--steps", "2"]
        assert main(line) == 0
        output = capsys.readouterr()
        assert output.out == ""
        assert "120 rows, 4 columns, " in output.err
        assert f"{tmp_path}/m: the model, trained in " in output.err
        assert main([*line, "--quiet"]) == 0
        assert capsys.readouterr().err == ""

    def test_the_papers_preset_and_its_settings(self, data: str, tmp_path: Path) -> None:
        line = ["fit", data, "-o", f"{tmp_path}/m", "--drop", "patient", "--preset", "paper", "--epochs", "2"]
        line += ["--width", "8", "--setting", "diffusion.sde=ve", "--setting", "draws=3"]
        assert main([*line, "--setting", "training.milestones=[0.5, 0.75]"]) == 0
        model = MissDiff.load(f"{tmp_path}/m")
        assert model.config_.to_dict()["diffusion"]["sde"] == "ve"
        assert (model.config_.to_dict()["draws"], model.config_.to_dict()["training"]["milestones"]) == (3, (0.5, 0.75))
        assert model.history_["step"].max() == 2

    def test_bad_settings(self, data: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        line = ["fit", data, "-o", tmp_path / "m", "--drop", "patient"]
        assert refused(capsys, *line, "--preset", "pape").startswith("unknown preset 'pape'; this version has")
        assert refused(capsys, *line, "--setting", "draws") == "--setting 'draws': write NAME=VALUE"
        assert "'draws'; here are network" in refused(capsys, *line, "--setting", "draws=3")
        assert "(draws is one of preset 'paper')" in refused(capsys, *line, "--setting", "draws=3")
        paper = ("--preset", "paper")
        assert "diffusion.sde must be one of 'vp', 've'" in refused(
            capsys, *line, *paper, "--setting", "diffusion.sde=x"
        )

    def test_a_missing_table(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert refused(capsys, "fit", "nowhere.csv", "-o", tmp_path / "m") == "nowhere.csv: there is no such file"
        assert refused(capsys, "fit", tmp_path, "-o", tmp_path / "m") == f"{tmp_path} is a folder, not a file"

    def test_a_table_that_cannot_be_read(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (tmp_path / "broken.parquet").write_bytes(b"no parquet")
        assert "broken.parquet" in refused(capsys, "fit", tmp_path / "broken.parquet", "-o", tmp_path / "m")
        (tmp_path / "empty.csv").write_bytes(b"")
        assert "empty.csv" in refused(capsys, "fit", tmp_path / "empty.csv", "-o", tmp_path / "m")
        (tmp_path / "table.docx").write_bytes(b"PK\x03\x04")
        assert "table.docx" in refused(capsys, "fit", tmp_path / "table.docx", "-o", tmp_path / "m")

    def test_bad_settings_and_columns(self, data: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        fit = ["fit", data, "-o", tmp_path / "m"]
        assert "gives column 'dose=mg' the treatment 'dose'" in refused(capsys, *fit, "--treat", "dose=mg=dose")
        assert refused(capsys, *fit, "--treat", "weight").startswith("--treat 'weight': write COL=TREATMENT")
        assert "steps must be at least 1" in refused(capsys, *fit, "--drop", "patient", "--steps", "0")
        assert "device" in refused(capsys, *fit, "--drop", "patient", "--device", "abacus")
        assert refused(capsys, *fit, "--drop", "weight").startswith("--drop 'weight': the table has no such column")
        assert "weight" in refused(capsys, *fit, "--drop", "patient", "--categorical", "weight")
        assert files(tmp_path) == []

    def test_the_output_is_checked_before_any_work(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        tables = "missdiff_fast.cli.tables"
        monkeypatch.setattr(f"{tables}.read_written", lambda *_, **__: pytest.fail("the table was read"))
        (tmp_path / "data.csv").write_text("a,b\n1,2\n")
        fit = ["fit", tmp_path / "data.csv", "-o"]
        gone = tmp_path / "no" / "m"
        assert refused(capsys, *fit, gone) == (
            f"-o {gone}: there is no folder {gone.parent}; make it first (mkdir -p {gone.parent})"
        )
        assert refused(capsys, *fit, tmp_path) == f"-o {tmp_path} is a folder; give the name of a file"
        link = tmp_path / "link"
        link.symlink_to(gone)
        assert refused(capsys, *fit, link) == (
            f"-o {link}: there is no folder {gone.parent}; make it first (mkdir -p {gone.parent})"
        )

        read_only = raises(OSError(errno.EROFS, "Read-only file system"))
        monkeypatch.setattr("tempfile.TemporaryFile", read_only)
        assert refused(capsys, *fit, tmp_path / "m") == (
            f"-o {tmp_path / 'm'}: the folder {tmp_path} cannot be written to (Read-only file system)"
        )

    def test_a_full_disk_harms_no_model(
        self, data: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "m").write_text("the old model")

        monkeypatch.setattr(Path, "write_bytes", raises(OSError(errno.ENOSPC, "No space left on device")))
        message = refused(capsys, "fit", data, "-o", tmp_path / "m", "--drop", "patient", "--steps", "1")
        assert "No space left on device" in message
        assert str(tmp_path / "m") in message
        assert (tmp_path / "m").read_text() == "the old model"
        assert files(tmp_path) == ["m"]
