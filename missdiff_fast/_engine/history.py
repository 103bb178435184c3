"""The course of a training: what is kept of it, and the progress bar."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field

from torch import Tensor
from tqdm import tqdm

from missdiff_fast.errors import Adjust, DivergedError

_LOG_EVERY = 50


@dataclass
class History:
    """The mean loss of every 50 steps, counted over all phases.

    Losses of different phases do not compare: in refinement draws are judged too, and the divisor is the number of all
    cells, as the table is complete there.
    """

    step: list[int] = field(default_factory=list)
    loss: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    started: float = field(default_factory=time.perf_counter)

    def add(self, step: int, loss: float) -> None:
        """One point of the curve; seconds are wall time since training began."""
        self.step.append(step)
        self.loss.append(loss)
        self.seconds.append(round(time.perf_counter() - self.started, 3))


class Progress:
    """Takes the loss of every step, adds its mean to a history now and then, and draws a bar.

    Parameters
    ----------
    history : History
        Taken further.
    name : str
        For the progress bar.
    steps : int
        How many there will be.
    verbose : bool
        Whether to draw the bar where stderr is a terminal.
    first_step : int
        Steps taken in earlier phases.
    """

    def __init__(self, history: History, name: str, steps: int, verbose: bool, first_step: int = 0) -> None:
        self._history, self._steps, self._done, self._first = history, steps, 0, first_step
        self._bar = tqdm(total=steps, desc=name, unit="step", delay=2, disable=None if verbose else True)
        self._running: Tensor | float = 0.0

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()

    @property
    def until_log(self) -> int:
        """How many steps there are up to the next point of the curve."""
        return min(_LOG_EVERY - self._done % _LOG_EVERY, self._steps - self._done)

    def add(self, loss: Tensor, steps: int = 1) -> None:
        """A step taken, or some up to the next point, ``loss`` the sum of theirs.

        Raises FloatingPointError where the loss is no longer finite.
        """
        # Summed where it is, and fetched once in a while: a GPU is not waited for at every step.
        self._running = self._running + loss.detach()
        self._done += steps
        if self._done % _LOG_EVERY == 0 or self._done == self._steps:
            self._log(self._first + self._done, float(self._running) / ((self._done - 1) % _LOG_EVERY + 1))
            self._running = 0.0
        self._bar.update(steps)

    def _log(self, step: int, loss: float) -> None:
        if not math.isfinite(loss):
            problem = f"the loss is {loss} at step {step}: training diverged"
            raise DivergedError("loss", problem, value=loss, remedy=Adjust("lower", ("learning_rate",)), joint="; ")
        self._history.add(step, loss)
        self._bar.set_postfix(loss=f"{loss:.3f}", refresh=False)
