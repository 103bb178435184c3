"""Settings of the preset "default"."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from missdiff_fast._checks import check_integer
from missdiff_fast.config.drawing import BlendConfig, CalibrationConfig, SolverConfig
from missdiff_fast.config.table import AtomsConfig, CategoriesConfig, RelationsConfig
from missdiff_fast.config.training import ObjectiveConfig, RefineConfig, RefitsConfig, TrainingConfig

_NO_BUDGET = 1 << 31  # of atoms: more than there can be
_NO_ATOMS = {"share": 1.0, "budget": 600}


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
        """The inverse of `to_dict`. What an older version did not do is off; its atoms had no budget and no spike.

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
            atoms=AtomsConfig(**{"spike": 0.0, "budget": _NO_BUDGET, **data.get("atoms", _NO_ATOMS)}),
            calibration=CalibrationConfig(**data.get("calibration", {"rounds": 0})),
            blend=BlendConfig(**{"draws": False, **data.get("blend", {"rows_per_feature": 0})}),
            refits=RefitsConfig(**data.get("refits", {})),
            categories=CategoriesConfig(**data.get("categories", {})),
            relations=RelationsConfig(**data.get("relations", {"enabled": False})),  # older versions sought none
        )
