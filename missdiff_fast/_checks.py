"""Checks of what users pass, before any work is done."""

from __future__ import annotations

import numpy as np

from missdiff_fast.errors import argument_error, argument_type_error

MAX_ROWS = 1 << 40  # more than any memory holds, and few enough that sizes in bytes stay integers of 64 bits


def check_count(name: str, value: object, *, least: int, most: int | None = None) -> int:
    """The value as an int of at least ``least`` and at most ``most``."""
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool):
        raise argument_type_error(name, f"must be an integer, got {value!r}", value)
    if value < least:
        raise argument_error(name, f"must be at least {least}, got {value}", value)
    if most is not None and value > most:
        raise argument_error(name, f"must be at most {most:,}, got {value}", value)
    return int(value)


def check_positive(name: str, value: object) -> float:
    """The value as a finite float above 0."""
    if not isinstance(value, (int, float, np.integer, np.floating)) or isinstance(value, bool):
        raise argument_type_error(name, f"must be a number, got {value!r}", value)
    try:
        number = float(value)
    except OverflowError:
        number = float("inf")
    if not 0 < number < float("inf"):
        raise argument_error(name, f"must be positive and finite, got {value}", value)
    return number
