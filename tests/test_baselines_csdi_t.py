"""CSDI_T."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
import torch
from baseline_tables import check_filled, mixed_table
from torch import Tensor, nn

from missdiff_fast.baselines import CSDITImputer, csdi_t
from missdiff_fast.baselines.csdi_t import hide_some
from missdiff_fast.diffusion.schedule import alphas_cumprod, quadratic_betas
from missdiff_fast.evaluate import imputation

SMALL = {"epochs": 1, "num_draws": 2, "steps": 4, "channels": 8, "heads": 2, "layers": 1, "verbose": False}


def test_only_holes_are_filled() -> None:
    table = mixed_table()
    imputer = CSDITImputer(**SMALL, tile=7, random_state=0).fit(table)
    check_filled(table, imputer.impute(table))
    assert imputer.impute(table[:0]).shape == (0, table.shape[1])


def test_a_share_of_the_observed_columns_is_hidden() -> None:
    observed = torch.tensor([[True] * 10, [True, False] * 5, [False] * 10])
    counts = torch.zeros(3, 10)
    draws = torch.Generator().manual_seed(0)
    for _ in range(2000):
        hidden = hide_some(observed, 0.8, draws)
        assert not (hidden & ~observed).any()
        assert hidden.sum(1).tolist() == [8, 4, 0]
        counts += hidden
    share = counts / 2000
    assert torch.allclose(share[observed], torch.tensor(0.8), atol=0.05)  # 5 standard errors


def test_the_median_of_draws_fills(monkeypatch: pytest.MonkeyPatch) -> None:
    table = pd.DataFrame({"x": [0.0, 1.0, np.nan, 4.0], "y": [1.0, 2.0, 3.0, 4.0]})
    imputer = CSDITImputer(**{**SMALL, "num_draws": 3}, random_state=0).fit(table)
    levels = iter([-1.0, -1.0, 1.0])  # of the least and the greatest value
    monkeypatch.setattr(CSDITImputer, "_draw", lambda _, x, *__: torch.full_like(x, next(levels)))
    assert imputer.impute(table).loc[2, "x"] == 0.0


def test_draws_are_those_of_a_gaussian_whose_noise_is_known() -> None:
    """With the exact noise of N(1, 0.5^2), the sampler draws nearly from that; known cells are shown as they are."""
    imputer = CSDITImputer(steps=100)
    imputer._betas = betas = quadratic_betas(100, 1e-4, 0.5)
    share = alphas_cumprod(betas).float()

    class Exact:
        def __call__(self, x: Tensor, t: Tensor, known: Tensor, mask: Tensor) -> Tensor:
            assert torch.equal(known, torch.tensor([[0.7, 0.0]]).expand_as(x))
            assert not (x[:, 0] != 0).any()
            a = share[t]
            return (1 - a).sqrt() * (x - a.sqrt() * 1.0) / (a * 0.25 + 1 - a)

    imputer._network = Exact()  # type: ignore[assignment]
    known = torch.tensor([[1.0, 0.0]]).expand(20_000, 2)
    drawn = imputer._draw(torch.tensor([[0.7, 9.0]]).expand(20_000, 2), known, torch.Generator().manual_seed(0))
    # Each step is affine in x, so mean and variance follow by hand. (The posterior variance shrinks the spread.)
    mean, variance = 0.0, 1.0
    before = torch.cat([torch.ones(1), share[:-1]])
    for a, a_before, beta in zip(share.tolist()[::-1], before.tolist()[::-1], betas.tolist()[::-1], strict=True):
        total = a * 0.25 + 1 - a
        slope = (1 - beta / total) / math.sqrt(1 - beta)
        mean = slope * mean + beta / total * math.sqrt(a) / math.sqrt(1 - beta)
        variance = slope**2 * variance + beta * (1 - a_before) / (1 - a)
    assert (mean, math.sqrt(variance)) == pytest.approx((1.0, 0.5), abs=0.03)
    assert drawn[:, 1].mean().item() == pytest.approx(mean, abs=0.02)
    assert drawn[:, 1].std().item() == pytest.approx(math.sqrt(variance), abs=0.012)


def test_it_learns_a_strong_dependence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csdi_t, "_MILESTONES", ())  # so few steps need the full learning rate to the end
    generator = np.random.default_rng(0)
    right = generator.random(400) < 0.4
    x = np.where(right, 0.9, 0.1) + 0.05 * generator.random(400)
    truth = pd.DataFrame({"x": x, "name": np.where(right, "right", "left")})
    observed = np.ones(truth.shape, dtype=bool)
    observed[np.arange(80), np.arange(80) % 2] = False
    sizes = {"steps": 20, "channels": 32, "heads": 2, "layers": 2}
    imputer = CSDITImputer(100, 50, 3e-3, hidden_share=0.5, num_draws=11, **sizes, random_state=0, verbose=False)
    found = imputation(truth, imputer.fit_impute(truth.where(observed)), observed, ["x"]).iloc[0]
    assert found["rmse"] < 0.05  # the spread within a side is 0.017, about the mean 0.46
    assert found["category_error"] < 10  # of the mode it is 40


class Recorder(nn.Module):
    """Answers with noise 0 and keeps what it was shown."""

    def __init__(self) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(3))
        self.shown: list[tuple[Tensor, ...]] = []

    def forward(self, *shown: Tensor) -> Tensor:
        self.shown.append(shown)
        return self.bias.expand_as(shown[0])


def test_training_shows_known_cells_clean_and_asks_for_hidden_ones() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(64, 3, generator=generator)
    observed = torch.rand(64, 3, generator=generator) < 0.7
    observed[:, 2] = False
    x *= observed
    imputer = CSDITImputer(epochs=1, batch_size=64, steps=50, hidden_share=0.5, verbose=False)
    imputer._betas = quadratic_betas(50, 1e-4, 0.5)
    network = Recorder()
    imputer._train(network, x, observed, torch.arange(3), seed=0)  # type: ignore[arg-type]
    (noisy, t, known, mask) = network.shown[0]
    assert noisy[mask == 1].abs().max() == 0
    assert known[mask == 0].abs().max() == 0
    assert set(known[mask == 1].tolist()) <= set(x.flatten().tolist())
    # Halves: of two observed columns one is known, of one none (0.5 is rounded to even).
    assert mask.sum(1).max() == 1
    assert t.min() >= 0
    assert t.max() < 50
    assert (network.bias[:2] != 0).all()
    assert network.bias[2] == 0  # never observed, so never asked for


def test_training_that_diverges() -> None:
    with pytest.raises(FloatingPointError, match=r"training diverged.*lower learning_rate"):
        CSDITImputer(**{**SMALL, "epochs": 5}, learning_rate=1e38, random_state=0).fit(mixed_table())


def test_numbers_far_from_all_that_were_seen_are_refused() -> None:
    imputer = CSDITImputer(epochs=1, num_draws=2, steps=3, channels=8, heads=2, verbose=False).fit(mixed_table())
    with pytest.raises(ValueError, match=r"column 'float' has a number in row 1 .* times the range that fit saw"):
        imputer.impute(mixed_table().assign(float=[0.0, 1e30] * 30))


def test_the_same_seed_gives_the_same() -> None:
    table = mixed_table()
    first, second, other = (CSDITImputer(**SMALL, random_state=seed).fit_impute(table) for seed in (0, 0, 1))
    pd.testing.assert_frame_equal(first, second)
    assert not first.equals(other)


@pytest.mark.parametrize(
    "setting", [{"epochs": 0}, {"steps": 1}, {"hidden_share": 1.5}, {"num_draws": 0}, {"channels": 6, "heads": 4}]
)
def test_bad_settings(setting: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=next(iter(setting))):
        CSDITImputer(**{**SMALL, **setting}).fit(mixed_table())  # type: ignore[arg-type]
