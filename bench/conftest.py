"""Shared by the benchmarks: options, the workload, timing, and the comparison with stored ratios.

Native and rival take their rounds in turn, so that other work of the machine slows both, and a ratio is made of such
pairs. With ``--check`` a ratio that has fallen below the stored one is measured once more, and fails if it falls again:
a busy machine rarely causes the same false fall twice. With ``--device cuda`` the same files run on a card (`card.py`),
in the order of `plan.py`. A benchmark whose name ends in ``_on_card`` runs there alone, in the place of one without the
ending; so does one with "bf16" in its parameters.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import plan
import pytest
import store
import torch
from card import CardRun
from gpu import summary
from gpu.watch import LOST, watched
from store import describe, facts
from timing import (
    CHECK,
    FEWEST_ROUNDS,
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
from missdiff_fast.reproduce import environment


@dataclass
class Run:
    """Settings and state of a session."""

    settings: Settings
    checks: Mapping[str, Any] | None  # by processor, the runs to compare with; None where nothing is compared
    card: CardRun | None = None
    native: dict[str, Callable[[], Any]] = field(default_factory=dict)  # what each op's rivals take turns with

    @property
    def stored(self) -> Mapping[str, Any] | None:
        """The run of this processor to compare with."""
        return (self.checks or {}).get(environment.processor())

    @property
    def device(self) -> torch.device:
        return self.card.device if self.card else torch.device("cpu")

    def facts(self) -> dict[str, Any]:
        how = {"rows": self.settings.rows, "rounds": self.settings.rounds, "clock": self.settings.clock.__name__}
        return {**facts(), **how, "statistic": self.settings.statistic.__name__}


SETTINGS = Path(__file__).with_name("pytest.ini")
_RUN = pytest.StashKey[Run]()
_ON_CARD = "_on_card"
_TRIAL_ROWS = 256


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("missdiff_fast")
    group.addoption("--check", action="store_true", help="few rows, one thread: fail where a stored ratio has fallen")
    group.addoption("--device", default="cpu", choices=["cpu", "cuda", "trial"], help="trial: the card's, on the CPU")
    group.addoption("--seconds", type=float, default=math.inf, help="on a card: begin nothing with less time left")
    group.addoption("--resume", action="store_true", help="on a card: only what the store has as pending")
    group.addoption("--rows", type=int, help="rows of table and batch, to try something out")
    group.addoption("--threads", type=int, help="PyTorch's threads")
    group.addoption("--save-results", action="store_true", help="store the figures")
    group.addoption("--store", type=Path, default=store.OPS, help="where (default: %(default)s)")


def pytest_configure(config: pytest.Config) -> None:
    if config.inipath != SETTINGS:
        raise pytest.UsageError(
            f"pytest has taken the settings of {config.inipath}, as it looks above the files among its arguments too; "
            "write --store=FILE for --store FILE, or add -c bench/pytest.ini"
        )
    check, save, path = (config.getoption(name) for name in ("--check", "--save-results", "--store"))
    config.option.benchmark_disable_gc = True
    changes = {name: config.getoption(f"--{name}") for name in ("rows", "threads")}
    settings = (CHECK.longer() if save else CHECK) if check else FULL
    if config.getoption("--device") != "cpu":
        configure_card(config, save, path)
        return
    settings = replace(settings, **{name: number for name, number in changes.items() if number is not None})
    torch.set_num_threads(settings.threads)
    keep_memory()
    checks = store.read(path).get("checks", {})
    if check and not save and not checks:
        raise pytest.UsageError(f"{path} has no check to compare with: `make bench-save` on a quiet machine stores one")
    config.stash[_RUN] = Run(settings, checks if check and not save else None)
    config.pluginmanager.register(TimerOnCpu())


def configure_card(config: pytest.Config, save: bool, path: Path) -> None:
    config.option.benchmark_only = False  # on a card the times are the device's, taken without pytest-benchmark
    trial = config.getoption("--device") == "trial"
    if not (trial or torch.cuda.is_available() or config.getoption("--collect-only")):
        raise pytest.UsageError("PyTorch sees no CUDA device; --device trial tries the benchmarks on the CPU")
    device = torch.device("cpu") if trial else torch.device("cuda", 0)
    rows = config.getoption("--rows") or (_TRIAL_ROWS if trial else FULL.rows)
    if save and path == store.OPS:
        path = store.card_file(torch.cuda.get_device_name(device))
    card = CardRun(device, rows, config.getoption("--seconds"), path if save else None, config.getoption("--resume"))
    config.stash[_RUN] = Run(replace(FULL, rows=rows), None, card)
    config.pluginmanager.register(TimerOnCard())


def keep_memory() -> None:
    """Make glibc keep freed memory: otherwise some rounds wait for new memory and some do not."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        trim_threshold, mmap_max = -1, -4
        mallopt(trim_threshold, 2**31 - 1)
        mallopt(mmap_max, 0)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """A check takes two minutes at most, so it leaves out the end-to-end benchmark."""
    return True if config.getoption("--check") and collection_path.name == "bench_end_to_end.py" else None


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrise by the implementations that the benchmark's module offers on the device."""
    run = metafunc.config.stash[_RUN]
    if "implementation" in metafunc.fixturenames:
        offered = getattr(metafunc.module, "IMPLEMENTATIONS", IMPLEMENTATIONS)
        if run.card:
            offered = getattr(metafunc.module, "CARD", [name for name in offered if name in IMPLEMENTATIONS])
        wanted = run.settings.implementations
        metafunc.parametrize("implementation", [name for name in offered if not wanted or name in wanted])


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Function]) -> None:
    run = config.stash[_RUN]
    chosen = [item for item in items if (runs_on_card if run.card else runs_on_cpu)(item)]
    if run.card:
        order = list(plan.ORDER)
        chosen.sort(key=lambda item: ("compile" in item.name, order.index(item.module.__name__)))
        if run.card.pending is not None:
            chosen = [item for item in chosen if item.name in run.card.pending]
            chosen.sort(key=lambda item: item.module.__name__ in run.card.found["lost"])
        elif not config.getoption("--collect-only"):
            run.card.found["pending"] = [item.name for item in chosen]
    else:
        for item in chosen:
            item.add_marker(pytest.mark.benchmark(timer=run.settings.clock))
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    items[:] = chosen


