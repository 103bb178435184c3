"""The evidence bound, on a Gaussian whose likelihood is known."""

from __future__ import annotations

import math

import pytest
import torch

from missdiff_fast.diffusion.likelihood import evidence_bound
from missdiff_fast.diffusion.process import Process, variance_exploding, variance_preserving

_STD = 0.8
_PROCESSES = {
    "vp": variance_preserving(400, 1e-4, 0.05),
    "vp posterior": variance_preserving(400, 1e-4, 0.05, "posterior"),
    "ve": variance_exploding(400, 0.02, 20.0),
    "ve posterior": variance_exploding(400, 0.02, 20.0, "posterior"),
}


def _bound(process: Process, x0: torch.Tensor, observed: torch.Tensor, factor: float = 1.0) -> torch.Tensor:
    """The bound with the exact prediction of the noise for N(0, _STD^2), its errors in expectation over the noise."""
    a, s = process.alpha[:, None, None], process.sigma[:, None, None]
    # eps - E[eps | x_t] with x_t = a x0 + s eps has mean and variance in closed form.
    gain = s / (a**2 * _STD**2 + s**2)
    error = (gain * a * x0) ** 2 + (1 - gain * s) ** 2
    return evidence_bound(process, torch.where(observed, error, 0.0).sum(2).T, x0, observed, factor)


@pytest.mark.parametrize("name", list(_PROCESSES))
def test_the_bound_holds_and_is_near(name: str) -> None:
    torch.manual_seed(0)
    x0 = _STD * torch.randn(20_000, 2, dtype=torch.float64)
    exact = -torch.distributions.Normal(0.0, _STD).log_prob(x0).sum(1).mean()
    bound = _bound(_PROCESSES[name], x0, torch.ones_like(x0, dtype=torch.bool)).mean()
    # The posterior's variance is right for a known row alone, and too small by half where the noise begins.
    assert float(exact) < float(bound) < float(exact) + (1.0 if "posterior" in name else 0.15)


def test_a_missing_column_does_not_count() -> None:
    x0 = torch.tensor([[0.3, 5.0], [0.3, 0.0]], dtype=torch.float64)
    seen = torch.tensor([[True, False], [True, False]])
    both = _bound(_PROCESSES["vp"], x0, seen)
    assert both[0] == both[1]
    alone = _bound(_PROCESSES["vp"], x0[:, :1], seen[:, :1])
    torch.testing.assert_close(both, alone)
    assert _bound(_PROCESSES["vp"], x0, torch.zeros(2, 2, dtype=torch.bool)).tolist() == [0.0, 0.0]


def test_the_factor_of_theorem_3_2_is_on_the_errors_alone() -> None:
    x0, seen = torch.tensor([[0.3]], dtype=torch.float64), torch.tensor([[True]])
    process = _PROCESSES["vp"]
    none = evidence_bound(process, torch.zeros(1, 400, dtype=torch.float64), x0, seen)
    plain, scaled = _bound(process, x0, seen), _bound(process, x0, seen, factor=1.25)
    torch.testing.assert_close(scaled - none, 1.25 * (plain - none))


def test_two_levels_by_hand() -> None:
    process = variance_preserving(2, 0.1, 0.4)
    x0, seen = torch.tensor([[0.5]], dtype=torch.float64), torch.tensor([[True]])
    e1, e2 = 0.3, 0.7
    share = 0.9 * 0.6
    last = 0.5 * (share * 0.25 + (1 - share) - 1 - math.log(1 - share))
    posterior = 0.4 * 0.1 / (1 - share)
    shift = 0.4**2 / (0.6 * (1 - share)) * e2  # squared distance of the two means
    step = math.log(math.sqrt(0.4 / posterior)) + (posterior + shift) / (2 * 0.4) - 0.5
    first = 0.5 * math.log(2 * math.pi * 0.1) + 0.1 / 0.9 * e1 / (2 * 0.1)
    bound = evidence_bound(process, torch.tensor([[e1, e2]], dtype=torch.float64), x0, seen)
    assert float(bound) == pytest.approx(last + step + first)
