"""The benchmarks of a card, as far as they run without one; bench/gpu/check.sh takes the figures."""

from __future__ import annotations

import json
import math
import os
import shutil
import stat
import subprocess
import sys
import tarfile
import threading
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from batches import LAYOUTS, make_batch
from benchmarks import BENCH, ROOT, bench_on_the_path, load, run_pytest  # noqa: F401

from missdiff_fast.diffusion.states import HIDDEN
from missdiff_fast.networks import Denoiser

CPU = torch.device("cpu")


@pytest.fixture
def plan() -> ModuleType:
    return load("plan")


@pytest.fixture
def workload() -> Any:
    return load("workload").make_workload(64)


def test_predicted_times_by_hand(plan: ModuleType) -> None:
    found, (h100, h200) = plan.predict("perturb", 1000), plan.CARDS
    assert found.bytes == 1000 * (8 + 73 + 27 * 4 + 46 * 2 + 8 + 119 * 4)
    assert found.milliseconds(h100) == pytest.approx(1e3 * 765_000 / 3.35e12)
    loop = plan.predict("mlp_sample, width 96", 1000)
    assert loop.flops == 1000 * 15 * 2 * (119 * 96 + 3 * 2 * 96 * 192 + 96 * 146)
    assert loop.milliseconds(h200) == pytest.approx(1e3 * loop.flops / 990e12)


def test_the_bytes_and_products_are_those_of_the_cpus_tables(plan: ModuleType, workload: Any) -> None:
    losses, perturb, step, roofline = (load(name) for name in ("bench_loss", "bench_perturb", "bench_step", "roofline"))
    half = workload.halved()
    moved = {
        "perturb": perturb.moved_bytes(workload),
        "masked_loss": losses.moved_bytes(workload),
        "masked_loss, bf16": losses.moved_bytes(half),
        "masked_noise_loss": losses.moved_noise_bytes(workload),
        "masked_noise_loss, bf16": losses.moved_noise_bytes(half),
        "step": step.moved_bytes(workload),
        "step, bf16": step.moved_bytes(step.with_half(workload)),
    }
    assert {name: plan.predict(name, 64).bytes for name in moved} == moved
    network = Denoiser(workload.table.layout)
    sizes = roofline.training_sizes(network, 256)
    assert plan.predict("training step, 256 rows").flops == roofline.Products(sizes).work["flops"]
    steps = roofline.Products(roofline.forward_sizes(network, 64, inputs=119), times=plan.STEPS)
    assert plan.predict("mlp_sample, width 96", 64).flops == steps.work["flops"]


def dry_run(folder: Path, *lines: str) -> subprocess.CompletedProcess[str]:
    """A dry run with a stand-in for the interpreter, which begins with these lines of shell."""
    python = folder / "python"
    python.write_text("\n".join(("#!/bin/sh", *lines, f'exec "{sys.executable}" "$@"\n')))
    python.chmod(python.stat().st_mode | stat.S_IXUSR)
    path = os.pathsep.join((str(folder), os.environ["PATH"]))
    environment = {**os.environ, "PYTHON": str(python), "CUDA_VISIBLE_DEVICES": "", "PATH": path}
    command = [str(BENCH / "gpu" / "check.sh"), "--dry-run", "--out", str(folder / "out")]
    return subprocess.run(command, env=environment, capture_output=True, text=True)


def test_a_dry_run_builds_and_lists_everything(plan: ModuleType, tmp_path: Path) -> None:
    done = dry_run(tmp_path, '[ "$1" = setup.py ] && echo "$@" "$CMAKE_ARGS" && exit 0')
    assert done.returncode == 0, done.stdout + done.stderr
    assert "FAILED: build" not in done.stdout
    assert "-DCMAKE_CUDA_ARCHITECTURES=90" in logs(tmp_path / "out")["build.log"]
    expected = [f"{name}.py::bench_" for name in plan.ORDER] + list(plan.LOOPS)
    assert all(text in done.stdout for text in (*expected, "tests/test_perturb.py")), done.stdout