def runs_on_cpu(item: pytest.Function) -> bool:
    return not item.originalname.endswith(_ON_CARD) and "bf16" not in item.name


def runs_on_card(item: pytest.Function) -> bool:
    name, module = item.originalname, item.module
    return module.__name__ in plan.ORDER and (name.endswith(_ON_CARD) or not hasattr(module, name + _ON_CARD))


def pytest_runtest_setup(item: pytest.Function) -> None:
    card = item.config.stash[_RUN].card
    if card and card.left() < plan.seconds_of(item.module.__name__, "compile" in item.name):
        pytest.skip("too little time is left")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Function) -> Any:
    """On a card, a benchmark that does not end costs the process alone: run again with --resume."""
    card = item.config.stash[_RUN].card
    if card is None:
        return (yield)
    patience = plan.PATIENCE[card.device.type] * plan.seconds_of(item.module.__name__, "compile" in item.name)
    with watched(patience, lambda trace: lose(item, card, trace)):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Function, call: pytest.CallInfo[None]) -> Any:
    report, card = (yield), item.config.stash[_RUN].card
    if card and (report.failed or (report.when == "call" and report.passed)):
        card.finish(item.name, report.longreprtext if report.failed else None)
        if report.failed and card.lost():
            lose(item, card, report.longreprtext)
            pytest.exit("the card is unusable for this process", returncode=LOST)
    return report


def lose(item: pytest.Function, card: CardRun, trace: str) -> None:
    """Store and print a failure that ends the process, which is run again with --resume."""
    card.lose(item.name, item.module.__name__, trace)
    capture = item.config.pluginmanager.getplugin("capturemanager")
    if capture is not None:
        capture.suspend_global_capture(in_=True)  # what is captured is lost with the process
    print(f"\n{item.name}: {trace}", flush=True)


