"""polars frames, pyarrow Tables and pandas frames of Arrow's dtypes: what comes in comes out, cells and dtypes."""

from __future__ import annotations

import datetime as dt
import pickle
import sys
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from missdiff_fast import MissDiff, evaluate, missingness, remedies
from missdiff_fast._frames import to_pandas

ROWS = 60
SMALL = {
    "steps": 2,
    "refine": 0,
    "width": 16,
    "random_state": 0,
    "settings": {"blend.rows_per_feature": 0, "calibration.rounds": 0},
}
SMALL["structural_missing"] = "fill"  # the cells repeat, so that each hole follows from other columns


def repeated(cells: Sequence[object]) -> list[object]:
    return [cells[row % len(cells)] for row in range(ROWS)]


def times(zone: str | None) -> pl.Series:
    naive = pl.Series(repeated([dt.datetime(2020, 1, 1, 3), None, dt.datetime(2021, 7, 2)]))
    return naive.dt.replace_time_zone(zone)


def polars_frame() -> pl.DataFrame:
    """A column of every type that is learnt, and of identifiers and no cells, with holes."""
    return pl.DataFrame(
        {
            "small": pl.Series(repeated([1, None, 3, 9, 7]), dtype=pl.Int16),
            "large": pl.Series(repeated([2**63 + 1, None, 3]), dtype=pl.UInt64),
            "float": repeated([1.5, None, float("nan"), 2.0, 8.25]),
            "narrow": pl.Series(repeated([1.5, None, 2]), dtype=pl.Float32),
            "flag": repeated([True, None, False]),
            "text": repeated(["a", None, "b"]),
            "date": repeated([dt.date(2020, 1, 1), None, dt.date(2020, 1, 2)]),
            "time": times(None),
            "milli": times(None).cast(pl.Datetime("ms")),
            "zoned": times("Europe/Berlin"),
            "span": repeated([dt.timedelta(1), None, dt.timedelta(hours=1)]),
            "price": pl.Series(repeated([Decimal("1.50"), None, Decimal("2.25")]), dtype=pl.Decimal(10, 2)),
            "count": pl.Series(repeated([Decimal(1), None, Decimal(12)]), dtype=pl.Decimal(38, 0)),
            "category": pl.Series(repeated(["x", None, "y"]), dtype=pl.Categorical),
            "level": pl.Series(repeated(["low", None, "high"]), dtype=pl.Enum(["low", "mid", "high"])),
            "clock": repeated([dt.time(1, 30), None, dt.time(22)]),
            "nothing": pl.Series([None] * ROWS, dtype=pl.Null),
            "id": [f"P{row:04}" for row in range(ROWS)],
        }
    )


def arrow_frame() -> pd.DataFrame:
    """As ``dtype_backend="pyarrow"`` reads, with the types that only Arrow has."""
    table = polars_frame().to_arrow()
    frame = table.to_pandas(types_mapper=pd.ArrowDtype)
    for name in ("category", "level"):  # pandas' own categories otherwise
        frame[name] = pd.Series(pd.arrays.ArrowExtensionArray(table[name].cast(pa.string()).dictionary_encode()))
    frame["day"] = frame["date"].astype(pd.ArrowDtype(pa.date64()))
    frame["half"] = pd.Series(repeated([1.5, 2.0, 2.25, 3.0])).astype("float16").astype(pd.ArrowDtype(pa.float16()))
    return frame


FRAMES: dict[str, Any] = {
    "polars": polars_frame(),
    "pyarrow": polars_frame().to_arrow().replace_schema_metadata({"source": "ward 7"}),
    "stream": pa.table(
        {"view": pa.array(repeated(["a", None, "b"]), pa.string_view()), "x": repeated([1, 2, None, 5])}
    ),
    "pandas": arrow_frame(),
    "objects": pd.DataFrame(
        {
            "price": pd.Series(repeated([Decimal("1.50"), None, Decimal("2.25")]), dtype=object),
            "clock": pd.Series(repeated([None, dt.time(1, 30), dt.time(22)]), dtype=object),
        }
    ).set_axis(range(100, 100 + ROWS)),
}


def dtypes(frame: Any) -> dict[Any, Any]:
    if isinstance(frame, pl.DataFrame):
        return dict(frame.schema)
    return {one.name: one.type for one in frame.schema} if isinstance(frame, pa.Table) else dict(frame.dtypes)


def cells(frame: Any) -> dict[Any, list[Any]]:
    """The cells as Python objects, the missing ones and NaN as None."""
    if isinstance(frame, pl.DataFrame):
        found = frame.to_dict(as_series=False)
    elif isinstance(frame, pa.Table):
        found = frame.to_pydict()
    else:
        found = {name: list(frame[name].astype(object)) for name in frame.columns}
    return {name: [None if pd.isna(one) else one for one in column] for name, column in found.items()}


