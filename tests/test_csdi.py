"""The paper's network."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from missdiff_fast.networks import CSDINetwork
from missdiff_fast.networks.csdi import Attention


def test_size_is_that_of_the_released_network_without_its_dead_layers() -> None:
    # 408,841 parameters, of which 100,864 belong to an attention over one time step, which is never used.
    network = CSDINetwork(width=9, steps=100)
    assert sum(weight.numel() for weight in network.parameters()) == 408_841 - 100_864
    wide = CSDINetwork(width=111, steps=100, channels=128)
    assert sum(weight.numel() for weight in wide.parameters()) == 1_185_545 - 332_544


def test_the_attention_is_pytorchs_encoder_layer() -> None:
    torch.manual_seed(0)
    ours = Attention(channels=8, heads=2, hidden=6, dropout=0.1).eval()
    theirs = nn.TransformerEncoderLayer(8, 2, 6, dropout=0.1, activation="gelu", batch_first=True).eval()
    pairs = {
        "self_attn.in_proj_": ours.projection,
        "self_attn.out_proj.": ours.merge,
        "linear1.": ours.up,
        "linear2.": ours.down,
        "norm1.": ours.norm_attention,
        "norm2.": ours.norm_mlp,
    }
    state = {f"{name}{part}": getattr(ours_, part) for name, ours_ in pairs.items() for part in ("weight", "bias")}
    theirs.load_state_dict(state)
    h = torch.randn(3, 5, 8)
    torch.testing.assert_close(ours(h), theirs(h))


def test_a_new_network_predicts_its_last_bias_alone() -> None:
    network = CSDINetwork(width=5, steps=10, channels=8, heads=2)
    prediction = network(torch.randn(4, 5), torch.tensor([0, 3, 9, 9]))
    assert torch.equal(prediction, network.outputs.bias.expand(4, 5))


def test_steps_are_embedded_by_their_sinusoids() -> None:
    table = CSDINetwork(width=2, steps=4, channels=4, heads=1).steps
    assert table.shape == (4, 128)
    assert table[3, 0] == pytest.approx(math.sin(3.0))
    assert table[3, 64 + 63] == pytest.approx(math.cos(3 * 10.0**4), abs=2e-3)  # float32 at an angle of 30,000


def test_columns_are_told_apart_and_rows_are_not_mixed() -> None:
    torch.manual_seed(0)
    network = CSDINetwork(width=5, steps=10, channels=8, heads=2).eval()
    nn.init.normal_(network.outputs.weight)
    x, t = torch.randn(4, 5), torch.tensor([7])
    with torch.no_grad():
        whole = network(x, t)
        torch.testing.assert_close(network(x[1:2], t), whole[1:2])
        torch.testing.assert_close(network(x, t.expand(4)), whole)
        assert not torch.allclose(network(x.flip(1), t).flip(1), whole)


def test_a_conditional_network_sees_what_is_known() -> None:
    torch.manual_seed(0)
    network = CSDINetwork(width=5, steps=10, channels=8, heads=2, conditional=True).eval()
    nn.init.normal_(network.outputs.weight)
    x, t, known = torch.randn(4, 5), torch.tensor([7]), torch.randn(4, 5)
    mask = torch.zeros(4, 5)
    with torch.no_grad():
        nothing = network(x, t, torch.zeros(4, 5), mask)
        mask[:, 2] = 1.0
        assert not torch.allclose(network(x, t, known * mask, mask), nothing)


def test_channels_that_heads_do_not_divide() -> None:
    with pytest.raises(ValueError, match="multiple of heads, got 10 and 4"):
        CSDINetwork(width=5, steps=10, channels=10)
