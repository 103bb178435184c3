"""What is run on a card, as far as it can be told without one; the figures themselves come from bench/gpu/check.sh."""

from __future__ import annotations

import importlib
import json
import math
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from batches import LAYOUTS, make_batch

from missdiff_fast.diffusion.states import HIDDEN
from missdiff_fast.networks import Denoiser

ROOT = Path(__file__).parent.parent
BENCH = ROOT / "bench"
CPU = torch.device("cpu")


@pytest.fixture(scope="module", autouse=True)
def _bench_on_the_path() -> Iterator[None]:
    """Modules of bench are nobody's elsewhere, so that none stays imported."""
    before = set(sys.modules)
    sys.path.insert(0, str(BENCH))
    yield
    sys.path.remove(str(BENCH))
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(BENCH)):
            del sys.modules[name]


@pytest.fixture
def plan() -> ModuleType:
    return importlib.import_module("gpu.plan")


@pytest.fixture
def workload() -> Any:
    return importlib.import_module("workload").make_workload(64)


@pytest.fixture
def run() -> dict[str, Any]:
    """A run on a card, by hand."""
    return {
        "card": {"name": "NVIDIA H200", "driver": "580.1"},
        "versions": {"cuda": "13.0", "nvcc": "13.0", "torch": "2.11.0", "python": "3.12.3", "missdiff_fast": "0.1.0"},
        "commit": "abc1234",
        "rows": 353_150,
        "ceilings": {"copy": 4e12, "bf16": 8e14, "tf32": 4e14, "side": 8192},
        "noise": {"numbers": 1_000_076, "normal": True, "uniform": True},
        "ops": {
            "perturb": {
                "rows": 353_150,
                "bytes": 270_000_000,
                "flops": 0,
                "seconds": {"native": 1e-4, "eager": 1e-3, "compile": 3e-4},
                "ratios": {"eager": 10.0, "compile": 3.0},
                "failed": {},
            },
            "mlp_sample, width 96": {
                "rows": 353_150,
                "bytes": 1,
                "flops": 800_000_000_000,
                "seconds": {"native": 4e-3, "eager fp32": 4e-2, "graph bf16": 1.2e-2},
                "ratios": {"eager fp32": 10.0, "graph bf16": 3.0, "compile bf16": 2.0},
                "errors": {"native bf16": 1e-3, "fp32": 1e-6, "tf32": 1e-4, "bf16": 1e-3},
                "failed": {"compile tf32, whole": "Traceback"},
            },
        },
        "whole": {
            "mimic": {"rows": 353_150, "fit": 2.0, "sample": 0.5, "first_sample": 0.6, "peak_allocated": 1_500_000_000}
        },
        "failed": {"paper": "Traceback"},
        "skipped": ["compile: decode"],
        "took": {},
    }


def test_predicted_times_by_hand(plan: ModuleType) -> None:
    found = plan.predict("perturb", 1000)
    assert found.bytes == 1000 * (8 + 73 + 27 * 4 + 46 * 2 + 8 + 119 * 4)
    h100, h200 = plan.CARDS
    assert found.milliseconds(h100) == pytest.approx(1e3 * 765_000 / 3.35e12)
    assert found.milliseconds(h200) == pytest.approx(1e3 * 765_000 / 4.8e12)
    loop = plan.predict("mlp_sample, width 96", 1000)
    assert loop.flops == 1000 * 10 * 2 * (119 * 96 + 3 * 2 * 96 * 192 + 96 * 146)
    assert loop.milliseconds(h200) == pytest.approx(1e3 * loop.flops / 990e12)


def test_the_bytes_and_products_are_those_of_the_cpus_tables(plan: ModuleType, workload: Any) -> None:
    losses, perturb, step, roofline = (
        importlib.import_module(name) for name in ("bench_masked_loss", "bench_perturb", "bench_step", "roofline")
    )
    half = replace(workload, prediction=workload.prediction.bfloat16(), x=workload.x.bfloat16())
    moved = {
        "perturb": perturb.moved_bytes(workload),
        "perturb, bf16": perturb.moved_bytes(half),
        "masked_loss": losses.moved_bytes(workload),
        "masked_loss, bf16": losses.moved_bytes(half),
        "masked_noise_loss": losses.moved_noise_bytes(workload),
        "masked_noise_loss, bf16": losses.moved_noise_bytes(half),
        "step": step.moved_bytes(workload),
        "step, bf16": step.moved_bytes(workload) - 64 * 2 * 119,
    }
    assert {name: plan.predict(name, 64).bytes for name in moved} == moved
    network = Denoiser(workload.table.layout)
    sizes = roofline.training_sizes(network, 256)
    assert plan.predict("training step, 256 rows").flops == roofline.Products(sizes).work["flops"]
    steps = roofline.Products(roofline.forward_sizes(network, 64, inputs=119), times=plan.STEPS)
    assert plan.predict("mlp_sample, width 96", 64).flops == steps.work["flops"]


