"""Chained equations: each column with holes is predicted from all the others, round after round."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from missdiff_fast._checks import check_count
from missdiff_fast._engine.random import derive
from missdiff_fast._progress import progress_bar
from missdiff_fast.baselines._encoding import EncodedCells, Encoder
from missdiff_fast.baselines._imputer import Imputer


class ChainedImputer(Imputer):
    """The loop of MICE and MissForest.

    The table is a matrix ``[N, P]`` whose every table column is a block of one or more matrix columns. Holes begin with
    a guess; then, from the column with the fewest holes to that with the most, a model learns the block from all other
    blocks where it is observed, and predicts it where it is not. Rounds end by a rule of the subclass.

    The models of the last accepted round are kept. `impute` applies them for as many rounds as fit took, so that a
    row is filled in the same way whatever rows come with it. The model of a column that had no hole in fit is learnt
    at its first use.

    Attributes
    ----------
    rounds_ : int
        The rounds that fit took.
    """

    max_rounds: int
    rounds_: int

    def _check(self) -> None:
        check_count("max_rounds", self.max_rounds, least=1)

    def _learn(self, encoder: Encoder, cells: EncodedCells, seed: int) -> None:
        self._encoding, self._seed = encoder, seed
        self._blocks = self._matrix_blocks(encoder)
        matrix = self._matrix(cells)
        self._guess = self._first_guess(cells)
        missing = self._missing(matrix)
        self._order = [int(j) for j in np.argsort(missing.sum(0), kind="stable")]
        holes = [j for j in self._order if missing[:, j].any()]
        self._completed = np.where(np.isnan(matrix), self._guess, matrix)
        self._models: dict[int, Any] = {}
        self.rounds_, previous = 0, None
        # A single column has no predictors, so the guess stands.
        rounds = self.max_rounds if len(self._blocks) > 1 and holes else 0
        bar = progress_bar(total=rounds * len(holes), desc="chained equations", unit="column", verbose=self.verbose)
        with bar:
            for turn in range(rounds):
                new, models = self._completed.copy(), {}
                for j in holes:
                    models[j] = self._fit_column(new, j, ~missing[:, j], turn)
                    self._predict(models[j], new, j, missing[:, j])
                    bar.update()
                change = self._change(self._completed, new, missing)
                keep, stop = self._judge(change, previous)
                if keep:
                    self._completed, self._models, self.rounds_ = new, models, turn + 1
                if stop:
                    break
                previous = change

    def _fill(self, cells: EncodedCells) -> EncodedCells:
        matrix = self._matrix(cells)
        missing = self._missing(matrix)
        filled = np.where(np.isnan(matrix), self._guess, matrix)
        if len(self._blocks) > 1:
            holes = [j for j in self._order if missing[:, j].any()]
            for j in holes:
                if j not in self._models:
                    everywhere = np.ones(len(self._completed), dtype=bool)
                    self._models[j] = self._fit_column(self._completed, j, everywhere, self.max_rounds)
            for _ in range(self.rounds_ or self.max_rounds):
                for j in holes:
                    self._predict(self._models[j], filled, j, missing[:, j])
        return self._as_cells(filled)

    def _missing(self, matrix: np.ndarray) -> np.ndarray:
        """Mask of the missing cells of the table's columns: bool ``[N, J]``."""
        return np.isnan(matrix[:, [block.start for block in self._blocks]])

    def _others(self, j: int) -> np.ndarray:
        """The matrix columns of all blocks but one."""
        return np.concatenate([np.arange(b.start, b.stop) for i, b in enumerate(self._blocks) if i != j])

    def _fit_column(self, matrix: np.ndarray, j: int, rows: np.ndarray, turn: int) -> Any:
        seed = derive(self._seed, "batches", turn * len(self._blocks) + j)
        return self._fit_model(matrix[rows][:, self._others(j)], matrix[rows][:, self._blocks[j]], j, seed)

    def _predict(self, model: Any, matrix: np.ndarray, j: int, rows: np.ndarray) -> None:
        """Write the model's predictions of a column for some rows into the matrix."""
        matrix[rows, self._blocks[j]] = self._predict_model(model, matrix[rows][:, self._others(j)], j)

    @abstractmethod
    def _matrix_blocks(self, encoder: Encoder) -> list[slice]: ...

    @abstractmethod
    def _matrix(self, cells: EncodedCells) -> np.ndarray: ...

    @abstractmethod
    def _as_cells(self, matrix: np.ndarray) -> EncodedCells: ...

    @abstractmethod
    def _first_guess(self, cells: EncodedCells) -> np.ndarray: ...

    @abstractmethod
    def _fit_model(self, inputs: np.ndarray, targets: np.ndarray, j: int, seed: int) -> Any: ...

    @abstractmethod
    def _predict_model(self, model: Any, inputs: np.ndarray, j: int) -> np.ndarray: ...

    @abstractmethod
    def _change(self, old: np.ndarray, new: np.ndarray, missing: np.ndarray) -> Mapping[str, float]: ...

    @abstractmethod
    def _judge(self, change: Mapping[str, float], previous: Mapping[str, float] | None) -> tuple[bool, bool]:
        """Whether a round is accepted, and whether it is the last."""


def means_and_modes(cells: EncodedCells, cardinalities: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """The mean of each continuous column ``[C]`` and the most frequent category of each other one ``[K]``.

    Of equally frequent categories, the first in order.
    """
    codes = [
        int(np.bincount(c[c >= 0], minlength=v).argmax()) for c, v in zip(cells.codes.T, cardinalities, strict=True)
    ]
    return np.nanmean(cells.values, axis=0), np.array(codes, dtype=np.int64)
