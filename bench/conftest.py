"""What the benchmarks share: the workload, how a time is taken, and the table of ratios that a run is held to.

Native and rival take their rounds in turn, so that whatever else the machine does in the meantime slows both, and a
ratio is made of such pairs. With ``--check`` a ratio is held to the stored one; one that has fallen is measured once
more, and it fails if it falls again: of the faults that are none, which a busy machine makes, few happen twice.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import store
import torch
from environment import describe, facts
from timing import (
    CHECK,
    FULL,
    IMPLEMENTATIONS,
    STATISTICS,
    Settings,
    Stopwatch,
    Timer,
    as_lines,
    least_to_pass,
    take_turns,
    too_slow,
    why_incomparable,
)
from workload import Workload, make_workload

from missdiff_fast.ops import _library


@dataclass
class Run:
    """What a session measures by, and what it has met."""

    settings: Settings
    stored: Mapping[str, Any] | None  # the run to be held to
    native: dict[str, Callable[[], Any]] = field(default_factory=dict)  # what each op's rivals take turns with

    def facts(self) -> dict[str, Any]:
        how = {"rows": self.settings.rows, "rounds": self.settings.rounds, "clock": self.settings.clock.__name__}
        return {**facts(), **how, "statistic": self.settings.statistic.__name__}


_RUN = pytest.StashKey[Run]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("missdiff_fast")
    group.addoption("--check", action="store_true", help="few rows, one thread: fail where a stored ratio has fallen")
    group.addoption("--rows", type=int, help="rows of table and batch, to try something out")
    group.addoption("--threads", type=int, help="PyTorch's threads")
    group.addoption("--save-results", action="store_true", help="store the figures")
    group.addoption("--store", type=Path, default=store.OPS, help="where (default: %(default)s)")


def pytest_configure(config: pytest.Config) -> None:
    check, save, path = (config.getoption(name) for name in ("--check", "--save-results", "--store"))
    changes = {name: config.getoption(f"--{name}") for name in ("rows", "threads")}
    settings = (CHECK.longer() if save else CHECK) if check else FULL
    settings = replace(settings, **{name: number for name, number in changes.items() if number is not None})
    torch.set_num_threads(settings.threads)
    keep_memory()
    stored = store.read(path).get("check") if check and not save else None
    if check and not save and not stored:
        raise pytest.UsageError(f"{path} has no check to compare with: `make bench-save` on a quiet machine stores one")
    config.stash[_RUN] = Run(settings, stored)


def keep_memory() -> None:
    """Have the C library, if it is glibc, keep what is freed: else some rounds wait for new memory and some do not."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        trim_threshold, mmap_max = -1, -4
        mallopt(trim_threshold, 2**31 - 1)
        mallopt(mmap_max, 0)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """A check takes two minutes at most, and what happens end to end is made of what it does check."""
    return True if config.getoption("--check") and collection_path.name == "bench_end_to_end.py" else None


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every implementation that the benchmark's module offers, or the usual ones."""
    if "implementation" in metafunc.fixturenames:
        offered = getattr(metafunc.module, "IMPLEMENTATIONS", IMPLEMENTATIONS)
        wanted = metafunc.config.stash[_RUN].settings.implementations
        metafunc.parametrize("implementation", [name for name in offered if not wanted or name in wanted])


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        item.add_marker(pytest.mark.benchmark(timer=config.stash[_RUN].settings.clock))


@pytest.fixture(scope="session")
def run(request: pytest.FixtureRequest) -> Run:
    if not _library.load():
        pytest.skip("missdiff_fast was installed without its compiled ops")
    run = request.config.stash[_RUN]
    reason = why_incomparable(run.stored, run.facts()) if run.stored else ""
    if reason:
        pytest.skip(f"the stored ratios do not compare: {reason}")
    return run


@pytest.fixture(scope="session")
def implementations(run: Run) -> list[str]:
    """The usual ones that this session times, which must agree first."""
    wanted = run.settings.implementations
    return [name for name in IMPLEMENTATIONS if not wanted or name in wanted]


