"""A pytest plugin: an error that makes the card unusable for its process ends the process, and other tests go on.

    PYTHONPATH=bench python -m pytest -p gpu.lost_card --done FILE

FILE lists the tests that have run. After such an error pytest ends with status 9; run again with the same FILE, it goes
on with the other tests. With pytest-xdist the worker alone ends, and another takes its place.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

LOST = 9  # exit status


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--done", type=Path, required=True, help="the file that lists the tests that have run")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests that an earlier process has run."""
    file: Path = config.getoption("--done")
    done = set(file.read_text(encoding="utf-8").splitlines()) if file.exists() else set()
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in done])
    items[:] = [item for item in items if item.nodeid not in done]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Any:
    report = yield
    in_worker = "PYTEST_XDIST_WORKER" in os.environ
    if report.when == "teardown" and not in_worker:
        _note(item)
    if report.failed and is_lost():
        if in_worker:
            print(f"{item.nodeid}: the card is lost to this worker\n{report.longreprtext}", file=sys.stderr, flush=True)
            os._exit(LOST)
        _note(item)
        print(report.longreprtext)
        pytest.exit(f"{item.nodeid} has made the card unusable for this process", returncode=LOST)
    return report


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
