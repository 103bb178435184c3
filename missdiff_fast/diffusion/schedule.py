"""Noise levels of training and sampling.

A noisy cell is ``x0 + sigma eps`` (the variance-exploding form; the variance-preserving one is the same up to a factor,
with ``alpha = 1 / sqrt(1 + sigma^2)``). Scores have a standard deviation of 1, one-hot columns of 1/2. The loss weight
of scores and the levels of the solver are those of Karras et al., "Elucidating the design space of diffusion-based
generative models" (2022).
"""

from __future__ import annotations

import torch
from torch import Tensor

CONTINUOUS_STD = 1.0
ONE_HOT_STD = 0.5


def noise_weight(sigma: Tensor) -> Tensor:
    """Weight of a squared error of x0 at level sigma, so that all levels contribute equally to the loss."""
    return (sigma * sigma + 1) / (sigma * sigma)


def karras_sigmas(steps: int, sigma_max: float, sigma_min: float, rho: float) -> Tensor:
    """Levels from sigma_max down to sigma_min, evenly spaced in ``sigma^(1/rho)``, then 0: float64 ``[steps + 1]``.

    >>> karras_sigmas(3, 8.0, 1.0, 3.0).tolist()
    [8.0, 3.375, 1.0, 0.0]
    """
    ends = torch.tensor([sigma_max, sigma_min], dtype=torch.float64) ** (1 / rho)
    ramp = torch.linspace(0, 1, steps, dtype=torch.float64)
    levels = (ends[0] + ramp * (ends[1] - ends[0])) ** rho
    levels[0], levels[-1] = sigma_max, sigma_min if steps > 1 else sigma_max
    return torch.cat([levels, torch.zeros(1, dtype=torch.float64)])


def quadratic_betas(steps: int, beta_min: float, beta_max: float) -> Tensor:
    """The paper's variance schedule beta_1 to beta_T, evenly spaced in the square root: float64 ``[steps]``.

    >>> quadratic_betas(3, 0.01, 0.25).round(decimals=6).tolist()
    [0.01, 0.09, 0.25]
    """
    return torch.linspace(beta_min**0.5, beta_max**0.5, steps, dtype=torch.float64).square()


def alphas_cumprod(betas: Tensor) -> Tensor:
    """alpha-bar of the variance-preserving process, ``prod(1 - beta)`` up to each step: float64 ``[steps]``."""
    return torch.cumprod(1 - betas, 0)


def geometric_sigmas(steps: int, sigma_min: float, sigma_max: float) -> Tensor:
    """Noise levels of the variance-exploding process of Song et al. (2021), ascending: float64 ``[steps]``.

    >>> geometric_sigmas(3, 0.1, 10.0).round(decimals=3).tolist()
    [0.1, 1.0, 10.0]
    """
    ends = torch.tensor([sigma_min, sigma_max], dtype=torch.float64).log()
    return torch.linspace(float(ends[0]), float(ends[1]), steps, dtype=torch.float64).exp()
