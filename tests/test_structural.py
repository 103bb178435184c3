"""Holes that another column explains: found, told and kept."""

import warnings

import numpy as np
import pandas as pd
import pytest

from missdiff_fast import MissDiff
from missdiff_fast._engine.backend import ReferenceBackend
from missdiff_fast.errors import DataError, DataWarning
from missdiff_fast.evaluate import overimputation
from missdiff_fast.table import Codec, read_frame
from missdiff_fast.table.structural import StructuralHole

ROWS = 600
FAST = {"blend.rows_per_feature": 0, "calibration.rounds": 0}


def deaths(rows=ROWS, seed=0):
    """Deaths with a day of each, a ventilator mode of the ventilated, and holes elsewhere by chance."""
    random = np.random.default_rng(seed)
    dead, hours = random.random(rows) < 0.4, np.where(random.random(rows) < 0.5, 0, random.integers(1, 90, rows))
    table = pd.DataFrame(
        {
            "dead": np.where(dead, "yes", "no"),
            "death_day": pd.array(random.integers(0, 365, rows), dtype="Int64"),
            "hours": hours,
            "mode": random.choice(["SIMV", "PSV"], rows),
            "age": random.normal(60, 12, rows).round(1),
        }
    )
    table["death_day"] = table["death_day"].mask(~dead)
    table["mode"] = table["mode"].where(hours > 0)
    table.loc[random.random(rows) < 0.2, "age"] = np.nan
    return table


def found(table, **arguments):
    return Codec.fit(read_frame(table, **arguments), ops=ReferenceBackend(), structural=True).structural


@pytest.fixture(scope="module")
def fitted():
    table = deaths()
    with pytest.warns(DataWarning, match="'death_day' is missing in all 383 rows with dead='no' and there in 100% of"):
        return table, MissDiff(steps=5, refine=0, settings=FAST, random_state=0).fit(table)


def test_columns_and_values_that_explain_holes():
    frame = found(deaths()).frame()
    assert frame[["column", "source", "values"]].values.tolist() == [
        ["death_day", "dead", ["no"]],
        ["mode", "hours", [0]],
    ]
    assert frame["elsewhere"].tolist() == [1.0, 1.0]


def test_they_are_found_beside_holes_by_chance():
    random = np.random.default_rng(1)
    table = deaths(2000)
    table = table.mask(random.random(table.shape) < 0.3)
    assert found(table).frame()[["column", "source"]].values.tolist() == [["death_day", "dead"], ["mode", "hours"]]


@pytest.mark.parametrize("seed", range(3))
def test_holes_by_chance_have_no_source(seed):
    random = np.random.default_rng(seed)
    table = pd.DataFrame({f"c{j}": random.integers(0, 40, 2000) for j in range(8)}).astype("Int64")
    table["ward"] = random.integers(0, 700, 2000).astype(str)
    assert not found(table.mask(random.random(table.shape) < 0.3)).found


def test_a_cell_that_is_there_once_is_no_structural_hole():
    table = deaths()
    table.loc[table.index[table["dead"] == "no"][0], "death_day"] = 5
    assert found(table).columns == ["mode"]


def test_a_seldom_measured_source_explains_nothing():
    # Two panels of a laboratory: which one was taken shows in the values of what both measure.
    random = np.random.default_rng(0)
    taken, second = random.random(3000) < 0.3, random.random(3000) < 0.5
    table = pd.DataFrame({"calcium": np.where(second, 1.1, 9.0), "urea": random.normal(20, 4, 3000).round()})
    table["calcium"] += random.integers(0, 4, 3000) / 10
    table["urea"] = table["urea"].mask(second)
    assert found(table).columns == ["urea"]
    assert not found(table.mask(~taken[:, None].repeat(2, 1))).found


def test_a_source_may_have_structural_holes_itself():
    random = np.random.default_rng(0)
    table = pd.DataFrame({"died": random.choice(["no", "yes"], 1500, p=[0.6, 0.4])})
    table["cause"] = pd.Series(random.choice(["a", "b"], 1500)).where(table["died"] == "yes")
    table["mode"] = pd.Series(random.choice(["x", "y", "z"], 1500)).where(table["cause"] == "a")
    table["age"] = random.normal(60, 12, 1500).round()
    assert found(table).frame()[["column", "source", "values"]].values.tolist() == [
        ["cause", "died", ["no"]],
        ["mode", "died", ["no"]],
        ["mode", "cause", ["b"]],
    ]
    model = MissDiff(steps=5, refine=0, settings=FAST, structural_missing="keep", random_state=0).fit(table)
    for rows in (model.sample(300), model.impute(table.mask(random.random(table.shape) < 0.1))):
        assert (rows["cause"].isna() == (rows["died"] == "no")).all()
        assert (rows["mode"].isna() == (rows["cause"] != "a")).all()


