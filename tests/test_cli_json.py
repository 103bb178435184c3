"""``--json``: one object on stdout, nothing else; and completion by a shell."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from commands import make_table, printed, refused

from missdiff_fast.cli import main
from missdiff_fast.cli.completion import SHELLS
from missdiff_fast.cli.json_output import print_json


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run a command with --json in a folder of the table ``t.csv``; the object."""
    monkeypatch.chdir(tmp_path)
    make_table().to_csv("t.csv", index=False)

    def result(*args: object) -> dict[str, Any]:
        assert main([*map(str, args), "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert isinstance(found, dict)
        return found

    return result


def test_fit_and_info(run: Any) -> None:
    fitted = run("fit", "t.csv", "-o", "m", "--steps", "1", "--width", "16", "--no-refine", "--seed", "3")
    assert {"model": "m", "data": "t.csv", "rows": 120, "seed": 3, "preset": "default"}.items() <= fitted.items()
    assert 0 < fitted["missing"] < 1
    assert fitted["set_aside"][0]["column"] == "patient"
    kinds = {one["column"]: one["kind"] for one in fitted["columns"]}
    assert kinds["sex"] == "categorical"
    assert {"setting": "training.steps", "value": 1, "reason": "as set"} in fitted["training"]
    about = run("info", "m")
    assert about == {
        name: value for name, value in fitted.items() if name not in ("data", "rows", "missing", "seconds")
    }
    assert {"version", "native", "torch"} <= run("info").keys()


def test_sample(run: Any, model: str) -> None:
    drawn = run("sample", model, "-n", 7, "-o", "s.csv")
    assert drawn == {"output": "s.csv", "rows": 7, "first_row": 0, "columns": ["age", "dose=mg", "sex", "ward"]}
    assert len(pd.read_csv("s.csv")) == 7


def test_impute(run: Any, model: str) -> None:
    holes = make_table().drop(columns="patient").isna().sum()
    filled = run("impute", model, "t.csv", "-o", "f.csv", "--draws", 2, "--keep", "patient")
    assert filled["outputs"] == ["f-1.csv", "f-2.csv"]
    assert {one["column"]: one["filled"] for one in filled["columns"]} == holes.to_dict()
    assert {one["left"] for one in filled["columns"]} == {0}


def test_mask(run: Any) -> None:
    before = make_table().isna().sum()
    hidden = run("mask", "t.csv", "-o", "k.csv", "--keep", "patient", "--seed", 0)
    after = pd.read_csv("k.csv").isna().sum()
    assert {one["column"]: one["hidden"] for one in hidden["columns"]} == (after - before)[1:].to_dict()
    assert hidden["rows"] == 120


def test_evaluate(run: Any) -> None:
    pytest.importorskip("sdmetrics")
    found = run("evaluate", "t.csv", "t.csv", "--drop", "patient")["measures"]
    assert {(one["measure"], one["metric"]) for one in found} >= {("fidelity", "overall"), ("fidelity", "shapes")}
    assert found[0].keys() == {"measure", "model", "metric", "value", "parameters"}


def test_reproduce_list(run: Any) -> None:
    listed = run("reproduce", "list")
    assert "table1" in {one["name"] for one in listed["experiments"]}
    assert "missdiff" in " ".join(listed["methods"]).lower()


@pytest.mark.parametrize("command", ["sample", "impute", "mask"])
@pytest.mark.parametrize("output", [[], ["-o", "/dev/stdout"]])
def test_a_table_and_json_do_not_share_stdout(
    command: str, output: list[str], model: str, run: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    args = {"sample": [model, "-n", "2"], "impute": [model, "t.csv"], "mask": ["t.csv"]}[command]
    assert "write the table to a file, -o OUT" in refused(capsys, command, *args, *output, "--json")


def test_what_json_lacks_is_null_or_text(capsys: pytest.CaptureFixture[str]) -> None:
    print_json(
        {"nan": np.float32("nan"), "n": np.int64(3), "infinite": [float("inf")], "day": pd.Timestamp(0), 5: None}
    )
    found = json.loads(capsys.readouterr().out)
    assert found == {"nan": None, "n": 3, "infinite": [None], "day": "1970-01-01 00:00:00", "5": None}


class TestCompletion:
    @pytest.mark.parametrize("shell", SHELLS)
    def test_a_script_for_each_shell(self, shell: str, capsys: pytest.CaptureFixture[str]) -> None:
        pytest.importorskip("shtab")
        script = printed(capsys, "--print-completion", shell)
        assert "missdiff" in script
        assert "impute" in script

    def test_files_are_completed(self, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
        pytest.importorskip("shtab")
        script = tmp_path / "missdiff.bash"
        script.write_text(printed(capsys, "--print-completion", "bash"))
        (tmp_path / "patients.csv").touch()
        ask = (
            f"source {script}; cd {tmp_path}; COMP_WORDS=(missdiff {{}}); COMP_CWORD=$((${{{{#COMP_WORDS[@]}}}} - 1)); "
            'COMPREPLY=(); $(complete -p missdiff | grep -o "_shtab_[a-z_]*"); echo "${{COMPREPLY[@]}}"'
        )
        for words, answer in (
            ("pl", "plan"),
            ("fit pat", "patients.csv"),
            ("sample m --sdv-", ""),
            ("fit t --eff", "--effort"),
        ):
            told = subprocess.run(["bash", "-c", ask.format(words)], capture_output=True, text=True, check=True)
            assert told.stdout.strip() == answer

    def test_without_shtab(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        monkeypatch.setitem(sys.modules, "shtab", None)
        assert "needs the package 'shtab': pip install shtab" in refused(capsys, "--print-completion", "bash")
