"""Noise levels."""

from __future__ import annotations

import pytest
import torch

from missdiff_fast.diffusion.schedule import (
    alphas_cumprod,
    geometric_sigmas,
    karras_sigmas,
    noise_weight,
    quadratic_betas,
)


def test_grid_by_hand() -> None:
    # sigma^(1/3) runs 2, 1.5, 1.
    assert karras_sigmas(3, 8.0, 1.0, 3.0).tolist() == pytest.approx([8.0, 3.375, 1.0, 0.0])


@pytest.mark.parametrize("steps", [1, 2, 10, 40])
def test_grid_falls_from_the_greatest_level_to_zero(steps: int) -> None:
    grid = karras_sigmas(steps, 8.0, 0.15, 3.0)
    assert len(grid) == steps + 1
    assert grid[0] == 8.0
    assert grid[-1] == 0.0
    assert steps == 1 or grid[-2] == 0.15
    assert bool((grid.diff() < 0).all())


def test_weight_undoes_the_preconditioning() -> None:
    # c_out^2 = sigma^2 / (sigma^2 + 1) for data of unit variance: weight times c_out^2 is 1 at every level.
    sigma = torch.tensor([0.01, 0.5, 3.0], dtype=torch.float64)
    torch.testing.assert_close(noise_weight(sigma) * sigma**2 / (sigma**2 + 1), torch.ones(3, dtype=torch.float64))


def test_quadratic_betas_are_the_papers_formula() -> None:
    T, low, high = 100, 1e-4, 0.5
    betas = quadratic_betas(T, low, high)
    by_hand = [((T - t) / (T - 1) * low**0.5 + (t - 1) / (T - 1) * high**0.5) ** 2 for t in range(1, T + 1)]
    assert betas.tolist() == pytest.approx(by_hand, rel=1e-12)
    assert alphas_cumprod(betas)[1] == pytest.approx((1 - by_hand[0]) * (1 - by_hand[1]))
    assert float(alphas_cumprod(betas)[-1]) < 1e-8  # nothing is left of the row at T


def test_geometric_sigmas_have_one_ratio() -> None:
    sigmas = geometric_sigmas(50, 0.01, 10.0)
    assert (sigmas[0], sigmas[-1]) == (pytest.approx(0.01), pytest.approx(10.0))
    assert (sigmas[1:] / sigmas[:-1]).tolist() == pytest.approx([1000 ** (1 / 49)] * 49)
