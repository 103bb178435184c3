"""Columns that others determine: found, and kept in rows that are drawn or imputed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from missdiff_fast import MissDiff
from missdiff_fast._engine.backend import ReferenceBackend
from missdiff_fast._engine.batches import TrainBatches
from missdiff_fast._engine.imputation import probe_loss
from missdiff_fast._engine.training import Phase, _draw_batches
from missdiff_fast.config import ObjectiveConfig, RelationsConfig
from missdiff_fast.datasets import load_census
from missdiff_fast.diffusion.states import CLEAN, HIDDEN
from missdiff_fast.table import Codec, Layout, read_frame

N = 1500
HOSPITALS, SHIFTS = ["north", "south", "east"], ["night", "day", "evening"]


def _table(seed: int = 0) -> pd.DataFrame:
    """A stay in whole days and one in dates, a price, a body mass index, a code with its names, and a time."""
    rng = np.random.default_rng(seed)
    admitted, code = rng.integers(0, 2000, N), rng.integers(0, 20, N)
    day = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 2000, N), "D")
    height = rng.normal(170, 10, N).round(0)
    weight = (rng.normal(26, 4, N) * (height / 100) ** 2).round(1)
    minutes = rng.normal(180, 54, N).clip(1).round(1)
    return pd.DataFrame(
        {
            "admitted": admitted,
            "discharged": admitted + rng.geometric(0.1, N),
            "day": day,
            "death": day + pd.to_timedelta(rng.geometric(0.1, N), "D"),
            "minutes": minutes,
            "charge": (0.17 * minutes).round(2),
            "height": height,
            "weight": weight,
            "bmi": (weight / (height / 100) ** 2).round(1),
            "code": code,
            "label": [f"ward {c}" for c in code],
            "hospital": np.array(HOSPITALS)[code % 3],
            "time": (time := rng.integers(0, 24, N) * 100 + rng.integers(0, 60, N)),
            "shift": np.array(SHIFTS)[time // 800],
        }
    )


def _holes(table: pd.DataFrame, share: float, seed: int = 1) -> pd.DataFrame:
    whole = {name: "Int64" for name, dtype in table.dtypes.items() if dtype == np.int64}
    return table.astype(whole).mask(np.random.default_rng(seed).random(table.shape) < share)


def _codec(table: pd.DataFrame) -> Codec:
    return Codec.fit(read_frame(table), ops=ReferenceBackend(), relations=True)


def _found(table: pd.DataFrame) -> dict[str, tuple[str, list[str]]]:
    frame = _codec(table).relations.frame()
    return {row["column"]: (row["kind"], row["from"]) for _, row in frame.iterrows()}


EXPECTED = {
    "discharged": ("difference", ["admitted"]),
    "death": ("difference", ["day"]),
    "charge": ("linear", ["minutes"]),
    "bmi": ("log-linear", ["weight", "height"]),
    "label": ("determined", ["code"]),
    "hospital": ("determined", ["code"]),
    "shift": ("step", ["time"]),
}


def _broken(rows: pd.DataFrame) -> dict[str, float]:
    """The share of rows that break each relation."""
    rows = rows.astype({name: float for name, dtype in rows.dtypes.items() if pd.api.types.is_numeric_dtype(dtype)})
    stay, days = rows["discharged"] - rows["admitted"], (rows["death"] - rows["day"]).dt.days
    bmi = rows["weight"] / (rows["height"] / 100) ** 2
    return {
        "stay": float(((stay < 1) | (stay > 120)).mean()),
        "days": float(((days < 1) | (days > 120)).mean()),
        "charge": float(((rows["charge"] - 0.17 * rows["minutes"]).abs() > 0.0051).mean()),
        "bmi": float(((rows["bmi"] - bmi).abs() > 0.11).mean()),
        "label": float((rows["label"] != "ward " + rows["code"].astype(int).astype(str)).mean()),
        "hospital": float((rows["hospital"] != [HOSPITALS[int(c) % 3] for c in rows["code"]]).mean()),
        "shift": float((rows["shift"] != [SHIFTS[int(t) // 800] for t in rows["time"]]).mean()),
    }


@pytest.fixture(scope="module")
def model() -> MissDiff:
    return MissDiff(steps=150, refine=0, random_state=0).fit(_holes(_table(), 0.1))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("share", [0.0, 0.2])
def test_each_kind_is_found(seed: int, share: float) -> None:
    table = _table(seed)
    assert _found(_holes(table, share) if share else table) == EXPECTED


def test_formulas_are_simple() -> None:
    frame = _codec(_table()).relations.frame().set_index("column")["formula"]
    assert frame["charge"] == "0.17 * minutes"
    assert frame["bmi"] == "10000 * weight * height^-2"
    assert frame["discharged"] == "admitted + residual"


@pytest.mark.parametrize("days", [5, -3, 400])
def test_a_constant_stay_is_found_in_full(days: int) -> None:
    first = pd.Timestamp("2020-01-01") + pd.to_timedelta(np.random.default_rng(0).integers(0, 900, N), "D")
    codec = _codec(pd.DataFrame({"first": first, "second": first + pd.Timedelta(days=days)}))
    (found,) = codec.relations.found
    assert (found.coefficients, found.intercept) == ((1.0,), pytest.approx(days * 86_400, abs=1))


def test_sums_are_found() -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.integers(0, 1000, (500, 3)), columns=["a", "b", "c"])
    table["sum"] = table.sum(axis=1)
    kind, sources = _found(table)["sum"]
    assert kind == "linear"
    assert sorted(sources) == ["a", "b", "c"]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("share", [0.0, 0.5])
@pytest.mark.filterwarnings("ignore:columns .* look like identifiers")
@pytest.mark.parametrize("copies", [1, 2])
def test_unrelated_columns_have_no_relation(seed: int, share: float, copies: int) -> None:
    rng = np.random.default_rng(seed)
    columns = {f"normal {i}": rng.normal(size=N) for i in range(6)}
    columns |= {f"whole {i}": rng.integers(0, 100, N) for i in range(4)}
    columns |= {f"rare flag {i}": (rng.random(N) < 0.003).astype(int) for i in range(8)}
    columns |= {f"nearly constant {i}": rng.choice(list("abc"), N, p=[0.99, 0.006, 0.004]) for i in range(4)}
    columns |= {f"zeros {i}": np.where(rng.random(N) < 0.95, 0, rng.lognormal(3, 1, N).round(2)) for i in range(2)}
    columns |= {"id": np.arange(N), "shuffled id": rng.permutation(N)}
    table = pd.DataFrame(columns)
    table["correlated"] = table["normal 0"] + 0.3 * rng.normal(size=N)
    table = table.mask(rng.random(table.shape) < share)
    assert _found(pd.concat([table] * copies, ignore_index=True)) == {}


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("share", [0.0, 0.15])
def test_a_stay_much_shorter_than_the_range_of_dates_is_a_part_of_the_sum(seed: int, share: float) -> None:
    rng = np.random.default_rng(seed)
    arrived = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 3_000_000, N), "min")
    stay = pd.to_timedelta(rng.integers(30, 900, N), "min")
    table = pd.DataFrame({"arrived": arrived, "left": arrived + stay, "stay": stay}).assign(
        hours=(stay / pd.Timedelta("1h")).astype(float).round(2)
    )
    table = table.mask(rng.random(table.shape) < share)
    codec = _codec(table[["arrived", "left", "stay"]])
    assert [len(one.sources) for one in codec.relations.found] == [2]
    codec = _codec(table[["arrived", "left", "hours"]])
    assert max(len(one.sources) for one in codec.relations.found) == 2


def test_a_few_mistyped_cells_do_not_hide_a_relation() -> None:
    table = _table()
    table["charge"] = table["charge"].astype(float)
    table.loc[[5], "charge"] = 9e5
    table.loc[[7], "label"] = "ward 99"
    found = _found(table)
    assert found["charge"][1] == ["minutes"]
    assert found["label"] == EXPECTED["label"]


def test_census_finds_the_number_of_an_education() -> None:
    assert _found(load_census()) == {"education-num": ("determined", ["education"])}


def test_drawn_rows_keep_relations(model: MissDiff) -> None:
    rows = model.sample(2000)
    assert max(_broken(rows).values()) <= 0.005, _broken(rows)
    assert list(rows.columns) == model.columns_


def test_imputed_rows_keep_relations(model: MissDiff) -> None:
    table = _table(5)
    held = _holes(table, 0.2, seed=2)
    for filled in (model.impute(held), *model.impute_draws(held, 2)):
        # Where a column and what it follows from were drawn together with others that are known, both may be met.
        assert max(_broken(filled).values()) <= 0.005, _broken(filled)
        for name in table:
            seen = held[name].notna()
            assert (filled[name][seen] == table[name][seen]).all()


def test_a_cell_that_the_row_fixes_is_right(model: MissDiff) -> None:
    table = _table(6)
    for name in ("charge", "bmi", "label", "hospital", "shift"):
        held = table.copy()
        held[name] = pd.Series([None] * N, dtype=object)
        for filled in (model.impute(held), model.impute_draws(held, 1)[0]):
            assert (filled[name].astype(table[name].dtype) == table[name]).mean() >= 0.995, name
    held = table.assign(code=pd.Series([pd.NA] * N, dtype="Int64"))
    assert (model.impute(held)["code"] == table["code"]).all()
    held = table.assign(minutes=np.nan)
    assert (model.impute(held)["minutes"] - table["minutes"]).abs().max() < 0.11


def test_an_end_is_imputed_to_the_spread_of_the_stay() -> None:
    table = _table()
    model = MissDiff(steps=500, refine=0, random_state=0).fit(table)
    spread = (table["discharged"] - table["admitted"]).std()
    for name in ("discharged", "admitted"):
        held = table.assign(**{name: pd.Series([pd.NA] * N, dtype="Int64")})
        error = model.impute(held)[name].astype(float) - table[name]
        assert float((error**2).mean() ** 0.5) < 1.2 * spread


def test_given_values_are_kept(model: MissDiff) -> None:
    rows = model.sample(200, given={"hospital": "east", "charge": 17.0, "discharged": 900})
    assert set(rows["hospital"]) == {"east"}
    assert set(rows["charge"]) == {17.0}
    assert set(rows["discharged"]) == {900}
    assert max(_broken(rows).values()) == 0
    assert (rows["code"] % 3 == 2).all()
    assert rows["code"].nunique() > 2


def test_known_cells_that_contradict_are_kept(model: MissDiff) -> None:
    rows = model.sample(20, given={"code": 3, "label": "ward 4", "minutes": 100.0, "charge": 5.0})
    assert set(rows["code"]) == {3}
    assert set(rows["label"]) == {"ward 4"}
    assert set(rows["charge"]) == {5.0}


def test_sources_share_what_one_cannot_reach() -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"first": rng.integers(0, 1000, N), "second": rng.integers(0, 500, N)})
    table["total"] = table["first"] + table["second"]
    model = MissDiff(steps=20, refine=0, random_state=0).fit(table)
    for total in (100, 700, 1450):
        rows = model.sample(200, given={"total": total})
        assert (rows["first"] + rows["second"] == total).all()


def test_a_cell_that_follows_comes_before_one_that_is_chosen() -> None:
    table = pd.DataFrame({"number": np.random.default_rng(0).integers(0, 300, N)})
    table["double"], table["odd"] = 2 * table["number"], 2 * table["number"] + 3
    table["group"] = (table["number"] // 50).astype(str)
    model = MissDiff(steps=20, refine=0, random_state=0).fit(table)
    rows = table.astype(dict.fromkeys(("number", "double", "odd"), "Int64"))
    for known in (["double", "group"], ["odd", "group"], ["number", "group"], ["double"], ["odd"]):
        holes = rows.copy()
        holes[[name for name in rows if name not in known]] = None
        pd.testing.assert_frame_equal(model.impute(holes).astype(table.dtypes), table)


def test_several_known_columns_choose_their_source_together() -> None:
    rng = np.random.default_rng(0)
    code = rng.integers(0, 30, N)
    table = pd.DataFrame({"code": code, "ward": code % 5, "site": code % 6}).astype(str)
    model = MissDiff(steps=20, refine=0, random_state=0).fit(table)
    assert set(model.relations_["column"]) == {"ward", "site"}
    held = table.assign(code=pd.Series([None] * N, dtype=object))
    assert model.impute_draws(held, 1)[0]["code"].tolist() == table["code"].tolist()


def test_a_source_that_is_consistent_stays_as_it_is() -> None:
    codec = _codec(_table())
    cells = codec.read(_table()[["label"]], partial=True)
    drawn = _table().assign(**{name: 0.0 for name in codec.relations.coders if str(name).startswith("residual of")})
    assert codec.settle(drawn, cells)["code"].tolist() == _table()["code"].tolist()
    drawn["code"] = 0
    assert codec.settle(drawn, cells)["code"].tolist() == _table()["code"].tolist()


def test_relations_hold_among_the_cells_of_rows_with_holes() -> None:
    table = _holes(_table(), 0.3)
    model = MissDiff(steps=300, random_state=0).fit(table)
    assert {"charge", "label", "hospital", "shift"} <= set(model.relations_["column"])
    drawn = model.sample(2000, missing=True)
    assert (drawn.isna().mean() - 0.3).abs().max() < 0.05
    both = drawn.dropna(subset=["minutes", "charge"])
    assert (both["charge"] - (0.17 * both["minutes"]).round(2)).abs().max() < 0.011
    for one, other, of in (("code", "label", "ward {}".format), ("code", "hospital", lambda c: HOSPITALS[c % 3])):
        both = drawn.dropna(subset=[one, other])
        assert len(both) > 800
        assert both[other].tolist() == [of(c) for c in both[one]]
    # Both are of one ward where the code is a hole too.
    both = drawn[drawn["code"].isna()].dropna(subset=["label", "hospital"])
    assert both["hospital"].tolist() == [HOSPITALS[int(label.split()[1]) % 3] for label in both["label"]]
    shares = both["label"].value_counts(normalize=True)
    assert len(shares) == 20
    assert shares.max() < 0.15


def _settled(table: pd.DataFrame, drawn: pd.DataFrame, *holes: str) -> pd.DataFrame:
    """Drawn rows in which the table's relations hold, where these columns are holes in every row."""
    codec = _codec(table)
    residuals = {name: 0.0 for name in codec.relations.coders if str(name).startswith("residual of")}
    hole = pd.DataFrame(False, index=drawn.index, columns=table.columns).assign(**dict.fromkeys(holes, True))
    none = codec.read(table[[]].loc[drawn.index], partial=True)
    rows = codec.settle(drawn.assign(**residuals), none, np.linspace(0, 0.999, len(drawn)), hole)
    return rows.drop(columns=list(holes))


