"""Which implementation of the ops a model runs on, and where."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from missdiff_fast import ops
from missdiff_fast._engine.protocols import Backend, Stepper, Tile
from missdiff_fast._engine.steppers import GraphStepper, NativeStepper, TorchStepper
from missdiff_fast.config import ObjectiveConfig
from missdiff_fast.networks import Denoiser
from missdiff_fast.networks.packing import is_denoiser
from missdiff_fast.networks.packing_cuda import MOST_WIDTH
from missdiff_fast.ops import _library, reference

__all__ = [
    "BACKENDS",
    "Backend",
    "NativeBackend",
    "ReferenceBackend",
    "Tile",
    "plain_settings",
    "resolve_backend",
    "resolve_device",
]

BACKENDS = ("auto", "native", "reference")

# A PyTorch network is always called with this many rows: matrix products of other sizes round differently, and row i of
# a sample depends on (seed, i) alone.
TILE = 2048
# The native passes compute each row on its own; the number is what keeps the device busy.
NATIVE_TILE = {"cpu": 1 << 14, "cuda": 1 << 17}


class ReferenceBackend:
    """Every op in plain PyTorch; see `missdiff_fast.ops.reference`.

    Benchmarks and tests derive from it to replace single ops.

    Examples
    --------
    >>> ReferenceBackend().tile(nn.Linear(1, 1), torch.device("cpu"))
    Tile(rows=2048, padded=True)
    """

    name = "reference"
    capturable = False
    columns_in_threads = False

    uniform = staticmethod(reference.uniform)
    normal = staticmethod(reference.normal)
    perturb = staticmethod(reference.perturb)
    masked_loss = staticmethod(reference.masked_loss)
    masked_noise_loss = staticmethod(reference.masked_noise_loss)
    step = staticmethod(reference.step)
    encode = staticmethod(reference.encode)
    decode = staticmethod(reference.decode)
    adamw = staticmethod(reference.adamw)
    mlp_predict = staticmethod(reference.mlp_predict)
    mlp_train_step = staticmethod(reference.mlp_train_step)

    def mlp_sample(
        self,
        network: nn.Module,
        x: Tensor,
        states: Tensor,
        offsets: Tensor,
        levels: Tensor,
        coefficients: Tensor,
        rows: Tensor,
        keys: Tensor,
        *,
        precision: str = "bfloat16",
    ) -> Tensor:
        """As `missdiff_fast.ops.reference.mlp_sample`, with this backend's `step`; always float32."""
        return reference.mlp_sample(network, x, states, offsets, levels, coefficients, rows, keys, step=self.step)

    def tile(self, network: nn.Module, device: torch.device) -> Tile:
        """As `Backend.tile`."""
        return Tile(TILE, padded=True)

    def stepper(self, network: nn.Module, objective: ObjectiveConfig, column_weight: Tensor, ema: float) -> Stepper:
        """As `Backend.stepper`."""
        return TorchStepper(network, objective, column_weight, ema, self)


class NativeBackend:
    """The compiled ops; see `missdiff_fast.ops`.

    For networks that the native passes do not take (any but a `Denoiser` itself; on a GPU one wider than its kernels),
    PyTorch computes the network and the compiled ops do the rest.

    Examples
    --------
    >>> NativeBackend().tile(nn.Linear(1, 1), torch.device("cpu"))
    Tile(rows=2048, padded=True)
    """

    name = "native"
    capturable = True
    columns_in_threads = True

    uniform = staticmethod(ops.uniform)
    normal = staticmethod(ops.normal)
    perturb = staticmethod(ops.perturb)
    masked_loss = staticmethod(ops.masked_loss)
    masked_noise_loss = staticmethod(ops.masked_noise_loss)
    step = staticmethod(ops.step)
    encode = staticmethod(ops.encode)
    decode = staticmethod(ops.decode)
    adamw = staticmethod(ops.adamw)
    mlp_train_step = staticmethod(ops.mlp_train_step)

    def mlp_predict(self, network: nn.Module, x: Tensor, states: Tensor, level: Tensor) -> Tensor:
        """As `missdiff_fast.ops.mlp_predict`, or as the reference where the native pass does not take the network."""
        if _has_pass(network, x.device):
            return ops.mlp_predict(cast(Denoiser, network), x, states, level)
        return reference.mlp_predict(network, x, states, level)

    def mlp_sample(
        self,
        network: nn.Module,
        x: Tensor,
        states: Tensor,
        offsets: Tensor,
        levels: Tensor,
        coefficients: Tensor,
        rows: Tensor,
        keys: Tensor,
        *,
        precision: str = "bfloat16",
    ) -> Tensor:
        """As `missdiff_fast.ops.mlp_sample`, or as the reference where the native pass does not take the network."""
        solver = x, states, offsets, levels, coefficients, rows, keys
        if _has_pass(network, x.device):
            return ops.mlp_sample(cast(Denoiser, network), *solver, precision=precision)
        return reference.mlp_sample(network, *solver, step=self.step)

    def tile(self, network: nn.Module, device: torch.device) -> Tile:
        """As `Backend.tile`."""
        return Tile(NATIVE_TILE[device.type], padded=False) if _has_pass(network, device) else Tile(TILE, padded=True)

    def stepper(self, network: nn.Module, objective: ObjectiveConfig, column_weight: Tensor, ema: float) -> Stepper:
        """As `Backend.stepper`: one native call for each step, on a GPU a CUDA graph; else PyTorch's."""
        if not is_denoiser(network) or column_weight.dtype != torch.float32:
            return TorchStepper(network, objective, column_weight, ema, self)
        kind = GraphStepper if column_weight.device.type == "cuda" else NativeStepper
        return kind(cast(Denoiser, network), objective, column_weight, ema)


def _has_pass(network: nn.Module, device: torch.device) -> bool:
    """Whether `missdiff_fast.ops.mlp_sample` and `mlp_predict` take the network."""
    return is_denoiser(network) and (device.type == "cpu" or cast(Denoiser, network).width <= MOST_WIDTH)


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
        raise ValueError(
            f"device {device!r} asked for, but this torch ({torch.__version__}) finds no CUDA device{_why_none()}; use "
            "device='cpu'"
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


def resolve_backend(backend: str, device: torch.device) -> Backend:
    """The backend of this name on a device.

    "auto" takes the compiled ops where they are installed and run on the device; on a CUDA device where they do not, it
    warns and takes plain PyTorch. A compiled extension that does not load raises ImportError: it never falls back in
    silence.
    """
    if backend not in BACKENDS:
        raise ValueError(f"unknown backend {backend!r}; use one of {', '.join(map(repr, BACKENDS))}")
    if backend == "reference":
        return ReferenceBackend()
    if device.type == "cpu":
        why = None if _library.load() else "this installation has no compiled extension"
    else:
        why = _library.without_cuda(device)
    if why is None:
        return NativeBackend()
    if backend == "native":
        raise ValueError(f"backend='native' asked for the compiled ops on {device}, but {why}; use backend='reference'")
    if device.type == "cuda":
        warnings.warn(f"missdiff_fast runs in plain PyTorch on {device}: {why}", RuntimeWarning, stacklevel=3)
    return ReferenceBackend()
