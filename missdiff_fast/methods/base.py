"""What a method of training gives to the model."""

from __future__ import annotations

from abc import ABC, abstractmethod

import pandas as pd
import torch
from torch import Tensor

from missdiff_fast._engine.backend import Backend
from missdiff_fast._engine.history import History
from missdiff_fast.table import Codec, EncodedTable


class Method(ABC):
    """Trains on an encoded table; draws and imputes rows.

    Parameters
    ----------
    codec : Codec
        Of the table.
    device : torch.device
        Where the networks are.
    backend : Backend
        The ops, the network's passes and the training step.
    """

    def __init__(self, codec: Codec, device: torch.device, backend: Backend) -> None:
        self.codec, self.device, self.backend = codec, device, backend

    @property
    @abstractmethod
    def fitted(self) -> bool:
        """Whether there is anything to draw from."""

    @abstractmethod
    def fit(self, table: EncodedTable, seed: int, history: History, *, refine: bool, verbose: bool) -> None:
        """Train; interrupted, the method keeps what it has learnt so far."""

    @abstractmethod
    def draw(
        self, known: EncodedTable, seed: int, *, careful: bool = False, verbose: bool = False, desc: str = "sample"
    ) -> pd.DataFrame:
        """Complete rows, drawn given the known cells; row i depends on the seed and i alone.

        ``careful`` asks for more solver steps where the method has a choice: draws given many known cells need them.
        """

    @abstractmethod
    def impute(self, table: EncodedTable, seed: int, *, verbose: bool = False) -> pd.DataFrame:
        """Complete rows with one best guess for each missing cell."""

    @abstractmethod
    def predict_proba(self, table: EncodedTable, group: int, seed: int, *, verbose: bool = False) -> Tensor:
        """The probability of each category of categorical column ``group`` given the row's known cells: ``[N, V]``."""

    @abstractmethod
    def nll_bound(self, table: EncodedTable, seed: int, *, verbose: bool = False) -> Tensor:
        """An upper bound on the negative log-likelihood of each row's observed cells, in nats: float64 ``[N]``."""

    @abstractmethod
    def weights(self) -> dict[str, Tensor]:
        """Everything learnt, by name."""

    @abstractmethod
    def load(self, weights: dict[str, Tensor]) -> None:
        """Take what `weights` gave. Raises KeyError or RuntimeError where it does not fit."""


def empty_codes(table: EncodedTable) -> Tensor:
    """Room for a code in every categorical cell: int16 ``[N, K]``."""
    return torch.empty((len(table), table.layout.num_categorical), dtype=torch.int16)


def part(weights: dict[str, Tensor], name: str) -> dict[str, Tensor]:
    """The weights of one member, ``name.``, its name taken off."""
    return {key.removeprefix(f"{name}."): tensor for key, tensor in weights.items() if key.startswith(f"{name}.")}
