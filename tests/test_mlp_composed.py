"""The training step made of matrix products and of ops between them, and those ops, on the CPU and on a card."""

from __future__ import annotations

import copy
from types import ModuleType
from typing import Any

import pytest
import torch
from batches import LAYOUTS, make_batch, make_prediction
from test_cuda_host_train import Normed
from test_mlp_train_step import Call, example
from tolerances import assert_close
from torch import Tensor

from missdiff_fast.diffusion.states import CLEAN, NOISY
from missdiff_fast.networks.packing import TrainingState, lay_out, unflatten
from missdiff_fast.ops import layers, mlp_ends, reference
from missdiff_fast.ops.mlp_composed import Workspace, composed_train_step
from missdiff_fast.ops.reference import layers as reference_layers
from missdiff_fast.ops.reference import mlp_ends as reference_ends
from missdiff_fast.table.encoded import Layout

FLAT = ("weights", "exp_avg", "exp_avg_sq", "ema")


def row_by_row(state: TrainingState, device: torch.device) -> TrainingState:
    """The same state on a device, without panels."""
    network = copy.deepcopy(state.network).to(device)
    flat = (lay_out(unflatten(state.network, x), panels=False).to(device) for x in state.flat())
    return TrainingState(network, *flat, state.steps, panels=False)


def step(call: Call, device: torch.device, times: int = 1) -> tuple[Tensor, TrainingState]:
    """The loss and the state after one composed step, or after several in one workspace."""
    state, b = row_by_row(call.state, device), call.batch.to(device)
    weight = None if call.column_weight is None else call.column_weight.to(device)
    count = b.table.observed()[b.rows].sum()[None]
    workspace = Workspace(state, len(b.rows))
    for _ in range(times):
        loss = composed_train_step(
            *(state, b.table, b.rows, b.states, call.loss_states.to(device), b.sigma, b.weight, b.key),
            torch.tensor([0.01, state.steps + 1, 0.9], dtype=torch.float64, device=device),
            state.network.level_features(b.sigma),
            count,
            mean_weight=0.4,
            column_weight=weight,
            workspace=workspace,
        )
        state.steps += 1
    return loss, state


def check(call: Call, device: torch.device, times: int = 1) -> None:
    """Against the reference in float64, as `mlp_train_step` is."""
    loss, state = step(call, device, times)
    truth = call.double()
    for _ in range(times):
        true_loss, truth.state = truth.step(reference)
    assert_close("masked_loss", loss, true_loss)
    for name in FLAT:
        expected = lay_out(unflatten(truth.state.network, getattr(truth.state, name)), panels=False)
        assert_close("mlp_train_step", getattr(state, name), expected)
    if times == 1:
        call.state.exp_avg.zero_()  # so that after the step it is a tenth of the gradient
        _, truth.state = call.double().step(reference)
        expected = lay_out(unflatten(truth.state.network, truth.state.exp_avg), panels=False)
        assert_close("mlp_train_step.grad", step(call, device)[1].exp_avg, expected)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_step_is_the_reference(native: ModuleType, device: torch.device, layout: Layout, weighted: bool) -> None:
    check(example(layout, weighted=weighted), device)


@pytest.mark.parametrize(("width", "blocks"), [(1, 1), (8, 0), (16, 3), (33, 1), (96, 3), (512, 2)])
def test_networks_of_every_size(native: ModuleType, device: torch.device, width: int, blocks: int) -> None:
    check(example(LAYOUTS["mixed"], width=width, blocks=blocks), device)


@pytest.mark.parametrize("size", [0, 1, 5, 300])
def test_batches_of_every_size(native: ModuleType, device: torch.device, size: int) -> None:
    check(example(LAYOUTS["big_groups"], size), device)


def test_a_workspace_holds_nothing_of_the_step_before(native: ModuleType, device: torch.device) -> None:
    check(example(LAYOUTS["mixed"]), device, times=3)


def test_padding_stays_zero(native: ModuleType, device: torch.device) -> None:
    _, state = step(example(LAYOUTS["mixed"], width=20), device)
    assert torch.equal(lay_out(state.unflatten(state.weights), panels=False), state.weights)


def test_the_same_bits_again(native: ModuleType, device: torch.device) -> None:
    (loss, one), (again, other) = (step(example(LAYOUTS["clinical"], 256), device) for _ in range(2))
    assert torch.equal(loss, again)
    assert all(torch.equal(getattr(one, name), getattr(other, name)) for name in FLAT)


