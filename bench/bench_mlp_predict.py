"""Imputation of 65,536 rows in one pass, tile by tile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import baselines
import pytest
import torch
from plain import make_networks
from timing import Timer
from tolerances import assert_close
from torch import Tensor
from workload import Workload

from missdiff_fast import ops
from missdiff_fast._engine.imputation import one_pass
from missdiff_fast.networks import Denoiser
from missdiff_fast.ops import reference
from missdiff_fast.table import EncodedTable

ROWS = 65_536


class Encoding:
    """A backend that encodes rows, which is all that an imputation asks of one: nothing is noisy."""

    make_key = staticmethod(reference.make_key)

    def __init__(self, encode: Callable[[Tensor, Tensor], Tensor]) -> None:
        self.encode = encode

    def perturb(self, table: EncodedTable, *_: Any) -> Tensor:
        return self.encode(table.continuous, table.codes)


class Case:
    """Rows with holes, and what predicts them: a network and a backend for each implementation."""

    def __init__(self, workload: Workload) -> None:
        self.table, networks = workload.table.rows(slice(0, ROWS)), make_networks(workload.table.layout)
        encodings = {"eager": Encoding(baselines.encode), "compile": Encoding(baselines.compiled(baselines.encode))}
        backends = {"native": ops, **encodings}
        self.predictors: dict[str, tuple[Denoiser, Any]] = {name: (networks[name], backends[name]) for name in networks}
        self.predictors["reference"] = networks["native"], reference

    def impute(self, implementation: str) -> Tensor:
        """The last tile's prediction."""
        network, backend = self.predictors[implementation]
        last: Any = None
        for tile in one_pass(network, self.table, backend):
            last = tile
        return torch.cat(last[2:], 1)


@pytest.fixture(scope="module")
def case(workload: Workload, implementations: list[str]) -> Case:
    case = Case(workload)
    truth = case.impute("reference")
    for implementation in implementations:
        assert_close("mlp_predict", case.impute(implementation)[-len(truth) :], truth)
    return case


def bench_mlp_predict(timer: Timer, case: Case, implementation: str) -> None:
    timer("mlp_predict", implementation, lambda: case.impute(implementation))
