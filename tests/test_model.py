"""The estimator as a user meets it."""

from __future__ import annotations

import copy
import datetime
import json
import pickle
import re
import warnings
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from missdiff_fast import MissDiff
from missdiff_fast._engine import checkpoint
from missdiff_fast._engine.backend import ReferenceBackend
from missdiff_fast._engine.history import Progress
from missdiff_fast._engine.tiling import TILE
from missdiff_fast._parameters import from_json, to_json
from missdiff_fast.errors import DataWarning
from missdiff_fast.methods import column_states
from missdiff_fast.ops import _library
from missdiff_fast.table import TableCells, table_cells

ROWS = 300


def make_table(rows: int = ROWS, seed: int = 0) -> pd.DataFrame:
    """A table of many dtypes in which columns depend on one another and a fifth of the cells is missing."""
    random = np.random.default_rng(seed)
    age = random.integers(20, 90, rows)
    table = pd.DataFrame(
        {
            "age": pd.array(age, dtype="Int64"),
            "pressure": np.round(80 + 0.6 * age + random.normal(0, 8, rows), 1),
            "sex": random.choice(["female", "male"], rows),
            "smoker": pd.array(random.random(rows) < 0.3, dtype="boolean"),
            "stage": pd.Categorical(random.choice(["I", "II", "III"], rows), ["I", "II", "III", "IV"], ordered=True),
            "admitted": pd.Timestamp("2024-01-01").as_unit("ns")
            + pd.to_timedelta(random.integers(0, 365, rows), unit="D"),
            "ward": "north",
        }
    )
    return table.mask(random.random(table.shape) < 0.2)


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return make_table()


@pytest.fixture(scope="module")
def narrow() -> MissDiff:
    """A model of columns whose dtypes hold little."""
    amounts = np.arange(40)
    table = pd.DataFrame(
        {
            "small": amounts.astype("int8"),
            "unsigned": amounts.astype("uint64"),
            "nullable": pd.Series(amounts, dtype="Int8"),
            "arrow": pd.Series(amounts).astype("int8[pyarrow]"),
            "single": amounts.astype("float32") / 7,
            "seconds": amounts.astype("datetime64[s]"),
        }
    )
    return MissDiff(steps=3, width=8, blocks=1, random_state=0).fit(table)


@pytest.fixture(scope="module")
def model(table: pd.DataFrame) -> MissDiff:
    return MissDiff(steps=30, random_state=0).fit(table)


def test_fit_returns_itself_and_stores_what_it_learnt(model: MissDiff, table: pd.DataFrame) -> None:
    assert model.columns_ == list(table.columns)
    assert list(model.history_.columns) == ["step", "loss", "seconds"]
    # One refinement and the imputer, half of the steps each, and an eighth for rows with holes.
    assert model.history_["step"].tolist() == [30, 45, 60, 64]
    assert model.training_.iloc[0].tolist() == ["training.steps", 30, "as set"]
    assert bool(np.isfinite(model.history_["loss"]).all())


def test_the_constructor_only_stores() -> None:
    model = MissDiff(steps=-1, preset="none", random_state="x", missing_values=["?"])  # type: ignore[arg-type]
    assert model.get_params()["steps"] == -1
    assert model.get_params()["missing_values"] == ["?"]


def moment(day: datetime.date) -> datetime.datetime:
    return datetime.datetime(day.year, day.month, day.day)


