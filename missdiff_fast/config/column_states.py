"""Settings of the preset "default"."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Any

from missdiff_fast._checks import (
    check_above_zero,
    check_boolean,
    check_choice,
    check_integer,
    check_integer_or_none,
    check_least,
    check_share,
)

_NO_BUDGET = 1 << 31  # of atoms: more than there can be


@dataclass(frozen=True)
class NetworkConfig:
    """The network: residual blocks of one hidden vector for each row.

    ``embedding`` is the width of the noise level's embedding.

    Examples
    --------
    >>> NetworkConfig(width=64)
    NetworkConfig(width=64, blocks=3, embedding=64)
    >>> NetworkConfig(embedding=7)
    Traceback (most recent call last):
        ...
    missdiff_fast.errors.DataError: network.embedding must be an even integer of at least 2, got 7
    """

    width: int = 96
    blocks: int = 3
    embedding: int = 64

    def __post_init__(self) -> None:
        check_integer("network.width", self.width, 1)
        check_integer("network.blocks", self.blocks, 0)
        check_integer("network.embedding", self.embedding, 2, even=True)


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

    Examples
    --------
    >>> TrainingConfig(epochs=10, batch_size=100).resolve(1_000)
    (100, 100)
    """

    steps: int | None = None
    epochs: int | None = None
    batch_size: int | None = None
    learning_rate: float = 4e-3
    warmup: int = 100
    ema: float = 0.998
    effort: float = 1.0
    budget: float | None = None

    def __post_init__(self) -> None:
        for name in ("steps", "epochs", "batch_size"):
            check_integer_or_none(f"training.{name}", getattr(self, name), 1)
        check_above_zero("training.learning_rate", self.learning_rate)
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
        """Steps and batch size for a table: at most 4,000 steps of 384 rows; for a small table about 200 epochs.

        >>> TrainingConfig().resolve(16_000)
        (4000, 384)
        >>> TrainingConfig(effort=2.0).resolve(16_000)
        (8000, 384)
        """
        batch_size = self.batch_size
        if batch_size is None:
            batch_size = 384 if num_rows >= 4_096 else max(32, min(256, 1 << max(num_rows // 8, 1).bit_length() - 1))
        steps = self.steps or (self.epochs and max(1, self.epochs * num_rows // batch_size))
        return steps or max(1, round(self.effort * min(4000, max(500, 200 * num_rows // batch_size)))), batch_size


@dataclass(frozen=True)
class RefineConfig:
    """Further training on a table whose missing cells are filled with conditional draws.

    A round draws the missing cells given the observed ones with ``solver_steps`` steps, then trains for ``step_share``
    of the first training's steps at ``rate_share`` of its learning rate. In a share ``show`` of the rows the drawn
    cells are noisy columns; in the others they are hidden. Drawn cells of columns that are observed in at least
    ``trusted_rate`` of the rows enter the loss where sigma exceeds ``trusted_sigma``. ``rounds`` of None is one round
    where at most half of the cells are missing, else two. A complete table has none.

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
    solver_steps: int = 15

    def __post_init__(self) -> None:
        check_integer_or_none("refine.rounds", self.rounds, 0)
        check_above_zero("refine.step_share", self.step_share)
        check_above_zero("refine.rate_share", self.rate_share)
        check_share("refine.show", self.show)
        check_share("refine.trusted_rate", self.trusted_rate)
        check_least("refine.trusted_sigma", self.trusted_sigma, 0)
        check_integer("refine.solver_steps", self.solver_steps, 1)

    def rounds_for(self, missing: float) -> int:
        """The number of rounds for a table with this share of missing cells."""
        if missing == 0:
            return 0
        if self.rounds is not None:
            return self.rounds
        return 1 if missing <= 0.5 else 2


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
class AtomsConfig:
    """Frequent values of continuous columns that are categories of their own.

    An atom is a value of at least a share ``share`` of the column's observed cells, and of at least ``count`` cells; of
    a column, at most the 256 most frequent ones. Of more than ``budget`` atoms of all columns, those of the greatest
    shares are kept, because each widens the encoded row and costs time; atoms of a share of 5 % are always kept. A
    share of 1 is no atoms. See `missdiff_fast.table.atoms`.

    Examples
    --------
    >>> AtomsConfig(share=0.001)
    AtomsConfig(share=0.001, count=10, budget=600)
    """

    share: float = 0.0003
    count: int = 10
    budget: int = 600

    def __post_init__(self) -> None:
        check_share("atoms.share", self.share)
        check_integer("atoms.count", self.count, 1)
        check_integer("atoms.budget", self.budget, 1)


@dataclass(frozen=True)
class CalibrationConfig:
    """Rounds of drawing rows and weighting categories after training; see `missdiff_fast._engine.calibration`.

    0 rounds is none.

    Examples
    --------
    >>> CalibrationConfig(rounds=0)
    CalibrationConfig(rounds=0)
    """

    rounds: int = 3

    def __post_init__(self) -> None:
        check_integer("calibration.rounds", self.rounds, 0)


@dataclass(frozen=True)
class BlendConfig:
    """Imputation that averages the network's results with those of a joint normal distribution.

    A network learns slowly what a linear model sees at once, so of few rows it imputes worse; see
    `missdiff_fast._engine.blending`. The distribution has two features for each number and one for each category. It
    is fitted to tables of at most ``rows_per_feature`` rows for each feature, and of at most ``features`` features,
    whose cube is its cost; each column's weight in the average follows from the errors on rows held out. 0
    ``rows_per_feature`` is none.

    Examples
    --------
    >>> BlendConfig().applies(num_rows=1629, num_features=177), BlendConfig().applies(num_rows=48842, num_features=120)
    (True, False)
    """

    rows_per_feature: int = 100
    features: int = 1000

    def __post_init__(self) -> None:
        check_integer("blend.rows_per_feature", self.rows_per_feature, 0)
        check_integer("blend.features", self.features, 1)

    def applies(self, num_rows: int, num_features: int) -> bool:
        """Whether the distribution is fitted to a table with these numbers of rows and features."""
        return num_rows <= self.rows_per_feature * num_features and num_features <= self.features


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


@dataclass(frozen=True)
class CategoriesConfig:
    """Categorical columns of many categories.

    A column of more than ``one_hot`` categories is two columns to the network, of about the square root of their number
    each. See `missdiff_fast.table.wide`.

    Examples
    --------
    >>> CategoriesConfig().one_hot
    100
    """

    one_hot: int = 100

    def __post_init__(self) -> None:
        check_integer("categories.one_hot", self.one_hot, 2)


@dataclass(frozen=True)
class RelationsConfig:
    """Whether columns that others determine are found, and kept consistent; see `missdiff_fast.table.relations`.

    Examples
    --------
    >>> RelationsConfig()
    RelationsConfig(enabled=True)
    """

    enabled: bool = True

    def __post_init__(self) -> None:
        check_boolean("relations.enabled", self.enabled)


@dataclass(frozen=True)
class Config:
    """All settings of the preset "default".

    Examples
    --------
    >>> config = Config(solver=SolverConfig(steps=20))
    >>> config.training.learning_rate, config.solver.steps
    (0.004, 20)
    >>> Config.from_dict(config.to_dict()) == config
    True
    """

    preset: str = "default"
    network: NetworkConfig = field(default_factory=NetworkConfig)
    objective: ObjectiveConfig = field(default_factory=ObjectiveConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    refine: RefineConfig = field(default_factory=RefineConfig)
    solver: SolverConfig = field(default_factory=SolverConfig)
    atoms: AtomsConfig = field(default_factory=AtomsConfig)
    categories: CategoriesConfig = field(default_factory=CategoriesConfig)
    calibration: CalibrationConfig = field(default_factory=CalibrationConfig)
    blend: BlendConfig = field(default_factory=BlendConfig)
    refits: RefitsConfig = field(default_factory=RefitsConfig)
    relations: RelationsConfig = field(default_factory=RelationsConfig)

    def to_dict(self) -> dict[str, Any]:
        """The settings as plain dictionaries, for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Config:
        """The inverse of `to_dict`. What an older version did not do is off; its atoms had no budget.

        Its precision "tf32", which this version does not have, becomes "float32".
        """
        solver = {"draw_categories": False, **data["solver"]}
        if solver["precision"] == "tf32":
            solver = {**solver, "precision": "float32"}
        return cls(
            preset=data["preset"],
            network=NetworkConfig(**data["network"]),
            objective=ObjectiveConfig(**data["objective"]),
            training=TrainingConfig(**data["training"]),
            refine=RefineConfig(**data["refine"]),
            solver=SolverConfig(**solver),
            atoms=AtomsConfig(**{"budget": _NO_BUDGET, **data.get("atoms", {"share": 1.0, "budget": 600})}),
            calibration=CalibrationConfig(**data.get("calibration", {"rounds": 0})),
            blend=BlendConfig(**data.get("blend", {"rows_per_feature": 0})),
            refits=RefitsConfig(**data.get("refits", {})),
            categories=CategoriesConfig(**data.get("categories", {})),
            relations=RelationsConfig(**data.get("relations", {"enabled": False})),  # older versions sought none
        )
