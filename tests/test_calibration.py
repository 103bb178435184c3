"""Categories of drawn rows: drawn from their probabilities, and as frequent as in the table."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import missdiff_fast._engine.calibration as calibration_module
import missdiff_fast._engine.quantiles as quantiles_module
import missdiff_fast._engine.shares as shares_module
from missdiff_fast import MissDiff
from missdiff_fast._engine.backend import Backend, NativeBackend
from missdiff_fast._engine.calibration import Calibration, calibrate
from missdiff_fast._engine.folds import hide_some
from missdiff_fast._engine.imputation import one_pass
from missdiff_fast._engine.quantiles import ScoreCells, quantiles, unremarkable
from missdiff_fast._engine.random import make_key
from missdiff_fast._engine.sampling import draw_categories, fill
from missdiff_fast._engine.shares import mean_chances, missing_shares, shares, shares_of
from missdiff_fast._engine.tiling import unknown
from missdiff_fast.config import CalibrationConfig, Config
from missdiff_fast.networks import Denoiser
from missdiff_fast.table import read_frame
from missdiff_fast.table.encoded import EncodedTable, Layout

LAYOUT = Layout(1, (3, 2))
SHARES = torch.tensor([0.7, 0.25, 0.05, 0.9, 0.1])


def _table(rows: int = 4000) -> EncodedTable:
    generator = torch.Generator().manual_seed(0)
    draws = [torch.multinomial(SHARES[:3], rows, True, generator=generator)]
    draws.append(torch.multinomial(SHARES[3:], rows, True, generator=generator))
    scores = torch.randn(rows, 1, generator=generator)
    return EncodedTable(scores, torch.stack(draws, 1).to(torch.int16), LAYOUT, scores)


def _hidden(table: EncodedTable, share: float, backend: Backend, seed: int) -> EncodedTable:
    return hide_some(table, share, make_key(seed, 0), backend)


def _shares(table: EncodedTable) -> torch.Tensor:
    counts = [torch.bincount(table.codes[:, k].long(), minlength=size) for k, size in enumerate(LAYOUT.cardinalities)]
    return torch.cat(counts) / len(table)


def test_categories_are_drawn_by_their_probabilities() -> None:
    x = torch.cat([torch.zeros(20_000, 1), SHARES.expand(20_000, 5)], 1)
    draw_categories(x, LAYOUT, torch.rand(20_000, 2, generator=torch.Generator().manual_seed(0)))
    assert ((x == 0) | (x == 1)).all()
    assert x[:, 1:4].sum(1).eq(1).all()
    assert x[:, 4:].sum(1).eq(1).all()
    torch.testing.assert_close(x[:, 1:].mean(0), SHARES, atol=0.012, rtol=0)  # 3.5 standard errors


@pytest.mark.parametrize("uniform", [0.0, 0.5, 1 - 2**-24])
def test_a_known_category_stays(uniform: float) -> None:
    codes = torch.arange(3)
    x = torch.cat([torch.zeros(3, 1), torch.eye(3)[codes], torch.eye(2)[codes % 2]], 1)
    before = x.clone()
    draw_categories(x, LAYOUT, torch.full((3, 2), uniform))
    assert torch.equal(x, before)


def test_weights_correct_the_shares(any_backend: Backend) -> None:
    # A new network gives all categories of a column the same probability.
    torch.manual_seed(0)
    network, table = Denoiser(LAYOUT, width=16, blocks=1).eval(), _table()
    calibration = calibrate(network, network, table, None, Config(), any_backend, 0)
    nothing = unknown(20_000, LAYOUT, torch.device("cpu"))
    drawn = [fill(n, nothing, Config().solver, any_backend, 1) for n in (network, calibration.network(network))]
    before, after = ((_shares(rows) - SHARES).abs().max() for rows in drawn)
    assert before > 0.3
    assert after < 0.03


def _knowing(network: Any, table: EncodedTable, backend: Backend) -> Any:
    """As `one_pass`, of a network that says .4 of the second column's last category, where the first is 0 .2."""
    chance = torch.where(table.codes[:, :1] == 0, 0.2, 0.4)
    yield 0, len(table), torch.cat([torch.zeros(len(table), 3), (1 - chance).log(), chance.log()], 1), table.continuous


