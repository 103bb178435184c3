from __future__ import annotations

import baselines
import pytest
from roofline import Copy, Noise, batch_bytes
from timing import IMPLEMENTATIONS as USUAL
from timing import Timer
from tolerances import assert_close
from torch import Tensor
from workload import Workload

from missdiff_fast import ops
from missdiff_fast.ops import reference

IMPLEMENTATIONS = [*USUAL, "copy", "noise"]


def native(w: Workload) -> Tensor:
    return ops.perturb(w.table, w.rows, w.states, w.alpha, w.sigma, w.key)


@pytest.fixture(scope="module")
def checked(workload: Workload) -> Workload:
    w = workload.head(2000)
    truth = reference.perturb(w.table, w.rows, w.states, w.alpha, w.sigma, w.key)
    assert_close("perturb", native(w), truth)
    noise = reference.normal(w.rows, w.table.layout.width, w.key)
    cells = w.table.continuous, w.table.codes, w.rows, w.states, w.alpha, w.sigma
    assert_close("perturb", baselines.perturb(*cells, noise), truth)
    return workload


def moved_bytes(w: Workload) -> int:
    """The batch and its coefficients are read, and the encoded rows written."""
    return batch_bytes(w, w.alpha, w.sigma) + w.x.nbytes


def bench_perturb(timer: Timer, checked: Workload, implementation: str) -> None:
    w = checked
    if implementation == "native":
        timer("perturb", implementation, lambda: native(w))
    elif implementation == "copy":
        timer("perturb", implementation, Copy(moved_bytes(w)))
    elif implementation == "noise":
        timer("perturb", implementation, Noise(w))
    else:
        plain = baselines.rival(implementation, baselines.perturb)
        cells = w.table.continuous, w.table.codes, w.rows, w.states, w.alpha, w.sigma
        timer("perturb", implementation, lambda: plain(*cells))