def test_a_dry_run_with_an_old_setuptools_builds_by_cmake_and_tells_that_it_failed(tmp_path: Path) -> None:
    cmake = tmp_path / "cmake"
    cmake.write_text('#!/bin/sh\necho "$@"\nexit 3\n')
    cmake.chmod(cmake.stat().st_mode | stat.S_IXUSR)
    old = 'case "$2" in *setuptools.__version__*) exit 1 ;; esac'
    done = dry_run(tmp_path, '[ "$1" = setup.py ] && exit 0', old, '[ "$2" = pytest ] && exit 0')
    assert done.returncode == 1, done.stdout + done.stderr
    assert "FAILED: build" in done.stdout
    asked = logs(tmp_path / "out")["build.log"]
    assert all(text in asked for text in ("-DMISSDIFF_CUDA=ON", "-DCMAKE_CUDA_ARCHITECTURES=90", "Python_EXECUTABLE"))


# Stands in for the interpreter and for NVIDIA's tools: a card that every first process of measurements and tests loses.
PRETENDING = """#!/bin/sh
echo "$(basename "$0") $*" >> "$CALLS"
first() { [ "$(grep -c -- "$1" "$CALLS")" = 1 ]; }
case "$(basename "$0") $*" in
*get_device_capability*) echo 90 ;;
*card_file*) echo ops_pretended.json ;;
*"pytest -c bench/pytest.ini bench"*)
    for argument; do case $argument in --store=*) echo '{}' > "${argument#--store=}" ;; esac; done
    if first 'pytest.ini bench'; then exit 9; fi ;;
*test_cuda_ops.py*) first test_cuda_ops.py && exit 9; echo 3 passed ;;
*test_step.py*) echo 4 failed; exit 1 ;;
compute-sanitizer*--help*) echo --kernel-regex ;;
compute-sanitizer*memcheck*) echo 'Device Not Supported'; exit 1 ;;
ncu*) echo 'no counters'; exit 1 ;;
*gpu.pick_tests*) printf '%s\\n' tests/test_cuda_ops.py tests/test_cuda_host.py tests/test_step.py ;;
*gpu.summary*) echo the summary ;;
esac
"""


def pretended(folder: Path, *options: str, **more: str) -> tuple[subprocess.CompletedProcess[str], list[str]]:
    """A run of a copy of the script with these stand-ins, and what was called."""
    for name in ("bench/gpu", "bench/results", "bin"):
        (folder / name).mkdir(parents=True)
    script, calls = folder / "bench" / "gpu" / "check.sh", folder / "calls"
    shutil.copy(BENCH / "gpu" / "check.sh", script)
    for name in ("python", "compute-sanitizer", "ncu"):
        (folder / "bin" / name).write_text(PRETENDING)
        (folder / "bin" / name).chmod(0o755)
    path = os.pathsep.join((str(folder / "bin"), os.environ["PATH"]))
    environment = {**os.environ, "PYTHON": str(folder / "bin" / "python"), "PATH": path, "CALLS": str(calls), **more}
    done = subprocess.run([str(script), *options], env=environment, capture_output=True, text=True)
    return done, calls.read_text().splitlines() if calls.exists() else []


def logs(folder: Path) -> dict[str, str]:
    """The logs in the archive of a run."""
    with tarfile.open(folder / "logs.tar.gz") as archive:
        return {name: archive.extractfile(name).read().decode() for name in archive.getnames()}  # type: ignore[union-attr]


