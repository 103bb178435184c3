"""Errors shrunk by what chance explains of them."""

from __future__ import annotations

import pytest
import torch

from missdiff_fast._engine.shrinkage import _variance, expected


def test_errors_within_chance_are_no_errors() -> None:
    generator = torch.Generator().manual_seed(0)
    variance = 1 / torch.randint(50, 3000, (500,), generator=generator).double()
    chance = torch.randn(500, generator=generator).double() * variance.sqrt()
    assert _variance(chance.square(), variance) < 1e-4
    more = chance + 0.1 * torch.randn(500, generator=generator).double()
    assert _variance(more.square(), variance) == pytest.approx(0.01, rel=0.15)


def test_shrunk_errors_are_nearer_to_the_true_ones() -> None:
    generator = torch.Generator().manual_seed(1)
    variance = 1 / torch.randint(50, 3000, (2000,), generator=generator).double()
    true = 0.05 * torch.randn(2000, generator=generator).double()
    seen = true + torch.randn(2000, generator=generator).double() * variance.sqrt()
    wrong = [(errors - true).square().mean() for errors in (seen, torch.zeros_like(true), expected(seen, variance))]
    assert wrong[2] < 0.8 * min(wrong[:2])


def test_no_errors_and_errors_without_variance() -> None:
    nothing = torch.empty(0)
    assert expected(nothing, nothing).shape == (0,)
    assert expected(torch.zeros(3), torch.zeros(3)).tolist() == [0, 0, 0]
    torch.testing.assert_close(expected(torch.tensor([0.5, -0.5]), torch.zeros(2)), torch.tensor([0.5, -0.5]))
