"""How benchmarks time, compare and report; `make bench` takes the times themselves."""

from __future__ import annotations

import copy
import importlib
import json
import math
import os
import pstats
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd
import pytest
import torch

from missdiff_fast.networks import Denoiser
from missdiff_fast.table import Layout

ROOT = Path(__file__).parent.parent
BENCH = ROOT / "bench"


@pytest.fixture(scope="module")
def modules() -> Iterator[dict[str, ModuleType]]:
    """Modules of bench, which is no package: its names are free again afterwards."""
    names = ("plain", "profile_fit", "report", "roofline", "timing", "workload")
    sys.path.insert(0, str(BENCH))
    yield {name: importlib.import_module(name) for name in names}
    sys.path.remove(str(BENCH))
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", "")).startswith(str(BENCH)):
            del sys.modules[name]


@pytest.fixture(scope="module")
def timing(modules: dict[str, ModuleType]) -> ModuleType:
    return modules["timing"]


@pytest.fixture
def run() -> dict[str, Any]:
    """A stored run, by hand."""
    ops = {
        "perturb": {
            "seconds": {"native": 0.1, "eager": 0.7, "compile": 0.45, "copy": 0.02},
            "ratios": {"eager": 7.0, "compile": 4.5, "copy": 0.2},
            "work": {"bytes": 300_000_000},
        },
        "mlp_sample": {"seconds": {"native": 0.5, "eager": 1.0}, "ratios": {"eager": 2.0}},
        "codec": {"seconds": {"native": 2.0, "pandas": 6.0}, "ratios": {"pandas": 3.0}},
    }
    return {
        "machine": {"processor": "Some CPU", "cores": 2, "simd": "avx2"},
        "versions": {"python": "3.11.7", "torch": "2.13.0+cpu", "numpy": "2.4.6", "missdiff_fast": "0.1.0"},
        "threads": 1,
        "commit": "abc1234",
        "rows": 8192,
        "rounds": 60,
        "statistic": "min",
        "ops": ops,
    }


def test_a_ratio_is_of_medians_and_in_a_check_of_least_times(timing: ModuleType) -> None:
    native, other = [2.0, 1.0, 9.0], [7.0, 8.0, 3.5]
    assert timing.FULL.ratio(native, other) == 3.5
    assert timing.CHECK.ratio(native, [7.0, 8.0, 5.0]) == 5


def test_native_and_rival_take_turns(timing: ModuleType) -> None:
    calls, clock = [], iter(range(100))
    seconds = timing.take_turns(lambda: calls.append("a"), lambda: calls.append("b"), 2, lambda: next(clock))
    assert calls == ["a", "b", "a", "b"]
    assert seconds == ([1, 1], [1, 1])


def test_ops_that_are_too_slow_are_named(timing: ModuleType) -> None:
    good = {"ratios": {"eager": 3.0, "compile": 1.0, "copy": 0.01}}
    assert timing.too_slow({"step with noise": good, "decode": {"ratios": {}}}, timing.FULL_SIZE) == []
    (eager,) = timing.too_slow({"step with noise": {"ratios": {"eager": 2.99}}, "decode": good}, timing.FULL_SIZE)
    assert eager == "step with noise: eager / native is 2.99, below 3"
    (share,) = timing.too_slow({"mlp_sample": {"ratios": {"eager": 9.0, "sgemm": 0.7}}}, timing.FULL_SIZE)
    assert share == "mlp_sample: sgemm / native is 0.70, below 0.75"
    assert timing.too_slow({"step": {"ratios": {"eager": 0.1}}}, timing.FULL_SIZE - 1) == []


def test_a_check_passes_what_has_not_fallen_by_15_percent(timing: ModuleType, run: dict[str, Any]) -> None:
    assert math.isclose(timing.least_to_pass(run, "perturb", "eager"), 0.85 * 7)
    assert timing.least_to_pass(run, "perturb", "pandas") == timing.least_to_pass(run, "new", "eager") == 0
    assert timing.least_to_pass(None, "perturb", "eager") == 0


def test_runs_compare_where_what_makes_a_ratio_is_the_same(timing: ModuleType, run: dict[str, Any]) -> None:
    other = copy.deepcopy(run)
    other["machine"] |= {"processor": "Another CPU", "cores": 64}
    other["versions"] |= {"torch": "2.13.0+cu130", "numpy": "9"}
    other["commit"] = "fff"
    assert timing.why_incomparable(run, other) == ""
    other["machine"]["simd"], other["threads"] = "avx512", 4
    assert timing.why_incomparable(run, other) == "SIMD was avx2, here it is avx512, threads was 1, here it is 4"
    assert "torch was 2.13.0, here it is 2.14.0" in timing.why_incomparable(
        run, {**run, "versions": {"torch": "2.14.0"}}
    )
    assert "rows" in timing.why_incomparable(run, {**run, "rows": 100})


