"""Draws from a joint normal distribution of numbers and categories, and which columns they are for."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from missdiff_fast import MissDiff
from missdiff_fast._engine import joint_draws, length, normal_draws
from missdiff_fast._engine.backend import Backend, ReferenceBackend
from missdiff_fast._engine.history import History
from missdiff_fast._engine.joint_draws import JointDraws, narrow
from missdiff_fast._engine.normal_draws import NormalDraws
from missdiff_fast.config import BlendConfig, Config, RefitsConfig, TrainingConfig
from missdiff_fast.methods import column_states
from missdiff_fast.table import read_frame
from missdiff_fast.table.encoded import EncodedTable, Layout

SMALL: dict[str, Any] = {"steps": 60, "batch_size": 64, "width": 16, "blocks": 1, "random_state": 0}
LAYOUT = Layout(3, (2,))


def _complete(rows: int = 400, seed: int = 0) -> pd.DataFrame:
    """A line, a group that moves it, and a column of noise."""
    random = np.random.default_rng(seed)
    x, group = random.normal(size=rows), random.choice(list("abc"), rows)
    y = x + (group == "c") + 0.7 * random.normal(size=rows)
    return pd.DataFrame({"x": x, "y": y, "z": random.normal(size=rows), "group": group})


def _frame(seed: int = 0) -> pd.DataFrame:
    """The same with holes in 30 % of the cells."""
    table = _complete(seed=seed)
    return table.mask(np.random.default_rng([seed, 1]).random(table.shape) < 0.3)


def _relations(tables: list[pd.DataFrame]) -> np.ndarray:
    """The slope of y on x, and how far y lies above its mean in the group c."""
    lifts = [table.loc[table["group"] == "c", "y"].mean() - table["y"].mean() for table in tables]
    return np.array([np.mean([np.polyfit(table["x"], table["y"], 1)[0] for table in tables]), np.mean(lifts)])


def _encoded(rows: int = 1000, missing: float = 0.3) -> tuple[EncodedTable, EncodedTable]:
    """Three equally correlated numbers, and a category that is more frequent where they are great."""
    generator = torch.Generator().manual_seed(3)
    common = torch.randn(rows, 1, generator=generator)
    x = math.sqrt(0.8) * common + math.sqrt(0.2) * torch.randn(rows, 3, generator=generator)
    codes = (torch.rand(rows, 1, generator=generator) < torch.sigmoid(2 * x[:, :1])).to(torch.int16)
    holes = torch.rand(rows, 4, generator=generator) < missing
    return (
        EncodedTable(x, codes, LAYOUT),
        EncodedTable(x.masked_fill(holes[:, :3], torch.nan), codes.masked_fill(holes[:, 3:], -1), LAYOUT),
    )


def test_draws_of_few_rows_keep_the_relations() -> None:
    # The network, trained for so few steps, knows next to nothing of them.
    lost = {"joint": np.zeros(2), "network": np.zeros(2)}
    for seed in range(3):
        table, truth = _frame(seed), _relations([_complete(seed=seed)])
        model = MissDiff(**{**SMALL, "random_state": seed}, refits=5).fit(table)
        for name in lost:
            lost[name] += (truth - _relations(model.impute_draws(table, 5))) / 3
            model._method._joint = None  # type: ignore[attr-defined]
    assert (np.abs(lost["joint"]) < 0.08).all()
    assert (lost["network"] > 0.2).all()


def test_cells_missing_together_keep_their_correlation(any_backend: Backend) -> None:
    complete, holed = _encoded()
    joint = NormalDraws.fit(holed, any_backend, 0)
    C = LAYOUT.num_continuous
    nothing = EncodedTable(torch.full((2000, C), torch.nan), torch.full((2000, 1), -1, dtype=torch.int16), LAYOUT)
    drawn = joint.draw(nothing, any_backend, 1)
    found, wanted = torch.corrcoef(drawn.continuous.T), torch.corrcoef(complete.continuous.T)
    torch.testing.assert_close(found, wanted, atol=0.06, rtol=0)
    assert abs(float(drawn.codes.float().mean() - complete.codes.float().mean())) < 0.06


def test_draws_have_the_conditional_mean_and_spread(any_backend: Backend) -> None:
    joint = NormalDraws.fit(_encoded(4000)[1], any_backend, 0)
    x = torch.tensor([[1.0, 1.0, torch.nan]]).repeat(4000, 1)
    drawn = joint.draw(EncodedTable(x, torch.ones(4000, 1, dtype=torch.int16), LAYOUT), any_backend, 2).continuous
    # Given two of three columns that correlate by 0.8: mean 0.8 * 2 / 1.8, variance 1 - 0.8 * 0.8 * 2 / 1.8.
    assert abs(float(drawn[:, 2].mean()) - 0.89) < 0.05
    assert abs(float(drawn[:, 2].var()) - 0.29) < 0.04
    assert torch.equal(drawn[:, :2], x[:, :2])


def test_the_category_is_as_probable_as_bayes_rule_says() -> None:
    generator = torch.Generator().manual_seed(4)
    codes = (torch.rand(6000, 1, generator=generator) < 0.2).to(torch.int16)
    x = 2 * codes + torch.randn(6000, 1, generator=generator)
    joint = NormalDraws.fit(EncodedTable(x, codes, Layout(1, (2,))), ReferenceBackend(), 0)
    for given in (-0.5, 1.0, 1.7, 2.5):
        row = EncodedTable(torch.full((4000, 1), given), torch.full((4000, 1), -1, dtype=torch.int16), Layout(1, (2,)))
        share = float(joint.draw(row, ReferenceBackend(), 5).codes.float().mean())
        assert abs(share - 0.2 / (0.2 + 0.8 * math.exp(2 - 2 * given))) < 0.04


def test_rare_categories_that_meet_a_few_times_stay_apart() -> None:
    codes = torch.zeros(1000, 2, dtype=torch.int16)
    codes[:40, 0] = 1
    codes[20:60, 1] = 1  # half of each is with the other
    table = EncodedTable(torch.zeros(1000, 0), codes, Layout(0, (2, 2)))
    joint = NormalDraws.fit(table, ReferenceBackend(), 0)
    row = EncodedTable(torch.zeros(2000, 0), torch.tensor([[1, -1]], dtype=torch.int16).repeat(2000, 1), table.layout)
    share = joint.draw(row, ReferenceBackend(), 0).codes[:, 1].float().mean()
    assert 0.35 < float(share) < 0.6


def test_a_row_is_drawn_alone(any_backend: Backend) -> None:
    _, holed = _encoded(700)
    joint = JointDraws(torch.ones(4, dtype=torch.bool), NormalDraws.fit(holed, any_backend, 0))
    whole = joint.fill(holed, any_backend, 7)
    some = joint.fill(holed.rows(slice(300, 500)), any_backend, 7, first_row=300)
    torch.testing.assert_close(whole.continuous[300:500], some.continuous, atol=1e-5, rtol=0)
    assert torch.equal(whole.codes[300:500], some.codes)
    seen = ~holed.continuous.isnan()
    assert torch.equal(whole.continuous[seen], holed.continuous[seen])


def test_only_the_chosen_columns_are_drawn() -> None:
    _, holed = _encoded(300)
    columns = torch.tensor([True, False, True, False])
    joint = JointDraws(columns, NormalDraws.fit(holed, ReferenceBackend(), 0))
    drawn = joint.fill(holed, ReferenceBackend(), 7)
    assert drawn.observed()[:, columns].all()
    assert torch.equal(drawn.observed()[:, ~columns], holed.observed()[:, ~columns])


def test_no_rows_have_no_draws() -> None:
    _, holed = _encoded(50)
    joint = NormalDraws.fit(holed, ReferenceBackend(), 0)
    assert len(joint.draw(holed.rows(slice(0, 0)), ReferenceBackend(), 0)) == 0


def test_residuals_and_places_have_no_features_and_columns_that_they_belong_to_no_draws() -> None:
    layout = Layout(4, (3, 2, 5), partners=(5,), parents=((0, 1),))
    table = EncodedTable(torch.zeros(7, 4), torch.zeros(7, 3, dtype=torch.int16), layout)
    assert narrow(table).layout == Layout(3, (3, 2))
    assert joint_draws.candidates(layout).tolist() == [False, False, True, False, True, False, False]


def test_a_network_draws_where_it_is_clearly_better() -> None:
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(400, 3, generator=generator, dtype=torch.float64)
    counted = torch.ones(400, 3, dtype=torch.bool)
    assert joint_draws._better(noise, counted).all()
    assert not joint_draws._better(noise - 0.5, counted).any()
    assert joint_draws._better(noise + torch.tensor([-1.0, 1.0, 1.0]), counted).tolist() == [False, True, True]


def test_energy_scores_are_those_of_the_definition() -> None:
    layout = Layout(1, (3,))
    drawn = torch.tensor([[[0.0, 1.0]], [[0.5, 1.0]], [[1.0, 2.0]]], dtype=torch.float64)
    found = joint_draws._energy(drawn, torch.tensor([[0.0, 1.0]], dtype=torch.float64), layout)
    torch.testing.assert_close(found, torch.tensor([[0.5 - 2.0 / 6, 1 / 3 - 2 / 6]], dtype=torch.float64))


def test_without_draws_and_of_many_rows_the_network_draws_alone() -> None:
    table = _frame()
    fits = {
        name: MissDiff(**SMALL, settings=settings).fit(table)
        for name, settings in {
            "joint": {},
            "off": {"blend.draws": False},
            "many": {"blend.rows_per_feature": 10},
        }.items()
    }
    pd.testing.assert_frame_equal(fits["joint"].sample(30), fits["off"].sample(30))
    pd.testing.assert_frame_equal(fits["joint"].impute(table), fits["off"].impute(table))
    alone = fits["off"].impute_draws(table, 2)
    for one, other in zip(alone, fits["many"].impute_draws(table, 2), strict=True):
        pd.testing.assert_frame_equal(one, other)
    with pytest.raises(AssertionError):
        pd.testing.assert_frame_equal(alone[0], fits["joint"].impute_draws(table, 1)[0])


@pytest.mark.parametrize("refits", [0, 2])
def test_saved_models_draw_the_same(tmp_path: Path, refits: int) -> None:
    table = _frame()
    model = MissDiff(**SMALL, refits=refits).fit(table)
    assert model._method._joint is not None
    model.save(tmp_path / "m")
    drawn = model.impute_draws(table, 3)
    for one, other in zip(drawn, MissDiff.load(tmp_path / "m").impute_draws(table, 3), strict=True):
        pd.testing.assert_frame_equal(one, other)
    seen = table.notna()
    assert all(draw.where(seen).equals(table) and draw.notna().all(axis=None) for draw in drawn)
    assert set(drawn[0]["x"]) <= set(table["x"].dropna())


def test_draws_are_on_or_off() -> None:
    with pytest.raises(ValueError, match=r"blend\.draws must be True or False"):
        BlendConfig(draws=1)  # type: ignore[arg-type]


def test_columns_that_nearly_determine_one_another_are_drawn_no_wider_than_they_are(any_backend: Backend) -> None:
    generator = torch.Generator().manual_seed(6)
    common = torch.randn(300, 1, generator=generator)
    x = common + 0.15 * torch.randn(300, 30, generator=generator)
    x = (x - x.mean(0)) / x.std(0)
    joint = NormalDraws.fit(EncodedTable(x, torch.zeros(300, 0, dtype=torch.int16), Layout(30)), any_backend, 0)
    holed = x.clone()
    holed[:, 0] = torch.nan
    table = EncodedTable(holed, torch.zeros(300, 0, dtype=torch.int16), Layout(30))
    draws = torch.stack([joint.draw(table, any_backend, seed).continuous[:, 0] for seed in range(20)])
    error = float((draws.mean(0) - x[:, 0]).square().mean().sqrt())
    assert 0.8 * error < float(draws.std(0).mean()) < 1.2 * error  # twice as wide without the scale


def _sums(rows: int) -> pd.DataFrame:
    """Two numbers, their sum, and a column that depends on it, with holes."""
    random = np.random.default_rng(5)
    a, b = random.integers(0, 50, rows), random.integers(0, 50, rows)
    table = pd.DataFrame({"a": a, "b": b, "s": a + b, "x": a + 10 * random.normal(size=rows)}).astype(float)
    return table.mask(random.random(table.shape) < 0.15)


def _counted_fits(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of rows of each fit from now on."""
    counted: list[int] = []
    fit = NormalDraws.fit.__func__  # type: ignore[attr-defined]

    def counting(cls: type[NormalDraws], table: EncodedTable, *others: Any) -> NormalDraws:
        counted.append(len(table))
        return fit(cls, table, *others)  # type: ignore[no-any-return]

    monkeypatch.setattr(NormalDraws, "fit", classmethod(counting))
    return counted


