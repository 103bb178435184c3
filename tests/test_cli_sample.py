"""``missdiff sample`` as its user meets it."""

from __future__ import annotations

import errno
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from commands import files, raises, refused

from missdiff_fast import MissDiff
from missdiff_fast.cli import main
from missdiff_fast.table import io


class TestSample:
    def test_rows_go_to_a_file_or_to_stdout(
        self, model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["sample", model, "-n", "4", "-o", f"{tmp_path}/out.csv"]) == 0
        assert capsys.readouterr() == ("", "")
        assert main(["sample", model, "-n", "4"]) == 0
        output = capsys.readouterr()
        assert output.err == ""
        assert output.out == (tmp_path / "out.csv").read_text()
        frame = pd.read_csv(tmp_path / "out.csv")
        assert list(frame.columns) == ["age", "dose=mg", "sex", "ward"]
        assert frame["age"].dtype == np.int64
        assert not frame.isna().to_numpy().any()

    def test_rows_with_holes_like_those_of_the_table(self, model: str, tmp_path: Path) -> None:
        assert main(["sample", model, "-n", "300", "--missing", "-o", f"{tmp_path}/out.csv"]) == 0
        frame = pd.read_csv(tmp_path / "out.csv")
        assert frame.isna().any().tolist() == MissDiff.load(model).sample(300, missing=True).isna().any().tolist()
        assert frame.isna().any().any()

    @pytest.mark.parametrize("name", ["out.csv.gz", "out.tsv", "out.parquet", "out.feather"])
    def test_the_name_tells_the_format(self, model: str, tmp_path: Path, name: str) -> None:
        assert main(["sample", model, "-n", "5", "--seed", "2", "-o", f"{tmp_path}/{name}"]) == 0
        assert io.read_table(tmp_path / name).shape == (5, 4)

    def test_seeds(self, model: str, capsys: pytest.CaptureFixture[str]) -> None:
        def rows(*options: str) -> str:
            assert main(["sample", model, "-n", "6", *options]) == 0
            return capsys.readouterr().out

        assert rows("--seed", "5") == rows("--seed", "5") != rows("--seed", "6")

    def test_given_values_hold_in_every_row(self, model: str, tmp_path: Path) -> None:
        given = [part for text in ("age=33", "dose=mg=4.5", "sex=male", "ward=20") for part in ("--given", text)]
        assert main(["sample", model, "-n", "3", *given[2:], "-o", f"{tmp_path}/out.parquet"]) == 0
        frame = pd.read_parquet(tmp_path / "out.parquet")
        assert frame[["dose=mg", "sex", "ward"]].drop_duplicates().values.tolist() == [[4.5, "male", "20"]]
        assert main(["sample", model, "-n", "2", *given, "-o", f"{tmp_path}/out.parquet"]) == 0
        assert pd.read_parquet(tmp_path / "out.parquet")["age"].tolist() == [33, 33]

    @pytest.mark.parametrize(
        ("given", "message"),
        [
            ("weight=3", "--given 'weight=3': there is no column 'weight'; the columns are age, dose=mg, sex, ward"),
            ("age", "--given 'age': write COL=VALUE"),
            ("age=old", "--given 'age=old': 'old' is no whole number (column 'age')"),
            ("age=30.5", "--given 'age=30.5': '30.5' is no whole number (column 'age')"),
            ("dose=mg=much", "--given 'dose=mg=much': 'much' is no number (column 'dose=mg')"),
            ("sex=x", "--given 'sex=x': 'x' is no category; the model knows female, male (column 'sex')"),
            ("ward=15", "--given 'ward=15': '15' is no category; the model knows 10, 20, 30 (column 'ward')"),
        ],
    )
    def test_bad_given(self, model: str, given: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
        assert refused(capsys, "sample", model, "-n", 3, "--given", given).startswith(message)

    def test_bad_numbers_and_files(
        self, model: str, data: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert "--num-rows must be at least 0, got -3" in refused(capsys, "sample", model, "-n", -3)
        assert refused(capsys, "sample", "none.m", "-n", 3) == "none.m: there is no such file"
        assert data in refused(capsys, "sample", data, "-n", 3)
        short = tmp_path / "short.missdiff"
        short.write_bytes(Path(model).read_bytes()[:-100])
        assert str(short) in refused(capsys, "sample", short, "-n", 3)
        assert "out.docx" in refused(capsys, "sample", model, "-n", 3, "-o", tmp_path / "out.docx")
        assert files(tmp_path) == ["short.missdiff"]

    def test_a_full_disk_harms_no_table(
        self, model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "out.csv").write_text("old")

        def full(frame: pd.DataFrame, stream: Any, separator: str) -> None:
            stream.write("age,")
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(io, "write_delimited", full)
        message = refused(capsys, "sample", model, "-n", 3, "-o", tmp_path / "out.csv")
        assert "No space left on device" in message
        assert str(tmp_path / "out.csv") in message
        assert files(tmp_path) == ["out.csv"]
        assert (tmp_path / "out.csv").read_text() == "old"
        assert "No space left" in refused(capsys, "sample", model, "-n", 3, "-o", tmp_path / "new.csv")
        assert files(tmp_path) == ["out.csv"]

    def test_more_rows_than_memory(
        self, model: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        greedy = raises(RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 1 byte"))
        monkeypatch.setattr(MissDiff, "sample", greedy)
        assert refused(capsys, "sample", model, "-n", 3).startswith("not enough memory: DefaultCPUAllocator")

    def test_a_reader_that_has_seen_enough_is_no_error(self, model: str) -> None:
        line = f"{sys.executable} -m missdiff_fast sample {model} -n 20000 -o - | head -n 1"
        done = subprocess.run(["bash", "-o", "pipefail", "-c", line], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, "age,dose=mg,sex,ward\n", "")

    @pytest.mark.parametrize("command", ["sample {model} -n 3", "info"])
    def test_a_closed_stdout_is_told(self, model: str, command: str) -> None:
        line = f"{sys.executable} -m missdiff_fast {command.format(model=model)} >&-"
        done = subprocess.run(["bash", "-c", line], stderr=subprocess.PIPE, text=True, check=False)
        assert done.returncode == 2
        assert done.stderr.startswith("missdiff: error: stdout is closed")

    @pytest.mark.parametrize("sink", ["| cat", "> rows; cat rows"])
    def test_stdout_by_name_takes_csv(self, model: str, tmp_path: Path, sink: str) -> None:
        line = f"cd {tmp_path}; {sys.executable} -m missdiff_fast sample {model} -n 3 --seed 1 -o /dev/stdout {sink}"
        done = subprocess.run(["bash", "-o", "pipefail", "-c", line], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith("age,dose=mg,sex,ward\n")
        assert done.stdout.count("\n") == 4

    def test_a_column_given_twice(self, model: str, capsys: pytest.CaptureFixture[str]) -> None:
        message = refused(capsys, "sample", model, "-n", 3, "--given", "ward=10", "--given", "ward=20")
        assert message == "--given 'ward=20': column 'ward' has a value already; give each column once"


def test_a_given_number_beyond_the_range_is_warned_of(model: str, tmp_path: Path, capsys: Any) -> None:
    line = f"sample {model} -n 3 --given age=700 -o {tmp_path}/s.csv"
    assert main(line.split()) == 0
    told = capsys.readouterr().err.splitlines()[0]
    assert told.startswith("missdiff: warning: given values lie beyond those of the training rows")
    assert "700 in column 'age' (" in told
    assert pd.read_csv(tmp_path / "s.csv")["age"].tolist() == [700] * 3
