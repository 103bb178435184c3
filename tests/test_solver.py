"""The solver's coefficients, on a Gaussian whose score is known."""

from __future__ import annotations

import math

import torch

from missdiff_fast.diffusion.schedule import karras_sigmas
from missdiff_fast.diffusion.solver import dpm_solver_2m


def _solve(x: torch.Tensor, sigmas: torch.Tensor, std: float) -> torch.Tensor:
    """Run the solver to the last level above 0 with the exact prediction of x0 for N(0, std^2)."""
    previous = torch.zeros_like(x)
    for (c0, c1, c2, _), sigma in zip(dpm_solver_2m(sigmas)[:-1].tolist(), sigmas[:-2].tolist(), strict=True):
        prediction = x * std**2 / (std**2 + sigma**2)
        x, previous = c0 * x + c1 * prediction + c2 * previous, prediction
    return x


def test_coefficients_by_hand() -> None:
    # Equal steps in log sigma: the extrapolation is 1/2 from the second step on.
    expected = [[0.5, 0.5, 0.0, 0.0], [0.5, 0.75, -0.25, 0.0], [0.0, 1.0, 0.0, 0.0]]
    assert dpm_solver_2m(torch.tensor([4.0, 2.0, 1.0, 0.0])).tolist() == expected


def test_a_constant_prediction_is_reached_whatever_the_grid() -> None:
    coefficients = dpm_solver_2m(karras_sigmas(7, 8.0, 0.15, 3.0))
    torch.testing.assert_close(coefficients[1:, :].sum(1), torch.ones(6, dtype=torch.float64), rtol=0, atol=1e-12)


def test_the_error_falls_with_the_square_of_the_step() -> None:
    # The exact flow from sigma_max to sigma_min scales x by sqrt((std^2 + min^2) / (std^2 + max^2)).
    x, std = torch.ones(1, dtype=torch.float64), 0.7
    exact = math.sqrt((std**2 + 0.15**2) / (std**2 + 8.0**2))
    errors = [abs(float(_solve(x, karras_sigmas(n, 8.0, 0.15, 3.0), std)) - exact) for n in (20, 40, 80)]
    assert errors[0] / errors[1] > 3
    assert errors[1] / errors[2] > 3
