"""Random numbers on a card, against PyTorch's own generator, which is another."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from timing import Timer
from tolerances import assert_close
from torch import Tensor
from workload import Workload

from missdiff_fast import ops
from missdiff_fast.ops import reference

CARD = ["native", "eager"]
PLAIN = {"uniform": torch.rand, "normal": torch.randn}


def draw(module: Any, name: str, w: Workload) -> Tensor:
    return getattr(module, name)(w.rows, w.table.layout.width, w.key)


@pytest.fixture(scope="module")
def checked(workload: Workload) -> Workload:
    w = workload.head(2000)
    for name in PLAIN:
        assert_close(name, draw(ops, name, w), draw(reference, name, w))
    return workload


@pytest.mark.parametrize("name", PLAIN)
def bench_random_on_card(timer: Timer, checked: Workload, name: str, implementation: str) -> None:
    w, shape = checked, (len(checked.rows), checked.table.layout.width)
    plain = PLAIN[name]
    timer(
        name,
        implementation,
        (lambda: draw(ops, name, w)) if implementation == "native" else lambda: plain(*shape, device=w.x.device),
    )
