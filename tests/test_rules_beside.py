"""Rules beside structural holes, relations and limits of measurement, which drawn rows keep too."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

from missdiff_fast import MissDiff
from missdiff_fast.errors import DataError, DataWarning
from missdiff_fast.rules.deriving import root

ROWS = 400

FAST = {"blend.rows_per_feature": 0, "calibration.rounds": 0}


def fit(table: pd.DataFrame, rules: list[str]) -> MissDiff:
    """A small model of a table, without its warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        return MissDiff(steps=3, refine=0, settings=FAST, random_state=0, rules=rules).fit(table)


def patients(rows: int = ROWS) -> pd.DataFrame:
    """Patients of whom a third are dead, with the days until then; ``y`` follows from ``x``, and ``z`` from x and w."""
    random = np.random.default_rng(0)
    dead = random.random(rows) < 0.35
    table = pd.DataFrame(
        {
            "dead": np.where(dead, "yes", "no"),
            "days": np.where(dead, random.integers(60, 200, rows), np.nan),
            "x": random.integers(1, 60, rows).astype(float),
            "w": random.integers(1, 9, rows).astype(float),
        }
    )
    return table.assign(y=2 * table["x"] + 1, z=table["x"] * table["w"] + table["x"])


class TestStructuralHoles:
    def test_rules_of_a_column_with_holes_do_not_fill_them(self) -> None:
        model = fit(patients(), ["z = x * w + x", "days >= 0"])
        assert model.structural_["column"].tolist() == ["days"]
        assert len(model.relations_)
        rows = model.sample(300, random_state=1)
        assert (rows["days"].isna() == (rows["dead"] == "no")).all()
        assert 0.1 < (rows["dead"] == "yes").mean() < 0.9
        assert (rows["z"] == rows["x"] * rows["w"] + rows["x"]).all()

    def test_a_hole_is_no_part_of_a_rule(self) -> None:
        table = patients()
        table["early"] = np.minimum(table["x"], table["days"].fillna(1000.0))
        model = fit(table[["dead", "days", "early"]], ["early <= days - 90"])
        alive = table["dead"] == "no"
        for rows in (
            model.sample(300, random_state=1),
            model.impute(table[["dead"]].assign(days=np.nan, early=np.nan)),
        ):
            living = rows["dead"] == "no"
            assert rows.loc[living, "days"].isna().all()
            assert rows.loc[~living, "days"].notna().all()
            assert (rows["early"] <= rows["days"] - 90)[~living].all()
        assert (table["early"][alive] > 30).mean() > 0.3
        drawn = model.sample(300, random_state=1)
        assert (drawn.loc[drawn["dead"] == "no", "early"] > 30).mean() > 0.2  # not moved to keep a rule with a hole

    def test_holes_stay_right_where_a_rule_names_their_source(self) -> None:
        random = np.random.default_rng(0)
        hours = np.where(random.random(ROWS) < 0.5, 0, random.integers(1, 90, ROWS))
        table = pd.DataFrame({"hours": hours, "pressure": random.integers(5, 30, ROWS).astype(float)})
        table["pressure"] = table["pressure"].mask(hours == 0)
        table["limit"] = random.integers(0, 90, ROWS)
        model = fit(table, ["hours <= limit", "pressure <= hours", "hours <= 50"])
        assert model.structural_[["column", "source"]].values.tolist() == [["pressure", "hours"]]
        for rows in (model.sample(300, random_state=1), model.sample(given=table[["limit"]].clip(upper=30))):
            assert (rows["pressure"].isna() == (rows["hours"] == 0)).all()
            assert (rows["hours"] <= rows["limit"].clip(upper=50)).all()
            assert (rows["pressure"] <= rows["hours"])[rows["hours"] > 0].all()


