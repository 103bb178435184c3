"""``missdiff info`` as its user meets it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from commands import refused
from frames import TEXT

from missdiff_fast import MissDiff, __version__
from missdiff_fast.cli import main


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
        assert ["sex", "categorical", str(TEXT), "2"] in lines
        assert ["ward", "categorical", str(TEXT), "3"] in lines

    def test_relations(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        minutes = np.arange(200) % 70 * 3
        table = pd.DataFrame({"minutes": minutes, "charge": (0.17 * minutes).round(2)})
        MissDiff(steps=2, random_state=0).fit(table).save(tmp_path / "model")
        assert main(["info", str(tmp_path / "model")]) == 0
        lines = [line.split() for line in capsys.readouterr().out.splitlines()]
        assert ["charge", "linear", "minutes", "0.17", "*", "minutes"] in lines

    def test_no_model(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (tmp_path / "m").write_bytes(b"not a model")
        assert str(tmp_path / "m") in refused(capsys, "info", tmp_path / "m")
        assert "gone" in refused(capsys, "info", tmp_path / "gone")