@pytest.mark.parametrize("status", [0, 3])
def test_a_dry_run_builds_and_lists_everything(plan: ModuleType, tmp_path: Path, status: int) -> None:
    """With a stand-in for the interpreter that only claims to build."""
    python = tmp_path / "python"
    python.write_text(
        f'#!/bin/sh\n[ "$1" = setup.py ] && echo "$@" "$CMAKE_ARGS" && exit {status}\nexec "{sys.executable}" "$@"\n'
    )
    python.chmod(python.stat().st_mode | stat.S_IXUSR)
    environment = {**os.environ, "PYTHON": str(python), "CUDA_VISIBLE_DEVICES": ""}
    command = [str(BENCH / "gpu" / "check.sh"), "--dry-run", "--out", str(tmp_path / "out")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == min(status, 1), done.stdout + done.stderr
    assert ("FAILED: build" in done.stdout) == bool(status)
    assert "-DCMAKE_CUDA_ARCHITECTURES=90" in (tmp_path / "out" / "build.log").read_text()
    for name in (*plan.OPS, *plan.LOOPS, *(part.name for part in plan.PARTS), "tests/test_perturb.py"):
        assert any(line.strip().startswith(name) for line in done.stdout.splitlines()), name


def test_a_part_that_fails_or_has_no_time_costs_no_other(plan: ModuleType, tmp_path: Path) -> None:
    measure, path = importlib.import_module("gpu.measure"), tmp_path / "run.json"
    known: dict[str, Any] = {"failed": {}, "took": {}, "skipped": [part.name for part in plan.PARTS]}

    def fails() -> dict[str, Any]:
        assert json.loads(path.read_text())["interrupted"] == "ceilings"
        raise RuntimeError("no such card")

    def noise() -> dict[str, Any]:
        return {"noise": {"numbers": 3}}

    least = max(part.seconds for part in plan.PARTS if part.name in ("ceilings", "noise bits"))
    measure.measure({"ceilings": fails, "noise bits": noise, "Census": fails}, known, least + 1, path)
    stored = json.loads(path.read_text())
    assert "no such card" in stored["failed"]["ceilings"]
    assert stored["noise"] == {"numbers": 3}
    assert "Census" in stored["skipped"]
    assert set(stored["took"]) == {"ceilings", "noise bits"}
    assert "interrupted" not in stored


def test_compiled_rivals_are_added_to_what_is_there() -> None:
    merge = importlib.import_module("gpu.measure").merge
    run: dict[str, Any] = {}
    merge(run, {"ops": {"step": {"seconds": {"native": 1.0, "eager": 4.0}, "ratios": {"eager": 4.0}, "failed": {}}}})
    new = {"seconds": {"native": 2.0, "compile": 3.0}, "ratios": {"compile": 1.5}, "failed": {"graph": "why"}}
    merge(run, {"ops": {"step": new}})
    assert run["ops"]["step"]["seconds"] == {"native": 1.0, "eager": 4.0, "compile": 3.0}
    assert run["ops"]["step"]["ratios"] == {"eager": 4.0, "compile": 1.5}
    assert run["ops"]["step"]["failed"] == {"graph": "why"}
    merge(run, {"whole": {"a": 1}})
    merge(run, {"whole": {"b": 2}})
    assert run["whole"] == {"a": 1, "b": 2}


def test_every_part_has_something_that_measures_it(plan: ModuleType, native: ModuleType) -> None:
    measure = importlib.import_module("gpu.measure")
    assert list(measure.functions(CPU, 64, 1)) == [part.name for part in plan.PARTS]


def test_the_table_tells_what_was_measured_and_what_was_not(run: dict[str, Any]) -> None:
    lines = importlib.import_module("gpu.summary").lines(run)
    assert len(lines) < 60
    assert all(len(line) <= 120 for line in lines)
    (perturb,) = (line for line in lines if line.startswith("perturb"))
    assert perturb.split()[1:] == ["0.1000", "0.0563", "2,700", "GB/s", "68", "%", "eager", "10.00,", "compile", "3.00"]
    text = " ".join(" ".join(lines).split())
    assert "200 TFLOP/s 25 % eager fp32 10.00, graph bf16 3.00" in text
    assert "relative errors native bf16 1.0e-03" in text
    assert "fit 2.0 s, as many drawn in 0.50 s (the first time 0.60 s), peak 1.50 GB" in text
    assert "FAILED: paper; mlp_sample, width 96: compile tf32, whole" in text
    assert "not measured: compile: decode" in text


def test_the_page_with_and_without_a_card(run: dict[str, Any], tmp_path: Path) -> None:
    report, store = importlib.import_module("report"), importlib.import_module("store")
    assert store.cards(tmp_path) == []
    without = report.blocks({}, {}, {}, pd.DataFrame(), store.cards(tmp_path), has_plot=False)["gpu"]
    assert without.startswith("No GPU figure has been measured yet")
    assert "| `perturb` | 353,150 | 270.2 | 0.0 | 0.0806 | 0.0563 |  |  |  |  |  |" in without.splitlines()
    store.write(tmp_path / "gpu-nvidia-h200.json", run)
    page = report.blocks({}, {}, {}, pd.DataFrame(), store.cards(tmp_path), has_plot=False)["gpu"]
    assert "No GPU figure" not in page
    measured = "0.1000 | 2,700 GB/s | 68 % | 10.00 (eager) | 3.00 (compile) |"
    assert f"| `perturb` | 353,150 | 270.2 | 0.0 | 0.0806 | 0.0563 | {measured}" in page.splitlines()
    (sampler,) = (line for line in page.splitlines() if line.startswith("| mlp_sample, width 96"))
    assert sampler.endswith("| 4.0000 | 200 TFLOP/s | 25 % | 3.00 (graph bf16) | 2.00 (compile bf16) |")
    (decode,) = (line for line in page.splitlines() if line.startswith("| `decode`"))
    assert decode.endswith("|  |  |  |  |  |")
    assert "NVIDIA H200, driver 580.1, CUDA 13.0" in page
    assert "- simulated MIMIC4ED, 353,150 rows: fit 2.0 s" in page.splitlines()[-1]


def test_files_that_lack_a_package_are_left_out(tmp_path: Path) -> None:
    pick = importlib.import_module("gpu.pick_tests").pick
    (tmp_path / "helper.py").write_text("import no_such_package\n")
    (tmp_path / "test_a.py").write_text("import json\n\ndef test(device): pass\n")
    (tmp_path / "test_b.py").write_text("from helper import x\n\ndef test(device): pass\n")
    (tmp_path / "test_c.py").write_text("def test(): pass\n")
    files, lacking = pick(tmp_path)
    assert [path.name for path in files] == ["test_a.py"]
    assert {path.name: names for path, names in lacking.items()} == {"test_b.py": ["no_such_package"]}


@pytest.mark.parametrize("strength", [0.0, 0.5, 2.0])
def test_fidelity_is_that_of_sdmetrics(strength: float) -> None:
    """To 1e-7 per cent, for tables whose columns depend on each other in part."""
    pytest.importorskip("sdmetrics")
    from missdiff_fast.evaluate import fidelity as truth

    tables = []
    for seed, size in ((0, 700), (1, 500)):
        random = np.random.default_rng(seed)
        x = random.normal(size=size)
        y = strength * (1 - 0.3 * seed) * x + random.normal(size=size)
        names = np.array(["low", "middle", "high", "none"])
        grade = names[np.digitize(x + random.normal(size=size) / (1 + 3 * strength), [-1.0, 0.5])]
        flag = np.where(random.random(size) < 0.2 + 0.6 * (grade == "high"), "yes", "no")
        tables.append(
            pd.DataFrame({"x": x, "grade": grade, "y": y, "flag": flag, "n": random.poisson(1.0 + seed, size)})
        )
    numbers = ["x", "y", "n"]
    found = importlib.import_module("gpu.fidelity").fidelity(*tables, numbers)
    for name, value in truth(*tables, continuous=numbers).iloc[0].items():
        assert found[name] == pytest.approx(value, abs=1e-7, nan_ok=True), name


def test_fidelity_refuses_missing_cells() -> None:
    table = pd.DataFrame({"x": [1.0, None]})
    with pytest.raises(ValueError, match="column 'x' has missing cells"):
        importlib.import_module("gpu.fidelity").fidelity(table, table, ["x"])


@pytest.mark.parametrize(
    "name",
    [
        *("uniform", "perturb", "masked_loss", "masked_noise_loss", "step", "decode"),
        *("mlp_predict", "mlp_sample", "mlp_train_step"),
    ],
)
def test_the_small_cases_are_right_and_notice_what_is_wrong(
    name: str, native: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_case, right = importlib.import_module("gpu.small_case"), getattr(native, name)
    batch = make_batch(LAYOUTS["mixed"])
    small_case.CASES[name](batch, CPU)
    monkeypatch.setattr(native, name, lambda *arguments, **options: _spoilt(right(*arguments, **options)))
    with pytest.raises(AssertionError):
        small_case.CASES[name](batch, CPU)


def _spoilt(result: Any) -> Any:
    """Half as much again, or one more of what is counted."""
    if isinstance(result, tuple):
        return tuple(_spoilt(part) for part in result)
    return result * 1.5 if result.is_floating_point() else result + 1


def test_functions_take_turns_and_the_last_round_begins_in_time() -> None:
    clock, calls = importlib.import_module("gpu.clock").Clock(CPU), []
    found = clock.take_turns(
        {"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, alone=True, rounds=(2, 3)
    )
    assert calls == ["a", "b"] * 5
    assert set(found) == {"a", "b"}
    calls.clear()
    clock.take_turns({"a": lambda: calls.append("a")}, alone=True, rounds=(2, 30), seconds=0.0)
    assert len(calls) == 2 + 2


def test_the_samplers_rivals_draw_what_ours_draws(native: ModuleType, workload: Any) -> None:
    sampler = importlib.import_module("gpu.sampler")
    with torch.no_grad():
        case = sampler.Sampling(workload, 32)
        ours = case.native()
        for size, captured in ((24, False), (24, True), (64, False), (100, True)):  # 64 rows in tiles of 24 overlap
            case.out.fill_(math.nan)
            case.plain("fp32", size, compiled=False, captured=captured)()
            assert sampler.relative_error(case.out, ours) < 1e-5
        for name, make in case.makers(compiled=False).items():
            case.out.fill_(math.nan)
            make()()
            assert name.startswith("native") or sampler.relative_error(case.out, ours) < 0.05, name
        errors = case.errors()
    assert errors["native fp32"] < 1e-5 < errors["bf16"]
    best = sampler.best({"seconds": {"native": 1.0, "graph fp32, tiles": 4.0, "graph fp32, whole": 3.0}, "failed": {}})
    assert best["ratios"] == {"graph fp32": 3.0}


def test_the_captured_training_step_is_the_learners(native: ModuleType, workload: Any) -> None:
    """Without noise, as all columns are hidden: the same weights after the same batches."""
    trainer = importlib.import_module("gpu.trainer")
    hidden = replace(workload, states=torch.full_like(workload.states, HIDDEN))
    case = trainer.Training(hidden, 16, native)
    stepper, network = case.plain(False), case.network(trainer.EagerDenoiser)
    start = network.outputs.weight.detach().clone()
    case.looped(lambda: stepper, "fp32")()
    case.captured("fp32", False, network)()
    for one, other in zip(stepper.network.parameters(), network.parameters(), strict=True):
        torch.testing.assert_close(one, other)
    assert not torch.allclose(network.outputs.weight, start)
    assert len(case.rows) == 4
    assert torch.isfinite(case.fit(2)).all()


def test_errors_beyond_those_of_pytorch_are_refused() -> None:
    hold = importlib.import_module("gpu.rivals").hold
    right = {"fp32": 1e-6, "tf32": 1e-4, "bf16": 1e-3, "native fp32": 1e-5, "native tf32": 2e-4, "native bf16": 2e-3}
    hold(right)
    for wrong in (3e-3, math.nan):
        with pytest.raises(AssertionError, match=r"in bf16, where PyTorch has 0\.001"):
            hold({**right, "native bf16": wrong})


def test_a_rival_that_fails_is_told() -> None:
    def broken() -> Any:
        raise RuntimeError("cannot be captured")

    functions, failed = importlib.import_module("gpu.rivals").ready({"good": lambda: lambda: None, "bad": broken})
    assert list(functions) == ["good"]
    assert "cannot be captured" in failed["bad"]


def test_the_commit_is_told_where_there_is_no_git(monkeypatch: pytest.MonkeyPatch) -> None:
    environment = importlib.import_module("environment")

    def absent(*_: str) -> str:
        raise FileNotFoundError("git")

    monkeypatch.setattr(environment, "_git", absent)
    monkeypatch.delenv("MISSDIFF_COMMIT", raising=False)
    assert environment.commit() == "unknown"
    monkeypatch.setenv("MISSDIFF_COMMIT", "abc1234")
    assert environment.commit() == "abc1234"
