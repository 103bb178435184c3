"""Settings of the preset "default"."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from missdiff_fast._checks import check_integer
from missdiff_fast.config.drawing import BlendConfig, CalibrationConfig, SolverConfig
from missdiff_fast.config.table import AtomsConfig, CategoriesConfig, RelationsConfig
from missdiff_fast.config.training import (
    ImputerConfig,
    IncompleteConfig,
    ObjectiveConfig,
    RefineConfig,
    RefitsConfig,
    TrainingConfig,
)


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
    imputer: ImputerConfig = field(default_factory=ImputerConfig)
    incomplete: IncompleteConfig = field(default_factory=IncompleteConfig)
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
        """The inverse of `to_dict`."""
        return cls(
            preset=data["preset"],
            network=NetworkConfig(**data["network"]),
            objective=ObjectiveConfig(**data["objective"]),
            training=TrainingConfig(**data["training"]),
            refine=RefineConfig(**data["refine"]),
            imputer=ImputerConfig(**data["imputer"]),
            incomplete=IncompleteConfig(**data["incomplete"]),
            solver=SolverConfig(**data["solver"]),
            atoms=AtomsConfig(**data["atoms"]),
            categories=CategoriesConfig(**data["categories"]),
            calibration=CalibrationConfig(**data["calibration"]),
            blend=BlendConfig(**data["blend"]),
            refits=RefitsConfig(**data["refits"]),
            relations=RelationsConfig(**data["relations"]),
        )