class TestRelations:
    @pytest.mark.parametrize(
        "rules",
        [["x <= 10", "y >= 0"], ["y <= 21", "x >= 0"], ["x <= 10", "y <= 5"], ["x <= y - 10", "w <= x", "y <= 70"]],
    )
    def test_a_relation_between_columns_that_rules_name_is_kept(self, rules: list[str]) -> None:
        table = patients()[["x", "y", "w"]]
        model = fit(table, rules)
        assert len(model.relations_) == 1
        known = table.assign(x=np.nan, y=np.nan).mask(np.random.default_rng(3).random(table.shape) < 0.5)
        for rows in (model.sample(300, random_state=1), model.impute(known)):
            assert (rows["y"] == 2 * rows["x"] + 1).all()
            for rule in rules:
                assert rows.eval(rule).all()

    def test_sources_of_holes_stay_as_known_cells_say_where_rules_move_others(self) -> None:
        table = patients().assign(code=lambda t: np.where(t["dead"] == "yes", "D", "A"))[["dead", "days", "code", "x"]]
        model = fit(table, ["x <= days - 90"])
        known = table.loc[table["dead"] == "yes", ["days"]].head(100).clip(lower=120)
        rows = model.sample(given=known)
        assert (rows["dead"] == "yes").all()
        assert (rows["code"] == "D").all()
        assert (rows["x"] <= rows["days"] - 90).all()


def test_a_root_does_not_depend_on_other_rows() -> None:
    both = root(lambda x: np.where([True, False], 0.17 * x - 1.1, x**3 - 5), 0.0, 9.3, np.zeros(2))
    linear = root(lambda x: 0.17 * x - 1.1, 0.0, 9.3, np.zeros(1))
    curved = root(lambda x: x**3 - 5, 0.0, 9.3, np.zeros(1))
    assert both.tolist() == [*linear, *curved]


def test_rows_drawn_to_meet_conditions_are_not_told() -> None:
    model = fit(patients()[["x", "w"]], ["x <= 40"])
    with pytest.warns(DataWarning) as told:
        rows = model.sample(10, given={"x": 50.0, "w": [1.0, 2.0, 3.0]})
    assert [str(one.message) for one in told if "rule" in str(one.message)] == [
        "rows that break a rule are left so: 'x <= 40' in 10 rows, by known cells alone: "
        "look at the known cells of these rows"
    ]
    assert (rows["x"] == 50).all()


@pytest.mark.parametrize("time", ["2024-03-31 02:30", "2024-10-27 02:30"])
def test_a_time_that_clocks_do_not_have_once_is_refused(time: str) -> None:
    times = pd.date_range("2024-01-01", periods=60, freq="7D", tz="Europe/Berlin")
    table = pd.DataFrame({"t": times, "x": np.arange(60) % 7})
    with pytest.raises(DataError, match=f"{time}.*Europe/Berlin have '{time}' twice or never.*an hour earlier") as told:
        fit(table, [f"t <= '{time}'"])
    assert told.value.columns == ("t",)


class TestLimits:
    crp = pd.DataFrame({"crp": ["<0.1", "0.1", "0.2", "0.5", "2.5", "7.0"] * 40, "n": np.arange(240) % 7})

    @pytest.mark.parametrize("rule", ["mg = 10 * crp", "crp = mg / 10"])
    def test_a_formula_with_limits_is_refused(self, rule: str) -> None:
        table = self.crp.assign(mg=np.where(self.crp["crp"] == "<0.1", "<1", (np.arange(240) % 9).astype(str)))
        problem = "'(mg|crp)' holds limits of measurement such as '<(1|0.1)'.*leave the rule out, or write numbers"
        with pytest.raises(DataError, match=problem) as told:
            fit(table, [rule])
        assert set(told.value.columns) < {"crp", "mg"}

    def test_a_limit_is_below_its_number(self) -> None:
        rows = fit(self.crp, ["crp < 0.1"]).sample(100, random_state=0)
        assert set(rows["crp"]) == {"<0.1"}
        rows = fit(self.crp, ["crp >= 0.1"]).sample(100, random_state=0)
        assert "<0.1" not in set(rows["crp"])


def test_a_rule_comes_before_a_relation_to_known_cells() -> None:
    table = patients()[["x", "y", "w"]]
    rows = fit(table, ["x <= 10", "y >= 0"]).sample(given=table[["y"]].head(50))
    assert rows["x"].max() <= 10
    assert (rows["y"] == 2 * rows["x"] + 1)[rows["y"] <= 21].all()


def test_rows_depend_on_their_number_alone() -> None:
    model = fit(patients().drop(columns="z"), ["x <= 10", "y <= 15", "w <= days"])
    rows = model.sample(120, random_state=3)[100:].reset_index(drop=True)
    pd.testing.assert_frame_equal(rows, model.sample(20, first_row=100, random_state=3))
