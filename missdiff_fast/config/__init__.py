"""Settings of a model: one class for each preset."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from missdiff_fast.config.column_states import Config, NetworkConfig
from missdiff_fast.config.drawing import BlendConfig, CalibrationConfig, SolverConfig
from missdiff_fast.config.paper import CSDIConfig, DiffusionConfig, EpochsConfig, PaperConfig
from missdiff_fast.config.table import AtomsConfig, CategoriesConfig, RelationsConfig
from missdiff_fast.config.training import (
    ImputerConfig,
    IncompleteConfig,
    ObjectiveConfig,
    RefineConfig,
    RefitsConfig,
    TrainingConfig,
)

AnyConfig: TypeAlias = Config | PaperConfig
_CLASSES: dict[str, type[Config] | type[PaperConfig]] = {"default": Config, "paper": PaperConfig}
PRESETS = tuple(_CLASSES)

__all__ = [
    "PRESETS",
    "AnyConfig",
    "AtomsConfig",
    "BlendConfig",
    "CSDIConfig",
    "CalibrationConfig",
    "CategoriesConfig",
    "Config",
    "DiffusionConfig",
    "EpochsConfig",
    "ImputerConfig",
    "IncompleteConfig",
    "NetworkConfig",
    "ObjectiveConfig",
    "PaperConfig",
    "RefineConfig",
    "RefitsConfig",
    "RelationsConfig",
    "SolverConfig",
    "TrainingConfig",
    "from_dict",
    "override",
    "preset",
]


def preset(name: str) -> AnyConfig:
    """The settings of a preset, by its name; ValueError for an unknown one.

    Examples
    --------
    >>> preset("default").network.width
    96
    >>> preset("paper").training.epochs
    250
    """
    if name not in PRESETS:
        raise ValueError(f"unknown preset {name!r}; this version has {', '.join(map(repr, PRESETS))}")
    return _CLASSES[name]()


def from_dict(data: dict[str, Any]) -> AnyConfig:
    """The settings from the dictionary that ``to_dict`` made; KeyError or TypeError if it is another one.

    Examples
    --------
    >>> from_dict(PaperConfig(draws=10).to_dict()).draws
    10
    """
    return _CLASSES[data["preset"]].from_dict(data)


def override(config: AnyConfig, settings: Mapping[str, Any]) -> AnyConfig:
    """Replace some settings, each named by its path.

    Parameters
    ----------
    config : Config or PaperConfig
        The settings, which stay as they are.
    settings : mapping
        New values by path, such as ``{"training.batch_size": 64}``.

    Returns
    -------
    Config or PaperConfig
        New settings.

    Raises
    ------
    ValueError
        There is no such setting, or the value is not allowed.

    Examples
    --------
    >>> override(preset("paper"), {"diffusion.sde": "ve", "draws": 10}).diffusion.sde
    've'
    """
    changes = []
    for path, value in settings.items():
        if not isinstance(path, str):
            raise ValueError(f"settings are named by strings such as 'training.batch_size', got {path!r}")
        changes.append((path.split("."), value, path))
    return _replaced(config, changes)


def _elsewhere(path: str) -> str:
    """The presets that have a setting of this path, as the last words of an error message."""
    found = []
    for name in PRESETS:
        part: Any = preset(name)
        for step in path.split("."):
            part = getattr(part, step, None)
        if part is not None and not is_dataclass(part):
            found.append(repr(name))
    return f" ({path} is one of preset {', '.join(found)})" if found else ""


def _replaced(part: Any, changes: list[tuple[list[str], Any, str]]) -> Any:
    """Apply changes to a part of the settings; each is its names within the part, its value and its whole path.

    All changes are applied before the checks run, so that settings that constrain each other, such as the ends of a
    range, can change together.
    """
    known = [field.name for field in fields(part) if field.name != "preset"]
    values: dict[str, Any] = {}
    inner: dict[str, list[tuple[list[str], Any, str]]] = {}
    for names, value, path in changes:
        if names[0] not in known:
            raise ValueError(f"there is no setting {path!r}; here are {', '.join(known)}{_elsewhere(path)}")
        old = getattr(part, names[0])
        if is_dataclass(old) != (len(names) > 1):
            where = f"{path}.{fields(old)[0].name}" if is_dataclass(old) else path.rpartition(".")[0]
            raise ValueError(f"{path!r} is not one setting; name one, as in {where!r}")
        if is_dataclass(old):
            inner.setdefault(names[0], []).append((names[1:], value, path))
        else:
            values[names[0]] = _in_type_of(old, value, path)
    return replace(part, **values, **{name: _replaced(getattr(part, name), them) for name, them in inner.items()})


def _in_type_of(old: Any, value: Any, path: str) -> Any:
    """The new value in the type of the old one; ValueError where that would change it."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(old, float) and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if isinstance(old, tuple) and isinstance(value, list):
        value = tuple(value)
    if old is not None and not isinstance(value, type(old)):
        raise ValueError(f"setting {path!r} must be of type {type(old).__name__}, got {value!r}")
    return value