def test_a_run_ends_with_figures_an_archive_and_a_status_whatever_fails(tmp_path: Path) -> None:
    out = tmp_path / "out"
    done, calls = pretended(tmp_path, "--out", str(out))
    assert done.returncode == 1, done.stdout + done.stderr
    assert "FAILED: measure-1 tests-first-1 tests-rest-1\n" in done.stdout
    assert sorted(path.name for path in out.iterdir()) == ["logs.tar.gz", "ops_pretended.json"]
    assert (tmp_path / "bench" / "results" / "ops_pretended.json").exists()
    steps = ["measure-1", "measure-2", "tests-first-1", "tests-first-2", "tests-rest-1", "memcheck", "racecheck"]
    steps += ["facts", "build", "smoke", "ncu-perturb", "ncu-mlp_sample", "summary"]
    assert set(logs(out)) == {f"{name}.log" for name in steps}
    measured = [line for line in calls if "pytest.ini bench" in line]
    assert ["--resume" in line for line in measured] == [False, True]
    end = done.stdout.partition("the summary")[2]
    assert "memcheck: skipped" in end
    assert "ncu-perturb: no profile; the end of its log is: no counters" in end
    tested = [line for line in calls if "-m pytest" in line and "-m cuda" in line]
    assert len(tested) == 3
    assert not any("test_cuda_host" in line for line in tested)


def test_what_is_no_number_of_seconds_is_refused_before_anything_runs(tmp_path: Path) -> None:
    for number, wanted in enumerate(("239", "soon", "-1")):
        done, calls = pretended(tmp_path / str(number), "--seconds", wanted)
        assert (done.returncode, calls) == (2, [])
        assert "--seconds must be a number from 240" in done.stderr


def test_a_machine_without_a_card_is_told_so(tmp_path: Path) -> None:
    hidden = PRETENDING.replace("echo 90", "echo")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(globals(), "PRETENDING", hidden)
        done, _ = pretended(tmp_path)
    assert done.returncode == 2
    assert "torch sees no CUDA device; --dry-run builds without one" in done.stderr


def card_benchmarks(store: Path, *options: str, **more: Any) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    """The card's benchmarks on the CPU, and the run that they store."""
    arguments = ["bench", "--device", "trial", "-q", "--rows", "64", "--save-results", f"--store={store}", *options]
    done = run_pytest("-c", "bench/pytest.ini", *arguments, cwd=ROOT, **more)
    assert store.exists(), done.stdout + done.stderr
    return done, json.loads(store.read_text())["full"]


def test_a_run_stores_what_it_measures_and_goes_on_with_the_rest(tmp_path: Path, native: ModuleType) -> None:
    store = tmp_path / "ops.json"
    late, run = card_benchmarks(store, "-k", "noise_bits or (perturb and not compile)", "--seconds", "0")
    assert "too little time is left" in late.stdout, late.stdout + late.stderr
    assert run["pending"] == ["bench_noise_bits_on_card", "bench_perturb[native]", "bench_perturb[eager]"]
    run["pending"].remove("bench_noise_bits_on_card")
    store.write_text(json.dumps({"full": run}))
    done, run = card_benchmarks(store, "--resume")
    assert done.returncode == 0, done.stdout + done.stderr
    entry = run["ops"]["perturb"]
    assert run["pending"] == []
    assert "noise" not in run
    assert set(entry["seconds"]) == {"native", "eager"}
    assert entry["ratios"]["eager"] > 0


def test_a_run_goes_on_with_a_store_in_the_projects_own_folder(native: ModuleType) -> None:
    """Where bench/gpu/check.sh has it: pytest looks for settings above the files among its arguments."""
    folder, store = ROOT / "build" / "gpu-test", load("store")
    try:
        rest = {"rows": 64, "ops": {}, "failed": {}, "pending": ["bench_noise_bits_on_card"], "lost": []}
        card = {"name": "none", "driver": "none"}
        store.write(folder / "ops.json", {"full": store.facts() | {"card": card} | rest})
        done, run = card_benchmarks(folder / "ops.json", "--resume")
        assert done.returncode == 0, done.stdout + done.stderr
        assert run["pending"] == []
        assert run["noise"]["numbers"] > 0
        refused = run_pytest("bench", "--device", "trial", "--store", folder / "ops.json", cwd=ROOT)
        assert refused.returncode == pytest.ExitCode.USAGE_ERROR
        assert "write --store=FILE for --store FILE, or add -c bench/pytest.ini" in refused.stderr
    finally:
        shutil.rmtree(folder)


