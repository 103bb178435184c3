"""Solvers, as rows of coefficients for the `step` op."""

from __future__ import annotations

import torch
from torch import Tensor


def dpm_solver_2m(sigmas: Tensor) -> Tensor:
    """DPM-Solver++(2M) of Lu et al. (2022) over the levels ``sigmas``, the last of which is 0: float64 ``[steps, 4]``.

    Row i holds (c0, c1, c2, c3) of ``x <- c0 x + c1 p + c2 previous + c3 eps`` from level i to level i + 1. The first
    step has no previous prediction and is of first order; the last step returns the prediction.

    >>> dpm_solver_2m(torch.tensor([4.0, 2.0, 1.0, 0.0])).tolist()
    [[0.5, 0.5, 0.0, 0.0], [0.5, 0.75, -0.25, 0.0], [0.0, 1.0, 0.0, 0.0]]
    """
    sigmas = sigmas.to(torch.float64)
    coefficients = torch.zeros((len(sigmas) - 1, 4), dtype=torch.float64)
    log_steps = torch.log(sigmas[:-2] / sigmas[1:-1])
    for i, h in enumerate(log_steps):
        ratio = sigmas[i + 1] / sigmas[i]
        coefficients[i, 0] = ratio
        coefficients[i, 1] = 1 - ratio
        if i:
            extrapolation = h / (2 * log_steps[i - 1])
            coefficients[i, 1] = (1 - ratio) * (1 + extrapolation)
            coefficients[i, 2] = -(1 - ratio) * extrapolation
    coefficients[-1, 1] = 1.0
    return coefficients


def ancestral_vp(betas: Tensor, variance: str = "beta") -> Tensor:
    """The paper's Algorithm 2 for a prediction of the noise: float64 ``[T, 4]``, from step T down to step 1.

    ``x <- (x - beta_t / sqrt(1 - alpha-bar_t) eps_hat) / sqrt(1 - beta_t) + s_t z``, where s_t^2 is beta_t as printed,
    or the variance of x_{t-1} given x_t and x_0 ("posterior", as in the released code). The last step adds no noise.

    >>> ancestral_vp(torch.tensor([0.1, 0.36], dtype=torch.float64))[0].round(decimals=3).tolist()
    [1.25, -0.691, 0.0, 0.6]
    """
    share = torch.cumprod(1 - betas, 0)
    before = torch.cat([share.new_ones(1), share[:-1]])
    spread = betas if variance == "beta" else betas * (1 - before) / (1 - share)
    coefficients = betas.new_zeros(len(betas), 4, dtype=torch.float64)
    coefficients[:, 0] = (1 - betas).rsqrt()
    coefficients[:, 1] = -betas * ((1 - share) * (1 - betas)).rsqrt()
    coefficients[:, 3] = spread.sqrt()
    coefficients[0, 3] = 0.0
    return coefficients.flip(0)


def ancestral_ve(sigmas: Tensor, variance: str = "beta") -> Tensor:
    """The reverse of the variance-exploding process for a prediction of the noise: float64 ``[T, 4]``, T down to 1.

    ``x <- x - (sigma_t^2 - sigma_{t-1}^2) / sigma_t eps_hat + s_t z``, where s_t^2 is sigma_t^2 - sigma_{t-1}^2 (the
    reverse diffusion sampler of Song et al., 2021) or that times sigma_{t-1}^2 / sigma_t^2 ("posterior", their
    ancestral one). sigma_0 is 0, so the last step adds no noise.

    >>> ancestral_ve(torch.tensor([3.0, 5.0]))[0].tolist()
    [1.0, -3.2, 0.0, 4.0]
    """
    sigmas = sigmas.to(torch.float64)
    before = torch.cat([sigmas.new_zeros(1), sigmas[:-1]])
    gap = sigmas**2 - before**2
    coefficients = sigmas.new_zeros(len(sigmas), 4)
    coefficients[:, 0] = 1.0
    coefficients[:, 1] = -gap / sigmas
    coefficients[:, 3] = (gap if variance == "beta" else gap * (before / sigmas) ** 2).sqrt()
    coefficients[0, 3] = 0.0
    return coefficients.flip(0)