def test_columns_of_relations_without_a_residual_are_left_to_the_network() -> None:
    model = MissDiff(**SMALL).fit(_sums(150))
    assert model.relations_["kind"].tolist() == ["linear"]
    assert model._method._joint.columns.tolist() == [False, False, False, True]


def test_of_few_rows_a_distribution_is_fitted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = _counted_fits(monkeypatch)
    MissDiff(**SMALL).fit(_frame()[:150])
    assert counted == [150]


@pytest.mark.parametrize("rows", [150, 300])
def test_without_columns_to_draw_no_distribution_is_fitted(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = _counted_fits(monkeypatch)
    model = MissDiff(**SMALL).fit(_sums(rows)[["a", "b", "s"]])
    assert model._method._joint is None
    assert counted == []


def test_known_cells_of_drawn_columns_stay() -> None:
    table = _frame()
    model = MissDiff(**SMALL).fit(table)
    method = model._method
    rows = table[:200] + {"x": 0.01, "y": 0.01, "z": 0.01, "group": ""}  # values between those that fit saw
    known = model.codec_.encode(read_frame(rows))
    seen, drawn = rows.notna(), method.draw(known, 1, conditional=True)
    method._joint = None
    pd.testing.assert_frame_equal(drawn.where(seen), method.draw(known, 1, conditional=True).where(seen))


def _solved_rows(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows are solved for in each call from now on."""
    counted: list[int] = []
    solved = normal_draws.conditional

    def counting(precision: torch.Tensor, x: torch.Tensor, *others: Any, **options: Any) -> torch.Tensor:
        counted.append(len(x))
        return solved(precision, x, *others, **options)

    monkeypatch.setattr(normal_draws, "conditional", counting)
    return counted


@pytest.mark.parametrize("refits", [0, 3])
@pytest.mark.parametrize("rows", [150, 400])
def test_the_cost_of_fits_is_that_of_the_limit(refits: int, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    model = MissDiff(**{**SMALL, "steps": 20}, refits=refits)
    counted = _solved_rows(monkeypatch)
    method = model.fit(_frame()[:rows])._method
    assert method._joint is not None
    held_out = 20 if rows == 400 else 0
    expected = joint_draws.work(rows, Layout(3, (3,)), held_out=held_out, refits=refits) / 6**2
    # A fit begins with one more solve of all rows, and tiles of the held-out rows are padded.
    assert 0.9 * expected < sum(counted) < 1.15 * expected


def test_many_categories_are_left_to_the_network(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = _counted_fits(monkeypatch)
    random = np.random.default_rng(0)
    table = pd.DataFrame({f"c{i}": random.choice(list("abcdef"), 250) for i in range(40)})
    model = MissDiff(**{**SMALL, "steps": 5}).fit(table.mask(random.random(table.shape) < 0.2))
    assert model._method._joint is None
    assert counted == []


def test_refits_count_towards_the_limit() -> None:
    assert joint_draws.affordable(8000, Layout(130), held_out=400, refits=0)
    assert not joint_draws.affordable(8000, Layout(130), held_out=400, refits=20)


def test_only_rows_with_a_hole_in_the_drawn_columns_are_solved_for(monkeypatch: pytest.MonkeyPatch) -> None:
    complete, holed = _encoded(700)
    joint = JointDraws(torch.tensor([True, False, False, True]), NormalDraws.fit(holed, ReferenceBackend(), 0))
    continuous, codes = complete.continuous.clone(), complete.codes.clone()
    continuous[:, 1] = torch.nan
    counted = _solved_rows(monkeypatch)
    joint.fill(EncodedTable(continuous, codes, LAYOUT), ReferenceBackend(), 7)
    assert counted == []
    continuous[[5, 300], 0] = torch.nan
    joint.fill(EncodedTable(continuous, codes, LAYOUT), ReferenceBackend(), 7)
    assert counted == [16] * 3  # no category is missing: one sweep, of one small tile
    counted.clear()
    codes[600] = -1
    joint.fill(EncodedTable(continuous, codes, LAYOUT), ReferenceBackend(), 7)
    assert counted == [16] * (2 + normal_draws.SWEEPS) + [16] * 3


def test_a_row_is_drawn_the_same_whatever_is_missing_in_others(any_backend: Backend) -> None:
    complete, holed = _encoded(700)
    joint = JointDraws(torch.ones(4, dtype=torch.bool), NormalDraws.fit(holed, any_backend, 0))
    whole = joint.fill(holed, any_backend, 7)
    for row in (5, 300, 699):
        one = joint.fill(holed.rows(slice(row, row + 1)), any_backend, 7, first_row=row)
        torch.testing.assert_close(whole.continuous[row], one.continuous[0], atol=1e-5, rtol=0)
        assert torch.equal(whole.codes[row], one.codes[0])
    half = torch.arange(700)[:, None] < 350
    mixed = EncodedTable(
        torch.where(half, holed.continuous, complete.continuous), torch.where(half, holed.codes, complete.codes), LAYOUT
    )
    some = joint.fill(mixed, any_backend, 7)
    torch.testing.assert_close(whole.continuous[:350], some.continuous[:350], atol=1e-5, rtol=0)
    assert torch.equal(whole.codes[:350], some.codes[:350])


def test_a_budget_that_does_not_hold_the_fit_leaves_draws_to_the_network(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = _counted_fits(monkeypatch)
    monkeypatch.setattr(column_states, "estimated_seconds", lambda *_: 100.0)
    model = MissDiff(budget=1, width=16, blocks=1, random_state=0).fit(_frame())
    assert model._method._joint is None
    assert counted == []
    assert ["blend.draws", 0, "a budget of 1 s"] in model.training_.to_numpy().tolist()


@pytest.mark.alone
def test_the_estimate_is_near_the_time_of_a_fit() -> None:
    table = EncodedTable(torch.randn(1000, 60), torch.zeros(1000, 0, dtype=torch.int16), Layout(60))
    work = joint_draws.work(1000, table.layout, held_out=0, refits=0)
    estimate = joint_draws.estimated_seconds(work, table, ReferenceBackend())
    started = time.perf_counter()
    NormalDraws.fit(table, ReferenceBackend(), 0)
    assert 0.2 < estimate / (time.perf_counter() - started) < 10


@pytest.mark.alone
def test_spare_seconds_are_those_of_no_other_network() -> None:
    complete = EncodedTable(torch.randn(100, 2), torch.zeros(100, 0, dtype=torch.int16), Layout(2))
    holes = complete.without(torch.rand(100, 2) < 0.2)
    history = History(step=[100], seconds=[2.0])
    history.started -= 10
    history.choose("training.steps", 100, "")
    config = Config(training=TrainingConfig(budget=20.0), refits=RefitsConfig(number=2, step_share=0.5))
    assert length.spare_seconds(config, complete, history) == pytest.approx(20 * 0.925 - 10 - 2, abs=0.1)
    assert length.spare_seconds(config, holes, history) == pytest.approx(20 * 0.925 - 10 - 2.25, abs=0.1)
    assert length.spare_seconds(Config(), holes, history) == math.inf