SPOILT = """
import time

import card
import plan
from missdiff_fast.ops import reference

plan.PATIENCE = {"cpu": 1.5}
right = reference.perturb


def wrong(*arguments, **options):
    time.sleep(SLEEP)
    return right(*arguments, **options) * 1.5


reference.perturb = wrong
card.CardRun.lost = lambda self: True
"""


@pytest.mark.parametrize(("sleep", "trace"), [("0", "AssertionError"), ("60", "did not end within 3 seconds")])
def test_a_card_lost_to_a_benchmark_costs_no_other(tmp_path: Path, native: ModuleType, sleep: str, trace: str) -> None:
    """Its failure is stored and printed, and the next process takes the other files first."""
    (tmp_path / "spoilt.py").write_text(SPOILT.replace("SLEEP", sleep))
    path = os.pathsep.join([str(tmp_path), str(BENCH), os.environ.get("PYTHONPATH", "")])
    chosen = ("-k", "(perturb and not compile) or bench_step[native-step]")
    store = tmp_path / "ops.json"
    done, run = card_benchmarks(store, "-p", "spoilt", *chosen, env={**os.environ, "PYTHONPATH": path})
    assert done.returncode == 9, done.stdout + done.stderr
    assert run["pending"] == ["bench_perturb[eager]", "bench_step[native-step]"]
    assert run["lost"] == ["bench_perturb"]
    assert trace in run["failed"]["bench_perturb[native]"]
    assert trace in done.stdout, done.stdout + done.stderr
    done, run = card_benchmarks(store, "--resume", "--collect-only")
    assert done.stdout.index("bench_step[native-step]") < done.stdout.index("bench_perturb[eager]")


