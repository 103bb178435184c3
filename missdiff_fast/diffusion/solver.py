"""Solvers as rows of coefficients for the one `step` op."""

from __future__ import annotations

import torch
from torch import Tensor


def dpm_solver_2m(sigmas: Tensor) -> Tensor:
    """DPM-Solver++(2M) of Lu et al. (2022) over the levels ``sigmas``, whose last is 0: float64 ``[steps, 4]``.

    Row i holds (c0, c1, c2, c3) of ``x <- c0 x + c1 p + c2 previous + c3 eps`` from level i to level i + 1. The first
    step is of first order, having no previous prediction, and the last one returns the prediction.

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