def test_missing_cells_count_by_their_probabilities_given_the_observed_ones(
    any_backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Cells of the second column are observed where the first is 0 only: their own shares are not those of all rows.
    monkeypatch.setattr(shares_module, "one_pass", _knowing)
    torch.manual_seed(0)
    network, table = Denoiser(LAYOUT, width=16, blocks=1).eval(), _table()
    table.codes[table.codes[:, 0] > 0, 1] = -1
    calibration = calibrate(network, network, table, None, Config(), any_backend, 0)
    drawn = fill(
        calibration.network(network), unknown(20_000, LAYOUT, torch.device("cpu")), Config().solver, any_backend, 1
    )
    # 70 % of the rows have the observed share, .1. There .2 is predicted, elsewhere .4: odds of .4 : .6 become
    # .4 * .1 / .2 : .6 * .9 / .8, those of .229.
    assert float(_shares(drawn)[4]) == pytest.approx(0.7 * 0.1 + 0.3 * 0.229, abs=0.02)


def test_what_is_predicted_right_stays(any_backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shares_module, "one_pass", _knowing)
    table = _table(20_000)
    chance = torch.where(table.codes[:, 0] == 0, 0.2, 0.4)
    table.codes[:, 1] = torch.rand(20_000, generator=torch.Generator().manual_seed(1)) < chance
    table.codes[(torch.arange(20_000) % 10 > 0) & (table.codes[:, 0] > 0), 1] = -1
    network = Denoiser(LAYOUT, width=16, blocks=1)
    found = missing_shares(network, table, any_backend, 0)
    assert found.tolist() == pytest.approx([0, 0, 0, 0.6, 0.4], abs=0.03)
    assert mean_chances(network, table, any_backend, 0).tolist() == pytest.approx([0, 0, 0, 0.6, 0.4])


@pytest.mark.parametrize("cells", [0, 3])
def test_few_observed_cells_correct_nothing(any_backend: Backend, cells: int) -> None:
    table = _table()
    table.codes[cells:, 1], table.codes[:cells, 1] = -1, 1
    found = missing_shares(Denoiser(LAYOUT, width=16, blocks=1).eval(), table, any_backend, 0)
    assert found.tolist() == pytest.approx([0, 0, 0, 0.5, 0.5])  # a new network's probabilities


def test_missing_cells_that_are_not_predicted_have_no_share(
    any_backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shares_module, "_PREDICTED", 4)
    table = _table()
    table.codes[:3000, 1] = -1
    table.codes[0, 0] = -1  # one row, which is not among the four
    found = missing_shares(Denoiser(LAYOUT, width=16, blocks=1).eval(), table, any_backend, 0)
    assert found[:3].tolist() == [0, 0, 0]
    assert float(found[3:].sum()) == pytest.approx(1)


def test_the_number_is_hidden_with_its_atoms(any_backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    layout = Layout(1, (2, 3), partners=(0,))
    table = EncodedTable(torch.randn(200, 1), torch.randint(0, 2, (200, 2)).to(torch.int16), layout)
    table = table.without(torch.tensor([True, False, True]).repeat(200, 1) & (torch.arange(200) < 50)[:, None])
    seen = []
    monkeypatch.setattr(shares_module, "one_pass", lambda *a: seen.append(a[1].observed()) or one_pass(*a))
    missing_shares(Denoiser(layout, width=16, blocks=1).eval(), table, any_backend, 0)
    assert [rows.float().mean(0).tolist() for rows in seen] == [[0, 1, 0], [0, 1, 0]]
    assert [len(rows) for rows in seen] == [50, 150]


def test_no_rounds_are_no_weights(any_backend: Backend) -> None:
    config = replace(Config(), calibration=CalibrationConfig(rounds=0))
    network = Denoiser(LAYOUT, width=16, blocks=1)
    calibration = calibrate(network, network, _table(300), None, config, any_backend, 0)
    assert calibration.network(network) is network
    scores = torch.randn(5, 1)
    assert calibration.scores(scores) is scores


@pytest.mark.parametrize("rows", [99, 4000])
def test_scores_get_the_quantiles_of_the_table(any_backend: Backend, rows: int) -> None:
    # A new network draws narrower scores than normal ones around 0; those of this table are around 1.
    torch.manual_seed(0)
    network, table = Denoiser(LAYOUT, width=16, blocks=1).eval(), _table(rows)
    table = replace(table, continuous=table.continuous + 1)
    calibration = calibrate(network, network, table, None, Config(), any_backend, 0)
    drawn = fill(network, unknown(20_000, LAYOUT, torch.device("cpu")), Config().solver, any_backend, 1).continuous
    at = torch.tensor([0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 0.98])
    wanted, before = table.continuous[:, 0].quantile(at), drawn[:, 0].quantile(at)
    after = calibration.scores(drawn)[:, 0].quantile(at)
    assert (before - wanted).abs().max() > 0.5
    if rows == 99:  # too few to tell their quantiles
        assert torch.equal(after, before)
    else:
        torch.testing.assert_close(after, wanted, atol=0.08, rtol=0)


def test_corrected_scores_keep_their_order() -> None:
    drawn, wanted = torch.tensor([[-1.0, 0.0, 0.0, 2.0]]), torch.tensor([[-2.0, -1.0, 1.0, 1.5]])
    calibration = replace(Calibration.none(Layout(1)), drawn=drawn, wanted=wanted)
    scores = torch.tensor([-3.0, -1.0, -0.5, -0.0001, 0.0001, 1.0, 2.0, 5.0])[:, None]
    expected = torch.tensor([-4.0, -2.0, -1.5, -1.0001, 1.0, 1.25, 1.5, 4.5])
    torch.testing.assert_close(calibration.scores(scores)[:, 0], expected, atol=1e-3, rtol=0)


def test_scores_of_atoms_and_of_rows_with_known_cells_stay() -> None:
    random = np.random.default_rng(0)
    table = pd.DataFrame({"paid": np.where(random.random(600) < 0.5, 0.0, random.exponential(1, 600)),
                          "age": random.normal(60, 15, 600)})  # fmt: skip
    model = MissDiff(steps=5, width=16, random_state=0).fit(table)
    calibration, atoms = model._method._calibration, model._method.atoms
    assert not (calibration.drawn == calibration.wanted).all(1).any()
    assert (model.sample(50, given={"age": table["age"][0]})["age"] == table["age"][0]).all()
    shown = atoms.add(model._method.codec.encode(read_frame(table.head(2)), seed=0))
    x = torch.full((2, atoms.layout.width), 0.3)
    assert torch.equal(calibration.rows(x, shown), x)
    x[:, 2:] = torch.eye(2)  # the first row's payment is the atom 0, the second's another value
    moved = calibration.rows(x, unknown(2, atoms.layout, torch.device("cpu"))) != x
    assert moved.tolist() == [[False, True, False, False], [True, True, False, False]]


def test_other_values_than_atoms_get_their_quantiles(any_backend: Backend) -> None:
    # A new network draws narrower scores than normal ones around 0, and both categories as often.
    torch.manual_seed(0)
    layout = Layout(1, (2,), (0,))
    scores = torch.randn(4000, 1, generator=torch.Generator().manual_seed(0)) + 1
    atoms = torch.arange(4000) % 4 == 0
    scores[atoms] = -5.0
    table = EncodedTable(scores, (~atoms)[:, None].to(torch.int16), layout, scores)
    network = Denoiser(layout, width=16, blocks=1).eval()
    calibration = calibrate(network, network, table, None, Config(), any_backend, 0)
    nothing = unknown(20_000, layout, torch.device("cpu"))
    drawn = fill(calibration.network(network), nothing, Config().solver, any_backend, 1)
    x = torch.cat([drawn.continuous, drawn.one_hot(torch.float32)], 1)
    other = drawn.codes[:, 0] == 1
    assert float(other.float().mean()) == pytest.approx(0.75, abs=0.02)
    at = torch.tensor([0.1, 0.3, 0.5, 0.7, 0.9])
    found = calibration.rows(x, nothing)[other, 0].quantile(at)
    torch.testing.assert_close(found, scores[~atoms, 0].quantile(at), atol=0.08, rtol=0)


@pytest.mark.parametrize(("shift", "moved"), [(0.0, True), (1.0, False)])
def test_scores_that_few_rows_observe_are_followed_unless_they_differ(
    any_backend: Backend, shift: float, moved: bool
) -> None:
    # A new network draws scores around 0. Of 150 cells around 1 it may know that others are less.
    layout = Layout(2, (2,))
    scores = torch.randn(1000, 2, generator=torch.Generator().manual_seed(0))
    scores[:, 0] += 1
    scores[:, 1] += shift
    scores[150:, 1] = torch.nan
    table = EncodedTable(scores, torch.zeros(1000, 1, dtype=torch.int16), layout, scores)
    torch.manual_seed(0)
    network = Denoiser(layout, width=16, blocks=1).eval()
    calibration = calibrate(network, network, table, None, Config(), any_backend, 0)
    assert not torch.equal(calibration.drawn[0], calibration.wanted[0])
    assert torch.equal(calibration.drawn[1], calibration.wanted[1]) != moved
    if moved:
        own = scores[:150, 1]
        at = torch.tensor([1 / 6, 1 / 2, 5 / 6])  # of three quantiles
        torch.testing.assert_close(calibration.wanted[1].unique(), own.quantile(at), atol=0.1, rtol=0)


def test_a_column_is_compared_by_its_values_that_are_no_atoms() -> None:
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(600, 3, generator=generator)
    table = EncodedTable(scores, torch.ones(600, 1, dtype=torch.int16), Layout(3, (2,), (2,)), scores)
    table.codes[:300] = 0
    table.continuous[:300, 2] = -5.0  # atoms
    table.continuous[:, 1] = torch.nan
    drawn = torch.randn(5000, 3, generator=generator)
    other = EncodedTable(drawn, torch.ones(5000, 1, dtype=torch.int16), table.layout, drawn)
    assert unremarkable(table, other, [0, 1, 2]) == [0, 2]
    other.continuous[:, 0] += 0.2
    assert unremarkable(table, other, [0, 1, 2]) == [2]


def test_differences_by_chance_are_unremarkable() -> None:
    generator = torch.Generator().manual_seed(0)
    layout, found = Layout(400), 0
    for _ in range(5):
        one, other = (torch.randn(rows, 400, generator=generator) for rows in (200, 3000))
        tables = [EncodedTable(x, torch.zeros(len(x), 0, dtype=torch.int16), layout, x) for x in (one, other)]
        found += len(unremarkable(*tables, range(400)))
    assert 1965 <= found <= 1993  # of 2,000, 1 % not; the distance of few cells is a little less than its limit


def test_numbers_alone_are_calibrated(monkeypatch: pytest.MonkeyPatch) -> None:
    table = pd.DataFrame(np.random.default_rng(0).normal(size=(800, 2)), columns=["x", "y"])
    calls: list[int] = []
    monkeypatch.setattr(calibration_module, "fill", lambda *a: calls.append(len(a[1])) or fill(*a))
    model = MissDiff(steps=5, width=16, random_state=0).fit(table)
    assert calls == [3200]  # one round: there are no categories to weight
    off = [abs(model.sample(2000)[name].median() - table[name].median()) for name in table]
    assert max(off) < 0.1


def test_a_model_draws_what_it_drew_before_it_was_saved(tmp_path: object) -> None:
    path = f"{tmp_path}/model"
    random = np.random.default_rng(0)
    table = pd.DataFrame(
        {"x": random.normal(size=600).round(1), "y": random.choice(list("abc"), 600, p=[0.8, 0.15, 0.05])}
    )
    model = MissDiff(steps=30, random_state=0).fit(table)
    assert model._method.weights()["log_weights"].any()
    assert model._method.weights()["conditional_log_weights"].any()
    model.save(path)
    loaded = MissDiff.load(path)
    pd.testing.assert_frame_equal(model.sample(500), loaded.sample(500))
    holes = table.assign(y=None).head(50)
    pd.testing.assert_frame_equal(*(m.impute_draws(holes, 1, random_state=1)[0] for m in (model, loaded)))
    pd.testing.assert_frame_equal(model.sample(500)[300:].reset_index(drop=True), loaded.sample(200, first_row=300))


def test_a_short_fit_has_the_shares_of_the_table() -> None:
    shares = [0.7, 0.25, 0.05]
    table = pd.DataFrame({"y": np.random.default_rng(0).choice(list("abc"), 4000, p=shares), "x": np.arange(4000.0)})
    settings = {"calibration.rounds": 0}
    plain, calibrated = (MissDiff(steps=20, settings=s, random_state=0).fit(table) for s in (settings, None))
    real = table["y"].value_counts(normalize=True)
    off = [(m.sample(8000)["y"].value_counts(normalize=True).reindex(real.index, fill_value=0) - real).abs().max()
           for m in (plain, calibrated)]  # fmt: skip
    assert off[1] < 0.03 < off[0]


def test_the_last_round_draws_as_many_rows_as_set(any_backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[int] = []

    def counted(*arguments: Any) -> EncodedTable:
        if not arguments[1].observed().any():
            drawn.append(len(arguments[1]))
        return fill(*arguments)

    monkeypatch.setattr(calibration_module, "fill", counted)
    network, config = (
        Denoiser(LAYOUT, width=16, blocks=1).eval(),
        replace(Config(), calibration=CalibrationConfig(rows=4096)),
    )
    calibrate(network, network, _table(), None, config, any_backend, 0)
    assert drawn == [1024, 1024, 4096]


def test_shares_are_of_all_observed_cells_and_of_predicted_ones(any_backend: Backend) -> None:
    table = _table()
    # Three in four cells of the second column are missing, and the others have its second category.
    table.codes[:3000, 1], table.codes[3000:, 1] = -1, 1
    predicted = mean_chances(Denoiser(LAYOUT, width=16, blocks=1).eval(), table, any_backend, 0)
    assert predicted.tolist() == pytest.approx([0, 0, 0, 0.5, 0.5])  # a new network's probabilities
    found = shares(table, predicted)
    assert found[3:].tolist() == pytest.approx([0.75 * 0.5, 0.25 + 0.75 * 0.5])
    assert found[:3].tolist() == pytest.approx(_shares(_table())[:3].tolist(), abs=1e-6)


def test_drawn_numbers_stand_for_all_missing_ones(any_backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quantiles_module, "_FILLED", 3000)
    table = _table()
    table.continuous[:2000] = torch.nan
    network = Denoiser(LAYOUT, width=16, blocks=1).eval()
    cells = ScoreCells.of(table, network, [0], Config().solver, any_backend, 0)
    assert cells.filled is not None
    assert len(cells.filled) == 1500
    scores, weights = cells.scores(0)
    assert torch.equal(scores[:2000], table.continuous[2000:, 0])
    assert weights[:2000].eq(1).all()
    assert float(weights[2000:].sum()) == pytest.approx(2000)


def test_categories_drawn_around_known_cells_are_as_frequent_as_predicted(any_backend: Backend) -> None:
    # The imputer knows the shares, the network that draws gives all categories of a column the same probability.
    torch.manual_seed(0)
    network, imputer = (Denoiser(LAYOUT, width=16, blocks=1).eval() for _ in range(2))
    table = _table()
    with torch.no_grad():
        imputer.outputs.bias[1:6] = SHARES.log()
    calibration = calibrate(network, imputer, table, None, Config(), any_backend, 0)
    holes = _hidden(table, 0.5, any_backend, 3)
    missing = holes.codes < 0
    for found, near in ((network, False), (calibration.network(network, conditional=True), True)):
        drawn = fill(found, holes, Config().solver, any_backend, 1)
        assert ((shares_of(drawn, missing) - SHARES).abs().max() < 0.04) == near


@pytest.mark.parametrize("rows", [60, 200, 4000])
def test_a_network_that_draws_as_it_predicts_needs_few_weights(rows: int) -> None:
    torch.manual_seed(0)
    network = Denoiser(LAYOUT, width=16, blocks=1).eval()
    weights = calibrate(network, network, _table(rows), None, Config(), NativeBackend(), 0).conditional
    assert (weights[3] - weights[4]).abs() < 0.15


@pytest.mark.parametrize("given", [None, {"y": "a"}])
def test_samples_have_the_weights_of_samples_and_imputations_their_own(given: dict[str, str] | None) -> None:
    table = pd.DataFrame({"y": list("aab") * 200, "z": list("uvvv") * 150})
    model = MissDiff(steps=5, width=16, random_state=0).fit(table)
    holes = table.assign(z=None).head(100)
    found = model.sample(200, given=given), model.impute_draws(holes, 1, random_state=1)[0]
    method = model._method
    weights, wide = method._calibration, torch.tensor([0.0, 0.0, 30.0, 0.0])  # of a, b, u and v
    for field, changed in (("log_weights", 0), ("conditional", 1)):
        method._calibration = replace(weights, **{field: wide})
        drawn = model.sample(200, given=given), model.impute_draws(holes, 1, random_state=1)[0]
        assert (drawn[changed]["z"] == "u").all()
        pd.testing.assert_frame_equal(drawn[1 - changed], found[1 - changed])


def test_rows_of_which_nothing_is_known_are_drawn_as_samples_are() -> None:
    table = pd.DataFrame({"y": list("aab") * 200, "z": list("uvvv") * 150, "x": np.arange(600.0)})
    model = MissDiff(steps=5, width=16, random_state=0, settings={"blend.draws": False}).fit(table)
    holes = table.astype({"x": object}).assign(z=None).head(80)
    alone = model.impute_draws(holes, 1, random_state=1)[0]
    holes.loc[::2] = None
    mixed = model.impute_draws(holes.convert_dtypes(), 1, random_state=1)[0]
    pd.testing.assert_frame_equal(mixed[1::2].astype(object), alone[1::2].astype(object))
    method = model._method
    method._calibration = replace(method._calibration, log_weights=torch.tensor([0.0, 0.0, 30.0, 0.0]))
    changed = model.impute_draws(holes.convert_dtypes(), 1, random_state=1)[0]
    assert (changed["z"][::2] == "u").all()
    pd.testing.assert_frame_equal(changed[1::2], mixed[1::2])


def test_networks_that_draw_no_row_are_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    table = pd.DataFrame({"y": list("aab") * 200, "z": list("uvvv") * 150})
    model = MissDiff(steps=5, width=16, random_state=0, settings={"blend.draws": False}).fit(table)
    copies: list[object] = []
    weighted = calibration_module._weighted
    monkeypatch.setattr(calibration_module, "_weighted", lambda *a: copies.append(a) or weighted(*a))
    model.sample(5)
    model.impute_draws(table.assign(z=None).head(5), 1)
    assert len(copies) == 2


def test_refits_have_no_weights() -> None:
    table = pd.DataFrame({"y": list("aab") * 200, "z": list("uvvv") * 150})
    model = MissDiff(steps=5, width=16, refits=1, random_state=0, settings={"blend.draws": False}).fit(table)
    holes = table.assign(z=None).head(100)
    found = model.impute_draws(holes, 1, random_state=1)[0]
    method = model._method
    method._calibration = replace(method._calibration, conditional=torch.tensor([0.0, 0.0, 30.0, 0.0]))
    pd.testing.assert_frame_equal(model.impute_draws(holes, 1, random_state=1)[0], found)


def test_columns_that_belong_together_are_hidden_together(any_backend: Backend) -> None:
    layout = Layout(1, (3, 2), (0,))
    hidden = _hidden(replace(_table(), layout=layout), 0.3, any_backend, 0)
    assert torch.equal(hidden.continuous[:, 0].isnan(), hidden.codes[:, 1] < 0)
    assert float((hidden.codes[:, 0] < 0).float().mean()) == pytest.approx(0.3, abs=0.03)


def test_a_residual_is_hidden_with_its_parents(any_backend: Backend) -> None:
    layout, scores = Layout(3, (2,), (), ((0, 1),)), torch.zeros(2000, 3)
    table = EncodedTable(scores, torch.zeros(2000, 1, dtype=torch.int16), layout, scores)
    hidden = _hidden(table, 0.3, any_backend, 0).continuous.isnan()
    parents = hidden[:, :2].any(1)
    assert hidden[parents, 2].all()
    assert not hidden[~parents, 2].all()


def test_of_many_rows_some_are_predicted(any_backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    table, seen = _table(), []
    table.codes[:, 1] = -1
    monkeypatch.setattr(shares_module, "_PREDICTED", 500)
    monkeypatch.setattr(shares_module, "one_pass", lambda *a: seen.append(len(a[1])) or one_pass(*a))
    found = mean_chances(Denoiser(LAYOUT, width=16, blocks=1).eval(), table, any_backend, 0)
    assert seen == [500]
    assert found.tolist() == pytest.approx([0, 0, 0, 0.5, 0.5])


def test_few_cells_have_few_quantiles() -> None:
    table = _table(4000)
    table.continuous[120:] = torch.nan
    wanted = quantiles(_table(4000), ScoreCells(table), [0])[1]
    assert wanted.shape == (1, 64)
    assert len(wanted[0].unique()) == 2
