"""Checks of arguments and settings, before any work is done.

An argument may be a NumPy number: its check gives the Python number. A setting has its Python type already; every fault
of a setting, its type too, is a ValueError.
"""

from __future__ import annotations

import math

import numpy as np

from missdiff_fast.errors import argument_error, argument_type_error

MAX_ROWS = 1 << 40  # more than any memory holds, and few enough that sizes in bytes stay integers of 64 bits


def check_count(name: str, value: object, *, least: int, most: int | None = None) -> int:
    """An argument as an int of at least ``least`` and at most ``most``."""
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool):
        raise argument_type_error(name, f"must be an integer, got {value!r}", value)
    if value < least:
        raise argument_error(name, f"must be at least {least}, got {value}", value)
    if most is not None and value > most:
        raise argument_error(name, f"must be at most {most:,}, got {value}", value)
    return int(value)


def check_positive(name: str, value: object) -> float:
    """An argument as a finite float above 0."""
    if not isinstance(value, (int, float, np.integer, np.floating)) or isinstance(value, bool):
        raise argument_type_error(name, f"must be a number, got {value!r}", value)
    try:
        number = float(value)
    except OverflowError:
        number = float("inf")
    if not 0 < number < float("inf"):
        raise argument_error(name, f"must be positive and finite, got {value}", value)
    return number


def check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    """A setting is one of a few names."""
    if value not in choices:
        raise argument_error(name, f"must be one of {', '.join(map(repr, choices))}, got {value!r}", value)


def check_boolean(name: str, value: object) -> None:
    """A setting is True or False."""
    if not isinstance(value, bool):
        raise argument_error(name, f"must be True or False, got {value!r}", value)


def check_integer(name: str, value: object, least: int, *, even: bool = False) -> None:
    """A setting is an integer of at least ``least``; with ``even``, an even one."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least or (even and value % 2):
        raise argument_error(name, f"must be an {'even ' * even}integer of at least {least}, got {value!r}", value)


def check_integer_or_none(name: str, value: object, least: int) -> None:
    """A setting is an integer of at least ``least``, or None."""
    if value is not None:
        check_integer(name, value, least)


def check_share(name: str, value: object) -> None:
    """A setting is a number from 0 to 1."""
    if not _is_number(value) or not 0 <= value <= 1:  # type: ignore[operator]
        raise argument_error(name, f"must be a number from 0 to 1, got {value!r}", value)


def check_above_zero(name: str, value: object) -> None:
    """A setting is a finite number greater than 0."""
    if not _is_number(value) or not 0 < value < math.inf:  # type: ignore[operator]
        raise argument_error(name, f"must be greater than 0 and finite, got {value!r}", value)


def check_least(name: str, value: object, least: float) -> None:
    """A setting is a finite number of at least ``least``."""
    if not _is_number(value) or not least <= value < math.inf:  # type: ignore[operator]
        raise argument_error(name, f"must be at least {least:g} and finite, got {value!r}", value)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