FAKE = """
import os
import pytest

@pytest.mark.parametrize("op", ["steady", "slowed", "doctored"])
def bench_fake(timer, op, implementation):
    native = int(os.environ["SLOWED"]) if op == "slowed" else 50_000
    count = {"native": native, "eager": 200_000}[implementation]
    timer(op, implementation, lambda: sum(range(count)))
"""


@pytest.fixture
def check(tmp_path: Path) -> Any:
    """Runs the check on sums of 50,000 numbers, or so many where they are slowed, whose rival are those of 200,000."""
    (tmp_path / "bench_fake.py").write_text(FAKE)
    command = [sys.executable, "-m", "pytest", str(tmp_path), "-c", str(BENCH / "pytest.ini"), "-p", "conftest"]
    command += ["--rootdir", str(tmp_path), "--benchmark-only", "--check", "--store", str(tmp_path / "store.json")]

    def call(*options: str, slowed: int = 50_000) -> subprocess.CompletedProcess[str]:
        paths = [str(BENCH), str(ROOT / "tests"), str(ROOT), *sys.path]
        environment = {**os.environ, "SLOWED": str(slowed), "PYTHONPATH": os.pathsep.join(paths)}
        return subprocess.run([*command, *options], cwd=tmp_path, env=environment, capture_output=True, text=True)

    return call


def test_the_check_can_fail(check: Any, tmp_path: Path) -> None:
    store = tmp_path / "store.json"
    refused = check()
    assert refused.returncode == pytest.ExitCode.USAGE_ERROR
    assert "has no check to compare with" in refused.stderr
    saved = check("--save-results")
    assert saved.returncode == 0, saved.stdout
    runs = json.loads(store.read_text())
    ops = runs["check"]["ops"]
    assert all(2 < entry["ratios"]["eager"] < 8 for entry in ops.values())
    ops["doctored"]["ratios"]["eager"] *= 2
    store.write_text(json.dumps(runs))
    fallen = check(slowed=100_000)
    assert fallen.returncode == pytest.ExitCode.TESTS_FAILED
    assert "slowed: eager / native has fallen to" in fallen.stdout
    assert "doctored: eager / native has fallen to" in fallen.stdout
    assert "steady: eager / native has fallen to" not in fallen.stdout
    alone = check("-k", "eager", slowed=100_000)
    assert alone.returncode == 0
    assert "was not timed, so there is nothing to compare with" in alone.stdout
    runs["check"]["machine"]["simd"] = "none such"
    store.write_text(json.dumps(runs))
    skipped = check(slowed=100_000)
    assert skipped.returncode == 0
    assert "the stored ratios do not compare: SIMD was none such" in skipped.stdout


def test_the_pages_show_what_is_stored(modules: dict[str, ModuleType]) -> None:
    """After a change of results or of their form, `python bench/report.py` writes the pages."""
    report = modules["report"]
    for page in report.PAGES:
        text = page.read_text(encoding="utf-8")
        assert "<!-- bench: " in text
        assert report.fill(text, report.current()) == text, f"{page.name} is not what bench/report.py writes"


def test_a_page_is_filled_between_its_marks(modules: dict[str, ModuleType]) -> None:
    fill = modules["report"].fill
    page = "a\n<!-- bench: x -->\nold\n\nolder\n<!-- end -->\nb\n<!-- bench: y -->\n<!-- end -->\n"
    filled = "a\n<!-- bench: x -->\nnew\n<!-- end -->\nb\n<!-- bench: y -->\n1\n2\n<!-- end -->\n"
    assert fill(page, {"x": "new", "y": "1\n2"}) == filled
    assert fill(filled, {"x": "new", "y": "1\n2"}) == filled
    with pytest.raises(KeyError):
        fill(page, {"x": "new"})


def test_the_table_of_the_readme(modules: dict[str, ModuleType], run: dict[str, Any]) -> None:
    table = modules["report"].figures.table
    nothing = table(pd.DataFrame(), pd.DataFrame(), {}, {}, []).splitlines()
    assert nothing[-1] == "| On a GPU | not measured | - |"
    assert all(line.endswith("| - | - |") for line in nothing[2:-1])
    quality = pd.DataFrame(
        {
            "mechanism": ["independent", "independent", "mar"],
            "overall": [97.0, 98.0, 0.0],
            "auroc": [0.8, 0.9, 0.0],
            "rmse": [0.1, 0.1, 0.0],
            "category_error": [20.0, 30.0, 0.0],
            "mean_mode_rmse": [0.2, 0.2, 0.0],
            "mean_mode_category_error": [40.0, 40.0, 0.0],
        }
    )
    steps = [{"fit": {"seconds": fit}, "sample": {"seconds": 7.0}} for fit in (1.0, 38.4, 39.0)]
    scale = {"runs": [{"rows": rows, "steps": step} for rows, step in zip((10, 2000, 2000), steps, strict=True)]}
    full = table(quality, pd.DataFrame({"csv_to_rows_s": [29.4, 25.0]}), scale, run, [{}])
    cells = [line.split(" | ", 1)[1] for line in full.splitlines()[2:]]
    assert cells[:4] == [
        "97.5 | - |",
        "0.850 | - |",
        "0.100 | 0.200, column means |",
        "25.0 % | 40.0 %, column modes |",
    ]
    assert cells[4:7] == ["25 to 29 s | - |", "38 to 39 s | - |", "7 s | - |"]
    assert "2,000 rows, 73 columns, fit" in full
    assert cells[9] == "- | 2.0 times as long in eager PyTorch |"
    assert "not measured" not in full


