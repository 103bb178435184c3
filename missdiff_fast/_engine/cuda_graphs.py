"""Training steps captured in a CUDA graph, which a GPU replays without waiting for the host.

A graph always reads the same memory. Inputs that differ from step to step therefore lie in a `StepBuffer`: the device
copies the inputs of one step after another from it, by a counter of its own.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import prod
from threading import Lock

import torch
from torch import Tensor

from missdiff_fast._engine.history import Progress
from missdiff_fast.ops.layers import store_next

_ALIGNED = 16  # bytes: the widest access of a kernel
_WARM_UP = 3  # steps before capture, in which libraries choose their kernels and allocate memory
_CAPTURING = Lock()  # a process captures one graph at a time


class StepBuffer:
    """The inputs of many steps on the device, and one number that each step gives.

    Parameters
    ----------
    steps : int
        The most steps.
    like : sequence of Tensor
        Inputs of one step, for their shapes, dtypes and device. `now` holds such tensors.

    Examples
    --------
    >>> buffer = StepBuffer(3, [torch.zeros(2, dtype=torch.int64), torch.zeros(())])
    >>> buffer.load([torch.arange(6).view(3, 2), torch.tensor([0.5, 1.5, 2.5])])
    >>> for _ in range(3):
    ...     buffer.take()
    ...     rows, number = buffer.now
    ...     buffer.give(rows.sum() * number)
    >>> buffer.given.tolist()
    [0.5, 7.5, 22.5]
    """

    def __init__(self, steps: int, like: Sequence[Tensor]) -> None:
        device, ends = like[0].device, [0]
        for x in like:
            ends.append(ends[-1] + -(-x.numel() * x.element_size() // _ALIGNED) * _ALIGNED)
        # All inputs of a step lie in one row, so that one copy fetches them.
        self._all = torch.zeros((steps, ends[-1] // 8), dtype=torch.int64, device=device)
        self._now = torch.zeros((1, ends[-1] // 8), dtype=torch.int64, device=device)
        self._place = torch.zeros(1, dtype=torch.int64, device=device)
        self.given = torch.zeros(steps, device=device)
        bounds = [(a, a + x.numel() * x.element_size(), x.dtype) for a, x in zip(ends, like, strict=False)]
        whole, now = self._all.view(torch.uint8), self._now.view(torch.uint8)[0]
        self._pieces = [whole[:, a:b].view(dtype) for a, b, dtype in bounds]
        self.now = [now[a:b].view(dtype).view(x.shape) for (a, b, dtype), x in zip(bounds, like, strict=True)]

    def load(self, tensors: Sequence[Tensor]) -> None:
        """Set the inputs of the next steps: tensors like those of `now`, with a first dimension of steps."""
        for piece, x in zip(self._pieces, tensors, strict=True):
            piece[: len(x)].copy_(x.reshape(len(x), prod(x.shape[1:])), non_blocking=True)
        self._place.zero_()

    def take(self) -> None:
        """Copy the inputs of the current step to `now`."""
        torch.index_select(self._all, 0, self._place, out=self._now)

    def give(self, result: Tensor) -> None:
        """Store a number as the current step's result, and go on to the next step."""
        store_next(self.given, self._place, result)

    def changed(self) -> list[Tensor]:
        """The tensors that `take` and `give` write to."""
        return [self._now, self._place, self.given]


class CapturedStep:
    """A step that a GPU captures in a graph at the first call and replays at every call; on the CPU each call runs it.

    Parameters
    ----------
    step : callable
        Works on tensors that keep their addresses, and must not wait for the device.
    changed : callable
        Gives the tensors that the step changes. Capture restores them; a tensor that the step allocates during capture
        begins with zeros.
    device : torch.device
        Where the tensors are.

    Examples
    --------
    >>> x = torch.zeros(())
    >>> step = CapturedStep(lambda: x.add_(1), lambda: [x], x.device)
    >>> step(), step()
    (None, None)
    >>> x
    tensor(2.)
    """

    def __init__(
        self, step: Callable[[], object], changed: Callable[[], Sequence[Tensor]], device: torch.device
    ) -> None:
        self._step, self._changed, self._device = step, changed, device
        self._graph: torch.cuda.CUDAGraph | None = None

    def __call__(self) -> None:
        """Take the step."""
        if self._device.type != "cuda":
            self._step()
            return
        with torch.cuda.device(self._device):
            if self._graph is None:
                self._graph = self._capture()
            self._graph.replay()

    def release(self) -> None:
        """Release the memory of the graph's intermediate results."""
        if self._graph is not None:
            torch.cuda.current_stream(self._device).synchronize()
            self._graph.reset()
            self._graph = None
            torch.cuda.empty_cache()  # otherwise nothing else can use the graph's memory

    def _capture(self) -> torch.cuda.CUDAGraph:
        with _CAPTURING:
            return self._capture_alone()

    def _capture_alone(self) -> torch.cuda.CUDAGraph:
        side, here = torch.cuda.Stream(), torch.cuda.current_stream()
        side.wait_stream(here)
        with torch.cuda.stream(side):
            warm_up(self._step, self._changed)
        here.wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        # torch's default stream for capture may be another card's. "thread_local": what other host threads do
        # meanwhile, such as allocating memory, does not end the capture.
        with torch.cuda.graph(graph, stream=side, capture_error_mode="thread_local"):
            self._step()
        return graph


def replay(step: Callable[[], None], buffer: StepBuffer, steps: int, progress: Progress) -> None:
    """Take the steps whose inputs the buffer holds; the host waits for the device only at points of the loss curve.

    Parameters
    ----------
    step : callable
        A `CapturedStep`, or a function that calls one. Takes its inputs from the buffer and gives its loss to it.
    buffer : StepBuffer
        Loaded with at least ``steps`` steps.
    steps : int
        How many steps to take.
    progress : Progress
        Gets the losses.
    """
    done = 0
    while done < steps:
        count = min(steps - done, progress.until_log)
        for _ in range(count):
            step()
        progress.add(buffer.given[done : done + count].sum(), count)
        done += count


def warm_up(step: Callable[[], object], changed: Callable[[], Sequence[Tensor]]) -> None:
    """Run warm-up steps, then restore the state; arguments as of `CapturedStep`.

    Examples
    --------
    >>> x = torch.ones(())
    >>> warm_up(lambda: x.add_(1), lambda: [x])
    >>> x
    tensor(1.)
    """
    before = {x.data_ptr(): (x, x.clone()) for x in changed()}
    for _ in range(_WARM_UP):
        step()
        for x in changed():
            if x.data_ptr() not in before:
                x.zero_()
        for x, value in before.values():
            x.copy_(value)


@contextmanager
def allow_tf32(device: torch.device) -> Iterator[None]:
    """Enable TF32 for float32 matrix products on a GPU (sums stay float32); restore the caller's setting on exit.

    A setting made through torch's newer interface is left as it is, because torch refuses to mix both interfaces.
    """
    before = _allow_tf32(True) if device.type == "cuda" else None
    try:
        yield
    finally:
        if before is not None:
            _allow_tf32(before)


def _allow_tf32(choice: bool) -> bool | None:
    """Set it and return the setting before, or None where torch's newer interface was used and nothing is changed."""
    matmul = torch.backends.cuda.matmul
    with warnings.catch_warnings():  # some releases of torch warn that there is a newer interface
        warnings.simplefilter("ignore")
        try:
            before = matmul.allow_tf32
        except RuntimeError:
            return None
        matmul.allow_tf32 = choice
    return bool(before)
