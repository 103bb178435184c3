"""STaSy's network, self-paced weights and training, worked by hand."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from missdiff_fast._engine.history import History
from missdiff_fast.baselines.stasy import self_paced
from missdiff_fast.baselines.stasy.network import LAYER_WIDTHS, ConcatSquash, ScoreNetwork
from missdiff_fast.baselines.stasy.sde import VESDE
from missdiff_fast.baselines.stasy.training import StasyPhase, train_phase, unlikely


def test_concat_squash_by_hand() -> None:
    layer = ConcatSquash(2, 1)
    for weight, value in zip(layer.parameters(), [[[2.0, -1.0]], [0.5], [[3.0]], [-1.0], [[0.25]]], strict=True):
        weight.data = torch.tensor(value)
    out = layer(torch.tensor([[1.0, 4.0]]), torch.tensor([[0.5]]))
    # (2 - 4 + 0.5) sigmoid(3 * 0.5 - 1) + 0.25 * 0.5
    assert out.item() == pytest.approx(-1.5 / (1 + math.exp(-0.5)) + 0.125)


def test_every_layer_sees_all_that_came_before() -> None:
    network = ScoreNetwork(105, LAYER_WIDTHS)
    widths = [layer.linear.in_features for layer in network.layers]
    assert [*widths, network.outputs.in_features] == [105, 361, 873, 1897, 2921, 3433, 3689]


def test_network_by_hand() -> None:
    network = ScoreNetwork(1, (1,))
    for weight, value in zip(
        network.parameters(), [[[1.0]], [0], [[0.0]], [0], [[0.0]], [[2.0, 3.0]], [1]], strict=True
    ):
        weight.data = torch.tensor(value, dtype=torch.float32)
    # The layer gives x / 2; both it and x pass the activation.
    assert network(torch.tensor([[4.0]]), torch.ones(1, 1)).item() == pytest.approx(2 * 2 + 3 * 4 + 1)
    low = network(torch.tensor([[-4.0]]), torch.ones(1, 1)).item()
    assert low == pytest.approx(2 * math.expm1(-2) + 3 * math.expm1(-4) + 1)


def test_shares_rise_to_one() -> None:
    assert self_paced.share(0, 0.95) == 0.95
    assert self_paced.share(1000, 0.3) == pytest.approx(0.3 + math.log(1 + 0.0001718 * 1000 * 0.7), abs=1e-4)
    shares = [self_paced.share(step, 0.3) for step in range(0, 20_000, 100)]
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


def test_weights_by_hand() -> None:
    losses = torch.arange(11.0).flip(0)
    expected = [0, 0, 0, 0.25, 0.5, 0.75, 1, 1, 1, 1, 1]  # quantiles 4 and 8; a loss of 8 is the last not left out
    assert self_paced.weights(losses, 0.4, 0.8).tolist() == pytest.approx(expected)
    assert self_paced.weights(losses, 1.0, 1.0).tolist() == [1.0] * 11
    assert self_paced.weights(torch.ones(4), 0.3, 0.9).tolist() == [1.0] * 4
    assert self_paced.weights(torch.ones(1), 0.3, 0.9).tolist() == [1.0]


class Constant(nn.Module):
    """A score that is the same everywhere."""

    def __init__(self) -> None:
        super().__init__()
        self.value = nn.Parameter(torch.zeros(1))

    def forward(self, x: Tensor, sigma: Tensor) -> Tensor:
        return self.value.expand_as(x)


def test_warm_up_and_clipping_bound_the_first_steps() -> None:
    network, history = Constant(), History()
    phase = StasyPhase("", epochs=3, batch_size=5, learning_rate=0.1, warmup=10)
    train_phase(network, VESDE(), torch.zeros(5, 2), phase, 0, history, quiet=True)
    # Adam's first step has the size of the learning rate, here 0.1, 0.2 and 0.3 of it at most.
    assert 0 < abs(network.value.item()) <= 0.1 * (0.1 + 0.2 + 0.3) + 1e-6
    assert history.step == [1, 2, 3]


def test_the_average_of_weights_is_what_stays() -> None:
    values = []
    for ema in (None, 0.9999):
        network = Constant()
        phase = StasyPhase("", epochs=1, batch_size=8, learning_rate=0.1, ema=ema, self_paced=(0.3, 0.95))
        train_phase(network, VESDE(), torch.zeros(8, 2), phase, 0, History(), quiet=True)
        values.append(network.value.item())
    # After one update the average has gone 9/10 of the way from its start.
    assert values[1] == pytest.approx(0.9 * values[0])


class Infinite(Constant):
    """A score that is infinite everywhere."""

    def forward(self, x: Tensor, sigma: Tensor) -> Tensor:
        return (self.value + math.inf).expand_as(x)


def test_training_that_diverges() -> None:
    phase = StasyPhase("", epochs=1, batch_size=8, learning_rate=0.1)
    with pytest.raises(FloatingPointError, match="lower learning_rate"):
        train_phase(Infinite(), VESDE(), torch.zeros(8, 2), phase, 0, History(), quiet=True)


class Standard(Constant):
    """The score of N(0, 0.1^2)."""

    def forward(self, x: Tensor, sigma: Tensor) -> Tensor:
        return -x / (0.01 + sigma**2) + 0 * self.value


def test_the_unlikelier_half_is_picked() -> None:
    x = 0.1 * torch.randn(101, 2, generator=torch.Generator().manual_seed(0))
    network = Standard()
    picked = unlikely(network, VESDE(), x, 1, 0, quiet=True)
    size = x.square().sum(1)
    assert torch.equal(picked, x[size >= size.median()])
    assert all(weight.requires_grad for weight in network.parameters())
