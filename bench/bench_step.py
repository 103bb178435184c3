"""The step of the default sampler, which draws no noise, and one that does."""

from __future__ import annotations

import itertools
from dataclasses import replace

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


def with_half(w: Workload) -> Workload:
    """With a prediction in bfloat16."""
    return replace(w, prediction=w.prediction.bfloat16())


@pytest.fixture(scope="module")
def checked(workload: Workload) -> Workload:
    head = workload.head(2000)
    noise = reference.normal(head.rows, head.x.shape[1], head.key)
    for w, numbers in itertools.product((head, with_half(head)), COEFFICIENTS.values()):
        c = torch.tensor(numbers, device=w.x.device)
        truth = reference.step(w.x, w.prediction, w.previous, w.states, w.table.offsets, c, w.rows, w.key)
        plain = baselines.step(w.x, w.prediction, w.previous, w.states, numbers, noise, noisy=bool(numbers[3]))
        for results in (native(w, c), plain):
            for result, wanted in zip(results, truth, strict=True):
                assert_close("step", result, wanted)
    return workload


def moved_bytes(w: Workload) -> int:
    """States, row, prediction and the one before are read, and both results written; nothing is read for the noise."""
    return w.states.nbytes + 4 * w.x.nbytes + len(w.x) * w.x.shape[1] * w.prediction.element_size()


@pytest.mark.parametrize("name", [*COEFFICIENTS, "step, bf16"])
def bench_step(timer: Timer, checked: Workload, name: str, implementation: str) -> None:
    w, numbers = with_half(checked) if name.endswith("bf16") else checked, COEFFICIENTS[name.partition(",")[0]]
    noisy = bool(numbers[3])
    c = torch.tensor(numbers, device=w.x.device)
    if implementation == "native":
        timer(name, implementation, lambda: native(w, c))
    elif implementation == "copy":
        timer(name, implementation, Copy(moved_bytes(w)))
    elif implementation == "noise":
        if not noisy:
            pytest.skip("no noise is drawn")
        timer(name, implementation, Noise(w))
    else:
        plain, given = baselines.rival(implementation, baselines.step), numbers if implementation == "eager" else c
        timer(name, implementation, lambda: plain(w.x, w.prediction, w.previous, w.states, given, noisy=noisy))
