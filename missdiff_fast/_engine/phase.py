"""Schedule of one phase of training."""

from __future__ import annotations

from dataclasses import dataclass

from missdiff_fast._engine.history import History
from missdiff_fast.config import TrainingConfig


@dataclass(frozen=True)
class Phase:
    """One phase of training.

    Parameters
    ----------
    name : str
        For the progress bar.
    steps, batch_size, learning_rate, warmup, ema
        As in `missdiff_fast.config.TrainingConfig`.
    first_step : int
        Number of steps of earlier phases, so that no random number is used twice.
    show : float
        Share of rows that show their filled cells to the network, as noisy columns.
    trusted_rate, trusted_sigma : float
        Shown filled cells enter the loss in columns that at least ``trusted_rate`` of the rows observe, at noise levels
        above ``trusted_sigma``.
    """

    name: str
    steps: int
    batch_size: int
    learning_rate: float
    warmup: int
    ema: float
    first_step: int = 0
    show: float = 0.0
    trusted_rate: float = 1.0
    trusted_sigma: float = 0.0

    @classmethod
    def after(cls, history: History, name: str, steps: int, batch_size: int, training: TrainingConfig) -> Phase:
        """A phase that follows those of a history, with the schedule of ``training``."""
        first_step = history.step[-1] if history.step else 0
        return cls(name, steps, batch_size, training.learning_rate, training.warmup, training.ema, first_step)

    def rate(self, step: int) -> float:
        """The learning rate of a step, counted from 0: linear warm-up, then linear decay to 0."""
        return self.learning_rate * ((1 - step / self.steps) * min(1.0, (step + 1) / self.warmup))
