"""How benchmarks time, compare and report; `make bench` takes the times themselves."""

from __future__ import annotations

import json
import os
import pstats
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from benchmarks import BENCH, ROOT, bench_on_the_path, load, run_pytest  # noqa: F401

from missdiff_fast.networks import Denoiser
from missdiff_fast.table import Layout

RUN = {
    "machine": {"processor": "Some CPU", "cores": 2, "simd": "avx2"},
    "versions": {"python": "3.11.7", "torch": "2.13.0+cpu", "missdiff_fast": "0.1.0"},
    "threads": 1,
    "commit": "abc1234",
    "rows": 8192,
    "ops": {"perturb": {"seconds": {"native": 0.1, "eager": 0.7}, "ratios": {"eager": 7.0}}},
}


def test_native_and_rival_take_turns_and_a_check_compares_least_times() -> None:
    timing, calls, clock = load("timing"), [], iter(range(100))
    seconds = timing.take_turns(lambda: calls.append("a"), lambda: calls.append("b"), 2, lambda: next(clock))
    assert calls == ["a", "b", "a", "b"]
    assert seconds == ([1, 1], [1, 1])
    native = [2.0, 1.0, 9.0]
    assert timing.FULL.ratio(native, [7.0, 8.0, 3.5]) == 3.5  # of medians
    assert timing.CHECK.ratio(native, [7.0, 8.0, 5.0]) == 5


def test_ops_that_are_too_slow_are_named() -> None:
    timing = load("timing")
    ops = {"step with noise": {"ratios": {"eager": 2.99}}, "mlp_sample": {"ratios": {"eager": 9.0, "sgemm": 0.7}}}
    ops |= {"perturb": {"ratios": {"eager": 5.0, "compile": 1.0, "copy": 0.01}}, "decode": {"ratios": {}}}
    assert timing.too_slow(ops, timing.FULL_SIZE) == [
        "step with noise: eager / native is 2.99, below 3",
        "mlp_sample: sgemm / native is 0.70, below 0.75",
    ]
    assert timing.too_slow(ops, timing.FULL_SIZE - 1) == []


def test_a_check_passes_what_has_not_fallen_by_15_percent() -> None:
    timing = load("timing")
    assert timing.least_to_pass(RUN, "perturb", "eager") == pytest.approx(0.85 * 7)
    assert timing.least_to_pass(RUN, "perturb", "pandas") == timing.least_to_pass(RUN, "new", "eager") == 0
    assert timing.least_to_pass(None, "perturb", "eager") == 0


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"machine": {"processor": "Some CPU", "cores": 64, "simd": "avx2"}, "commit": "fff"}, ""),
        (
            {"machine": {"processor": "Another", "cores": 2, "simd": "avx2"}},
            "none is stored of Another, only of Some CPU; --save-results adds it",
        ),
        ({"versions": {"torch": "2.13.0+cu130", "numpy": "9"}}, ""),
        ({"versions": {"torch": "2.14.0"}}, "torch was 2.13.0, here it is 2.14.0"),
        (
            {"machine": {"processor": "Some CPU", "simd": "avx512"}, "threads": 4},
            "SIMD was avx2, here it is avx512, threads was 1, here it is 4",
        ),
        ({"rows": 100}, "rows was 8192, here it is 100"),
    ],
)
def test_runs_compare_where_what_makes_a_ratio_is_the_same(changed: dict[str, Any], reason: str) -> None:
    assert load("timing").why_incomparable({"Some CPU": RUN}, {**RUN, **changed}) == reason


FAKE = """
import os
import pytest

@pytest.mark.parametrize("op", ["steady", "slowed", "doctored"])
def bench_fake(timer, op, implementation):
    native = int(os.environ["SLOWED"]) if op == "slowed" else 50_000
    count = {"native": native, "eager": 200_000}[implementation]
    timer(op, implementation, lambda: sum(range(count)))
"""


@pytest.mark.alone
def test_the_check_can_fail(tmp_path: Path) -> None:
    """With sums of 50,000 numbers, or of more where they are slowed, and of 200,000 as their rival."""
    (tmp_path / "bench_fake.py").write_text(FAKE)
    store, paths = tmp_path / "store.json", [str(BENCH), str(ROOT / "tests"), str(ROOT), *sys.path]
    options = [tmp_path, "-c", BENCH / "pytest.ini", "-p", "conftest", "--rootdir", tmp_path, "--benchmark-only"]

    def check(*more: str, slowed: int = 50_000) -> Any:
        environment = {**os.environ, "SLOWED": str(slowed), "PYTHONPATH": os.pathsep.join(paths)}
        return run_pytest(*options, "--check", "--store", store, *more, cwd=tmp_path, env=environment)

    refused = check()
    assert refused.returncode == pytest.ExitCode.USAGE_ERROR
    assert "has no check to compare with" in refused.stderr
    saved = check("--save-results")
    assert saved.returncode == 0, saved.stdout
    runs = json.loads(store.read_text())
    ((processor, of_processor),) = runs["checks"].items()
    ops = of_processor["ops"]
    assert all(2 < entry["ratios"]["eager"] < 8 for entry in ops.values())
    ops["doctored"]["ratios"]["eager"] *= 2
    store.write_text(json.dumps(runs))
    fallen = check(slowed=100_000)
    assert fallen.returncode == pytest.ExitCode.TESTS_FAILED
    assert "slowed: eager / native has fallen to" in fallen.stdout
    assert "doctored: eager / native has fallen to" in fallen.stdout
    assert "steady: eager / native has fallen to" not in fallen.stdout
    store.write_text(json.dumps({"checks": {"Another": of_processor}}))
    skipped = check(slowed=100_000)
    assert skipped.returncode == 0
    assert f"the stored ratios do not compare: none is stored of {processor}, only of Another" in skipped.stdout


