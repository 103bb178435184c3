"""The Census Income table (UCI Adult) and its usual split."""

from __future__ import annotations

from importlib import resources

import pandas as pd

from missdiff_fast._checks import check_count

CENSUS_CONTINUOUS = ("age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week")
NUM_TRAIN, NUM_TEST = 16_000, 4_000


def load_census() -> pd.DataFrame:
    """Load the whole table: 48,842 rows, 6 columns of whole numbers (int64) and 9 of strings.

    Source: Becker and Kohavi (1996), Adult, UCI Machine Learning Repository, https://doi.org/10.24432/C5XW20,
    CC BY 4.0. The rows are those of UCI's ``adult.data`` followed by ``adult.test``. The source's mark ``"?"`` for a
    missing string is kept, as a category of its own.

    Examples
    --------
    >>> census = load_census()
    >>> census.shape
    (48842, 15)
    >>> census["income"].value_counts().to_dict()
    {'<=50K': 37155, '>50K': 11687}
    """
    with resources.as_file(resources.files(__package__) / "census.csv.xz") as path:
        frame = pd.read_csv(path, keep_default_na=False)
    return frame.astype(dict.fromkeys(CENSUS_CONTINUOUS, "int64"))


def census_split(seed: int = 0) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Draw 20,000 rows of the table at random: 16,000 for training and 4,000 for testing.

    Parameters
    ----------
    seed : int
        Picks the rows and their order.

    Returns
    -------
    train, test : DataFrame
        Each with a fresh index from 0.

    Raises
    ------
    TypeError, ValueError
        `seed` is no integer from 0 to 4,294,967,295.

    Examples
    --------
    >>> train, test = census_split(seed=0)
    >>> len(train), len(test)
    (16000, 4000)
    """
    seed = check_count("seed", seed, least=0, most=2**32 - 1)
    rows = load_census().sample(NUM_TRAIN + NUM_TEST, random_state=seed)
    return rows[:NUM_TRAIN].reset_index(drop=True), rows[NUM_TRAIN:].reset_index(drop=True)
