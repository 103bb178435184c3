"""Settings of the training of the preset "default"."""

from __future__ import annotations

import math
from dataclasses import dataclass

from missdiff_fast._checks import (
    check_above_zero,
    check_integer,
    check_integer_or_none,
    check_least,
    check_share,
)

_STEPS = 4000  # of tables with up to `_LARGE` rows
_LARGE = 32_000


def _growth(num_rows: int) -> float:
    """The steps of large tables, as a multiple of those of one with up to `_LARGE` rows."""
    return max(1.0, num_rows / _LARGE) ** (1 / 3)


@dataclass(frozen=True)
class ObjectiveConfig:
    """Noise levels, column states and loss weights of a training step.

    log sigma is normal with mean ``log_sigma_mean`` and standard deviation ``log_sigma_std``. A share ``clean_share``
    of the rows has a uniform fraction of its observed columns clean and the others noisy; ``hidden_share`` has a
    fraction hidden and the others noisy; ``impute_share`` has a fraction hidden and the others clean. All columns of
    the remaining rows are noisy.

    ``mean_weight`` is the weight of the loss of conditional means. A column's loss is divided by its share of observed
    cells to the power ``column_power``; the greatest weight is at most ``column_cap`` times the least (see
    `missdiff_fast.diffusion.objective.column_weights`). A power of 0 gives all columns the same weight.

    Examples
    --------
    >>> ObjectiveConfig(column_power=0.0).clean_share
    0.3
    >>> ObjectiveConfig(clean_share=0.9)
    Traceback (most recent call last):
        ...
    ValueError: objective.clean_share, hidden_share and impute_share are shares of one whole, got 1.25 in all
    """

    log_sigma_mean: float = 0.0
    log_sigma_std: float = 1.6
    clean_share: float = 0.3
    hidden_share: float = 0.1
    impute_share: float = 0.25
    mean_weight: float = 0.5
    column_power: float = 0.5
    column_cap: float = 10.0

    def __post_init__(self) -> None:
        if not math.isfinite(self.log_sigma_mean):
            raise ValueError(f"objective.log_sigma_mean must be finite, got {self.log_sigma_mean}")
        check_above_zero("objective.log_sigma_std", self.log_sigma_std)
        for name in ("clean_share", "hidden_share", "impute_share"):
            check_share(f"objective.{name}", getattr(self, name))
        total = self.clean_share + self.hidden_share + self.impute_share
        if total > 1 + 1e-9:
            raise ValueError(
                f"objective.clean_share, hidden_share and impute_share are shares of one whole, got {total} in all"
            )
        check_least("objective.mean_weight", self.mean_weight, 0)
        check_least("objective.column_power", self.column_power, 0)
        check_least("objective.column_cap", self.column_cap, 1)


