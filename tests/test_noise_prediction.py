"""The paper's preset, from end to end."""

from __future__ import annotations

import copy
import pickle
import re
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from frames import encode

from missdiff_fast import MissDiff
from missdiff_fast._engine.history import Progress
from missdiff_fast._engine.random import make_key
from missdiff_fast._parameters import configure
from missdiff_fast.baselines import DiffDelete, DiffMean
from missdiff_fast.diffusion.states import NOISY
from missdiff_fast.methods import NoisePrediction, noise_model, noise_training
from missdiff_fast.methods.noise_model import NoiseModel

SMALL: dict[str, Any] = {"steps": 20, "width": 8, "blocks": 1, "random_state": 0, "verbose": False}


def _table(rows: int = 300) -> pd.DataFrame:
    random = np.random.default_rng(0)
    x = random.normal(size=rows)
    frame = pd.DataFrame(
        {
            "x": x,
            "whole": np.round(10 * x + random.normal(size=rows)).astype(int),
            "name": np.where(x > 0, "up", "down"),
            "constant": 7,
        }
    )
    holes = frame.astype({"whole": "Int64"})
    for column in ("x", "whole", "name"):
        holes[column] = holes[column].mask(random.random(rows) < 0.2)
    return holes


def _fit(**changes: Any) -> MissDiff:
    settings = {"diffusion.steps": 20, "draws": 3, **changes.pop("settings", {})}
    return MissDiff(preset="paper", **{**SMALL, **changes}, settings=settings).fit(_table())


@pytest.fixture(scope="module")
def model() -> MissDiff:
    return _fit()


@pytest.mark.parametrize(
    "settings",
    [{}, {"missing": "zero"}, {"diffusion.sde": "ve"}, {"diffusion.sde": "ve", "diffusion.variance": "posterior"}],
    ids=str,
)
def test_every_form_fits_draws_and_imputes(settings: dict[str, Any]) -> None:
    model, table = _fit(settings=settings), _table()
    drawn, filled = model.sample(50), model.impute(table)
    for result in (drawn, filled, *model.impute_draws(table, 2)):
        assert not result.isna().any().any()
        assert (result.dtypes == table.dtypes).all()
        assert set(result["name"]) <= {"up", "down"}
        assert result["x"].between(table["x"].min(), table["x"].max()).all()
        assert (result["constant"] == 7).all()
    pd.testing.assert_frame_equal(filled.where(table.notna()), table.where(table.notna()))


def test_the_same_seed_gives_the_same_bits(model: MissDiff) -> None:
    torch.manual_seed(123)  # the caller's own generator has no say, and is left as it was
    before = torch.random.get_rng_state()
    again = _fit()
    assert torch.equal(torch.random.get_rng_state(), before)
    pd.testing.assert_frame_equal(again.sample(30), model.sample(30))
    pd.testing.assert_frame_equal(again.impute(_table()), model.impute(_table()))
    assert again.history_["loss"].equals(model.history_["loss"])


def test_the_compiled_ops_and_the_reference_agree(native: object, model: MissDiff) -> None:
    reference = _fit(backend="reference")
    np.testing.assert_allclose(reference.history_["loss"], model.history_["loss"], rtol=1e-4)
    np.testing.assert_allclose(reference.score_samples(_table()), model.score_samples(_table()), rtol=1e-3)


