"""Settings: what is chosen from the size of the table, and the round trip through JSON."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from missdiff_fast.config import (
    CalibrationConfig,
    Config,
    ObjectiveConfig,
    PaperConfig,
    RefineConfig,
    TrainingConfig,
    override,
    preset,
)


@pytest.mark.parametrize(
    ("num_rows", "batch_size", "steps"),
    [
        *((1, 32, 500), (165, 32, 1031), (1000, 64, 3125), (4096, 256, 3200)),
        *((16_000, 256, 4000), (32_000, 256, 4000), (256_000, 256, 8000)),
    ],
)
def test_steps_and_batch_size_follow_the_rows(num_rows: int, batch_size: int, steps: int) -> None:
    assert TrainingConfig().resolve(num_rows) == (steps, batch_size)


def test_what_the_user_sets_stays() -> None:
    assert TrainingConfig(steps=7, batch_size=9).resolve(16_000) == (7, 9)


@pytest.mark.parametrize(("missing", "rounds"), [(0.0, 0), (0.01, 1), (0.5, 1), (0.51, 2), (0.99, 2)])
def test_rounds_follow_the_missing_share(missing: float, rounds: int) -> None:
    assert RefineConfig().rounds_for(missing) == rounds


def test_rounds_set_by_hand_stay_unless_nothing_is_missing() -> None:
    assert RefineConfig(rounds=3).rounds_for(0.1) == 3
    assert RefineConfig(rounds=3).rounds_for(0.0) == 0


def test_round_trip_through_json() -> None:
    config = replace(preset("default"), training=TrainingConfig(steps=5, learning_rate=1e-4))
    assert Config.from_dict(json.loads(json.dumps(config.to_dict()))) == config


@pytest.mark.parametrize(
    "settings",
    [{"column_power": -0.5}, {"column_power": float("nan")}, {"column_cap": 0.5}, {"column_cap": float("inf")}],
)
def test_column_weights_that_make_no_sense_are_refused(settings: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=rf"objective.{next(iter(settings))} must be at least \d and finite, got"):
        ObjectiveConfig(**settings)


def test_settings_that_must_fit_one_another_are_changed_together() -> None:
    for settings in (
        {"diffusion.beta_min": 0.6, "diffusion.beta_max": 0.9},
        {"network.channels": 6, "network.heads": 3},
    ):
        first = override(preset("paper"), settings)
        assert first == override(preset("paper"), dict(reversed(settings.items())))
        assert first != preset("paper")
    assert override(preset("default"), {"solver.sigma_max": 0.1, "solver.sigma_min": 0.01}).solver.sigma_max == 0.1


def test_settings_may_come_from_numpy_or_json() -> None:
    config = override(preset("paper"), {"draws": np.int64(7), "training.milestones": [0.5], "diffusion.sigma_max": 20})
    assert isinstance(config, PaperConfig)
    assert (config.draws, config.training.milestones, config.diffusion.sigma_max) == (7, (0.5,), 20.0)
    assert PaperConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("default", {"network.width": 0}, "network.width must be an integer of at least 1, got 0"),
        ("default", {"network.embedding": 7}, "network.embedding must be an even integer of at least 2, got 7"),
        ("default", {"objective.log_sigma_mean": float("inf")}, "objective.log_sigma_mean must be finite, got inf"),
        ("default", {"objective.log_sigma_std": 0}, "objective.log_sigma_std must be greater than 0 and finite, got 0"),
        ("default", {"objective.clean_share": -0.1}, "objective.clean_share must be a number from 0 to 1, got -0.1"),
        ("default", {"objective.clean_share": 0.9}, "shares of one whole, got 1.25 in all"),
        ("default", {"objective.mean_weight": -1}, "objective.mean_weight must be at least 0 and finite, got -1"),
        ("default", {"training.steps": 1.5}, "training.steps must be an integer of at least 1, got 1.5"),
        ("default", {"training.learning_rate": 0}, "training.learning_rate must be greater than 0 and finite, got 0"),
        ("default", {"training.warmup": 0}, "training.warmup must be an integer of at least 1, got 0"),
        ("default", {"training.ema": 2}, "training.ema must be a number from 0 to 1, got 2"),
        ("default", {"refine.rounds": "two"}, "refine.rounds must be an integer of at least 0, got 'two'"),
        ("default", {"refine.show": 5}, "refine.show must be a number from 0 to 1, got 5"),
        ("default", {"solver.steps": 0}, "solver.steps must be an integer of at least 1, got 0"),
        ("default", {"solver.sigma_min": 25}, "0 < solver.sigma_min < sigma_max, got 25.0 and 20.0"),
        ("default", {"solver.rho": 0}, "solver.rho must be greater than 0 and finite, got 0"),
        ("paper", {"training.batch_size": 0}, "training.batch_size must be an integer of at least 1, got 0"),
        ("paper", {"training.epochs": -1}, "training.epochs must be an integer of at least 1, got -1"),
        ("paper", {"training.steps": True}, "training.steps must be an integer of at least 1, got True"),
        ("paper", {"training.weight_decay": -1}, "training.weight_decay must be at least 0 and finite, got -1"),
        ("paper", {"training.milestones": [0.5, 2]}, "each of training.milestones must be a number from 0 to 1, got 2"),
        ("paper", {"training.decay": float("nan")}, "training.decay must be greater than 0 and finite, got nan"),
        ("paper", {"network.embedding": 2}, "network.embedding must be an even integer of at least 4, got 2"),
        ("paper", {"network.column_embedding": 5}, "network.column_embedding must be an even integer of at least 2"),
        ("paper", {"network.hidden": 0}, "network.hidden must be an integer of at least 1, got 0"),
        ("paper", {"network.dropout": 2}, "network.dropout must be a number from 0 to 1, got 2"),
        ("paper", {"diffusion.sigma_max": float("inf")}, "diffusion.sigma_max must be greater than 0 and finite"),
        ("paper", {"diffusion.sigma_max": 1e30}, "noise must be within float32's reach: "),
        ("paper", {"diffusion.sigma_min": 1e-30}, "sigma_min at least 1e-06, sigma_max at most 1e+06, got "),
        ("paper", {"diffusion.beta_min": 1e-300}, "diffusion.beta_min at least 1e-12"),
        ("paper", {"diffusion.steps": 10**9}, "diffusion.steps must be at most 100,000, got 1,000,000,000"),
        ("paper", {3: 4}, "settings are named by strings such as 'training.batch_size', got 3"),
        ("paper", {"draws.many": 4}, "'draws.many' is not one setting; name one, as in 'draws'"),
    ],
    ids=str,
)
def test_settings_that_make_no_sense_are_refused(name: str, settings: dict[Any, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        override(preset(name), settings)


def test_unknown_preset_names_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"unknown preset 'fast'; this version has 'default'"):
        preset("fast")


def test_an_unknown_precision_is_refused() -> None:
    with pytest.raises(ValueError, match=r"solver.precision must be one of 'bfloat16', 'float32', got 'tf32'"):
        override(preset("default"), {"solver.precision": "tf32"})


@pytest.mark.parametrize("scores", [1, 0, None, "True"])
def test_calibration_of_scores_is_on_or_off(scores: Any) -> None:
    with pytest.raises(ValueError, match=r"calibration\.scores must be True or False"):
        CalibrationConfig(scores=scores)
