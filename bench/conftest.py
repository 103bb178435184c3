"""What the benchmarks share: the workload, how a time is taken, and the table of ratios that a run is held to."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from environment import describe
from timing import FULL_SIZE, IMPLEMENTATIONS, ROUNDS, WARM_UPS, Timer, ratios, too_slow
from workload import Workload, make_workload

from missdiff_fast import _library

RESULTS = Path(__file__).parent / "results" / "ops_cpu.json"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("missdiff_fast")
    group.addoption("--rows", type=int, default=FULL_SIZE, help="rows of table and batch (default: %(default)s)")
    group.addoption("--threads", type=int, default=2, help="PyTorch's threads (default: %(default)s)")
    group.addoption("--save-results", action="store_true", help=f"write the medians to {RESULTS}")


def pytest_configure(config: pytest.Config) -> None:
    torch.set_num_threads(config.getoption("--threads"))


@pytest.fixture(scope="session")
def workload(request: pytest.FixtureRequest) -> Workload:
    if not _library.load():
        pytest.skip("missdiff_fast was installed without its compiled ops")
    return make_workload(request.config.getoption("--rows"))


@pytest.fixture
def timer(benchmark: Any) -> Timer:
    """Time a function, after the calls that do not count."""

    def run(op: str, implementation: str, function: Callable[[], Any]) -> None:
        benchmark.group = op
        benchmark.extra_info.update(op=op, implementation=implementation)
        benchmark.pedantic(function, rounds=ROUNDS, warmup_rounds=WARM_UPS)

    return run


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "implementation" in metafunc.fixturenames:
        metafunc.parametrize("implementation", getattr(metafunc.module, "IMPLEMENTATIONS", IMPLEMENTATIONS))


def medians(config: pytest.Config) -> dict[str, dict[str, float]]:
    """Seconds by op and implementation."""
    table: dict[str, dict[str, float]] = {}
    for run in getattr(config, "_benchmarksession").benchmarks:  # noqa: B009
        info = run.extra_info
        if run.has_error or "op" not in info:
            continue
        table.setdefault(info["op"], {})[info["implementation"]] = run.stats.median
    return table


def pytest_sessionfinish(session: pytest.Session) -> None:
    slow = too_slow(medians(session.config), session.config.getoption("--rows"))
    if slow and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    table = medians(config)
    if not table:
        return
    rows, write = config.getoption("--rows"), terminalreporter.write_line
    terminalreporter.section("native against plain PyTorch")
    write(describe())
    write(f"{rows:,} rows, 27 continuous columns and 46 of two categories; medians of {ROUNDS} rounds")
    names = [name for name in (*IMPLEMENTATIONS, "pandas") if any(name in seconds for seconds in table.values())]
    rivals = [name for name in names if name != "native"]
    write(f"{'ms':<18}" + "".join(f"{n:>10}" for n in names) + "".join(f"{f'{n} / native':>18}" for n in rivals))
    for op, seconds in table.items():
        found = ratios(seconds)
        ms = [f"{1e3 * seconds[name]:.1f}" if name in seconds else "-" for name in names]
        times = [f"{found[name]:.2f}" if name in found else "-" for name in rivals]
        write(f"{op:<18}" + "".join(f"{t:>10}" for t in ms) + "".join(f"{t:>18}" for t in times))
    for line in too_slow(table, rows):
        write(f"TOO SLOW: {line}", red=True)
    if config.getoption("--save-results"):
        RESULTS.parent.mkdir(exist_ok=True)
        facts = {
            "machine": describe(),
            "rows": rows,
            "rounds": ROUNDS,
            "median_seconds": table,
            "ratios": {op: ratios(seconds) for op, seconds in table.items()},
        }
        RESULTS.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
        write(f"written to {RESULTS}")
