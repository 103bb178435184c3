"""Inputs of training steps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from torch import Tensor

from missdiff_fast.table.encoded import EncodedTable


@dataclass(frozen=True)
class TrainBatch:
    """Inputs of one training step.

    Parameters
    ----------
    table : EncodedTable
        The training rows; in refinement with their missing cells filled.
    rows : Tensor
        Row numbers, int64 ``[B]``.
    states, loss_states : Tensor
        State of each column as the network sees it, and as the loss counts it, uint8 ``[B, J]``.
    sigma, weight : Tensor
        Noise level of each row, and weight of its squared errors, ``[B]``.
    key : Tensor
        Key of the step's noise, int64 ``[2]``.
    """

    table: EncodedTable
    rows: Tensor
    states: Tensor
    loss_states: Tensor
    sigma: Tensor
    weight: Tensor
    key: Tensor


@dataclass(frozen=True)
class TrainBatches:
    """Inputs of several steps: the tensors of `TrainBatch`, each with a first dimension of steps."""

    table: EncodedTable
    rows: Tensor
    states: Tensor
    loss_states: Tensor
    sigma: Tensor
    weight: Tensor
    keys: Tensor

    def __len__(self) -> int:
        return len(self.rows)

    def part(self, start: int, stop: int) -> TrainBatches:
        """The inputs of some of the steps."""
        tensors = self.rows, self.states, self.loss_states, self.sigma, self.weight, self.keys
        return TrainBatches(self.table, *(tensor[start:stop] for tensor in tensors))

    def __iter__(self) -> Iterator[TrainBatch]:
        tensors = self.rows, self.states, self.loss_states, self.sigma, self.weight, self.keys
        steps = zip(*(tensor.unbind() for tensor in tensors), strict=True)
        for rows, states, loss_states, sigma, weight, key in steps:
            yield TrainBatch(self.table, rows, states, loss_states, sigma, weight, key)
