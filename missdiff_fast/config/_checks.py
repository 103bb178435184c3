"""Checks of single settings. Each raises a ValueError that names the setting, the allowed values and the given one."""

from __future__ import annotations

import math


def check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    """One of a few names."""
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}")


def check_whole(name: str, value: object, least: int, *, even: bool = False) -> None:
    """An integer of at least ``least``; with ``even``, an even one."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least or (even and value % 2):
        raise ValueError(f"{name} must be an {'even ' * even}integer of at least {least}, got {value!r}")


def check_whole_or_none(name: str, value: object, least: int) -> None:
    """An integer of at least ``least``, or None."""
    if value is not None:
        check_whole(name, value, least)


def check_share(name: str, value: object) -> None:
    """A number from 0 to 1."""
    if not _is_number(value) or not 0 <= value <= 1:  # type: ignore[operator]
        raise ValueError(f"{name} must be a number from 0 to 1, got {value!r}")


def check_above_zero(name: str, value: object) -> None:
    """A finite number greater than 0."""
    if not _is_number(value) or not 0 < value < math.inf:  # type: ignore[operator]
        raise ValueError(f"{name} must be greater than 0 and finite, got {value!r}")


def check_least(name: str, value: object, least: float) -> None:
    """A finite number of at least ``least``."""
    if not _is_number(value) or not least <= value < math.inf:  # type: ignore[operator]
        raise ValueError(f"{name} must be at least {least:g} and finite, got {value!r}")


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
