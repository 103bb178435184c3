"""The data sets of the paper's experiments, cut to a scale."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import pandas as pd

from missdiff_fast.datasets import (
    BAYESIAN_NETWORK_CONTINUOUS,
    CENSUS_CONTINUOUS,
    MIMIC4ED_CATEGORICAL,
    MIMIC4ED_CONTINUOUS,
    bayesian_network_split,
    census_split,
    load_mimic4ed,
    simulate_mimic4ed,
)
from missdiff_fast.evaluate._models import model_names

_MIMIC_TRAIN, _MIMIC_TEST = 353_150, 88_287


@dataclass(frozen=True)
class DataSet:
    """A table split into training and test rows, with its target and the models of its utility.

    Parameters
    ----------
    name : str
        Of `missdiff_fast.reproduce.registry.DATASETS`.
    train, test : DataFrame
        As the methods learn from them, before cells are hidden; with any holes of their own.
    continuous : tuple of str
        The columns of numbers.
    target : str
        The column to predict.
    models : tuple of str
        The models that utility is measured by; none for no utility.
    text : str
        In words: rows, columns and origin.
    """

    name: str
    train: pd.DataFrame
    test: pd.DataFrame
    continuous: tuple[str, ...]
    target: str
    models: tuple[str, ...]
    text: str

    @property
    def regression(self) -> bool:
        """Whether the target is a number."""
        return self.target in self.continuous

    def complete(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Training and test rows with holes of their own filled with the medians of the training rows."""
        medians = self.train[list(self.continuous)].median()
        return self.train.fillna(medians), self.test.fillna(medians)


def load(
    name: str, train_rows: int | None = None, test_rows: int | None = None, every: int = 1, file: Path | None = None
) -> DataSet:
    """Load a data set, or the first rows and some columns of it.

    Parameters
    ----------
    name : str
        "census", "mimic4ed" or "bayesian-network".
    train_rows, test_rows : int, optional
        How many; default: the paper's numbers.
    every : int
        One column in so many is kept, and the target.
    file : path, optional
        The benchmark's ``master_dataset.csv``; without it, MIMIC4ED is simulated.

    Examples
    --------
    >>> load("bayesian-network", train_rows=100).text
    'Bayesian network: 100 training and 20,000 test rows, 5 columns'
    """
    continuous: tuple[str, ...]
    models: tuple[str, ...]
    if name == "census":
        (train, test), origin = census_split(0), ""
        continuous, target, models = CENSUS_CONTINUOUS, "income", tuple(model_names("classification"))
    elif name == "bayesian-network":
        (train, test), origin = bayesian_network_split(0), ""
        continuous, target, models = BAYESIAN_NETWORK_CONTINUOUS, "D2", ()
    else:
        (train, test), origin = _mimic(train_rows or _MIMIC_TRAIN, test_rows or _MIMIC_TEST, file)
        continuous, target, models = MIMIC4ED_CONTINUOUS, "ed_los", ("xgboost",)
    columns = [column for j, column in enumerate(train.columns) if j % every == 0 or column == target]
    train = train.loc[: (train_rows or len(train)) - 1, columns]
    test = test.loc[: (test_rows or len(test)) - 1, columns]
    size = f"{len(train):,} training and {len(test):,} test rows, {len(columns)} columns"
    shown = {"census": "Census", "mimic4ed": "MIMIC4ED", "bayesian-network": "Bayesian network"}[name]
    kept = tuple(column for column in continuous if column in columns)
    return DataSet(name, train, test, kept, target, models, f"{shown}{origin}: {size}")


@lru_cache(maxsize=1)
def _mimic(train_rows: int, test_rows: int, file: Path | None) -> tuple[tuple[pd.DataFrame, pd.DataFrame], str]:
    if file is not None:
        train, test = load_mimic4ed(file)
        # The loader keeps the test rows in the file's order, so the first of them are not a random sample.
        return (train, test.sample(frac=1, random_state=0).reset_index(drop=True)), ""
    rows = simulate_mimic4ed(train_rows + test_rows, random_state=0)[[*MIMIC4ED_CATEGORICAL, *MIMIC4ED_CONTINUOUS]]
    return (rows[:train_rows], rows[train_rows:].reset_index(drop=True)), " (SIMULATED, no patient's data)"


def digest(file: Path) -> str:
    """Name the contents of a file.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile() as stream:
    ...     digest(Path(stream.name))
    'e3b0c44298fc1c14'
    """
    found = hashlib.sha256()
    with open(file, "rb") as stream:
        while chunk := stream.read(1 << 20):
            found.update(chunk)
    return found.hexdigest()[:16]
