"""The default sampler's steps over 16,384 rows, in one call and as PyTorch runs them: tiles of 2,048 rows.

On a card all rows are drawn, none of them known, by networks of two widths: natively in bfloat16, as models draw, and
in PyTorch by tiles or all rows at once, called or replayed as a CUDA graph, in each precision. "native layers" is
`mlp_layers`, which a wide network could be drawn by: ours too, and no rival.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import baselines
import plan
import pytest
import torch
from card import CardRun
from clock import NATIVE, PRECISIONS, Function, capture, hold, precision, relative_error
from mlp_layers import TILE as CARD_TILE
from mlp_layers import sample_by_layers
from plain import PlainBackend, make_network, make_networks
from roofline import Products, forward_sizes
from timing import IMPLEMENTATIONS as USUAL
from timing import Timer
from tolerances import assert_close
from torch import Tensor, nn
from workload import Workload

from missdiff_fast import ops
from missdiff_fast._engine.tiling import TILE
from missdiff_fast.config import SolverConfig
from missdiff_fast.diffusion.schedule import karras_sigmas
from missdiff_fast.diffusion.solver import dpm_solver_2m
from missdiff_fast.diffusion.states import NOISY
from missdiff_fast.networks import Denoiser
from missdiff_fast.ops import reference

IMPLEMENTATIONS = [*USUAL, "sgemm"]
ROWS = 8 * TILE
SIZES = ("tiles", "whole")
CARD = ["native", "native fp32"]
CARD += [f"native layers{graph} {name}" for name in NATIVE for graph in ("", " and graph")]
CARD += [f"{kind} {name}, {size}" for size in SIZES for name in PRECISIONS for kind in ("eager", "graph")]
CARD += [
    f"compile{graph} {name}, {size}" for size in SIZES for name in ("tf32", "bf16") for graph in ("", " and graph")
]
CHECKED = 4096


class Case:
    """Rows to draw, and a network to draw them with."""

    def __init__(self, workload: Workload) -> None:
        rows = min(ROWS, max(TILE, len(workload.rows) // 4))  # of a check's few rows one tile: they take a second each
        self.networks, self.workload = make_networks(workload.table.layout), workload.head(rows)
        solver = SolverConfig()
        sigmas = karras_sigmas(solver.steps, solver.sigma_max, solver.sigma_min, solver.rho)
        self.x, self.sigmas = solver.sigma_max * self.workload.x, sigmas[:-1].float()
        keys = workload.key.expand(solver.steps, 2)
        self.solver = (workload.table.offsets, self.sigmas, dpm_solver_2m(sigmas).float(), self.workload.rows, keys)

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
        """Those of every tile and step, without the states' share of the first layer, which no step changes."""
        rows = min(TILE, len(self.x))
        sizes = forward_sizes(self.networks["native"], rows, inputs=self.x.shape[1])
        return Products(sizes, times=len(self.sigmas) * len(self.x) // rows)


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


def solver_step(
    network: nn.Module, x: Tensor, previous: Tensor, states: Tensor, sigma: Tensor, coefficients: Any
) -> tuple[Tensor, Tensor]:
    """The network and the solver's step, one graph where it is compiled."""
    return baselines.step(x, network(x, sigma, states), previous, states, coefficients)


class Sampling:
    """All rows to draw on a card, and a network to draw them with."""

    def __init__(self, w: Workload, width: int) -> None:
        self.device, solver = w.x.device, SolverConfig()
        self.network = make_network(w, Denoiser, width).eval().requires_grad_(False)
        sigmas = karras_sigmas(solver.steps, solver.sigma_max, solver.sigma_min, solver.rho)
        self.sigmas, self.coefficients = (x.float().to(self.device) for x in (sigmas[:-1], dpm_solver_2m(sigmas)))
        self.numbers = self.coefficients.tolist()
        self.offsets, self.x = w.table.offsets, solver.sigma_max * w.x
        self.states, self.out = torch.full_like(w.states, NOISY), torch.empty_like(self.x)
        self.rows = torch.arange(len(w.x), device=self.device)
        self.keys = torch.stack([reference.make_key(0, i + 1, self.device) for i in range(solver.steps)])

    def native(self, count: int | None = None, name: str = "bf16") -> Tensor:
        solver = self.offsets, self.sigmas, self.coefficients, self.rows[:count], self.keys
        return ops.mlp_sample(self.network, self.x[:count], self.states[:count], *solver, precision=NATIVE[name])

    def truth(self, count: int) -> Tensor:
        """In float64."""
        solver = self.offsets, self.sigmas.double(), self.coefficients.double(), self.rows[:count], self.keys
        network = copy.deepcopy(self.network).double()
        return reference.mlp_sample(network, self.x[:count].double(), self.states[:count], *solver)

    def solve(self, name: str, x: Tensor, states: Tensor, compiled: bool = False) -> Tensor:
        """All steps in PyTorch."""
        step, coefficients = solver_step, self.numbers
        if compiled:
            step, coefficients = baselines.compiled(solver_step), self.coefficients
        previous = torch.zeros_like(x)
        with precision(name, self.device):
            for i in range(len(self.sigmas)):
                x, previous = step(self.network, x, previous, states, self.sigmas[i : i + 1], coefficients[i])
        return x

    def layers(self, name: str, x: Tensor, states: Tensor) -> Tensor:
        """All steps of a tile by `sample_by_layers`; the rows' numbers do not matter, as the solver adds no noise."""
        solver = self.offsets, self.sigmas, self.coefficients, self.rows[: len(x)], self.keys
        return sample_by_layers(self.network, x, states, *solver, precision=NATIVE[name], tile=len(x))

    def tiled(self, solve: Callable[[Tensor, Tensor], Tensor], size: int, *, captured: bool) -> Function:
        """A loop over tiles of so many rows; the last tile begins earlier, so that all have one shape."""
        size = min(size, len(self.x))
        starts = [min(start, len(self.x) - size) for start in range(0, len(self.x), size)]
        x, states, out = self.x[:size].clone(), self.states[:size].clone(), self.x[:size].clone()
        replay = capture(lambda: out.copy_(solve(x, states)), self.device) if captured else None

        def run() -> None:
            for start in starts:
                piece = slice(start, start + size)
                if replay is None:
                    self.out[piece] = solve(self.x[piece], self.states[piece])
                else:
                    x.copy_(self.x[piece])
                    states.copy_(self.states[piece])
                    replay()
                    self.out[piece] = out

        return run

    def make(self, implementation: str) -> Function:
        """One of `CARD`."""
        kind, _, size = implementation.partition(", ")
        kind, _, name = kind.rpartition(" ") if " " in kind else (kind, "", "bf16")
        if kind == "native":
            return lambda: self.native(None, name)
        captured = kind.endswith("graph")
        if kind.startswith("native layers"):
            return self.tiled(partial(self.layers, name), CARD_TILE, captured=captured)
        rows = CARD_TILE if size == "tiles" else len(self.x)
        solve = partial(self.solve, name, compiled=kind.startswith("compile"))
        return self.tiled(solve, rows, captured=captured)

    def errors(self) -> dict[str, float]:
        """Relative errors of the native sampler and of PyTorch's precisions, against float64."""
        count = min(CHECKED, len(self.x))
        truth = self.truth(count)
        found = {f"native {name}": relative_error(self.native(count, name), truth) for name in NATIVE}
        for name in PRECISIONS:
            found[name] = relative_error(self.solve(name, self.x[:count], self.states[:count]), truth)
        return found


@pytest.fixture(scope="module", params=plan.WIDTHS)
@torch.no_grad()
def sampling(request: pytest.FixtureRequest, workload: Workload, card: CardRun) -> tuple[str, Sampling]:
    """A sampler's name, and a sampler whose errors are no greater than PyTorch's."""
    case, op = Sampling(workload, request.param), plan.sampler(request.param)
    errors = case.errors()
    hold(errors)
    card.note("errors", {op: errors})
    return op, case


@torch.no_grad()
def bench_mlp_sample_on_card(timer: Timer, sampling: tuple[str, Sampling], implementation: str) -> None:
    op, case = sampling
    timer(op, implementation, case.make(implementation), queued=False)