def test_nothing_is_computed_from_a_hole() -> None:
    table = _table()
    wrong = table.assign(code=0, minutes=10.0, admitted=3)
    settled = _settled(table, wrong, "code", "minutes", "admitted")
    for name in ("label", "hospital", "charge", "discharged"):
        pd.testing.assert_series_equal(settled[name], table[name])
    pd.testing.assert_series_equal(_settled(table, wrong)["label"], pd.Series(["ward 0"] * N, name="label"))


def test_columns_of_one_hole_agree() -> None:
    table, rng = _table(), np.random.default_rng(1)
    table["cost"] = (3.5 * table["minutes"]).round(2)
    wrong = table.assign(
        code=0, hospital=rng.permutation(table["hospital"]), minutes=1.0, cost=rng.permutation(table["cost"])
    )
    settled = _settled(table, wrong, "code", "minutes")
    assert settled["label"].equals(table["label"])
    assert settled["hospital"].equals(table["hospital"])
    assert (settled["cost"] / 3.5 - settled["charge"] / 0.17).abs().max() < 0.05
    assert settled["cost"].equals(wrong["cost"])  # the first formula's column is kept


def test_a_hole_beyond_the_range_moves_no_source() -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.normal(100, 20, N).round(1), "b": rng.normal(100, 20, N).round(1)})
    table["total"] = table["a"] + table["b"]
    drawn = table.copy()
    table.loc[table["total"] > 210, "total"] = np.nan
    assert _codec(table).relations.found
    pd.testing.assert_frame_equal(_settled(table, drawn.assign(total=150.0), "total"), drawn[["a", "b"]])


