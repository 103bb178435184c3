"""Numeric features of tables, for models that take only numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from missdiff_fast.errors import DataError, Text
from missdiff_fast.evaluate._tables import as_numbers, in_order
from missdiff_fast.remedies import Do, Drop, Table

if TYPE_CHECKING:
    from collections.abc import Collection

_MAX_CATEGORIES = 100
_GREATEST = float(np.finfo("float32").max)  # the models compute in float32
_HEAVY, _SMALLEST, _TOP = 1000.0, 0.01, 5.0


class Features:
    """Numeric features of tables, with scales and categories learnt from one of them.

    A column of numbers gives one feature: log(max(x, 0.01)) where the table learnt from has no negative value and one
    of 1000 or more, otherwise x mapped linearly so that this table's range becomes [0, 5] (0 for a constant). Durations
    count in hours, dates in days. Any other column gives one indicator for each of its 100 most frequent categories
    there; a category without an indicator, such as one that only another table has, makes all of them 0.

    Source: the scales are those of Kim et al. (2023), STaSy, whose published code keeps columns of two categories as
    one feature of 0 and 1, and takes ranges from the real table.

    Parameters
    ----------
    table : DataFrame
        Complete, with the columns to be used.
    numbers : collection of str
        The columns taken as numbers.

    Examples
    --------
    >>> table = pd.DataFrame({"x": [0.0, 10.0], "y": ["a", "b"]})
    >>> Features(table, ["x"]).transform(pd.DataFrame({"x": [4.0, 20.0], "y": ["b", "c"]})).tolist()
    [[2.0, 0.0, 1.0], [10.0, 0.0, 0.0]]
    """

    def __init__(self, table: pd.DataFrame, numbers: Collection[str]) -> None:
        self._ranges: dict[str, tuple[float, float]] = {}
        self._categories: dict[str, pd.Index] = {}
        for column in table.columns:
            if column in numbers:
                x = as_numbers(table[column])
                self._ranges[column] = float(x.min()), float(x.max())
            else:
                cells = table[column].astype("object")
                kept = cells.isin(cells.value_counts().index[:_MAX_CATEGORIES])
                self._categories[column] = pd.Index(in_order(cells[kept]), dtype="object")

    def transform(self, table: pd.DataFrame, name: str = "given") -> np.ndarray:
        """Compute the features of a complete table: float64 ``[N, F]``, numbers first.

        Raises ValueError, naming the table, for a number out of all proportion to those learnt from.
        """
        parts = [np.zeros((len(table), 0))]
        for column, (low, high) in self._ranges.items():
            x = as_numbers(table[column])
            if low >= 0 and high >= _HEAVY:
                parts.append(np.log(np.maximum(x, _SMALLEST))[:, None])
            else:
                part = (x / 2 - low / 2) / (high / 2 - low / 2 or 0.5) * _TOP
                if np.abs(part).max(initial=0) > _GREATEST:
                    odd = x[np.abs(part).argmax()]
                    template = (
                        "column {column!r} of {table} has the value {odd:g}, out of all proportion to the range from "
                        "{low:g} to {high:g} that is learnt from"
                    )
                    raise DataError(
                        "proportion",
                        Text(template, column=column, table=Table(name), odd=odd, low=low, high=high),
                        columns=[column],
                        value=odd,
                        remedy=(Do("correct it"), Drop((column,))),
                        joint="; ",
                    )
                parts.append(part[:, None])
        for column, categories in self._categories.items():
            codes = categories.get_indexer(pd.Index(table[column], dtype="object"))
            parts.append((codes[:, None] == np.arange(len(categories))).astype(float))
        return np.concatenate(parts, axis=1)