class TestSample:
    def test_rows_look_like_the_table(self, model: MissDiff, table: pd.DataFrame) -> None:
        sample = model.sample(500)
        assert sample.shape == (500, 7)
        assert sample.dtypes.equals(table.dtypes)
        assert not sample.isna().to_numpy().any()
        for column in table.columns:
            assert set(sample[column]) <= set(table[column].dropna())
        assert sample["stage"].cat.categories.tolist() == ["I", "II", "III", "IV"]

    def test_a_longer_sample_begins_with_the_shorter(self, model: MissDiff) -> None:
        longer = model.sample(TILE + 300)
        pd.testing.assert_frame_equal(model.sample(10), longer[:10])
        pd.testing.assert_frame_equal(model.sample(TILE + 1), longer[: TILE + 1])

    def test_a_sample_goes_on_from_any_row(self, model: MissDiff) -> None:
        for given in (None, {model.columns_[0]: model.sample(1)[model.columns_[0]].item()}):
            parts = [model.sample(4, given=given), model.sample(6, given=given, first_row=4)]
            pd.testing.assert_frame_equal(pd.concat(parts, ignore_index=True), model.sample(10, given=given))
        with pytest.raises(ValueError, match="first_row must be at least 0, got -1"):
            model.sample(1, first_row=-1)

    def test_seeds(self, model: MissDiff) -> None:
        pd.testing.assert_frame_equal(model.sample(50, random_state=3), model.sample(50, random_state=3))
        assert not model.sample(50, random_state=3).equals(model.sample(50, random_state=4))

    def test_no_rows(self, model: MissDiff, table: pd.DataFrame) -> None:
        empty = model.sample(0)
        assert empty.shape == (0, 7)
        assert empty.dtypes.equals(table.dtypes)

    def test_a_mapping_is_given_to_every_row(self, model: MissDiff) -> None:
        sample = model.sample(40, given={"sex": "male", "age": 30})
        assert set(sample["sex"]) == {"male"}
        assert set(sample["age"]) == {30}
        assert set(model.sample(4, given={"ward": "north"})["ward"]) == {"north"}
        assert sample["pressure"].nunique() > 1
        assert sample.dtypes.equals(model.sample(1).dtypes)

    @pytest.mark.parametrize("as_frame", [False, True])
    @pytest.mark.parametrize(
        ("column", "value", "told"),
        [
            ("small", 41, "41 in column 'small' (0 to 39)"),
            ("unsigned", 40, "40 in column 'unsigned' (0 to 39)"),
            ("nullable", -1, "-1 in column 'nullable' (0 to 39)"),
            ("single", -0.5, "-0.5 in column 'single' (0.0 to 5.571"),
            (
                "seconds",
                pd.Timestamp("2024-01-01"),
                "2024-01-01 00:00:00 in column 'seconds' (1970-01-01 00:00:00 to 1970-01-01 00:00:39)",
            ),
        ],
    )
    def test_a_given_value_beyond_the_range_is_warned_of(
        self, narrow: MissDiff, as_frame: bool, column: str, value: object, told: str
    ) -> None:
        given: Any = {column: value}
        if as_frame:
            given = pd.DataFrame({column: pd.Series([None, value, value], dtype=object)})
        with pytest.warns(DataWarning, match=re.escape(told)) as caught:
            drawn = narrow.sample(3, given=given)
        assert drawn[column][1] == pytest.approx(value) if isinstance(value, float) else drawn[column][1] == value
        (warning,) = [each.message for each in caught]
        assert isinstance(warning, DataWarning)
        assert (warning.kind, warning.columns) == ("range", (column,))
        assert caught[0].filename == __file__

    def test_given_values_of_the_range_are_not_warned_of(self, narrow: MissDiff, model: MissDiff) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for column in ("small", "unsigned", "nullable", "arrow"):
                narrow.sample(2, given={column: 0})
                narrow.sample(given=pd.DataFrame({column: [None, 39]}))
            model.sample(2, given={"sex": "male"})

    def test_a_given_value_that_would_be_changed_is_refused(self, model: MissDiff) -> None:
        with pytest.raises(ValueError, match=r"30\.5.*'age'|'age'.*30\.5"):
            model.sample(4, given={"age": 30.5})

    @pytest.mark.parametrize(
        ("column", "value"),
        [
            ("small", 300),
            ("small", -129),
            ("small", 1e20),
            ("unsigned", -1),
            ("unsigned", 2.0**64),
            ("nullable", 200),
            ("arrow", 300),
            ("arrow", 1.5),
            ("single", 1e300),
            ("seconds", pd.Timestamp("2024-01-01 00:00:00.5")),
        ],
    )
    def test_a_given_value_beyond_its_dtype_is_refused(self, narrow: MissDiff, column: str, value: object) -> None:
        with pytest.raises(ValueError, match=f"given value .* of column '{column}' can't be held by its dtype"):
            narrow.sample(2, given={column: value})
        with pytest.raises(ValueError, match=f"given value .* of column '{column}' can't be held by its dtype"):
            narrow.sample(given=pd.DataFrame({column: pd.Series([None, value])}))

    @pytest.mark.parametrize(
        ("column", "value"),
        [("small", 127), ("small", 5.0), ("unsigned", 2**63), ("arrow", -128), ("single", 0.1), ("nullable", 3.0)],
    )
    def test_a_given_value_comes_in_its_dtype(self, narrow: MissDiff, column: str, value: float) -> None:
        index = pd.Index([4, 4, np.nan])
        for rows in (
            narrow.sample(3, given={column: value}),
            narrow.sample(given=pd.DataFrame({column: [value] * 3}, index=index)),
        ):
            assert rows.dtypes.equals(narrow.sample(1).dtypes)
            np.testing.assert_allclose(rows[column].astype(float), value, rtol=1e-6)
        pd.testing.assert_index_equal(rows.index, index)

    def test_given_dates_and_times_come_as_the_column_has_them(self) -> None:
        days = [datetime.date(2024, 1, 1 + i) for i in range(28)]
        table = pd.DataFrame({"day": days, "time": pd.to_datetime(days), "python": pd.Series(days).map(moment)})
        table["python"] = pd.Series(list(table["python"]), dtype=object)
        table["arrow"] = table["day"].astype("date32[day][pyarrow]")
        model = MissDiff(steps=2, width=8, blocks=1, random_state=0).fit(table)
        for value in (days[1], pd.Timestamp(days[1]), datetime.datetime(2024, 1, 2)):
            for column in table.columns:
                drawn = model.sample(2, given={column: value})
                assert drawn.dtypes.equals(table.dtypes), (column, value)
                assert [type(cell) for cell in drawn[column]] == [type(model.sample(1)[column][0])] * 2, (column, value)
                assert drawn[column].tolist() == [table[column][1]] * 2
        for column in ("day", "arrow"):
            with pytest.raises(ValueError, match=f"given value .* of column '{column}' is no date: leave out its time"):
                model.sample(1, given={column: pd.Timestamp("2024-01-02 12:00")})
        given = pd.DataFrame({"time": [days[3], None], "day": [None, pd.Timestamp(days[4])]})
        drawn = model.sample(given=given)
        assert (drawn["time"][0], drawn["day"][1]) == (pd.Timestamp(days[3]), days[4])
        assert drawn.dtypes.equals(table.dtypes)

    @pytest.mark.parametrize("value", [10**25, 10**400])
    def test_given_numbers_out_of_reach(self, model: MissDiff, value: int) -> None:
        for column in ("age", "pressure"):
            with pytest.raises(ValueError, match=f"column '{column}'"):
                model.sample(2, given={column: value})
        with pytest.raises(ValueError, match=r"column 'admitted' \(Out of bounds .*\) has values out of reach"):
            model.sample(2, given={"admitted": pd.Timestamp("3000-01-01")})

    def test_given_categories_come_in_the_learnt_order(self, model: MissDiff, table: pd.DataFrame) -> None:
        for order in (["I", "III"], ["III", "I"]):
            given = pd.DataFrame({"stage": pd.Categorical(["I", None, None], order, ordered=True)})
            assert model.sample(given=given)["stage"].dtype == table["stage"].dtype

    def test_a_table_is_completed_row_for_row(self, model: MissDiff, table: pd.DataFrame) -> None:
        given = pd.DataFrame({"age": pd.array([30, pd.NA, 61], dtype="Int64"), "sex": [None, "male", "female"]})
        sample = model.sample(given=given)
        assert sample["age"][[0, 2]].tolist() == [30, 61]
        assert sample["sex"][[1, 2]].tolist() == ["male", "female"]
        assert not sample.isna().to_numpy().any()
        assert sample.dtypes.equals(table.dtypes)

    @pytest.mark.parametrize("rows", [-1, -100])
    def test_negative_rows(self, model: MissDiff, rows: int) -> None:
        with pytest.raises(ValueError, match=f"num_rows must be at least 0, got {rows}"):
            model.sample(rows)

    def test_bad_numbers_of_rows(self, model: MissDiff) -> None:
        with pytest.raises(ValueError, match="num_rows is missing"):
            model.sample()
        with pytest.raises(TypeError, match=r"num_rows must be an integer, got 1\.5"):
            model.sample(1.5)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="num_rows must be at most 1,099,511,627,776"):
            model.sample(10**18)
        with pytest.raises(ValueError, match=r"given has 2 rows .* leave num_rows out, got 3"):
            model.sample(3, given=pd.DataFrame({"age": [1, 2]}))

    def test_unknown_given(self, model: MissDiff) -> None:
        with pytest.raises(ValueError, match=r"given names unknown columns \['height'\]; the model has \['age'"):
            model.sample(3, given={"height": 180})
        with pytest.raises(ValueError, match=r"(?s)sex.*other.*female"):
            model.sample(3, given={"sex": "other"})
        with pytest.raises(ValueError, match="column 'ward' was constant in fit, 'north': 'south' cannot be given"):
            model.sample(3, given={"ward": "south"})
        with pytest.raises(TypeError, match="given must be a mapping or a DataFrame, got list"):
            model.sample(3, given=["sex"])  # type: ignore[arg-type]