def test_what_two_threads_tell_is_stored_one_after_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that watches for kernels that do not end waits for a file that is being written."""
    card, store = load("card"), load("store")
    run = card.CardRun(CPU, 64, 60.0, tmp_path / "ops.json", resume=False)
    run.found["pending"] = ["first", "second"]
    began, go_on, written = threading.Event(), threading.Event(), []

    def write(path: Path, parts: Any) -> None:
        written.append((sorted(parts["full"]["failed"]), list(parts["full"]["pending"])))
        began.set()
        go_on.wait(10)
        written.append(sorted(parts["full"]["failed"]))

    monkeypatch.setattr(store, "write", write)
    threads = [
        threading.Thread(target=run.finish, args=("first", "wrong")),
        threading.Thread(target=run.lose, args=("second", "bench_step", "did not end")),
    ]
    threads[0].start()
    assert began.wait(10)
    threads[1].start()
    threads[1].join(0.2)
    assert run.found["lost"] == []
    go_on.set()
    for thread in threads:
        thread.join(10)
    assert written == [(["first"], ["second"]), ["first"], (["first", "second"], []), ["first", "second"]]
    assert run.found["lost"] == ["bench_step"]


@pytest.mark.parametrize("change", ["save", "note", "time"])
def test_nothing_changes_while_a_file_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str) -> None:
    """Not by what is measured either, nor by a second writing of the file."""
    card, store = load("card"), load("store")
    run = card.CardRun(CPU, 64, 60.0, tmp_path / "ops.json", resume=False)
    run.found["pending"] = ["first"]
    began, go_on, writing, most = threading.Event(), threading.Event(), [], []

    def write(path: Path, parts: Any) -> None:
        writing.append(path)
        most.append((len(writing), json.dumps(parts)))
        began.set()
        go_on.wait(10)
        most.append((len(writing), json.dumps(parts)))
        writing.pop()

    monkeypatch.setattr(store, "write", write)
    calls = {
        "save": run.save,
        "note": lambda: run.note("graph", {"nodes": 47}),
        "time": lambda: run.time("step", "native", seconds=1.0),
    }
    threads = [threading.Thread(target=run.finish, args=("first", "wrong")), threading.Thread(target=calls[change])]
    threads[0].start()
    assert began.wait(10)
    threads[1].start()
    threads[1].join(0.2)
    go_on.set()
    for thread in threads:
        thread.join(10)
    assert not any(thread.is_alive() for thread in threads)
    assert {count for count, _ in most} == {1}
    assert most[0] == most[1]
    assert run.found.get("graph", run.found["ops"]) == {
        "save": {}, "note": {"nodes": 47}, "time": {"step": {"seconds": {"native": 1.0}, "ratios": {}}}
    }[change]  # fmt: skip


def test_no_time_is_stored_of_an_op_that_is_wrong(tmp_path: Path, native: ModuleType) -> None:
    """With a reference that is off, every benchmark of the op fails before it is timed, and its failure is stored."""
    (tmp_path / "spoilt.py").write_text(
        "from missdiff_fast.ops import reference\nright = reference.perturb\n"
        "reference.perturb = lambda *a, **o: right(*a, **o) * 1.5\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])}
    done, run = card_benchmarks(tmp_path / "ops.json", "-p", "spoilt", "-k", "perturb[native]", env=environment)
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout + done.stderr
    assert run["ops"] == {}
    assert "AssertionError" in run["failed"]["bench_perturb[native]"]
    assert "FAILED: bench_perturb[native]" in done.stdout


def test_the_page_and_the_table_with_and_without_a_card(tmp_path: Path) -> None:
    summary, store = load("gpu.summary"), load("store")
    assert store.cards(tmp_path) == []
    without = summary.markdown(store.cards(tmp_path))
    assert without.startswith("No GPU figure has been measured yet")
    ops = {
        "perturb": {"seconds": {"native": 1e-4}, "ratios": {"eager": 10.0, "compile": 3.0}},
        "mlp_sample, width 96": {
            "seconds": {"native": 4e-3},
            "ratios": {"eager fp32, whole": 10.0, "graph bf16, tiles": 3.0, "compile bf16, whole": 2.0},
        },
    }
    run = store.facts() | {"card": {"name": "NVIDIA H200", "driver": "580.1"}, "rows": 353_150, "ops": ops}
    run |= {"ceilings": {"copy": 4e12, "bf16": 8e14, "tf32": 4e14}, "failed": {"paper": "why"}, "pending": ["decode"]}
    store.write(tmp_path / store.card_file("NVIDIA H200").name, {"full": run})
    page = summary.markdown(store.cards(tmp_path))
    assert "NVIDIA H200" in page
    assert "0.1000 | 2,702 GB/s | 68 % | 10.00 (eager) | 3.00 (compile) |" in page
    lines = summary.lines(run)
    assert lines[-2:] == ["FAILED: paper", "not measured: decode"]


def test_files_that_lack_a_package_are_left_out(tmp_path: Path) -> None:
    pick = load("gpu.pick_tests").pick
    (tmp_path / "helper.py").write_text("import no_such_package\n")
    (tmp_path / "test_a.py").write_text("import json\n\ndef test(device): pass\n")
    (tmp_path / "test_b.py").write_text("from helper import x\n\ndef test(device): pass\n")
    (tmp_path / "test_c.py").write_text("def test(): pass\n")
    files, lacking = pick(tmp_path)
    assert [path.name for path in files] == ["test_a.py"]
    assert {path.name: names for path, names in lacking.items()} == {"test_b.py": ["no_such_package"]}


def test_the_tests_of_a_card_are_marked() -> None:
    done = run_pytest("tests/test_perturb.py", "--collect-only", "-q", "-m", "cuda", cwd=ROOT)
    chosen = [line for line in done.stdout.splitlines() if "::" in line]
    assert chosen, done.stdout + done.stderr
    assert all("cuda" in line for line in chosen)


LOSING = """
import pytest
from gpu import lost_card

@pytest.mark.parametrize("number", range(6))
def test(number):
    if number in (2, 3):
        lost_card.is_lost = lambda: number == 3
        assert False, f"number {number} fails"
"""
UNENDED = """
import time

import pytest

@pytest.mark.parametrize("number", range(3))
def test(number):
    print("captured")
    time.sleep(60 if number == 1 else 0)
