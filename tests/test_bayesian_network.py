"""The paper's Bayesian network: every conditional table against 200,000 rows, in both readings."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from missdiff_fast.datasets import BAYESIAN_NETWORK_CONTINUOUS, bayesian_network, bayesian_network_split

ROWS = 200_000
D2 = [
    ("D1 == '0'", (0.05, 0.05, 0.9)),
    ("C1 > 26 and C2 > 55 and D1 == '1'", (0.3, 0.6, 0.1)),
    ("C1 > 26 and C2 <= 55 and D1 == '1'", (0.2, 0.3, 0.5)),
    ("C1 <= 26 and C2 > 55 and D1 == '1'", (0.7, 0.1, 0.2)),
    ("C1 <= 26 and C2 <= 55 and D1 == '1'", (0.1, 0.2, 0.7)),
]


@pytest.fixture(scope="module")
def tables() -> dict[str, pd.DataFrame]:
    return {
        "released": bayesian_network(ROWS, random_state=1, reading="released"),
        "text": bayesian_network(ROWS, random_state=2, reading="text"),
    }


def z_of_share(cells: pd.Series, value: str, share: float) -> float:
    return (int((cells == value).sum()) - len(cells) * share) / (len(cells) * share * (1 - share)) ** 0.5


@pytest.mark.parametrize(("reading", "variances"), [("released", (4.0, 25.0)), ("text", (2.0, 5.0))])
def test_continuous_columns(tables: dict[str, pd.DataFrame], reading: str, variances: tuple[float, float]) -> None:
    rows = tables[reading]
    rest = rows["C2"] - 0.1 * rows["C1"] - 50
    for values, mean, variance in ((rows["C1"], 25, variances[0]), (rest, 0, variances[1])):
        assert abs(values.mean() - mean) < 4 * (variance / ROWS) ** 0.5
        assert abs(values.var() / variance - 1) < 4 * (2 / ROWS) ** 0.5
        assert abs(((values - mean) ** 4).mean() / variance**2 - 3) < 4 * (96 / ROWS) ** 0.5  # of a normal: 3
    assert abs(np.corrcoef(rows["C1"], rest)[0, 1]) < 4 / ROWS**0.5


@pytest.mark.parametrize(("reading", "ones"), [("released", (0.7, 0.8, 0.6, 0.2)), ("text", (0.3, 0.2, 0.4, 0.8))])
def test_bernoulli_columns(tables: dict[str, pd.DataFrame], reading: str, ones: tuple[float, ...]) -> None:
    rows = tables[reading]
    assert abs(z_of_share(rows["D1"], "1", ones[0])) < 4
    for value, share in zip("012", ones[1:], strict=True):
        here = rows[rows["D2"] == value]
        assert abs(z_of_share(here["D3"], "1", share)) < 4
        # Given D2, D3 depends on nothing else.
        assert abs(z_of_share(here["D3"][(here["D1"] == "1") & (here["C1"] > 26)], "1", share)) < 4
    assert abs(np.corrcoef(rows["C1"], rows["D1"] == "1")[0, 1]) < 4 / ROWS**0.5


@pytest.mark.parametrize("reading", ["released", "text"])
@pytest.mark.parametrize(("condition", "shares"), D2)
def test_d2(tables: dict[str, pd.DataFrame], reading: str, condition: str, shares: tuple[float, ...]) -> None:
    here = tables[reading].query(condition)
    assert len(here) > 100
    for value, share in zip("012", shares, strict=True):
        assert abs(z_of_share(here["D2"], value, share)) < 4


def test_the_split() -> None:
    train, test = bayesian_network_split(seed=3)
    assert (train.shape, test.shape) == ((2_000, 5), (20_000, 5))
    assert train.index.equals(pd.RangeIndex(2_000))
    assert test.index.equals(pd.RangeIndex(20_000))
    assert list(train.columns) == ["C1", "C2", "D1", "D2", "D3"]
    assert tuple(train.select_dtypes("float64").columns) == BAYESIAN_NETWORK_CONTINUOUS
    assert train.equals(bayesian_network_split(seed=3)[0])
    assert not train.equals(bayesian_network_split(seed=4)[0])
    assert not train.equals(bayesian_network_split(seed=3, reading="text")[0])
    assert not train["C1"].isin(test["C1"]).any()


def test_sizes_and_refusals() -> None:
    assert bayesian_network(0).shape == (0, 5)
    assert not bayesian_network(9).equals(bayesian_network(9))
    with pytest.raises(ValueError, match="num_rows must be at least 0, got -1"):
        bayesian_network(-1)
    with pytest.raises(ValueError, match="unknown reading 'paper'; choose one of released, text"):
        bayesian_network(5, reading="paper")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="random_state must be None, an integer or a NumPy generator"):
        bayesian_network(5, random_state=0.5)  # type: ignore[arg-type]