class TestImpute:
    def test_holes_are_filled_and_nothing_else_is_touched(self, model: MissDiff, table: pd.DataFrame) -> None:
        filled = model.impute(table)
        assert not filled.isna().to_numpy().any()
        assert filled.dtypes.equals(table.dtypes)
        for column in table.columns:
            known = table[column].notna()
            pd.testing.assert_series_equal(filled[column][known], table[column][known])

    def test_imputed_values_keep_range_and_resolution(self, model: MissDiff, table: pd.DataFrame) -> None:
        filled = model.impute(table)
        for column in ("age", "pressure", "admitted"):
            assert table[column].min() <= filled[column].min()
            assert filled[column].max() <= table[column].max()
        np.testing.assert_allclose(filled["pressure"] * 10, np.round(filled["pressure"] * 10), rtol=0, atol=1e-9)
        assert bool((filled["admitted"].dt.normalize() == filled["admitted"]).all())

    def test_the_index_is_kept(self, model: MissDiff, table: pd.DataFrame) -> None:
        part = table.iloc[[5, 3, 250]].set_axis(["x", "y", "x"])
        filled = model.impute(part)
        assert filled.index.tolist() == ["x", "y", "x"]
        expected = model.impute(table).iloc[[5, 3, 250]]
        assert filled["age"].tolist() == expected["age"].tolist()

    def test_imputing_twice_gives_the_same(self, model: MissDiff, table: pd.DataFrame) -> None:
        pd.testing.assert_frame_equal(model.impute(table), model.impute(table))

    def test_no_rows(self, model: MissDiff, table: pd.DataFrame) -> None:
        assert model.impute(table[:0]).shape == (0, 7)

    def test_draws_differ_in_the_holes_alone(self, model: MissDiff, table: pd.DataFrame) -> None:
        first, second = model.impute_draws(table, 2)
        known = table.notna().to_numpy()
        same = (first.astype(str) == second.astype(str)).to_numpy()
        assert bool(same[known].all())
        assert same[~known].mean() < 0.7
        again = model.impute_draws(table, 2)
        pd.testing.assert_frame_equal(again[0], first)
        pd.testing.assert_frame_equal(again[1], second)

    @pytest.mark.parametrize(("draws", "error"), [(0, ValueError), (-1, ValueError), (1.5, TypeError)])
    def test_bad_number_of_draws(self, model: MissDiff, table: pd.DataFrame, draws: int, error: type) -> None:
        with pytest.raises(error, match="num_draws"):
            model.impute_draws(table, draws)

    def test_probabilities(self, model: MissDiff, table: pd.DataFrame) -> None:
        chance = model.predict_proba(table, "sex")
        assert list(chance.columns) == ["female", "male"]
        assert chance.index.equals(table.index)
        np.testing.assert_allclose(chance.sum(1), 1, rtol=1e-5)
        pd.testing.assert_frame_equal(chance, model.predict_proba(table.drop(columns="sex"), "sex"))
        with pytest.raises(ValueError, match="pressure"):
            model.predict_proba(table, "pressure")
        with pytest.raises(TypeError, match=r"column must be the name of one column, got \['sex'\]"):
            model.predict_proba(table, ["sex"])  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="smoker"):
            model.predict_proba(table.drop(columns="smoker"), "sex")

    def test_columns_that_differ(self, model: MissDiff, table: pd.DataFrame) -> None:
        with pytest.raises(ValueError, match="sex"):
            model.impute(table.drop(columns="sex"))
        with pytest.raises(ValueError, match="height"):
            model.impute(table.assign(height=1.0))
        with pytest.raises(TypeError, match="pressure"):
            model.impute(table.assign(pressure="high"))
        with pytest.raises(ValueError, match=r"(?s)sex.*unknown"):
            model.impute(table.assign(sex="unknown"))


