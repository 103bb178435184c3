"""Implementations of the ops that a model can run on, and the choice between them."""

from __future__ import annotations

import warnings
from typing import TypeGuard

import torch
from torch import Tensor, nn

from missdiff_fast import ops
from missdiff_fast._engine.protocols import Backend, Stepper, Tile
from missdiff_fast._engine.steppers import FusedStepper, GraphStepper, PersistentStepper, TorchStepper
from missdiff_fast._engine.tiling import NATIVE_TILE, TILE
from missdiff_fast.config import ObjectiveConfig
from missdiff_fast.errors import DataError
from missdiff_fast.networks import Denoiser
from missdiff_fast.networks.packing import is_denoiser
from missdiff_fast.networks.packing_cuda import MOST_WIDTH
from missdiff_fast.ops import _library, reference
from missdiff_fast.remedies import Pass

__all__ = ["BACKENDS", "Backend", "NativeBackend", "ReferenceBackend", "resolve_backend"]

BACKENDS = ("auto", "native", "reference")


class ReferenceBackend:
    """Every op in plain PyTorch; see `missdiff_fast.ops.reference`.

    Benchmarks derive from it to replace single ops; a training step is `mlp_train_step` as a whole.

    Examples
    --------
    >>> ReferenceBackend().tile(nn.Linear(1, 1), torch.device("cpu"))
    Tile(rows=2048, padded=True)
    """

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
    mlp_predict = staticmethod(reference.mlp_predict)
    mlp_train_step = staticmethod(reference.mlp_train_step)

    def mlp_sample(
        self,
        network: nn.Module,
        x: Tensor,
        states: Tensor,
        offsets: Tensor,
        sigmas: Tensor,
        coefficients: Tensor,
        rows: Tensor,
        keys: Tensor,
        *,
        precision: str = "bfloat16",
    ) -> Tensor:
        """As `missdiff_fast.ops.reference.mlp_sample`, with this backend's `step`; always float32."""
        return reference.mlp_sample(network, x, states, offsets, sigmas, coefficients, rows, keys, step=self.step)

    def tile(self, network: nn.Module, device: torch.device) -> Tile:
        """As `Backend.tile`."""
        return Tile(TILE, padded=True)

    def stepper(self, network: nn.Module, objective: ObjectiveConfig, column_weight: Tensor, ema: float) -> Stepper:
        """As `Backend.stepper`: one call of `mlp_train_step` for each step; else PyTorch's."""
        if not is_denoiser(network):
            return TorchStepper(network, objective, column_weight, ema, self)
        return FusedStepper(network, objective, column_weight, ema, self, panels=False)


class NativeBackend:
    """The compiled ops; see `missdiff_fast.ops`.

    For networks that the native passes do not take (any but a `Denoiser` itself; on a GPU one wider than its kernels),
    PyTorch computes the network and the compiled ops do the rest.

    Parameters
    ----------
    persistent : bool
        Whether a GPU takes many training steps in one launch, by `PersistentStepper`, instead of a CUDA graph for each.
        Off until a GPU has measured it.

    Examples
    --------
    >>> NativeBackend().tile(nn.Linear(1, 1), torch.device("cpu"))
    Tile(rows=2048, padded=True)
    """

    capturable = True
    columns_in_threads = True

    def __init__(self, *, persistent: bool = False) -> None:
        self.persistent = persistent

    uniform = staticmethod(ops.uniform)
    normal = staticmethod(ops.normal)
    perturb = staticmethod(ops.perturb)
    masked_loss = staticmethod(ops.masked_loss)
    masked_noise_loss = staticmethod(ops.masked_noise_loss)
    step = staticmethod(ops.step)
    encode = staticmethod(ops.encode)
    decode = staticmethod(ops.decode)
    mlp_train_step = staticmethod(ops.mlp_train_step)

    def mlp_predict(self, network: nn.Module, x: Tensor, states: Tensor, sigma: Tensor) -> Tensor:
        """As `missdiff_fast.ops.mlp_predict`, or as the reference where the native pass does not take the network."""
        if _has_pass(network, x.device):
            return ops.mlp_predict(network, x, states, sigma)
        return reference.mlp_predict(network, x, states, sigma)

    def mlp_sample(
        self,
        network: nn.Module,
        x: Tensor,
        states: Tensor,
        offsets: Tensor,
        sigmas: Tensor,
        coefficients: Tensor,
        rows: Tensor,
        keys: Tensor,
        *,
        precision: str = "bfloat16",
    ) -> Tensor:
        """As `missdiff_fast.ops.mlp_sample`, or as the reference where the native pass does not take the network."""
        if _has_pass(network, x.device):
            return ops.mlp_sample(network, x, states, offsets, sigmas, coefficients, rows, keys, precision=precision)
        return reference.mlp_sample(network, x, states, offsets, sigmas, coefficients, rows, keys, step=self.step)

    def tile(self, network: nn.Module, device: torch.device) -> Tile:
        """As `Backend.tile`."""
        return Tile(NATIVE_TILE[device.type], padded=False) if _has_pass(network, device) else Tile(TILE, padded=True)

    def stepper(self, network: nn.Module, objective: ObjectiveConfig, column_weight: Tensor, ema: float) -> Stepper:
        """As `Backend.stepper`: one native call for each step, on a GPU a CUDA graph; else PyTorch's."""
        if not is_denoiser(network) or column_weight.dtype != torch.float32:
            return TorchStepper(network, objective, column_weight, ema, self)
        if column_weight.device.type == "cuda":
            if self.persistent:
                return PersistentStepper(network, objective, column_weight, ema)
            return GraphStepper(network, objective, column_weight, ema)
        return FusedStepper(network, objective, column_weight, ema, self)


def _has_pass(network: nn.Module, device: torch.device) -> TypeGuard[Denoiser]:
    """Whether `missdiff_fast.ops.mlp_sample` and `mlp_predict` take the network."""
    return is_denoiser(network) and (device.type == "cpu" or network.width <= MOST_WIDTH)


def resolve_backend(backend: str, device: torch.device) -> Backend:
    """The backend of this name on a device.

    "auto" takes the compiled ops where they are installed and run on the device; on a CUDA device where they do not, it
    warns and takes plain PyTorch. A compiled extension that does not load raises ImportError; PyTorch does not take its
    place.
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
        raise DataError(
            "backend",
            f"backend 'native' asked for the compiled ops on {device}, but {why}",
            value=backend,
            remedy=Pass("backend", "reference", goal="use"),
            joint="; ",
        )
    if device.type == "cuda":
        warnings.warn(f"missdiff_fast runs in plain PyTorch on {device}: {why}", RuntimeWarning, stacklevel=3)
    return ReferenceBackend()
