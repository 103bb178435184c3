"""Times on a GPU: events and synchronisation, CUDA graphs, precision of products. On a CPU the same code runs untimed
by events, so that the GPU's benchmarks can be tried without one."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

Function = Callable[[], Any]

_CACHE = 256 << 20  # bytes: more than any card's second-level cache
_HEAD_START = 2_000_000  # cycles, about a millisecond, in which the host runs ahead


class Clock:
    """Times functions in turn.

    Parameters
    ----------
    device : torch.device
        Where the functions compute.
    """

    def __init__(self, device: torch.device) -> None:
        self.device, self.on_card = device, device.type == "cuda"
        self._scratch = torch.empty(_CACHE if self.on_card else 0, dtype=torch.uint8, device=device)

    def synchronize(self) -> None:
        """Wait until the device is idle."""
        if self.on_card:
            torch.cuda.synchronize(self.device)

    def wall(self, function: Function) -> tuple[float, Any]:
        """Wall seconds until the device is idle again, and the function's result."""
        self.synchronize()
        began = time.perf_counter()
        result = function()
        self.synchronize()
        return time.perf_counter() - began, result

    def once(self, function: Function, *, queued: bool) -> float:
        """Seconds of one call.

        ``queued`` is the device's own time between two events: the device is busy while the host queues the call, and
        its cache holds none of the inputs. Otherwise it is the wall time from call to result.
        """
        if not (self.on_card and queued):
            return self.wall(function)[0]
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        self._scratch.zero_()
        torch.cuda._sleep(_HEAD_START)
        begin.record()
        function()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / 1e3

    def take_turns(
        self,
        functions: Mapping[str, Function],
        *,
        queued: bool,
        seconds: float = 1.0,
        rounds: tuple[int, int] = (5, 25),
    ) -> dict[str, float]:
        """Median seconds of each function. Every round calls all of them; two rounds before do not count.

        ``rounds`` are the least and the most; between the two, no round begins after ``seconds``.
        """
        for _ in range(2):
            for function in functions.values():
                self.once(function, queued=queued)
        found: dict[str, list[float]] = {name: [] for name in functions}
        began, (least, most) = time.perf_counter(), rounds
        while len(next(iter(found.values()))) < least or (
            len(next(iter(found.values()))) < most and time.perf_counter() - began <= seconds
        ):
            for name, function in functions.items():
                found[name].append(self.once(function, queued=queued))
        return {name: statistics.median(times) for name, times in found.items()}


@dataclass(frozen=True)
class Replay:
    """A captured function, to be called. It holds the function, since a graph does not keep the tensors it reads."""

    graph: torch.cuda.CUDAGraph
    function: Function

    def __call__(self) -> None:
        self.graph.replay()


def capture(function: Function, device: torch.device) -> Function:
    """The function as a CUDA graph to replay; on a CPU the function itself. Its result is dropped."""
    if device.type != "cuda":
        return function
    side = torch.cuda.Stream(device)
    side.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(side):
        for _ in range(3):
            function()
    torch.cuda.current_stream(device).wait_stream(side)
    torch.cuda.synchronize(device)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=side):
        function()
    return Replay(graph, function)


# PyTorch's precisions of products, and the precisions of the native ops by the same names.
PRECISIONS = ("fp32", "tf32", "bf16")
NATIVE = {"fp32": "float32", "bf16": "bfloat16"}


@contextmanager
def precision(name: str, device: torch.device) -> Iterator[None]:
    """PyTorch's products in "fp32", in "tf32", or in "bf16" by autocast."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = name == "tf32"
    try:
        with torch.autocast(device.type, torch.bfloat16, enabled=name == "bf16"):
            yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


def relative_error(result: Tensor, truth: Tensor) -> float:
    """Norm of the difference by norm of the truth."""
    return float(torch.dist(result.double(), truth.double()) / truth.double().norm())


def hold(errors: Mapping[str, float]) -> None:
    """Raise AssertionError if a native pass errs by more than twice PyTorch's error in the same precision.

    ``errors`` holds the native ones as "native PRECISION" and PyTorch's as "PRECISION".
    """
    for name in NATIVE:
        native, rival = errors[f"native {name}"], errors[name]
        if not native <= 2 * rival + 1e-5:
            raise AssertionError(f"relative error {native:.3g} in {name}, where PyTorch has {rival:.3g}")