class TestRepeatability:
    def test_one_seed_one_model(self, table: pd.DataFrame) -> None:
        first, second = (MissDiff(steps=10, random_state=5).fit(table) for _ in range(2))
        assert first.history_["loss"].tolist() == second.history_["loss"].tolist()
        pd.testing.assert_frame_equal(first.sample(20), second.sample(20))
        pd.testing.assert_frame_equal(first.impute(table), second.impute(table))

    def test_seeds_differ(self, table: pd.DataFrame) -> None:
        first, second = (MissDiff(steps=10, random_state=s).fit(table) for s in (5, 6))
        assert first.history_["loss"].tolist() != second.history_["loss"].tolist()

    def test_the_global_generator_is_left_alone(self, table: pd.DataFrame) -> None:
        torch.manual_seed(1)
        np.random.seed(1)
        expected = torch.rand(3), np.random.rand(3)
        torch.manual_seed(1)
        np.random.seed(1)
        MissDiff(steps=2, random_state=0).fit(table).sample(3)
        assert torch.equal(torch.rand(3), expected[0])
        np.testing.assert_array_equal(np.random.rand(3), expected[1])

    def test_both_backends_train_alike(self, table: pd.DataFrame, native: object) -> None:
        first, second = (
            MissDiff(steps=10, random_state=5, backend=b, refine=0).fit(table) for b in ("native", "reference")
        )
        np.testing.assert_allclose(first.history_["loss"], second.history_["loss"], rtol=1e-4)


class TestSaveAndLoad:
    def test_a_loaded_model_does_the_same(self, model: MissDiff, table: pd.DataFrame, tmp_path: Path) -> None:
        model.save(tmp_path / "m")
        loaded = MissDiff.load(tmp_path / "m")
        pd.testing.assert_frame_equal(loaded.sample(30), model.sample(30))
        pd.testing.assert_frame_equal(loaded.impute(table), model.impute(table))
        pd.testing.assert_frame_equal(loaded.history_, model.history_.assign(seconds=np.nan))
        assert loaded.columns_ == model.columns_
        assert loaded.get_params() == model.get_params()

    @pytest.mark.parametrize("preset", ["default", "paper"])
    def test_the_same_seed_gives_the_same_file(self, table: pd.DataFrame, tmp_path: Path, preset: str) -> None:
        own: dict[str, Any] = {
            "default": {"refine": 1, "refits": 1, "steps": 60, "settings": {"training.patience": 1}},
            "paper": {"steps": 1, "settings": {"network.heads": 1, "diffusion.steps": 2}},
        }
        for name in ("first", "second"):
            model = MissDiff(preset=preset, **own[preset], width=8, blocks=1, random_state=0).fit(table)
            model.save(tmp_path / name)
        MissDiff.load(tmp_path / "first").save(tmp_path / "third")
        first, second, third = ((tmp_path / name).read_bytes() for name in ("first", "second", "third"))
        assert first == second == third

    def test_seconds_of_earlier_files_are_read(self, model: MissDiff, tmp_path: Path) -> None:
        model.save(tmp_path / "m")
        meta, tensors = checkpoint.read(tmp_path / "m")
        meta["history"]["seconds"] = model.history_["seconds"].tolist()
        checkpoint.write(tmp_path / "m", meta, tensors)
        seconds = MissDiff.load(tmp_path / "m").history_["seconds"]
        assert seconds.tolist() == model.history_["seconds"].tolist()

    def test_weights_that_impute_are_kept_apart(self, table: pd.DataFrame, tmp_path: Path) -> None:
        model = MissDiff(steps=10, random_state=0).fit(table)
        networks = model._method._networks
        networks.imputer = copy.deepcopy(networks.generator)
        for weight in networks.imputer.parameters():
            torch.nn.init.normal_(weight, std=0.1)
        model.save(tmp_path / "m")
        pd.testing.assert_frame_equal(MissDiff.load(tmp_path / "m").impute(table), model.impute(table))

    def test_a_model_that_is_not_fitted(self, table: pd.DataFrame, tmp_path: Path) -> None:
        for act in (lambda m: m.sample(1), lambda m: m.impute(table), lambda m: m.save(tmp_path / "m")):
            with pytest.raises(ValueError, match="not fitted: call fit first"):
                act(MissDiff())
        assert not (tmp_path / "m").exists()

    def test_a_description_that_does_not_fit_the_weights(self, model: MissDiff, tmp_path: Path) -> None:
        model.save(tmp_path / "m")
        meta, tensors = checkpoint.read(tmp_path / "m")
        meta["config"]["network"]["width"] = 64
        checkpoint.write(tmp_path / "m", meta, tensors)
        with pytest.raises(ValueError, match="do not fit"):
            MissDiff.load(tmp_path / "m")


