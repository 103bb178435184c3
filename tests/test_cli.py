"""The command line as a whole: help, options, what it prints, and faults."""

from __future__ import annotations

import io as io_module
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from commands import make_table, printed, refused

from missdiff_fast import MissDiff, __version__
from missdiff_fast.cli import build_parser, main
from missdiff_fast.cli.commands import NAMES


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

    def test_a_fit_needs_no_scikit_learn(self, tmp_path: Path) -> None:
        make_table()[["age", "sex"]].to_csv(tmp_path / "table.csv", index=False)
        code = (
            "import sys\nsys.argv = ['missdiff', 'fit', 'table.csv', '-o', 'model', '--steps', '2', '--quiet']\n"
            "from missdiff_fast.cli import main\ncode = main()\nsys.exit(code or int('sklearn' in sys.modules))"
        )
        assert subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=False).returncode == 0

    def test_a_program_that_calls_the_command_has_estimators_of_scikit_learn(self, tmp_path: Path) -> None:
        pytest.importorskip("sklearn")
        code = (
            "from missdiff_fast.cli import main\nmain(['info'])\nfrom sklearn.base import BaseEstimator\n"
            "from missdiff_fast import MissDiff\nassert isinstance(MissDiff(), BaseEstimator)"
        )
        subprocess.run([sys.executable, "-c", code], stdout=subprocess.DEVNULL, check=True)

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
            f"fit {data} -o {tmp_path}/m --preset default --effort quick --setting ema=0.5 --steps 7 --batch-size 8 "
            "--learning-rate 0.5 --width 16 --blocks 2 --seed 3 "
            "--device cpu --backend reference --no-refine --refits 4 --missing-values male --missing-values 20 "
            "--categorical ward --drop age --drop patient --max-categories 9 --separator , --decimal . "
            "--treat sex=text --rule ward>=10 --encoding utf-8 --quiet"
        )
        assert main(line.split()) == 0
        frame = seen.pop("frame")
        assert isinstance(frame, pd.DataFrame)
        assert list(frame.columns) == ["dose=mg", "sex", "ward"]
        assert set(frame["sex"].dropna()) == {"female"}
        assert set(frame["ward"].dropna()) == {"10", "30"}
        assert seen == {
            "preset": "default",
            "effort": "quick",
            "budget": None,
            "epochs": None,
            "settings": {"ema": 0.5},
            "steps": 7,
            "batch_size": 8,
            "learning_rate": 0.5,
            "width": 16,
            "blocks": 2,
            "rules": ["ward>=10"],
            "structural_missing": None,
            "random_state": 3,
            "device": "cpu",
            "backend": "reference",
            "refine": 0,
            "refits": 4,
            "verbose": False,
            "missing_values": ["male", "20", 20.0],
            "max_categories": 9,
            "categorical_columns": ["ward"],
            "treatments": {"sex": "text"},
            "path": tmp_path / "m",
        }

    def test_defaults_leave_the_settings_to_the_model(self) -> None:
        args = build_parser().parse_args(["fit", "a.csv", "-o", "m"])
        assert [args.steps, args.batch_size, args.learning_rate, args.width, args.blocks, args.seed] == [None] * 6
        assert (args.preset, args.epochs, args.setting) == ("default", None, [])
        assert (args.effort, args.budget) == ("default", None)
        assert args.refine is None
        assert (args.device, args.backend, args.max_categories) == ("auto", "auto", None)


class TestOutputs:
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
            "missdiff: error: stdout is encoded as ascii, which lacks 'é' of the table; write it to a file (-o FILE), "
            "or set PYTHONIOENCODING=utf-8\n"
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


@pytest.mark.parametrize(
    ("set_by_user", "spins"),
    [({}, "10000"), ({"GOMP_SPINCOUNT": "7"}, "7"), ({"OMP_WAIT_POLICY": "active"}, "None")],
    ids=["unset", "spins", "policy"],
)
def test_threads_of_the_command_sleep_soon_unless_the_user_says_how_they_wait(
    set_by_user: dict[str, str], spins: str
) -> None:
    code = (
        "import os, sys\nfrom missdiff_fast.cli import main\nsys.argv[1:] = ['info', 'no-such-model']\n"
        "before = 'torch' in sys.modules\nmain()\nprint(before, os.environ.get('GOMP_SPINCOUNT'))\n"
    )
    environment = {name: os.environ[name] for name in os.environ if name not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
    done = subprocess.run([sys.executable, "-c", code], env=environment | set_by_user, capture_output=True, text=True)
    assert done.stdout == f"False {spins}\n", done.stderr


def test_a_caller_of_the_command_keeps_its_environment(
    model: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GOMP_SPINCOUNT", raising=False)
    assert main(["info", model]) == 0
    assert "GOMP_SPINCOUNT" not in os.environ