def test_the_pages_show_what_is_stored() -> None:
    """After a change of results or of their form, `python bench/report.py` writes the pages."""
    report = load("report")
    for page in report.PAGES:
        text = page.read_text(encoding="utf-8")
        assert "<!-- bench: " in text
        assert report.fill(text, report.current()) == text, f"{page.name} is not what bench/report.py writes"
    page = "a\n<!-- bench: x -->\nold\n\nolder\n<!-- end -->\nb\n"
    assert report.fill(page, {"x": "1\n2"}) == "a\n<!-- bench: x -->\n1\n2\n<!-- end -->\nb\n"
    with pytest.raises(KeyError):
        report.fill(page, {"y": "new"})


def test_what_is_not_stored_has_no_figure() -> None:
    report, nothing = load("report"), pd.DataFrame()
    empty = report.blocks({}, {}, {}, nothing, has_plot=False)
    assert empty.pop("gpu").startswith("No GPU figure has been measured yet")
    assert set(empty.values()) == {"Not measured yet."}
    lines = report.figures.table(nothing, nothing, {}, {}, []).splitlines()[2:]
    assert lines.pop() == "| On a GPU | not measured | - |"
    assert all(line.endswith("| - | - |") for line in lines)


def test_a_profile_sums_to_the_whole() -> None:
    recorded = pstats.Stats()
    recorded.stats = {  # type: ignore[attr-defined]
        ("~", 0, "<built-in method torch._ops.missdiff_fast.mlp_train_step>"): (500, 500, 6.0, 6.0, {}),
        ("~", 0, "<method 'sort' of 'torch._C.TensorBase' objects>"): (2, 2, 2.0, 2.0, {}),
        ("/elsewhere/adam.py", 3, "step"): (4, 4, 0.5, 0.5, {}),
        ("/elsewhere/adam.py", 9, "step"): (1, 1, 0.5, 0.5, {}),
        (str(ROOT / "missdiff_fast" / "model.py"), 60, "fit"): (1, 1, 1.0, 9.0, {}),
    }
    rows = load("profile_fit").table(recorded, shown=3)
    assert [row["share"] for row in rows] == [0.6, 0.2, 0.1, 0.1]
    assert {row["function"] for row in rows[:2]} == {"missdiff_fast.mlp_train_step", "TensorBase.sort"}
    assert sum(row["seconds"] for row in rows) == 10


def test_a_yardstick_moves_the_bytes_of_a_batch() -> None:
    roofline, w = load("roofline"), load("workload").make_workload(10).head(4)
    copy = roofline.Copy(8000)
    copy()
    assert copy.work == {"bytes": 8000} == {"bytes": copy.source.nbytes + copy.target.nbytes}
    assert torch.equal(copy.target, copy.source)
    assert roofline.batch_bytes(w, w.alpha) == 4 * (8 + 73 + 27 * 4 + 46 * 2 + 4)


def test_the_products_of_a_network_are_those_of_its_layers() -> None:
    """Counted against what PyTorch counts for the same network."""
    from torch.utils.flop_counter import FlopCounterMode

    roofline, layout, rows = load("roofline"), Layout(3, (2, 4)), 7
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


def test_a_compiled_network_inlines_into_a_compiled_step() -> None:
    """Dynamo alone, without a compiler behind it."""
    plain, w = load("plain"), load("workload").make_workload(8)
    cells = (w.table.continuous, w.table.codes, w.table.values)
    arguments = (*cells, w.rows, w.states, w.states, w.sigma, w.weight, torch.zeros(8, 119), 0.3, w.column_weight)
    network = plain.make_network(w, Denoiser, 8)
    torch._dynamo.reset()
    loss = torch.compile(plain.rows_to_loss, backend="eager", fullgraph=True)(network, *arguments)
    torch._dynamo.reset()
    same = plain.make_network(w, plain.EagerDenoiser, 8)
    torch.testing.assert_close(loss, plain.rows_to_loss(same, *arguments))
