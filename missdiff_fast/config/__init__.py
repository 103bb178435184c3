"""Every setting of a model: a class of settings for each preset."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeAlias

from missdiff_fast.config.column_states import (
    Config,
    NetworkConfig,
    ObjectiveConfig,
    RefineConfig,
    SolverConfig,
    TrainingConfig,
)
from missdiff_fast.config.paper import CSDIConfig, DiffusionConfig, EpochsConfig, PaperConfig

AnyConfig: TypeAlias = Config | PaperConfig
_CLASSES: dict[str, type[Config] | type[PaperConfig]] = {"default": Config, "paper": PaperConfig}
PRESETS = tuple(_CLASSES)

__all__ = [
    "PRESETS",
    "AnyConfig",
    "CSDIConfig",
    "Config",
    "DiffusionConfig",
    "EpochsConfig",
    "NetworkConfig",
    "ObjectiveConfig",
    "PaperConfig",
    "RefineConfig",
    "SolverConfig",
    "TrainingConfig",
    "from_dict",
    "override",
    "preset",
]


def preset(name: str) -> AnyConfig:
    """The settings of a preset.

    >>> preset("default").network.width
    128
    >>> preset("paper").training.epochs
    250
    """
    if name not in PRESETS:
        raise ValueError(f"unknown preset {name!r}; this version has {', '.join(map(repr, PRESETS))}")
    return _CLASSES[name]()


def from_dict(data: dict[str, Any]) -> AnyConfig:
    """The settings that ``to_dict`` gave; KeyError or TypeError if these are none."""
    return _CLASSES[data["preset"]].from_dict(data)


def override(config: AnyConfig, settings: Mapping[str, Any]) -> AnyConfig:
    """The settings with some of them replaced, each named by its path.

    Raises
    ------
    ValueError
        No such setting, or a value that it cannot have.

    Examples
    --------
    >>> override(preset("paper"), {"diffusion.sde": "ve", "draws": 10}).diffusion.sde
    've'
    """
    for path, value in settings.items():
        config = _replaced(config, path.split("."), value, path)
    return config


def _replaced(part: Any, names: list[str], value: Any, path: str) -> Any:
    known = [field.name for field in fields(part) if field.name != "preset"]
    if names[0] not in known:
        raise ValueError(f"there is no setting {path!r}; here are {', '.join(known)}")
    old = getattr(part, names[0])
    if len(names) > 1 or is_dataclass(old):
        if len(names) == 1 or not is_dataclass(old):
            where = f"{path}.{fields(old)[0].name}" if is_dataclass(old) else names[0]
            raise ValueError(f"{path!r} is not one setting; name one, as in {where!r}")
        return replace(part, **{names[0]: _replaced(old, names[1:], value, path)})
    if isinstance(old, float) and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if old is not None and not isinstance(value, type(old)):
        raise ValueError(f"setting {path!r} must be of type {type(old).__name__}, got {value!r}")
    return replace(part, **{names[0]: value})