def columns_of(x: Tensor) -> Tensor:
    """The same numbers as some columns of a wider matrix."""
    wide = torch.full((x.shape[0], x.shape[1] + 5), torch.nan, device=x.device)
    wide[:, 2:-3] = x
    return wide[:, 2:-3]


@pytest.mark.parametrize("inner", [True, False], ids=["of a block", "the last one"])
@pytest.mark.parametrize(("size", "width"), [(1, 1), (67, 96), (3, 513)])
def test_normalisation(native: ModuleType, device: torch.device, size: int, width: int, inner: bool) -> None:
    x = Normed.example(size, width)
    found, truth = [], []
    for module, to, place, results in (
        (layers, torch.float32, device, found),
        (reference_layers, torch.float64, torch.device("cpu"), truth),
    ):
        n = Normed(**{name: value.to(place, to) for name, value in vars(x).items()})
        if module is layers:
            n = Normed(**{name: columns_of(v) if v.dim() == 2 else v for name, v in vars(n).items()})
        out, following, stats = torch.zeros_like(n.h), torch.zeros_like(n.h), n.h.new_zeros(size, 2)
        level = (n.level, n.level_bias) if inner else (None, None)
        module.norm_forward(n.h, n.bias, n.gain, n.shift, *level, out, stats, following if inner else None)
        of_h = torch.zeros_like(n.h)
        rest = (n.residual, of_h, n.level, True) if inner else (None, of_h)
        module.norm_backward(n.h, n.bias, n.gain, stats, n.grad, *rest)
        results += [out, following, stats, of_h, n.h, n.level]
    for mine, expected in zip(found, truth, strict=True):
        assert_close("norm_forward", mine, expected)


@pytest.mark.parametrize(("size", "width"), [(1, 1), (67, 192), (300, 33)])
def test_silu_and_sums(native: ModuleType, device: torch.device, size: int, width: int) -> None:
    g = torch.Generator().manual_seed(0)
    x, grad = 4 * torch.randn(2, size, width, generator=g, dtype=torch.float64)
    bias, places = torch.randn(width, generator=g, dtype=torch.float64), torch.randperm(width + 3, generator=g)[:width]
    places[::4] = -1
    mine = [columns_of(x.float().to(device)), bias.float().to(device), columns_of(grad.float().to(device))]
    out, true_out = torch.zeros(size, width, device=device), torch.zeros(size, width, dtype=torch.float64)
    sums, true_sums = torch.zeros(width + 3, device=device), torch.zeros(width + 3, dtype=torch.float64)
    layers.silu_forward(*mine[:2], out)
    reference_layers.silu_forward(x, bias, true_out)
    assert_close("silu", out, true_out)
    layers.silu_backward(*mine)
    reference_layers.silu_backward(x, bias, grad)
    assert_close("silu", mine[0], x)
    layers.column_sums(mine[2], places.to(device), sums)
    reference_layers.column_sums(grad, places, true_sums)
    assert_close("column_sums", sums, true_sums)


@pytest.mark.parametrize("size", [0, 1, 67])
def test_input_and_loss(native: ModuleType, device: torch.device, layout: Layout, size: int) -> None:
    batch, width = make_batch(layout, size), layout.width + layout.num_continuous
    g = torch.Generator().manual_seed(1)
    judged = batch.states.masked_fill(torch.rand(batch.states.shape, generator=g) < 0.2, CLEAN)
    output, bias = make_prediction(size, width), torch.randn(width, generator=g)
    b, count = batch.to(device), torch.tensor([size + 3], device=device)
    cells = mlp_ends.mlp_input(b.table, b.rows, b.states, b.sigma, b.key)
    truth = reference_ends.mlp_input(batch.table, batch.rows, batch.states, batch.sigma, batch.key)
    assert_close("mlp_input", cells, truth)
    mine, wide = columns_of(output.to(device)), batch.double()
    given = bias.to(device), cells, b.table, b.rows, b.states, judged.to(device), b.sigma, b.weight, count
    loss = mlp_ends.mlp_loss(mine, *given)
    true = output.double()
    arguments = bias.double(), cells.double().cpu(), wide.table, wide.rows, wide.states, judged, wide.sigma
    true_loss = reference_ends.mlp_loss(true, *arguments, wide.weight, count.cpu())
    assert_close("mlp_loss", loss, true_loss)
    assert_close("mlp_loss.grad", mine, true)