def test_the_second_source_explains_what_the_first_leaves():
    random = np.random.default_rng(0)
    table = pd.DataFrame({"site": random.choice(list("ABC"), 900), "sex": random.choice(["f", "m"], 900)})
    table["parity"] = pd.Series(random.integers(0, 5, 900)).mask((table["site"] == "A") | (table["sex"] == "m"))
    assert found(table).frame()[["source", "values"]].values.tolist() == [["sex", ["m"]], ["site", ["A"]]]
    model = MissDiff(steps=5, refine=0, settings=FAST, structural_missing="keep", random_state=0).fit(table)
    holes = table.assign(site=table["site"].where(random.random(900) < 0.5))
    filled = model.impute(holes)
    women = (table["sex"] == "f") & holes["site"].isna()
    assert (filled.loc[women, "site"] == "A").equals(table.loc[women, "parity"].isna())
    men = filled.loc[(table["sex"] == "m") & holes["site"].isna(), "site"]
    assert not (men == "A").all()  # their holes tell nothing of the site


def test_drawn_rows_keep_them(fitted):
    _, model = fitted
    rows = model.sample(400)
    assert (rows["death_day"].isna() == (rows["dead"] == "no")).all()
    assert (rows["mode"].isna() == (rows["hours"] == 0)).all()
    assert rows["age"].notna().all()
    assert rows["death_day"].dtype == "Int64"
    assert 0 < rows["death_day"].isna().mean() < 1
    pd.testing.assert_frame_equal(
        model.sample(100, first_row=300).reset_index(drop=True), rows[300:].reset_index(drop=True)
    )


def test_given_cells_decide(fitted):
    _, model = fitted
    assert model.sample(20, given={"dead": "no"})["death_day"].isna().all()
    assert model.sample(20, given={"dead": "yes"})["death_day"].notna().all()
    rows = model.sample(40, given={"death_day": 12})
    assert (rows["death_day"] == 12).all()
    assert (rows["dead"] == "yes").all()
    # Contradictory cells of the user stay as they are.
    rows = model.sample(5, given={"death_day": 12, "dead": "no"})
    assert (rows["death_day"] == 12).all()
    assert (rows["dead"] == "no").all()


def test_rows_with_holes_agree(fitted):
    _, model = fitted
    rows = model.sample(500, missing=True)
    assert rows["death_day"].notna().equals(rows["dead"] == "yes")
    assert rows["mode"].notna().equals(rows["hours"] != 0)


@pytest.mark.parametrize("draws", [False, True])
def test_imputed_rows_keep_them(fitted, draws):
    table, model = fitted
    holes = table.copy()
    holes.loc[::7, "dead"] = None
    filled = model.impute_draws(holes, 1)[0] if draws else model.impute(holes)
    assert filled["dead"].notna().all()
    assert filled["age"].notna().all()
    assert filled.loc[filled["dead"] == "no", "death_day"].isna().all()
    assert filled.loc[filled["dead"] == "yes", "death_day"].notna().all()
    assert filled.loc[holes["death_day"].notna(), "dead"].eq("yes").all()
    assert filled.loc[holes["death_day"].isna() & holes["dead"].isna(), "dead"].eq("no").all()  # all deaths have a day
    pd.testing.assert_series_equal(filled.dtypes, table.dtypes)


def test_fill_fills_them_and_the_choice_can_change(fitted, tmp_path):
    table, model = fitted
    model.save(tmp_path / "m")
    again = MissDiff.load(tmp_path / "m")
    pd.testing.assert_frame_equal(again.sample(50), model.sample(50))
    pd.testing.assert_frame_equal(again.structural_, model.structural_)
    again.structural_missing = "fill"
    assert again.sample(50).notna().all(axis=None)
    assert again.impute(table).notna().all(axis=None)


def test_integers_whose_holes_a_number_marks():
    table = deaths()
    table["death_day"] = table["death_day"].fillna(-9).astype("int64")
    model = MissDiff(
        steps=2, refine=0, settings=FAST, missing_values=[-9], structural_missing="keep", random_state=0
    ).fit(table)
    rows, filled = model.sample(100), model.impute(table)
    assert rows["death_day"].dtype == filled["death_day"].dtype == "Int64"
    assert filled["death_day"].isna().equals(table["dead"] == "no")
    assert (filled["death_day"].dropna() >= 0).all()


