"""Categorical columns of many categories as entries and places."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from missdiff_fast import MissDiff
from missdiff_fast._engine.backend import ReferenceBackend
from missdiff_fast._engine.resemblance import distance
from missdiff_fast._engine.training import Phase, _draw_batches
from missdiff_fast.config import CategoriesConfig, ObjectiveConfig
from missdiff_fast.table import Codec, EncodedTable, Layout, read_frame
from missdiff_fast.table.similarity import Rows, category_points, similar_groups
from missdiff_fast.table.wide import Wide

N, V, KINDS = 6000, 600, 4


def _table(seed: int = 0) -> pd.DataFrame:
    """600 codes, of which code v is of kind v % 4: the kind tells the number and the flag."""
    rng = np.random.default_rng(seed)
    chance = 1 / np.arange(1, V + 1) ** 0.5
    code = rng.choice(V, N, p=chance / chance.sum())
    code[:V] = np.arange(V)
    kind = code % KINDS
    table = pd.DataFrame(
        {
            "number": 3.0 * kind + rng.normal(size=N),
            "code": np.char.add("c", code.astype(str)),
            "flag": np.where(rng.random(N) < 0.9, kind < 2, kind >= 2),
        }
    )
    holes = rng.random(table.shape) < 0.1
    holes[:V] = False
    return table.mask(holes)


def _kind(codes: pd.Series) -> pd.Series:
    return codes.str[1:].astype(int) % KINDS


def _encoded(table: pd.DataFrame) -> tuple[Codec, EncodedTable]:
    cells = read_frame(table)
    codec = Codec.fit(cells, ops=ReferenceBackend())
    return codec, codec.encode(cells, seed=0)


def test_each_category_is_one_pair() -> None:
    codec, encoded = _encoded(_table())
    wide = Wide.learn(encoded, 100)
    k = codec.group("code")
    entries, places = wide.layout.cardinalities[k], wide.layout.cardinalities[-1]
    assert entries <= 100
    assert entries + places < 200
    shown = wide.add(encoded)
    assert torch.equal(wide.join(shown.codes), encoded.codes.where(encoded.codes >= 0, wide.join(shown.codes)))
    column = wide._columns[0]
    assert len({*zip(column.entry.tolist(), column.place.tolist(), strict=True)}) == V
    observed = shown.observed()
    assert torch.equal(observed[:, -1], observed[:, 1 + k])
    assert torch.equal(observed[:, :-1], encoded.observed())


def test_pairs_without_a_category_become_one_of_the_group() -> None:
    _, encoded = _encoded(_table())
    wide = Wide.learn(encoded, 100)
    column = wide._columns[0]
    entries, places = column.sizes
    pairs = torch.cartesian_prod(torch.arange(entries), torch.arange(places)).to(torch.int16)
    codes = torch.zeros((len(pairs), wide.layout.num_categorical), dtype=torch.int16)
    k = column.index
    codes[:, k], codes[:, -1] = pairs[:, 0], pairs[:, 1]
    joined = wide.join(codes)[:, k].long()
    assert torch.equal(column.entry[joined], pairs[:, 0])
    used = {*zip(column.entry.tolist(), column.place.tolist(), strict=True)}
    exact = torch.tensor([pair in used for pair in map(tuple, pairs.tolist())])
    assert torch.equal(column.place[joined][exact], pairs[exact, 1])


def test_groups_hold_similar_categories() -> None:
    codec, encoded = _encoded(_table())
    column = Wide.learn(encoded, 100)._columns[0]
    kinds = torch.from_numpy(_kind(pd.Series(codec.category_values("code"))).to_numpy())
    groups = column.entry[column.place > 0].unique()
    purity = [float(torch.bincount(kinds[column.entry == g]).max() / (column.entry == g).sum()) for g in groups]
    assert np.mean(purity) > 0.7  # of four kinds; groups by chance have about 0.4
    assert all(torch.bincount(column.entry[column.place > 0].long()).tolist()[int(g)] <= 2 * 24 for g in groups)


def test_rare_categories_are_placed_by_their_neighbours() -> None:
    rng = np.random.default_rng(0)
    code = np.append(rng.integers(0, 200, 4000), np.arange(200))
    scores = (code >= 100) * 2.0 - 1 + 0.5 * rng.normal(size=len(code))
    code, scores = code[code != 50], scores[code != 50]
    code, scores = np.append(code, 50), np.append(scores, 1.0)  # one cell, and an odd one
    table = EncodedTable(
        torch.from_numpy(scores).float()[:, None], torch.from_numpy(code).to(torch.int16)[:, None], Layout(1, (200,))
    )
    points = category_points(Rows.of(table), 0)[:, 0]
    low, high = points[:90].mean(), points[110:].mean()
    assert low < -1 < 1 < high
    assert points[50] < (low + high) / 2


def test_a_group_has_no_more_than_the_most_members() -> None:
    points = torch.randn(500, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) ** 3
    groups = similar_groups(points, torch.ones(500, dtype=torch.float64), 20, 30)
    assert max(map(len, groups)) <= 30
    assert torch.equal(torch.cat(groups).sort().values, torch.arange(500))
    same = similar_groups(torch.zeros(10, 0, dtype=torch.float64), torch.ones(10, dtype=torch.float64), 3, 4)
    assert sorted(torch.cat(same).tolist()) == list(range(10))


def test_probabilities_are_those_of_training_where_nothing_is_known() -> None:
    _, encoded = _encoded(_table())
    wide = Wide.learn(encoded, 100)
    column = wide._columns[0]
    shares = [
        torch.zeros(size, dtype=torch.float64).index_add(0, index.long(), column.share)
        for size, index in zip(column.sizes, (column.entry, column.place), strict=True)
    ]
    logits = torch.randn(2, sum(wide.layout.cardinalities))
    first = sum(wide.layout.cardinalities[: column.index])
    logits[:, first : first + column.sizes[0]] = shares[0].log().float()
    logits[:, -column.sizes[1] :] = shares[1].log().float()
    chances = wide.chances(logits, column.index)
    torch.testing.assert_close(chances, column.share.float().expand(2, -1), rtol=1e-4, atol=1e-7)
    other = wide.chances(torch.randn(50, sum(wide.layout.cardinalities)) * 5, column.index)
    torch.testing.assert_close(other.sum(1), torch.ones(50))


def test_entry_and_place_have_one_state() -> None:
    _, encoded = _encoded(_table())
    wide = Wide.learn(encoded, 100)
    table = wide.add(encoded)
    phase = Phase("fit", 4, 256, 1e-3, 10, 0.9)
    parts = list(_draw_batches(table, table.observed(), None, ObjectiveConfig(), phase, ReferenceBackend(), 0))
    assert wide.layout.partners == (1 + wide._columns[0].index,)
    for part in parts:
        assert torch.equal(part.states[..., -1], part.states[..., wide.layout.partners[0]])


def test_up_to_a_hundred_categories_nothing_changes() -> None:
    table = pd.DataFrame({"c": [f"v{i % 100:03}" for i in range(1000)], "x": np.arange(1000.0)})
    codec, encoded = _encoded(table)
    wide = Wide.learn(encoded, 100)
    assert wide.layout == codec.layout
    assert wide.add(encoded) is encoded
    assert wide.state() == {}


@pytest.fixture(scope="module")
def model() -> MissDiff:
    return MissDiff(steps=1000, refine=0, random_state=0).fit(_table())


def test_synthetic_rows_keep_shares_and_kinds(model: MissDiff) -> None:
    rows = model.sample(N)
    table, other = _table(), _table(1)
    gap, floor = (
        0.5 * part["code"].value_counts(normalize=True).sub(other["code"].value_counts(normalize=True), fill_value=0)
        for part in (rows, table)
    )
    assert gap.abs().sum() < 2 * floor.abs().sum()
    means, want = (part["number"].groupby(_kind(part["code"].dropna())).mean() for part in (rows, table))
    assert (means - want).abs().max() < 1.0  # of 9 between the first and the last
    assert set(rows["code"]) <= set(table["code"].dropna())


def test_a_hidden_code_is_of_the_kind_that_the_row_tells(model: MissDiff) -> None:
    table = _table(2)
    known = table[table["number"].notna() & table["flag"].notna() & table["code"].notna()]
    right = {
        "impute": _kind(model.impute(known.assign(code=None))["code"]),
        "draws": _kind(model.impute_draws(known.assign(code=None), 1)[0]["code"]),
    }
    for name, kind in right.items():
        assert (kind == _kind(known["code"])).mean() > 0.6, name  # by chance 0.25
    chance = model.predict_proba(known.drop(columns="code"), "code")
    np.testing.assert_allclose(chance.sum(axis=1), 1, atol=1e-4)
    assert chance.shape == (len(known), V)
    true = chance.to_numpy()[np.arange(len(known)), chance.columns.get_indexer(known["code"])]
    share = table["code"].value_counts(normalize=True)[known["code"]]
    assert np.log(true).mean() > np.log(share).mean() + 0.4


def test_a_given_code_decides_the_number(model: MissDiff) -> None:
    codes = _table(1)[["code"]].dropna()
    drawn = model.sample(given=codes)
    assert drawn["code"].tolist() == codes["code"].tolist()
    assert np.corrcoef(drawn["number"], _kind(codes["code"]))[0, 1] > 0.5  # of 0.96 in the table
    assert model.sample(5, given={"code": "c77"})["code"].tolist() == ["c77"] * 5
    assert np.isfinite(model.score_samples(_table()[:50])).all()


def test_a_saved_model_draws_the_same_rows(model: MissDiff, tmp_path: Path) -> None:
    model.save(tmp_path / "m.missdiff")
    same = MissDiff.load(tmp_path / "m.missdiff")
    pd.testing.assert_frame_equal(same.sample(100), model.sample(100))
    pd.testing.assert_frame_equal(same.impute(_table()[:100]), model.impute(_table()[:100]))


def test_numbers_named_as_categories_and_the_other_backend() -> None:
    table = _table()
    table["code"] = table["code"].str[1:].astype(float)
    model = MissDiff(
        steps=5,
        width=16,
        refine=0,
        categorical_columns=["code"],
        settings={"atoms.share": 0.05, "calibration.rounds": 1},
        backend="reference",
        random_state=0,
    ).fit(table)
    assert model.sample(50)["code"].dtype == np.float64
    assert model.impute(table)["code"].isin(range(V)).all()
    assert model.impute_draws(table[:20], 1)[0].notna().all().all()


def test_a_column_alone() -> None:
    table = _table()[["code"]]
    model = MissDiff(steps=20, width=16, refine=0, random_state=0).fit(table)
    assert model.sample(20)["code"].notna().all()


def test_settings() -> None:
    assert CategoriesConfig().one_hot == 100
    with pytest.raises(ValueError, match=r"categories\.one_hot"):
        MissDiff(settings={"categories.one_hot": 1}).fit(_table())
    model = MissDiff(steps=1, width=8, refine=0, settings={"categories.one_hot": V}).fit(_table())
    assert model._method.wide.state() == {}  # type: ignore[attr-defined]


def test_free_text_is_set_aside_and_ten_thousand_categories_are_not() -> None:
    codes = np.char.add("c", np.arange(10_001).repeat(2).astype(str))
    table = pd.DataFrame({"code": codes, "x": np.arange(len(codes)) % 7.0})
    with pytest.warns(UserWarning, match=r"'code' \(10,001 distinct texts in 20,002 cells\) holds free text"):
        assert list(MissDiff(steps=1, width=8, refine=0).fit(table).sample(2)) == ["x"]
    model = MissDiff(steps=1, width=8, refine=0).fit(table[2:])
    assert model._method.wide.layout.width < 400  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match=r"'code' \(10,000 > 9,999\) has too many categories"):
        MissDiff(steps=1, max_categories=9_999).fit(table[2:])


def test_wide_tables_are_compared_in_blocks() -> None:
    generator = torch.Generator().manual_seed(0)
    layout = Layout(700, (400, 300))
    base = torch.randn(600, 1, generator=generator)
    scores = 0.8 * base + 0.6 * torch.randn(600, 700, generator=generator)
    codes = torch.stack([torch.randint(0, size, (600,), generator=generator) for size in (400, 300)], 1)
    table = EncodedTable(scores, codes.to(torch.int16), layout)
    shuffled = torch.stack([column[torch.randperm(600, generator=generator)] for column in scores.T], 1)
    independent = EncodedTable(shuffled, codes.to(torch.int16), layout)
    assert distance(table, table).total == 0.0
    assert distance(table, independent).pairs > 0.2
    assert distance(table, independent).marginals == pytest.approx(0.0, abs=1e-6)


def test_the_papers_network_takes_a_hundred_categories_unless_more_are_asked_for() -> None:
    table = pd.DataFrame({"code": [f"c{i % 150}" for i in range(600)], "x": np.arange(600.0)})
    with pytest.raises(ValueError, match="150 > 100"):
        MissDiff(preset="paper", steps=1).fit(table)
    MissDiff(preset="paper", steps=1, width=8, blocks=1, max_categories=150, random_state=0).fit(table)
