"""The step of the default sampler, which draws no noise, and one that does."""

from __future__ import annotations

import baselines
import pytest
import torch
from roofline import Copy, Noise
from timing import IMPLEMENTATIONS as USUAL
from timing import Timer
from tolerances import assert_close
from torch import Tensor
from workload import Workload

from missdiff_fast import ops
from missdiff_fast.ops import reference

IMPLEMENTATIONS = [*USUAL, "copy", "noise"]
COEFFICIENTS = {"step": (0.6, 0.9, -0.3, 0.0), "step with noise": (0.6, 0.9, -0.3, 0.4)}


def native(w: Workload, coefficients: Tensor) -> tuple[Tensor, Tensor]:
    return ops.step(w.x, w.prediction, w.previous, w.states, w.table.offsets, coefficients, w.rows, w.key)


@pytest.fixture(scope="module")
def checked(workload: Workload) -> Workload:
    w = workload.head(2000)
    noise = reference.normal(w.rows, w.x.shape[1], w.key)
    for numbers in COEFFICIENTS.values():
        c = torch.tensor(numbers)
        truth = reference.step(w.x, w.prediction, w.previous, w.states, w.table.offsets, c, w.rows, w.key)
        plain = baselines.step(w.x, w.prediction, w.previous, w.states, numbers, noise, noisy=bool(numbers[3]))
        for results in (native(w, c), plain):
            for result, wanted in zip(results, truth, strict=True):
                assert_close("step", result, wanted)
    return workload


def moved_bytes(w: Workload) -> int:
    """States, row, prediction and the one before are read, and both results written; nothing is read for the noise."""
    return w.states.nbytes + 5 * w.x.nbytes


@pytest.mark.parametrize("name", COEFFICIENTS)
def bench_step(timer: Timer, checked: Workload, name: str, implementation: str) -> None:
    w, numbers = checked, COEFFICIENTS[name]
    if implementation == "native":
        c = torch.tensor(numbers)
        timer(name, implementation, lambda: native(w, c))
        return
    if implementation == "copy":
        timer(name, implementation, Copy(moved_bytes(w)))
        return
    if implementation == "noise":
        if not numbers[3]:
            pytest.skip("no noise is drawn")
        timer(name, implementation, Noise(w))
        return
    plain, c = baselines.step, numbers
    if implementation == "compile":
        plain, c = baselines.compiled(baselines.step), torch.tensor(numbers)
    timer(name, implementation, lambda: plain(w.x, w.prediction, w.previous, w.states, c, noisy=bool(numbers[3])))
