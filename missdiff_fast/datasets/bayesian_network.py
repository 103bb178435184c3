"""The Bayesian network of the paper's appendix: two continuous and three categorical columns."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
import pandas as pd

from missdiff_fast._checks import MAX_ROWS, check_count
from missdiff_fast._engine.random import check_seed

Reading = Literal["released", "text"]

BAYESIAN_NETWORK_CONTINUOUS = ("C1", "C2")
NUM_TRAIN, NUM_TEST = 2_000, 20_000

# P(D2 = 0, 1, 2): where D1 = 0, and where D1 = 1, by (C1 > 26, C2 > 55).
_D2_OF_D1_0 = (0.05, 0.05, 0.9)
_D2_OF_D1_1 = {
    (True, True): (0.3, 0.6, 0.1),
    (True, False): (0.2, 0.3, 0.5),
    (False, True): (0.7, 0.1, 0.2),
    (False, False): (0.1, 0.2, 0.7),
}
_XI_OF_D1 = 0.3
_XI_OF_D3 = (0.2, 0.4, 0.8)  # by D2


def bayesian_network(num_rows: int, random_state: int | None = None, reading: Reading = "released") -> pd.DataFrame:
    """Draw rows from the network.

    ======  ============================================================================================
    column  distribution, in the paper's notation
    ======  ============================================================================================
    C1      N(25, 2)
    C2      N(0.1 C1 + 50, 5)
    D1      Bernoulli(0.3)
    D2      Ca(0.05, 0.05, 0.9) where D1 = 0; where D1 = 1, Ca(0.3, 0.6, 0.1) for C1 > 26 and C2 > 55,
            Ca(0.2, 0.3, 0.5) for C1 > 26 and C2 <= 55, Ca(0.7, 0.1, 0.2) for C1 <= 26 and C2 > 55, and
            Ca(0.1, 0.2, 0.7) for C1 <= 26 and C2 <= 55
    D3      Bernoulli(0.2), Bernoulli(0.4), Bernoulli(0.8) where D2 = 0, 1, 2
    ======  ============================================================================================

    Parameters
    ----------
    num_rows : int
        N.
    random_state : int, optional
        Makes the rows repeatable.
    reading : {"released", "text"}
        Of the notation. ``released``, as the data published with the paper's code have it: N(m, s) has mean m and
        standard deviation s, and Bernoulli(xi) is 0 with probability xi. ``text``, as the paper's text has it:
        Bernoulli(xi) has mean xi; N(m, v) has mean m and variance v, which is what the paper means by N elsewhere.

    Returns
    -------
    DataFrame
        ``[N, 5]``: C1, C2 float64; D1, D2, D3 strings "0", "1" and, in D2, "2". (Numbers would be taken for
        quantities.) D2 is the paper's label.

    Raises
    ------
    TypeError, ValueError
        Negative `num_rows`, unknown `reading`, or a bad `random_state`.

    Examples
    --------
    >>> rows = bayesian_network(1000, random_state=0)
    >>> rows.dtypes.astype(str).to_dict()
    {'C1': 'float64', 'C2': 'float64', 'D1': 'object', 'D2': 'object', 'D3': 'object'}
    >>> sorted(rows["D2"].unique())
    ['0', '1', '2']
    """
    num_rows = check_count("num_rows", num_rows, least=0, most=MAX_ROWS)
    if reading not in get_args(Reading):
        raise ValueError(f"unknown reading {reading!r}; choose one of {', '.join(get_args(Reading))}")
    random = np.random.default_rng(check_seed(random_state))
    released = reading == "released"
    spread_1, spread_2 = (2.0, 5.0) if released else (2**0.5, 5**0.5)
    c1 = 25 + spread_1 * random.standard_normal(num_rows)
    c2 = 0.1 * c1 + 50 + spread_2 * random.standard_normal(num_rows)
    d1 = _bernoulli(np.full(num_rows, _XI_OF_D1), random, released=released)
    shares = np.broadcast_to(_D2_OF_D1_0, (num_rows, 3)).copy()
    for (high_1, high_2), row in _D2_OF_D1_1.items():
        shares[(d1 == 1) & ((c1 > 26) == high_1) & ((c2 > 55) == high_2)] = row
    d2 = (random.random((num_rows, 1)) >= shares[:, :2].cumsum(axis=1)).sum(axis=1)
    d3 = _bernoulli(np.take(_XI_OF_D3, d2), random, released=released)
    names = np.array(["0", "1", "2"], dtype=object)
    return pd.DataFrame({"C1": c1, "C2": c2, "D1": names[d1], "D2": names[d2], "D3": names[d3]})


def bayesian_network_split(seed: int = 0, reading: Reading = "released") -> tuple[pd.DataFrame, pd.DataFrame]:
    """Draw the paper's numbers of rows: 2,000 for training and 20,000 for testing.

    Parameters
    ----------
    seed : int
        Makes the rows repeatable.
    reading : {"released", "text"}
        As of `bayesian_network`.

    Returns
    -------
    train, test : DataFrame
        Each with an index from 0.

    Raises
    ------
    TypeError, ValueError
        As of `bayesian_network`.

    Examples
    --------
    >>> train, test = bayesian_network_split()
    >>> len(train), len(test)
    (2000, 20000)
    """
    rows = bayesian_network(NUM_TRAIN + NUM_TEST, seed, reading)
    return rows[:NUM_TRAIN], rows[NUM_TRAIN:].reset_index(drop=True)


def _bernoulli(xi: np.ndarray, random: np.random.Generator, *, released: bool) -> np.ndarray:
    """Draw 0 or 1 ``[N]``; `xi` is the probability of 0 as released, and of 1 by the text."""
    below = random.random(len(xi)) < xi
    return (below != released).astype(np.int64)
