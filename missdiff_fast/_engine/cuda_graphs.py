"""Steps that a GPU takes by itself: recorded once as a CUDA graph, and replayed without the host's help or waiting.

A graph always reads the same memory. Inputs that differ from step to step therefore lie in a `StepBuffer`, from which
the device takes one step's after another by a counter of its own.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import prod

import torch
from torch import Tensor

_ALIGNED = 16  # bytes: the widest access of a kernel
_WARM_UP = 3  # steps before recording, in which libraries make their choices and take their memory


class StepBuffer:
    """What each of many steps needs, one step after another, and what each gives.

    Parameters
    ----------
    steps : int
        How many at most.
    like : sequence of Tensor
        What one step needs: shapes and types of `now`, and the device.

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
        # One array of all, so that a step takes its own with one copy.
        self._all = torch.zeros((steps, ends[-1] // 8), dtype=torch.int64, device=device)
        self._now = torch.zeros((1, ends[-1] // 8), dtype=torch.int64, device=device)
        self._numbers, self._place = (
            torch.arange(steps, device=device),
            torch.zeros(1, dtype=torch.int64, device=device),
        )
        self.given = torch.zeros(steps, device=device)
        bounds = [(a, a + x.numel() * x.element_size(), x.dtype) for a, x in zip(ends, like, strict=False)]
        whole, now = self._all.view(torch.uint8), self._now.view(torch.uint8)[0]
        self._pieces = [whole[:, a:b].view(dtype) for a, b, dtype in bounds]
        self.now = [now[a:b].view(dtype).view(x.shape) for (a, b, dtype), x in zip(bounds, like, strict=True)]

    def load(self, tensors: Sequence[Tensor]) -> None:
        """Begin anew with these steps: tensors like those of `now`, with a dimension of steps before."""
        for piece, x in zip(self._pieces, tensors, strict=True):
            piece[: len(x)].copy_(x.reshape(len(x), prod(x.shape[1:])), non_blocking=True)
        self._place.zero_()

    def take(self) -> None:
        """Let `now` be the step whose turn it is."""
        torch.index_select(self._all, 0, self._place, out=self._now)

    def give(self, result: Tensor) -> None:
        """Write down a number as this step's result, and turn to the next."""
        torch.where(self._numbers == self._place, result, self.given, out=self.given)
        self._place += 1

    def changed(self) -> list[Tensor]:
        """What `take` and `give` write to."""
        return [self._now, self._place, self.given]


class CapturedStep:
    """A step that on a GPU is recorded at its first call and replayed at every one; elsewhere it is simply called.

    Parameters
    ----------
    step : callable
        Works on tensors that stay where they are, and must not wait for the device.
    changed : callable
        Gives the tensors that the step changes. Recording leaves them as they are; one that the step has only made in
        recording begins with zeros.
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
                self._graph = self._record()
            self._graph.replay()

    def release(self) -> None:
        """Give back the memory that the graph's intermediate results take."""
        if self._graph is not None:
            torch.cuda.current_stream(self._device).synchronize()
            self._graph.reset()
            self._graph = None
            torch.cuda.empty_cache()  # nothing else can use what the graph had

    def _record(self) -> torch.cuda.CUDAGraph:
        side, here = torch.cuda.Stream(), torch.cuda.current_stream()
        side.wait_stream(here)
        with torch.cuda.stream(side):
            warm_up(self._step, self._changed)
        here.wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=side):  # torch's own for this may be another card's
            self._step()
        return graph


def warm_up(step: Callable[[], object], changed: Callable[[], Sequence[Tensor]]) -> None:
    """Take a step a few times without a trace; arguments as of `CapturedStep`.

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
    """Let float32 matrices be multiplied in TF32 on a GPU, whose sums stay float32; the caller's choice comes back.

    A caller who has chosen by the newer settings of torch keeps that choice also within: torch refuses to mix both.
    """
    before = _allow_tf32(True) if device.type == "cuda" else None
    try:
        yield
    finally:
        if before is not None:
            _allow_tf32(before)


def _allow_tf32(choice: bool) -> bool | None:
    """Choose, and give the choice before; None where it was made by the newer settings, and is left."""
    matmul = torch.backends.cuda.matmul
    with warnings.catch_warnings():  # some releases of torch tell that there are newer settings
        warnings.simplefilter("ignore")
        try:
            before = matmul.allow_tf32
        except RuntimeError:
            return None
        matmul.allow_tf32 = choice
    return bool(before)
