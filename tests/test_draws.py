"""Measures of several fillings of the same holes: by hand, against scipy, and on draws that are perfect."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from missdiff_fast.evaluate import draw_errors, expected_coverage, imputation, imputation_errors, row_energy

TRUTH = pd.DataFrame({"a": [0.0, 2.0, 4.0, 10.0], "c": ["u", "v", "u", "w"]})
OBSERVED = np.array([[0, 0], [1, 0], [0, 1], [1, 1]], dtype=bool)


def drawn(a: tuple[float, float], c: tuple[str, str]) -> pd.DataFrame:
    """The truth with other cells: rows 0 and 2 of `a`, rows 0 and 1 of `c`."""
    return TRUTH.assign(a=[a[0], 2.0, a[1], 10.0], c=[c[0], c[1], "u", "w"])


DRAWS = [drawn((1.0, 4.0), ("u", "v")), drawn((3.0, 4.0), ("v", "v")), drawn((5.0, 7.0), ("w", "v"))]


def test_energy_of_cells_by_hand() -> None:
    errors = draw_errors(TRUTH, DRAWS, OBSERVED).set_index("column")
    assert errors["kind"].tolist() == ["continuous", "categorical"]
    assert errors["hidden"].tolist() == [2, 2]
    # a, row 0: mean |x - 0| = .3; pairs |.1 - .3|, |.1 - .5|, |.3 - .5|. Row 2: mean .1 from .4; pairs 0, .3, .3.
    a = ((2 * 0.3 - 0.8 / 3) + (2 * 0.1 - 0.6 / 3)) / 2
    # c, row 0: two of three wrong, no two alike. Row 1: all right.
    c = ((2 * 2 / 3 - 1) + 0) / 2
    assert errors["energy"].tolist() == pytest.approx([a, c])


def test_coverage_by_hand() -> None:
    errors = draw_errors(TRUTH, DRAWS, OBSERVED).set_index("column")
    # 0 is not within [1, 5]; 4 is the lower end of [4, 7].
    assert errors["coverage"].tolist() == pytest.approx([0.5, np.nan], nan_ok=True)


def test_the_interval_leaves_out_the_outermost_draws_where_there_are_enough() -> None:
    truth = pd.DataFrame({"x": np.r_[np.arange(21.0), 100.0]})
    observed = np.arange(22)[:, None] == 21
    draws = [truth.assign(x=np.r_[np.full(21, float(m)), 100.0]) for m in range(1, 20)]  # 1 ... 19 in each hole
    assert draw_errors(truth, draws, observed, level=0.9)["coverage"].item() == pytest.approx(19 / 21)  # 1 ... 19
    assert draw_errors(truth, draws, observed, level=0.5)["coverage"].item() == pytest.approx(11 / 21)  # 5 ... 15
    assert expected_coverage(19, 0.5) == pytest.approx(10 / 20)


def test_energy_is_scipys_with_another_count_of_pairs() -> None:
    stats = pytest.importorskip("scipy.stats")
    random = np.random.default_rng(0)
    y, x = random.normal(size=6), random.normal(size=(4, 6))
    truth = pd.DataFrame({"x": np.r_[y, 10.0, -10.0]})
    observed = np.arange(8)[:, None] >= 6
    draws = [truth.assign(x=np.r_[each, 10.0, -10.0]) for each in x]
    # scipy gives the root, and takes the mean over all M^2 pairs of draws, M of which are a draw and itself.
    expected = []
    for j in range(6):
        squared = stats.energy_distance(x[:, j], [y[j]]) ** 2
        pairs = np.abs(x[:, j, None] - x[None, :, j]).mean()
        expected.append((squared + pairs - pairs * 4 / 3) / 20)
    assert draw_errors(truth, draws, observed)["energy"].item() == pytest.approx(np.mean(expected))


def test_energy_of_categories_is_the_brier_score_of_many_draws() -> None:
    random = np.random.default_rng(0)
    share = np.array([0.5, 0.3, 0.2])
    truth = pd.DataFrame({"c": [0, 1, 2]})
    draws = [pd.DataFrame({"c": random.choice(3, 3, p=share)}) for _ in range(400)]
    brier = ((share - np.eye(3)) ** 2).sum(1).mean()
    energy = draw_errors(truth, draws, np.zeros((3, 1), dtype=bool), continuous=[])["energy"].item()
    assert energy == pytest.approx(brier, abs=0.03)


def test_row_energy_by_hand() -> None:
    # Row 0: from the truth .1, sqrt(.09 + 1), sqrt(.25 + 1); pairs sqrt(.04 + 1), sqrt(.16 + 1), sqrt(.04 + 1).
    first = 2 * (0.1 + np.sqrt(1.09) + np.sqrt(1.25)) / 3 - 2 * (2 * np.sqrt(1.04) + np.sqrt(1.16)) / 6
    # Row 1: all right. Row 2: as its only cell. Row 3 has no hidden cell.
    assert row_energy(TRUTH, DRAWS, OBSERVED) == pytest.approx((first + 0 + (2 * 0.1 - 0.6 / 3)) / 3)


def test_rows_tell_whether_cells_go_together_and_columns_do_not() -> None:
    random = np.random.default_rng(0)
    x = random.uniform(size=(11, 2000))
    truth = pd.DataFrame({"x": x[0], "y": x[0]})
    observed = np.zeros((2000, 2), dtype=bool)
    together = [pd.DataFrame({"x": each, "y": each}) for each in x[1:]]
    apart = [pd.DataFrame({"x": each, "y": random.permutation(each)}) for each in x[1:]]
    energies = [draw_errors(truth, draws, observed)["energy"].mean() for draws in (together, apart)]
    assert energies[0] == pytest.approx(energies[1], abs=0.01)
    assert row_energy(truth, together, observed) < row_energy(truth, apart, observed) - 0.02


@pytest.mark.parametrize(("count", "level"), [(2, 0.9), (5, 0.9), (19, 0.9), (30, 0.8), (12, 0.5)])
def test_perfect_draws_have_the_expected_coverage_and_the_least_energy(count: int, level: float) -> None:
    random = np.random.default_rng(count)
    x = random.normal(size=(count + 1, 4000))
    truth, observed = pd.DataFrame({"x": x[0]}), np.zeros((4000, 1), dtype=bool)
    found = draw_errors(truth, [pd.DataFrame({"x": each}) for each in x[1:]], observed, level=level)
    expected = expected_coverage(count, level)
    assert found["coverage"].item() == pytest.approx(expected, abs=4 * np.sqrt(expected * (1 - expected) / 4000))
    for scale in (0.5, 2.0):
        other = draw_errors(truth, [pd.DataFrame({"x": scale * each}) for each in x[1:]], observed)
        assert other["energy"].item() > found["energy"].item()


def test_expected_coverage_by_hand() -> None:
    # l is floor(.05 (M + 1)) or 1: 1 up to 38 draws, 2 from 39 on.
    assert [expected_coverage(m) for m in (2, 5, 19, 38, 39, 99)] == pytest.approx(
        [1 / 3, 4 / 6, 18 / 20, 37 / 39, 36 / 40, 90 / 100]
    )


def test_a_filling_that_never_varies_gets_twice_its_mean_absolute_error() -> None:
    errors = imputation_errors(TRUTH, DRAWS[1], OBSERVED)
    energy = draw_errors(TRUTH, [DRAWS[1]] * 4, OBSERVED)["energy"]
    assert energy.tolist() == pytest.approx([2 * errors["mae"][0], 2 * errors["error"][1]])


def test_all_in_one_row() -> None:
    result = imputation(TRUTH, DRAWS[0], OBSERVED, draws=DRAWS, level=0.8)
    each = draw_errors(TRUTH, DRAWS, OBSERVED).set_index("column")
    assert result.iloc[0].to_dict() == pytest.approx(
        {
            "rmse": np.sqrt(0.005),
            "mae": 0.05,
            "category_error": 0.0,
            "energy": each.at["a", "energy"],
            "category_energy": each.at["c", "energy"],
            "row_energy": row_energy(TRUTH, DRAWS, OBSERVED),
            "coverage": 0.5,
            "expected_coverage": 0.5,
        }
    )


def test_coverage_counts_cells_not_columns() -> None:
    truth = pd.DataFrame({"a": [0.0, 1.0, 2.0, 3.0], "b": [0.0, 1.0, 2.0, 3.0], "constant": 1.0})
    observed = np.array([[0, 0, 0], [0, 1, 1], [0, 1, 1], [1, 1, 1]], dtype=bool)
    draws = [truth + 0.0, truth.assign(b=truth["b"] + 1, a=truth["a"] + 1), truth.assign(b=truth["b"] + 2)]
    draws[0]["b"] += 1  # the only hidden cell of b is not covered, the three of a are
    result = imputation(truth, draws[0], observed, draws=draws)
    assert result["coverage"].item() == pytest.approx(3 / 4)
    assert draw_errors(truth, draws, observed).set_index("column").loc["constant"].isna()[["energy", "coverage"]].all()
    assert np.isfinite(row_energy(truth, draws, observed))


def test_rows_whose_only_hidden_cells_are_in_constant_columns_do_not_count() -> None:
    truth = pd.DataFrame({"x": [0.0, 1.0], "constant": 1.0})
    draws = [truth.assign(x=[x, 1.0]) for x in (0.5, 0.7)]  # 2 * 0.6 - 0.2
    for observed in ([[0, 1], [1, 0]], [[0, 1], [1, 1]]):
        mask = np.array(observed, dtype=bool)
        assert row_energy(truth, draws, mask) == pytest.approx(1.0)
        assert row_energy(truth, draws, mask.tolist()) == pytest.approx(1.0)
    assert np.isnan(row_energy(truth, draws, np.array([[1, 0], [1, 0]], dtype=bool)))


def test_without_hidden_cells_there_is_nothing_to_tell() -> None:
    whole = np.ones((4, 2), dtype=bool)
    assert draw_errors(TRUTH, DRAWS, whole)[["energy", "coverage"]].isna().all(axis=None)
    assert np.isnan(row_energy(TRUTH, DRAWS, whole))
    assert imputation(TRUTH, DRAWS[0], whole, draws=DRAWS).drop(columns="expected_coverage").isna().all(axis=None)


@pytest.mark.parametrize(
    ("draws", "arguments", "message"),
    [
        (DRAWS[:1], {}, "draws must be a list of at least 2 tables"),
        (DRAWS[0], {}, "draws must be a list of at least 2 tables"),
        (DRAWS, {"level": 1.0}, r"level must be between 0 and 1, not 1\.0"),
        ([DRAWS[0], DRAWS[1][:3]], {}, "must have the same rows and columns"),
        ([DRAWS[0], DRAWS[1].drop(columns="c")], {}, "column 'c' is in the true table only"),
        ([DRAWS[0], TRUTH.where(OBSERVED)], {}, "column 'a' has hidden cells that are not filled"),
    ],
)
def test_what_cannot_be_compared_is_refused(
    draws: list[pd.DataFrame], arguments: dict[str, float], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        draw_errors(TRUTH, draws, OBSERVED, **arguments)


def test_one_draw_has_no_interval() -> None:
    with pytest.raises(ValueError, match="an interval needs at least 2 draws, not 1"):
        expected_coverage(1)
