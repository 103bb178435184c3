from __future__ import annotations

import baselines
import pytest
import torch
from timing import Timer
from tolerances import assert_close
from torch import Tensor
from workload import CONTINUOUS, Workload

from missdiff_fast import ops
from missdiff_fast.ops import reference


def native(w: Workload) -> tuple[Tensor, Tensor]:
    return ops.decode(w.x, w.table.offsets, w.boundaries, w.starts)


@pytest.fixture(scope="module")
def checked(workload: Workload) -> Workload:
    w = workload.head(2000)
    truth = reference.decode(w.x, w.table.offsets, w.boundaries, w.starts)
    for results in (native(w), baselines.decode(w.x, baselines.filled(w.boundaries, w.starts), CONTINUOUS)):
        for result, wanted in zip(results, truth, strict=True):
            assert_close("decode", result, wanted, torch.float32)
    return workload


def bench_decode(timer: Timer, checked: Workload, implementation: str) -> None:
    w = checked
    if implementation == "native":
        timer("decode", implementation, lambda: native(w))
        return
    plain, boundaries = baselines.rival(implementation, baselines.decode), baselines.filled(w.boundaries, w.starts)
    timer("decode", implementation, lambda: plain(w.x, boundaries, CONTINUOUS))
