"""A bound on the negative log-likelihood, from the squared errors of the predicted noise at every level.

A sampler that goes back level by level with Gaussian steps is a latent-variable model whose evidence bound is a sum of
Kullback-Leibler divergences (Ho et al., 2020), one for each level and encoded column. Each is affine in the squared
error of the predicted noise: a weight times the denoising score-matching objective, plus a constant. That is the
right-hand side of the paper's Theorem 3.2 in discrete time.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from missdiff_fast.diffusion.process import Process


def evidence_bound(process: Process, errors: Tensor, x0: Tensor, observed: Tensor, factor: float = 1.0) -> Tensor:
    """The bound for each row's observed columns, in nats: float64 ``[B]``.

    Parameters
    ----------
    process : Process
        Its last reverse step adds no noise in sampling; here it has the variance of the first level.
    errors : Tensor
        Squared errors of the predicted noise at each level, summed over the row's observed columns: float64 ``[B, T]``.
    x0 : Tensor
        Encoded rows, float64 ``[B, D]``.
    observed : Tensor
        bool ``[B, D]``.
    factor : float
        ``1 / (1 - rho_max)`` of Theorem 3.2, on the score-matching part alone.

    Examples
    --------
    A standard normal column, whose entropy is 1.42 nats, and the mean errors of the best prediction of its noise:

    >>> from missdiff_fast.diffusion.process import variance_exploding
    >>> process = variance_exploding(100, 0.02, 20.0)
    >>> errors, x0 = (1 / (1 + process.sigma**2))[None], torch.ones(1, 1, dtype=torch.float64)
    >>> round(float(evidence_bound(process, errors, x0, torch.tensor([[True]]))), 2)
    1.59
    >>> float(evidence_bound(process, 0 * errors, x0, torch.tensor([[False]])))  # nothing observed, nothing to bound
    0.0
    """
    alpha, sigma = process.alpha, process.sigma
    ratio = alpha / torch.cat([alpha.new_ones(1), alpha[:-1]])
    before = torch.cat([sigma.new_zeros(1), sigma[:-1]])  # sigma_{t-1}
    posterior = (sigma**2 - (ratio * before) ** 2) * (before / sigma) ** 2  # variance of x_{t-1} given x_t and x_0
    # Given the true noise the reverse step's mean is the posterior's; an error e of the noise shifts it by c1 e.
    shift, reverse = process.coefficients[:, 1].flip(0) ** 2, process.coefficients[:, 3].flip(0) ** 2
    reverse[0] = sigma[0] ** 2
    matching = errors @ (shift / (2 * reverse)).to(errors.device)
    spread = (posterior / reverse)[1:]
    constant = 0.5 * (spread - 1 - spread.log()).sum() + 0.5 * torch.log(2 * math.pi * reverse[0])
    a, s = float(alpha[-1]) / process.prior, float(sigma[-1]) / process.prior
    prior = 0.5 * (a**2 * x0**2 + s**2 - 1 - math.log(s**2))
    return factor * matching + torch.where(observed, prior + float(constant), 0.0).sum(1)