def test_nothing_follows_from_a_hole():
    schema = Codec.fit(read_frame(deaths()), ops=ReferenceBackend())
    holes = [
        StructuralHole("age", "mode", np.array([0.0]), 9, 1.0, 1.0, 0.0),
        StructuralHole("mode", "hours", np.array([0.0]), 9, 1.0, 5.0, 0.0),
    ]
    codec = Codec(
        schema.schema, [schema._coders[name] for name in schema.columns], schema._markers, schema.ops, (), holes
    )
    drawn = pd.DataFrame(
        {"dead": ["no"] * 3, "death_day": pd.array([3] * 3, dtype="Int64"), "hours": [0, 7, 7]}
        | {"mode": ["PSV", "PSV", "SIMV"], "age": [50.0] * 3}
    )
    missing = codec.structural.missing(drawn, codec.read(drawn[[]], partial=True))
    assert missing["mode"].tolist() == [True, False, False]
    assert missing["age"].tolist() == [False, True, False]


def test_a_choice_silences_the_warning_and_a_wrong_one_is_refused():
    with warnings.catch_warnings():
        warnings.simplefilter("error", DataWarning)
        MissDiff(steps=2, refine=0, settings=FAST, structural_missing="fill", random_state=0).fit(deaths())
    with pytest.raises(DataError, match="structural_missing must be 'keep' or 'fill', got 'drop'"):
        MissDiff(steps=2, structural_missing="drop").fit(deaths())


def test_the_plan_tells_them():
    notes = {one.column: one.warnings for one in MissDiff().plan(deaths()).columns}
    assert notes["mode"] == ("missing in all 302 rows with hours=0 and there in 100% of the others",)
    assert notes["age"] == ()


def test_overimputation_scores_hidden_cells_that_the_model_would_leave(fitted):
    table, model = fitted
    scores = overimputation(model, table, share=0.3, num_draws=3)
    assert scores.set_index("column").loc["death_day", "hidden"] > 0
    assert scores["energy_score"].notna().all()
    assert model.structural_missing is None


def test_the_imputer_fills_them_unless_told_to_keep():
    sklearn = pytest.importorskip("missdiff_fast.sklearn")
    table = deaths()
    assert sklearn.MissDiffImputer(steps=2, refine=0).fit_transform(table).notna().all(axis=None)
    kept = sklearn.MissDiffImputer(steps=2, refine=0, settings=FAST, structural_missing="keep").fit_transform(table)
    assert kept["death_day"].isna().any()


@pytest.fixture(scope="module")
def wards():
    """Deaths of whole wards: the source of the holes is itself determined by another column."""
    random = np.random.default_rng(0)
    ward = random.choice(["A", "B", "palliative", "hospice"], 1200)
    table = pd.DataFrame({"ward": ward, "died": np.where(np.isin(ward, ["A", "B"]), "no", "yes")})
    table["days"] = pd.Series(random.integers(1, 90, 1200).astype(float)).where(table["died"] == "yes")
    table["age"] = random.normal(60, 12, 1200).round()
    table.loc[random.random(1200) < 0.1, "age"] = np.nan
    return table, MissDiff(steps=5, refine=0, settings=FAST, structural_missing="keep", random_state=0).fit(table)


def test_a_source_that_follows_from_another_column_agrees_too(wards):
    table, model = wards
    assert "died" in set(model.relations_["column"]) | {"ward"} & set(model.relations_["from"].explode())
    rows = model.sample(300, given={"days": 5.0})
    assert rows["died"].eq("yes").all()
    assert rows["ward"].isin(["palliative", "hospice"]).all()
    rows = model.sample(600, missing=True)
    there = rows["days"].notna()
    assert rows.loc[there, "died"].eq("yes").all()
    assert rows.loc[there, "ward"].isin(["palliative", "hospice"]).all()
    holes = table.assign(died=None, ward=None)
    filled = model.impute(holes)
    assert filled["died"].eq(table["died"]).all()  # whether there are days tells it
    assert filled["ward"].isin(["palliative", "hospice"]).eq(table["died"] == "yes").all()


def test_the_name_of_the_columns_stays(fitted):
    table, model = fitted
    named = table.rename_axis(columns="item")
    filled = model.impute(named)
    assert filled["death_day"].isna().any()
    assert filled.columns.name == "item"


def test_limits_of_measurement_are_told_as_the_table_writes_them():
    random = np.random.default_rng(0)
    low = random.random(ROWS) < 0.4
    crp = np.where(low, "<0.1", [f"{one:.2f}" for one in random.integers(1, 9, ROWS) / 10])
    again = np.where(low, np.nan, random.normal(9, 2, ROWS).round(1))
    holes = found(pd.DataFrame({"crp": crp, "again": again}))
    assert holes.frame()[["column", "source", "values"]].values.tolist() == [["again", "crp", ["<0.1"]]]
    assert holes.texts()[0].startswith(f"'again' is missing in all {low.sum()} rows with crp='<0.1' and there")
