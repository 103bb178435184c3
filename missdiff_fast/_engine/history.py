"""Loss history and progress bar of a training."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field

import pandas as pd
from torch import Tensor

from missdiff_fast._progress import progress_bar
from missdiff_fast.errors import DivergedError
from missdiff_fast.remedies import Adjust

_LOG_EVERY = 50


@dataclass
class History:
    """The mean loss of every 50 steps, counted over all phases.

    Losses of different phases are not comparable: in refinement the loss includes drawn cells, and its divisor is the
    number of all cells, because the table is complete.
    """

    step: list[int] = field(default_factory=list)
    loss: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    started: float = field(default_factory=time.perf_counter)
    choices: list[tuple[str, float, str]] = field(default_factory=list)
    checks: dict[int, float] = field(default_factory=dict)
    kept_steps: int | None = None  # of a first training that ended early: the length of the schedule that was kept

    def add(self, step: int, loss: float) -> None:
        """Add one point of the curve, with the wall time since training began."""
        self.step.append(step)
        self.loss.append(loss)
        self.seconds.append(round(time.perf_counter() - self.started, 3))

    def check(self, step: int, loss: float) -> None:
        """Add the loss on held-back rows at a step."""
        self.checks[step] = loss

    def frame(self) -> pd.DataFrame:
        """The curve as a table; ``held_back``, if anything was checked, is NaN between two checks."""
        frame = pd.DataFrame({"step": self.step, "loss": self.loss, "seconds": self.seconds})
        return frame.assign(held_back=frame["step"].map(self.checks)) if self.checks else frame

    def choose(self, setting: str, value: float, reason: str) -> None:
        """Add a setting that was chosen for the table, with the reason."""
        self.choices.append((setting, value, reason))


class Progress:
    """Takes the loss of every step, adds the mean of every 50 to a history, and draws a progress bar.

    Parameters
    ----------
    history : History
        Extended in place.
    name : str
        For the progress bar.
    steps : int
        How many steps there will be.
    verbose : bool
        Whether to draw the bar where stderr is a terminal.
    first_step : int
        Steps taken in earlier phases.
    """

    def __init__(self, history: History, name: str, steps: int, verbose: bool, first_step: int = 0) -> None:
        self._history, self._steps, self._done, self._first = history, steps, 0, first_step
        self._bar = progress_bar(total=steps, desc=name, unit="step", verbose=verbose)
        self._running: Tensor | float = 0.0

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()

    @property
    def until_log(self) -> int:
        """Number of steps up to the next point of the curve."""
        return min(_LOG_EVERY - self._done % _LOG_EVERY, self._steps - self._done)

    def shorten(self, steps: int) -> None:
        """There will be only this many steps."""
        self._steps = self._bar.total = steps

    def add(self, loss: Tensor, steps: int = 1) -> None:
        """Count one step, or several up to the next point; ``loss`` is the sum of their losses.

        Raises FloatingPointError where the loss is no longer finite.
        """
        # Summed on the device and fetched once for each point: waiting at every step would stall a GPU.
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
