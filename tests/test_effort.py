"""Effort and budget: how long a fit trains, and what it says of it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest

from missdiff_fast import MissDiff
from missdiff_fast._engine import length
from missdiff_fast._engine.phase import Phase
from missdiff_fast.config import Config, TrainingConfig
from missdiff_fast.config.effort import EFFORTS, budget_seconds


def _table(rows: int = 300, missing: float = 0.1) -> pd.DataFrame:
    random = np.random.default_rng(0)
    table = pd.DataFrame(random.normal(size=(rows, 3)), columns=list("abc"))
    return table.mask(random.random(table.shape) < missing)


def _chosen(model: MissDiff) -> dict[str, float]:
    return dict(zip(model.training_["setting"], model.training_["value"], strict=True))


@pytest.mark.parametrize(("effort", "steps"), [("quick", 125), ("default", 500)])
def test_effort_scales_the_steps(effort: str, steps: int) -> None:
    model = MissDiff(effort=effort, width=8, blocks=1, random_state=0).fit(_table(40))
    half = round(steps / 2)
    expected = {"training.steps": steps, "training.batch_size": 32, "refine.rounds": 1, "imputer.steps": half}
    incomplete = round(steps / 8)
    assert _chosen(model) == expected | {"incomplete.steps": incomplete}
    assert model.history_["step"].max() == steps + 2 * half + incomplete


def test_the_best_effort_is_longer_and_wider() -> None:
    assert EFFORTS["best"]["training.effort"] > 1
    assert EFFORTS["best"]["network.width"] > 96
    model = MissDiff(effort="best", steps=2, random_state=0).fit(_table())
    assert model.config_.network.width == EFFORTS["best"]["network.width"]


def test_what_the_user_sets_overrides_the_effort() -> None:
    model = MissDiff(effort="best", width=8, settings={"solver.steps": 3}, steps=2, random_state=0).fit(_table())
    assert (model.config_.network.width, model.config_.solver.steps) == (8, 3)
    assert model.training_["reason"][0] == "as set"


def test_a_complete_table_gets_the_steps_of_refinement() -> None:
    complete, holes = (MissDiff(width=8, blocks=1, random_state=0).fit(_table(40, share)) for share in (0.0, 0.1))
    assert complete.history_["step"].max() == 1000
    assert holes.history_["step"].max() == 1000 + 62  # rows with holes have a network of their own
    assert MissDiff(width=8, blocks=1, refine=0, random_state=0).fit(_table(40, 0.0)).history_["step"].max() == 750


@pytest.mark.alone
def test_a_budget_is_kept_and_can_be_repeated() -> None:
    started = time.perf_counter()
    model = MissDiff(budget=2, width=16, blocks=1, random_state=0).fit(_table())
    took = time.perf_counter() - started
    assert 0.5 < took < 6  # a busy machine is slower than when the pace was measured
    steps = _chosen(model)["training.steps"]
    assert "a budget of 2 s" in model.training_["reason"][0]
    again = MissDiff(steps=steps, width=16, blocks=1, random_state=0).fit(_table())
    pd.testing.assert_frame_equal(model.sample(50), again.sample(50))


@pytest.mark.alone
def test_refits_share_the_budget() -> None:
    started = time.perf_counter()
    model = MissDiff(budget=2, refits=3, width=16, blocks=1, random_state=0).fit(_table())
    assert time.perf_counter() - started < 6
    steps = _chosen(model)["training.steps"]
    further = 2 * round(round(steps * 0.5) / 2)  # of a refit, in two rounds
    whole = steps + 2 * round(steps * 0.5) + round(steps / 8) + 3 * further
    assert abs(model.history_["step"].max() - whole) <= 6
    # A slow machine leaves no time for joint draws.
    settings = {"blend.draws": "blend.draws" not in _chosen(model)}
    again = MissDiff(steps=steps, refits=3, width=16, blocks=1, settings=settings, random_state=0).fit(_table())
    pd.testing.assert_frame_equal(model.impute_draws(_table(), 1)[0], again.impute_draws(_table(), 1)[0])


class _Clock:
    """Trainings of a fixed cost and one for each step, some of which take longer because the machine is busy."""

    def __init__(self, fixed: float, step: float, delays: Sequence[float]) -> None:
        self.now, self.fixed, self.step, self.delays = 0.0, fixed, step, list(delays)

    def train(self, *arguments: Any) -> None:
        """As `_engine.training.train`."""
        self.now += self.fixed + self.step * arguments[3].steps + (self.delays.pop(0) if self.delays else 0.0)


@pytest.mark.parametrize(
    ("fixed", "step", "delays"),
    [
        (0.001, 0.004, []),
        (1.0, 0.004, []),  # of many rows
        (0.001, 0.004, [0, 0.5]),  # a busy machine makes the short training longer than the long one,
        (0.001, 0.004, [0, 0.12]),  # or as long
        (0.001, 0.004, [0.5, 0, 0.05]),
    ],
)
def test_the_pace_is_right_on_a_busy_machine(
    monkeypatch: pytest.MonkeyPatch, fixed: float, step: float, delays: list[float]
) -> None:
    clock = _Clock(fixed, step, delays)
    monkeypatch.setattr(length, "train", clock.train)
    monkeypatch.setattr(length.time, "perf_counter", lambda: clock.now)
    config = Config(training=TrainingConfig(budget=60.0))
    phase = Phase("pilot", 30, 256, 1e-3, 100, 0.9)
    pace = length._pace(*(cast(Any, None),) * 2, config, phase, *(cast(Any, None),) * 2)
    assert step / 2 <= pace <= 2 * step
    assert clock.now < 10


def test_a_pace_that_is_not_found_is_not_taken_to_be_short(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = _Clock(0.05, 0.001, [0, 5.0])
    monkeypatch.setattr(length, "train", clock.train)
    monkeypatch.setattr(length.time, "perf_counter", lambda: clock.now)
    config = Config(training=TrainingConfig(budget=1.0))
    phase = Phase("pilot", 30, 256, 1e-3, 100, 0.9)
    assert length._pace(*(cast(Any, None),) * 2, config, phase, *(cast(Any, None),) * 2) > 0.0005


@pytest.mark.parametrize(("budget", "seconds"), [("2min", 120), ("90s", 90), ("1h", 3600), (1.5, 1.5), ("30", 30)])
def test_budgets(budget: str | float, seconds: float) -> None:
    assert budget_seconds(budget) == seconds


@pytest.mark.parametrize("budget", ["soon", "", "-1s", 0, -3, "0s", float("nan"), float("inf"), "nan"])
def test_no_budgets(budget: object) -> None:
    with pytest.raises(ValueError, match="budget must be a time above 0"):
        budget_seconds(budget)


@pytest.mark.parametrize("budget", [True, [1], object()])
def test_no_times(budget: object) -> None:
    with pytest.raises(TypeError, match="budget must be a time above 0"):
        budget_seconds(budget)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"effort": "most"}, "effort must be one of 'quick', 'default', 'best', got 'most'"),
        ({"budget": "2min", "steps": 5}, "steps and budget both set the length of training: give one of them"),
        ({"budget": "2min", "epochs": 5}, "epochs and budget both set"),
        ({"budget": "2min", "settings": {"training.steps": 5}}, "steps and budget both set"),
        (
            {"budget": "2min", "settings": {"training.budget": 5.0}},
            "budget and the setting 'training.budget' are the same",
        ),
        ({"budget": "2min", "preset": "paper"}, "preset 'paper' has no budget: leave out budget='2min'"),
        ({"effort": "best", "preset": "paper"}, "preset 'paper' has no effort: leave out effort='best'"),
    ],
)
def test_refusals(arguments: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        MissDiff(**arguments).fit(_table())  # type: ignore[arg-type]


def test_a_loaded_model_tells_what_was_chosen(tmp_path: object) -> None:
    model = MissDiff(steps=2, random_state=0).fit(_table())
    model.save(f"{tmp_path}/model")
    pd.testing.assert_frame_equal(MissDiff.load(f"{tmp_path}/model").training_, model.training_)