class TestSettings:
    @pytest.mark.parametrize(
        ("setting", "error"),
        [
            ({"steps": 0}, "steps must be at least 1, got 0"),
            ({"batch_size": -3}, "batch_size must be at least 1, got -3"),
            ({"learning_rate": 0.0}, r"learning_rate must be positive and finite, got 0\.0"),
            ({"learning_rate": float("nan")}, "learning_rate must be positive and finite, got nan"),
            ({"width": 0}, "width must be at least 1"),
            ({"blocks": -1}, "blocks must be at least 0"),
            ({"preset": "none"}, "unknown preset 'none'"),
            ({"backend": "none"}, "unknown backend 'none'"),
            ({"random_state": -1}, "random_state must lie in"),
        ],
    )
    def test_bad_values_are_told_before_any_work(self, table: pd.DataFrame, setting: dict, error: str) -> None:
        with pytest.raises(ValueError, match=error):
            MissDiff(**setting).fit(table)

    def test_what_is_set_is_used(self, table: pd.DataFrame) -> None:
        settings = {"steps": 3, "batch_size": 7, "learning_rate": 1e-4, "width": 16, "blocks": 1}
        model = MissDiff(**settings, refine=0).fit(table)
        assert model.history_["step"].tolist() == [3, 5, 6]  # with the imputer and the network for rows with holes
        assert (model.config_.network.width, model.config_.network.blocks) == (16, 1)
        assert (model.config_.training.batch_size, model.config_.training.learning_rate) == (7, 1e-4)

    def test_a_learning_rate_that_diverges_is_told(self, table: pd.DataFrame) -> None:
        with pytest.raises(FloatingPointError, match="lower learning_rate"):
            MissDiff(steps=200, learning_rate=1e6, random_state=0).fit(table)

    def test_a_model_that_diverged_is_not_fitted(self, table: pd.DataFrame, tmp_path: Path) -> None:
        model = MissDiff(steps=200, learning_rate=1e6, random_state=0)
        with pytest.raises(FloatingPointError):
            model.fit(table)
        with pytest.raises(ValueError, match="not fitted"):
            model.save(tmp_path / "m")


def test_markers_of_missing_cells(table: pd.DataFrame) -> None:
    marked = table.assign(sex=table["sex"].fillna("?"))
    model = MissDiff(steps=5, missing_values=["?"], random_state=0).fit(marked)
    assert set(model.sample(200)["sex"]) == {"female", "male"}
    assert set(model.impute(marked)["sex"]) == {"female", "male"}


def test_numbers_that_are_names() -> None:
    table = pd.DataFrame({"code": [1, 5, 9, 5] * 20, "x": np.arange(80.0)})
    model = MissDiff(steps=5, categorical_columns=["code"], random_state=0).fit(table)
    assert list(model.predict_proba(table, "code").columns) == [1, 5, 9]
    assert model.sample(5)["code"].dtype == table["code"].dtype


def test_rows_without_any_observed_cell_are_allowed(table: pd.DataFrame) -> None:
    holes = table.copy()
    holes.iloc[::10] = np.nan
    model = MissDiff(steps=5, random_state=0).fit(holes)
    assert not model.impute(holes).isna().to_numpy().any()


@pytest.mark.parametrize(
    "table",
    [pd.DataFrame({"x": np.arange(50.0), "y": np.arange(50) % 7}), pd.DataFrame({"x": list("abca") * 9})],
    ids=["continuous only", "one categorical column"],
)
def test_tables_of_one_kind(table: pd.DataFrame) -> None:
    model = MissDiff(steps=5, random_state=0).fit(table)
    assert model.sample(9).dtypes.equals(table.dtypes)
    pd.testing.assert_frame_equal(model.impute(table), table)


