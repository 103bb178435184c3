"""The bundled table, its split, and hiding."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from missdiff_fast.datasets import CENSUS_CONTINUOUS, census_split, hide, load_census

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


def test_splits_of_two_seeds_differ() -> None:
    assert not census_split(seed=0)[1].equals(census_split(seed=1)[1])


def small() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "whole": np.arange(100),
            "real": np.linspace(0, 1, 100),
            "flag": [True, False] * 50,
            "word": list("abcde") * 20,
            "when": pd.date_range("2024-01-01", periods=100),
        },
        index=range(7, 107),
    )


@pytest.mark.parametrize("mechanism", ["independent", "row", "column"])
def test_hide_takes_cells_away_and_changes_no_other(mechanism: str) -> None:
    frame = small()
    holes, observed = hide(frame, mechanism, 0.4, seed=3)  # type: ignore[arg-type]
    assert observed.shape == frame.shape
    assert observed.dtype == bool
    assert np.array_equal(holes.notna().to_numpy(), observed)
    assert holes.index.equals(frame.index)
    for j, column in enumerate(frame):
        assert (holes[column][observed[:, j]] == frame[column][observed[:, j]]).all()
    assert [str(dtype) for dtype in holes.dtypes] == ["float64", "float64", "boolean", "object", "datetime64[ns]"]
    assert frame.equals(small())


def test_hide_counts() -> None:
    assert (~hide(small(), "row", 0.4)[1]).sum(1).tolist() == [2] * 100
    assert (~hide(small(), "column", 0.25)[1]).sum(0).tolist() == [25] * 5
    assert 0.15 < (~hide(small(), "independent", 0.2)[1]).mean() < 0.25


def test_hide_is_repeatable_and_depends_on_the_seed() -> None:
    assert np.array_equal(hide(small(), seed=1)[1], hide(small(), seed=1)[1])
    assert not np.array_equal(hide(small(), seed=1)[1], hide(small(), seed=2)[1])


def test_hide_nothing_keeps_dtypes() -> None:
    holes, observed = hide(small(), "independent", 0.0)
    assert observed.all()
    pd.testing.assert_frame_equal(holes, small())


def test_hide_of_an_empty_table() -> None:
    holes, observed = hide(small()[:0], "column", 0.2)
    assert holes.shape == observed.shape == (0, 5)


@pytest.mark.parametrize("ratio", [-0.1, 1.0, float("nan")])
def test_hide_refuses_a_bad_ratio(ratio: float) -> None:
    with pytest.raises(ValueError, match="ratio must be at least 0 and less than 1"):
        hide(small(), "row", ratio)


def test_hide_refuses_an_unknown_mechanism() -> None:
    with pytest.raises(ValueError, match="unknown mechanism 'mar'; choose 'independent', 'row' or 'column'"):
        hide(small(), "mar")  # type: ignore[arg-type]