def numbers(table: pd.DataFrame) -> list[float]:
    return list(table.select_dtypes("number").to_numpy().ravel())


def head(frame: Any) -> Any:
    return frame.slice(0, 4) if isinstance(frame, pa.Table) else frame[:4]


@pytest.fixture(scope="module", params=list(FRAMES))
def fitted(request: pytest.FixtureRequest) -> tuple[Any, MissDiff]:
    frame = FRAMES[request.param]
    return frame, MissDiff(**SMALL).fit(frame)  # type: ignore[arg-type]


@pytest.mark.filterwarnings("ignore::UserWarning")
class TestEachKind:
    def test_rows_have_the_kind_and_the_dtypes(self, fitted: tuple[Any, MissDiff], tmp_path: Path) -> None:
        frame, model = fitted
        model.save(tmp_path / "m")
        rows = model.sample(5)
        loaded = MissDiff.load(tmp_path / "m").sample(5)
        holes = model.sample(9, missing=True)
        for drawn in (rows, loaded, holes):
            assert type(drawn) is type(frame)
            assert dtypes(drawn) == dtypes(frame)
        assert cells(loaded) == cells(rows)
        if isinstance(frame, pa.Table):
            assert loaded.schema.equals(rows.schema, check_metadata=True)
            assert rows.schema.metadata == frame.schema.metadata
        assert cells(pickle.loads(pickle.dumps(model)).sample(5)) == cells(rows)
        known = {name: {one for one in column if one is not None} for name, column in cells(frame).items()}
        for name, column in cells(rows).items():
            assert set(column) <= known[name] or name in ("id", "nothing")

    def test_filled_tables_keep_observed_cells(self, fitted: tuple[Any, MissDiff]) -> None:
        frame, model = fitted
        before = cells(frame)
        for filled in (model.impute(frame), *model.impute_draws(frame, 1)):
            assert type(filled) is type(frame)
            assert dtypes(filled) == dtypes(frame)
            for name, column in cells(filled).items():
                assert [one for one, other in zip(column, before[name], strict=True) if other is not None] == [
                    other for other in before[name] if other is not None
                ]
                assert name == "nothing" or None not in column
        if isinstance(frame, pd.DataFrame):
            assert model.impute(frame).index.equals(frame.index)

    def test_known_rows(self, fitted: tuple[Any, MissDiff]) -> None:
        frame, model = fitted
        part = head(frame)
        rows = model.sample(given=part)
        assert type(rows) is type(frame)
        assert dtypes(rows) == dtypes(frame)
        for name, column in cells(part).items():
            assert all(one in (None, other) for one, other in zip(column, cells(rows)[name], strict=True))


def test_observed_objects_are_kept() -> None:
    """Decimals that are equal may have other digits, and a filled one may have more than all of them."""
    prices = repeated([Decimal("1.5"), Decimal("2"), None, Decimal("1E+1")])
    whole = repeated([Decimal("1E+1"), Decimal("2.5")])
    frame = pd.DataFrame({"price": pd.Series(prices, dtype=object), "cost": pd.Series(whole, dtype=object)})
    model = MissDiff(**SMALL).fit(frame)  # type: ignore[arg-type]
    for filled in (model.impute(frame), *model.impute_draws(frame, 1), evaluate.fill_mean_mode(frame)):
        assert list(map(str, filled["cost"])) == list(map(str, whole))
        for cell, own in zip(filled["price"], prices, strict=True):
            assert type(cell) is Decimal
            assert own is None or cell is own
    holes, observed = missingness.hide(frame, "independent", 0.4, 0)
    assert 0 < observed[:, 1].sum() < ROWS
    assert [str(one) for one in holes["cost"]] == [
        str(own) if there else "None" for own, there in zip(whole, observed[:, 1], strict=True)
    ]


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_same_table_of_any_kind_gives_the_same_model() -> None:
    table = pd.DataFrame({"x": repeated([1.5, None, 3.25, 4.0]), "y": repeated(["a", "b", None, "a"])})
    rows = [
        MissDiff(**SMALL).fit(one).sample(6)  # type: ignore[arg-type]
        for one in (table, pl.from_pandas(table), pa.Table.from_pandas(table))
    ]
    assert cells(rows[0]) == cells(rows[1]) == cells(rows[2])


