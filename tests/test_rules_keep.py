"""Rules in rows that a random draw gives: what is computed, solved for, drawn again, replaced and moved."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from frames import fit_codec

from missdiff_fast._engine.random import derive, row_uniform
from missdiff_fast.errors import DataWarning
from missdiff_fast.rules import Rules, keep_drawn, keep_imputed, learn_rules
from missdiff_fast.rules.keep import spans
from missdiff_fast.table import Codec

N = 200


def learn(texts: list[str], table: pd.DataFrame) -> tuple[Rules, Codec]:
    """Rules and codec of a table."""
    codec = fit_codec(table)
    cells = codec.read(table)
    return learn_rules(texts, codec.schema, codec.relations.coders, cells), codec


def drawer(codec: Codec, first_row: int = 0) -> Callable[[int, slice], pd.DataFrame]:
    """Draws each cell by itself among the column's values; row i depends on (seed, i) alone."""

    def draw(seed: int, rows: slice) -> pd.DataFrame:
        number, layout = rows.stop - rows.start, codec.layout

        def places(k: int, size: int) -> np.ndarray:
            return (row_uniform(derive(seed, "noise", k), first_row + rows.start, number) * size).astype(np.int64)

        continuous = [
            places(k, len(codec.relations.coders[name].keys)) for k, name in enumerate(codec.schema.continuous)
        ]
        codes = [places(1000 + k, size) for k, size in enumerate(layout.cardinalities)]
        return codec.decode(
            torch.tensor(np.array(continuous), dtype=torch.int32).reshape(layout.num_continuous, number).T,
            torch.tensor(np.array(codes), dtype=torch.int16).reshape(layout.num_categorical, number).T,
        )

    return draw


def drawn(
    texts: list[str], table: pd.DataFrame, known: pd.DataFrame | int = N, *, quiet: bool = True, seed: int = 0
) -> pd.DataFrame:
    """Rows drawn under rules; a warning fails unless it is expected."""
    rules, codec = learn(texts, table)
    known = pd.DataFrame(index=range(known)) if isinstance(known, int) else known
    cells = codec.read(known, partial=True)
    with warnings.catch_warnings():
        if quiet:
            warnings.simplefilter("error")
        rows = keep_drawn(rules, codec, drawer(codec), cells, seed)
    return codec.fill(cells, rows)


def body(dtype: str = "float64", rows: int = 300) -> pd.DataFrame:
    """Weights, heights and body mass indices, the last rounded to one decimal."""
    random = np.random.default_rng(0)
    table = pd.DataFrame(
        {"weight": random.uniform(50, 100, rows).round(1), "height": random.uniform(1.5, 2, rows).round(2)}
    )
    table["bmi"] = (table["weight"] / table["height"] ** 2).round(1)
    return table.astype(dtype)


def stays(dtype: Any = "datetime64[ns]", rows: int = 300) -> pd.DataFrame:
    """Admissions and discharges, and the days between."""
    random = np.random.default_rng(1)
    start = pd.Timestamp("2024-01-01") + pd.to_timedelta(random.integers(0, 200, rows), unit="D")
    days = random.integers(0, 90, rows)
    table = pd.DataFrame({"admission": start, "discharge": start + pd.to_timedelta(days, unit="D"), "stay": days})
    for name in ("admission", "discharge"):
        zone = dtype.partition(", ")[2].rstrip("]")
        dates = table[name].dt.tz_localize(zone) if zone else table[name]
        table[name] = dates.dt.date if dtype == "date" else dates.astype(dtype)
    return table


def days(series: pd.Series) -> np.ndarray:
    """Dates of any dtype as days since the epoch."""
    times = pd.DatetimeIndex(series.astype(object)) if series.dtype == object else pd.DatetimeIndex(series)
    return np.asarray((times.tz_localize(None).as_unit("s").asi8) / 86_400)


NUMBERS = ["float64", "Float64", "double[pyarrow]", "float32", "object"]
DATES = [
    "datetime64[ns]",
    "datetime64[s]",
    "datetime64[ns, UTC]",
    "datetime64[us, Europe/Berlin]",
    "date",
    "date32[pyarrow]",
    "timestamp[us][pyarrow]",
]


