"""The default sampler's ten steps over 16,384 rows, in one call and as PyTorch runs them: tiles of 2,048 rows."""

from __future__ import annotations

import pytest
import torch
from plain import PlainBackend, make_networks
from roofline import Products, forward_sizes
from timing import IMPLEMENTATIONS as USUAL
from timing import Timer
from tolerances import assert_close
from torch import Tensor
from workload import Workload

from missdiff_fast import ops
from missdiff_fast._engine.tiling import TILE
from missdiff_fast.config import SolverConfig
from missdiff_fast.diffusion.schedule import karras_sigmas
from missdiff_fast.diffusion.solver import dpm_solver_2m
from missdiff_fast.ops import reference

IMPLEMENTATIONS = [*USUAL, "sgemm"]
ROWS = 8 * TILE


class Case:
    """Rows to draw, and a network to draw them with."""

    def __init__(self, workload: Workload) -> None:
        self.networks, self.workload = make_networks(workload.table.layout), workload.head(ROWS)
        solver = SolverConfig()
        sigmas = karras_sigmas(solver.steps, solver.sigma_max, solver.sigma_min, solver.rho)
        self.x, self.levels = solver.sigma_max * self.workload.x, sigmas[:-1].float()
        keys = workload.key.expand(solver.steps, 2)
        self.solver = (workload.table.offsets, self.levels, dpm_solver_2m(sigmas).float(), self.workload.rows, keys)

    @torch.inference_mode()
    def sample(self, implementation: str) -> Tensor:
        w, network = self.workload, self.networks[implementation]
        if implementation == "native":
            return ops.mlp_sample(network, self.x, w.states, *self.solver)
        step = PlainBackend(implementation == "compile").step
        tiles = zip(self.x.split(TILE), w.states.split(TILE), strict=True)
        return torch.cat([reference.mlp_sample(network, x, s, *self.solver, step=step) for x, s in tiles])

    @torch.inference_mode()
    def reference(self) -> Tensor:
        return reference.mlp_sample(self.networks["native"], self.x, self.workload.states, *self.solver)

    def products(self) -> Products:
        """Those of every tile and step, without what the states contribute, which no step changes."""
        rows = min(TILE, len(self.x))
        sizes = forward_sizes(self.networks["native"], rows, inputs=self.x.shape[1])
        return Products(sizes, times=len(self.levels) * len(self.x) // rows)


@pytest.fixture(scope="module")
def case(workload: Workload, implementations: list[str]) -> Case:
    case = Case(workload)
    truth = case.reference()
    for implementation in implementations:
        assert_close("mlp_sample", case.sample(implementation), truth)
    return case


def bench_mlp_sample(timer: Timer, case: Case, implementation: str) -> None:
    function = case.products() if implementation == "sgemm" else lambda: case.sample(implementation)
    timer("mlp_sample", implementation, function)
