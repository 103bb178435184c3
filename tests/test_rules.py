"""Rules in all that a fitted model draws and imputes."""

from __future__ import annotations

import pickle
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from missdiff_fast import MissDiff
from missdiff_fast._engine import checkpoint
from missdiff_fast.errors import DataWarning
from missdiff_fast.sklearn import MissDiffImputer

RULES = [
    "20 <= age <= 90",
    "bmi = weight / height**2",
    "admitted <= discharged",
    "stay = discharged - admitted",
    "stay <= 40",
    "combinations(ward, hospital)",
    "`body fat` < bmi",
]


def make_table(rows: int = 240, seed: int = 0) -> pd.DataFrame:
    """Rows that keep the rules, a sixth of their cells missing."""
    random = np.random.default_rng(seed)
    table = pd.DataFrame(
        {"weight": random.normal(75, 10, rows).round(1), "height": random.normal(1.7, 0.1, rows).round(2)}
    )
    table["bmi"] = (table["weight"] / table["height"] ** 2).round(1)
    table["age"] = pd.array(random.integers(20, 91, rows), dtype="Int64")
    start = pd.Timestamp("2024-01-01") + pd.to_timedelta(random.integers(0, 300, rows), unit="D")
    days = random.integers(0, 41, rows)
    table["admitted"] = start.astype("datetime64[s]")
    table["discharged"] = (start + pd.to_timedelta(days, unit="D")).astype("datetime64[s]")
    table["stay"] = pd.array(days, dtype="Int16")
    table["ward"] = random.choice(list("ABCDEF"), rows)
    table["hospital"] = table["ward"].map(dict(zip("ABCDEF", ["I", "I", "II", "II", "III", "III"], strict=True)))
    table["body fat"] = (table["bmi"] * random.uniform(0.3, 0.95, rows)).round(2)
    return table.mask(random.random(table.shape) < 1 / 6)


def broken(rows: pd.DataFrame) -> dict[str, int]:
    """How many rows break each rule, of those in which its cells are there: told without the package's rules."""
    number = {name: rows[name].astype("float64") for name in ("age", "bmi", "weight", "height", "stay", "body fat")}
    days = (rows["discharged"] - rows["admitted"]).dt.days
    wards = dict(zip("ABCDEF", ["I", "I", "II", "II", "III", "III"], strict=True))
    checks = {
        "age": ~number["age"].between(20, 90) & rows["age"].notna(),
        "bmi": (number["bmi"] - number["weight"] / number["height"] ** 2).abs() > 0.0500001,
        "order": rows["admitted"] > rows["discharged"],
        "stay": (days - number["stay"]).abs() > 0,
        "most": number["stay"] > 40,
        "wards": (rows["ward"].map(wards) != rows["hospital"]) & rows["ward"].notna() & rows["hospital"].notna(),
        "fat": number["body fat"] >= number["bmi"],
    }
    return {name: int(one.sum()) for name, one in checks.items() if one.any()}


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return make_table()


