"""The default network."""

from __future__ import annotations

import torch

from missdiff_fast.diffusion.states import CLEAN, HIDDEN, NOISY
from missdiff_fast.networks import Denoiser
from missdiff_fast.table.encoded import Layout

LAYOUT = Layout(2, (3, 1, 4))


def _network(seed: int = 0) -> Denoiser:
    torch.manual_seed(seed)
    network = Denoiser(LAYOUT, width=16, blocks=2)
    torch.nn.init.normal_(network.outputs.weight)
    return network


def _batch(rows: int = 7) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    torch.manual_seed(1)
    return torch.randn(rows, LAYOUT.width), torch.rand(rows) + 0.1, torch.randint(0, 3, (rows, 5), dtype=torch.uint8)


def test_a_new_network_predicts_from_the_noisy_value_alone() -> None:
    # Zero-initialised outputs leave c_skip x for noisy continuous columns, and 0 for everything else.
    x, sigma, states = _batch()
    prediction = Denoiser(LAYOUT, width=16)(x, sigma, states)
    skip = torch.where(states[:, :2] == NOISY, x[:, :2] / (sigma[:, None] ** 2 + 1), 0.0)
    torch.testing.assert_close(prediction[:, :2], skip)
    assert prediction.shape == (7, LAYOUT.width + 2)
    assert not bool(prediction[:, 2:].any())


def test_hidden_columns_are_not_seen() -> None:
    x, sigma, states = _batch()
    states[:, 3], states[:, 0] = HIDDEN, HIDDEN
    other = x.clone()
    other[:, 5], other[:, 0] = 100.0, -100.0
    network = _network()
    assert torch.equal(network(x, sigma, states), network(other, sigma, states))


def test_clean_columns_are_seen_alike_at_every_level() -> None:
    x, _, states = _batch()
    states[:] = CLEAN
    network = _network()
    with torch.no_grad():
        network.level[2].weight.zero_()  # the level's own embedding aside
    low, high = network(x, torch.full((7,), 0.1), states), network(x, torch.full((7,), 9.0), states)
    torch.testing.assert_close(low, high)


def test_the_factors_of_the_input() -> None:
    states = torch.tensor([[NOISY, CLEAN, NOISY, CLEAN, HIDDEN]], dtype=torch.uint8)
    scale = Denoiser(LAYOUT, width=16).prepare(torch.tensor([2.0]), states).scale[0]
    noisy, clean = [0.5 / 4.25] * 3, [2.0] * 5  # of groups of three, one and four columns
    torch.testing.assert_close(scale, torch.tensor([0.2, 1.0, *noisy, *clean]))


def test_what_is_seen_of_a_cell_falls_with_its_noise_to_nothing() -> None:
    noise, _, states = _batch()
    states[:] = NOISY
    network = _network()
    with torch.no_grad():
        network.inputs.weight[:, LAYOUT.width :].zero_()  # the states and the level's embedding aside
        network.level[2].weight.zero_()
        hidden = network(noise, torch.ones(7), torch.full_like(states, HIDDEN))
        seen = [network(sigma * noise, torch.full((7,), sigma), states) for sigma in (1.0, 10.0, 1000.0)]
    off = [float((prediction - hidden)[:, 2:].abs().max()) for prediction in seen]
    assert off[0] > 3 * off[1] > 30 * off[2] > 0


def test_one_level_for_all_rows_equals_one_for_each() -> None:
    x, _, states = _batch()
    network = _network()
    shared, repeated = network(x, torch.tensor([0.7]), states), network(x, torch.full((7,), 0.7), states)
    torch.testing.assert_close(shared, repeated)


def test_every_weight_is_trained() -> None:
    x, sigma, states = _batch()
    network = _network()
    network(x, sigma, states).square().sum().backward()
    assert all(bool(weight.grad.any()) for weight in network.parameters() if weight.grad is not None)
    assert all(weight.grad is not None for weight in network.parameters())