def test_interrupted_fit_keeps_the_model_so_far(table: pd.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    add, calls = Progress.add, []

    def interrupt(self: Progress, loss: torch.Tensor) -> None:
        calls.append(1)
        if len(calls) == 20:
            raise KeyboardInterrupt
        add(self, loss)

    monkeypatch.setattr(Progress, "add", interrupt)
    model = MissDiff(steps=100, random_state=0)
    with pytest.raises(KeyboardInterrupt):
        model.fit(table)
    assert model.sample(5).shape == (5, 7)
    assert not model.impute(table).isna().to_numpy().any()


def test_settings_of_numpy_and_torch_types_can_be_saved(table: pd.DataFrame, tmp_path: Path) -> None:
    model = MissDiff(
        steps=np.int64(3),
        batch_size=np.int32(32),
        learning_rate=np.float32(1e-3),
        width=np.int64(8),
        random_state=np.uint64(7),
        device=torch.device("cpu"),  # type: ignore[arg-type]
        refine=np.int64(0),
        max_categories=np.int16(50),
        missing_values=[np.int64(-9), np.str_("?"), None, np.nan, pd.NA, pd.NaT],
    ).fit(table)
    model.save(tmp_path / "m")
    loaded = MissDiff.load(tmp_path / "m")
    assert loaded.missing_values == (-9, "?")
    pd.testing.assert_frame_equal(loaded.sample(20), model.sample(20), check_exact=True)


def test_columns_may_be_named_by_an_index(table: pd.DataFrame) -> None:
    numbers = table.assign(code=np.arange(len(table)) % 5, other=np.arange(len(table)) % 7)
    model = MissDiff(steps=3, categorical_columns=pd.Index(["code", "other"])).fit(numbers)
    assert model.codec_.schema["code"].kind == model.codec_.schema["other"].kind == "categorical"


def test_bad_types(model: MissDiff, table: pd.DataFrame) -> None:
    with pytest.raises(TypeError, match="expected a pandas or polars DataFrame or a pyarrow Table, got ndarray"):
        model.predict_proba(table.to_numpy(), "sex")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="max_categories must be an integer, got '9'"):
        MissDiff(max_categories="9").fit(table)  # type: ignore[arg-type]


class _Setting:
    """Settings of a caller's own, on entry and on exit."""

    def __init__(self, enter: Callable[[], object], leave: Callable[[], object]) -> None:
        self.__enter, self.__leave = enter, leave

    def __enter__(self) -> None:
        self.__enter()

    def __exit__(self, *_: object) -> None:
        self.__leave()


_FOREIGN: dict[str, Callable[[], Any]] = {
    "float64": lambda: _Setting(
        lambda: torch.set_default_dtype(torch.float64), lambda: torch.set_default_dtype(torch.float32)
    ),
    "device": lambda: _Setting(lambda: torch.set_default_device("meta"), lambda: torch.set_default_device(None)),
    "no_grad": torch.no_grad,
    "inference": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "errors": lambda: np.errstate(all="raise"),
}


@pytest.mark.parametrize("setting", list(_FOREIGN))
def test_settings_of_the_caller_change_nothing(
    model: MissDiff, table: pd.DataFrame, setting: str, tmp_path: Path
) -> None:
    model.save(tmp_path / "m")
    expected = MissDiff(steps=5, width=8, random_state=0).fit(table).sample(50)
    with _FOREIGN[setting]():
        dtype, device = torch.get_default_dtype(), torch.get_default_device()
        fitted = MissDiff(steps=5, width=8, random_state=0).fit(table)
        loaded = MissDiff.load(tmp_path / "m")
        loaded.save(tmp_path / "again")
        results = [
            (fitted.sample(50), expected),
            (loaded.sample(50), model.sample(50)),
            (loaded.impute(table), model.impute(table)),
            (loaded.impute_draws(table, 1)[0], model.impute_draws(table, 1)[0]),
            (loaded.predict_proba(table, "sex"), model.predict_proba(table, "sex")),
        ]
        assert (torch.get_default_dtype(), torch.get_default_device()) == (dtype, device)
    results += [(loaded.sample(50), model.sample(50))]
    for result, plain in results:
        pd.testing.assert_frame_equal(result, plain, check_exact=True)


def test_fits_in_threads_are_repeatable(table: pd.DataFrame) -> None:
    def fit(_: int) -> pd.DataFrame:
        return MissDiff(steps=3, width=8, blocks=1, refine=0, random_state=0).fit(table).sample(20)

    with ThreadPoolExecutor(4) as pool:
        first, *others = pool.map(fit, range(12))
    for other in others:
        pd.testing.assert_frame_equal(other, first, check_exact=True)


def test_copies_and_pickles(model: MissDiff) -> None:
    for same in (copy.deepcopy(model), pickle.loads(pickle.dumps(model)), copy.copy(MissDiff(steps=9))):
        if hasattr(same, "seed_"):
            pd.testing.assert_frame_equal(same.sample(20), model.sample(20), check_exact=True)


