"""A pytest plugin: an error that makes the card unusable for its process ends the process, and other tests go on.

    PYTHONPATH=bench python -m pytest -p gpu.lost_card --done FILE [--each SECONDS] [--within SECONDS]

FILE lists the tests that have run. After such an error pytest ends with status 9; run again with the same FILE, it goes
on with the other tests. With pytest-xdist the worker alone ends, and another takes its place. A test that does not end
within ``--each`` seconds counts as such an error, since a kernel without an end can be stopped in no other way. After
``--within`` seconds no test begins, and the status tells whether one had failed.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from gpu.watch import LOST, watched

_LONG = 86_400.0  # seconds
_BEGAN = time.monotonic()
_TIME_IS_UP = "no time is left for the other tests"
_is_time_up = False


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--done", type=Path, required=True, help="the file that lists the tests that have run")
    parser.addoption("--each", type=float, default=_LONG, help="the most seconds that a test may take")
    parser.addoption("--within", type=float, default=_LONG, help="the seconds after which no test begins")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests that an earlier process has run."""
    file: Path = config.getoption("--done")
    done = set(file.read_text(encoding="utf-8").splitlines()) if file.exists() else set()
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in done])
    items[:] = [item for item in items if item.nodeid not in done]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Any:
    """Watch a test, and let none follow once the time is up."""
    with watched(item.config.getoption("--each"), lambda trace: _tell_unended(item, trace)):
        result = yield
    if time.monotonic() - _BEGAN > item.config.getoption("--within"):
        item.session.shouldstop = _TIME_IS_UP
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Any:
    report = yield
    if report.when == "teardown" and not _in_worker():
        _note(item)
    if report.failed and is_lost():
        if _in_worker():
            print(f"{item.nodeid}: the card is lost to this worker\n{report.longreprtext}", file=sys.stderr, flush=True)
            os._exit(LOST)
        _note(item)
        print(report.longreprtext)
        pytest.exit(f"{item.nodeid} has made the card unusable for this process", returncode=LOST)
    return report


def pytest_keyboard_interrupt(excinfo: pytest.ExceptionInfo[BaseException]) -> None:
    """Note why the session ends; with pytest-xdist it is a worker that has stopped it."""
    global _is_time_up
    _is_time_up = str(excinfo.value) == _TIME_IS_UP


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Tests for which no time was left are no failures."""
    if _is_time_up:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED if session.testsfailed else pytest.ExitCode.OK


def _in_worker() -> bool:
    return "PYTEST_XDIST_WORKER" in os.environ


def _tell_unended(item: pytest.Item, trace: str) -> None:
    capture = item.config.pluginmanager.getplugin("capturemanager")
    if capture is not None:
        capture.suspend_global_capture(in_=True)  # what is captured is lost with the process
    print(f"{trace}: {item.nodeid}", file=sys.stderr, flush=True)
    if not _in_worker():
        _note(item)


def _note(item: pytest.Item) -> None:
    with item.config.getoption("--done").open("a", encoding="utf-8") as stream:
        stream.write(f"{item.nodeid}\n")


def is_lost() -> bool:
    """Whether an error has made the card unusable for this process."""
    torch = sys.modules.get("torch")  # where no test has imported it, none has used the card
    if torch is not None and torch.cuda.is_initialized():
        try:
            torch.cuda.synchronize()
        except RuntimeError:
            return True
    return False
