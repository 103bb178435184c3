"""The interface between a model and its method."""

from __future__ import annotations

from abc import ABC, abstractmethod

import pandas as pd
import torch
from torch import Tensor

from missdiff_fast._engine.backend import Backend
from missdiff_fast._engine.history import History
from missdiff_fast.table import Codec, EncodedTable


class Method(ABC):
    """Trains on an encoded table, draws rows and imputes.

    Parameters
    ----------
    codec : Codec
        The table's.
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

    @property
    def draws_holes(self) -> bool:
        """Whether it can draw rows with holes."""
        return False

    @property
    def num_refits(self) -> int:
        """How many refits on bootstrap samples of the rows there are to draw from."""
        return 0

    @abstractmethod
    def fit(self, table: EncodedTable, seed: int, history: History, *, verbose: bool) -> None:
        """Train; an interrupted fit keeps the weights trained so far."""

    @abstractmethod
    def draw(
        self,
        known: EncodedTable,
        seed: int,
        *,
        first_row: int = 0,
        conditional: bool = False,
        refit: int | None = None,
        hidden: Tensor | None = None,
        verbose: bool = False,
        desc: str = "sample",
    ) -> pd.DataFrame:
        """Rows drawn given the known cells: complete ones, or as rows with certain holes are distributed.

        Parameters
        ----------
        known : EncodedTable
            The known cells, N rows.
        seed : int
            Row i depends on (seed, i), its known and its hidden cells alone.
        first_row : int
            The number i of the first row.
        conditional : bool
            Whether `impute_draws` draws; `ColumnStates` has noise levels, weights and a joint distribution for it.
        refit : int, optional
            The refit that draws, from 0 to ``num_refits - 1``; None takes the fit itself.
        hidden : Tensor, optional
            The missing cells of rows with holes, bool ``[N, J]`` of the codec's layout, where nothing is known; what is
            drawn there means nothing. Only where ``draws_holes``.
        verbose, desc
            Progress bar, and its name.
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
        """Everything that fit learnt, by name."""

    @abstractmethod
    def load(self, weights: dict[str, Tensor]) -> None:
        """Restore what `weights` gave; KeyError or RuntimeError where it does not fit."""


def empty_codes(table: EncodedTable) -> Tensor:
    """An uninitialised code for every categorical cell: int16 ``[N, K]``."""
    return torch.empty((len(table), table.layout.num_categorical), dtype=torch.int16)


def part(weights: dict[str, Tensor], name: str) -> dict[str, Tensor]:
    """The entries whose names begin with ``name.``, without that prefix."""
    return {key.removeprefix(f"{name}."): tensor for key, tensor in weights.items() if key.startswith(f"{name}.")}
