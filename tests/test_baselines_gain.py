"""GAIN."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from baseline_tables import check_filled, mixed_table

from missdiff_fast.baselines import GAINImputer, MeanModeImputer
from missdiff_fast.baselines.gain import _generate, _mlp, _tensors
from missdiff_fast.evaluate import imputation


def test_only_holes_are_filled() -> None:
    table = mixed_table()
    imputer = GAINImputer(iterations=5, batch_size=16, random_state=0).fit(table)
    check_filled(table, imputer.impute(table))
    assert imputer.impute(table[:0]).shape == (0, table.shape[1])


def test_it_learns_a_strong_dependence() -> None:
    generator = np.random.default_rng(0)
    u = generator.random(1000)
    names = np.array(["a", "b", "c"])[(3 * u).astype(int)]
    truth = pd.DataFrame({"u": u, "v": 1 - u, "w": 2 * u, "name": names, "half": u > 0.5})
    observed = generator.random(truth.shape) > 0.2
    holes = truth.astype({"half": "boolean"}).where(observed)
    filled = GAINImputer(iterations=600, random_state=0, verbose=False).fit(holes).impute(holes)
    plain = MeanModeImputer().fit_impute(holes)
    numbers = ["u", "v", "w"]
    got, least = (imputation(truth, f, observed, numbers).iloc[0] for f in (filled, plain))
    assert got["rmse"] < 0.6 * least["rmse"]
    assert got["category_error"] < 0.6 * least["category_error"]


def test_the_generator_sees_noise_in_place_of_holes() -> None:
    x, mask = _tensors(np.array([[0.5, np.nan], [np.nan, 1.0]]), torch.device("cpu"))
    assert x.tolist() == [[0.5, 0.0], [0.0, 1.0]]
    assert mask.tolist() == [[1.0, 0.0], [0.0, 1.0]]
    seen = []
    _generate(lambda inputs: seen.append(inputs), x, mask, torch.Generator().manual_seed(0))  # type: ignore[arg-type]
    shown = seen[0]
    assert torch.equal(shown[:, 2:], mask)
    assert torch.equal(shown[:, :2] * mask, x)
    noise = shown[:, :2][mask == 0]
    assert ((noise > 0) & (noise < 0.01)).all()


def test_networks_are_as_wide_as_the_row() -> None:
    shapes = [tuple(weight.shape) for weight in _mlp(5).parameters() if weight.ndim == 2]
    assert shapes == [(5, 10), (5, 5), (5, 5)]
    out = _mlp(5)(torch.randn(7, 10))
    assert ((out > 0) & (out < 1)).all()


def test_training_that_diverges() -> None:
    with pytest.raises(FloatingPointError, match=r"training diverged.*lower learning_rate"):
        GAINImputer(iterations=20, learning_rate=1e38, random_state=0).fit(mixed_table())


def test_numbers_far_from_all_that_were_seen_are_refused() -> None:
    imputer = GAINImputer(iterations=2, verbose=False).fit(mixed_table())
    with pytest.raises(ValueError, match=r"column 'float' has a number in row 1 .* times the range that fit saw"):
        imputer.impute(mixed_table().assign(float=[0.0, 1e30] * 30))


def test_the_same_seed_gives_the_same() -> None:
    table = mixed_table()
    first, second, other = (GAINImputer(iterations=5, random_state=seed).fit(table).impute(table) for seed in (0, 0, 1))
    pd.testing.assert_frame_equal(first, second)
    assert not first.equals(other)


@pytest.mark.parametrize(
    "setting", [{"iterations": 0}, {"batch_size": 0}, {"hint_rate": 1.5}, {"alpha": -1.0}, {"device": "nowhere"}]
)
def test_bad_settings(setting: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=next(iter(setting))):
        GAINImputer(**setting).fit(mixed_table())  # type: ignore[arg-type]
