"""How a time is taken on a card, or, to try the scripts out, on a CPU."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

Function = Callable[[], Any]

_CACHE = 256 << 20  # bytes: more than any card's second-level cache
_HEAD_START = 2_000_000  # cycles, about a millisecond, in which the host goes ahead


class Clock:
    """Takes the time of functions in turn.

    Parameters
    ----------
    device : torch.device
        Of their work.
    """

    def __init__(self, device: torch.device) -> None:
        self.device, self.on_card = device, device.type == "cuda"
        self._scratch = torch.empty(_CACHE if self.on_card else 0, dtype=torch.uint8, device=device)

    def synchronize(self) -> None:
        """Wait until all is done."""
        if self.on_card:
            torch.cuda.synchronize(self.device)

    def wall(self, function: Function) -> tuple[float, Any]:
        """Seconds on the wall until the work is done, and what comes of it."""
        self.synchronize()
        began = time.perf_counter()
        result = function()
        self.synchronize()
        return time.perf_counter() - began, result

    def once(self, function: Function, *, alone: bool) -> float:
        """Seconds of one call.

        ``alone`` is the card's own time: it is kept busy while the host queues the call, and finds nothing of the
        inputs in its cache. Else it is the time from call to result.
        """
        if not (self.on_card and alone):
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
        self, functions: Mapping[str, Function], *, alone: bool, seconds: float = 1.5, rounds: tuple[int, int] = (5, 25)
    ) -> dict[str, float]:
        """The median seconds of each function, all called in every round; two rounds before do not count.

        ``rounds`` are the least and the most; between them the last one begins within ``seconds``.
        """
        for _ in range(2):
            for function in functions.values():
                self.once(function, alone=alone)
        found: dict[str, list[float]] = {name: [] for name in functions}
        began = time.perf_counter()
        least, most = rounds
        for i in range(most):
            if i >= least and time.perf_counter() - began > seconds:
                break
            for name, function in functions.items():
                found[name].append(self.once(function, alone=alone))
        return {name: statistics.median(times) for name, times in found.items()}


@dataclass(frozen=True)
class Replay:
    """A recorded function, to be called; it holds the function, as a graph does not keep the tensors that it reads."""

    graph: torch.cuda.CUDAGraph
    function: Function

    def __call__(self) -> None:
        self.graph.replay()


def capture(function: Function, device: torch.device) -> Function:
    """The function as a CUDA graph to be replayed; on a CPU the function itself. What it returns is dropped."""
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


@contextmanager
def precision(name: str, device: torch.device) -> Iterator[None]:
    """Products in "fp32", "tf32", or by autocast in "bf16"."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = name == "tf32"
    try:
        with torch.autocast(device.type, torch.bfloat16, enabled=name == "bf16"):
            yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