def test_a_longer_sample_begins_with_the_shorter(model: MissDiff, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(noise_model.TOKENS, "cpu", 1)  # tiles of 64 rows
    pd.testing.assert_frame_equal(model.sample(140).head(70), model.sample(70))


def test_a_sample_goes_on_from_any_row(model: MissDiff, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(noise_model.TOKENS, "cpu", 1)  # tiles of 64 rows
    for given in (None, {"name": "up"}):
        parts = [model.sample(rows, given=given, first_row=first) for rows, first in ((4, 0), (70, 4), (66, 74))]
        pd.testing.assert_frame_equal(pd.concat(parts, ignore_index=True), model.sample(140, given=given))


def test_given_values_are_kept(model: MissDiff) -> None:
    drawn = model.sample(20, given={"name": "up", "whole": 3})
    assert (drawn["name"] == "up").all()
    assert (drawn["whole"] == 3).all()


def test_probabilities_are_shares_of_draws(model: MissDiff) -> None:
    chance = model.predict_proba(_table().head(10), "name")
    assert list(chance.columns) == ["down", "up"]
    np.testing.assert_allclose(chance.sum(1), 1.0, rtol=1e-6)
    assert np.isin((chance * 3).round(5), [0, 1, 2, 3]).all()


def test_the_factor_comes_from_the_column_that_is_missing_most(model: MissDiff) -> None:
    method = model._method
    assert isinstance(method, NoisePrediction)
    table = _table()[["x", "whole", "name"]]
    rates = table[table.notna().any(axis=1)].isna().mean()  # a row without any observed cell is left out
    assert float(method._worst_missing) == pytest.approx(rates.max())


def test_score_samples(model: MissDiff) -> None:
    table = _table()
    scores = model.score_samples(table)
    assert scores.index.equals(table.index)
    assert np.isfinite(scores).all()
    pd.testing.assert_series_equal(scores, model.score_samples(table))
    many = model.score_samples(table, num_draws=3)
    assert np.corrcoef(many, scores)[0, 1] > 0.5
    assert not many.equals(scores)
    nothing = table.head(1).assign(x=np.nan, whole=pd.NA, name=None).astype(table.dtypes)
    assert model.score_samples(nothing).tolist() == [0.0]


def test_saved_copied_and_pickled(model: MissDiff, tmp_path: Path) -> None:
    model.save(tmp_path / "m")
    expected, scores = model.sample(10), model.score_samples(_table())
    for other in (MissDiff.load(tmp_path / "m"), copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        pd.testing.assert_frame_equal(other.sample(10), expected)
        pd.testing.assert_series_equal(other.score_samples(_table()), scores)
        assert other.get_params() == model.get_params()


def test_settings_of_any_mapping_are_saved_and_can_be_fitted_again(tmp_path: Path) -> None:
    settings = {"training.milestones": (0.5,), "draws": np.int32(2), "network.dropout": np.float32(0)}
    model = MissDiff(preset="paper", **SMALL, settings=MappingProxyType(settings)).fit(_table())
    model.save(tmp_path / "m")
    other = MissDiff.load(tmp_path / "m")
    assert other.config_ == model.config_
    pd.testing.assert_frame_equal(other.fit(_table()).sample(10), model.sample(10))


def test_numbers_far_from_all_that_were_seen_are_refused(model: MissDiff) -> None:
    far = _table().assign(x=_table()["x"].where(_table().index != 290, -1e30))
    message = (
        r"column 'x' has a number in row 290 \(counted from 0\) that is about .*e\+29 times the range that fit saw"
    )
    for use in (
        model.impute,
        model.score_samples,
        model.impute_draws,
        lambda table: model.predict_proba(table, "name"),
    ):
        with pytest.raises(ValueError, match=message):
            use(far)  # type: ignore[operator]
    with pytest.raises(ValueError, match="column 'whole' has a number in row 0"):
        model.sample(3, given={"whole": 10**15})
    assert model.sample(1, given={"x": 1e6})["x"].item() == 1e6


def interrupt(monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    """Interrupt every training of the paper's model after a number of steps, as Ctrl-C does."""
    steps = iter(range(step))

    def add(self: Progress, loss: torch.Tensor, count: int = 1) -> None:
        if next(steps, None) is None:
            raise KeyboardInterrupt

    monkeypatch.setattr(Progress, "add", add)


@pytest.mark.parametrize("kind", [MissDiff, DiffDelete, DiffMean])
def test_an_interrupted_fit_keeps_what_was_learnt(kind: type, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupt(monkeypatch, 5)
    model = kind(preset="paper", **{**SMALL, "steps": 1000}, settings={"diffusion.steps": 20})
    with pytest.raises(KeyboardInterrupt):
        model.fit(_table())
    assert model.sample(5).shape == (5, 4)


def test_the_loss_is_over_observed_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[torch.Tensor, torch.Tensor]] = []
    kind = type(_fit(steps=1)._method.backend)
    loss = kind.masked_noise_loss

    def spy(prediction: Any, cells: Any, rows: torch.Tensor, states: torch.Tensor, key: Any) -> torch.Tensor:
        seen.append((rows, states))
        return loss(prediction, cells, rows, states, key)

    monkeypatch.setattr(kind, "masked_noise_loss", staticmethod(spy))
    model = _fit(steps=3)
    table = _table()
    told = table[["x", "whole", "name"]].notna().any(axis=1)  # rows of holes and a constant teach nothing
    observed = encode(model.codec_, table[told]).observed()
    assert len(seen) == 3
    for rows, states in seen:
        assert torch.equal(states == NOISY, observed[rows])
        assert not bool(observed[rows].all())


@pytest.mark.parametrize("settings", [{}, {"diffusion.sde": "ve"}, {"missing": "zero"}], ids=str)
def test_replayed_steps_train_the_same(
    native: object, monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any]
) -> None:
    plain = _fit(steps=60, settings=settings, device="cpu")
    monkeypatch.setattr(NoisePrediction, "_replays", True)
    other = _fit(steps=60, settings=settings, device="cpu")
    assert other.history_["step"].tolist() == plain.history_["step"].tolist() == [50, 60]
    np.testing.assert_allclose(other.history_["loss"], plain.history_["loss"], rtol=1e-4)
    for (name, mine), theirs in zip(other._method.weights().items(), plain._method.weights().values(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-4, msg=name)
    assert all(weight.grad is None for weight in other._method._model.network.parameters())  # type: ignore[attr-defined]


def test_replayed_steps_are_loaded_in_parts(native: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NoisePrediction, "_replays", True)
    whole = _fit(steps=60, device="cpu")
    monkeypatch.setattr(noise_training, "_STEPS", 7)
    parts = _fit(steps=60, device="cpu")
    pd.testing.assert_frame_equal(whole.sample(20), parts.sample(20))


def test_chains_carried_on_together(model: MissDiff, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = model.impute_draws(_table(), 3), model.predict_proba(_table(), "name")
    monkeypatch.setattr(NoiseModel, "chains_at_once", 2)
    together = model.impute_draws(_table(), 3), model.predict_proba(_table(), "name")
    for one, other in zip(alone[0], together[0], strict=True):
        np.testing.assert_allclose(one["x"], other["x"], atol=1e-4)
    assert float((alone[1] - together[1]).abs().mean().mean()) < 0.01


def test_a_gpu_without_memory_gets_smaller_tiles(model: MissDiff, monkeypatch: pytest.MonkeyPatch) -> None:
    expected, predict, sizes = model.sample(100), NoiseModel.predict, []

    def small(self: NoiseModel, x: torch.Tensor, t: torch.Tensor, **options: bool) -> torch.Tensor:
        sizes.append(len(x))
        if len(x) > 64:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory")
        return predict(self, x, t, **options)

    monkeypatch.setattr(NoiseModel, "predict", small)
    with pytest.warns(RuntimeWarning, match="does not hold 128 rows at once: going on with 64"):
        drawn = model.sample(100)
    assert sizes[-1] == 64
    np.testing.assert_allclose(drawn["x"], expected["x"], atol=1e-4)
    monkeypatch.setattr(
        NoiseModel, "predict", lambda *_, **__: (_ for _ in ()).throw(torch.cuda.OutOfMemoryError("out"))
    )
    with (
        pytest.warns(RuntimeWarning, match="at once"),
        pytest.raises(torch.cuda.OutOfMemoryError, match=r"does not hold 16 rows at once: .* use device='cpu'"),
    ):
        model.sample(3)


def test_the_median_of_draws_imputes(monkeypatch: pytest.MonkeyPatch) -> None:
    model, holes = _fit(), pd.DataFrame({"x": [np.nan], "whole": [5], "name": ["up"], "constant": [7]})
    method = model._method
    assert isinstance(method, NoisePrediction)
    chains = torch.zeros(3, 1, method._model.min_max.layout.width)
    chains[2] = 1.0  # the median of 0, 0, 1 is the least value, their mean a third of the way to the greatest
    monkeypatch.setattr(NoisePrediction, "_chains", lambda *_, **__: iter([(0, 1, chains)]))
    assert model.impute(holes)["x"].item() == pytest.approx(_table()["x"].min(), rel=1e-6)


def test_missing_cells_do_not_enter_the_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    # A network that is right wherever a cell is observed has no loss, whatever it says of the others.
    table, seen = _table(), []
    codec_rows = table[["x", "whole", "name"]].notna().any(axis=1)
    model = _fit(steps=1)
    method = model._method
    assert isinstance(method, NoisePrediction)
    encoded = encode(model.codec_, table[codec_rows])
    cells, observed = method._model.min_max.encode(encoded), encoded.observed()
    rows = torch.arange(len(encoded))
    key = make_key(1, 0, "cpu")
    eps = method.backend.normal(rows, method._model.min_max.layout.width, key)
    wide = observed[:, method._model.min_max.layout.groups()]
    loss_states = torch.where(observed, 1, 0).to(torch.uint8)
    for wrong in (0.0, 1e6):
        guess = torch.where(wide, eps, wrong)
        seen.append(float(method.backend.masked_noise_loss(guess, cells, rows, loss_states, key)))
    assert seen == [0.0, 0.0]


def test_it_learns_which_values_go_together() -> None:
    random = np.random.default_rng(0)
    side = random.random(512) < 0.3
    table = pd.DataFrame({"x": np.where(side, 4.0, 0.0) + random.normal(size=512), "side": np.where(side, "b", "a")})
    # The paper's rate falls early, which is for long trainings; draws take fewer steps than its 100.
    steady = {"training.milestones": (0.9,), "diffusion.steps": 40}
    model = MissDiff(
        preset="paper",
        steps=500,
        width=32,
        blocks=4,
        learning_rate=2e-3,
        settings=steady,
        random_state=0,
        verbose=False,
    ).fit(table)
    drawn = model.sample(256)
    means = drawn.groupby("side")["x"].mean()
    assert 0.15 < (drawn["side"] == "b").mean() < 0.45
    assert means["b"] - means["a"] > 2.0
    given = model.sample(given=pd.DataFrame({"side": ["a", "b"] * 50})).groupby("side")["x"].mean()
    assert given["b"] - given["a"] > 2.0
    # A row whose cells do not go together is the less likely.
    rows = pd.DataFrame({"x": 4.0, "side": ["a", "b"] * 64})
    scores = model.score_samples(rows).groupby(rows["side"]).mean()
    assert scores["b"] < scores["a"] - 1.0


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"diffusion.sde": "sub-vp"}, "diffusion.sde must be one of 'vp', 've', got 'sub-vp'"),
        ({"missing": "mean"}, "missing must be one of 'category', 'zero', got 'mean'"),
        ({"diffusion.steps": 0}, "diffusion.steps must be an integer of at least 2, got 0"),
        ({"network.channels": 6}, "network.channels must be a multiple of network.heads, got 6 and 4"),
        ({"diffusion.beta_max": 2.0}, "0 < diffusion.beta_min <= beta_max < 1"),
        ({"diffusion.speed": 1}, "there is no setting 'diffusion.speed'"),
        ({"diffusion": "ve"}, "'diffusion' is not one setting"),
        ({"draws": "many"}, "setting 'draws' must be of type int, got 'many'"),
    ],
    ids=str,
)
def test_bad_settings(settings: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(text)):
        MissDiff(preset="paper", settings=settings).fit(_table())


def test_settings_that_are_no_mapping() -> None:
    with pytest.raises(TypeError, match="settings must be a mapping"):
        MissDiff(preset="paper", settings=["ve"]).fit(_table())  # type: ignore[arg-type]


def test_epochs_are_passes_over_the_rows() -> None:
    model = MissDiff(preset="paper", epochs=3, width=8, blocks=1, verbose=False, random_state=0).fit(_table())
    assert model.history_["step"].iloc[-1] == 3 * (len(_table()) // 64)


def test_the_rate_falls_at_the_papers_milestones() -> None:
    training = configure(MissDiff(preset="paper")).training
    rates = [training.rate(epoch, 250) for epoch in range(250)]
    assert rates == pytest.approx([5e-4] * 62 + [5e-5] * 63 + [5e-6] * 62 + [5e-7] * 38 + [5e-8] * 25)