def test_probabilities_and_known_values() -> None:
    frame = polars_frame().select("level", "price", "clock", "small")
    model = MissDiff(**SMALL).fit(frame)  # type: ignore[arg-type]
    chance = model.predict_proba(frame.drop("level"), "level")
    assert isinstance(chance, pl.DataFrame)
    assert chance.columns == ["low", "high"]
    scores = model.score_samples(frame[:4])
    assert isinstance(scores, pl.Series)
    assert scores.name == "negative_log_likelihood_bound"
    assert to_pandas(frame.to_arrow())[1].give_column(pd.Series([1.5, None])) == pa.chunked_array([[1.5, None]])
    rows = model.sample(3, given={"price": Decimal("2.25"), "clock": dt.time(22), "level": "high"})
    assert rows.select("price", "clock", "level").rows() == [(Decimal("2.25"), dt.time(22), "high")] * 3


def test_the_kind_of_rows_can_be_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    model = MissDiff(**SMALL).fit(polars_frame().select("small", "level", "clock"))  # type: ignore[arg-type]
    assert model.frame_kind_ == "polars"
    assert isinstance(model.sample(given=pa.table({"small": [1, None]})), pa.Table)
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(ImportError, match=r"pip install polars, or set model\.frame_kind_ = 'pandas'"):
        model.sample(2)
    model.frame_kind_ = "pandas"
    rows = model.sample(2)
    assert rows.dtypes.astype(str).tolist() == ["int16[pyarrow]", "category", "time64[ns][pyarrow]"]
    with pytest.raises(ValueError, match="cannot be of kind 'spark': the kinds are pandas, polars, pyarrow"):
        model.frame_kind_ = "spark"
    with pytest.raises(AttributeError, match="known after fit"):
        MissDiff().frame_kind_  # noqa: B018


def test_a_plan_names_the_dtypes_of_the_library() -> None:
    frame = polars_frame().select("small", "price", "level")
    assert [one.dtype for one in MissDiff().plan(frame).columns] == ["Int16", "Decimal(precision=10, scale=2)", "Enum"]
    assert MissDiff().plan(frame.to_arrow()).columns[1].dtype == "decimal128(10, 2)"
    assert [one.dtype for one in MissDiff().plan(FRAMES["objects"]).columns] == ["object", "object"]


class TestRefused:
    def test_decimals_beyond_float64(self) -> None:
        long = pl.DataFrame({"price": [Decimal("12345678901234567.89"), Decimal("1.5")] * 9})
        with pytest.raises(TypeError, match=r"column 'price' .* more digits than float64 keeps.*frame\.drop\(\['pri"):
            MissDiff().fit(long)
        assert [one.treatment for one in MissDiff().plan(long).columns] == ["refused"]
        aside = long.with_columns(x=pl.Series([1.5, None, 2.5] * 6))
        model = MissDiff(**SMALL, treatments={"price": "text"}).fit(aside)  # type: ignore[arg-type]
        filled = model.impute(aside)
        assert filled["price"].equals(aside["price"])
        assert filled["x"].null_count() == 0

    def test_whole_decimals_beyond_float64_are_exact(self) -> None:
        frame, kind = to_pandas(pl.DataFrame({"n": pl.Series([Decimal(2**60 + 1)], dtype=pl.Decimal(38, 0))}))
        assert kind.give(frame)["n"].to_list() == [2**60 + 1]

    def test_types_that_arrow_lacks(self) -> None:
        wide = pl.DataFrame({"n": pl.Series([1, 2], dtype=pl.Int128)})
        with pytest.raises(TypeError, match=r"column 'n' \(Int128\) can't be taken: cast it to Int64"):
            MissDiff().plan(wide)
        MissDiff().plan(wide.cast({"n": pl.Int64}))

    @pytest.mark.parametrize("other", [pl.LazyFrame({"x": [1]}), pl.Series([1]), pa.chunked_array([[1]]), [1]])
    def test_no_frames(self, other: object) -> None:
        with pytest.raises(TypeError, match="expected a pandas or polars DataFrame or a pyarrow Table, got ") as caught:
            MissDiff().fit(other)
        assert ("convert it, .collect()" in str(caught.value)) == isinstance(other, pl.LazyFrame)

    def test_names_that_come_twice(self) -> None:
        with pytest.raises(ValueError, match="duplicate column names 'x'"):
            MissDiff().fit(pa.table([[1, 2], [3, 4]], names=["x", "x"]))

    def test_no_columns(self) -> None:
        with pytest.raises(ValueError):  # noqa: PT011  (as for pandas)
            MissDiff().fit(pl.DataFrame())


