"""`adamw`: one fused update of flat weights, their moments and their exponential moving average."""

from __future__ import annotations

from types import ModuleType

import pytest
import torch
from batches import strided
from tolerances import assert_close
from torch import Tensor

from missdiff_fast.ops import reference

SIZES = [0, 1, 3, 4, 15, 16, 17, 1023, 4096, 9001]  # panels: 16 weights; blocks: 1,024 on a GPU, 4,096 on the CPU


def _state(size: int, device: torch.device, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    """Weights, exp_avg, exp_avg_sq, ema, and a gradient of numbers of many magnitudes."""
    g = torch.Generator().manual_seed(size)
    weights, exp_avg, exp_avg_sq, ema, gradient = torch.randn(5, size, generator=g, dtype=torch.float64)
    gradient = gradient * torch.exp(torch.randn(size, generator=g, dtype=torch.float64))
    return [x.float().to(device, dtype) for x in (weights, 0.1 * exp_avg, 0.5 + exp_avg_sq.abs(), ema, gradient)]


def _schedule(step: int, device: torch.device, rate: float = 0.01, decay: float = 0.9) -> Tensor:
    return torch.tensor([rate, step, decay], dtype=torch.float64, device=device)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("step", [1, 8, 100_000])
def test_native_is_the_reference(native: ModuleType, device: torch.device, size: int, step: int) -> None:
    ours, truth = _state(size, device), _state(size, device, torch.float64)
    before = ours[4].clone()
    native.adamw(*ours, _schedule(step, device))
    reference.adamw(*truth, _schedule(step, device))
    assert torch.equal(ours[4], before)
    for mine, expected in zip(ours, truth, strict=True):
        assert_close("adamw", mine, expected)


def test_it_is_pytorchs_adamw(backend: ModuleType, device: torch.device) -> None:
    weight = torch.nn.Parameter(_state(1000, device)[0].clone())
    optimizer = torch.optim.AdamW([weight], lr=1e-3, weight_decay=0.0)
    flat = [weight.detach().clone(), *torch.zeros(2, 1000, device=device), weight.detach().clone()]
    ema = weight.detach().clone()
    for step in range(1, 6):
        gradient = _state(1000 + step, device)[4][:1000]
        weight.grad = gradient.clone()
        optimizer.step()
        ema.lerp_(weight.detach(), 0.25)
        backend.adamw(*flat, gradient, _schedule(step, device, rate=1e-3, decay=0.75))
    moments = optimizer.state[weight]
    torch.testing.assert_close(flat[0], weight.detach())
    torch.testing.assert_close(flat[1], moments["exp_avg"])
    torch.testing.assert_close(flat[2], moments["exp_avg_sq"])
    torch.testing.assert_close(flat[3], ema)


def test_a_gradient_with_gaps(native: ModuleType, device: torch.device) -> None:
    one, other = _state(100, device), _state(100, device)
    native.adamw(*one, _schedule(3, device))
    native.adamw(*other[:4], strided(other[4]), strided(_schedule(3, device)))
    assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def test_bad_arguments_are_named(native: ModuleType, device: torch.device) -> None:
    good, schedule = _state(32, device), _schedule(1, device)
    changes = [
        (0, good[0].double(), "weights must be float32"),
        (1, good[1][:-1], "exp_avg must have shape"),
        (2, torch.stack([good[2]] * 2, 1)[:, 0], "exp_avg_sq must be contiguous"),
        (3, good[3].clone().requires_grad_(), "ema must be contiguous and without gradient"),
        (4, good[4][:-1], "gradient must have shape"),
    ]
    for place, wrong, message in changes:
        with pytest.raises((ValueError, TypeError), match=message):
            native.adamw(*good[:place], wrong, *good[place + 1 :], schedule)
    with pytest.raises(TypeError, match="schedule must be float64"):
        native.adamw(*good, schedule.float())
    with pytest.raises(ValueError, match="no derivative with respect to gradient"):
        native.adamw(*good[:4], good[4].requires_grad_(), schedule)


def test_state_that_shares_memory_is_refused(native: ModuleType, device: torch.device) -> None:
    weights, exp_avg, _, ema, gradient = _state(32, device)
    with pytest.raises(RuntimeError, match="share memory"):
        native.adamw(weights, exp_avg, weights, ema, gradient, _schedule(1, device))


def test_registration(native: ModuleType, device: torch.device) -> None:
    torch.library.opcheck(torch.ops.missdiff_fast.adamw.default, (*_state(17, device), _schedule(1, device)))


def test_autograd_is_told_of_the_change(native: ModuleType, device: torch.device) -> None:
    state = _state(8, device)
    p = torch.ones(8, device=device, requires_grad=True)
    product = (p * state[0]).sum()
    native.adamw(*state, _schedule(1, device))
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.backward()
