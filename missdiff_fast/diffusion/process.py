"""A noising process in T steps, with the solver that reverses it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from missdiff_fast.diffusion.schedule import alphas_cumprod, geometric_sigmas, quadratic_betas
from missdiff_fast.diffusion.solver import ancestral_ve, ancestral_vp


@dataclass(frozen=True)
class Process:
    """``x_t = alpha_t x_0 + sigma_t eps`` for t = 1 to T, all float64 on the CPU.

    Parameters
    ----------
    alpha, sigma : Tensor
        ``[T]``, ascending in noise.
    coefficients : Tensor
        Of `step` for a predicted noise, ``[T, 4]``, from step T down to step 1.
    prior : float
        Standard deviation of the noise that sampling starts from.

    Examples
    --------
    >>> process = variance_preserving(100, 1e-4, 0.5)
    >>> len(process), tuple(process.coefficients.shape), process.prior
    (100, (100, 4), 1.0)
    >>> torch.allclose(process.alpha**2 + process.sigma**2, torch.ones(100, dtype=torch.float64))
    True
    """

    alpha: Tensor
    sigma: Tensor
    coefficients: Tensor
    prior: float

    def __len__(self) -> int:
        return len(self.sigma)


def variance_preserving(steps: int, beta_min: float, beta_max: float, variance: str = "beta") -> Process:
    """The paper's process: the quadratic schedule of beta, and Algorithm 2.

    >>> process = variance_preserving(100, 1e-4, 0.5)
    >>> len(process), process.prior
    (100, 1.0)
    """
    betas = quadratic_betas(steps, beta_min, beta_max)
    share = alphas_cumprod(betas)
    return Process(share.sqrt(), (1 - share).sqrt(), ancestral_vp(betas, variance), 1.0)


def variance_exploding(steps: int, sigma_min: float, sigma_max: float, variance: str = "beta") -> Process:
    """The process of Song et al. (2021) with geometric levels, the paper's alternative.

    >>> variance_exploding(3, 0.1, 10.0).alpha.tolist()
    [1.0, 1.0, 1.0]
    """
    sigmas = geometric_sigmas(steps, sigma_min, sigma_max)
    return Process(torch.ones_like(sigmas), sigmas, ancestral_ve(sigmas, variance), float(sigmas[-1]))
