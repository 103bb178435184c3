"""Levels of effort: settings of the preset "default" that take less or more time than its own."""

from __future__ import annotations

from typing import Any

import pandas as pd

from missdiff_fast.errors import argument_error, argument_type_error

EFFORTS: dict[str, dict[str, Any]] = {
    "quick": {"training.effort": 0.25, "solver.steps": 10, "calibration.rounds": 2, "calibration.rows": 8192},
    "default": {},
    "best": {
        "training.effort": 5.0,
        "training.patience": 4,
        "network.width": 160,
        "solver.steps": 30,
        "calibration.rounds": 5,
    },
}


def effort_settings(effort: object) -> dict[str, Any]:
    """The settings of a level of effort, by path.

    Raises
    ------
    ValueError
        There is no such level.

    Examples
    --------
    >>> effort_settings("quick")["training.effort"]
    0.25
    """
    if not isinstance(effort, str) or effort not in EFFORTS:
        raise argument_error("effort", f"must be one of {', '.join(map(repr, EFFORTS))}, got {effort!r}", effort)
    return EFFORTS[effort]


def budget_seconds(budget: object) -> float:
    """A budget of time in seconds.

    Parameters
    ----------
    budget : str or number
        Such as "2min", "90s" or "1h", or a number of seconds.

    Raises
    ------
    TypeError, ValueError
        It is no time, or none above 0.

    Examples
    --------
    >>> budget_seconds("2min"), budget_seconds(90)
    (120.0, 90.0)
    """
    rule = f"must be a time above 0 such as '2min', '90s' or a number of seconds, got {budget!r}"
    if isinstance(budget, bool) or not isinstance(budget, (str, int, float)):
        raise argument_type_error("budget", rule, budget)
    try:
        seconds = float(budget)
    except (ValueError, OverflowError):
        try:
            seconds = pd.Timedelta(budget).total_seconds()
        except ValueError:
            raise argument_error("budget", rule, budget) from None
    if not 0 < seconds < float("inf"):
        raise argument_error("budget", rule, budget)
    return seconds
