"""The default model in plain PyTorch, eager or compiled: the package's own loops with the ops of baselines.py."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any
from unittest.mock import patch

import baselines
import torch
from torch import Tensor, nn
from workload import Workload

from missdiff_fast._engine.backend import NativeBackend, ReferenceBackend
from missdiff_fast._engine.batches import TrainBatch
from missdiff_fast._engine.steppers import TorchStepper
from missdiff_fast.config import ObjectiveConfig
from missdiff_fast.networks import Denoiser
from missdiff_fast.networks.mlp import Prepared
from missdiff_fast.ops import encode, reference
from missdiff_fast.table import EncodedTable, Layout


class EagerDenoiser(Denoiser):
    """A network that the package has no native pass for."""


class CompiledDenoiser(Denoiser):
    """The same network through torch.compile."""

    def forward(self, x: Tensor, sigma: Tensor, states: Tensor, prepared: Prepared | None = None) -> Tensor:
        """As `Denoiser.forward`."""
        return baselines.compiled(Denoiser.forward)(self, x, sigma, states, prepared)


def make_network(w: Workload, kind: type[Denoiser], width: int = 96) -> Denoiser:
    """A seeded network for a workload, with an output that is not 0."""
    torch.manual_seed(0)
    network = kind(w.table.layout, width=width)
    torch.nn.init.normal_(network.outputs.weight, std=0.1)
    return network.to(w.x.device)


def make_networks(layout: Layout) -> dict[str, Denoiser]:
    """One network, with an output that is not 0, for each implementation."""
    torch.manual_seed(0)
    networks = {"native": Denoiser(layout), "eager": EagerDenoiser(layout), "compile": CompiledDenoiser(layout)}
    torch.nn.init.normal_(networks["native"].outputs.weight, std=0.1)
    for network in networks.values():
        network.load_state_dict(networks["native"].state_dict())
    return networks


class PlainBackend(ReferenceBackend):
    """A backend for tables whose categorical columns are pairs.

    With ``philox`` its noise is the package's own, to be compared with it; without, PyTorch's, which is faster.
    """

    # Columns are encoded by the package's own op in every implementation.
    columns_in_threads = NativeBackend.columns_in_threads
    encode = staticmethod(encode)

    def __init__(self, compile_it: bool, *, philox: bool = False) -> None:
        self.compiled, self.philox, self._boundaries = compile_it, philox, torch.empty(0)
        functions = (baselines.perturb, baselines.masked_loss, baselines.step, baselines.decode, rows_to_loss)
        if compile_it:
            functions = tuple(baselines.compiled(function) for function in functions)
        self._perturb, self._masked_loss, self._step, self._decode, self.rows_to_loss = functions

    def stepper(
        self, network: nn.Module, objective: ObjectiveConfig, column_weight: Tensor, ema: float
    ) -> PlainStepper:
        return PlainStepper(network, objective, column_weight, ema, self)

    def mlp_predict(self, network: nn.Module, x: Tensor, states: Tensor, sigma: Tensor) -> Tensor:
        prediction: Tensor = self._forward(network)(x, sigma, states)
        return prediction

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
        precision: str = "float32",
    ) -> Tensor:
        forward = self._forward(network)
        return super().mlp_sample(forward, x, states, offsets, sigmas, coefficients, rows, keys)

    def _forward(self, network: nn.Module) -> Any:
        """The network's function, through torch.compile where the ops are. Held-out losses call the network itself."""
        return partial(baselines.compiled(Denoiser.forward), network) if self.compiled else network

    def uniform(self, rows: Tensor, columns: int, key: Tensor) -> Tensor:
        return (
            reference.uniform(rows, columns, key) if self.philox else torch.rand(len(rows), columns, device=rows.device)
        )

    def normal(self, rows: Tensor, columns: int, key: Tensor) -> Tensor:
        return (
            reference.normal(rows, columns, key) if self.philox else torch.randn(len(rows), columns, device=rows.device)
        )

    def perturb(
        self, table: EncodedTable, rows: Tensor, states: Tensor, alpha: Tensor, sigma: Tensor, key: Tensor
    ) -> Tensor:
        noise = self.noise(rows, table.layout.width, key)
        return self._perturb(table.continuous, table.codes, rows, states, alpha, sigma, noise)

    def noise(self, rows: Tensor, columns: int, key: Tensor) -> Tensor | None:
        """The noise that the ops take; None for their own."""
        return reference.normal(rows, columns, key) if self.philox else None

    def masked_loss(
        self, prediction: Tensor, table: EncodedTable, rows: Tensor, states: Tensor, weight: Tensor, **options: Any
    ) -> Tensor:
        cells = table.continuous, table.codes, table.values
        return self._masked_loss(prediction, *cells, rows, states, weight, **options)

    def step(
        self, x: Tensor, prediction: Tensor, previous: Tensor | None, states: Tensor, _: Tensor, c: Tensor, *__: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Without noise, as the default solver takes it."""
        previous = torch.zeros_like(x) if previous is None else previous
        return self._step(x, prediction, previous, states, c if self.compiled else c.tolist())

    def decode(self, x: Tensor, offsets: Tensor, boundaries: Tensor, starts: Tensor) -> tuple[Tensor, Tensor]:
        if boundaries is not self._boundaries:
            self._boundaries, self._filled = boundaries, baselines.filled(boundaries, starts)
        return self._decode(x, self._filled, int(offsets[0]))


def rows_to_loss(
    network: Denoiser, continuous: Tensor, codes: Tensor, values: Tensor, rows: Tensor, states: Tensor,
    loss_states: Tensor, sigma: Tensor, weight: Tensor, noise: Tensor | None, mean_weight: float, column_weight: Tensor,
) -> Tensor:  # fmt: skip
    """From rows to the loss of a training step, as one graph."""
    x = baselines.perturb(continuous, codes, rows, states, torch.ones_like(sigma), sigma, noise)
    prediction = network(x, sigma, states)
    weights = weight, mean_weight, column_weight
    return baselines.masked_loss(prediction, continuous, codes, values, rows, loss_states, *weights)


class PlainStepper(TorchStepper):
    """A training step whose network and loss are one function."""

    backend: PlainBackend

    def step(self, batch: TrainBatch, learning_rate: float) -> Tensor:
        t, noise = batch.table, self.backend.noise(batch.rows, batch.table.layout.width, batch.key)
        cells = t.continuous, t.codes, t.values, batch.rows, batch.states, batch.loss_states
        rest = batch.sigma, batch.weight, noise, self.objective.mean_weight, self.column_weight
        loss: Tensor = self.backend.rows_to_loss(self.network, *cells, *rest)
        self.optimizer.param_groups[0]["lr"] = learning_rate
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        self.average.update()
        return loss.detach()


@contextmanager
def plain_pytorch(*, compile_it: bool, philox: bool = False) -> Iterator[None]:
    """Within, `missdiff_fast.MissDiff` fits and draws in plain PyTorch."""
    backend = PlainBackend(compile_it, philox=philox)
    with patch("missdiff_fast.model.resolve_backend", lambda name, device: backend):
        yield
