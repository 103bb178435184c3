"""Alpha-precision, beta-recall and authenticity against values worked by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("sklearn")

from missdiff_fast.errors import DataError
from missdiff_fast.evaluate import precision_recall
from missdiff_fast.evaluate.precision_recall import _LEVELS


def table(seed: int, rows: int = 1500) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    x = random.normal(size=(rows, 3))
    return pd.DataFrame(x, columns=list("xyz")).assign(w=random.choice(list("uvw"), rows))


def of_curve(curve: np.ndarray) -> float:
    """1 - the mean difference from the levels, over the mean level, 1/2."""
    return 1 - 2 * float(np.abs(_LEVELS - curve).mean())


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_two_samples_of_one_distribution(seed: int) -> None:
    found = precision_recall(table(2 * seed), table(2 * seed + 1))
    assert found["alpha_precision"] > 0.95
    # Either table has the nearest row by chance.
    assert found["beta_recall"] == pytest.approx(0.5, abs=0.06)
    # A point and its nearest neighbour on a line are one another's in 2/3 of the cases, in a large sample.
    line = precision_recall(table(2 * seed)[["x"]], table(2 * seed + 1)[["x"]])
    assert line["authenticity"] == pytest.approx(1 / 3, abs=0.04)


def test_copies_of_all_rows_in_another_order() -> None:
    real = table(0)
    found = precision_recall(real, real.sample(frac=1, random_state=1))
    assert found["alpha_precision"] > 0.999
    assert found["beta_recall"] > 0.999
    assert found["authenticity"] == 0


def test_copies_of_one_row() -> None:
    real = table(0)
    one = real.iloc[[700] * len(real)]
    found = precision_recall(real, one)
    # A real row is covered if its nearest other real row is as far as the copied one: the copied one, and perhaps rows
    # that have it as their nearest.
    assert found["beta_recall"] < 0.01
    assert found["authenticity"] == 0
    assert found["alpha_precision"] < 0.7


def test_rows_far_outside_and_rows_all_at_the_center() -> None:
    real = table(0)
    assert precision_recall(real, real.assign(x=1e300))["alpha_precision"] == 0
    assert precision_recall(real, real.assign(x=1e300))["authenticity"] == 1
    center = table(1)[list("xyz")] * 1e-3 + real[list("xyz")].mean()
    found = precision_recall(real[list("xyz")], center)
    # All synthetic rows lie in every ball: 1 - the mean of 1 - alpha, over the mean alpha.
    assert found["alpha_precision"] == pytest.approx(0)
    assert found["beta_recall"] < 0.05


def test_by_hand() -> None:
    real = pd.DataFrame({"x": [0.0, 2.0, 6.0, 12.0]})
    synthetic = pd.DataFrame({"x": [1.0, 5.0, 5.5, 12.0]})
    found = precision_recall(real, synthetic)
    # Distances from the real mean, 5: real 5, 3, 1, 7 and synthetic 4, 0, 0.5, 7.
    radii = np.quantile([5, 3, 1, 7], _LEVELS)
    inside = (np.array([4, 0, 0.5, 7])[:, None] <= radii).mean(axis=0)
    assert found["alpha_precision"] == pytest.approx(of_curve(inside))
    # The nearest other real row is 2, 2, 4 and 6 away, the nearest synthetic one 1, 1, 0.5 and 0: all are covered.
    # The latter, 1, 1, 5.5 and 12, are 4.875, 4.875, 0.375 and 6.125 away from the synthetic mean, 5.875.
    away = np.array([4.875, 4.875, 0.375, 6.125])
    assert found["beta_recall"] == pytest.approx(of_curve((away[:, None] <= np.quantile(away, _LEVELS)).mean(axis=0)))
    # Synthetic rows are 1, 1, 0.5 and 0 away from the nearest real row (0 or 2, 6, 6, 12): never further than another.
    assert found["authenticity"] == 0
    # 9 is 3 away from 6, whose nearest other real row is 4 away; 30 is 18 away from 12, which has another 6 away.
    assert precision_recall(real, synthetic.assign(x=[1.0, 5.0, 9.0, 30.0]))["authenticity"] == 0.25


def test_numbers_count_by_their_real_range_and_categories_by_their_indicators() -> None:
    real = pd.DataFrame({"x": [0.0, 100.0, 40.0, 70.0], "w": ["a", "a", "b", "b"]})
    units = real.assign(x=real["x"] / 1e308)
    synthetic = pd.DataFrame({"x": [5.0, 90.0, 45.0, 60.0], "w": ["a", "b", "b", "a"]})
    expected = precision_recall(real, synthetic)
    assert precision_recall(units, synthetic.assign(x=synthetic["x"] / 1e308)) == pytest.approx(expected)
    # Category c is as far from b as a is.
    renamed = precision_recall(real, synthetic.assign(w=["c", "b", "b", "c"]))
    assert renamed["authenticity"] > expected["authenticity"]
    constant = precision_recall(real.assign(k=1.0), synthetic.assign(k=1.0))
    assert constant == pytest.approx(expected)


def test_equal_rows_are_at_a_distance_of_exactly_zero() -> None:
    # Many columns of numbers whose squares are inexact, and each row twice.
    x = np.random.default_rng(0).normal(1e3, 1, (300, 40))
    real = pd.DataFrame(np.concatenate([x, x])).rename(columns=str)
    found = precision_recall(real, real)
    assert found["beta_recall"] > 0.99
    assert found["authenticity"] == 0


def test_rows_are_sampled_by_the_seed() -> None:
    real, synthetic = table(0, 500), table(1, 300)
    found = precision_recall(real, synthetic, random_state=1)
    assert precision_recall(real, synthetic, random_state=1) == found
    assert precision_recall(real, synthetic, random_state=2) != found
    assert precision_recall(real, synthetic, max_rows=50) != precision_recall(real, synthetic, max_rows=None)


def test_holes_are_lent_to_the_other_table() -> None:
    random = np.random.default_rng(3)
    real, other = table(0, 3000), table(1, 3000)
    holes = real.mask(random.random(real.shape) < 0.3)
    found = precision_recall(holes, other)
    assert found["alpha_precision"] > 0.95
    assert found["beta_recall"] == pytest.approx(0.5, abs=0.06)
    # Filled with means, as a measure that ignored the holes would have it, real rows are too near to the mean.
    filled = holes.fillna(holes[list("xyz")].mean()).assign(w=holes["w"].fillna("u"))
    assert precision_recall(filled, other)["alpha_precision"] < found["alpha_precision"] - 0.1
    wide = other.assign(x=other["x"] * 3)
    assert precision_recall(holes, wide)["alpha_precision"] < found["alpha_precision"] - 0.1


@pytest.mark.parametrize(
    ("real", "synthetic", "message"),
    [
        (table(0), table(1)[:1], "the synthetic table has 1 row; at least 2 are needed: give it more rows"),
        (table(0).assign(w=None), table(1), "column 'w' of the real table has no value to compare; drop it"),
        (table(0)[["x"]], table(1)[["x", "y"]], "column 'y' is in the synthetic table only"),
        (table(0).assign(x=np.inf), table(1), "column 'x' of the real table has infinite cells; replace them"),
    ],
)
def test_tables_that_cannot_be_compared(real: pd.DataFrame, synthetic: pd.DataFrame, message: str) -> None:
    with pytest.raises(DataError, match=message):
        precision_recall(real, synthetic)


def test_arguments() -> None:
    with pytest.raises(DataError, match="max_rows must be at least 2, got 1"):
        precision_recall(table(0), table(1), max_rows=1)
    with pytest.raises(DataError, match=r"random_state must lie in \[0, 2\*\*32\), got None"):
        precision_recall(table(0), table(1), random_state=None)  # type: ignore[arg-type]
