"""Reducing a column's categories."""

from __future__ import annotations

import numpy as np
import pandas as pd

from missdiff_fast.table.strings import factorize


def cap_categories(series: pd.Series, keep: int, other: str = "other") -> pd.Series:
    """A column with its most frequent categories, and the rest called one name.

    Parameters
    ----------
    series : Series
        Strings, or a category dtype of strings.
    keep : int
        How many categories to keep; of equally frequent ones those that come first.
    other : str
        What the rest is called.

    Returns
    -------
    Series
        With the index, name and dtype of ``series`` (a category dtype loses the categories that are gone and gains
        ``other`` at its end); missing cells stay missing. A column that has no more than ``keep`` categories is
        returned as it is.

    Raises
    ------
    ValueError
        If ``keep`` is less than 1.

    Examples
    --------
    >>> cap_categories(pd.Series(["b", "a", "b", None, "c"]), keep=1).tolist()
    ['b', 'other', 'b', None, 'other']
    """
    if keep < 1:
        raise ValueError(f"keep must be at least 1, got {keep}")
    codes, uniques = factorize(series)
    counts = np.bincount(codes[codes >= 0], minlength=len(uniques))
    if len(counts) <= keep:
        return series
    kept = np.zeros(len(counts), dtype=bool)
    kept[np.argsort(-counts, kind="stable")[:keep]] = True
    rare = np.append(~kept, False)[codes]
    if isinstance(series.dtype, pd.CategoricalDtype) and other not in series.cat.categories:
        series = series.cat.add_categories([other])
    series = series.mask(rare, other)
    return series.cat.remove_unused_categories() if isinstance(series.dtype, pd.CategoricalDtype) else series