class TestBackendOfPickles:
    """A pickle runs on the backend that is there, encoding and network alike."""

    @pytest.fixture
    def fitted(self, table: pd.DataFrame, native: object) -> MissDiff:
        return MissDiff(steps=3, width=8, blocks=1, random_state=0).fit(table)

    def test_the_extension_is_gone(
        self, fitted: MissDiff, table: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        pickled, filled = pickle.dumps(fitted), fitted.impute(table)
        monkeypatch.setattr(_library, "load", lambda: False)
        same = pickle.loads(pickled)
        assert isinstance(same._method.backend, ReferenceBackend)
        assert same.codec_.ops is same._method.backend
        assert same.impute(table).isna().sum().sum() == filled.isna().sum().sum() == 0

    def test_another_backend_was_set(self, fitted: MissDiff) -> None:
        fitted.set_params(backend="reference")
        for same in (copy.deepcopy(fitted), pickle.loads(pickle.dumps(fitted))):
            assert isinstance(same._method.backend, ReferenceBackend)
            assert same.codec_.ops is same._method.backend


def test_cells_are_let_go_before_training(table: pd.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    """Training needs the encoded table alone; what was read of the frame would take as much memory again."""
    read, alive = [], []

    def read_frame(*arguments: Any, **settings: Any) -> TableCells:
        cells = table_cells.read_frame(*arguments, **settings)
        read.append(weakref.ref(cells))
        return cells

    fit = column_states.ColumnStates.fit

    def watched(*arguments: Any, **settings: Any) -> None:
        alive.append(read[0]() is not None)
        fit(*arguments, **settings)

    monkeypatch.setattr("missdiff_fast.plan.read_frame", read_frame)
    monkeypatch.setattr(column_states.ColumnStates, "fit", watched)
    MissDiff(steps=2, width=8, blocks=1, refine=0, random_state=0).fit(table)
    assert alive == [False]


@pytest.mark.parametrize("y", [[0, 1], [[1], [1, 2]], [{}], ["a"], None])
def test_what_is_no_frame_is_refused_whatever_y_is(y: object) -> None:
    with pytest.raises(TypeError, match=r"polars DataFrame.*wrap it in pandas\.DataFrame"):
        MissDiff().fit([[1, 2], [3, 4]], y)  # type: ignore[arg-type]


@pytest.mark.parametrize("y", [[[1], [1, 2]], [{}], [["age"]], np.array("age", dtype=object), np.array([["age"]]), 1.5])
def test_a_y_that_names_no_columns_is_ignored(table: pd.DataFrame, y: object) -> None:
    assert MissDiff(steps=1, width=8, blocks=1, refine=0, random_state=0).fit(table, y).fitted


class TestParameters:
    def test_steps_and_epochs_exclude_each_other(self, table: pd.DataFrame) -> None:
        for parameters in ({"steps": 3, "epochs": 2}, {"steps": 3, "settings": {"training.epochs": 2}}):
            for preset in ("default", "paper"):
                with pytest.raises(ValueError, match="steps and epochs both set the length of training: give one"):
                    MissDiff(preset=preset, **parameters).fit(table)  # type: ignore[arg-type]

    @pytest.mark.parametrize(
        ("name", "path"),
        [("steps", "training.steps"), ("refine", "refine.rounds"), ("width", "network.width")],
    )
    def test_a_setting_that_is_given_twice_is_refused(self, table: pd.DataFrame, name: str, path: str) -> None:
        with pytest.raises(ValueError, match=f"{name} and the setting '{path}' are the same: give one of them"):
            MissDiff(**{name: 3}, settings={path: 4}).fit(table)  # type: ignore[arg-type]

    def test_refine_counts_rounds(self, table: pd.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
        asked: list[int] = []
        run_phases = column_states.run_phases

        def record(*args: Any, rounds: int, **kwargs: Any) -> Any:
            asked.append(rounds)
            return run_phases(*args, rounds=rounds, **kwargs)

        monkeypatch.setattr(column_states, "run_phases", record)
        meanings = [(None, None), (True, None), (0, 0), (False, 0), (np.False_, 0), (1, 1), (np.int64(2), 2)]
        for refine, rounds in meanings:
            model = MissDiff(steps=3, width=8, refine=refine, random_state=0).fit(table)  # type: ignore[arg-type]
            assert model.config_.refine.rounds == rounds  # type: ignore[union-attr]
        with_setting = MissDiff(steps=3, width=8, settings={"refine.rounds": 2}, random_state=0).fit(table)
        assert asked == [1, 1, 0, 0, 0, 1, 2, 2]
        pd.testing.assert_frame_equal(with_setting.sample(9), model.sample(9), check_exact=True)

    @pytest.mark.parametrize("refine", [False, True, np.False_, np.True_])
    def test_truth_values_of_refine_are_saved(self, table: pd.DataFrame, tmp_path: Path, refine: Any) -> None:
        model = MissDiff(steps=2, width=8, refine=refine, random_state=0).fit(table)
        model.save(tmp_path / "m")
        loaded = MissDiff.load(tmp_path / "m")
        assert loaded.refine is bool(refine)
        assert loaded.config_.refine.rounds == (None if refine else 0)  # type: ignore[union-attr]

    @pytest.mark.parametrize(
        ("refine", "error", "message"),
        [
            ("no", TypeError, "refine must be an integer, got 'no'"),
            (1.0, TypeError, r"refine must be an integer, got 1\.0"),
            (-1, ValueError, "refine must be at least 0, got -1"),
        ],
    )
    def test_rounds_that_make_no_sense(self, table: pd.DataFrame, refine: Any, error: type, message: str) -> None:
        with pytest.raises(error, match=message):
            MissDiff(refine=refine).fit(table)

    def test_the_paper_has_no_refinement(self, table: pd.DataFrame) -> None:
        with pytest.raises(ValueError, match="preset 'paper' has no refinement: leave out refine=2"):
            MissDiff(preset="paper", refine=2).fit(table)
        small = {"steps": 1, "width": 8, "blocks": 1, "settings": {"network.heads": 1, "diffusion.steps": 2}}
        for refine in (0, False, True):
            assert MissDiff(preset="paper", refine=refine, **small).fit(table).fitted  # type: ignore[arg-type]

    @pytest.mark.parametrize("make", [np.random.default_rng, np.random.RandomState])
    def test_generators_draw_a_new_seed_at_every_call(self, table: pd.DataFrame, tmp_path: Path, make: Any) -> None:
        first, second = (MissDiff(steps=2, width=8, random_state=make(7)).fit(table) for _ in range(2))
        assert first.seed_ == second.seed_
        rows = first.sample(9)
        pd.testing.assert_frame_equal(second.sample(9), rows, check_exact=True)
        assert not first.sample(9).equals(rows)
        draws = [first.sample(9, random_state=make(1)) for _ in range(2)]
        pd.testing.assert_frame_equal(*draws, check_exact=True)
        first.save(tmp_path / "m")
        assert MissDiff.load(tmp_path / "m").random_state is None


class TestArrays:
    def test_an_array_is_a_table_of_columns_x0_x1(self) -> None:
        X = np.random.default_rng(0).normal(size=(60, 2)).round(1)
        X[::7, 0] = np.nan
        model = MissDiff(steps=2, width=8, random_state=0).fit(X)
        assert (model.columns_, model.n_features_in_) == (["x0", "x1"], 2)
        assert not hasattr(model, "feature_names_in_")
        named = MissDiff(steps=2, width=8, random_state=0).fit(pd.DataFrame(X, columns=["x0", "x1"]))
        assert named.feature_names_in_.tolist() == ["x0", "x1"]
        pd.testing.assert_frame_equal(model.sample(9), named.sample(9), check_exact=True)
        pd.testing.assert_frame_equal(model.impute(X), named.impute(pd.DataFrame(X, columns=["x0", "x1"])))
        assert model.impute_draws(X, 1)[0].notna().all(axis=None)
        assert len(model.score_samples(X)) == 60
        with pytest.raises(TypeError, match="expected a pandas or polars DataFrame or a pyarrow Table, got ndarray"):
            named.impute(X)
        assert not hasattr(named.fit(X), "feature_names_in_")

    def test_a_loaded_model_takes_arrays_too(self, tmp_path: Path) -> None:
        X = np.arange(40.0).reshape(20, 2)
        model = MissDiff(steps=2, width=8, random_state=0).fit(X)
        model.save(tmp_path / "m")
        loaded = MissDiff.load(tmp_path / "m")
        assert not hasattr(loaded, "feature_names_in_")
        pd.testing.assert_frame_equal(loaded.impute(X), model.impute(X))

    @pytest.mark.parametrize(
        ("array", "message"),
        [
            (np.arange(9.0), r"expected a 2D array of rows and columns, got 1D.*reshape\(-1, 1\)"),
            (np.zeros((2, 2, 2)), "expected a 2D array of rows and columns, got 3D"),
            (np.zeros((3, 2), complex), "Complex data not supported"),
            (np.zeros((1, 2)), r"X has 1 sample\(s\) \(shape=\(1, 2\)\) while a minimum of 2 is required"),
            (np.zeros((3, 0)), r"X has 0 feature\(s\) \(shape=\(3, 0\)\) while a minimum of 1 is required"),
        ],
    )
    def test_arrays_that_are_no_table(self, array: np.ndarray, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            MissDiff().fit(array)

    def test_another_number_of_columns(self) -> None:
        model = MissDiff(steps=2, width=8).fit(np.arange(40.0).reshape(20, 2))
        with pytest.raises(ValueError, match="X has 3 features, but MissDiff is expecting 2 features as input"):
            model.impute(np.zeros((4, 3)))


class TestParametersInFiles:
    def test_round_trip(self) -> None:
        parameters = {
            "preset": "paper",
            "epochs": np.int64(3),
            "refine": np.int8(0),
            "missing_values": ("?", np.nan),
            "categorical_columns": pd.Index(["a", "b"]),
            "random_state": np.random.default_rng(0),
            "settings": {"draws": np.int64(3)},
            "device": "cpu",
            "verbose": True,
        }
        data = json.loads(json.dumps(to_json(MissDiff(**parameters))))  # type: ignore[arg-type]
        loaded = MissDiff(**from_json(data))
        assert loaded.get_params() == {
            **MissDiff().get_params(),
            "preset": "paper",
            "epochs": 3,
            "refine": 0,
            "missing_values": ("?",),
            "categorical_columns": ["a", "b"],
            "settings": {"draws": 3},
        }
