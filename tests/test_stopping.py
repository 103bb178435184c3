"""Early stopping by the loss on held-back rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

from missdiff_fast import MissDiff
from missdiff_fast._engine.backend import Backend, ReferenceBackend
from missdiff_fast._engine.history import History, Progress
from missdiff_fast._engine.phase import Phase
from missdiff_fast._engine.steppers import FusedStepper, GraphStepper, TorchStepper
from missdiff_fast._engine.stopping import EarlyStop, HeldBackLoss, early_stop
from missdiff_fast._engine.training import _draw_batches, train
from missdiff_fast.cli import main
from missdiff_fast.config import Config, ObjectiveConfig, TrainingConfig
from missdiff_fast.networks import Denoiser
from missdiff_fast.networks.packing import flatten
from missdiff_fast.table.encoded import EncodedTable, Layout

LAYOUT = Layout(2, (3,))
PHASE = Phase("fit", 500, 16, 5e-3, 10, 0.99, first_step=7)
PHASE_OF_60 = Phase("fit", 60, 32, 5e-3, 10, 0.99)
OBJECTIVE = ObjectiveConfig()


def _encoded(rows: int = 100, seed: int = 0) -> EncodedTable:
    generator = torch.Generator().manual_seed(seed)
    cells = torch.randn(rows, 2, generator=generator)
    cells[torch.rand(rows, 2, generator=generator) < 0.3] = torch.nan
    codes = torch.randint(-1, 3, (rows, 1), generator=generator).to(torch.int16)
    return EncodedTable(cells, codes, LAYOUT, cells.clone())


class Planned:
    """Gives planned losses, and keeps the weights that it was shown."""

    def __init__(self, *losses: float) -> None:
        self.losses, self.weights = list(losses), list[torch.Tensor]()

    def __call__(self, network: nn.Module) -> float:
        assert isinstance(network, Denoiser)
        self.weights.append(flatten(network))
        return self.losses[len(self.weights) - 1]


def _train(
    backend: Backend, losses: Planned | None, patience: int = 2, phase: Phase = PHASE
) -> tuple[Denoiser, History, EarlyStop | None]:
    torch.manual_seed(0)
    network, history = Denoiser(LAYOUT, width=16, blocks=1), History()
    stop = None if losses is None else EarlyStop(losses, phase, patience, history)
    train(network, _encoded(), OBJECTIVE, phase, backend, 0, history, stop=stop)
    return network, history, stop


def test_a_phase_that_improves_has_the_bits_of_one_without_checks(any_backend: Backend) -> None:
    losses = Planned(*range(10, 0, -1))
    ours, history, stop = _train(any_backend, losses)
    plain, curve, _ = _train(any_backend, None)
    assert torch.equal(flatten(ours), flatten(plain))
    assert (history.step, history.loss, history.choices) == (curve.step, curve.loss, [])
    assert history.checks == {7 + 50 * i: 11 - i for i in range(1, 11)}
    assert torch.equal(losses.weights[-1], flatten(ours))
    assert stop is not None
    assert stop.length == stop.end == 500


def test_a_phase_ends_after_checks_without_improvement(any_backend: Backend) -> None:
    losses = Planned(3.0, 2.0, 2.0, 2.5, 1.0)
    network, history, stop = _train(any_backend, losses)
    assert list(history.checks) == [57, 107, 157, 207, 257]
    assert history.step[-1] == 257
    assert history.choices == [("steps of fit", 250, "of 500: the held-back loss stopped improving after 100")]
    assert stop is not None
    assert (stop.end, stop.length) == (250, 150)
    assert torch.equal(flatten(network), losses.weights[-1])
    assert not torch.equal(losses.weights[1], losses.weights[-1])
    assert not network.training


def test_the_weights_of_the_best_check_are_kept(native_backend: Backend) -> None:
    for after in ([2.0, 2.0, 1.5], [2.0] * 9):  # after a stop, and at the end of the phase
        losses = Planned(1.0, *after)
        network, _, _ = _train(native_backend, losses, patience=2 if len(after) < 9 else 99)
        assert len(losses.weights) == len(losses.losses)
        assert torch.equal(flatten(network), losses.weights[0])


def test_the_last_decay_goes_on_from_the_best_check() -> None:
    stop = EarlyStop(Planned(1.0, 2.0), PHASE, 1, History())
    torch.manual_seed(0)
    stepper = ReferenceBackend().stepper(Denoiser(LAYOUT, width=16, blocks=1), OBJECTIVE, torch.ones(3), 0.99)
    with Progress(History(), "fit", 500, verbose=False) as progress:
        assert stop.until_check(0) == 50
        stop.after(49, stepper, progress)  # not yet
        stop.after(50, stepper, progress)
        assert stop.rate(75) == PHASE.rate(75)
        stop.after(100, stepper, progress)
    assert stop.until_check(100) == 50
    assert [stop.rate(t) / PHASE.rate(50) for t in (100, 125, 149)] == pytest.approx([1.0, 0.5, 0.02])


def test_no_stop_comes_where_the_phase_ends_as_soon(native_backend: Backend) -> None:
    _, history, stop = _train(native_backend, Planned(9, 8, 7, 6, 5, 4, 3, 3, 3, 1), patience=2)
    assert history.choices == [("steps of fit", 500, "of 500: the held-back loss stopped improving after 350")]
    assert stop is not None
    assert stop.length == 400
    _, history, _ = _train(native_backend, Planned(9, 8, 7, 6, 5, 4, 3, 2, 2, 1), patience=2)
    assert history.choices == []


def test_the_bar_and_the_curve_end_with_the_steps() -> None:
    history = History()
    with Progress(history, "fit", 500, verbose=False) as progress:
        progress.add(torch.ones(()), 50)
        progress.shorten(70)
        assert progress.until_log == 20
        progress.add(torch.full((), 40.0), 20)
    assert (history.step, history.loss) == ([50, 70], [0.02, 2.0])


def test_short_phases_are_checked_at_their_end_alone(native_backend: Backend) -> None:
    phase = Phase("fit", 30, 32, 5e-3, 10, 0.99)
    _, history, _ = _train(native_backend, Planned(1.0), phase=phase)
    assert history.checks == {30: 1.0}


@pytest.mark.parametrize("kind", [TorchStepper, FusedStepper, GraphStepper])
def test_a_state_is_restored_and_a_look_at_the_average_changes_nothing(
    kind: Callable[..., Any], native_backend: Backend
) -> None:
    (part,) = _draw_batches(_encoded(), _encoded().observed(), None, OBJECTIVE, PHASE_OF_60, native_backend, 0)
    found = []
    for looks in (False, True):
        torch.manual_seed(0)
        network = Denoiser(LAYOUT, width=16, blocks=1)
        stepper = kind(network, OBJECTIVE, torch.ones(3), 0.9, *(() if kind is GraphStepper else (native_backend,)))
        with Progress(History(), "fit", 100, verbose=False) as progress:
            stepper.run(part.part(0, 20), [1e-3] * 20, progress)
            if looks:
                with stepper.averaged() as average:
                    average(torch.zeros(1, 5), torch.ones(1), torch.ones(1, 3, dtype=torch.uint8))
                restore = stepper.save()
                for _ in range(2):  # a state can be restored again
                    stepper.run(part.part(40, 60), [1e-2] * 20, progress)
                    restore()
            stepper.run(part.part(20, 40), [1e-3] * 20, progress)
        stepper.finish()
        found.append(flatten(network))
    assert torch.equal(found[0], found[1])


def test_a_look_shows_the_average(native_backend: Backend) -> None:
    (part,) = _draw_batches(_encoded(), _encoded().observed(), None, OBJECTIVE, PHASE_OF_60, native_backend, 0)
    for kind in (native_backend.stepper, lambda *a: TorchStepper(*a, native_backend)):
        network = Denoiser(LAYOUT, width=16, blocks=1)
        stepper = kind(network, OBJECTIVE, torch.ones(3), 0.9)
        with Progress(History(), "fit", 100, verbose=False) as progress:
            stepper.run(part, [1e-2] * 60, progress)
        with stepper.averaged() as average:
            seen = flatten(average)
        stepper.finish()
        assert torch.equal(seen, flatten(network))


def _loss(backend: Backend, table: EncodedTable, seed: int = 0, rows: int = 0) -> HeldBackLoss:
    return HeldBackLoss(table, OBJECTIVE, torch.ones(3), backend, seed, rows)


def test_the_held_back_loss_of_one_network_is_one_number(native_backend: Backend) -> None:
    network, other = _train(native_backend, None)[0], Denoiser(LAYOUT, width=16, blocks=1)
    table = _encoded(400, seed=1)
    loss = _loss(native_backend, table)
    assert loss(network) == loss(network) == _loss(native_backend, table)(network)
    assert loss(network) != _loss(native_backend, table, seed=1)(network)
    assert loss(network) != loss(other)
    assert np.isfinite(loss(network))


def test_few_rows_are_measured_with_more_noise(native_backend: Backend) -> None:
    network, table = _train(native_backend, None)[0], _encoded(20, seed=1)
    spread = [
        np.std([_loss(native_backend, table, seed, rows)(network) for seed in range(8)]) for rows in (0, 1000 * 20 * 50)
    ]
    assert spread[1] < 0.4 * spread[0]  # by the root of fifty, if noise were all


def test_a_network_that_knows_the_rows_by_heart_is_found_out(native_backend: Backend) -> None:
    network, history = Denoiser(LAYOUT, width=64, blocks=2), History()
    phase, config = replace(PHASE, steps=1000), replace(Config(), training=TrainingConfig(patience=2))
    stop = early_stop(_encoded(40), _encoded(200, seed=1), phase, config, native_backend, 0, history)
    assert stop is not None
    train(network, _encoded(40), OBJECTIVE, phase, native_backend, 0, history, stop=stop)
    assert stop.length < stop.end < 1000
    longer = Denoiser(LAYOUT, width=64, blocks=2)
    train(longer, _encoded(40), OBJECTIVE, phase, native_backend, 0, History())
    loss = _loss(native_backend, _encoded(1000, seed=2))
    assert loss(network) < loss(longer)


def test_without_patience_or_rows_nothing_is_checked(native_backend: Backend) -> None:
    patient = replace(Config(), training=TrainingConfig(patience=2))
    for config, rows in ((Config(), _encoded()), (patient, None)):
        assert early_stop(_encoded(), rows, PHASE, config, native_backend, 0, History()) is None


def _table(rows: int = 300, missing: float = 0.2) -> pd.DataFrame:
    random = np.random.default_rng(0)
    table = pd.DataFrame(random.normal(size=(rows, 4)), columns=list("abcd"))
    return table.mask(random.random(table.shape) < missing)


def _fit(table: pd.DataFrame, **arguments: Any) -> MissDiff:
    settings = {"training.patience": 2, "calibration.rounds": 0}
    return MissDiff(steps=500, width=64, blocks=1, settings=settings, random_state=0, **arguments).fit(table)


def test_a_model_tells_where_it_stopped_and_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, again = _fit(_table()), _fit(_table())
    pd.testing.assert_frame_equal(model.sample(20), again.sample(20))
    stopped = model.training_.set_index("setting").loc["steps of fit"]
    assert 150 <= stopped["value"] < 500
    best = int(stopped["reason"].removeprefix("of 500: the held-back loss stopped improving after "))
    # Refinement, the imputer and the network for rows with holes.
    history, further = model.history_, 2 * round((best + 50) * 0.5) + round((best + 50) / 8)
    assert history["step"].max() == stopped["value"] + further
    checks = history[history["held_back"].notna()]
    assert checks["step"].tolist() == list(range(50, stopped["value"] + 1, 50))
    model.save(tmp_path / "model")
    loaded = MissDiff.load(tmp_path / "model")
    pd.testing.assert_frame_equal(loaded.history_.drop(columns="seconds"), history.drop(columns="seconds"))
    pd.testing.assert_frame_equal(loaded.training_, model.training_)
    assert main(["info", str(tmp_path / "model")]) == 0
    shown = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert f"chosen: steps of fit {stopped['value']:,} ({stopped['reason']})" in shown


def test_a_training_without_refinement_ends_early() -> None:
    model = _fit(_table(), refine=0)
    stopped = model.training_.set_index("setting").loc["steps of fit"]
    assert stopped["value"] < 500
    kept = int(stopped["reason"].rpartition(" ")[2]) + 50
    assert model.history_["step"].max() == stopped["value"] + round(kept * 0.5) + round(kept / 8)
    assert model.history_["held_back"].notna().tolist() == (model.history_["step"] <= stopped["value"]).tolist()


@pytest.mark.parametrize("refine", [None, 0])
def test_complete_and_small_tables_are_not_checked(refine: int | None) -> None:
    for table in (_table(missing=0.0), _table(150)):
        model = _fit(table, refine=refine)
        assert list(model.history_) == ["step", "loss", "seconds"]
        assert "steps of fit" not in set(model.training_["setting"])


def test_refits_are_as_short() -> None:
    model = _fit(_table(), refits=2)
    stopped = model.training_.set_index("setting").loc["steps of fit"]
    kept = int(stopped["reason"].rpartition(" ")[2]) + 50
    further = 2 * round(kept * 0.5) + round(kept / 8) + 2 * 2 * round(kept * 0.5 / 2)
    assert kept < 500
    assert model.history_["step"].max() == stopped["value"] + further


def test_a_fit_with_a_budget_can_be_repeated() -> None:
    settings = {"training.patience": 1}
    model = MissDiff(budget=1, settings=settings, width=16, blocks=1, random_state=0).fit(_table())
    chosen = model.training_.set_index("setting")["value"]
    again = MissDiff(steps=chosen["training.steps"], settings=settings, width=16, blocks=1, random_state=0)
    pd.testing.assert_frame_equal(model.sample(50), again.fit(_table()).sample(50))


def test_an_interrupted_check_leaves_the_average(any_backend: Backend) -> None:
    class Interrupted(Planned):
        def __call__(self, network: nn.Module) -> float:
            super().__call__(network)
            raise KeyboardInterrupt

    torch.manual_seed(0)
    network, losses = Denoiser(LAYOUT, width=16, blocks=1), Interrupted(1.0)
    stop = EarlyStop(losses, PHASE, 2, History())
    with pytest.raises(KeyboardInterrupt):
        train(network, _encoded(), OBJECTIVE, PHASE, any_backend, 0, History(), stop=stop)
    assert torch.equal(flatten(network), losses.weights[0])
    assert not network.training


@pytest.mark.parametrize("patience", [0, -1, 1.5, True])
def test_no_patience(patience: object) -> None:
    with pytest.raises((ValueError, TypeError), match=r"training\.patience"):
        MissDiff(settings={"training.patience": patience}).fit(_table())
