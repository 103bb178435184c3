"""The default sampler over all rows: ours in one call and in bf16, as models draw, against PyTorch at its fastest."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import baselines
import torch
from torch import Tensor, nn
from workload import Workload

from gpu.clock import Clock, Function, capture, precision
from gpu.plan import predict, sampler
from gpu.rivals import PRECISIONS, Maker, compare, entry, hold, relative_error
from gpu.single import make_network
from missdiff_fast import ops
from missdiff_fast.config import SolverConfig
from missdiff_fast.diffusion.schedule import karras_sigmas
from missdiff_fast.diffusion.solver import dpm_solver_2m
from missdiff_fast.diffusion.states import NOISY
from missdiff_fast.ops import reference
from missdiff_fast.ops.reference import make_key

CHECKED = 4096
TILE = 16_384  # rows of which the rivals' activations fit the card's cache

Step = Callable[..., tuple[Tensor, Tensor]]


def solver_step(
    network: nn.Module, x: Tensor, previous: Tensor, states: Tensor, level: Tensor, coefficients: Any
) -> tuple[Tensor, Tensor]:
    """The network and what the solver makes of its prediction, to be one graph where it is compiled."""
    return baselines.step(x, network(x, level, states), previous, states, coefficients)


class Sampling:
    """Rows to draw, none of them known, and a network to draw them with."""

    def __init__(self, w: Workload, width: int) -> None:
        self.device, solver = w.x.device, SolverConfig()
        self.network = make_network(self.device, width)
        sigmas = karras_sigmas(solver.steps, solver.sigma_max, solver.sigma_min, solver.rho)
        self.sigmas, self.coefficients = (
            tensor.float().to(self.device) for tensor in (sigmas[:-1], dpm_solver_2m(sigmas))
        )
        self.numbers = self.coefficients.tolist()
        self.offsets, self.x = w.table.offsets, solver.sigma_max * w.x
        self.states = torch.full_like(w.states, NOISY)
        self.rows = torch.arange(len(w.x), device=self.device)
        self.keys = torch.stack([make_key(0, i + 1, self.device) for i in range(solver.steps)])
        self.out = torch.empty_like(self.x)

    def native(self, count: int | None = None, name: str = "bf16") -> Tensor:
        solver = self.offsets, self.sigmas, self.coefficients, self.rows[:count], self.keys
        states = self.states[:count]
        return ops.mlp_sample(self.network, self.x[:count], states, *solver, precision=PRECISIONS[name])

    def truth(self, count: int) -> Tensor:
        """In float64."""
        solver = self.offsets, self.sigmas.double(), self.coefficients.double(), self.rows[:count], self.keys
        network = copy.deepcopy(self.network).double()
        return reference.mlp_sample(network, self.x[:count].double(), self.states[:count], *solver)

    def solve(self, x: Tensor, states: Tensor, step: Step, coefficients: Any) -> Tensor:
        """All steps in PyTorch."""
        previous = torch.zeros_like(x)
        for i in range(len(self.sigmas)):
            x, previous = step(self.network, x, previous, states, self.sigmas[i : i + 1], coefficients[i])
        return x

    def plain(self, name: str, size: int, *, compiled: bool, captured: bool) -> Function:
        """PyTorch's loop over tiles of so many rows; the last tile begins earlier, so that all have one shape."""
        step, coefficients = solver_step, self.numbers
        if compiled:
            step, coefficients = baselines.compiled(solver_step), self.coefficients
        size = min(size, len(self.x))
        starts = [min(start, len(self.x) - size) for start in range(0, len(self.x), size)]
        x, states, out = self.x[:size].clone(), self.states[:size].clone(), self.x[:size].clone()

        def once() -> None:
            with precision(name, self.device):
                out.copy_(self.solve(x, states, step, coefficients))

        replay = capture(once, self.device) if captured else None

        def run() -> None:
            for start in starts:
                piece = slice(start, start + size)
                if replay is None:
                    with precision(name, self.device):
                        self.out[piece] = self.solve(self.x[piece], self.states[piece], step, coefficients)
                else:
                    x.copy_(self.x[piece])
                    states.copy_(self.states[piece])
                    replay()
                    self.out[piece] = out

        return run

    def errors(self) -> dict[str, float]:
        """Relative errors of ours and of PyTorch's precisions, against float64."""
        count = min(CHECKED, len(self.x))
        truth = self.truth(count)
        found = {f"native {name}": relative_error(self.native(count, name), truth) for name in PRECISIONS}
        for name in PRECISIONS:
            with precision(name, self.device):
                result = self.solve(self.x[:count], self.states[:count], solver_step, self.numbers)
            found[name] = relative_error(result, truth)
        return found

    def makers(self, *, compiled: bool) -> dict[str, Maker]:
        """Every rival by "kind precision, size"; compiled ones, which take long to make, in fewer precisions."""
        sizes = {"tiles": TILE, "whole": len(self.x)}
        kinds = {"compile": False, "compile and graph": True} if compiled else {"eager": False, "graph": True}
        precisions = ("tf32", "bf16") if compiled else tuple(PRECISIONS)
        makers: dict[str, Maker] = {}
        if not compiled:
            makers = {f"native {name}": partial(partial, self.native, None, name) for name in ("fp32", "tf32")}
        for size_name, size in sizes.items():
            for name in precisions:
                for kind, captured in kinds.items():
                    make = partial(self.plain, name, size, compiled=compiled, captured=captured)
                    makers[f"{kind} {name}, {size_name}"] = make
        return makers


def best(found: dict[str, Any]) -> dict[str, Any]:
    """Of each rival the size that is the faster; all of them under "sizes"."""
    seconds: dict[str, float] = {}
    for name, value in found["seconds"].items():
        kind = name.partition(",")[0]
        seconds[kind] = min(value, seconds.get(kind, value))
    return {**entry(seconds, found["failed"]), "sizes": found["seconds"]}


@torch.no_grad()
def measure(w: Workload, width: int, clock: Clock, *, compiled: bool = False) -> dict[str, Any]:
    """The entry of a sampler."""
    case, work = Sampling(w, width), predict(sampler(width), len(w.rows))
    errors = case.errors()
    hold(errors)
    found = best(compare(case.native, case.makers(compiled=compiled), clock, alone=False))
    return {"rows": work.rows, "bytes": work.bytes, "flops": work.flops, "errors": errors, **found}