def test_a_profile_sums_to_the_whole(modules: dict[str, ModuleType]) -> None:
    recorded = pstats.Stats()
    recorded.stats = {  # type: ignore[attr-defined]
        ("~", 0, "<built-in method torch._ops.missdiff_fast.mlp_train_step>"): (500, 500, 6.0, 6.0, {}),
        ("~", 0, "<method 'sort' of 'torch._C.TensorBase' objects>"): (2, 2, 2.0, 2.0, {}),
        ("/elsewhere/adam.py", 3, "step"): (4, 4, 0.5, 0.5, {}),
        ("/elsewhere/adam.py", 9, "step"): (1, 1, 0.5, 0.5, {}),
        (str(ROOT / "missdiff_fast" / "model.py"), 60, "fit"): (1, 1, 1.0, 9.0, {}),
    }
    rows = modules["profile_fit"].table(recorded, shown=3)
    assert [row["share"] for row in rows] == [0.6, 0.2, 0.1, 0.1]
    assert {row["function"] for row in rows[:2]} == {"missdiff_fast.mlp_train_step", "TensorBase.sort"}
    assert sum(row["seconds"] for row in rows) == 10


def test_a_copy_moves_its_bytes(modules: dict[str, ModuleType]) -> None:
    yardstick = modules["roofline"].Copy(8000)
    yardstick()
    assert yardstick.work == {"bytes": 8000}
    assert yardstick.source.nbytes + yardstick.target.nbytes == 8000
    assert torch.equal(yardstick.target, yardstick.source)


def test_the_bytes_of_a_batch_by_hand(modules: dict[str, ModuleType]) -> None:
    w = modules["workload"].make_workload(10).head(4)
    assert modules["roofline"].batch_bytes(w, w.alpha) == 4 * (8 + 73 + 27 * 4 + 46 * 2 + 4)


def test_the_products_of_a_network_are_those_of_its_layers(modules: dict[str, ModuleType]) -> None:
    """Counted against what PyTorch counts for the same network."""
    from torch.utils.flop_counter import FlopCounterMode

    roofline, layout, rows = modules["roofline"], Layout(3, (2, 4)), 7
    network = Denoiser(layout, width=16, blocks=2)
    x, states = torch.randn(rows, layout.width), torch.ones(rows, layout.num_columns, dtype=torch.uint8)
    with FlopCounterMode(display=False) as counter:
        network(x, torch.ones(rows), states).sum().backward()
    assert roofline.Products(roofline.training_sizes(network, rows)).work["flops"] == counter.get_total_flops()
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        network(x, torch.ones(1), states)
    level = 2 * (network.level[0].weight.numel() + network.level[2].weight.numel())
    forward = roofline.Products(roofline.forward_sizes(network, rows), times=3)
    assert forward.work["flops"] == 3 * (counter.get_total_flops() - level)
    without_states = roofline.forward_sizes(network, rows, inputs=layout.width)
    assert without_states[0] == (rows, layout.width, 16)
    assert without_states[1:] == roofline.forward_sizes(network, rows)[1:]
    forward()


def test_a_compiled_network_inlines_into_a_compiled_step(modules: dict[str, ModuleType]) -> None:
    """As the end-to-end benchmark has it; Dynamo alone, without a compiler behind it."""
    plain, w = modules["plain"], modules["workload"].make_workload(8)
    cells = (w.table.continuous, w.table.codes, w.table.values)
    arguments = (*cells, w.rows, w.states, w.states, w.sigma, w.weight, torch.zeros(8, 119), 0.3, w.column_weight)
    network = plain.make_network(w, plain.CompiledDenoiser, 8)
    torch._dynamo.reset()
    loss = torch.compile(plain.rows_to_loss, backend="eager", fullgraph=True)(network, *arguments)
    torch._dynamo.reset()
    same = plain.make_network(w, plain.EagerDenoiser, 8)
    torch.testing.assert_close(loss, plain.rows_to_loss(same, *arguments))
