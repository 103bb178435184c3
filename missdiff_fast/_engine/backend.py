"""Which implementation of the ops a model runs on, and where."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from types import ModuleType

import numpy as np
import torch

from missdiff_fast.errors import DataError, Pass
from missdiff_fast.ops import _library, reference

BACKENDS = ("auto", "native", "reference")


@contextmanager
def plain_settings() -> Iterator[None]:
    """The settings of torch and NumPy that the package computes under, whatever the caller has set for its own work.

    Gradients on, no inference mode, no autocast, float32 and the CPU as defaults, no error for an underflow. (A default
    dtype is one for all threads: while a caller's other one is set aside here, its other threads see float32.)
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
        if torch.get_default_dtype() != torch.float32:
            stack.callback(torch.set_default_dtype, torch.get_default_dtype())
            torch.set_default_dtype(torch.float32)
        yield


def resolve_device(device: str | torch.device) -> torch.device:
    """The device meant by a name; "auto" is the GPU if torch can use one, else the CPU."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
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
    return resolved


def _why_none() -> str:
    """What torch says of a CUDA that it cannot use, for instance that the driver is too old for it."""
    try:
        torch.cuda.init()
    except (RuntimeError, AssertionError) as error:
        return f": {error}"
    return ""


def resolve_backend(backend: str, device: torch.device) -> ModuleType:
    """The module with the ops: `missdiff_fast.ops` (compiled) or `missdiff_fast.ops.reference` (plain PyTorch).

    "auto" takes the compiled ops where they are installed and run on the device; on a CUDA device where they do not, it
    warns and takes plain PyTorch. A compiled extension that does not load raises ImportError: it never falls back in
    silence.
    """
    if backend not in BACKENDS:
        raise ValueError(f"unknown backend {backend!r}; use one of {', '.join(map(repr, BACKENDS))}")
    if backend == "reference":
        return reference
    if device.type == "cpu":
        why = None if _library.load() else "this installation has no compiled extension"
    else:
        why = _library.without_cuda(device)
    if why is None:
        return import_module("missdiff_fast.ops")
    if backend == "native":
        raise DataError(
            "backend",
            f"backend 'native' asked for the compiled ops on {device}, but {why}",
            value=backend,
            remedy=Pass("backend", "reference", goal="use"),
            joint="; ",
        )
    if device.type == "cuda":
        warnings.warn(f"missdiff_fast runs in plain PyTorch on {device}: {why}", RuntimeWarning, stacklevel=3)
    return reference
