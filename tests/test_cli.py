"""The command as its user meets it: what it writes, what it says, and its exit codes."""

from __future__ import annotations

import errno
import io as io_module
import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from missdiff_fast import MissDiff, __version__
from missdiff_fast.cli import build_parser, main
from missdiff_fast.cli.commands import NAMES
from missdiff_fast.cli.errors import complain
from missdiff_fast.table import io
from missdiff_fast.table.schema import _FAULTS

ROWS = 120


def make_table() -> pd.DataFrame:
    random = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "patient": [f"p{i}" for i in range(ROWS)],
            "age": pd.array(random.integers(20, 90, ROWS), dtype="Int64"),
            "dose=mg": np.round(random.normal(5, 1, ROWS), 2),
            "sex": random.choice(["female", "male"], ROWS),
            "ward": random.choice([10, 20, 30], ROWS),
        }
    )
    holes = random.random(table.shape) < 0.2
    holes[:, [0, 4]] = False
    return table.mask(holes)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with data.csv and the model that was fitted on it."""
    folder = tmp_path_factory.mktemp("cli")
    make_table().to_csv(folder / "data.csv", index=False)
    line = f"fit {folder}/data.csv -o {folder}/m.missdiff --steps 20 --seed 1 --drop patient --categorical ward"
    assert main(line.split()) == 0
    return folder


@pytest.fixture
def data(folder: Path) -> str:
    return str(folder / "data.csv")


@pytest.fixture
def model(folder: Path) -> str:
    return str(folder / "m.missdiff")


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def refused(capsys: pytest.CaptureFixture[str], *args: object) -> str:
    """Run the command, which must end with code 2, nothing on stdout and one line on stderr; the line."""
    try:
        code: object = main([str(arg) for arg in args])
    except SystemExit as stop:
        code = stop.code
    output = capsys.readouterr()
    assert code == 2, output.err
    assert output.out == ""
    assert output.err.startswith("missdiff: error: ")
    assert output.err.count("\n") == 1
    return output.err.removeprefix("missdiff: error: ").rstrip("\n")


def printed(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    """Run the command, which must leave by SystemExit with code 0; what it printed."""
    with pytest.raises(SystemExit) as stop:
        main(args)
    assert stop.value.code == 0
    return capsys.readouterr().out


def raises(error: BaseException) -> Callable[..., None]:
    """A stand-in for any function, that raises this."""

    def raising(*_: object, **__: object) -> None:
        raise error

    return raising


class TestHelp:
    @pytest.mark.parametrize("command", NAMES)
    def test_every_command_has_help(self, command: str, capsys: pytest.CaptureFixture[str]) -> None:
        text = printed(capsys, command, "--help")
        assert text.startswith(f"usage: missdiff {command}")
        assert "--debug" in text

    def test_the_command_lists_its_commands(self, capsys: pytest.CaptureFixture[str]) -> None:
        text = printed(capsys, "--help")
        assert all(f"    {command} " in text for command in NAMES)

    def test_version(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert printed(capsys, "--version") == f"missdiff_fast {__version__}\n"

    def test_help_imports_nothing_heavy(self) -> None:
        code = (
            "import sys\nfrom missdiff_fast.cli import main\ntry: main(['fit', '--help'])\nexcept SystemExit: pass\n"
            "sys.exit(int(bool({'torch', 'pandas', 'numpy'} & set(sys.modules))))"
        )
        assert subprocess.run([sys.executable, "-c", code], stdout=subprocess.DEVNULL, check=False).returncode == 0

    def test_the_package_runs_as_a_module(self) -> None:
        done = subprocess.run(
            [sys.executable, "-m", "missdiff_fast", "--version"], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0
        assert done.stdout == f"missdiff_fast {__version__}\n"


class TestOptions:
    @pytest.mark.parametrize(
        ("args", "message"),
        [
            ([], "the following arguments are required: COMMAND (see 'missdiff --help')"),
            (["train"], "argument COMMAND: invalid choice: 'train'"),
            (["fit", "a.csv"], "the following arguments are required: -o/--output (see 'missdiff fit --help')"),
            (["fit", "a.csv", "-o", "m", "--steps", "many"], "argument --steps: invalid int value: 'many'"),
            (["fit", "a.csv", "-o", "m", "--backend", "gpu"], "argument --backend: invalid choice: 'gpu'"),
            (
                ["fit", "a.csv", "-o", "m", "--steps", "3", "--epochs", "2"],
                "argument --epochs: not allowed with argument",
            ),
            (["sample", "m", "-o", "a.csv"], "the following arguments are required: -n/--num-rows"),
            (["info", "--colour"], "unrecognized arguments: --colour"),
        ],
    )
    def test_bad_options(self, args: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
        assert refused(capsys, *args).startswith(message)

    def test_every_option_of_fit_reaches_the_model(self, data: str, tmp_path: Path, monkeypatch: Any) -> None:
        seen: dict[str, object] = {}

        class Fake:
            def __init__(self, **kwargs: object) -> None:
                seen.update(kwargs)

            def fit(self, frame: pd.DataFrame) -> None:
                seen.update(frame=frame)

            def save(self, path: Path) -> None:
                seen.update(path=path)

        monkeypatch.setattr("missdiff_fast.model.MissDiff", Fake)
        line = (
            f"fit {data} -o {tmp_path}/m --preset default --setting ema=0.5 --steps 7 --batch-size 8 "
            "--learning-rate 0.5 --width 16 --blocks 2 --seed 3 "
            "--device cpu --backend reference --no-refine --missing-values male --missing-values 20 --categorical ward "
            "--drop age --drop patient --max-categories 9 --separator , --decimal . --encoding utf-8 --quiet"
        )
        assert main(line.split()) == 0
        frame = seen.pop("frame")
        assert isinstance(frame, pd.DataFrame)
        assert list(frame.columns) == ["dose=mg", "sex", "ward"]
        assert set(frame["sex"].dropna()) == {"female"}
        assert set(frame["ward"].dropna()) == {"10", "30"}
        assert seen == {
            "preset": "default",
            "epochs": None,
            "settings": {"ema": 0.5},
            "steps": 7,
            "batch_size": 8,
            "learning_rate": 0.5,
            "width": 16,
            "blocks": 2,
            "random_state": 3,
            "device": "cpu",
            "backend": "reference",
            "refine": 0,
            "verbose": False,
            "missing_values": ["male", "20", 20.0],
            "max_categories": 9,
            "categorical_columns": ["ward"],
            "path": tmp_path / "m",
        }

    def test_defaults_leave_the_settings_to_the_model(self) -> None:
        args = build_parser().parse_args(["fit", "a.csv", "-o", "m"])
        assert [args.steps, args.batch_size, args.learning_rate, args.width, args.blocks, args.seed] == [None] * 6
        assert (args.preset, args.epochs, args.setting) == ("default", None, [])
        assert args.refine is None
        assert (args.device, args.backend, args.max_categories) == ("auto", "auto", 100)


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
        (tmp_path / "table.docx").write_bytes(b"?")
        assert "table.docx" in refused(capsys, "fit", tmp_path / "table.docx", "-o", tmp_path / "m")

    def test_categorical_columns_are_kept_as_they_are_written(self, tmp_path: Path, capsys: Any) -> None:
        data, model, out = tmp_path / "d.csv", f"{tmp_path}/m", tmp_path / "o.csv"
        codes = ["02139,1E2,2", "10115,100,1", "2139,01E2,?", ",,3", "NA,100,-9.0"]
        data.write_text("zip,icd,ward,x\n" + "".join(f"{codes[i % 5]},{i}\n" for i in range(60)))
        named = [part for name in ("zip", "icd", "ward") for part in ("--categorical", name)]
        fit = ["fit", str(data), "-o", model, "--steps", "2"]
        assert main([*fit, *named, "--missing-values=-9"]) == 0
        warning = capsys.readouterr().err
        assert warning.startswith("missdiff: warning: d.csv holds '?' in column 'ward'. What stands for")
        assert warning.count("\n") == 1
        assert main([*fit, *named, "--missing-values=-9", "--missing-values", "?"]) == 0
        assert capsys.readouterr().err == ""
        learnt = MissDiff.load(model)
        assert learnt.codec_.category_values("zip") == ["02139", "10115", "2139"]
        assert learnt.codec_.category_values("icd") == ["01E2", "100", "1E2"]
        assert learnt.codec_.category_values("ward") == ["1", "2", "3"]
        given = ["--given", "zip=02139", "--given", "icd=1E2", "--given", "ward=2"]
        assert main(["sample", model, "-n", "2", *given, "-o", str(out)]) == 0
        assert {line.rpartition(",")[0] for line in out.read_text().splitlines()[1:]} == {"02139,1E2,2"}
        assert refused(capsys, "sample", model, "-n", 2, "--given", "zip=2140").startswith(
            "--given 'zip=2140': '2140' is no category; the model knows 02139, 10115, 2139"
        )
        part = tmp_path / "part.csv"
        part.write_text("zip,icd,ward,x\n2139,100,2,5\n02139,,1,\n,100,?,7\n")
        for table in (data, part):
            assert main(["impute", model, str(table), "-o", str(out)]) == 0
            assert capsys.readouterr().err == ""
            before, after = (pd.read_csv(path, dtype=str) for path in (table, out))
            seen = before.notna() & ~before.isin(["?", "-9.0"])
            assert (after[seen].fillna("") == before[seen].fillna("")).all(axis=None)
            assert set(after["zip"]) <= {"02139", "10115", "2139"}
            assert set(after["ward"]) <= {"1", "2", "3"}

    def test_numbers_named_categorical_stay_numbers_in_parquet(self, tmp_path: Path) -> None:
        make_table().drop(columns="patient").to_parquet(tmp_path / "d.parquet")
        line = f"fit {tmp_path}/d.parquet -o {tmp_path}/m --steps 2 --categorical ward"
        assert main(line.split()) == 0
        learnt = MissDiff.load(f"{tmp_path}/m").codec_
        assert (learnt.schema["ward"].kind, learnt.category_values("ward")) == ("categorical", [10, 20, 30])
        make_table().drop(columns="patient").to_csv(tmp_path / "d.csv", index=False)
        assert main(f"impute {tmp_path}/m {tmp_path}/d.csv -o {tmp_path}/o.csv".split()) == 0

    def test_leading_zeros_that_are_lost_are_told(self, tmp_path: Path, capsys: Any) -> None:
        (tmp_path / "d.csv").write_text("zip,x\n" + "".join(f"0{2139 + i % 7},{i}\n" for i in range(40)))
        told = (
            "missdiff: warning: d.csv: columns of numbers lose leading zeros: '02139' in column 'zip'. If they are "
            "codes, have them as they are written, with --categorical 'zip' (fit, evaluate) or --keep 'zip' (mask)\n"
        )
        assert main(["fit", f"{tmp_path}/d.csv", "-o", f"{tmp_path}/m", "--steps", "2"]) == 0
        assert capsys.readouterr().err == told
        assert main(["mask", f"{tmp_path}/d.csv", "-o", f"{tmp_path}/o.csv"]) == 0
        assert capsys.readouterr().err == told
        for options in (["fit", "--steps", "2", "--categorical", "zip"], ["mask", "--keep", "zip"]):
            assert main([options[0], f"{tmp_path}/d.csv", "-o", f"{tmp_path}/o.csv", *options[1:]]) == 0
            assert capsys.readouterr().err == ""

    def test_a_dropped_column_is_not_warned_of(self, tmp_path: Path, capsys: Any) -> None:
        (tmp_path / "d.csv").write_text("zip,d,x\n" + "".join(f"0{i % 9},2024-02-30,{i / 7}\n" for i in range(40)))
        drop = ["--drop", "zip", "--drop", "d"]
        assert main(["fit", f"{tmp_path}/d.csv", "-o", f"{tmp_path}/m", "--steps", "2", *drop]) == 0
        assert capsys.readouterr().err == ""

    def test_a_header_read_as_data_is_told(self, tmp_path: Path, capsys: Any) -> None:
        (tmp_path / "d.csv").write_text("age,sex\n" + "".join(f"{i % 9},{'mf'[i % 2]}\n" for i in range(40)))
        assert main(["fit", f"{tmp_path}/d.csv", "-o", f"{tmp_path}/m", "--steps", "2", "--no-header"]) == 0
        assert capsys.readouterr().err == (
            "missdiff: warning: d.csv: the first row holds texts such as 'age' where all others hold numbers; it looks "
            "like a header: leave out --no-header\n"
        )

    def test_bad_ways_of_reading(self, data: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        fit = ["fit", data, "-o", tmp_path / "m"]
        for separator in ("", "\n", "é", "::"):
            told = refused(capsys, *fit, "--separator", separator)
            assert told == (
                f"{data} cannot be read: --separator must be one character of ASCII, no quote and no line break, or "
                f"'\\s+' for white space, got {separator!r}"
            )
        assert "--decimal must be '.' or ',', got ''" in refused(capsys, *fit, "--decimal", "")
        assert "--skip-rows must be 0 or more, got -1" in refused(capsys, *fit, "--skip-rows", "-1")
        assert "encoding '' is not known" in refused(capsys, *fit, "--encoding", "")

    def test_a_table_without_a_header(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        data, model, out = tmp_path / "d.csv", tmp_path / "m", tmp_path / "o.csv"
        data.write_text("ward 7, 2024\n" + "1,?,yes,p1\n2,5.5,no,p2\n3,6.5,?,p3\n" * 5)
        read = ["--no-header", "--skip-rows", "1", "--missing-values", "?"]
        assert main(["fit", str(data), "-o", str(model), "--steps", "2", "--drop", "3", *read]) == 0
        assert main(["sample", str(model), "-n", "2", "--given", "2=yes", "-o", str(out)]) == 0
        assert out.read_text().splitlines()[0] == "0,1,2"
        assert main(["impute", str(model), str(data), "--keep", "3", "-o", str(out), *read]) == 0
        filled = pd.read_csv(out)
        assert list(filled.columns) == ["0", "1", "2", "3"]
        assert len(filled) == 15
        assert not filled.isna().any().any()
        assert main(["impute", str(model), str(out), "--keep", "3"]) == 0, "its own output is read with the header"

    def test_remedies_name_the_options(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        data = tmp_path / "d.csv"
        fit = ["fit", data, "-o", tmp_path / "m", "--steps", "1"]
        data.write_text("1,2,1\n3,4,5\n")
        assert refused(capsys, *fit).endswith("if that line is no header, pass --no-header")
        data.write_text("X1,X2\nage,stay\n" + "1,2\n3,4\n" * 3)
        assert main([str(arg) for arg in fit]) == 0
        assert "the line before it is none, pass --skip-rows 1\n" in capsys.readouterr().err
        data.write_text("a,b\n" + '1,2\n3,"not done, why"\n2,?\n4,5\n6,7\n8,9\n')
        assert main([str(arg) for arg in fit]) == 0
        named = "--missing-values 'not done, why' --missing-values '?'; otherwise"
        assert named in capsys.readouterr().err
        data.write_text("id,x,hadm id\n" + "".join(f"{7 * i},{i % 9},{9 * i}\n" for i in range(120)))
        assert main([str(arg) for arg in fit]) == 0
        warning = capsys.readouterr().err
        assert warning.startswith("missdiff: warning: columns 'id', 'hadm id' look like identifiers (")
        assert warning.endswith("drop them, --drop 'id' --drop 'hadm id'\n")
        assert warning.count("\n") == 1
        data.write_text("id,x,y\n" + "".join(f"p{i},{i},\n" for i in range(120)))
        told = refused(capsys, *fit)
        assert "'y' has no observed cell: each column must be seen at least once: drop the column (--drop NAME)" in told
        assert "'id' (120 in 120 cells) holds a different string in nearly every row" in told
        assert "frame" not in told
        data.write_text("day,x\n" + "".join(f"{i // 28 + 1}/{i % 28 + 1}/2024,{i}\n" for i in range(140)) * 2)
        assert refused(capsys, *fit).endswith(
            "'day' (140 > 100) has too many categories: drop the column (--drop NAME); if it holds dates, write them "
            "as 2024-02-29; raise --max-categories; or keep the most frequent and call the rest other"
        )

    def test_bad_settings_and_columns(self, data: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        fit = ["fit", data, "-o", tmp_path / "m"]
        assert "column 'patient'" in refused(capsys, *fit)
        assert "steps must be at least 1" in refused(capsys, *fit, "--drop", "patient", "--steps", "0")
        assert "device" in refused(capsys, *fit, "--drop", "patient", "--device", "abacus")
        assert refused(capsys, *fit, "--drop", "weight").startswith("--drop 'weight': the table has no such column")
        assert "weight" in refused(capsys, *fit, "--drop", "patient", "--categorical", "weight")
        assert files(tmp_path) == []

    def test_the_output_is_checked_before_any_work(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        tables = "missdiff_fast.cli.tables"
        monkeypatch.setattr(f"{tables}.read_table", lambda *_, **__: pytest.fail("the table was read"))
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


class TestInterrupt:
    def test_ctrl_c_while_training_keeps_the_model(self, data: str, tmp_path: Path) -> None:
        output = tmp_path / "m.missdiff"
        with started(f"fit {data} -o {output} --drop patient --steps 1000000 --seed 0".split()) as child:
            assert child.stdout is not None
            assert child.stdout.readline() == "training\n"
            time.sleep(0.5)
            child.send_signal(signal.SIGINT)
            _, err = child.communicate(timeout=30)
        assert child.returncode == 130
        assert err.count("\n") == 1
        assert err.startswith("missdiff: interrupted: the model as trained so far (")
        assert err.endswith(f" steps) is in {output}\n")
        assert files(tmp_path) == ["m.missdiff"]
        assert MissDiff.load(output).sample(3).shape == (3, 4)

    def test_ctrl_c_before_training_leaves_nothing(
        self, data: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("missdiff_fast.table.Codec.fit", raises(KeyboardInterrupt()))
        assert main(["fit", data, "-o", f"{tmp_path}/m", "--drop", "patient"]) == 130
        assert capsys.readouterr().err == "missdiff: interrupted: training had not begun, so there is no model\n"
        assert files(tmp_path) == []

    def test_ctrl_c_elsewhere(
        self, model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "out.csv").write_text("old")
        monkeypatch.setattr(pd.DataFrame, "to_csv", raises(KeyboardInterrupt()))
        assert main(["sample", model, "-n", "3", "-o", f"{tmp_path}/out.csv"]) == 130
        assert capsys.readouterr().err == "missdiff: interrupted\n"
        assert files(tmp_path) == ["out.csv"]
        assert (tmp_path / "out.csv").read_text() == "old"

    def test_sigterm_keeps_the_model_too(self, data: str, tmp_path: Path) -> None:
        args = ["fit", data, "-o", f"{tmp_path}/m", "--steps", "100000", "--drop", "patient"]
        with started(args) as child:
            assert child.stdout is not None
            assert child.stdout.readline() == "training\n"
            child.terminate()
            _, errors = child.communicate(timeout=60)
        assert child.returncode == 143
        assert errors.splitlines()[-1].startswith("missdiff: terminated: the model as trained so far (")
        assert files(tmp_path) == ["m"]
        assert main(["info", f"{tmp_path}/m"]) == 0

    def test_no_output_overwrites_what_is_read(self, model: str, tmp_path: Path, capsys: Any) -> None:
        table, link, copy = tmp_path / "d.csv", tmp_path / "link.csv", tmp_path / "m.csv"
        make_table().drop(columns="patient").to_csv(table, index=False)
        link.symlink_to(table)
        copy.write_bytes(Path(model).read_bytes())
        before = table.read_bytes(), copy.read_bytes()
        for args, read in (
            (["fit", table, "-o", table], table),
            (["fit", table, "-o", link], table),
            (["impute", model, table, "-o", table], table),
            (["impute", copy, table, "-o", copy], copy),
            (["sample", copy, "-n", 2, "-o", copy], copy),
        ):
            assert refused(capsys, *args) == (
                f"-o {args[-1]} would overwrite {read}, which is read; give the output another name"
            )
        assert (table.read_bytes(), copy.read_bytes()) == before

    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_a_second_signal_while_the_model_is_saved(
        self, data: str, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch, number: int
    ) -> None:
        def fit(self: MissDiff, *_: object, **__: object) -> None:
            self.history_ = pd.DataFrame({"step": [50]})
            signal.raise_signal(number)

        def save(self: MissDiff, path: Path) -> None:
            signal.raise_signal(number)
            path.write_text("whole")

        monkeypatch.setattr(MissDiff, "fit", fit)
        monkeypatch.setattr(MissDiff, "save", save)
        word = "interrupted" if number == signal.SIGINT else "terminated"
        handlers = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]
        signal.signal(signal.SIGINT, signal.default_int_handler)
        assert main(["fit", data, "-o", f"{tmp_path}/m"]) == 128 + number
        told = f"missdiff: {word}: the model as trained so far (50 steps) is in {tmp_path}/m\n"
        assert capsys.readouterr().err == told
        assert files(tmp_path) == ["m"]
        (tmp_path / "m").unlink()
        monkeypatch.setattr("missdiff_fast.cli.signals.SAME_WISH", 0.0)  # as if it came a while later
        assert main(["fit", data, "-o", f"{tmp_path}/m"]) == 128 + number
        signal.signal(signal.SIGINT, handlers[0])
        assert [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)] == handlers
        assert capsys.readouterr().err == f"missdiff: {word}\n"
        assert files(tmp_path) == []

    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_a_second_signal_while_python_ends(self, data: str, tmp_path: Path, number: int) -> None:
        args = ["fit", data, "-o", f"{tmp_path}/m", "--steps", "100000", "--drop", "patient"]
        with started(args) as child:
            assert child.stdout is not None
            assert child.stdout.readline() == "training\n"
            child.send_signal(number)
            assert child.stdout.readline() == "ending\n"
            child.send_signal(number)
            _, err = child.communicate(timeout=60)
        assert child.returncode == 128 + number
        assert err.count("\n") == 1
        assert files(tmp_path) == ["m"]
        assert main(["info", f"{tmp_path}/m"]) == 0

    def test_an_interrupt_within_exec_under_python_m(self, tmp_path: Path) -> None:
        (tmp_path / "ends.py").write_text(
            "import sys\nfrom missdiff_fast import cli\n"
            "cli._run = lambda argv: exec('raise KeyboardInterrupt')\nsys.exit(cli.main())\n"
        )
        path = os.pathsep.join([str(tmp_path), *sys.path])
        done = subprocess.run(
            [sys.executable, "-m", "ends"], env={**os.environ, "PYTHONPATH": path}, capture_output=True, check=False
        )
        assert (done.returncode, done.stderr) == (130, b"missdiff: interrupted\n")

    def test_an_early_interrupt(self, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("missdiff_fast.cli.build_parser", raises(KeyboardInterrupt()))
        assert main(["info"]) == 130
        assert capsys.readouterr().err == "missdiff: interrupted\n"


TELLS_OF_TRAINING = """
import atexit, sys, time
import missdiff_fast._engine.training as training
from missdiff_fast.cli import main
begin = training.draw_states
def draw_states(*args):
    print("training", flush=True)
    training.draw_states = begin
    return begin(*args)
