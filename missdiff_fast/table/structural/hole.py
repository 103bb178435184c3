"""One column's structural holes, explained by one other column."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from missdiff_fast.table.schema import Name


@dataclass(frozen=True, eq=False)
class StructuralHole:
    """A column, and the values of another with which it has no cell.

    Parameters
    ----------
    column, source : str or int
        The column that has the holes, and the one that explains them.
    numbers : ndarray
        The values of the source with which the cell is always missing, ascending, float64 ``[V]``: see
        `missdiff_fast.table.relations.fields.Field.numbers`.
    rows : int
        How many training rows have these values.
    elsewhere : float
        Of the training rows with other values, the share that have the cell.
    likely, without : float
        The most frequent value of the source in rows that have the cell, and the most frequent one of ``numbers``.
    """

    column: Name
    source: Name
    numbers: np.ndarray
    rows: int
    elsewhere: float
    likely: float
    without: float
