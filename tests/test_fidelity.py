"""Fidelity against values worked by hand."""

from __future__ import annotations

import importlib

import numpy as np
import pandas as pd
import pytest

from missdiff_fast.evaluate import fidelity


def test_shapes_are_one_minus_the_distance_of_the_marginals() -> None:
    pytest.importorskip("sdmetrics")
    real = pd.DataFrame({"x": [0.0, 1.0, 2.0, 3.0], "y": ["a", "a", "b", "b"]})
    synthetic = pd.DataFrame({"x": [0.0, 1.0, 2.0, 9.0], "y": ["a", "a", "a", "b"]})
    # Kolmogorov-Smirnov: the distribution functions differ by 1/4 between 3 and 9. Total variation: 1/2 (1/4 + 1/4).
    assert fidelity(real, synthetic)["shapes"].item() == pytest.approx(75)


def test_trends_are_one_minus_half_the_difference_of_correlations() -> None:
    pytest.importorskip("sdmetrics")
    up = np.arange(50.0)
    result = fidelity(pd.DataFrame({"x": up, "y": up}), pd.DataFrame({"x": up, "y": up[::-1]}))
    assert result["shapes"].item() == pytest.approx(100)
    assert result["trends"].item() == pytest.approx(0)
    assert result["overall"].item() == pytest.approx(50)


def test_contingency_of_categories() -> None:
    pytest.importorskip("sdmetrics")
    real = pd.DataFrame({"x": ["a", "a", "b", "b"], "y": ["c", "c", "d", "d"]})
    synthetic = pd.DataFrame({"x": ["a", "a", "b", "b"], "y": ["c", "d", "d", "d"]})
    # (a, c) falls from 1/2 to 1/4, (a, d) rises from 0 to 1/4: total variation 1/4.
    found = fidelity(real, synthetic).iloc[0]
    assert found["trends"] == found["trends_all_pairs"] == pytest.approx(75)


def test_a_pair_without_association_counts_only_among_all_pairs() -> None:
    pytest.importorskip("sdmetrics")
    random = np.random.default_rng(0)
    pairs = np.array([(x, y) for x in "ab" for y in "cd"] * 50)
    table = pd.DataFrame(pairs, columns=["x", "y"])
    other = pd.DataFrame({"x": random.permutation(table["x"]), "y": table["x"].map({"a": "c", "b": "d"})})
    found = fidelity(table, other).iloc[0]
    # Each of the four pairs has a share of 1/4; in the other table x and y are independent but for chance.
    shares = pd.crosstab(other["x"], other["y"], normalize=True).to_numpy()
    assert found["trends_all_pairs"] == pytest.approx(100 * (1 - np.abs(shares - 0.25).sum() / 2))
    assert found["trends_all_pairs"] < 98
    assert found["overall_all_pairs"] == pytest.approx((found["shapes"] + found["trends_all_pairs"]) / 2)
    assert np.isnan(found["trends"])  # there is no other pair


def test_continuous_columns_may_be_named_and_dtypes_may_be_nullable() -> None:
    pytest.importorskip("sdmetrics")
    table = pd.DataFrame(
        {
            "code": pd.array([1, 2, 3, 4] * 10, dtype="Int64"),
            "flag": pd.array([True, False] * 20, dtype="boolean"),
            "kind": pd.Categorical(["u", "v"] * 20, ["v", "u", "never"]),
            "when": pd.date_range("2024-01-01", periods=40),
        }
    )
    for continuous in (None, [], ["code"]):
        result = fidelity(table, table, continuous)
        assert list(result.columns) == ["overall", "shapes", "trends", "overall_all_pairs", "trends_all_pairs"]
        assert result.to_numpy() == pytest.approx(100)


@pytest.mark.parametrize("unit", [1e-300, 1e-17, 1e12, 1e150, 1e307])
def test_the_unit_of_a_column_changes_no_score(unit: float) -> None:
    pytest.importorskip("sdmetrics")
    random = np.random.default_rng(0)
    real = pd.DataFrame(random.normal(size=(200, 2)), columns=["x", "y"]).assign(
        y=lambda table: table["x"] + table["y"]
    )
    synthetic = pd.DataFrame(random.normal(1, 1, size=(200, 2)), columns=["x", "y"])
    expected = fidelity(real, synthetic).to_numpy()
    assert expected.max() < 90
    assert fidelity(real * unit, synthetic * unit).to_numpy() == pytest.approx(expected, abs=1e-6)


def test_columns_are_compared_by_name() -> None:
    pytest.importorskip("sdmetrics")
    table = pd.DataFrame({"x": np.arange(20.0), "y": ["a"] * 10 + ["b"] * 10})
    assert fidelity(table, table[["y", "x"]])["overall"].item() == pytest.approx(100)


def test_unlike_columns_are_refused() -> None:
    table = pd.DataFrame({"x": [1.0]})
    with pytest.raises(ValueError, match="column 'y' is in the synthetic table only"):
        fidelity(table, table.assign(y=1))
    with pytest.raises(ValueError, match="no column named 'z' in the table"):
        fidelity(table, table, continuous=["z"])


def test_without_sdmetrics_the_remedy_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> None:
        raise ModuleNotFoundError(f"No module named {name!r}", name="sdmetrics")

    monkeypatch.setattr(importlib.import_module("missdiff_fast.evaluate._tables"), "import_module", absent)
    with pytest.raises(ImportError, match=r"'sdmetrics': pip install 'missdiff_fast\[evaluate\]'"):
        fidelity(pd.DataFrame({"x": [1.0]}), pd.DataFrame({"x": [1.0]}))
