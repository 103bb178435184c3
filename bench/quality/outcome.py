"""The result of a run of a method: tables and times."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd


@dataclass(frozen=True)
class Outcome:
    """Tables and times of one run; a method need not give them all.

    Parameters
    ----------
    seconds : dict
        Of its steps, such as ``fit_s``.
    version : str
        Of the package that the method is from.
    filled : DataFrame, optional
        All rows, every hole filled once.
    draws : list of DataFrame, optional
        The first rows, every hole filled several times.
    synthetic : DataFrame, optional
        Rows of its own, as many as it was given.
    """

    seconds: dict[str, float]
    version: str
    filled: pd.DataFrame | None = None
    draws: list[pd.DataFrame] | None = None
    synthetic: pd.DataFrame | None = None