"""
MANY = """
import time

import pytest

@pytest.mark.parametrize("number", range(200))
def test(number):
    time.sleep(0.1)
    assert number != FAILING
"""


def losing(folder: Path, content: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Run these tests with the plugin."""
    if "-n" in options:
        pytest.importorskip("xdist")
    (folder / "test_losing.py").write_text(content)
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{BENCH}"}
    environment.pop("PYTEST_XDIST_WORKER", None)
    arguments = [folder / "test_losing.py", "-q", "-p", "gpu.lost_card", "--done", folder / "done", *options]
    return run_pytest(*arguments, cwd=folder, env=environment)


@pytest.mark.parametrize("workers", [(), ("-n", "1", "--max-worker-restart", "3")])
def test_a_lost_card_costs_one_test(tmp_path: Path, workers: tuple[str, ...]) -> None:
    """The failure that leaves the card usable goes on in the same process; the one that does not in another."""
    first = losing(tmp_path, LOSING, *workers)
    assert "number 3 fails" in first.stdout + first.stderr
    if workers:
        assert first.returncode == pytest.ExitCode.TESTS_FAILED
        assert "2 failed, 4 passed" in first.stdout, first.stdout + first.stderr
        return
    assert first.returncode == 9, first.stdout + first.stderr
    again = losing(tmp_path, LOSING)
    assert again.returncode == 0
    assert "2 passed, 4 deselected" in again.stdout, again.stdout + again.stderr


@pytest.mark.parametrize("workers", [(), ("-n", "1", "--max-worker-restart", "3")])
def test_a_test_without_an_end_costs_itself(tmp_path: Path, workers: tuple[str, ...]) -> None:
    first = losing(tmp_path, UNENDED, "--each", "2", *workers)
    assert "did not end within 2 seconds: test_losing.py::test[1]" in first.stderr, first.stdout + first.stderr
    assert "time.sleep(60" in first.stderr
    if workers:
        assert "1 failed, 2 passed" in first.stdout, first.stdout + first.stderr
        return
    assert first.returncode == 9
    again = losing(tmp_path, UNENDED, "--each", "2")
    assert "1 passed, 2 deselected" in again.stdout, again.stdout + again.stderr


@pytest.mark.parametrize("failing", [0, -1])
@pytest.mark.parametrize("workers", [(), ("-n", "1")])
def test_tests_for_which_no_time_is_left_are_no_failures(
    tmp_path: Path, workers: tuple[str, ...], failing: int
) -> None:
    done = losing(tmp_path, MANY.replace("FAILING", str(failing)), "--within", "2", *workers)
    assert done.returncode == (pytest.ExitCode.OK if failing else pytest.ExitCode.TESTS_FAILED), done.stdout
    assert "no time is left for the other tests" in done.stdout
    assert " passed in " in done.stdout
    assert ("FAILED test_losing.py::test[0]" in done.stdout) == (failing == 0)


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
    own = load("fidelity").fidelity
    theirs = truth(*tables, continuous=numbers).iloc[0]
    for name, value in own(*tables, numbers).items():
        assert value == pytest.approx(theirs[name], abs=1e-7, nan_ok=True), name
    with pytest.raises(ValueError, match="column 'x' has missing cells"):
        own(tables[0].assign(x=math.nan), tables[1], numbers)