@pytest.fixture(scope="module", params=[True, False], ids=["with relations", "without"])
def model(request: pytest.FixtureRequest, table: pd.DataFrame) -> MissDiff:
    """A model that has learnt next to nothing, so that most rows that it draws break a rule."""
    settings = {"relations.enabled": request.param, "blend.rows_per_feature": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return MissDiff(rules=RULES, steps=2, refine=0, refits=1, width=16, random_state=0, settings=settings).fit(
            table
        )


@pytest.mark.filterwarnings("error")
class TestRowsKeepRules:
    def test_sample(self, model: MissDiff, table: pd.DataFrame) -> None:
        rows = model.sample(300)
        assert broken(rows) == {}
        assert rows.dtypes.equals(table.dtypes)

    def test_sample_with_holes(self, model: MissDiff) -> None:
        rows = model.sample(300, missing=True)
        assert broken(rows) == {}
        assert rows.isna().any().all()

    def test_given(self, model: MissDiff) -> None:
        rows = model.sample(150, given={"bmi": 24.5, "ward": "E", "discharged": pd.Timestamp("2024-03-01")})
        assert broken(rows) == {}
        assert (rows["bmi"] == 24.5).all()
        assert (rows["hospital"] == "III").all()
        assert (rows["discharged"] == pd.Timestamp("2024-03-01")).all()

    def test_impute(self, model: MissDiff, table: pd.DataFrame) -> None:
        for filled in (model.impute(table), *model.impute_draws(table, 2)):
            assert broken(filled) == {}
            seen = table.notna()
            assert filled.notna().all().all()
            assert filled.where(seen).equals(table.where(seen))
            assert filled.dtypes.equals(table.dtypes)

    def test_rows_depend_on_the_seed_and_their_number_alone(self, model: MissDiff) -> None:
        for missing in (False, True):
            parts = [model.sample(9, missing=missing), model.sample(31, first_row=9, missing=missing)]
            pd.testing.assert_frame_equal(pd.concat(parts, ignore_index=True), model.sample(40, missing=missing))

    def test_a_saved_model_keeps_them(self, model: MissDiff, tmp_path: Path) -> None:
        model.save(tmp_path / "model")
        loaded = MissDiff.load(tmp_path / "model")
        assert loaded.rules == tuple(RULES)
        pd.testing.assert_frame_equal(loaded.rules_, model.rules_)
        pd.testing.assert_frame_equal(loaded.sample(30), model.sample(30))
        pd.testing.assert_frame_equal(pickle.loads(pickle.dumps(model)).sample(20), model.sample(20))


def test_rules_are_told(model: MissDiff, table: pd.DataFrame) -> None:
    frame = model.rules_
    assert frame["rule"].tolist() == RULES
    assert frame["kind"].tolist() == [
        "range",
        "derived",
        "inequality",
        "derived",
        "range",
        "combinations",
        "inequality",
    ]
    assert frame["columns"][5] == ["ward", "hospital"]
    assert frame["rows"][0] == table["age"].notna().sum()
    assert frame["broken"].tolist() == [0] * 7
    with pytest.raises(AttributeError, match="after fit"):
        _ = MissDiff().rules_


def test_training_rows_that_break_a_rule_are_told(table: pd.DataFrame) -> None:
    wrong = table.assign(age=table["age"].where(np.arange(len(table)) % 50 > 0, 5))
    with pytest.warns(DataWarning, match="'20 <= age <= 90' in 5 of [0-9]+ rows") as told:
        model = MissDiff(rules=RULES, steps=2, refine=0, random_state=0).fit(wrong)
    assert [one.filename for one in told] == [__file__]
    assert model.rules_["broken"].tolist() == [5, 0, 0, 0, 0, 0, 0]
    assert broken(model.sample(200)) == {}
    with pytest.warns(DataWarning, match="'20 <= age <= 90' in 5 rows, by known cells alone") as told:
        filled = model.impute(wrong)
    assert [one.filename for one in told] == [__file__]
    assert broken(filled) == {"age": 5}


class TestFiles:
    @pytest.fixture(scope="class")
    def parts(self, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict, dict]:
        """Description and tensors of a model's file."""
        path = tmp_path_factory.mktemp("model") / "model"
        columns = make_table()[["ward", "hospital"]]
        MissDiff(rules=["combinations(ward, hospital)"], steps=2, refine=0, random_state=0).fit(columns).save(path)
        return checkpoint.read(path)

    def test_one_of_before_there_were_rules_is_read(self, parts: tuple[dict, dict], tmp_path: Path) -> None:
        meta, tensors = parts
        given = {name: value for name, value in meta["parameters"].items() if name != "rules"}
        old = {name: value for name, value in meta.items() if name != "rules"}
        checkpoint.write(tmp_path / "old", {**old, "parameters": given}, tensors)
        loaded = MissDiff.load(tmp_path / "old")
        assert len(loaded.rules_) == 0
        assert len(loaded.sample(5)) == 5

    def test_one_whose_combinations_do_not_fit_is_refused(self, parts: tuple[dict, dict], tmp_path: Path) -> None:
        meta, tensors = parts
        changed = {**tensors, "rules.0.places": tensors["rules.0.places"] + 100}
        checkpoint.write(tmp_path / "changed", meta, changed)
        with pytest.raises(ValueError, match="the combinations of a model file do not hold together"):
            MissDiff.load(tmp_path / "changed")
        checkpoint.write(tmp_path / "changed", {**meta, "rules": []}, tensors)
        with pytest.raises(ValueError, match="rules of a model file"):
            MissDiff.load(tmp_path / "changed")


def test_the_preset_paper_keeps_rules() -> None:
    random = np.random.default_rng(0)
    low = random.integers(0, 50, 80).astype(float)
    table = pd.DataFrame({"low": low, "high": low + random.integers(0, 20, 80)}).mask(random.random((80, 2)) < 0.1)
    settings = {"network.channels": 8, "network.layers": 1, "diffusion.steps": 5}
    rules = ["low <= high"]
    model = MissDiff(preset="paper", rules=rules, epochs=1, random_state=0, settings=settings).fit(table)
    rows = model.sample(40)
    assert (rows["low"] <= rows["high"]).all()


def test_the_transformer_takes_rules() -> None:
    random = np.random.default_rng(0)
    X = np.sort(random.normal(size=(120, 2)), 1)
    X[random.random(X.shape) < 0.2] = np.nan
    filled = MissDiffImputer(rules=["x0 <= x1"], steps=2, refine=0, random_state=0).fit_transform(X)
    assert (filled[:, 0] <= filled[:, 1]).all()
