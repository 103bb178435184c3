"""Errors shrunk by what chance explains of them."""

from __future__ import annotations

import math

from torch import Tensor

_HALVINGS = 60  # of the interval that holds the variance of the expected errors
_LEAST = 1e-12  # sampling variance
_CHANCE = 2.0  # standard deviations


def expected(errors: Tensor, variances: Tensor) -> Tensor:
    """The expected values of errors that chance blurs: an empirical Bayes estimate.

    The prior is normal with mean 0. Its variance is the estimate of Paule and Mandel (1982), with which the squared
    errors, divided by the sum of both variances, are 1 on average; it is 0 where chance explains all errors, up to two
    standard deviations of this average.

    Parameters
    ----------
    errors, variances : Tensor
        Of one shape: the errors, and their sampling variances.

    Examples
    --------
    >>> import torch
    >>> large, small = torch.tensor([[1.0, -2.0, 3.0], [0.1, -0.2, 0.3]], dtype=torch.float64)
    >>> expected(large, torch.ones(3)).round(decimals=2).tolist()
    [0.79, -1.57, 2.36]
    >>> expected(small, torch.ones(3)).abs().tolist()
    [0.0, 0.0, 0.0]
    """
    variances = variances.clamp(min=_LEAST)
    own = _variance(errors.square(), variances)
    return errors * own / (own + variances)


def _variance(squares: Tensor, variances: Tensor) -> float:
    count = squares.numel()
    if not count or float((squares / variances).mean()) <= 1 + _CHANCE * math.sqrt(2 / count):
        return 0.0
    low, high = 0.0, float(squares.max())
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        above = float((squares / (variances + middle)).mean()) > 1
        low, high = (middle, high) if above else (low, middle)
    return low
