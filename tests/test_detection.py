"""How well synthetic rows are told from real ones."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("sdmetrics")
pytest.importorskip("sklearn")
pytest.importorskip("xgboost")

from missdiff_fast.errors import DataError
from missdiff_fast.evaluate import detection
from missdiff_fast.evaluate._comparison import encode, make_features, sample_alike


def table(seed: int, rows: int = 600) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    x = random.normal(size=rows)
    return pd.DataFrame({"x": x, "y": x + random.normal(size=rows), "w": random.choice(list("uvw"), rows)})


def holes(frame: pd.DataFrame, share: float, seed: int = 9) -> pd.DataFrame:
    return frame.mask(np.random.default_rng(seed).random(frame.shape) < share)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_rows_of_one_distribution_cannot_be_told_apart(seed: int) -> None:
    found = detection(table(2 * seed), table(2 * seed + 1), random_state=seed)
    assert found["auroc"] == pytest.approx(0.5, abs=0.06)
    assert found["logistic_score"] > 0.9


def test_rows_with_a_value_far_outside_are_told_apart() -> None:
    found = detection(table(0), table(1).assign(x=9.0))
    assert found["auroc"] > 0.99  # XGBoost has the greatest real values in one bin with it
    assert found["logistic_score"] == pytest.approx(0)


def test_the_boosted_model_sees_a_dependence_that_the_logistic_one_does_not() -> None:
    other = table(1)
    found = detection(table(0), other.assign(y=np.random.default_rng(2).permutation(other["y"])))
    assert found["logistic_score"] > 0.9
    assert found["auroc"] > 0.6


def test_the_score_is_that_of_sdmetrics() -> None:
    from sdmetrics.single_table import LogisticDetection

    real, synthetic = table(0), table(1).assign(x=lambda frame: frame["x"] + 0.5)
    # The same rows in the same order, or the folds are others.
    random = np.random.default_rng(3)
    plain = real.iloc[random.permutation(600)], synthetic.iloc[random.permutation(600)]
    np.random.seed(3)
    kinds = {"x": "numerical", "y": "numerical", "w": "categorical"}
    expected = LogisticDetection.compute(*plain, {"columns": {name: {"sdtype": kind} for name, kind in kinds.items()}})
    assert 0.3 < expected < 0.9
    assert detection(real, synthetic, random_state=3)["logistic_score"] == pytest.approx(expected, abs=1e-4)


def test_the_seed_decides_and_the_global_generator_is_left_alone() -> None:
    np.random.seed(1)
    expected = np.random.random()
    np.random.seed(1)
    first = detection(table(0, 200), table(1, 200), random_state=5)
    assert np.random.random() == expected
    assert detection(table(0, 200), table(1, 200), random_state=5) == first
    assert detection(table(0, 200), table(1, 200), random_state=6)["auroc"] != first["auroc"]


def test_copies_of_the_real_rows_are_below_one_half() -> None:
    assert detection(table(0), table(0))["auroc"] < 0.3


def test_a_category_in_the_synthetic_table_alone_gives_it_away() -> None:
    assert detection(table(0), table(1).assign(w="z")) == {"auroc": 1, "logistic_score": pytest.approx(0)}


def test_categories_by_the_thousand() -> None:
    found = []
    for seed in range(3):
        codes = np.random.default_rng(seed).integers(0, 3000, (2, 2000))
        tables = [pd.DataFrame({"ward": [f"w{code}" for code in half]}) for half in codes]
        found.append(detection(*tables, random_state=seed)["auroc"])
    # Numbered by appearance, wards that the first table lacks would be known by their number: 0.524 on average.
    assert np.mean(found) == pytest.approx(0.5, abs=0.015)
    # A tenth of the wards in the place of all.
    fewer = pd.DataFrame({"ward": [f"w{code % 300}" for code in codes[1]]})
    assert detection(tables[0], fewer)["auroc"] > 0.6


@pytest.mark.parametrize("unit", [1e-300, 1e12, 1e307])
def test_the_unit_of_a_column_changes_nothing(unit: float) -> None:
    real, synthetic = (table(seed).assign(x=lambda frame: frame["x"] / 8) for seed in (0, 1))
    expected = detection(real, synthetic)
    found = detection(real.assign(x=real["x"] * unit), synthetic.assign(x=synthetic["x"] * unit))
    assert found["auroc"] == pytest.approx(expected["auroc"], abs=1e-3)
    assert found["logistic_score"] == pytest.approx(expected["logistic_score"], abs=1e-3)


def test_spikes_among_huge_numbers_do_not_stop_the_logistic_model() -> None:
    # The quartiles coincide, so SDMetrics does not scale the column.
    real, synthetic = (table(s).assign(x=lambda frame: np.where(frame["x"] > 1.5, 1e90, 0.0)) for s in (0, 1))
    assert 0.8 < detection(real, synthetic)["logistic_score"] <= 1


class TestHoles:
    def test_holes_alone_do_not_tell_the_tables_apart(self) -> None:
        assert detection(holes(table(0, 2000), 0.3), table(1, 2000))["auroc"] == pytest.approx(0.5, abs=0.05)
        both = detection(holes(table(0, 2000), 0.3), holes(table(1, 2000), 0.1, seed=8))
        assert both["auroc"] == pytest.approx(0.5, abs=0.05)

    def test_what_holes_leave_is_still_told_apart(self) -> None:
        found = detection(holes(table(0, 2000), 0.3), table(1, 2000).assign(x=lambda frame: frame["x"] + 1))
        assert found["auroc"] > 0.65
        assert found["logistic_score"] < 0.75

    def test_holes_that_depend_on_values_do_tell(self) -> None:
        real = table(0, 2000)
        assert detection(real.assign(x=real["x"].mask(real["x"] > 0)), table(1, 2000))["auroc"] > 0.6

    def test_half_of_the_rows_lend_their_holes(self) -> None:
        real, synthetic = encode(holes(table(0, 100), 0.4), table(1, 80), None)
        first, second = sample_alike(real, synthetic, max_rows=None, random_state=0, least=2)
        assert len(first.numbers) == len(second.numbers) == 50
        lent = {tuple(row) for row in real.missing}
        assert all(tuple(row) in lent for row in second.missing)
        assert 0.25 < second.missing.mean() < 0.55
        # The compared real rows are as they were: complete cells are those of the table.
        values = set(real.numbers[~np.isnan(real.numbers)])
        assert set(first.numbers[~np.isnan(first.numbers)]) <= values
        complete = sample_alike(synthetic, synthetic, max_rows=30, random_state=0, least=2)
        assert [len(cells.numbers) for cells in complete] == [30, 30]
        assert not complete[0].missing.any()


def test_features_of_missing_cells_and_rare_categories() -> None:
    frame = pd.DataFrame({"x": [1.0, np.nan], "w": ["a", None]})
    first, second = make_features(*encode(frame, frame.assign(w=["b", "b"]), None), np.array([7.0]))
    assert first.tolist() == [[1, 0, 1, 0], [7, 1, 0, 0]]  # missing, a, b
    assert second.tolist() == [[1, 0, 0, 1], [7, 0, 0, 1]]
    words = pd.DataFrame({"w": [f"w{i}" for i in range(150)] + ["w0"] * 50})
    first, second = make_features(*encode(words, words, None), np.zeros(0))
    assert first.shape == (200, 101)
    assert (first.sum(axis=1) == 1).all()
    assert first[:, 100].sum() == 50


@pytest.mark.parametrize(
    ("real", "synthetic", "message"),
    [
        (table(0), table(1)[:1], "the synthetic table has 1 row; at least 10 are needed: give it more rows"),
        (
            holes(table(0, 19), 0.5),
            table(1),
            "the real table has 19 rows; at least 20 are needed, as some of its cells are missing: give it more rows, "
            "or fill the missing cells",
        ),
        (table(0), table(1)[:0], "the synthetic table has no rows"),
        (table(0).assign(x=np.nan), table(1), "column 'x' of the real table has no value to compare; drop it"),
        (table(0), table(1).assign(more=1), "column 'more' is in the synthetic table only"),
        (table(0), table(1).assign(x="a"), "column 'x' holds numbers in the real table and categories in the synth"),
    ],
)
def test_tables_that_cannot_be_compared(real: pd.DataFrame, synthetic: pd.DataFrame, message: str) -> None:
    with pytest.raises(DataError, match=message):
        detection(real, synthetic)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"random_state": -1}, r"random_state must lie in \[0, 2\*\*32\), got -1"),
        ({"max_rows": 9}, "max_rows must be at least 10, got 9"),
        ({"continuous": ["z"]}, "no column named 'z' in the table"),
    ],
)
def test_arguments(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(DataError, match=message):
        detection(table(0), table(1), **arguments)  # type: ignore[arg-type]