class TestDerived:
    @pytest.mark.parametrize("dtype", NUMBERS)
    def test_a_formula_is_computed_at_the_columns_resolution(self, dtype: str) -> None:
        rows = drawn(["bmi = weight / height**2"], body(dtype))
        assert rows["bmi"].dtype == body(dtype)["bmi"].dtype
        numbers = rows.astype("float64")
        expected = numbers["weight"] / numbers["height"] ** 2
        assert (numbers["bmi"] - expected).abs().max() <= 0.05001
        assert np.abs(numbers["bmi"] - numbers["bmi"].round(1)).max() < 1e-5

    def test_a_column_that_is_not_rounded_in_the_table_is_not_rounded(self) -> None:
        table = body().assign(bmi=lambda t: t["weight"] / t["height"] ** 2)
        rows = drawn(["bmi = weight / height**2"], table)
        assert rows["bmi"].tolist() == (rows["weight"] / rows["height"] ** 2).tolist()

    @pytest.mark.parametrize("dtype", ["int64", "int8", "Int64", "int16[pyarrow]", "object"])
    def test_whole_numbers_are_rounded(self, dtype: str) -> None:
        table = pd.DataFrame({"a": np.arange(60), "b": np.arange(60)[::-1] % 7}).assign(
            c=lambda t: (t["a"] - t["b"]) // 2
        )
        rows = drawn(["c = floor((a - b) / 2)"], table.astype(dtype))
        assert rows["c"].dtype == table.astype(dtype)["c"].dtype
        assert (rows["c"].astype(int) == (rows["a"].astype(int) - rows["b"].astype(int)) // 2).all()

    def test_a_number_beyond_the_dtype_is_drawn_again(self) -> None:
        small = np.arange(1, 61, dtype="int8")
        table = pd.DataFrame({"a": small, "b": small % 7 + 1, "c": small})
        with pytest.raises(ValueError, match="all 60 rows that it applies to break it"):
            learn(["c = a * b + 200"], table)
        table["c"] = np.where(small < 15, table["a"].astype(int) * table["b"], 1).astype("int8")
        rows = drawn(["c = a * b"], table)
        assert (rows["c"].astype(int) == rows["a"].astype(int) * rows["b"].astype(int)).all()

    @pytest.mark.parametrize("dtype", DATES)
    def test_dates(self, dtype: str) -> None:
        table = stays(dtype)
        rows = drawn(["stay = discharge - admission", "admission <= discharge"], table)
        assert rows.dtypes.tolist() == table.dtypes.tolist()
        assert (rows["stay"] == days(rows["discharge"]) - days(rows["admission"])).all()
        assert rows["stay"].min() >= 0
        rows = drawn(["discharge = admission + stay"], table)
        assert (rows["stay"] == days(rows["discharge"]) - days(rows["admission"])).all()

    def test_durations_are_days(self) -> None:
        table = stays().assign(stay=lambda t: t["discharge"] - t["admission"])
        rows = drawn(["stay = discharge - admission", "0 <= stay <= 30"], table)
        assert (rows["stay"] == rows["discharge"] - rows["admission"]).all()
        assert rows["stay"].between(pd.Timedelta(0), pd.Timedelta(days=30)).all()

    def test_chains_in_any_order(self) -> None:
        table = body().assign(over=lambda t: (t["bmi"] - 25).round(1), cost=lambda t: (3 * (t["bmi"] - 25)).round(1))
        rows = drawn(["cost = 3 * over", "over = bmi - 25", "bmi = weight / height**2", "over <= 5"], table)
        assert np.allclose(rows["over"], rows["bmi"] - 25)
        assert np.allclose(rows["cost"], 3 * rows["over"])
        assert ((rows["bmi"] - rows["weight"] / rows["height"] ** 2).abs() <= 0.05001).all()
        assert rows["over"].max() <= 5

    def test_functions(self) -> None:
        x = np.linspace(1, 50, 120).round(1)
        table = pd.DataFrame({"x": x, "y": x[::-1]})
        table["z"] = np.minimum(np.sqrt(table["x"]), np.log(table["y"])) + np.maximum(table["x"], np.exp(1.0))
        rows = drawn(["z = min(sqrt(x), log(y)) + max(x, exp(1))"], table)
        assert np.allclose(rows["z"], np.minimum(np.sqrt(rows["x"]), np.log(rows["y"])) + np.maximum(rows["x"], np.e))

    def test_a_source_is_solved_for_where_the_column_is_known(self) -> None:
        table = body()
        known = table.assign(weight=np.nan)
        rows = drawn(["bmi = weight / height**2"], table, known)
        pd.testing.assert_frame_equal(rows[["height", "bmi"]], table[["height", "bmi"]])
        assert ((rows["weight"] / rows["height"] ** 2).round(1) == rows["bmi"]).all()
        assert (rows["weight"] == rows["weight"].round(1)).mean() > 0.9  # most such weights have one decimal
        rows = drawn(["bmi = weight / height**2"], table, table[["bmi"]])  # both are drawn
        assert ((rows["weight"] / rows["height"] ** 2).round(1) == table["bmi"]).all()

    def test_a_source_that_is_itself_derived_is_solved_for(self) -> None:
        table = body().assign(over=lambda t: (t["bmi"] - 25).round(1))
        rows = drawn(["over = bmi - 25", "bmi = weight / height**2"], table, table[["over", "height"]])
        assert np.allclose(rows["bmi"], table["over"] + 25)
        assert ((rows["weight"] / rows["height"] ** 2).round(1) == rows["bmi"].round(1)).all()

    def test_known_cells_that_contradict_one_another_are_left_with_a_warning(self) -> None:
        table = body()
        known = table.head(50).copy()
        known.loc[:2, "bmi"] = 70.0
        known.loc[5:9, "weight"] = np.nan
        with pytest.warns(DataWarning, match=r"'bmi = weight / height\*\*2' in 3 rows, by known cells alone"):
            rows = drawn(["bmi = weight / height**2"], table, known, quiet=False)
        assert rows.loc[:2, "bmi"].tolist() == [70.0] * 3
        assert rows["weight"].notna().all()

    def test_what_cannot_be_computed_is_drawn_again(self) -> None:
        table = pd.DataFrame({"x": np.arange(-5.0, 55.0), "y": np.arange(60.0)}).assign(
            y=lambda t: np.log(t["x"].clip(1))
        )
        rows = drawn(["y = log(x)", "x > 0"], table)
        assert np.allclose(rows["y"], np.log(rows["x"]))


class TestInequalities:
    @pytest.mark.parametrize("dtype", DATES)
    def test_dates(self, dtype: str) -> None:
        texts = ["admission <= discharge", "'2024-02-01' <= admission < '2024-06-01'", "discharge - admission <= 30"]
        rows = drawn(texts, stays(dtype))
        start, end = days(rows["admission"]), days(rows["discharge"])
        first, last = days(pd.Series(pd.to_datetime(["2024-02-01", "2024-06-01"])))
        assert ((first <= start) & (start < last) & (start <= end) & (end - start <= 30)).all()
        own = stays(dtype)
        assert set(start) <= set(days(own["admission"]))
        assert set(end) <= set(days(own["discharge"]))

    @pytest.mark.parametrize("dtype", ["int64", "Int8", "float32", "double[pyarrow]", "object", "category"])
    def test_numbers_keep_their_columns_values(self, dtype: str) -> None:
        random = np.random.default_rng(0)
        table = pd.DataFrame({"low": random.integers(0, 60, 300), "high": random.integers(30, 99, 300)}).astype(dtype)
        rows = drawn(["10 <= low < high <= 80"], table)
        assert rows.dtypes.tolist() == table.dtypes.tolist()
        low, high = rows["low"].astype(float), rows["high"].astype(float)
        assert ((low >= 10) & (low < high) & (high <= 80)).all()
        assert set(low) <= set(table["low"].astype(float))

    def test_an_order_of_many_columns(self) -> None:
        random = np.random.default_rng(0)
        table = pd.DataFrame(np.sort(random.integers(0, 1000, (300, 6)), 1), columns=list("abcdef"))
        shuffled = pd.DataFrame({name: random.permutation(table[name]) for name in table})
        rows = drawn(["a <= b <= c", "c <= d", "d <= e", "e <= f"], table, N)
        assert (np.diff(rows.to_numpy(), axis=1) >= 0).all()
        known = shuffled[["c"]].assign(f=lambda t: t["c"])
        rows = drawn(["a <= b <= c", "c <= d", "d <= e", "e <= f"], table, known)
        assert (np.diff(rows[list("abcdef")].to_numpy(), axis=1) >= 0).all()
        assert (rows[["c", "f"]].to_numpy() == known.to_numpy()).all()

    def test_a_limit_of_a_derived_column_moves_its_sources(self) -> None:
        rules, codec = learn(["bmi = weight / height**2", "bmi <= 25"], body())
        cells = codec.read(body()[["height"]], partial=True)
        fixed = drawer(codec)(3, slice(0, 300)).assign(weight=99.9)
        rows = codec.fill(cells, keep_drawn(rules, codec, lambda seed, part: fixed[part], cells, 0))
        assert rows["bmi"].max() <= 25
        assert ((rows["weight"] / rows["height"] ** 2).round(1) == rows["bmi"]).all()
        assert set(rows["weight"]) <= set(body()["weight"])
        # No more is moved than the limit wants.
        assert rows["bmi"].mean() > 24.5

    def test_a_column_that_has_no_value_between_known_ones_takes_another(self) -> None:
        table = pd.DataFrame({"a": np.arange(100) * 10, "b": np.arange(100) * 10 + 5, "c": np.arange(100) * 10 + 9})
        rows = drawn(["a < b < c"], table, pd.DataFrame({"a": [126] * 50, "c": [129] * 50}))
        assert rows["b"].between(127, 128).all()
        rows = drawn(["a < b < c"], table, pd.DataFrame({"a": [5000] * 50}), quiet=False)  # beyond all values
        assert ((rows["b"] > 5000) & (rows["c"] > rows["b"])).all()

    def test_a_known_cell_beyond_a_range_is_kept_with_a_warning(self) -> None:
        table = pd.DataFrame({"age": np.arange(100) % 60, "since": np.arange(100) % 50})
        with pytest.warns(DataWarning, match="'age <= 70' in 50 rows, by known cells alone") as told:
            rows = drawn(["age <= 70", "since <= age"], table, pd.DataFrame({"age": [80] * 50}), quiet=False)
        assert len([one for one in told if isinstance(one.message, DataWarning)]) == 1
        assert (rows["age"] == 80).all()

    def test_names_that_are_no_python_names(self) -> None:
        table = pd.DataFrame({"body weight": np.arange(90.0), "class": np.arange(90.0)[::-1], 7: np.arange(90)})
        rows = drawn(["`body weight` > 10", "`class` <= `7`"], table)
        assert (rows["body weight"] > 10).all()
        assert (rows["class"] <= rows[7]).all()

    def test_names_of_other_unicode_forms(self) -> None:
        table = pd.DataFrame({"\u00b5g": np.arange(90.0), "cafe\u0301": np.arange(90.0)})
        rows = drawn(["\u00b5g <= 50", "cafe\u0301 <= 40"], table)
        assert rows["\u00b5g"].max() <= 50
        assert rows["cafe\u0301"].max() <= 40


class TestCombinations:
    wards = pd.DataFrame({"ward": list("ABCDEF") * 30, "hospital": [1, 1, 2, 2, 3, 3] * 30, "x": np.arange(180.0)})

    @pytest.mark.parametrize("dtype", ["object", "category", "string[pyarrow]"])
    def test_only_the_tables_come_out(self, dtype: str) -> None:
        table = self.wards.astype({"ward": dtype, "hospital": "category"})
        rows = drawn(["combinations(ward, hospital)"], table)
        own = set(map(tuple, table[["ward", "hospital"]].astype(object).to_numpy()))
        assert set(map(tuple, rows[["ward", "hospital"]].astype(object).to_numpy())) == own
        assert rows.dtypes.tolist() == table.dtypes.tolist()

    def test_known_cells_stay(self) -> None:
        hospitals = pd.DataFrame({"hospital": [1, 2, 3, 3] * 25})
        rows = drawn(["combinations(hospital, ward)"], self.wards, hospitals)
        assert rows["hospital"].tolist() == hospitals["hospital"].tolist()
        home = dict(zip(self.wards["ward"], self.wards["hospital"], strict=True))
        assert rows["ward"].map(home).tolist() == hospitals["hospital"].tolist()
        assert rows["ward"].nunique() == 6

    def test_the_most_similar_combination_replaces_an_impossible_one(self) -> None:
        table = pd.DataFrame(
            {"a": [0, 0, 1, 1, 2] * 30, "b": list("xyxyz") * 30, "c": list("uvwuv") * 30, "n": range(150)}
        )
        rules, codec = learn(["combinations(a, b, c)"], table.astype({"a": str}))
        cells = codec.read(pd.DataFrame(index=range(60)), partial=True)
        one = drawer(codec)(0, slice(0, 60)).assign(a="2", b="z", c="u")
        rows = keep_drawn(rules, codec, lambda seed, part: one[part], cells, 0)
        # Of (2, z, u) two cells stay, or one.
        assert rows[["a", "b", "c"]].drop_duplicates().to_numpy().tolist() == [["2", "z", "v"]]

    def test_rules_that_share_a_column(self) -> None:
        table = self.wards.assign(city=np.where(self.wards["hospital"] < 3, "north", "south"))
        known = pd.DataFrame({"city": ["south", "north"] * 50})
        rows = drawn(["combinations(ward, hospital)", "combinations(hospital, city)"], table, known)
        home = dict(zip(table["ward"], table["hospital"], strict=True))
        assert (rows["ward"].map(home) == rows["hospital"]).all()
        assert ((rows["hospital"] == 3) == (rows["city"] == "south")).all()

    def test_a_computed_column_of_a_combination_moves_its_sources(self) -> None:
        table = pd.DataFrame({"age": np.arange(180) % 90, "stage": list("AAABBC") * 30})
        table["decade"] = table["age"] // 10
        table["group"] = np.where(table["decade"] < 5, "young", "old")
        known = pd.DataFrame({"group": ["young", "old"] * 50})
        rows = drawn(["decade = floor(age / 10)", "combinations(decade, group)"], table, known)
        assert (rows["decade"] == rows["age"] // 10).all()
        assert ((rows["decade"] < 5) == (rows["group"] == "young")).all()

    def test_known_combinations_that_are_impossible_are_left_with_a_warning(self) -> None:
        with pytest.warns(DataWarning, match="in 2 rows, by known cells alone"):
            rows = drawn(
                ["combinations(ward, hospital)"],
                self.wards,
                pd.DataFrame({"ward": ["A", "F"], "hospital": [3, 1]}),
                quiet=False,
            )
        assert rows["hospital"].tolist() == [3, 1]


class TestRows:
    texts = ("bmi = weight / height**2", "bmi <= 30", "weight <= 85")

    def test_a_row_depends_on_the_seed_and_its_number_alone(self) -> None:
        rules, codec = learn([*self.texts], body())

        def part(first: int, number: int) -> pd.DataFrame:
            cells = codec.read(pd.DataFrame(index=range(number)), partial=True)
            return keep_drawn(rules, codec, drawer(codec, first), cells, 5, first_row=first)

        parts = [part(0, 7), part(7, 93), part(100, 200)]
        pd.testing.assert_frame_equal(pd.concat(parts, ignore_index=True), part(0, 300))

    def test_rows_that_break_a_rule_are_drawn_again(self) -> None:
        rules, codec = learn(["weight <= 85"], body())
        cells = codec.read(pd.DataFrame(index=range(N)), partial=True)
        asked: list[tuple[int, slice]] = []

        def draw(seed: int, rows: slice) -> pd.DataFrame:
            asked.append((seed, rows))
            return drawer(codec)(seed, rows)

        rows = keep_drawn(rules, codec, draw, cells, 1)
        first = drawer(codec)(1, slice(0, N))
        kept = first["weight"] <= 85
        pd.testing.assert_frame_equal(rows[kept], first[kept])
        assert len({seed for seed, _ in asked}) == len(asked) == 5
        # The others are a sample of the allowed values, not all at the limit.
        assert (rows.loc[~kept, "weight"] > 80).mean() < 0.3

    def test_holes_are_no_part_of_a_rule(self) -> None:
        table = body()
        rules, codec = learn([*self.texts], table)
        cells = codec.read(pd.DataFrame(index=range(N)), partial=True)
        random = np.random.default_rng(0)
        holes = pd.DataFrame({name: random.random(N) < 0.4 for name in table})
        rows = keep_drawn(rules, codec, drawer(codec), cells, 0, holes=holes).mask(holes)
        there = rows.notna().all(axis=1)
        assert ((rows["weight"] / rows["height"] ** 2).round(1) == rows["bmi"])[there].all()
        assert rows["bmi"].max() <= 30
        assert rows["weight"].max() <= 85
        alone = rows["bmi"].notna() & rows["height"].isna()
        assert set(rows.loc[alone, "bmi"]) <= set(table["bmi"])

    def test_no_rows(self) -> None:
        assert len(drawn([*self.texts], body(), 0)) == 0

    def test_relations_are_kept_beside_rules(self) -> None:
        """A column that follows from one that a rule moves follows from what it is moved to."""
        random = np.random.default_rng(0)
        table = pd.DataFrame({"minutes": random.integers(1, 200, 400) * 3, "limit": random.integers(1, 500, 400)})
        table["charge"] = (0.17 * table["minutes"]).round(2)
        codec = fit_codec(table, relations=True)
        assert codec.relations.frame()["column"].tolist() == ["charge"]
        rules = learn_rules(["minutes <= limit"], codec.schema, codec.relations.coders, codec.read(table))
        for holes in (None, pd.DataFrame({name: random.random(N) < 0.3 for name in table})):
            cells = codec.read(pd.DataFrame(index=range(N)), partial=True)
            rows = keep_drawn(rules, codec, drawer(codec), cells, 0, holes=holes)
            rows = rows if holes is None else rows.mask(holes)
            there = rows.notna()
            assert (rows["minutes"] <= rows["limit"])[there["minutes"] & there["limit"]].all()
            equal = rows["charge"] == (0.17 * rows["minutes"]).round(2)
            assert equal[there["minutes"] & there["charge"]].all()

    def test_imputed_cells_move_as_little_as_they_must(self) -> None:
        table = stays()
        rules, codec = learn(["admission <= discharge", "stay = discharge - admission"], table)
        known = table.copy()
        known.loc[::2, "discharge"] = pd.NaT
        known["stay"] = known["stay"].astype("Int64").mask(np.arange(300) % 3 == 0)
        cells = codec.read(known)
        filled = table.assign(discharge=pd.Timestamp("2024-01-01"), stay=0)
        rows = codec.fill(cells, keep_imputed(rules, codec, filled, cells))
        assert (rows["admission"] <= rows["discharge"]).all()
        assert (rows["stay"] == (rows["discharge"] - rows["admission"]).dt.days).all()
        seen = known.notna()
        assert (rows["discharge"] == known["discharge"])[seen["discharge"]].all()
        moved = ~seen["discharge"] & ~seen["stay"]
        least = rows.loc[moved, "discharge"] - rows.loc[moved, "admission"]
        assert least.max() < pd.Timedelta(days=9)  # to the next day on which someone was discharged


@pytest.mark.parametrize("most", [1, 2, 16])
def test_spans_hold_what_is_wanted(most: int) -> None:
    wanted = np.zeros(500, dtype=bool)
    wanted[[3, 4, 90, 300, 301, 499]] = True
    found = spans(wanted, most, gap=10)
    assert len(found) == min(most, 4)
    held = np.zeros(500, dtype=bool)
    for part in found:
        held[part] = True
    assert held[wanted].all()