@pytest.fixture(scope="session")
def run(request: pytest.FixtureRequest) -> Run:
    if not _library.load():
        pytest.skip("missdiff_fast was installed without its compiled ops")
    run = request.config.stash[_RUN]
    if run.device.type == "cuda" and not _library.load_cuda():
        pytest.skip("missdiff_fast was installed without its CUDA kernels")
    reason = "" if run.checks is None else why_incomparable(run.checks, run.facts())
    if reason:
        pytest.skip(f"the stored ratios do not compare: {reason}")
    return run


@pytest.fixture(scope="session")
def implementations(run: Run) -> list[str]:
    """Those of the usual implementations that this session times; they must agree first."""
    wanted = run.settings.implementations
    return [name for name in IMPLEMENTATIONS if not wanted or name in wanted]


@pytest.fixture(scope="session")
def rows(run: Run) -> int:
    return run.settings.rows


@pytest.fixture(scope="session")
def workload(run: Run, rows: int) -> Workload:
    return make_workload(rows).to(run.device)


@pytest.fixture(scope="session")
def card(run: Run) -> CardRun:
    assert run.card is not None
    return run.card


class TimerOnCard:
    @pytest.fixture
    def timer(self, card: CardRun) -> Timer:
        """Time an implementation of an op on a card."""
        return card.time


class TimerOnCpu:
    @pytest.fixture
    def timer(self, benchmark: Any, run: Run) -> Timer:
        """Time an implementation of an op, in turn with the native one, after the warm-up calls."""
        return partial(time_on_cpu, benchmark, run)


def time_on_cpu(
    benchmark: Any, run: Run, op: str, implementation: str, function: Callable[[], Any], *, once: bool = False
) -> None:
    settings = run.settings
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
    rounds = settings.rounds_of(sum(times[-1] for times in warm_ups))
    if run.stored and native is function:
        rounds = min(rounds, FEWEST_ROUNDS)  # a check compares the rounds that native takes beside its rivals
    benchmark.pedantic(function, setup=beside, rounds=rounds)
    if native is function:
        return
    benchmark.extra_info["native"] = settings.statistic(beside.seconds)
    found = settings.ratio(beside.seconds, benchmark.stats.stats.data)
    if found < least:
        found = settings.ratio(*take_turns(native, function, len(beside.seconds), settings.clock))
    benchmark.extra_info["ratio"] = found
    if found < least:
        pytest.fail(f"{op}: {implementation} / native has fallen to {found:.2f}, below {least:.2f}", pytrace=False)


def results(config: pytest.Config) -> dict[str, dict[str, Any]]:
    """By op: the seconds of every implementation, their ratios to native, and the work of a yardstick."""
    statistic = config.stash[_RUN].settings.statistic
    ops: dict[str, dict[str, Any]] = {}
    if config.stash[_RUN].card:
        return {}
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
    ops, run, write = results(config), config.stash[_RUN], terminalreporter.write_line
    if run.card and not config.getoption("--collect-only"):
        run.card.save()
        for line in summary.lines(run.card.found):
            write(line)
    if not ops:
        return
    settings = run.settings
    terminalreporter.section("native against its rivals")
    write(describe())
    if run.stored:
        write(f"compared with {describe(run.stored)}")
    kind = STATISTICS[settings.statistic.__name__]
    write(f"{settings.rows:,} rows, 27 continuous columns and 46 of two categories; {kind} of rounds in turn")
    for line in as_lines(ops, run.stored):
        write(line)
    for line in too_slow(ops, settings.rows):
        write(f"TOO SLOW: {line}", red=True)
    if config.getoption("--save-results"):
        path = config.getoption("--store")
        found, stored = {**run.facts(), "ops": ops}, store.read(path)
        if config.getoption("--check"):
            stored["checks"] = {**stored.get("checks", {}), found["machine"]["processor"]: found}
        else:
            stored["full"] = found
        store.write(path, stored)
        write(f"written to {path}")
