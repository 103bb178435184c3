"""STaSy as a whole; its parts are tested in files of their own."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from baseline_tables import mixed_table

from missdiff_fast.baselines import MeanModeImputer, NoCompleteRowError, STaSy

SMALL = {"epochs": 2, "finetune_epochs": 1, "hidden": (16, 16), "batch_size": 16, "warmup": 1, "verbose": False}


@pytest.mark.parametrize("complete", ["delete", "mean"])
def test_samples_have_the_columns_dtypes_and_ranges_of_the_table(complete: str) -> None:
    table = mixed_table()
    model = STaSy(complete, **SMALL, random_state=0).fit(table)
    sampled = model.sample(50)
    assert sampled.dtypes.to_dict() == table.dtypes.to_dict()
    assert not sampled.isna().any(axis=None)
    for column in ("float", "whole", "day"):
        assert sampled[column].between(table[column].min(), table[column].max()).all()
    assert set(sampled["text"]) <= {"low", "middle", "high"}
    assert model.sample(0).shape == (0, table.shape[1])
    assert model.columns_ == list(table.columns)


def test_it_learns_a_mixture() -> None:
    generator = np.random.default_rng(0)
    right = generator.random(500) < 0.3
    table = pd.DataFrame({"x": np.where(right, 0.9, 0.2) + 0.03 * generator.normal(size=500), "side": right})
    table["side"] = table["side"].map({True: "right", False: "left"})
    model = STaSy(
        "mean", 150, 0, 64, 5e-3, warmup=50, ema=0.99, hidden=(64, 64, 64), random_state=0, verbose=False
    ).fit(table)
    sampled = model.sample(1000)
    assert (sampled["side"] == "right").mean() == pytest.approx(0.3, abs=0.1)
    means = sampled.groupby("side")["x"].mean()
    # Cells between the two heaps, as STaSy draws some, pull the means together.
    assert means["left"] == pytest.approx(0.2, abs=0.1)
    assert means["right"] == pytest.approx(0.9, abs=0.15)


def test_the_two_completions() -> None:
    table = mixed_table()
    settings = {**SMALL, "finetune_epochs": 0, "random_state": 0}
    deleted = STaSy("delete", **settings).fit(table)
    filled = STaSy("mean", **settings).fit(table)
    expected = STaSy("delete", **settings).fit(MeanModeImputer().fit_impute(table))
    # Equal but for rounding, which on some processors depends on where in memory a matrix begins.
    assert filled.history_["loss"].tolist() == pytest.approx(expected.history_["loss"].tolist(), rel=1e-5)
    # 16 rows a step, of the complete ones alone.
    assert deleted.history_["step"].tolist() == [n * -(-len(table.dropna()) // 16) for n in (1, 2)]


def test_one_complete_row_is_enough() -> None:
    table = pd.DataFrame({"x": [1.0, None, 5.0], "y": ["a", "b", None]})
    assert len(STaSy("delete", **SMALL, random_state=0).fit(table).sample(2)) == 2


def test_no_complete_row() -> None:
    table = pd.DataFrame({"x": [1.0, None, 2.0], "y": [None, "b", None]})
    with pytest.raises(NoCompleteRowError, match="no row is complete"):
        STaSy("delete", **SMALL).fit(table)


def test_fine_tuning_follows_and_moves_the_weights() -> None:
    table = mixed_table()
    before = STaSy("mean", **{**SMALL, "finetune_epochs": 0}, random_state=0).fit(table)
    after = STaSy("mean", **SMALL, random_state=0).fit(table)
    assert after.history_["loss"].tolist()[:2] == before.history_["loss"].tolist()
    assert len(after.history_) == 3
    steps = after.history_["step"].tolist()
    assert steps[2] - steps[1] == 2  # half of 60 rows by 16
    change = [
        (a - b).abs().max() for a, b in zip(after._network.parameters(), before._network.parameters(), strict=True)
    ]
    assert 0 < max(change) < 1e-6


def test_the_same_seed_gives_the_same() -> None:
    table = mixed_table()
    settings = {**SMALL, "epochs": 40, "ema": 0.9, "learning_rate": 0.01}
    models = [STaSy("mean", **settings, random_state=4).fit(table) for _ in range(2)]
    pd.testing.assert_frame_equal(models[0].sample(9), models[1].sample(9))
    assert not models[0].sample(9, random_state=5).equals(models[0].sample(9))


def test_the_callers_random_numbers_stay_as_they_are() -> None:
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    STaSy("mean", **SMALL, random_state=4).fit(mixed_table()).sample(2)
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize(
    "setting",
    [
        {"complete": "median"},
        {"epochs": 0},
        {"ema": 1.5},
        {"alpha0": 0.99},
        {"warmup": -1},
        {"learning_rate": 0.0},
        {"hidden": (8, 0)},
    ],
)
def test_bad_settings(setting: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=next(iter(setting))):
        STaSy(**{**SMALL, **setting}).fit(mixed_table())  # type: ignore[arg-type]


def test_bad_input() -> None:
    with pytest.raises(TypeError, match=r"hidden must be a sequence of widths, such as .*, got 8"):
        STaSy("mean", **{**SMALL, "hidden": 8}).fit(mixed_table())  # type: ignore[arg-type]
    model = STaSy("mean", **SMALL)
    with pytest.raises(ValueError, match="not fitted"):
        model.sample(1)
    with pytest.raises(ValueError, match="empty"):
        model.fit(mixed_table()[:0])
    with pytest.raises(ValueError, match="'nowhere'"):
        model.fit(mixed_table(), categorical_columns=["nowhere"])
    with pytest.raises(ValueError, match="num_rows"):
        model.fit(mixed_table()).sample(-1)
