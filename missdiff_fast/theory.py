"""The minimiser of the masked objective in closed form, for Gaussian data.

The paper's Theorem 3.1 says that this minimiser is the score of complete rows. But the network sees zero-filled rows:
for column i, the minimiser at a noisy row x is the mean of the noise over all rows *that observe column i*, whatever
else they miss. It equals the score of complete rows if nothing is missing, or if x determines which cells are missing;
otherwise it is biased. `drawn_moments` measures the bias.
"""

from __future__ import annotations

from itertools import product

import torch
from torch import Tensor

from missdiff_fast._checks import check_count
from missdiff_fast._engine.random import check_seed
from missdiff_fast.diffusion.process import Process

MOST_COLUMNS = 16


class MaskedGaussian:
    """Rows of a Gaussian; each cell is replaced by 0 with probability ``missing``, independently.

    Parameters
    ----------
    mean, covariance : Tensor
        float64 ``[d]`` and ``[d, d]``, d at most 16.
    missing : float
        rho, in [0, 1).

    Raises
    ------
    ValueError, TypeError
        The arguments do not describe such a Gaussian.

    Examples
    --------
    >>> from missdiff_fast.diffusion.process import variance_preserving
    >>> pair = torch.tensor([[1.0, 0.9], [0.9, 1.0]], dtype=torch.float64)
    >>> gaussian = MaskedGaussian(torch.zeros(2, dtype=torch.float64), pair, missing=0.0)
    >>> x = torch.tensor([[0.5, 0.1]], dtype=torch.float64)
    >>> torch.allclose(gaussian.optimal_noise(x, 0.8, 0.6), gaussian.noise_of_complete_rows(x, 0.8, 0.6))
    True
    """

    def __init__(self, mean: Tensor, covariance: Tensor, missing: float) -> None:
        for name, value in (("mean", mean), ("covariance", covariance)):
            if not isinstance(value, Tensor) or not value.is_floating_point():
                raise TypeError(f"{name} must be a tensor of dtype float64, got {value!r}")
        if isinstance(missing, bool) or not isinstance(missing, (int, float)):
            raise TypeError(f"missing must be a number, got {missing!r}")
        if not 0 <= missing < 1:
            raise ValueError(f"missing must be at least 0 and less than 1, got {missing!r}")
        if mean.dim() != 1:
            raise ValueError(f"mean must be [d], a number for each column, got {list(mean.shape)}")
        size = len(mean)
        if not 1 <= size <= MOST_COLUMNS:
            raise ValueError(f"mean must be of 1 to {MOST_COLUMNS} columns, as there are 2**d masks; got {size}")
        if covariance.shape != (size, size):
            raise ValueError(f"covariance must be [{size}, {size}], as mean is [{size}], got {list(covariance.shape)}")
        if not bool(torch.isfinite(mean).all() and torch.isfinite(covariance).all()):
            raise ValueError("mean and covariance must be finite")
        spectrum = torch.linalg.eigvalsh(covariance)
        if not torch.allclose(covariance, covariance.T) or spectrum[0] < -1e-9 * spectrum[-1].abs():
            raise ValueError("covariance must be symmetric, with no negative eigenvalue")
        self.mean, self.covariance, self.missing = mean.double(), covariance.double(), missing

    def optimal_noise(self, x: Tensor, alpha: float, sigma: float) -> Tensor:
        """The minimiser of the masked objective at noisy rows ``x = alpha x_0 + sigma eps``, float64 ``[N, d]``."""
        total, weight, top = torch.zeros_like(x), torch.zeros_like(x), torch.full_like(x, -torch.inf)
        for mask in self._masks():
            log_density, noise = self._given(mask, x, alpha, sigma)
            held = mask > 0  # the loss of column i is over the rows that observe it
            probability = torch.where(held, log_density[:, None], -torch.inf)
            higher = torch.maximum(top, probability)
            kept = torch.where(higher > top, (top - higher).exp(), 1.0)
            share = torch.where(held, (probability - higher).exp(), 0.0)
            total, weight, top = total * kept + share * noise, weight * kept + share, higher
        return total / weight

    def noise_of_complete_rows(self, x: Tensor, alpha: float, sigma: float) -> Tensor:
        """The theorem's claim: ``-sigma`` times the score of complete noisy rows, float64 ``[N, d]``."""
        return self._given(torch.ones_like(self.mean), x, alpha, sigma)[1]

    def _masks(self) -> list[Tensor]:
        masks = [torch.tensor(bits, dtype=torch.float64) for bits in product((1.0, 0.0), repeat=len(self.mean))]
        return masks if self.missing else masks[:1]

    def _given(self, mask: Tensor, x: Tensor, alpha: float, sigma: float) -> tuple[Tensor, Tensor]:
        """For rows with this mask: log(P(mask) p(x | mask)) up to a constant ``[N]``, and E[eps | x] ``[N, d]``."""
        covariance = alpha**2 * mask[:, None] * self.covariance * mask + sigma**2 * torch.eye(len(mask)).double()
        factor = torch.linalg.cholesky(covariance)
        apart = (x - alpha * mask * self.mean).T
        solved = torch.cholesky_solve(apart, factor)
        log_density = -0.5 * (apart * solved).sum(0) - factor.diagonal().log().sum()
        held = int(mask.sum())
        probability = (1 - self.missing) ** held * self.missing ** (len(mask) - held)
        return log_density + torch.tensor(probability).double().log(), sigma * solved.T


def drawn_moments(
    gaussian: MaskedGaussian, process: Process, rows: int = 40_000, seed: int = 0, *, promised: bool = False
) -> tuple[Tensor, Tensor]:
    """Mean and covariance of the rows that a sampler draws with the minimiser, or with the theorem's score.

    Parameters
    ----------
    gaussian : MaskedGaussian
        d columns.
    process : Process
        The noising process and its solver.
    rows, seed : int
        Number of rows, and seed of their noise.
    promised : bool
        Whether to draw with the score of complete rows instead: the remaining error is the sampler's.

    Returns
    -------
    mean, covariance : Tensor
        float64 ``[d]`` and ``[d, d]``.

    Examples
    --------
    >>> from missdiff_fast.diffusion.process import variance_preserving
    >>> pair = torch.tensor([[1.0, 0.9], [0.9, 1.0]], dtype=torch.float64)
    >>> gaussian = MaskedGaussian(torch.zeros(2, dtype=torch.float64), pair, missing=0.9)
    >>> _, covariance = drawn_moments(gaussian, variance_preserving(100, 1e-4, 0.5))
    >>> round(float(covariance[0, 1] / covariance.diagonal().prod().sqrt()), 1)
    0.7
    """
    check_count("rows", rows, least=2)
    generator = torch.Generator().manual_seed(check_seed(seed))
    shape = rows, len(gaussian.mean)
    x = torch.randn(shape, generator=generator, dtype=torch.float64) * process.prior
    levels = zip(process.alpha.flip(0).tolist(), process.sigma.flip(0).tolist(), strict=True)
    predict = gaussian.noise_of_complete_rows if promised else gaussian.optimal_noise
    for (c0, c1, _, c3), (alpha, sigma) in zip(process.coefficients.tolist(), levels, strict=True):
        noise = torch.randn(shape, generator=generator, dtype=torch.float64)
        x = c0 * x + c1 * predict(x, alpha, sigma) + c3 * noise
    return x.mean(0), torch.cov(x.T)
