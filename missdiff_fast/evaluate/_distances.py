"""Distances of a column, or a pair of columns, in a real and a synthetic table."""

from __future__ import annotations

import numpy as np
import pandas as pd

Pair = tuple[np.ndarray, np.ndarray]  # a column of the real table and of the synthetic one


def kolmogorov_smirnov(pair: Pair) -> float:
    """The greatest difference of the distribution functions of numbers ``[N]`` and ``[M]``.

    Examples
    --------
    >>> kolmogorov_smirnov((np.array([0.0, 1.0, 2.0, 3.0]), np.array([0.0, 1.0, 2.0, 9.0])))
    0.25
    """
    real, synthetic = (np.sort(x) for x in pair)
    at = np.concatenate([real, synthetic])
    shares = [np.searchsorted(x, at, side="right") / len(x) for x in (real, synthetic)]
    return float(np.abs(shares[0] - shares[1]).max())


def total_variation(pair: Pair) -> float:
    """Half the sum of the differences of shares, of codes of categories from 0 on, int ``[N]`` and ``[M]``.

    Examples
    --------
    >>> total_variation((np.array([0, 0, 1, 1]), np.array([0, 0, 0, 1])))
    0.25
    """
    size = max(int(codes.max()) for codes in pair) + 1
    shares = [np.bincount(codes, minlength=size) / len(codes) for codes in pair]
    return float(np.abs(shares[0] - shares[1]).sum() / 2)


def contingency_variation(first: Pair, second: Pair) -> float:
    """The total variation of the contingency tables of two columns, both given as codes.

    Examples
    --------
    >>> codes = np.array([0, 0, 1, 1])
    >>> contingency_variation((codes, codes), (codes, np.array([0, 1, 1, 1])))
    0.25
    """
    size = max(int(codes.max()) for codes in second) + 1
    joint = np.concatenate([a.astype(np.int64) * size + b for a, b in zip(first, second, strict=True)])
    codes = pd.factorize(joint)[0]  # most combinations of many categories never occur
    return total_variation((codes[: len(first[0])], codes[len(first[0]) :]))
