"""Runge-Kutta of order 5(4) with adaptive steps, for a batch of rows on any device."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

# Dormand and Prince (1980): times, stages, and the difference of the two solutions' weights.
_TIMES = (0.0, 1 / 5, 3 / 10, 4 / 5, 8 / 9, 1.0)
_STAGES = (
    (),
    (1 / 5,),
    (3 / 40, 9 / 40),
    (44 / 45, -56 / 15, 32 / 9),
    (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
    (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
)
_WEIGHTS = (35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84)
_ERRORS = (-71 / 57600, 0.0, 71 / 16695, -71 / 1920, 17253 / 339200, -22 / 525, 1 / 40)
_SAFETY, _LEAST, _MOST, _EXPONENT = 0.9, 0.2, 10.0, -1 / 5

Field = Callable[[float, Tensor], Tensor]


def solve(field: Field, x: Tensor, start: float, stop: float, *, rtol: float = 1e-5, atol: float = 1e-5) -> Tensor:
    """Integrate ``dx/dt = field(t, x)`` from one time to another, as SciPy's ``solve_ivp`` with RK45 does.

    Unlike SciPy, the state stays on its device. The step is the same for all rows: it is chosen by the root mean
    square error over the whole state.

    Parameters
    ----------
    field : callable
        Of a time and a state, gives a tensor like the state.
    x : Tensor
        The state at ``start``, floating, any shape.
    start, stop : float
        ``stop`` may precede ``start``.
    rtol, atol : float
        The error allowed per step: ``atol + rtol |x|``.

    Returns
    -------
    Tensor
        The state at ``stop``.

    Raises
    ------
    FloatingPointError
        The step became too small for floating point, or the field is not finite.

    Examples
    --------
    >>> solve(lambda t, x: -x, torch.ones(1, dtype=torch.float64), 0.0, 1.0).round(decimals=4).item()
    0.3679
    """
    if x.numel() == 0 or start == stop:
        return x
    t, sign = start, 1.0 if stop > start else -1.0
    slope = field(t, x)
    step = _first_step(field, t, x, slope, abs(stop - start), sign, rtol, atol)
    while sign * (stop - t) > 0:
        rejected = False
        while True:
            # A negated comparison, so that NaN fails it.
            if not step > 10 * torch.finfo(torch.float64).eps * max(abs(t), 1e-300):
                raise FloatingPointError(
                    f"the solver's step is {step} at time {t}: the field cannot be followed; if a network gives it, "
                    "fit again with a lower learning_rate"
                )
            step = min(step, abs(stop - t))
            new, error, last = _attempt(field, t, x, slope, sign * step)
            norm = _rms(error / (atol + rtol * torch.maximum(x.abs(), new.abs())))
            if norm < 1:
                break
            step *= max(_LEAST, _SAFETY * norm**_EXPONENT) if norm == norm else _LEAST
            rejected = True
        t = stop if step >= abs(stop - t) else t + sign * step
        x, slope = new, last
        growth = _MOST if norm == 0 else min(_MOST, _SAFETY * norm**_EXPONENT)
        step *= min(1.0, growth) if rejected else growth
    return x


def _attempt(field: Field, t: float, x: Tensor, slope: Tensor, h: float) -> tuple[Tensor, Tensor, Tensor]:
    """One step: the new state, its error and the slope there."""
    slopes = [slope]
    for time, stage in zip(_TIMES[1:], _STAGES[1:], strict=True):
        slopes.append(field(t + time * h, x + h * _mix(stage, slopes)))
    new = x + h * _mix(_WEIGHTS, slopes)
    slopes.append(field(t + h, new))
    return new, h * _mix(_ERRORS, slopes), slopes[-1]


def _mix(weights: tuple[float, ...], slopes: list[Tensor]) -> Tensor:
    total = torch.zeros_like(slopes[0])
    for weight, slope in zip(weights, slopes, strict=True):
        total.add_(slope, alpha=weight)
    return total


def _rms(x: Tensor) -> float:
    return float(x.square().mean().sqrt())


def _first_step(
    field: Field, t: float, x: Tensor, slope: Tensor, span: float, sign: float, rtol: float, atol: float
) -> float:
    """Hairer, Norsett and Wanner (1993), section II.4."""
    scale = atol + rtol * x.abs()
    size, speed = _rms(x / scale), _rms(slope / scale)
    guess = min(1e-6 if size < 1e-5 or speed < 1e-5 else 0.01 * size / speed, span)
    bend = _rms((field(t + sign * guess, x + sign * guess * slope) - slope) / scale) / guess
    least = max(1e-6, 1e-3 * guess) if speed <= 1e-15 and bend <= 1e-15 else (0.01 / max(speed, bend)) ** 0.2
    return min(100 * guess, least, span)
