"""Rows with holes: they and the values depend on one another as in the table."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from missdiff_fast import MissDiff
from missdiff_fast._engine.backend import ReferenceBackend
from missdiff_fast._engine.calibration import Calibration
from missdiff_fast._engine.incomplete import calibrate_incomplete
from missdiff_fast._engine.random import derive, shuffled
from missdiff_fast._engine.sampling import fill
from missdiff_fast._engine.tiling import unknown
from missdiff_fast.config import Config
from missdiff_fast.errors import DataWarning
from missdiff_fast.methods import column_states
from missdiff_fast.networks import Denoiser
from missdiff_fast.table.encoded import EncodedTable, Layout

N, CPU = 3000, torch.device("cpu")
FAST = {"calibration.rounds": 0, "blend.rows_per_feature": 0}


def _table() -> pd.DataFrame:
    """A number y that is missing where x is high, and then often the ward too; a tenth of x is missing anywhere."""
    random = np.random.default_rng(0)
    x = random.normal(size=N)
    y = 0.8 * x + 0.6 * random.normal(size=N)
    ward = random.choice(["a", "b", "c"], N)
    unseen = random.random(N) < 1 / (1 + np.exp(-2 * x))
    table = pd.DataFrame({"x": x, "y": y, "ward": ward, "number": np.arange(N) // 2})
    table.loc[unseen, "y"] = np.nan
    table.loc[unseen & (random.random(N) < 0.5), "ward"] = None
    table.loc[(ward == "c") & (random.random(N) < 0.5), "ward"] = None
    table.loc[random.random(N) < 0.1, "x"] = np.nan
    return table


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return _table()


@pytest.fixture(scope="module")
def model(table: pd.DataFrame) -> MissDiff:
    return MissDiff(steps=1200, random_state=0).fit(table)


def _facts(table: pd.DataFrame) -> dict[str, float]:
    unseen = table["y"].isna()
    facts = {"x where y is missing": table["x"][unseen].mean(), "x where y is known": table["x"][~unseen].mean()}
    facts |= {"y": table["y"].mean(), "correlation": table["x"].corr(table["y"])}
    facts |= {f"holes of {name}": table[name].isna().mean() for name in ("x", "y", "ward")}
    facts |= {f"ward {ward}": share for ward, share in table["ward"].value_counts(normalize=True).items()}
    facts["both missing"] = (unseen & table["ward"].isna()).mean()
    return facts


def test_holes_and_values_depend_on_one_another_as_in_the_table(model: MissDiff, table: pd.DataFrame) -> None:
    seen, drawn = _facts(table), _facts(model.sample(12_000, missing=True))
    far = {name: (seen[name], drawn[name]) for name in seen if abs(seen[name] - drawn[name]) > 0.06}
    assert not far
    # The network that draws complete rows does not tell why y is missing.
    method: Any = model._method
    incomplete, calibration = method._incomplete
    try:
        method._incomplete = method._networks.generator, calibration
        other = _facts(model.sample(12_000, missing=True))
    finally:
        method._incomplete = incomplete, calibration
    assert abs(other["x where y is known"] - seen["x where y is known"]) > 0.3


def test_columns_without_holes_have_none(model: MissDiff) -> None:
    drawn = model.sample(500, missing=True)
    assert drawn.isna().any().to_dict() == {"x": True, "y": True, "ward": True, "number": False}
    assert drawn["number"].dtype == np.int64


def test_row_i_depends_on_the_seed_and_i(model: MissDiff) -> None:
    whole = model.sample(40, missing=True, random_state=3)
    part = model.sample(15, missing=True, first_row=25, random_state=3)
    pd.testing.assert_frame_equal(part, whole[25:].reset_index(drop=True))
    assert not whole.equals(model.sample(40, missing=True, random_state=4))


def test_complete_rows_are_complete(model: MissDiff) -> None:
    assert model.sample(200).notna().all(axis=None)


def test_a_saved_model_draws_the_same_rows(model: MissDiff, tmp_path: Path) -> None:
    model.save(tmp_path / "model")
    loaded = MissDiff.load(tmp_path / "model")
    pd.testing.assert_frame_equal(loaded.sample(30, missing=True), model.sample(30, missing=True))
    pd.testing.assert_frame_equal(loaded.sample(30), model.sample(30))


def test_the_choice_is_told(model: MissDiff) -> None:
    chosen = model.training_.set_index("setting")["value"]
    assert chosen["incomplete.steps"] == 150


def test_a_complete_table_has_no_network_for_it(table: pd.DataFrame) -> None:
    model = MissDiff(steps=20, refine=0, settings=FAST, random_state=0).fit(
        table[["number"]].assign(y=np.arange(N) % 7)
    )
    assert "incomplete.steps" not in model.training_["setting"].tolist()
    pd.testing.assert_frame_equal(model.sample(30, missing=True), model.sample(30))


def test_rows_without_any_value_are_drawn_as_often(table: pd.DataFrame) -> None:
    some = table[["x", "y"]].copy()
    some.iloc[::3] = np.nan
    drawn = MissDiff(steps=20, refine=0, settings=FAST, random_state=0).fit(some).sample(3000, missing=True)
    assert abs(drawn.isna().all(axis=1).mean() - some.isna().all(axis=1).mean()) < 0.03


@pytest.mark.parametrize("kind", ["one column", "whole rows", "one value"])
def test_tables_without_a_row_of_cells_and_holes(kind: str) -> None:
    random = np.random.default_rng(0)
    w = random.normal(size=400)
    x = np.where(random.random(400) < 0.5, np.nan, w)
    table = {
        "one column": pd.DataFrame({"x": x}),
        "whole rows": pd.DataFrame({"x": x, "y": np.where(np.isnan(x), np.nan, -w)}),
        "one value": pd.DataFrame({"tick": np.where(random.random(400) < 0.5, "yes", None), "w": w}),
    }[kind]
    model = MissDiff(steps=20, refine=0, settings=FAST, random_state=0).fit(table)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        drawn = model.sample(2000, missing=True)
    assert [str(one.message).partition(",")[0] for one in told] == ["the holes of ['tick']"] * (kind == "one value")
    assert np.abs(drawn.isna().mean() - table.isna().mean()).max() < 0.05
    assert set(drawn.isna().value_counts().index) == set(table.isna().value_counts().index)


def test_given_values_are_refused(model: MissDiff) -> None:
    with pytest.raises(ValueError, match="missing goes without given"):
        model.sample(5, given={"ward": "a"}, missing=True)


@pytest.mark.parametrize("missing", ["no", 1, None])
def test_missing_is_true_or_false(model: MissDiff, missing: Any) -> None:
    with pytest.raises(ValueError, match="missing must be True or False"):
        model.sample(5, missing=missing)


def test_the_paper_draws_complete_rows_alone(table: pd.DataFrame) -> None:
    model = MissDiff(preset="paper", steps=1, random_state=0).fit(table.head(40))
    with pytest.raises(ValueError, match="missing goes without the preset 'paper'"):
        model.sample(5, missing=True)


def test_a_share_of_0_trains_no_network(table: pd.DataFrame) -> None:
    model = MissDiff(steps=20, refine=0, random_state=0, settings={**FAST, "incomplete.step_share": 0}).fit(table)
    assert "incomplete.steps" not in model.training_["setting"].tolist()
    with pytest.raises(ValueError, match=r"was not trained.*incomplete\.step_share"):
        model.sample(5, missing=True)
    assert model.sample(5).notna().all(axis=None)


def test_the_shortest_training_has_one_step(table: pd.DataFrame) -> None:
    model = MissDiff(steps=2, refine=0, settings=FAST, random_state=0).fit(table)
    assert model.training_.set_index("setting")["value"]["incomplete.steps"] == 1
    assert model.sample(50, missing=True).isna().any(axis=None)


def _interrupt(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(("name", "draws"), [("train_incomplete", False), ("calibrate_incomplete", True)])
def test_an_interrupted_fit_says_what_it_lacks(
    table: pd.DataFrame, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, draws: bool
) -> None:
    monkeypatch.setattr(column_states, name, _interrupt)
    model = MissDiff(steps=5, refine=0, settings=FAST, random_state=0)
    with pytest.raises(KeyboardInterrupt):
        model.fit(table)
    model.save(tmp_path / "model")
    for usable in (model, MissDiff.load(tmp_path / "model")):
        assert len(usable.sample(5)) == 5
        if draws:
            assert len(usable.sample(5, missing=True)) == 5
        else:
            with pytest.raises(ValueError, match="fit was interrupted"):
                usable.sample(5, missing=True)


def _full(*_: object) -> None:
    raise RuntimeError("out of memory")


def test_a_fit_that_fails_leaves_the_model_as_it_was(
    model: MissDiff, table: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = model.sample(20, missing=True)
    monkeypatch.setattr(EncodedTable, "to", _full)
    with pytest.raises(RuntimeError, match="out of memory"):
        model.fit(table.iloc[:100, :2])
    monkeypatch.undo()
    pd.testing.assert_frame_equal(model.sample(20, missing=True), before)


def test_columns_of_every_kind_have_holes() -> None:
    random = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "code": [f"code {c}" for c in random.integers(0, 300, 2000)],  # as two columns
            "stay": np.where(random.random(2000) < 0.4, 0.0, random.gamma(2, 3, 2000)),  # of an atom
            "site": ["north"] * 2000,  # constant
            "day": pd.Timestamp("2020-01-01") + pd.to_timedelta(random.integers(0, 900, 2000), "D"),
            "smoker": random.random(2000) < 0.3,
        }
    ).convert_dtypes()
    holes = random.random(table.shape) < [0.1, 0.2, 0.3, 0.4, 0.5]
    table = table.mask(holes)
    model = MissDiff(steps=200, refine=0, random_state=0).fit(table)
    with pytest.warns(DataWarning, match=r"the holes of \['site'\], which have one value each, do not depend"):
        drawn = model.sample(2000, missing=True)
    assert drawn.dtypes.equals(table.dtypes)
    assert np.abs(drawn.isna().mean() - holes.mean(0)).max() < 0.05
    assert set(drawn["site"].dropna()) == {"north"}
    assert abs((drawn["stay"].dropna() == 0).mean() - 0.4) < 0.06
    few = table.drop(columns="site")
    assert len(MissDiff(steps=2, refine=0, settings=FAST, random_state=0).fit(few).sample(0, missing=True)) == 0


def _marginals(calibrated: bool) -> tuple[EncodedTable, EncodedTable, torch.Tensor]:
    """A table of two numbers and a category, rows drawn by a network that knows nothing of it, and what they have."""
    torch.manual_seed(0)
    layout = Layout(2, (3,))
    scores = torch.randn(4000, 2)
    codes = torch.multinomial(torch.tensor([0.7, 0.2, 0.1]), 4000, replacement=True)[:, None].to(torch.int16)
    codes[(codes == 2) & (torch.rand(4000, 1) < 0.8)] = -1  # missing for what it is
    scores[:3000, 1] = torch.nan
    table, network = EncodedTable(scores, codes, layout), Denoiser(layout, width=8, blocks=1).eval()
    with torch.no_grad():
        network.outputs.bias[:2] += 1.0
    backend, solver = ReferenceBackend(), Config().solver
    found = Calibration.none(layout)
    if calibrated:
        found = calibrate_incomplete(network, table, Config(), backend, 0)
        assert not found.conditional.any()
        assert len(found.linear.columns) == 0
    hidden = ~table.observed()
    drawn = fill(found.network(network), unknown(4000, layout, CPU), solver, backend, 5, hidden=hidden)
    return table, drawn, found.scores(drawn.continuous)


@pytest.mark.parametrize("calibrated", [False, True])
def test_calibration_gives_drawn_cells_the_distribution_of_observed_ones(calibrated: bool) -> None:
    table, drawn, scores = _marginals(calibrated)
    seen, own = ((one.codes[one.codes >= 0]).bincount(minlength=3) / (one.codes >= 0).sum() for one in (table, drawn))
    near = [float((seen - own).abs().max()) < 0.03]
    for c in range(2):
        known = ~table.continuous[:, c].isnan()
        ends = torch.tensor([0.1, 0.5, 0.9])
        wanted, got = (x[known, c].quantile(ends) for x in (table.continuous, scores))
        near.append(float((wanted - got).abs().max()) < 0.2)
    assert near == [calibrated] * 3


def test_a_category_that_is_nowhere_drawn_gets_no_weight() -> None:
    torch.manual_seed(0)
    layout = Layout(1, (2, 2))
    codes = torch.randint(0, 2, (40_000, 2), dtype=torch.int16)
    last = shuffled(len(codes), derive(0, "holes", 1))[-1]  # not among the rows whose holes are drawn
    codes[torch.arange(len(codes)) != last, 1] = -1
    table = EncodedTable(torch.randn(40_000, 1), codes, layout)
    network = Denoiser(layout, width=8, blocks=1).eval()
    found = calibrate_incomplete(network, table, Config(), ReferenceBackend(), 0)
    assert found.log_weights[:2].any()
    assert not found.log_weights[2:].any()
