"""The bounds that a run of the benchmarks is held to; the times themselves are taken by `make bench`."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

SOURCE = Path(__file__).parent.parent / "bench" / "timing.py"


@pytest.fixture(scope="module")
def timing() -> ModuleType:
    spec = importlib.util.spec_from_file_location("missdiff_fast_bench_timing", SOURCE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_ratios_by_hand(timing: ModuleType) -> None:
    assert timing.ratios({"native": 2.0, "eager": 7.0, "compile": 1.0}) == {"eager": 3.5, "compile": 0.5}
    assert timing.ratios({"native": 2.0, "compile": 4.0}) == {"compile": 2.0}
    assert timing.ratios({"eager": 7.0}) == {}


def test_ops_that_are_too_slow_are_named(timing: ModuleType) -> None:
    good = {"native": 1.0, "eager": 3.0, "compile": 1.0}
    assert timing.too_slow({"perturb": good, "decode": {"native": 1.0}}, timing.FULL_SIZE) == []
    (eager,) = timing.too_slow({"perturb": good, "step": {**good, "eager": 2.99}}, timing.FULL_SIZE)
    assert eager == "step: eager / native is 2.99, below 3"
    (compiled,) = timing.too_slow({"step": {**good, "compile": 0.994}}, timing.FULL_SIZE)
    assert compiled == "step: compile / native is 0.99, below 1"


def test_fewer_rows_are_held_to_nothing(timing: ModuleType) -> None:
    slow = {"step": {"native": 1.0, "eager": 1.0, "compile": 1.0}}
    assert timing.too_slow(slow, timing.FULL_SIZE - 1) == []
    assert len(timing.too_slow(slow, timing.FULL_SIZE)) == 1
