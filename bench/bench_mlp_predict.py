"""Imputation of 65,536 rows in one pass, tile by tile; on a card the pass alone, over all rows."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import baselines
import pytest
import torch
from clock import NATIVE, PRECISIONS, hold, precision, relative_error
from plain import make_network, make_networks
from timing import Timer
from tolerances import assert_close
from torch import Tensor
from workload import Workload

from missdiff_fast import ops
from missdiff_fast._engine.backend import Backend, NativeBackend, ReferenceBackend
from missdiff_fast._engine.imputation import one_pass
from missdiff_fast.networks import Denoiser
from missdiff_fast.table import EncodedTable

ROWS = 65_536
CARD = ["native", "native bf16", *(f"eager {name}" for name in PRECISIONS)]


class Encoding(ReferenceBackend):
    """The reference with another `perturb`, which only encodes here: in an imputation nothing is noisy."""

    def __init__(self, encode: Callable[[Tensor, Tensor], Tensor]) -> None:
        self.encode_rows = encode

    def perturb(self, table: EncodedTable, *_: Any) -> Tensor:  # type: ignore[override]
        return self.encode_rows(table.continuous, table.codes)


class Case:
    """Rows with holes, and the network and backend of each implementation."""

    def __init__(self, workload: Workload) -> None:
        self.table, networks = workload.table.rows(slice(0, ROWS)), make_networks(workload.table.layout)
        encodings = {"eager": Encoding(baselines.encode), "compile": Encoding(baselines.compiled(baselines.encode))}
        backends: dict[str, Backend] = {"native": NativeBackend(), **encodings}
        self.predictors = {name: (networks[name], backends[name]) for name in networks}
        self.predictors["reference"] = networks["native"], ReferenceBackend()

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


class Pass:
    """A pass over all rows on a card, in each precision."""

    def __init__(self, w: Workload) -> None:
        self.w, self.device = w, w.x.device
        self.network, self.sigma = make_network(w, Denoiser), torch.ones(1, device=w.x.device)

    @torch.no_grad()
    def run(self, implementation: str, w: Workload) -> Tensor:
        kind, _, name = implementation.partition(" ")
        if kind == "native":
            return ops.mlp_predict(self.network, w.x, w.states, self.sigma, precision=NATIVE[name or "fp32"])
        with precision(name, self.device):
            return self.network(w.x, self.sigma, w.states)

    @torch.no_grad()
    def check(self) -> None:
        head = self.w.head(2000)
        truth = copy.deepcopy(self.network).double()(head.x.double(), self.sigma.double(), head.states)
        names = {f"native {name}": f"native {name}" for name in NATIVE} | {name: f"eager {name}" for name in PRECISIONS}
        hold({name: relative_error(self.run(full, head), truth) for name, full in names.items()})


@pytest.fixture(scope="module")
def passing(workload: Workload) -> Pass:
    case = Pass(workload)
    case.check()
    return case


def bench_mlp_predict_on_card(timer: Timer, passing: Pass, implementation: str) -> None:
    timer("mlp_predict", implementation, lambda: passing.run(implementation, passing.w))