@pytest.fixture(scope="session")
def rows(run: Run) -> int:
    return run.settings.rows


@pytest.fixture(scope="session")
def workload(rows: int) -> Workload:
    return make_workload(rows)


@pytest.fixture
def timer(benchmark: Any, run: Run) -> Timer:
    """Time an implementation of an op, in turn with the native one, after the calls that do not count."""
    settings = run.settings

    def time_it(op: str, implementation: str, function: Callable[[], Any], *, once: bool = False) -> None:
        benchmark.group = op
        benchmark.extra_info.update(op=op, implementation=implementation, work=getattr(function, "work", None))
        if once:
            benchmark.pedantic(function)
            return
        if implementation == "native":
            run.native[op] = function
        least = least_to_pass(run.stored, op, implementation)
        if run.stored and implementation != "native" and not least:
            pytest.skip(f"no ratio of {op} is stored")
        if run.stored and op not in run.native:
            pytest.skip(f"native {op} was not timed, so there is nothing to compare with")
        native = run.native.get(op, function)
        warm_ups = take_turns(native, function, settings.warm_ups, settings.clock)
        beside = Stopwatch(native, settings.clock)
        benchmark.pedantic(function, setup=beside, rounds=settings.rounds_of(sum(times[-1] for times in warm_ups)))
        if native is function:
            return
        benchmark.extra_info["native"] = settings.statistic(beside.seconds)
        found = settings.ratio(beside.seconds, benchmark.stats.stats.data)
        if found < least:
            found = settings.ratio(*take_turns(native, function, len(beside.seconds), settings.clock))
        benchmark.extra_info["ratio"] = found
        if found < least:
            pytest.fail(f"{op}: {implementation} / native has fallen to {found:.2f}, below {least:.2f}", pytrace=False)

    return time_it


def results(config: pytest.Config) -> dict[str, dict[str, Any]]:
    """By op: the seconds of every implementation, their ratios to native, and the work of a yardstick."""
    statistic = config.stash[_RUN].settings.statistic
    ops: dict[str, dict[str, Any]] = {}
    for timed in getattr(config, "_benchmarksession").benchmarks:  # noqa: B009
        info = timed.extra_info
        if timed.has_error or "op" not in info:
            continue
        entry = ops.setdefault(info["op"], {"seconds": {}, "ratios": {}})
        name, seconds = info["implementation"], entry["seconds"]
        seconds[name] = statistic(timed.stats.data)
        if "native" in info:
            seconds["native"] = min(seconds.get("native", math.inf), info["native"])
        if name != "native" and "native" in seconds:
            entry["ratios"][name] = info.get("ratio", seconds[name] / seconds["native"])
        if info["work"]:
            entry.setdefault("work", {}).update(info["work"])
    return ops


def pytest_sessionfinish(session: pytest.Session) -> None:
    slow = too_slow(results(session.config), session.config.stash[_RUN].settings.rows)
    if session.config.getoption("--save-results"):
        return  # what was measured is kept, whatever it is
    if slow and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    ops, run = results(config), config.stash[_RUN]
    if not ops:
        return
    write, settings = terminalreporter.write_line, run.settings
    terminalreporter.section("native against what else there is")
    write(describe())
    if run.stored:
        other = "" if run.stored["machine"] == run.facts()["machine"] else " ANOTHER MACHINE:"
        write(f"held to{other} {describe(run.stored)}")
    kind = STATISTICS[settings.statistic.__name__]
    write(f"{settings.rows:,} rows, 27 continuous columns and 46 of two categories; {kind} of rounds in turn")
    for line in as_lines(ops, run.stored):
        write(line)
    for line in too_slow(ops, settings.rows):
        write(f"TOO SLOW: {line}", red=True)
    if config.getoption("--save-results"):
        path = config.getoption("--store")
        name = "check" if config.getoption("--check") else "full"
        store.write(path, {**store.read(path), name: {**run.facts(), "ops": ops}})
        write(f"written to {path}")
