"""The default sampler's ten steps over 16,384 rows, in one call and as PyTorch runs them: tiles of 2,048 rows."""

from __future__ import annotations

from collections.abc import Callable

import baselines
import pytest
import torch
from timing import Timer
from tolerances import assert_close
from torch import Tensor
from workload import Workload

from missdiff_fast import ops, reference
from missdiff_fast.config import SolverConfig
from missdiff_fast.diffusion.schedule import karras_grid
from missdiff_fast.diffusion.solver import dpm_solver_2m
from missdiff_fast.networks import Denoiser
from missdiff_fast.sampling import TILE

ROWS = 8 * TILE


class Case:
    """A network with weights that are not 0, and rows to draw."""

    def __init__(self, workload: Workload) -> None:
        torch.manual_seed(0)
        self.network = Denoiser(workload.table.layout)
        torch.nn.init.normal_(self.network.outputs.weight, std=0.1)
        solver = SolverConfig()
        sigmas = karras_grid(solver.steps, solver.sigma_max, solver.sigma_min, solver.rho)
        self.levels, self.coefficients = sigmas[:-1].float(), dpm_solver_2m(sigmas).float()
        self.keys = workload.key.expand(solver.steps, 2)
        self.offsets, self.workload = workload.table.offsets, workload
        self.x = solver.sigma_max * workload.x[:ROWS]

    def functions(self, compiled: bool) -> tuple[Callable[..., Tensor], Callable[..., tuple[Tensor, Tensor]]]:
        """Network and step."""
        if not compiled:
            return self.network, baselines.step
        return baselines.compiled(self.network), baselines.compiled(baselines.step)

    @torch.inference_mode()
    def native(self) -> Tensor:
        w, count = self.workload, len(self.x)
        solver = (self.offsets, self.levels, self.coefficients, w.rows[:count], self.keys)
        return ops.mlp_sample(self.network, self.x, w.states[:count], *solver)

    @torch.inference_mode()
    def plain(self, network: Callable[..., Tensor], step: Callable[..., tuple[Tensor, Tensor]]) -> Tensor:
        numbers = [tuple(row) for row in self.coefficients.tolist()]
        out = []
        for x, states in zip(self.x.split(TILE), self.workload.states[: len(self.x)].split(TILE), strict=True):
            previous = torch.zeros_like(x)
            for i, c in enumerate(numbers):
                x, previous = step(x, network(x, self.levels[i : i + 1], states), previous, states, c)
            out.append(x)
        return torch.cat(out)


@pytest.fixture(scope="module")
def case(workload: Workload) -> Case:
    case = Case(workload)
    with torch.inference_mode():
        w, count = workload, len(case.x)
        solver = (case.offsets, case.levels, case.coefficients, w.rows[:count], case.keys)
        truth = reference.mlp_sample(case.network, case.x, w.states[:count], *solver)
    assert_close("mlp_sample", case.native(), truth)
    for compiled in (False, True):
        assert_close("mlp_sample", case.plain(*case.functions(compiled)), truth)
    return case


def bench_mlp_sample(timer: Timer, case: Case, implementation: str) -> None:
    if implementation == "native":
        timer("mlp_sample", implementation, case.native)
    else:
        functions = case.functions(implementation == "compile")
        timer("mlp_sample", implementation, lambda: case.plain(*functions))
