"""The papers' protocol against values worked by hand."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from missdiff_fast import MissDiff
from missdiff_fast.datasets import census_split
from missdiff_fast.errors import DataError
from missdiff_fast.evaluate import detection, protocol, protocol_errors
from missdiff_fast.evaluate.protocol import _auroc


def test_marginals_by_kolmogorov_smirnov_and_total_variation() -> None:
    real = pd.DataFrame({"x": [0.0, 1.0, 2.0, 3.0], "y": ["a", "a", "b", "b"]})
    synthetic = pd.DataFrame({"x": [0.0, 1.0, 2.0, 9.0], "y": ["a", "a", "a", "b"]})
    # The distribution functions differ by 1/4 between 3 and 9; the shares of a and b by 1/4 each.
    assert protocol_errors(real, synthetic)["shape_error"] == pytest.approx(25)


def test_all_pairs_count_also_independent_ones() -> None:
    x = np.tile(np.arange(10.0), 10)
    real = pd.DataFrame({"x": x, "y": np.repeat(np.arange(10.0), 10)})
    assert protocol_errors(real, pd.DataFrame({"x": x, "y": x}))["trend_error"] == pytest.approx(50)
    assert protocol_errors(real, pd.DataFrame({"x": x, "y": -x}))["trend_error"] == pytest.approx(50)
    constant = pd.DataFrame({"x": x, "y": np.zeros(100)})
    assert protocol_errors(real, constant)["trend_error"] == pytest.approx(0)


def test_numbers_are_binned_by_the_real_range() -> None:
    real = pd.DataFrame({"x": [0.0, 10.0], "y": ["a", "b"]})
    # 9.5 and 99 lie in the last bin as 10 does; bins of each table's own range would tell them apart.
    assert protocol_errors(real, pd.DataFrame({"x": [0.0, 9.5], "y": ["a", "b"]}))["trend_error"] == 0
    assert protocol_errors(real, pd.DataFrame({"x": [0.0, 99.0], "y": ["a", "b"]}))["trend_error"] == 0
    assert protocol_errors(real, pd.DataFrame({"x": [0.0, 8.5], "y": ["a", "b"]}))["trend_error"] == 50
    assert protocol_errors(real, pd.DataFrame({"x": [0.0, 10.0], "y": ["b", "a"]}))["trend_error"] == 100


def test_a_category_that_one_table_lacks_and_dates() -> None:
    days = pd.to_datetime(["2024-01-01", "2024-01-02"])
    real = pd.DataFrame({"x": ["a", "b"], "day": days})
    assert protocol_errors(real, pd.DataFrame({"x": ["a", "c"], "day": days})) == {
        "shape_error": pytest.approx(25),
        "trend_error": pytest.approx(50),
    }
    assert math.isnan(protocol_errors(real[["x"]], real[["x"]])["trend_error"])


def test_a_missing_cell_is_refused() -> None:
    real = pd.DataFrame({"x": [1.0, 2.0]})
    with pytest.raises(DataError, match="column 'x' of the synthetic table has missing cells"):
        protocol_errors(real, real.assign(x=[1.0, None]))


def test_the_protocol_of_a_table_with_holes() -> None:
    pytest.importorskip("xgboost")
    train, test = (table.head(600) for table in census_split())
    model = MissDiff(steps=400, width=32, refine=0, settings={"blend.rows_per_feature": 0})
    found = protocol(train, test, "sex", model=model, missing=0.2, seeds=[3, 4])
    assert found["rows"].tolist() == ["real test", "seed 3", "seed 4"]
    floor, ours = found.iloc[0], found.iloc[1:]
    assert 0.8 < floor["auroc"] < 1
    # Calibrated shares can be nearer to the training table's than other real rows' are.
    assert ours["shape_error"].between(floor["shape_error"] / 2, 2 * floor["shape_error"]).all()
    assert (ours[["fit_s", "sample_s"]] > 0).all(axis=None)
    assert found["auroc"].between(0, 1).all()
    pytest.importorskip("sdmetrics")
    first = protocol(train, test, "sex", model=model, missing=0.2, seeds=[3], whole_rows=True)
    assert first["trend_error"].tolist() == found["trend_error"].tolist()[:2]
    names = ["detection_auroc", "logistic_score", "alpha_precision", "beta_recall", "authenticity"]
    assert set(first) - set(found) == set(names)
    floor, ours = first[names].to_dict("records")
    assert floor["detection_auroc"] == detection(train, test, max_rows=None)["auroc"]
    assert ours["detection_auroc"] > floor["detection_auroc"]
    assert math.isnan(_auroc(train[train["sex"] == "Male"], test, "sex"))
    with pytest.raises(ValueError, match="missing"):
        protocol(train, test, "sex", missing=1.5)
