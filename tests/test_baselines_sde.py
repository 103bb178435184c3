"""The variance-exploding SDE against Gaussians whose score is known."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from missdiff_fast.baselines.stasy.sde import START, VESDE, Score, random_signs

MEAN, STD = torch.tensor([0.4, -0.3, 0.0]), torch.tensor([0.5, 0.2, 1.0])


def gaussian(mean: Tensor, std: Tensor) -> Score:
    """The score of N(mean, std^2) at a noise level."""
    return lambda x, sigma: (mean - x) / (std**2 + sigma**2)


def test_kernel_by_hand() -> None:
    sde = VESDE(0.01, 10.0)
    assert [sde.sigma(t) for t in (0.0, 0.5, 1.0)] == pytest.approx([0.01, math.sqrt(0.1), 10.0])
    torch.testing.assert_close(sde.sigmas(torch.tensor([[0.0], [1.0]])), torch.tensor([[0.01], [10.0]]))
    h = 1e-6
    slope = (sde.sigma(0.7 + h) ** 2 - sde.sigma(0.7 - h) ** 2) / (2 * h)
    assert sde.diffusion_squared(0.7) == pytest.approx(slope, rel=1e-6)


def test_losses_by_hand() -> None:
    x, noise, t = torch.tensor([[1.0, 2.0]]), torch.tensor([[0.5, -1.0]]), torch.tensor([[0.5]])
    seen = []

    def score(x: Tensor, sigma: Tensor) -> Tensor:
        seen.append((x, sigma))
        return torch.tensor([[1.0, 0.0]])

    s = math.sqrt(0.1)
    loss = VESDE().losses(score, x, t, noise)
    assert loss.tolist() == pytest.approx([((s + 0.5) ** 2 + 1.0) / 2])
    torch.testing.assert_close(seen[0][0], torch.tensor([[1 + 0.5 * s, 2 - s]]))
    torch.testing.assert_close(seen[0][1], torch.tensor([[s]]))


def test_the_exact_score_of_a_point_has_no_loss() -> None:
    x, noise = torch.randn(5, 2), torch.randn(5, 2)
    loss = VESDE().losses(lambda noisy, sigma: (x - noisy) / sigma**2, x, torch.full((5, 1), 0.3), noise)
    assert float(loss.max()) < 1e-6


def test_the_flow_draws_from_a_gaussian() -> None:
    noise = torch.randn(20_000, 3, generator=torch.Generator().manual_seed(0))
    rows = VESDE().sample(gaussian(MEAN, STD), noise)
    # It begins at N(0, 10^2) and not at N(mean, std^2 + 10^2): a bias below 1 %.
    torch.testing.assert_close(rows.mean(0), MEAN, rtol=0, atol=0.03)
    torch.testing.assert_close(rows.std(0), STD, rtol=0.02, atol=0)
    # The flow of a Gaussian is an affine map, worked by hand, and so is the denoising step.
    sde = VESDE()
    least, most = sde.sigma(START) ** 2, 100.0
    ends = MEAN + (10 * noise - MEAN) * torch.sqrt((STD**2 + least) / (STD**2 + most))
    ends += least * (MEAN - ends) / (STD**2 + least)
    torch.testing.assert_close(rows, ends, rtol=0, atol=1e-3)


def test_likelihood_of_a_gaussian() -> None:
    x = MEAN + STD * torch.randn(200, 3, generator=torch.Generator().manual_seed(0))
    probes = random_signs((1, 200, 3), torch.Generator().manual_seed(1))
    # Columns are independent, so the Jacobian is diagonal and one probe gives its trace without error.
    found = VESDE().log_likelihood(gaussian(MEAN, STD), x, probes, tolerance=1e-6)
    least = torch.sqrt(STD**2 + VESDE().sigma(START) ** 2)
    # Change of variables by hand, with that prior.
    scale = torch.sqrt((STD**2 + 100.0) / least**2)
    prior = torch.distributions.Normal(torch.zeros(3), torch.tensor(10.0))
    exact = prior.log_prob(MEAN + (x - MEAN) * scale).sum(1) + scale.log().sum()
    torch.testing.assert_close(found, exact.double(), rtol=0, atol=1e-3)


def test_likelihood_of_a_narrow_gaussian_is_its_density() -> None:
    std = torch.tensor([0.1, 0.05])
    x = std * torch.randn(50, 2, generator=torch.Generator().manual_seed(0))
    probes = random_signs((2, 50, 2), torch.Generator().manual_seed(1))
    found = VESDE().log_likelihood(gaussian(torch.zeros(2), std), x, probes, tolerance=1e-5)
    density = torch.distributions.Normal(0.0, torch.sqrt(std**2 + 1e-4)).log_prob(x).sum(1).double()
    torch.testing.assert_close(found, density, rtol=0, atol=0.005)


def test_probes_average_to_the_trace() -> None:
    covariance = torch.tensor([[1.0, 0.6], [0.6, 0.5]])

    def score(x: Tensor, sigma: Tensor) -> Tensor:
        inverse = torch.linalg.inv(covariance + sigma[0, 0] ** 2 * torch.eye(2))
        return -x @ inverse

    x = torch.tensor([[0.5, -0.2]])
    signs = torch.tensor([[[1.0, 1.0]], [[1.0, -1.0]]])  # all there are, up to sign: their mean is exact
    found = VESDE().log_likelihood(score, x, signs, tolerance=1e-6)
    total = covariance + VESDE().sigma(START) ** 2 * torch.eye(2)
    density = torch.distributions.MultivariateNormal(torch.zeros(2), total).log_prob(x).double()
    torch.testing.assert_close(found, density, rtol=0, atol=0.02)


def test_random_signs() -> None:
    signs = random_signs((10_000,), torch.Generator().manual_seed(0))
    assert set(signs.tolist()) == {-1.0, 1.0}
    assert abs(float(signs.mean())) < 0.04