@pytest.mark.parametrize(
    "name",
    [
        *("uniform", "perturb", "masked_loss", "masked_noise_loss", "step", "encode", "decode"),
        *("mlp_predict", "mlp_sample", "mlp_train_step"),
    ],
)
def test_the_small_cases_are_right_and_notice_what_is_wrong(
    name: str, native: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_case, right = load("gpu.small_case"), getattr(native, name)
    batch = make_batch(LAYOUTS["mixed"])
    small_case.CASES[name](batch, CPU)
    monkeypatch.setattr(native, name, lambda *arguments, **options: _spoilt(right(*arguments, **options)))
    with pytest.raises(AssertionError):
        small_case.CASES[name](batch, CPU)


def test_an_op_that_does_not_end_is_named_by_the_small_cases(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    small_case = load("gpu.small_case")
    endless, quick = (f"import time; time.sleep({seconds})" for seconds in (60, 0))
    start = subprocess.Popen
    monkeypatch.setattr(small_case, "CASES", {"perturb": endless, "step": quick})
    monkeypatch.setattr(
        subprocess, "Popen", lambda command: start([sys.executable, "-c", small_case.CASES[command[-1]]])
    )
    assert small_case.apart("cpu", 3) == 1
    assert capfd.readouterr().out == "perturb: STOPPED, as it did not end within 3 s\n"


def _spoilt(result: Any) -> Any:
    """Half as much again, or one more of what is counted."""
    if isinstance(result, tuple):
        return tuple(_spoilt(part) for part in result)
    return result * 1.5 if result.is_floating_point() else result + 1


def test_functions_take_turns_and_the_last_round_begins_in_time() -> None:
    clock, calls = load("clock").Clock(CPU), []
    functions = {"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}
    assert set(clock.take_turns(functions, queued=True, rounds=(2, 3))) == {"a", "b"}
    assert calls == ["a", "b"] * 5
    calls.clear()
    clock.take_turns({"a": functions["a"]}, queued=True, rounds=(2, 30), seconds=0.0)
    assert len(calls) == 2 + 2


@torch.no_grad()
def test_the_samplers_rivals_draw_the_native_rows(native: ModuleType, workload: Any) -> None:
    bench, clock = load("bench_mlp_sample"), load("clock")
    case = bench.Sampling(workload, 32)
    rows = case.native()
    for size, captured in ((24, False), (24, True), (64, False), (100, True)):  # 64 rows in tiles of 24 overlap
        for solve in (case.solve, case.layers):
            case.out.fill_(math.nan)
            case.tiled(partial(solve, "fp32"), size, captured=captured)()
            assert clock.relative_error(case.out, rows) < 1e-5
    for name in bench.CARD:
        if "layers" in name or not name.startswith(("native", "compile")):
            case.out.fill_(math.nan)
            case.make(name)()
            assert clock.relative_error(case.out, rows) < 0.05, name
    errors = case.errors()
    assert errors["native fp32"] < 1e-5 < errors["bf16"]


def test_the_captured_training_step_is_the_steppers(native: ModuleType, workload: Any) -> None:
    """Without noise, as all columns are hidden: the same weights after the same batches."""
    bench = load("bench_mlp_train_step")
    case = bench.Training(replace(workload, states=torch.full_like(workload.states, HIDDEN)), 16)
    stepper, network = case.plain(False), bench.make_network(workload, bench.EagerDenoiser)
    start = network.outputs.weight.detach().clone()
    case.called("fp32", stepper)()
    case.captured("fp32", False, network)()
    for one, other in zip(stepper.network.parameters(), network.parameters(), strict=True):
        torch.testing.assert_close(one, other)
    assert not torch.allclose(network.outputs.weight, start)
    assert len(case.rows) == 4


def test_errors_beyond_those_of_pytorch_are_refused() -> None:
    hold = load("clock").hold
    right = {"fp32": 1e-6, "bf16": 1e-3, "native fp32": 1e-5, "native bf16": 2e-3}
    hold(right)
    for wrong in (3e-3, math.nan):
        with pytest.raises(AssertionError, match=r"in bf16, where PyTorch has 0\.001"):
            hold({**right, "native bf16": wrong})


def test_the_commit_is_a_variables_where_there_is_no_git(monkeypatch: pytest.MonkeyPatch) -> None:
    from missdiff_fast.reproduce import environment

    monkeypatch.setattr(environment, "output_of", lambda *_: "")
    monkeypatch.delenv("MISSDIFF_COMMIT", raising=False)
    assert environment.commit() == "unknown"
    monkeypatch.setenv("MISSDIFF_COMMIT", "abc1234")
    assert environment.commit() == "abc1234"
