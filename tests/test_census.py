"""The bundled table and its split."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from missdiff_fast.datasets import CENSUS_CONTINUOUS, census_split, load_census

DATA = Path(os.environ.get("MISSDIFF_TEST_DATA", Path(__file__).parents[2] / "shared" / "data")) / "adult"


@pytest.fixture(scope="module")
def census() -> pd.DataFrame:
    return load_census()


def test_census_has_the_usual_columns_and_dtypes(census: pd.DataFrame) -> None:
    assert census.shape == (48_842, 15)
    assert ",".join(census.columns) == (
        "age,workclass,fnlwgt,education,education-num,marital-status,occupation,relationship,race,sex,capital-gain,"
        "capital-loss,hours-per-week,native-country,income"
    )
    assert set(CENSUS_CONTINUOUS) == {name for name in census if census[name].dtype == np.int64}
    assert not census.isna().to_numpy().any()
    assert {name: int((census[name] == "?").sum()) for name in census if (census[name] == "?").any()} == {
        "workclass": 2799,
        "occupation": 2809,
        "native-country": 857,
    }


def test_census_is_ucis_own_row_for_row(census: pd.DataFrame) -> None:
    if not DATA.is_dir():
        pytest.skip(f"UCI's files are not at {DATA}")
    files = [DATA / "adult.data.gz", DATA / "adult.test.gz"]
    parts = [pd.read_csv(f, names=list(census.columns), skipinitialspace=True, keep_default_na=False) for f in files]
    source = pd.concat(parts, ignore_index=True)
    source["income"] = source["income"].str.rstrip(".")
    pd.testing.assert_frame_equal(census, source)


def test_split_is_the_same_for_ever() -> None:
    train, test = census_split(seed=0)
    assert len(train) == 16_000
    assert len(test) == 4_000
    assert train.index.equals(pd.RangeIndex(16_000))
    assert test.index.equals(pd.RangeIndex(4_000))
    text = pd.concat([train, test]).to_csv(index=False, lineterminator="\n").encode()
    assert hashlib.sha256(text).hexdigest()[:16] == "a7a3710b5fa5e87e"


@pytest.mark.parametrize(
    ("seed", "error", "message"),
    [
        (-1, ValueError, "seed must be at least 0, got -1"),
        (2**32, ValueError, "seed must be at most 4,294,967,295, got 4294967296"),
        (1.5, TypeError, r"seed must be an integer, got 1\.5"),
    ],
)
def test_bad_seeds(seed: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        census_split(seed=seed)


def test_splits_of_two_seeds_differ() -> None:
    assert not census_split(seed=0)[1].equals(census_split(seed=1)[1])
