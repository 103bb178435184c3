"""Settings of the preset "paper"."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from missdiff_fast._checks import (
    check_above_zero,
    check_choice,
    check_integer,
    check_integer_or_none,
    check_least,
    check_share,
)

MISSING_CODES = ("category", "zero")
_MOST_STEPS = 100_000  # the network's table of step embeddings has a row for each
_LEAST_NOISE = 1e-6


@dataclass(frozen=True)
class DiffusionConfig:
    """The noising process and its reverse.

    ``sde`` is "vp" (beta_1 to beta_T, the paper's) or "ve" (sigma from ``sigma_min`` to ``sigma_max``). ``steps`` is
    T: 100, or 150 for MIMIC4ED. ``variance`` of a reverse step is "beta", as Algorithm 2 prints it, or "posterior".

    Examples
    --------
    >>> DiffusionConfig(steps=150).beta_max
    0.5
    >>> DiffusionConfig(sde="ddpm")
    Traceback (most recent call last):
        ...
    missdiff_fast.errors.DataError: diffusion.sde must be one of 'vp', 've', got 'ddpm'
    """

    sde: str = "vp"
    steps: int = 100
    beta_min: float = 1e-4
    beta_max: float = 0.5
    sigma_min: float = 0.01
    sigma_max: float = 10.0
    variance: str = "beta"

    def __post_init__(self) -> None:
        check_choice("diffusion.sde", self.sde, ("vp", "ve"))
        check_choice("diffusion.variance", self.variance, ("beta", "posterior"))
        check_integer("diffusion.steps", self.steps, 2)
        if not 0 < self.beta_min <= self.beta_max < 1:
            raise ValueError(f"0 < diffusion.beta_min <= beta_max < 1, got {self.beta_min} and {self.beta_max}")
        check_above_zero("diffusion.sigma_max", self.sigma_max)
        if not 0 < self.sigma_min < self.sigma_max:
            raise ValueError(f"0 < diffusion.sigma_min < sigma_max, got {self.sigma_min} and {self.sigma_max}")
        if self.steps > _MOST_STEPS:
            raise ValueError(f"diffusion.steps must be at most {_MOST_STEPS:,}, got {self.steps:,}")
        if self.beta_min < _LEAST_NOISE**2 or self.sigma_min < _LEAST_NOISE or self.sigma_max > 1 / _LEAST_NOISE:
            raise ValueError(
                f"noise must be within float32's reach: diffusion.beta_min at least {_LEAST_NOISE**2:g}, sigma_min at "
                f"least {_LEAST_NOISE:g}, sigma_max at most {1 / _LEAST_NOISE:g}, got {self.beta_min}, "
                f"{self.sigma_min} and {self.sigma_max}"
            )


@dataclass(frozen=True)
class CSDIConfig:
    """The attention network, with a token for each encoded column; see `missdiff_fast.networks.CSDINetwork`.

    Examples
    --------
    >>> CSDIConfig(channels=128).layers
    4
    """

    channels: int = 64
    layers: int = 4
    heads: int = 4
    embedding: int = 128
    column_embedding: int = 128
    feature_embedding: int = 8
    hidden: int = 64
    dropout: float = 0.1

    def __post_init__(self) -> None:
        for name in ("channels", "layers", "heads"):
            check_integer(f"network.{name}", getattr(self, name), 1)
        check_integer("network.embedding", self.embedding, 4, even=True)
        check_integer("network.column_embedding", self.column_embedding, 2, even=True)
        check_integer("network.feature_embedding", self.feature_embedding, 0)
        check_integer("network.hidden", self.hidden, 1)
        check_share("network.dropout", self.dropout)
        if self.channels % self.heads:
            raise ValueError(
                f"network.channels must be a multiple of network.heads, got {self.channels} and {self.heads}"
            )


@dataclass(frozen=True)
class EpochsConfig:
    """Adam; at each of ``milestones``, shares of the steps, the learning rate is multiplied by ``decay``.

    ``steps`` overrides ``epochs``.

    Examples
    --------
    >>> EpochsConfig(steps=1_000).resolve(16_000)
    (1000, 64)
    """

    epochs: int = 250
    steps: int | None = None
    batch_size: int = 64
    learning_rate: float = 5e-4
    weight_decay: float = 1e-6
    milestones: tuple[float, ...] = (0.25, 0.5, 0.75, 0.9)
    decay: float = 0.1

    def __post_init__(self) -> None:
        check_integer("training.epochs", self.epochs, 1)
        check_integer_or_none("training.steps", self.steps, 1)
        check_integer("training.batch_size", self.batch_size, 1)
        check_above_zero("training.learning_rate", self.learning_rate)
        check_least("training.weight_decay", self.weight_decay, 0)
        for share in self.milestones:
            check_share("each of training.milestones", share)
        check_above_zero("training.decay", self.decay)

    def resolve(self, num_rows: int) -> tuple[int, int]:
        """Steps and batch size for a table.

        >>> EpochsConfig().resolve(16_000)
        (62500, 64)
        """
        batch_size = min(self.batch_size, num_rows)
        return self.steps or max(1, self.epochs * (num_rows // batch_size)), batch_size

    def rate(self, step: int, steps: int) -> float:
        """The learning rate of one of ``steps`` steps, numbered from 0.

        >>> EpochsConfig().rate(50, 100) == 5e-4 * 0.1**2
        True
        """
        return self.learning_rate * self.decay ** sum(step >= int(share * steps) for share in self.milestones)


@dataclass(frozen=True)
class PaperConfig:
    """All settings of the preset "paper".

    ``missing`` is how a missing category is encoded, "category" or "zero" (`missdiff_fast.table.min_max`); an
    imputation is the median of ``draws`` draws.

    Examples
    --------
    >>> config = PaperConfig(diffusion=DiffusionConfig(steps=150))
    >>> config.draws, config.network.channels, config.diffusion.steps
    (100, 64, 150)
    >>> PaperConfig.from_dict(config.to_dict()) == config
    True
    """

    preset: str = "paper"
    missing: str = "category"
    draws: int = 100
    diffusion: DiffusionConfig = field(default_factory=DiffusionConfig)
    network: CSDIConfig = field(default_factory=CSDIConfig)
    training: EpochsConfig = field(default_factory=EpochsConfig)

    def __post_init__(self) -> None:
        check_choice("missing", self.missing, MISSING_CODES)
        check_integer("draws", self.draws, 1)

    def to_dict(self) -> dict[str, Any]:
        """The settings as plain dictionaries, for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> PaperConfig:
        """The inverse of `to_dict`; lists that JSON made of tuples become tuples again."""
        training = {**data["training"], "milestones": tuple(data["training"]["milestones"])}
        return cls(
            preset=data["preset"],
            missing=data["missing"],
            draws=data["draws"],
            diffusion=DiffusionConfig(**data["diffusion"]),
            network=CSDIConfig(**data["network"]),
            training=EpochsConfig(**training),
        )