@dataclass(frozen=True)
class TrainingConfig:
    """AdamW without weight decay, with warm-up, linear decay and an exponential moving average of the weights.

    `resolve` chooses ``steps`` and ``batch_size`` of None from the number of rows; ``epochs`` replaces ``steps``.
    ``effort`` is a factor of the chosen number of steps. With a ``budget``, in seconds, the number of steps is what a
    fit of that time allows, as measured when it begins.

    With a ``patience``, the loss on held-back rows is measured twenty times in the first training, at most every 50
    steps. Once ``patience`` checks in a row have not improved on the best one, training goes back to it and takes a
    last decay of a tenth of the steps; see `missdiff_fast._engine.stopping`. None never ends a training early. A
    twentieth of the rows is held back, whether or not the table is refined. Complete tables and those of fewer than 200
    rows hold back no rows, and are trained in full.

    Examples
    --------
    >>> TrainingConfig(epochs=10, batch_size=100).resolve(1_000)
    (100, 100)
    >>> TrainingConfig(effort=5.0, patience=4).resolve(16_000)  # at most
    (20000, 256)
    """

    steps: int | None = None
    epochs: int | None = None
    batch_size: int | None = None
    learning_rate: float = 4e-3
    warmup: int = 100
    ema: float = 0.998
    effort: float = 1.0
    budget: float | None = None
    patience: int | None = None

    def __post_init__(self) -> None:
        for name in ("steps", "epochs", "batch_size"):
            check_integer_or_none(f"training.{name}", getattr(self, name), 1)
        check_above_zero("training.learning_rate", self.learning_rate)
        check_integer_or_none("training.patience", self.patience, 1)
        check_integer("training.warmup", self.warmup, 1)
        check_share("training.ema", self.ema)
        check_above_zero("training.effort", self.effort)
        if self.budget is not None:
            check_above_zero("training.budget", self.budget)

    @property
    def chosen(self) -> bool:
        """Whether `resolve` chooses the number of steps."""
        return self.steps is None and self.epochs is None

    def resolve(self, num_rows: int) -> tuple[int, int]:
        """Steps and batch size for a table.

        A small table gets about 200 epochs, others 4,000 steps of 256 rows, and one of more than 32,000 rows more
        steps, by the cube root of the number of rows.

        >>> TrainingConfig().resolve(16_000)
        (4000, 256)
        >>> TrainingConfig(effort=2.0).resolve(16_000)
        (8000, 256)
        >>> TrainingConfig().resolve(256_000)
        (8000, 256)
        """
        batch_size = self.batch_size
        if batch_size is None:
            batch_size = max(32, min(256, 1 << max(num_rows // 8, 1).bit_length() - 1))
        steps = self.steps or (self.epochs and max(1, self.epochs * num_rows // batch_size))
        most = _STEPS * _growth(num_rows)
        return steps or max(1, round(self.effort * min(most, max(500, 200 * num_rows // batch_size)))), batch_size


@dataclass(frozen=True)
class RefineConfig:
    """Further training on a table whose missing cells are filled with conditional draws.

    A round draws the missing cells given the observed ones, down to ``solver.sigma_min``, then trains for
    ``step_share`` of the first training's steps at ``rate_share`` of its learning rate. In a share ``show`` of the rows
    the drawn cells are noisy columns; in the others they are hidden. Drawn cells of columns that are observed in at
    least ``trusted_rate`` of the rows enter the loss where sigma exceeds ``trusted_sigma``. ``rounds`` of None is one
    round where at most half of the cells are missing, else two. A complete table has none.

    Examples
    --------
    >>> [RefineConfig().rounds_for(missing) for missing in (0.0, 0.2, 0.7)]
    [0, 1, 2]
    """

    rounds: int | None = None
    step_share: float = 0.5
    rate_share: float = 1.0
    show: float = 0.85
    trusted_rate: float = 0.5
    trusted_sigma: float = 1.0

    def __post_init__(self) -> None:
        check_integer_or_none("refine.rounds", self.rounds, 0)
        check_above_zero("refine.step_share", self.step_share)
        check_above_zero("refine.rate_share", self.rate_share)
        check_share("refine.show", self.show)
        check_share("refine.trusted_rate", self.trusted_rate)
        check_least("refine.trusted_sigma", self.trusted_sigma, 0)

    def rounds_for(self, missing: float) -> int:
        """The number of rounds for a table with this share of missing cells."""
        if missing == 0:
            return 0
        if self.rounds is not None:
            return self.rounds
        return 1 if missing <= 0.5 else 2


@dataclass(frozen=True)
class ImputerConfig:
    """Training of the network that imputes; see `missdiff_fast._engine.imputer`.

    It is trained after refinement, further for ``step_share`` of the steps that `TrainingConfig.resolve` chooses for
    the rows. More than 32,000 rows get no more of its steps than 32,000 do. Of fewer than ``new_rows`` rows it is a new
    network, trained for ``new_share`` of the steps. With a share of 0 the network imputes as the trainings before left
    it.

    Examples
    --------
    >>> [ImputerConfig().share(rows) for rows in (1_000, 16_000, 256_000)]
    [0.5, 0.25, 0.125]
    """

    step_share: float = 0.25
    new_rows: int = 2000
    new_share: float = 0.5

    def __post_init__(self) -> None:
        check_least("imputer.step_share", self.step_share, 0)
        check_integer("imputer.new_rows", self.new_rows, 0)
        check_least("imputer.new_share", self.new_share, 0)

    def share(self, num_rows: int) -> float:
        """The steps for a table with this number of rows, as a share of those that are chosen for it.

        More rows need more steps to be drawn well, but not to be imputed well.
        """
        if num_rows < self.new_rows:
            return self.new_share
        return self.step_share / _growth(num_rows)


@dataclass(frozen=True)
class IncompleteConfig:
    """Training of the network that draws incomplete rows; see `missdiff_fast._engine.incomplete`.

    It is trained for ``step_share`` of the steps that `TrainingConfig.resolve` chooses for the rows. With a share of 0
    there is none, and `MissDiff.sample` draws complete rows alone.

    Examples
    --------
    >>> IncompleteConfig().step_share
    0.125
    """

    step_share: float = 0.125

    def __post_init__(self) -> None:
        check_least("incomplete.step_share", self.step_share, 0)


@dataclass(frozen=True)
class RefitsConfig:
    """Networks trained further on bootstrap samples of the rows, whose draws differ as fits to other rows would.

    Each of ``number`` refits starts from the fitted network and trains for ``step_share`` of the first training's steps
    at ``rate_share`` of its learning rate. Where cells are missing, ``rounds`` times in the course of this they are
    drawn anew. ``log_sigma_mean`` replaces that of the objective: strong noise is where a missing cell's dependence on
    the known ones is learnt. See `missdiff_fast._engine.refits`.

    Examples
    --------
    >>> RefitsConfig(number=10).step_share
    0.5
    """

    number: int = 0
    step_share: float = 0.5
    rate_share: float = 1.0
    rounds: int = 2
    log_sigma_mean: float = 1.0

    def __post_init__(self) -> None:
        check_integer("refits.number", self.number, 0)
        check_above_zero("refits.step_share", self.step_share)
        check_above_zero("refits.rate_share", self.rate_share)
        check_integer("refits.rounds", self.rounds, 1)
        if not math.isfinite(self.log_sigma_mean):
            raise ValueError(f"refits.log_sigma_mean must be finite, got {self.log_sigma_mean}")
