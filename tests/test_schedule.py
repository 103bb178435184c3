"""Noise levels."""

from __future__ import annotations

import pytest
import torch

from missdiff_fast.diffusion.schedule import karras_grid, noise_weight


def test_grid_by_hand() -> None:
    # sigma^(1/3) runs 2, 1.5, 1.
    assert karras_grid(3, 8.0, 1.0, 3.0).tolist() == pytest.approx([8.0, 3.375, 1.0, 0.0])


@pytest.mark.parametrize("steps", [1, 2, 10, 40])
def test_grid_falls_from_the_greatest_level_to_zero(steps: int) -> None:
    grid = karras_grid(steps, 8.0, 0.15, 3.0)
    assert len(grid) == steps + 1
    assert grid[0] == 8.0
    assert grid[-1] == 0.0
    assert steps == 1 or grid[-2] == 0.15
    assert bool((grid.diff() < 0).all())


def test_weight_undoes_the_preconditioning() -> None:
    # c_out^2 = sigma^2 / (sigma^2 + 1) for data of unit variance: weight times c_out^2 is 1 at every level.
    sigma = torch.tensor([0.01, 0.5, 3.0], dtype=torch.float64)
    torch.testing.assert_close(noise_weight(sigma) * sigma**2 / (sigma**2 + 1), torch.ones(3, dtype=torch.float64))
