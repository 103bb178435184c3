"""The device that a model computes on, and its settings of torch and NumPy."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from missdiff_fast._process import local_rank
from missdiff_fast.errors import DataError
from missdiff_fast.remedies import Pass

T = TypeVar("T")


class _DefaultDtype:
    """Makes float32 torch's default dtype while any thread is within."""

    def __init__(self) -> None:
        self._lock, self._within, self._before = threading.Lock(), 0, torch.float32

    def __enter__(self) -> None:
        with self._lock:
            if self._within == 0:
                self._before = torch.get_default_dtype()
            if torch.get_default_dtype() != torch.float32:
                torch.set_default_dtype(torch.float32)
            self._within += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._within -= 1
            if self._within == 0 and self._before != torch.float32:
                torch.set_default_dtype(self._before)


_FLOAT32 = _DefaultDtype()


@contextmanager
def plain_settings() -> Iterator[None]:
    """Compute under the package's own settings of torch and NumPy, and restore the caller's on exit.

    Gradients on, no inference mode, no autocast, float32 and the CPU as defaults, no error for an underflow. The
    default dtype holds for all threads: while it is float32 here, the caller's other threads see float32 too, and of
    several threads that compute here the last one restores it.
    """
    with ExitStack() as stack:
        stack.enter_context(np.errstate(divide="warn", over="warn", under="ignore", invalid="warn"))
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.enable_grad())
        for kind in ("cpu", "cuda"):
            if torch.is_autocast_enabled(kind):
                stack.enter_context(torch.autocast(kind, enabled=False))
        if torch.get_default_device().type != "cpu":
            stack.enter_context(torch.device("cpu"))
        stack.enter_context(_FLOAT32)
        yield


def resolve_device(device: str | torch.device) -> torch.device:
    """The device of this name; "auto" is the GPU if torch can use one, else the CPU.

    A GPU without a number is the current one. In a process that torchrun started it is the one of the process's rank on
    its machine, unless the process has chosen another than the first by `torch.cuda.set_device`.
    """
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        resolved = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise ValueError(f"unknown device {device!r}; use 'auto', 'cpu' or 'cuda'") from error
    if resolved.type not in ("cpu", "cuda"):
        raise ValueError(f"device {device!r} is not supported; use 'auto', 'cpu' or 'cuda'")
    if resolved.type == "cuda" and not torch.cuda.is_available():
        raise DataError(
            "device",
            f"device {device!r} asked for, but this torch ({torch.__version__}) finds no CUDA device{_why_none()}",
            value=device,
            remedy=Pass("device", "cpu", goal="use"),
            joint="; ",
        )
    if resolved.type == "cuda" and (resolved.index or 0) >= torch.cuda.device_count():
        raise ValueError(f"device {device!r} asked for, but there are {torch.cuda.device_count()} CUDA devices, from 0")
    return resolved if resolved.type == "cpu" or resolved.index is not None else _own_cuda_device()


def _own_cuda_device() -> torch.device:
    """The CUDA device of this process: the current one or, where that is the first, the one that its rank names.

    It has its number, as the current device is another one in other threads, and after `torch.cuda.set_device`.
    """
    current, rank, count = torch.cuda.current_device(), local_rank(), torch.cuda.device_count()
    if current > 0 or rank == 0 or count == 1:  # a launcher may show each process one device alone
        return torch.device("cuda", current)
    if rank >= count:
        raise ValueError(
            f"LOCAL_RANK is {rank}, but there are {count} CUDA devices, from 0; start at most {count} processes on "
            "this machine, or name the device, as in 'cuda:0'"
        )
    return torch.device("cuda", rank)


def _why_none() -> str:
    """Torch's own message about why it cannot use CUDA, for instance an old driver; empty if it gives none."""
    try:
        torch.cuda.init()
    except (RuntimeError, AssertionError) as error:
        return f": {error}"
    return ""


def to_device(x: Tensor, device: torch.device) -> Tensor:
    """Copy a CPU tensor to a device, without waiting for work that is queued there."""
    return x.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else x.to(device)


def to_host(*tensors: Tensor) -> Callable[[], tuple[Tensor, ...]]:
    """Begin to copy tensors of one device to the CPU; the result waits for the copies and gives them.

    A GPU copies beside what is queued afterwards, into memory that does not move: once the work that makes the tensors
    is done, and without keeping the host or later work waiting. Tensors of the CPU are given as they are.

    Examples
    --------
    >>> wait = to_host(torch.arange(3))
    >>> wait()
    (tensor([0, 1, 2]),)
    """
    device = tensors[0].device
    if device.type != "cuda":
        return lambda: tensors
    whole, stream = [x.contiguous() for x in tensors], _copy_stream(device)
    stream.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(stream):
        copies = tuple(_pinned_like(x).copy_(x, non_blocking=True) for x in whole)
        done = stream.record_event()
    for x in whole:
        x.record_stream(stream)  # its memory is not given to others before it is copied

    def wait() -> tuple[Tensor, ...]:
        done.synchronize()
        return copies

    return wait


@cache
def _copy_stream(device: torch.device) -> torch.cuda.Stream:
    """The stream of copies to the host, one for each GPU."""
    return torch.cuda.Stream(device)


def _pinned_like(x: Tensor) -> Tensor:
    """Memory of the host that a GPU can write to by itself; torch keeps it for the next tensor of this size."""
    return torch.empty(x.shape, dtype=x.dtype, pin_memory=True)


def one_behind(items: Iterable[T], begin: Callable[[T], Callable[[], None]]) -> None:
    """Begin with each item, and finish it once the next one has been begun, so that a GPU always has work queued.

    Parameters
    ----------
    items : iterable
        Is asked for the next item before the one before it is finished.
    begin : callable
        Queues the work of an item, and gives a function that finishes it, which may wait.

    Examples
    --------
    >>> one_behind("ab", lambda name: print("begin", name) or (lambda: print("finish", name)))
    begin a
    begin b
    finish a
    finish b
    """
    finish: Callable[[], None] | None = None
    for item in items:
        begun = begin(item)
        if finish is not None:
            finish()
        finish = begun
    if finish is not None:
        finish()
