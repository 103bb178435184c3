"""Scores of draws whose right values are known: by hand, and where draws are perfect, too narrow or too wide."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from missdiff_fast import MissDiff
from missdiff_fast.evaluate import draw_errors, draw_scores, overimputation

LEVELS = ["coverage_50", "coverage_80", "coverage_95"]
NOMINAL = [0.5, 0.8, 0.95]


def scores(truth: np.ndarray, draws: np.ndarray) -> pd.Series:
    """Of N hidden cells of one column, and ``[M, N]`` draws."""
    frame = pd.DataFrame({"x": truth})
    tables = [pd.DataFrame({"x": draw}) for draw in draws]
    return draw_scores(frame, tables, np.zeros((len(truth), 1), dtype=bool)).iloc[0]


def test_a_cell_by_hand() -> None:
    truth = pd.DataFrame({"x": [0.0, 2.0, 4.0, 10.0], "c": ["u", "v", "u", "w"]})
    observed = np.array([[0, 0], [1, 1], [1, 1], [1, 1]], dtype=bool)
    draws = [truth.assign(x=[x, 2, 4, 10], c=[c, "v", "u", "w"]) for x, c in ((-1.0, "u"), (3.0, "v"), (5.0, "u"))]
    found = draw_scores(truth, draws, observed).set_index("column")
    assert found["kind"].tolist() == ["continuous", "categorical"]
    assert found["hidden"].tolist() == [1, 1]
    # x: mean |x - 0| = 3, mean over pairs (4 + 6 + 2) / 3 = 4. c: one of three wrong, two of three pairs unlike.
    assert found["energy_score"].tolist() == pytest.approx([(3 - 4 / 2) / truth["x"].std(ddof=0), 1 / 3 - 1 / 3])
    # Two draws of three are u; three categories.
    assert found["log_score"].tolist() == pytest.approx([np.nan, -np.log(2.5 / 4.5)], nan_ok=True)
    # 0 is second of four: the places from 1/4 to 2/4, of which the interval from 1/4 to 3/4 has all.
    assert found.loc["x", LEVELS].tolist() == [1, 1, 1]
    # u is the most frequent of the four, with three of them: the places from 1/4 to 1. The set of 50 % begins at 1/2.
    assert found.loc["c", LEVELS].tolist() == pytest.approx([0.5 / 0.75, 1, 1])


def test_beyond_all_draws_and_among_equal_ones() -> None:
    found = scores(np.array([9.0, 0.0]), np.array([[1.0, 0.0]] * 9))
    # 9 has the places from 0.9 to 1, of which the interval from 0.025 to 0.975 has three quarters; 0 has all ten.
    assert found[LEVELS].tolist() == pytest.approx([(0 + 0.5) / 2, (0 + 0.8) / 2, (0.75 + 0.95) / 2])


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("num_draws", [5, 20, 39])
def test_perfect_draws_of_a_gaussian(seed: int, num_draws: int) -> None:
    random = np.random.default_rng(seed)
    n, rho = 6000, 0.8
    known = random.normal(size=n)
    deviation = np.sqrt(1 - rho**2)
    values = rho * known + deviation * random.normal(size=(1 + num_draws, n))
    found = scores(values[0], values[1:])
    for name, level in zip(LEVELS, NOMINAL, strict=True):
        assert found[name] == pytest.approx(level, abs=4 * np.sqrt(level * (1 - level) / n))
    # The continuous ranked probability score of the true normal distribution, on average.
    assert found["energy_score"] == pytest.approx(deviation / np.sqrt(np.pi), abs=0.02)


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize(("factor", "sign"), [(0.6, -1), (1.5, 1)])
def test_draws_of_a_wrong_spread(seed: int, factor: float, sign: int) -> None:
    random = np.random.default_rng(seed)
    n = 3000
    known, noise = random.normal(size=n), random.normal(size=(40, n))
    right, wrong = (scores(known + noise[0], known + by * noise[1:]) for by in (1, factor))
    for name, level in zip(LEVELS, NOMINAL, strict=True):
        assert sign * (wrong[name] - level) > 0.02
    assert wrong["energy_score"] > right["energy_score"]


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("kind", ["counts", "mostly zero", "categories", "two categories"])
def test_perfect_draws_of_values_that_repeat(seed: int, kind: str) -> None:
    random = np.random.default_rng(seed)
    n, shape = 5000, (21, 5000)
    values: Any
    if kind == "counts":
        values = random.poisson(random.gamma(1, 1, n), shape).astype(float)
    elif kind == "mostly zero":
        values = np.where(random.random(shape) < 0.9, 0.0, random.normal(size=shape))
    else:
        most = 2 if kind == "two categories" else 6
        values = np.array(list("abcdef"))[(random.random(shape) ** random.uniform(0.5, 4, n) * most).astype(int)]
    found = scores(values[0], values[1:])
    for name, level in zip(LEVELS, NOMINAL, strict=True):
        assert found[name] == pytest.approx(level, abs=4 * np.sqrt(level * (1 - level) / n))


def test_categories_drawn_too_surely_are_covered_too_little() -> None:
    random = np.random.default_rng(0)
    values = np.array(list("abcdef"))[(random.random((40, 3000)) ** 2 * 6).astype(int)]
    right, sure = scores(values[0], values[1:]), scores(values[0], np.full((39, 3000), "a"))
    assert (sure[LEVELS] < right[LEVELS] - 0.02).all()
    assert sure["log_score"] > right["log_score"]
    assert sure["energy_score"] > right["energy_score"]
    shares = pd.Series(values[0]).value_counts(normalize=True)
    entropy = -(shares * np.log(shares)).sum()
    assert right["log_score"] == pytest.approx(entropy + 5 / (2 * 39), abs=0.03)
    assert right["energy_score"] == pytest.approx((1 - (shares**2).sum()) / 2, abs=0.02)


def test_energy_is_half_of_that_of_draw_errors() -> None:
    random = np.random.default_rng(0)
    truth = pd.DataFrame({"x": random.normal(size=50), "c": random.choice(list("abc"), 50)})
    draws = [truth.sample(frac=1, random_state=m, ignore_index=True) for m in range(4)]
    observed = random.random((50, 2)) < 0.5
    ours = draw_scores(truth, draws, observed)["energy_score"]
    theirs = draw_errors(truth, draws, observed)["energy"]
    scale = np.array([np.ptp(truth["x"]) / truth["x"].std(ddof=0), 1])
    assert ours.to_numpy() == pytest.approx(theirs.to_numpy() / 2 * scale)


def test_dates_count_as_numbers_and_constants_have_no_score() -> None:
    days = pd.date_range("2024-01-01", periods=6)
    truth = pd.DataFrame({0: days, "same": 1.0})
    draws = [truth.assign(same=2.0), truth]
    found = draw_scores(truth, draws, np.zeros((6, 2), dtype=bool))
    assert found["kind"].tolist() == ["continuous", "continuous"]
    assert found["energy_score"].tolist() == pytest.approx([0, np.nan], nan_ok=True)
    assert found.loc[1, LEVELS].isna().all()


def test_a_single_draw_is_refused() -> None:
    frame = pd.DataFrame({"x": [1.0, 2.0]})
    with pytest.raises(ValueError, match="at least 2 tables"):
        draw_scores(frame, [frame], np.zeros((2, 1), dtype=bool))


class Gaussian:
    """Draws y given x, which follow a normal distribution of correlation 0.8, with a wrong spread."""

    def __init__(self, factor: float = 1.0) -> None:
        self.factor, self.seen = factor, pd.DataFrame()

    def impute_draws(self, X: pd.DataFrame, *, num_draws: int, random_state: int) -> list[pd.DataFrame]:
        self.seen = X
        random = np.random.default_rng(random_state)
        spread = 0.6 * self.factor
        filled = []
        for _ in range(num_draws):
            x = X["x"].fillna(0.8 * X["y"]).fillna(0) + X["x"].isna() * random.normal(size=len(X)) * np.where(
                X["y"].isna(), self.factor, spread
            )
            y = X["y"].where(X["y"].notna(), 0.8 * x + spread * random.normal(size=len(X)))
            filled.append(pd.DataFrame({"x": x, "y": y}))
        return filled


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_overimputation_of_a_gaussian(seed: int) -> None:
    random = np.random.default_rng(seed)
    x = random.normal(size=20_000)
    table = pd.DataFrame({"x": x, "y": 0.8 * x + 0.6 * random.normal(size=20_000)})
    table = table.mask(random.random(table.shape) < 0.2)
    model = Gaussian()
    found = overimputation(model, table, share=0.2, random_state=seed)
    hidden = table.notna() & model.seen.isna()
    assert found["hidden"].tolist() == hidden.sum().tolist()
    assert (hidden.sum() / table.notna().sum()).to_numpy() == pytest.approx(0.2, abs=0.01)
    pd.testing.assert_frame_equal(model.seen, table.mask(hidden))
    for name, level in zip(LEVELS, NOMINAL, strict=True):
        assert found[name].to_numpy() == pytest.approx(level, abs=0.03)
    narrow = overimputation(Gaussian(0.6), table, share=0.2, random_state=seed)
    assert (narrow[LEVELS].to_numpy() < np.array(NOMINAL) - 0.03).all()
    assert (narrow["energy_score"] > found["energy_score"]).all()


def test_overimputation_of_a_model_is_the_same_from_the_same_seed() -> None:
    random = np.random.default_rng(0)
    table = pd.DataFrame({"x": random.normal(size=200).round(2), "n": np.arange(200) % 7, "c": ["a", "b"] * 100})
    table.loc[:20, "x"] = np.nan
    model = MissDiff(steps=20, width=16, refine=0, random_state=0).fit(table)
    found = overimputation(model, table, num_draws=4)
    assert found["column"].tolist() == ["x", "n", "c"]
    assert found["log_score"].notna().tolist() == [False, False, True]
    assert found[["energy_score", *LEVELS]].notna().all(axis=None)
    pd.testing.assert_frame_equal(overimputation(model, table, num_draws=4), found)
    assert not overimputation(model, table, num_draws=4, random_state=1).equals(found)


@pytest.mark.parametrize("share", [0, 1, -0.5])
def test_a_share_of_none_or_all_is_refused(share: float) -> None:
    with pytest.raises(ValueError, match="share must be greater than 0 and less than 1"):
        overimputation(Gaussian(), pd.DataFrame({"x": [1.0], "y": [2.0]}), share=share)
