"""The solver of ordinary differential equations."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from missdiff_fast.baselines.stasy.ode import solve


def test_one_step_by_hand() -> None:
    # A field that is a polynomial of degree 4 in t is integrated without error.
    x = solve(lambda t, x: torch.full_like(x, 5 * t**4), torch.zeros(2, dtype=torch.float64), 0.0, 2.0)
    assert x.tolist() == pytest.approx([32.0, 32.0])


@pytest.mark.parametrize(("start", "stop"), [(0.0, 3.0), (3.0, 0.0)])
def test_agrees_with_scipy(start: float, stop: float) -> None:
    integrate = pytest.importorskip("scipy.integrate")
    begin, calls = np.array([1.0, -0.5, 0.2, 2.0]), [0]

    def field(t: float, x: Tensor) -> Tensor:
        calls[0] += 1
        return torch.stack([x[1], -x[0] * (1 + t), torch.sin(3 * t * x[3]), -(x[2] ** 3)])

    def of_arrays(t: float, x: np.ndarray) -> np.ndarray:
        return field(t, torch.from_numpy(x)).numpy()

    ours = solve(lambda t, x: field(t, x.double()), torch.from_numpy(begin), start, stop, rtol=1e-6, atol=1e-6)
    used = calls[0]
    theirs = integrate.solve_ivp(of_arrays, (start, stop), begin, method="RK45", rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(ours.numpy(), theirs.y[:, -1], rtol=0, atol=1e-9)
    assert used == theirs.nfev


def test_a_batch_of_any_shape() -> None:
    begin = torch.rand(3, 2, 4, dtype=torch.float64)
    x = solve(lambda t, x: -2 * x, begin, 0.0, 1.0, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(x, begin * math.exp(-2), rtol=0, atol=1e-7)
    assert solve(lambda t, x: -x, begin[:0], 0.0, 1.0).shape == (0, 2, 4)
    assert solve(lambda t, x: -x, begin, 1.0, 1.0) is begin


def test_a_field_that_cannot_be_followed() -> None:
    for field in (lambda t, x: x * math.nan, lambda t, x: x**2):  # the second is infinite at t = 1
        with pytest.raises(FloatingPointError, match="cannot be followed"):
            solve(field, torch.ones(1, dtype=torch.float64), 0.0, 2.0)
