"""The paper's noising processes and their ancestral solvers, on Gaussians whose score is known."""

from __future__ import annotations

import math

import pytest
import torch

from missdiff_fast.diffusion.process import Process, variance_exploding, variance_preserving
from missdiff_fast.diffusion.schedule import quadratic_betas


def _drawn_std(process: Process, std: float) -> float:
    """Standard deviation of what the solver draws with the exact prediction of the noise for N(0, std^2)."""
    variance = process.prior**2
    levels = zip(process.alpha.flip(0).tolist(), process.sigma.flip(0).tolist(), strict=True)
    for (c0, c1, _, c3), (a, s) in zip(process.coefficients.tolist(), levels, strict=True):
        # E[eps | x] = s x / (a^2 std^2 + s^2), so each step scales x and adds noise: its variance is known exactly.
        variance = (c0 + c1 * s / (a**2 * std**2 + s**2)) ** 2 * variance + c3**2
    return math.sqrt(variance)


def test_algorithm_2_by_hand() -> None:
    betas = quadratic_betas(4, 0.04, 0.36)
    process = variance_preserving(4, 0.04, 0.36)
    share = torch.cumprod(1 - betas, 0)
    c0, c1, c2, c3 = process.coefficients[0].tolist()  # step T
    assert c0 == pytest.approx(1 / math.sqrt(1 - 0.36))
    assert c1 == pytest.approx(-0.36 / math.sqrt(1 - float(share[3])) / math.sqrt(1 - 0.36))
    assert (c2, c3) == (0.0, pytest.approx(0.6))
    assert process.coefficients[-1, 3] == 0.0  # the last step adds no noise
    assert process.alpha[3] ** 2 == pytest.approx(float(share[3]))
    assert (process.alpha**2 + process.sigma**2).tolist() == pytest.approx([1.0] * 4)


def test_the_released_codes_variance_by_hand() -> None:
    betas = quadratic_betas(4, 0.04, 0.36)
    share = torch.cumprod(1 - betas, 0)
    process = variance_preserving(4, 0.04, 0.36, "posterior")
    assert process.coefficients[0, 3] ** 2 == pytest.approx(float((1 - share[2]) / (1 - share[3]) * betas[3]))


def test_unit_gaussians_keep_their_deviation_with_the_papers_variance() -> None:
    assert _drawn_std(variance_preserving(100, 1e-4, 0.5), 1.0) == pytest.approx(1.0, abs=0.002)


def test_the_posterior_variance_shrinks_a_unit_gaussian() -> None:
    # Measured independently with 40,000 rows and the exact score: 0.957 to 0.966.
    assert 0.95 < _drawn_std(variance_preserving(100, 1e-4, 0.5, "posterior"), 1.0) < 0.97


@pytest.mark.parametrize("variance", ["beta", "posterior"])
def test_a_long_exploding_process_draws_the_right_deviation(variance: str) -> None:
    errors = [abs(_drawn_std(variance_exploding(T, 0.01, 10.0, variance), 0.7) - 0.7) for T in (100, 400)]
    assert errors[1] < errors[0] / 2
    assert errors[1] < 0.03