class TestAdvice:
    """What a message names works with the frame that was given."""

    def test_columns_are_dropped(self) -> None:
        frame = pl.DataFrame({"x": [1.0, 2.0] * 9, "bad": [[1], [2]] * 9})
        for one, verb in ((frame, "frame"), (frame.to_arrow(), "table")):
            with pytest.raises(TypeError, match="can't be taken") as caught:
                MissDiff().fit(one)
            code = str(caught.value).rpartition("drop the column, ")[2]
            left = eval(code, {verb: one})
            assert list(dtypes(left)) == ["x"]
            assert type(left) is type(one)

    def test_conversions_run(self) -> None:
        remedies.LIBRARY.set("polars")
        try:
            words = [str(remedies.Convert(to)) for to in remedies.CONVERSIONS]
        finally:
            remedies.LIBRARY.set("pandas")
        frame = pl.DataFrame({"text": ["2024-02-29"], "time": [dt.datetime(2024, 2, 29)]})
        codes = [word.partition(", ")[2] for word in words if "frame." in word and "..." not in word]
        assert len(codes) == 2
        for code, column in zip(codes, ("text", "time"), strict=True):
            assert eval(code, {"frame": frame, "polars": pl, "column": column}).height == 1


class TestMeasures:
    @pytest.fixture
    def tables(self) -> tuple[pd.DataFrame, pl.DataFrame]:
        rng = np.random.default_rng(0)
        pandas = pd.DataFrame(
            {
                "x": rng.normal(size=80),
                "n": rng.integers(0, 50, 80),
                "y": rng.choice(["a", "b"], 80),
                "day": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 99, 80), unit="D"),
            }
        )
        return pandas, pl.from_pandas(pandas)

    def test_holes(self, tables: tuple[pd.DataFrame, pl.DataFrame]) -> None:
        pandas, polars = tables
        for mechanism in ("row", "mar"):
            expected, mask = missingness.hide(pandas, mechanism, 0.3, 0)  # type: ignore[arg-type]
            holes, observed = missingness.hide(polars, mechanism, 0.3, 0)  # type: ignore[arg-type]
            assert isinstance(holes, pl.DataFrame)
            assert holes.schema == polars.schema
            assert (observed == mask).all()
            assert holes.null_count().row(0) == tuple(expected.isna().sum())
        assert (missingness.observed_mask(polars, "mar", 0.3, 0) == mask).all()
        assert missingness.missing_probability(polars.to_arrow(), "row", 0.3).shape == (80, 4)

    def test_figures_are_those_of_pandas(self, tables: tuple[pd.DataFrame, pl.DataFrame]) -> None:
        pytest.importorskip("sdmetrics")
        found = []
        for table in tables:
            holes, observed = missingness.hide(table, "independent", 0.3, 0)
            filled = evaluate.fill_mean_mode(holes)
            assert type(filled) is type(table)
            found.append(
                [
                    *evaluate.imputation(table, filled, observed).iloc[0],
                    *numbers(evaluate.draw_errors(table, [filled, filled], observed)),
                    *numbers(evaluate.draw_scores(table, [filled, filled], observed)),
                    evaluate.row_energy(table, [filled, filled], observed),
                    *evaluate.fidelity(table[:40], table[40:]).iloc[0],
                    *evaluate.protocol_errors(table[:40], table[40:]).values(),
                    *evaluate.report(table[:40], table[40:])["value"],
                ]
            )
        np.testing.assert_allclose(np.array(found[1], float), np.array(found[0], float))

    def test_a_mask_as_a_frame(self, tables: tuple[pd.DataFrame, pl.DataFrame]) -> None:
        _, polars = tables
        observed = polars.select(pl.all().is_not_null() & (pl.int_range(pl.len()) % 2 == 0))
        errors = evaluate.imputation_errors(polars, polars, observed)
        assert errors["hidden"].tolist() == [40] * 4


def test_the_transformer_of_scikit_learn() -> None:
    sklearn = pytest.importorskip("missdiff_fast.sklearn")
    frame = pl.DataFrame({"age": [31, 52, None, 47] * 9, "sex": ["f", None, "m", "m"] * 9})
    imputer = sklearn.MissDiffImputer(**SMALL)
    filled = imputer.fit_transform(frame)
    assert isinstance(filled, pl.DataFrame)
    assert filled.schema == frame.schema
    assert isinstance(imputer.fit_transform(frame.to_arrow()), pa.Table)
    assert isinstance(imputer.set_output(transform="pandas").transform(frame), pd.DataFrame)
    assert isinstance(imputer.set_output(transform="polars").transform(frame.to_arrow()), pl.DataFrame)
    assert isinstance(imputer.model_.sample(2), pa.Table)