training.draw_states = draw_states
def end():
    print("ending", flush=True)
    time.sleep(0.3)
atexit.register(end)
sys.exit(main())
"""


@contextmanager
def started(args: list[str]) -> Iterator[subprocess.Popen[str]]:
    """The command in a process of its own, which says "training" at its first step and "ending" at its end."""
    child = subprocess.Popen(
        [sys.executable, "-c", TELLS_OF_TRAINING, *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A test run in the background ignores SIGINT, and its children would.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL) and None,
    )
    try:
        yield child
    finally:
        child.kill()
        child.communicate()


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
        assert "num_rows must be at least 0, got -3" in refused(capsys, "sample", model, "-n", -3)
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

        def full(frame: pd.DataFrame, stream: Any, **_: object) -> None:
            stream.write("age,")
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(pd.DataFrame, "to_csv", full)
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
        line = f"{sys.executable} -m missdiff_fast sample {model} -n 20000 | head -n 1"
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


class TestImpute:
    @pytest.fixture
    def table(self, tmp_path: Path) -> str:
        make_table().drop(columns="patient").to_csv(tmp_path / "table.csv", index=False)
        return str(tmp_path / "table.csv")

    def test_holes_are_filled_and_the_rest_is_kept(
        self, model: str, table: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["impute", model, table, "-o", f"{tmp_path}/out.csv"]) == 0
        assert capsys.readouterr() == ("", "")
        before, after = (pd.read_csv(path, dtype=str) for path in (table, tmp_path / "out.csv"))
        assert not after.isna().to_numpy().any()
        assert before.isna().to_numpy().any()
        assert (after[before.notna()].fillna("") == before.fillna("")).all(axis=None)
        assert after["age"].str.fullmatch(r"\d+").all()
        assert main(["impute", model, table]) == 0
        assert capsys.readouterr().out == (tmp_path / "out.csv").read_text()

    def test_draws(self, model: str, table: str, tmp_path: Path) -> None:
        assert main(["impute", model, table, "-o", f"{tmp_path}/out.csv.gz", "--draws", "3", "--seed", "4"]) == 0
        assert files(tmp_path) == ["out-1.csv.gz", "out-2.csv.gz", "out-3.csv.gz", "table.csv"]
        first, second = (pd.read_csv(tmp_path / f"out-{m}.csv.gz") for m in (1, 2))
        assert not first.isna().to_numpy().any()
        assert not first.equals(second)

    def test_a_column_is_kept(self, model: str, data: str, tmp_path: Path) -> None:
        assert main(["impute", model, data, "--keep", "patient", "-o", f"{tmp_path}/out.csv"]) == 0
        after = pd.read_csv(tmp_path / "out.csv")
        assert list(after.columns) == list(make_table().columns)
        assert after["patient"].equals(make_table()["patient"])

    @pytest.mark.parametrize("name", ["out.csv", "out.parquet"])
    def test_a_column_that_is_kept_twice_comes_once(self, model: str, data: str, tmp_path: Path, name: str) -> None:
        keep = ["--keep", "patient", "--keep", "patient"]
        assert main(["impute", model, data, *keep, "-o", f"{tmp_path}/{name}"]) == 0
        assert list(io.read_table(tmp_path / name).columns) == list(make_table().columns)

    def test_marks_of_missing_cells_are_remembered(self, tmp_path: Path) -> None:
        table = tmp_path / "marked.csv"
        table.write_text("a,b\n" + "".join(f"{i if i % 5 else '?'},{'x' if i % 2 else -9}\n" for i in range(1, 60)))
        marks = ["--missing-values", "?", "--missing-values=-9"]
        table.write_text(table.read_text() + "61,y\n")
        assert main(["fit", str(table), "-o", f"{tmp_path}/m", "--steps", "3", *marks]) == 0
        assert main(["impute", f"{tmp_path}/m", str(table), "-o", f"{tmp_path}/out.csv"]) == 0
        after = pd.read_csv(tmp_path / "out.csv")
        assert after["a"].dtype == np.int64
        assert set(after["b"]) <= {"x", "y"}

    def test_part_of_a_table_is_read_as_the_whole_was(self, tmp_path: Path, capsys: Any) -> None:
        whole = ["250,2024-01-05,1.5,2024-02-29", "401,2024-01-06,2,lost", "V45,2024-01-07,3,", "007,,4,2024-03-01"]
        part = ["250,2024-01-05,1,2024-02-29", "401,,2,2024-02-29", "007,2024-01-07,,2024-03-01", ",,3,"]
        empty = [",,3,", ",,1,"]
        paths = [tmp_path / f"{name}.csv" for name in ("whole", "part", "empty")]
        for path, lines in zip(paths, (whole * 10, part, empty), strict=True):
            path.write_text("icd,day,dose,note\n" + "\n".join(lines) + "\n")
        assert main(["fit", str(paths[0]), "-o", f"{tmp_path}/m", "--steps", "2"]) == 0
        capsys.readouterr()
        for path in paths[1:]:
            assert main(["impute", f"{tmp_path}/m", str(path), "-o", f"{tmp_path}/out.csv"]) == 0
            assert capsys.readouterr().err == ""
            before, after = (pd.read_csv(name, dtype=str) for name in (path, tmp_path / "out.csv"))
            seen = before.notna()
            assert (after["icd"][seen["icd"]] == before["icd"].dropna()).all()
            assert set(after["icd"]) <= {"250", "401", "V45", "007"}
            assert set(after["note"]) <= {"2024-02-29", "lost", "2024-03-01"}
            assert not after.isna().to_numpy().any()

    @pytest.mark.parametrize("first", [404684003123456789, 2**63 + 1])
    def test_large_numbers_keep_every_digit(self, first: int, tmp_path: Path, capsys: Any) -> None:
        rows = [f"{first + i % 4},{i % 3},{first + 3 * i}" if i % 5 else ",1," for i in range(60)]
        (tmp_path / "t.csv").write_text("\n".join(["n,k,x", *rows]) + "\n")
        part = [f"{first + 1},1,{first + 3}", ",,", f"{first},2,{first + 4}", ",1,5"]
        (tmp_path / "part.csv").write_text("\n".join(["n,k,x", *part]) + "\n")
        assert main(["fit", f"{tmp_path}/t.csv", "-o", f"{tmp_path}/m", "--steps", "2"]) == 0
        assert capsys.readouterr().err == ""
        for name in ("t.csv", "part.csv"):
            assert main(["impute", f"{tmp_path}/m", f"{tmp_path}/{name}", "-o", f"{tmp_path}/out.csv"]) == 0
            before, after = (pd.read_csv(tmp_path / file, dtype=str) for file in (name, "out.csv"))
            assert not after.isna().any(axis=None)
            assert (after[before.notna()].fillna("") == before.fillna("")).all(axis=None)
            assert after["n"].map(int).between(first, first + 3).all()
        assert main(["sample", f"{tmp_path}/m", "-n", "9", "-o", f"{tmp_path}/out.csv"]) == 0
        assert set(pd.read_csv(tmp_path / "out.csv", dtype=str)["n"].map(int)) <= {first + i for i in range(4)}

    def test_a_mark_stands_for_no_neighbour(self, tmp_path: Path) -> None:
        rows = [f"{(2**53, 2**53 + 1)[i % 5 == 0]},{i % 3}" for i in range(40)]
        (tmp_path / "t.csv").write_text("\n".join(["n,k", *rows]) + "\n")
        mark = ["--missing-values", "9007199254740993"]
        assert main(["fit", f"{tmp_path}/t.csv", "-o", f"{tmp_path}/m", "--steps", "2", *mark]) == 0
        assert main(["impute", f"{tmp_path}/m", f"{tmp_path}/t.csv", "-o", f"{tmp_path}/out.csv"]) == 0
        assert set(pd.read_csv(tmp_path / "out.csv", dtype=str)["n"]) == {"9007199254740992"}

    def test_rows_without_any_cell_are_filled_too(self, model: str, tmp_path: Path, capsys: Any) -> None:
        (tmp_path / "t.csv").write_text("age,dose=mg,sex,ward\n,,,\n33,,,\n,,,\n,,,\n")
        assert main(["impute", model, f"{tmp_path}/t.csv", "-o", f"{tmp_path}/out.csv"]) == 0
        assert capsys.readouterr().err == ""
        assert pd.read_csv(tmp_path / "out.csv").notna().to_numpy().sum() == 4 * 4

    def test_blank_lines_of_one_column_are_filled(self, tmp_path: Path) -> None:
        lines = ["x", *("" if i % 7 == 3 else str(i) for i in range(60))]
        (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
        assert main(["fit", f"{tmp_path}/t.csv", "-o", f"{tmp_path}/m", "--steps", "2"]) == 0
        assert main(["impute", f"{tmp_path}/m", f"{tmp_path}/t.csv", "-o", f"{tmp_path}/out.csv"]) == 0
        after = (tmp_path / "out.csv").read_text().splitlines()
        assert len(after) == len(lines)
        assert all(after)
        assert all(new == old for new, old in zip(after, lines, strict=True) if old)

    def test_a_kept_column_is_copied_as_it_is_written(self, model: str, table: str, tmp_path: Path) -> None:
        frame = pd.read_csv(table, dtype=str).assign(code=[f"{i:03}" for i in range(ROWS)])
        frame.to_csv(tmp_path / "coded.csv", index=False)
        line = f"impute {model} {tmp_path}/coded.csv --keep code -o {tmp_path}/out.csv"
        assert main(line.split()) == 0
        assert pd.read_csv(tmp_path / "out.csv", dtype=str)["code"].equals(frame["code"])

    def test_refusals(self, model: str, data: str, table: str, tmp_path: Path, capsys: Any) -> None:
        impute = ["impute", model]
        out = tmp_path / "out.csv"
        assert refused(capsys, *impute, data, "-o", out) == (
            f"{data} has columns the model does not know: ['patient']; --keep 'patient' copies one as it is"
        )
        assert refused(capsys, *impute, table, "--keep", "nurse").startswith("--keep 'nurse': the table has no such")
        assert refused(capsys, *impute, table, "--draws", 0, "-o", out) == "--draws must be at least 1, not 0"
        assert refused(capsys, *impute, table, "--draws", 2) == (
            "--draws writes one file for each draw: say where with -o OUT"
        )
        frame = pd.read_csv(table)
        frame.drop(columns="age").to_csv(tmp_path / "narrow.csv", index=False)
        assert "'age'" in refused(capsys, *impute, tmp_path / "narrow.csv")
        frame.assign(sex="unknown").to_csv(tmp_path / "strange.csv", index=False)
        message = refused(capsys, *impute, tmp_path / "strange.csv")
        assert "'sex'" in message
        assert "'unknown'" in message
        frame.assign(age="old").to_csv(tmp_path / "words.csv", index=False)
        assert "'age'" in refused(capsys, *impute, tmp_path / "words.csv")
        assert not out.exists()

    def test_remedies_are_said_for_the_command(self, model: str, data: str, tmp_path: Path, capsys: Any) -> None:
        message = refused(capsys, "fit", data, "-o", tmp_path / "m", "--categorical", "zz")
        assert message.startswith("--categorical names ['zz'], not in the table; it has ['patient', ")
        frame = pd.read_csv(data).drop(columns="patient")
        frame.assign(age="old").to_csv(tmp_path / "words.csv", index=False)
        assert refused(capsys, "impute", model, tmp_path / "words.csv").endswith(
            ": write its cells as they were in fit"
        )
        frame.drop(columns="age").to_csv(tmp_path / "narrow.csv", index=False)
        assert "not in the table: add" in refused(capsys, "impute", model, tmp_path / "narrow.csv")
        (tmp_path / "quote.csv").write_text('a,b\n1,2\n3,"4\n5,6\n')
        assert "quote.csv, line 3: a quote" in refused(capsys, "fit", tmp_path / "quote.csv", "-o", tmp_path / "m")
        for _, _, remedy in _FAULTS.values():
            complain(remedy)
            told = capsys.readouterr().err
            assert "frame" not in told
            assert ".astype" not in told


class TestInfo:
    def test_installation(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["info"]) == 0
        lines = dict(line.split("  ", 1) for line in capsys.readouterr().out.splitlines())
        assert lines["version"].strip() == __version__
        assert {"native", "simd", "torch", "python", "torch threads"} <= set(lines)
        assert int(lines["torch threads"]) >= 1

    def test_a_gpu_without_kernels_is_told(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr("torch.cuda.device_count", lambda: 1)
        monkeypatch.setattr("missdiff_fast.ops._library.without_cuda", lambda device: "there are none")
        assert main(["info"]) == 0
        assert "cuda kernels      there are none" in capsys.readouterr().out

    def test_model(self, model: str, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["info", model]) == 0
        lines = [line.split() for line in capsys.readouterr().out.splitlines()]
        assert ["columns", "4"] in lines
        assert ["seed", "of", "fit", "1"] in lines
        assert ["age", "continuous", "Int64"] in lines
        assert ["sex", "categorical", "object", "2"] in lines
        assert ["ward", "categorical", "object", "3"] in lines

    def test_no_model(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (tmp_path / "m").write_bytes(b"not a model")
        assert str(tmp_path / "m") in refused(capsys, "info", tmp_path / "m")
        assert "gone" in refused(capsys, "info", tmp_path / "gone")


def in_ascii(name: str, monkeypatch: pytest.MonkeyPatch) -> io_module.BytesIO:
    """Make stdout or stderr one that holds ASCII alone; what is written to it."""
    raw = io_module.BytesIO()
    monkeypatch.setattr(sys, name, io_module.TextIOWrapper(raw, encoding="ascii", line_buffering=True))
    return raw


class TestEncodings:
    def test_a_table_that_stdout_can_not_hold_is_refused(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        stdout = in_ascii("stdout", monkeypatch)
        lines = ["x,c", *(f"{i},b" for i in range(20_000)), "7,é"]
        (tmp_path / "t.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
        assert main(["mask", f"{tmp_path}/t.csv", "--ratio", "0.00001", "--seed", "0"]) == 2
        assert capsys.readouterr().err == (
            "missdiff: error: stdout takes ascii alone, which lacks 'é' of the table; write it to a file (-o FILE), or "
            "set PYTHONIOENCODING=utf-8\n"
        )
        assert stdout.getvalue() == b""
        (tmp_path / "t.csv").write_text("x,c\n1,b\n2,a\n")
        assert main(["mask", f"{tmp_path}/t.csv", "--ratio", "0.1", "--seed", "0"]) == 0
        assert stdout.getvalue().startswith(b"x,c\n")

    def test_what_is_said_to_people_is_escaped(
        self, model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        stdout = in_ascii("stdout", monkeypatch)
        (tmp_path / "é.missdiff").write_bytes(Path(model).read_bytes())
        assert main(["info", f"{tmp_path}/é.missdiff"]) == 0
        assert f"{tmp_path}/\\xe9.missdiff\n".encode() in stdout.getvalue()

    def test_a_complaint_never_fails(self, monkeypatch: pytest.MonkeyPatch) -> None:
        stderr = in_ascii("stderr", monkeypatch)
        assert main(["info", "é\udce9"]) == 2
        assert stderr.getvalue() == b"missdiff: error: no model file at \\xe9\\udce9\n"


class TestFaultsOfOurs:
    @pytest.fixture(autouse=True)
    def _break(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        def broken(*_: object, **__: object) -> None:
            {}["lost"]

        monkeypatch.setattr(MissDiff, "sample", broken)
        return iter([None])

    def test_they_end_with_code_1_and_say_how_to_report(self, model: str, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["sample", model, "-n", "3"]) == 1
        output = capsys.readouterr()
        assert output.out == ""
        assert output.err.startswith("missdiff: internal error: KeyError: 'lost'. This is a fault of missdiff")
        assert "please report it, with what 'missdiff info' prints" in output.err
        assert output.err.count("\n") == 1

    def test_debug_shows_where(self, model: str, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["sample", model, "-n", "3", "--debug"]) == 1
        assert "in broken\n" in capsys.readouterr().err

    def test_an_error_from_beneath_is_ours(
        self, model: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(MissDiff, "sample", lambda *_, **__: pd.Timestamp("no time"))
        assert main(["sample", model, "-n", "3"]) == 1
        assert "internal error: DateParseError" in capsys.readouterr().err


def test_a_warning_is_one_line(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = MissDiff.sample

    def warns(self: MissDiff, *args: Any, **kwargs: Any) -> pd.DataFrame:
        warnings.warn("something is\n odd", UserWarning, stacklevel=2)
        return real(self, *args, **kwargs)

    monkeypatch.setattr(MissDiff, "sample", warns)
    assert main(["sample", model, "-n", "1", "-o", os.fspath(tmp_path / "a.csv")]) == 0
    assert capsys.readouterr().err == "missdiff: warning: something is odd\n"
