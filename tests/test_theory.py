"""The masked objective on a Gaussian: where Theorem 3.1 holds, and where it does not."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from missdiff_fast.diffusion.process import Process, variance_preserving
from missdiff_fast.theory import MaskedGaussian, drawn_moments

_PROCESS = variance_preserving(100, 1e-4, 0.5)


def _gaussian(missing: float, correlation: float = 0.9, mean: float = 0.0, columns: int = 2) -> MaskedGaussian:
    covariance = (1 - correlation) * torch.eye(columns) + correlation
    return MaskedGaussian(torch.full((columns,), mean).double(), covariance.double(), missing)


def _drawn_correlation(gaussian: MaskedGaussian, process: Process = _PROCESS, *, promised: bool = False) -> float:
    _, covariance = drawn_moments(gaussian, process, rows=10_000, promised=promised)
    return float(covariance[0, 1] / covariance.diagonal()[:2].prod().sqrt())


def test_one_column_has_no_bias() -> None:
    # Rows that miss it are not loss_states, so what is learnt is the score of those that hold it.
    gaussian, x = _gaussian(0.7, columns=1), torch.linspace(-3, 3, 7).double()[:, None]
    torch.testing.assert_close(gaussian.optimal_noise(x, 0.6, 0.8), gaussian.noise_of_complete_rows(x, 0.6, 0.8))


def test_two_columns_by_hand() -> None:
    gaussian, a, s, rho = _gaussian(0.25, correlation=0.5), 0.6, 0.8, 0.25
    x = torch.tensor([[1.0, -0.5]], dtype=torch.float64)
    both = torch.distributions.MultivariateNormal(
        torch.zeros(2).double(), a**2 * gaussian.covariance + s**2 * torch.eye(2).double()
    )
    first = torch.distributions.Normal(0.0, 1.0).log_prob(x[0, 0])  # a^2 + s^2 = 1, whatever the other column
    second = torch.distributions.Normal(0.0, s).log_prob(x[0, 1])
    with_both = (1 - rho) * both.log_prob(x)[0].exp()
    alone = rho * (first + second).exp()
    solved = torch.linalg.solve(both.covariance_matrix, x[0])
    expected = (with_both * s * solved[0] + alone * s * x[0, 0]) / (with_both + alone)
    assert float(gaussian.optimal_noise(x, a, s)[0, 0]) == pytest.approx(float(expected))


def test_no_function_errs_less_on_simulated_rows() -> None:
    # At the minimiser the error over rows that hold a column is uncorrelated with every function of the row.
    gaussian, alpha, sigma = _gaussian(0.4, columns=3, mean=0.5), 0.6, 0.8
    random = torch.Generator().manual_seed(0)
    noise, unit = (torch.randn(200_000, 3, generator=random, dtype=torch.float64) for _ in range(2))
    held = (torch.rand(200_000, 3, generator=random) >= 0.4).double()
    x = alpha * held * (gaussian.mean + unit @ torch.linalg.cholesky(gaussian.covariance).T) + sigma * noise
    functions = torch.stack([torch.ones_like(x[:, 0]), *x.T, *(x**2).T, x[:, 0] * x[:, 1], x[:, 1] * x[:, 2]])

    def furthest(guess: torch.Tensor) -> float:  # from zero, in standard errors
        products = functions[:, :, None] * (held * (noise - guess))
        return float((products.mean(1) / products.std(1)).abs().max() * len(x) ** 0.5)

    assert furthest(gaussian.optimal_noise(x, alpha, sigma)) < 4
    assert furthest(gaussian.noise_of_complete_rows(x, alpha, sigma)) > 40


def test_the_theorem_holds_where_nothing_is_missing() -> None:
    assert _drawn_correlation(_gaussian(0.0)) == _drawn_correlation(_gaussian(0.0), promised=True)


def test_zero_filled_rows_are_learnt_with_a_bias_that_grows() -> None:
    promised = _drawn_correlation(_gaussian(0.5), promised=True)
    drawn = [_drawn_correlation(_gaussian(missing)) for missing in (0.2, 0.5, 0.9)]
    assert promised > 0.88
    assert promised - 0.06 < drawn[0] < promised - 0.02
    assert drawn[0] > drawn[1] > drawn[2]
    assert drawn[2] < 0.7


def test_the_theorem_holds_where_a_hole_can_be_seen() -> None:
    # Data far from 0: a zero-filled cell is told from an observed one at every level that still matters.
    far = _gaussian(0.5, mean=30.0)
    assert _drawn_correlation(far) == pytest.approx(_drawn_correlation(far, promised=True), abs=0.005)


def test_a_row_that_no_observed_cell_explains_has_a_finite_minimiser() -> None:
    # At 0 every cell looks missing; what is learnt there is still of the rows that hold it, of which both may.
    far, x = _gaussian(0.5, correlation=0.0, mean=100.0), torch.zeros(1, 2, dtype=torch.float64)
    expected = far.noise_of_complete_rows(x, 0.99, 0.1)
    torch.testing.assert_close(far.optimal_noise(x, 0.99, 0.1), expected)


@pytest.mark.parametrize("missing", [-0.1, 1.0])
def test_shares_that_cannot_be(missing: float) -> None:
    with pytest.raises(ValueError, match="missing must be at least 0 and less than 1"):
        _gaussian(missing)


@pytest.mark.parametrize(
    ("mean", "covariance", "message"),
    [
        (torch.zeros(2), -torch.eye(2), "covariance must be symmetric, with no negative eigenvalue"),
        (torch.zeros(2), torch.tensor([[1.0, 0.9], [0.0, 1.0]]), "covariance must be symmetric"),
        (torch.zeros(3), torch.eye(2), r"covariance must be \[3, 3\], as mean is \[3\], got \[2, 2\]"),
        (torch.tensor([0.0, torch.nan]), torch.eye(2), "mean and covariance must be finite"),
        (torch.zeros(40), torch.eye(40), r"mean must be of 1 to 16 columns, as there are 2\*\*d masks; got 40"),
    ],
)
def test_what_is_no_gaussian(mean: torch.Tensor, covariance: torch.Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MaskedGaussian(mean.double(), covariance.double(), 0.1)


@pytest.mark.parametrize(
    ("mean", "covariance", "missing", "message"),
    [
        ([0, 0], torch.eye(2), 0.1, r"mean must be a tensor of dtype float64, got \[0, 0\]"),
        (torch.zeros(2), [[1, 0], [0, 1]], 0.1, "covariance must be a tensor of dtype float64"),
        (torch.zeros(2, dtype=torch.int64), torch.eye(2), 0.1, "mean must be a tensor of dtype float64"),
        (torch.zeros(2), torch.eye(2), "0.1", "missing must be a number, got '0.1'"),
    ],
)
def test_arguments_of_a_wrong_type(mean: Any, covariance: Any, missing: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        MaskedGaussian(mean, covariance, missing)


def test_float32_is_taken() -> None:
    x = torch.tensor([[0.5, 0.1]], dtype=torch.float64)
    assert MaskedGaussian(torch.zeros(2), torch.eye(2), 0.1).optimal_noise(x, 0.8, 0.6).dtype == torch.float64
    with pytest.raises(ValueError, match=r"mean must be \[d\], a number for each column, got \[\]"):
        MaskedGaussian(torch.tensor(1.0), torch.eye(1), 0.1)


def test_too_few_rows_for_a_covariance() -> None:
    with pytest.raises(ValueError, match="rows must be at least 2, got 1"):
        drawn_moments(_gaussian(0.1), _PROCESS, rows=1)
    assert _drawn_correlation(_gaussian(0.0, correlation=1.0)) > 0.99  # it may be singular