def test_what_does_not_follow_from_a_hole_stays_as_drawn() -> None:
    rng = np.random.default_rng(0)
    code = rng.integers(0, 20, N)
    table = pd.DataFrame({"code": [f"c{c}" for c in code], "mid": [f"m{c // 2}" for c in code]})
    table["top"] = np.where(code < 4, "t0", np.char.add("t", (code // 4).astype(str)))
    table.loc[code < 4, "mid"] = None  # which is known of none of these codes
    assert {one.column for one in _codec(table).relations.found} == {"mid", "top"}
    drawn = table[code < 4].assign(mid="m9").reset_index(drop=True)
    assert set(_settled(table, drawn, "mid")["top"]) == {"t0"}


def test_a_residual_is_that_of_a_row_without_holes_alone() -> None:
    rng = np.random.default_rng(0)
    product = rng.integers(0, 30, N)
    table = pd.DataFrame({"product": [f"p{p}" for p in product], "price": np.linspace(10, 900, 30).round(0)[product]})
    table["paid"] = table["price"] + rng.exponential(10, N).round(2)
    kinds = {one.column: getattr(one, "residual", None) for one in _codec(table).relations.found}
    assert kinds["paid"] is not None
    drawn = table.assign(paid=table["paid"] + 1)
    assert _settled(table, drawn.assign(price=10.0), "price")["paid"].equals(drawn["paid"])


def test_rows_depend_on_their_number_alone(model: MissDiff) -> None:
    given = {"hospital": "north"}
    whole = model.sample(30, given=given)
    assert whole.equals(model.sample(30, given=given))
    pd.testing.assert_frame_equal(model.sample(12, given=given, first_row=18), whole[18:].reset_index(drop=True))


def test_a_saved_model_keeps_them(model: MissDiff, tmp_path: Path) -> None:
    model.save(tmp_path / "model")
    loaded = MissDiff.load(tmp_path / "model")
    pd.testing.assert_frame_equal(loaded.relations_, model.relations_)
    assert loaded.sample(40).equals(model.sample(40))
    held = _holes(_table(3), 0.2)
    assert loaded.impute(held).equals(model.impute(held))


def test_a_damaged_relation_is_refused() -> None:
    meta, tensors = _codec(_table()).state()
    for name, value in (("column", "unknown"), ("sources", []), ("coefficients", [0.0])):
        damaged = {**meta, "relations": [{**meta["relations"][0], name: value}]}
        with pytest.raises(ValueError, match="damaged"):
            Codec.from_state(damaged, tensors, ops=ReferenceBackend())


def test_predicted_probabilities_are_consistent(model: MissDiff) -> None:
    table = _table(4)
    label = model.predict_proba(table.drop(columns="label"), "label")
    assert (label.idxmax(axis=1) == table["label"]).all()
    assert (label.max(axis=1) == 1).all()
    np.testing.assert_allclose(label.sum(axis=1), 1, atol=1e-6)


def test_relations_can_be_turned_off() -> None:
    model = MissDiff(steps=5, refine=0, random_state=0, settings={"relations.enabled": False}).fit(_table())
    assert len(model.relations_) == 0
    assert model.codec_.layout.parents == ()
    assert len(MissDiff(preset="paper", epochs=1, random_state=0).fit(_table().head(100)).relations_) == 0
    with pytest.raises(ValueError, match="must be of type bool"):
        MissDiff(settings={"relations.enabled": 3}).fit(_table())
    with pytest.raises(ValueError, match="must be True or False"):
        RelationsConfig(enabled=3)  # type: ignore[arg-type]


def test_a_residual_is_observed_with_all_its_columns() -> None:
    table = _holes(_table(), 0.2)
    codec = _codec(table)
    encoded = codec.encode(read_frame(table), seed=0)
    names = codec.schema.continuous
    for residual, parents in enumerate(codec.layout.parents, len(names)):
        assert torch.equal(~encoded.continuous[:, residual].isnan(), ~encoded.continuous[:, parents].isnan().any(1))


def _batches(codec: Codec, table: pd.DataFrame) -> TrainBatches:
    encoded = codec.atoms(0.01, 10, 1000).add(codec.encode(read_frame(table), seed=0))
    phase = Phase("fit", 60, 64, 1e-3, 10, 0.9)
    return next(_draw_batches(encoded, encoded.observed(), None, ObjectiveConfig(), phase, ReferenceBackend(), 0))


def test_a_residual_shows_no_more_than_its_columns() -> None:
    table = _holes(_table(), 0.1)
    codec = _codec(table)
    states, layout = _batches(codec, table).states.flatten(0, 1), codec.atoms(0.01, 10, 1000).layout
    first = layout.num_continuous - len(layout.parents)
    tied = [k for k, c in enumerate(layout.partners, layout.num_columns - len(layout.partners)) if c >= first]
    assert len(tied) > 0
    assert layout.residuals() == [*range(first, layout.num_continuous), *tied]
    for residual, parents in enumerate(layout.parents, first):
        own, others = states[:, residual], states[:, list(parents)]
        assert torch.equal(own == CLEAN, (others == CLEAN).all(1))
        assert torch.equal(own == HIDDEN, (others == HIDDEN).any(1))
        assert len(own.unique()) == 3
    partner = dict(enumerate(layout.partners, layout.num_columns - len(layout.partners)))
    assert all(torch.equal(states[:, k], states[:, partner[k]]) for k in tied)


def test_the_probe_hides_residuals_with_their_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[torch.Tensor] = []

    class Backend(ReferenceBackend):
        def perturb(self, table, rows, states, *rest):  # type: ignore[no-untyped-def]
            seen.append(states)
            return super().perturb(table, rows, states, *rest)

    table = _table()
    codec = _codec(table)
    encoded = codec.encode(read_frame(table), seed=0)
    width = encoded.layout.width + encoded.layout.num_continuous
    probe_loss(lambda x, *_: torch.zeros(len(x), width), encoded, Backend(), 0)  # type: ignore[arg-type]
    first = encoded.layout.num_continuous - len(encoded.layout.parents)
    for residual, parents in enumerate(encoded.layout.parents, first):
        assert torch.equal(seen[0][:, residual], seen[0][:, list(parents)].amin(1))


def test_residuals_are_not_counted_by_the_bound() -> None:
    rng = np.random.default_rng(0)
    start = rng.integers(0, 2000, 600)
    table = pd.DataFrame({"start": start, "end": start + rng.geometric(0.1, 600)})
    model = MissDiff(steps=5, refine=0, random_state=0).fit(table)
    assert model.codec_.layout.parents == ((1, 0),)
    layout = Layout(3, (), (), ((1, 0),))
    assert layout.residuals() == [2]
    known = model.codec_.encode(model.codec_.read(table))
    zeros = torch.zeros_like(known.continuous)
    zeros[:, 2] = 3.0
    piece = model._method.nll_bound(known, 0)
    assert piece.isfinite().all()
    # The network's guess at the residual enters no error: a network that guesses it worse gets the same bound.
    network = model._method._networks.generator
    with torch.no_grad():
        list(network.parameters())[-1][2] += 50.0
    torch.testing.assert_close(model._method.nll_bound(known, 0), piece)


def test_columns_named_by_integers_keep_their_names() -> None:
    random = np.random.default_rng(0)
    first = random.integers(0, 1000, 400)
    table = pd.DataFrame({0: first, 1: first + random.geometric(0.3, 400), 2: random.normal(size=400)})
    model = MissDiff(steps=2, random_state=0).fit(table)
    assert model.relations_["column"].tolist() == [1]
    pd.testing.assert_index_equal(model.sample(3).columns, table.columns)
    holes = table.mask(random.random(table.shape) < 0.1)
    pd.testing.assert_index_equal(model.impute(holes).columns, table.columns)


def test_an_exact_formula_knows_more_than_a_drawn_residual() -> None:
    random = np.random.default_rng(0)
    table = pd.DataFrame({"admitted": random.integers(0, 2000, 900) * 24})
    table["discharged"] = table["admitted"] + random.geometric(0.01, 900)
    table["half"] = table["discharged"] / 2
    table["ward"] = random.choice(["A", "B"], 900)
    codec = _codec(table)
    assert set(codec.relations.frame()["kind"]) == {"difference", "linear"}
    drawn = codec.relations.schema.names
    known = table.assign(discharged=np.nan)
    cells = codec.read(known.astype({"discharged": "float64"}))
    frame = pd.DataFrame({name: table.get(name, 7.0) for name in drawn})
    settled = codec.settle(
        frame.assign(discharged=table["discharged"].sample(frac=1, random_state=0).to_numpy()), cells
    )
    assert (settled["discharged"] == 2 * table["half"]).mean() > 0.99  # all within the column's range