def test_the_loss_is_that_of_the_network(native: ModuleType, device: torch.device) -> None:
    """The prediction is the one of `Denoiser`, and the gradient goes through it."""
    layout = LAYOUTS["mixed"]
    call, batch = example(layout), make_batch(layout).to(device)
    network = call.state.network.to(device)
    rows = batch.table, batch.rows, batch.states
    x = reference.perturb(*rows, torch.ones_like(batch.sigma), batch.sigma, batch.key)
    last: list[Tensor] = []
    network.outputs.register_forward_hook(lambda module, given, result: last.append(result))
    expected = reference.masked_loss(network(x, batch.sigma, batch.states), *rows, batch.weight)
    (gradient,) = torch.autograd.grad(expected, last[0])
    output = (last[0] - network.outputs.bias).detach()
    cells = mlp_ends.mlp_input(*rows, batch.sigma, batch.key)
    count = batch.table.observed()[batch.rows].sum()[None]
    rest = batch.states, batch.sigma, batch.weight, count
    loss = mlp_ends.mlp_loss(output, network.outputs.bias.detach(), cells, *rows, *rest)
    torch.testing.assert_close(loss, expected.detach(), rtol=1e-5, atol=0)
    torch.testing.assert_close(output, gradient, rtol=1e-4, atol=1e-6)


def test_what_the_ops_cannot_take_is_refused(native: ModuleType) -> None:
    batch = make_batch(LAYOUTS["mixed"], 5)
    rows = batch.table, batch.rows, batch.states
    with pytest.raises(TypeError, match="sigma must be float32"):
        mlp_ends.mlp_input(*rows, batch.sigma.double(), batch.key)
    with pytest.raises(ValueError, match="key must have shape"):
        mlp_ends.mlp_input(*rows, batch.sigma, batch.key[:1])
    bare = type(batch.table)(batch.table.continuous, batch.table.codes, batch.table.layout)
    x = torch.zeros(5, 1)
    with pytest.raises(ValueError, match=r"needs table\.values"):
        mlp_ends.mlp_loss(x, x, x, bare, batch.rows, *[batch.states] * 2, batch.sigma, batch.weight, batch.rows[:1])


def arguments(device: torch.device, size: int = 5) -> dict[str, tuple[Any, ...]]:
    """The arguments of each op in `torch.ops`."""
    layout, batch = LAYOUTS["mixed"], make_batch(LAYOUTS["mixed"], size).to(device)
    table, x = batch.table, [torch.randn(size, 6, device=device) for _ in range(6)]
    vectors, stats = torch.randn(4, 6, device=device).unbind(), torch.rand(size, 2, device=device)
    D, C, J = layout.width, layout.num_continuous, layout.num_columns
    output, bias, cells = (torch.randn(shape, device=device) for shape in ((size, D + C), (D + C,), (size, D + 2 * J)))
    places, count = torch.arange(6, device=device), torch.tensor([9], device=device)
    columns, shown = (table.continuous, table.codes, table.offsets), torch.full_like(batch.states, NOISY)
    return {
        "mlp_input": (*columns, batch.rows, shown, batch.sigma, batch.key, D),
        "mlp_loss": (
            *(output, bias, cells, table.continuous, table.codes, table.values, table.offsets),
            *(batch.rows, shown, batch.states, batch.sigma, batch.weight, count, 0.3, None),
        ),
        "norm_forward": (x[0], *vectors[:3], x[1], vectors[3], x[2], stats, x[3]),
        "norm_backward": (x[0], *vectors[:2], stats, x[1], x[2], x[3], x[4], True),
        "silu_forward": (x[0], vectors[0], x[1]),
        "silu_backward": (x[0], vectors[0], x[1]),
        "column_sums": (x[0], places, torch.zeros(9, device=device)),
        "store_next": (torch.zeros(3, device=device), places[1:2].clone(), torch.ones((), device=device)),
    }


@pytest.mark.parametrize("name", arguments(torch.device("cpu")))
def test_registration(native: ModuleType, device: torch.device, name: str) -> None:
    torch.library.opcheck(getattr(torch.ops.missdiff_fast, name).default, arguments(device)[name])
