"""Settings of the rows that the preset "default" draws and imputes."""

from __future__ import annotations

from dataclasses import dataclass

from missdiff_fast._checks import (
    check_above_zero,
    check_boolean,
    check_choice,
    check_integer,
)

LEAST_ROWS = 1024  # of a round of calibration


@dataclass(frozen=True)
class SolverConfig:
    """Steps and noise levels of the sampler: ``steps`` sigmas from ``sigma_max`` to ``sigma_min``.

    The levels are even in sigma^(1/rho). A category is drawn from its last probabilities, or without
    ``draw_categories`` is the most probable one. ``precision`` is that of the factors of the network's matrix products
    on a CUDA device, "bfloat16" or "float32"; sums and all else are float32. The CPU computes in float32.

    Examples
    --------
    >>> SolverConfig(steps=20)
    SolverConfig(steps=20, sigma_max=20.0, sigma_min=0.15, rho=5.0, precision='bfloat16', draw_categories=True)
    """

    steps: int = 15
    sigma_max: float = 20.0
    sigma_min: float = 0.15
    rho: float = 5.0
    precision: str = "bfloat16"
    draw_categories: bool = True

    def __post_init__(self) -> None:
        check_choice("solver.precision", self.precision, ("bfloat16", "float32"))
        check_integer("solver.steps", self.steps, 1)
        check_above_zero("solver.sigma_max", self.sigma_max)
        if not 0 < self.sigma_min < self.sigma_max:
            raise ValueError(f"0 < solver.sigma_min < sigma_max, got {self.sigma_min} and {self.sigma_max}")
        check_above_zero("solver.rho", self.rho)


@dataclass(frozen=True)
class CalibrationConfig:
    """Calibration of drawn rows after training; see `missdiff_fast._engine.calibration`.

    ``rounds`` of drawing rows weight the categories, and at most two rounds those drawn given known cells; 0 rounds is
    no calibration. The last round draws ``rows`` rows, or of a small table four times its rows, 1,024 at least. With
    ``scores``, the quantiles of the scores are calibrated too, by the last round's rows, and the dependence of rarely
    observed columns, by two more draws of up to twice as many rows each.

    `MissDiff.impute_draws` ends at a noise level from ``solver.sigma_min`` to ``sigma_min``, but at most half of
    ``solver.sigma_max``, at which draws of hidden cells of held-out rows spread as the truth does; see
    `missdiff_fast._engine.spread`.

    Examples
    --------
    >>> CalibrationConfig(rounds=0)
    CalibrationConfig(rounds=0, rows=32768, scores=True, sigma_min=0.65)
    """

    rounds: int = 3
    rows: int = 1 << 15
    scores: bool = True
    sigma_min: float = 0.65

    def __post_init__(self) -> None:
        check_above_zero("calibration.sigma_min", self.sigma_min)
        check_integer("calibration.rounds", self.rounds, 0)
        check_integer("calibration.rows", self.rows, LEAST_ROWS)
        check_boolean("calibration.scores", self.scores)


@dataclass(frozen=True)
class BlendConfig:
    """Imputation that averages the network's results with those of a joint normal distribution.

    A network learns slowly what a linear model sees at once, so of few rows it imputes worse; see
    `missdiff_fast._engine.blending`. The distribution has two features for each number and one for each category. It
    is fitted to tables of at most ``rows_per_feature`` rows for each feature, and of at most ``features`` features,
    whose cube is its cost; each column's weight in the average follows from the errors on rows held out. 0
    ``rows_per_feature`` is none. With ``draws``, `missdiff_fast.MissDiff.impute_draws` draws the columns that such a
    distribution draws better on rows held out from it; see `missdiff_fast._engine.joint_draws`.

    Examples
    --------
    >>> BlendConfig().applies(num_rows=1629, num_features=177), BlendConfig().applies(num_rows=48842, num_features=120)
    (True, False)
    """

    rows_per_feature: int = 100
    features: int = 1000
    draws: bool = True

    def __post_init__(self) -> None:
        check_integer("blend.rows_per_feature", self.rows_per_feature, 0)
        check_integer("blend.features", self.features, 1)
        check_boolean("blend.draws", self.draws)

    def applies(self, num_rows: int, num_features: int) -> bool:
        """Whether the distribution is fitted to a table with these numbers of rows and features."""
        return num_rows <= self.rows_per_feature * num_features and num_features <= self.features
