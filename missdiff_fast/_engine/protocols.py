"""Interface of a backend: its ops, its passes of a network, its training step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn

from missdiff_fast._engine.batches import TrainBatches
from missdiff_fast._engine.history import Progress
from missdiff_fast.config import ObjectiveConfig
from missdiff_fast.networks.packing import TrainingState
from missdiff_fast.table.encoded import EncodedTable


class Stepper(Protocol):
    """Takes training steps on a network."""

    def run(self, batches: TrainBatches, rates: Sequence[float], progress: Progress) -> None:
        """Take one step for each batch, at its learning rate, and report the losses to ``progress``."""

    def averaged(self) -> AbstractContextManager[nn.Module]:
        """The network with the moving average of its weights, for as long as the context lasts."""

    def save(self) -> Callable[[], None]:
        """Keep the state of training; the function that is returned restores it."""

    def finish(self) -> None:
        """Give the network the moving average of its weights."""


class Tile(NamedTuple):
    """How many rows one call of a network takes.

    Parameters
    ----------
    rows : int
        The most rows of a call.
    padded : bool
        Whether every call must have exactly this many rows, because a row's result depends on the number of rows.
    """

    rows: int
    padded: bool


class Backend(Protocol):
    """One implementation of the ops, chosen once for a model and handed down.

    The ops have the signatures of `missdiff_fast.ops`, where they are documented; `missdiff_fast.ops.reference` defines
    what they compute. A backend holds neither modules nor tensors, so that it can be copied and pickled.
    """

    @property
    def capturable(self) -> bool:
        """Whether CUDA graphs can capture the ops: none of them waits for the device."""

    @property
    def columns_in_threads(self) -> bool:
        """Whether `encode` computes in the calling thread alone, so that columns can be shared among threads."""

    def uniform(self, rows: Tensor, columns: int, key: Tensor) -> Tensor: ...

    def normal(self, rows: Tensor, columns: int, key: Tensor) -> Tensor: ...

    def perturb(
        self,
        table: EncodedTable,
        rows: Tensor,
        states: Tensor,
        alpha: Tensor,
        sigma: Tensor,
        key: Tensor,
        *,
        low: float = 0.0,
        high: float = 1.0,
    ) -> Tensor: ...

    def masked_loss(
        self,
        prediction: Tensor,
        table: EncodedTable,
        rows: Tensor,
        states: Tensor,
        weight: Tensor,
        *,
        mean_weight: float = 0.3,
        column_weight: Tensor | None = None,
    ) -> Tensor: ...

    def masked_noise_loss(
        self, prediction: Tensor, table: EncodedTable, rows: Tensor, states: Tensor, key: Tensor
    ) -> Tensor: ...

    def step(
        self,
        x: Tensor,
        prediction: Tensor,
        previous: Tensor | None,
        states: Tensor,
        offsets: Tensor,
        coefficients: Tensor,
        rows: Tensor,
        key: Tensor,
        *,
        softmax: bool = True,
    ) -> tuple[Tensor, Tensor]: ...

    def encode(
        self, cells: Tensor, keys: Tensor, ends: Tensor, boundaries: Tensor, count: int, share: Tensor | None = None
    ) -> Tensor: ...

    def decode(self, x: Tensor, offsets: Tensor, boundaries: Tensor, starts: Tensor) -> tuple[Tensor, Tensor]: ...

    def mlp_predict(self, network: nn.Module, x: Tensor, states: Tensor, sigma: Tensor) -> Tensor: ...

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
    ) -> Tensor: ...

    def mlp_train_step(
        self,
        state: TrainingState,
        table: EncodedTable,
        rows: Tensor,
        states: Tensor,
        loss_states: Tensor,
        sigma: Tensor,
        weight: Tensor,
        key: Tensor,
        *,
        learning_rate: float,
        decay: float,
        mean_weight: float = 0.3,
        column_weight: Tensor | None = None,
        level_features: Tensor | None = None,
    ) -> Tensor: ...

    def tile(self, network: nn.Module, device: torch.device) -> Tile:
        """How many rows one call of `mlp_predict` or `mlp_sample` takes of this network."""

    def stepper(self, network: nn.Module, objective: ObjectiveConfig, column_weight: Tensor, ema: float) -> Stepper:
        """The training step for a network.

        Parameters
        ----------
        network : nn.Module
            Trained in place.
        objective : ObjectiveConfig
            Weight of the conditional mean in the loss.
        column_weight : Tensor
            Weight of each table column in the loss, ``[J]``.
        ema : float
            Decay of the moving average of the weights, after its warm-up.
        """
