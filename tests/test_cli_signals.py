"""Ctrl-C, SIGTERM and SIGHUP."""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from commands import files, raises

from missdiff_fast import MissDiff
from missdiff_fast.cli import main
from missdiff_fast.cli.signals import SIGNALS

ENDINGS = [number for number in SIGNALS if number != signal.SIGINT]

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
        # A test run in the background ignores SIGINT, one under nohup SIGHUP, and its children would.
        preexec_fn=lambda: [signal.signal(number, signal.SIG_DFL) for number in SIGNALS] and None,
    )
    try:
        yield child
    finally:
        child.kill()
        child.communicate()


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
        monkeypatch.setattr("missdiff_fast.table.io.write_delimited", raises(KeyboardInterrupt()))
        assert main(["sample", model, "-n", "3", "-o", f"{tmp_path}/out.csv"]) == 130
        assert capsys.readouterr().err == "missdiff: interrupted\n"
        assert files(tmp_path) == ["out.csv"]
        assert (tmp_path / "out.csv").read_text() == "old"

    @pytest.mark.parametrize("number", ENDINGS)
    def test_sigterm_and_sighup_keep_the_model_too(self, data: str, tmp_path: Path, number: int) -> None:
        args = ["fit", data, "-o", f"{tmp_path}/m", "--steps", "100000", "--drop", "patient"]
        with started(args) as child:
            assert child.stdout is not None
            assert child.stdout.readline() == "training\n"
            child.send_signal(number)
            _, errors = child.communicate(timeout=60)
        assert child.returncode == 128 + number
        assert errors.splitlines()[-1].startswith("missdiff: terminated: the model as trained so far (")
        assert files(tmp_path) == ["m"]
        assert main(["info", f"{tmp_path}/m"]) == 0

    @pytest.mark.parametrize("number", [signal.SIGINT, *ENDINGS])
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
        handlers = [signal.getsignal(each) for each in SIGNALS]
        # As in a shell; nohup ignores SIGHUP, and pytest handles SIGINT.
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
        before = [signal.getsignal(each) for each in SIGNALS]
        assert main(["fit", data, "-o", f"{tmp_path}/m"]) == 128 + number
        told = f"missdiff: {word}: the model as trained so far (50 steps) is in {tmp_path}/m\n"
        assert capsys.readouterr().err == told
        assert files(tmp_path) == ["m"]
        (tmp_path / "m").unlink()
        monkeypatch.setattr("missdiff_fast.cli.signals.REPEAT_SECONDS", 0.0)  # as if it came a while later
        assert main(["fit", data, "-o", f"{tmp_path}/m"]) == 128 + number
        assert [signal.getsignal(each) for each in SIGNALS] == before
        for each, handler in zip(SIGNALS, handlers, strict=True):
            signal.signal(each, handler)
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

    @pytest.mark.skipif(sys.platform == "win32", reason="Windows has no terminals of this kind")
    def test_a_closed_terminal_keeps_the_model(self, data: str, tmp_path: Path) -> None:
        """The progress bar and the last message go to a terminal that is gone."""
        import fcntl
        import pty
        import termios

        def take_terminal() -> None:
            fcntl.ioctl(2, termios.TIOCSCTTY, 0)
            signal.signal(signal.SIGHUP, signal.SIG_DFL)

        args = ["fit", data, "-o", f"{tmp_path}/m", "--steps", "100000", "--drop", "patient", "--no-refine"]
        outside, inside = pty.openpty()
        fcntl.ioctl(inside, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
        child = subprocess.Popen(
            [sys.executable, "-m", "missdiff_fast", *args],
            stderr=inside,
            start_new_session=True,
            preexec_fn=take_terminal,
        )
        os.close(inside)
        shown = b""
        while b"step/s" not in shown:
            shown += os.read(outside, 4096)
        os.close(outside)
        try:
            assert child.wait(60) == 128 + signal.SIGHUP
        finally:
            child.kill()
        assert files(tmp_path) == ["m"]
        assert MissDiff.load(tmp_path / "m").sample(3).shape == (3, 4)

    def test_what_the_caller_ignores_stays_ignored(self, data: str, tmp_path: Path, monkeypatch: Any) -> None:
        """As under nohup."""
        seen = []
        monkeypatch.setattr(MissDiff, "fit", lambda *_: seen.extend(signal.getsignal(number) for number in ENDINGS))
        monkeypatch.setattr(MissDiff, "save", lambda *_: None)
        before = [signal.signal(number, signal.SIG_IGN) for number in ENDINGS]
        try:
            assert main(["fit", data, "-o", f"{tmp_path}/m"]) == 0
        finally:
            for number, handler in zip(ENDINGS, before, strict=True):
                signal.signal(number, handler)
        assert seen == [signal.SIG_IGN] * len(ENDINGS)

    def test_an_interrupt_within_exec_under_python_m(self, tmp_path: Path) -> None:
        (tmp_path / "ends.py").write_text(
            "import sys\nfrom importlib import import_module\nmodule = import_module('missdiff_fast.cli.main')\n"
            "module._run = lambda argv: exec('raise KeyboardInterrupt')\nsys.exit(module.main())\n"
        )
        path = os.pathsep.join([str(tmp_path), *sys.path])
        done = subprocess.run(
            [sys.executable, "-m", "ends"], env={**os.environ, "PYTHONPATH": path}, capture_output=True, check=False
        )
        assert (done.returncode, done.stderr) == (130, b"missdiff: interrupted\n")

    def test_an_early_interrupt(self, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(import_module("missdiff_fast.cli.main"), "build_parser", raises(KeyboardInterrupt()))
        assert main(["info"]) == 130
        assert capsys.readouterr().err == "missdiff: interrupted\n"
