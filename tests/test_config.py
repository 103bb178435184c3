"""Settings: what is chosen from the size of the table, and the round trip through JSON."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from missdiff_fast.config import Config, ObjectiveConfig, RefineConfig, TrainingConfig, preset


@pytest.mark.parametrize(
    ("num_rows", "batch_size", "steps"),
    [(1, 32, 500), (165, 32, 1031), (1000, 64, 3000), (4096, 512, 1600), (16_000, 512, 3000), (10_000_000, 512, 3000)],
)
def test_steps_and_batch_size_follow_the_rows(num_rows: int, batch_size: int, steps: int) -> None:
    assert TrainingConfig().settle(num_rows) == (steps, batch_size)


def test_what_the_user_sets_stays() -> None:
    assert TrainingConfig(steps=7, batch_size=9).settle(16_000) == (7, 9)


@pytest.mark.parametrize(("missing", "rounds"), [(0.0, 0), (0.01, 1), (0.5, 1), (0.51, 2), (0.99, 2)])
def test_rounds_follow_the_missing_share(missing: float, rounds: int) -> None:
    assert RefineConfig().rounds_for(missing) == rounds


def test_rounds_set_by_hand_stay_unless_nothing_is_missing() -> None:
    assert RefineConfig(rounds=3).rounds_for(0.1) == 3
    assert RefineConfig(rounds=3).rounds_for(0.0) == 0


def test_round_trip_through_json() -> None:
    config = replace(preset("default"), training=TrainingConfig(steps=5, learning_rate=1e-4))
    assert Config.from_dict(json.loads(json.dumps(config.to_dict()))) == config


def test_settings_of_training_that_an_older_file_lacks_get_their_defaults() -> None:
    data = preset("default").to_dict()
    del data["objective"]["column_power"], data["objective"]["column_cap"]
    assert Config.from_dict(data) == preset("default")


@pytest.mark.parametrize(
    "settings",
    [{"column_power": -0.5}, {"column_power": float("nan")}, {"column_cap": 0.5}, {"column_cap": float("inf")}],
)
def test_column_weights_that_make_no_sense_are_refused(settings: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=rf"objective.{next(iter(settings))} must be at least \d and finite, got"):
        ObjectiveConfig(**settings)


def test_unknown_preset_names_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"unknown preset 'fast'; this version has 'default'"):
        preset("fast")
