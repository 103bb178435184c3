"""`mlp_train_step`: a training step of the default network in native code."""

from __future__ import annotations

import copy
import dataclasses
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from batches import LAYOUTS, Batch, make_batch, strided, threads
from test_mlp_sample import make_network
from tolerances import assert_close
from torch import Tensor

from missdiff_fast.diffusion.states import CLEAN, HIDDEN, NOISY
from missdiff_fast.networks.packing import TrainingState, flatten, lay_out, unflatten
from missdiff_fast.ops import reference
from missdiff_fast.table.encoded import EncodedTable, Layout

SIZES = [0, 1, 5, 63, 64, 65, 300, 1100]  # tiles have 64 rows, and there are at most eight buffers of gradients


@dataclass
class Call:
    """The arguments of `mlp_train_step`."""

    state: TrainingState
    batch: Batch
    loss_states: Tensor
    column_weight: Tensor | None = None

    def step(self, module: ModuleType, learning_rate: float = 0.01) -> tuple[Tensor, TrainingState]:
        """The loss and the state after the step; this call's state is copied first."""
        state, b = copy.deepcopy(self.state), self.batch
        loss = module.mlp_train_step(
            *(state, b.table, b.rows, b.states, self.loss_states, b.sigma, b.weight, b.key),
            learning_rate=learning_rate,
            decay=0.9,
            mean_weight=0.4,
            column_weight=self.column_weight,
        )
        return loss, state

    def double(self) -> Call:
        """The same in float64."""
        s = self.state
        wide = [tensor.double() for tensor in (s.weights, s.exp_avg, s.exp_avg_sq, s.ema)]
        weight = None if self.column_weight is None else self.column_weight.double()
        return Call(
            TrainingState(copy.deepcopy(s.network).double(), *wide, s.steps),
            self.batch.double(),
            self.loss_states,
            weight,
        )


def example(layout: Layout, size: int = 67, *, width: int = 20, blocks: int = 2, weighted: bool = True) -> Call:
    """A network amid training, so that no step depends on the sign of a tiny gradient."""
    g = torch.Generator().manual_seed(5)
    batch = make_batch(layout, size)
    network = make_network(layout, width, blocks)
    state = TrainingState.of(network)
    real = flatten(network) != 0  # not the padding
    state.exp_avg[real] = 0.1 * torch.randn(int(real.sum()), generator=g)
    state.exp_avg_sq[real] = 0.5 + torch.rand(int(real.sum()), generator=g)
    state.ema, state.steps = state.weights + 0.1 * real, 7
    loss_states = torch.where(torch.rand(batch.states.shape, generator=g) < 0.2, CLEAN, batch.states.int()).to(
        torch.uint8
    )
    weight = 0.5 + torch.rand(layout.num_columns, generator=g) if weighted else None
    return Call(state, batch, loss_states, weight)


def check(native: ModuleType, call: Call) -> None:
    loss, state = call.step(native)
    true_loss, truth = call.double().step(reference)
    assert_close("masked_loss", loss, true_loss)
    assert state.steps == truth.steps == call.state.steps + 1
    for after in (state, truth):
        assert torch.equal(flatten(after.network).float(), flatten(call.state.network))
    for name in ("weights", "exp_avg", "exp_avg_sq", "ema"):
        assert_close("mlp_train_step", getattr(state, name), getattr(truth, name))
    call.state.exp_avg.zero_()  # so that after the step it is a tenth of the gradient
    assert_close("mlp_train_step.grad", call.step(native)[1].exp_avg, call.double().step(reference)[1].exp_avg)


@pytest.mark.parametrize("weighted", [False, True])
def test_native_is_the_reference(native: ModuleType, layout: Layout, weighted: bool) -> None:
    check(native, example(layout, weighted=weighted))


@pytest.mark.parametrize(("width", "blocks"), [(1, 1), (8, 0), (16, 3), (33, 1), (128, 3), (200, 2)])
def test_native_is_the_reference_at_every_width(native: ModuleType, width: int, blocks: int) -> None:
    check(native, example(LAYOUTS["mixed"], width=width, blocks=blocks))


@pytest.mark.parametrize("size", SIZES)
def test_native_is_the_reference_at_every_size(native: ModuleType, size: int) -> None:
    check(native, example(LAYOUTS["big_groups"], size))


def test_adam_is_pytorchs(backend: ModuleType) -> None:
    call = example(LAYOUTS["mixed"])
    state, network = TrainingState.of(call.state.network), copy.deepcopy(call.state.network)
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3, weight_decay=0.0)
    b = call.batch
    for _ in range(5):
        backend.mlp_train_step(
            *(state, b.table, b.rows, b.states, call.loss_states, b.sigma, b.weight, b.key),
            learning_rate=1e-3,
            decay=0.5,
        )
        x = reference.perturb(b.table, b.rows, b.states, torch.ones_like(b.sigma), b.sigma, b.key)
        loss = reference.masked_loss(network(x, b.sigma, b.states), b.table, b.rows, call.loss_states, b.weight)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    moments = optimizer.state.values()
    assert_close("mlp_train_step.grad", state.exp_avg, lay_out(m["exp_avg"] for m in moments), torch.float32)
    torch.testing.assert_close(state.exp_avg_sq.sqrt(), lay_out(m["exp_avg_sq"].sqrt() for m in moments))
    assert float((state.weights - flatten(network)).abs().mean()) < 1e-6


def test_the_average_decays_by_its_factor(backend: ModuleType) -> None:
    call = example(LAYOUTS["mixed"])
    _, state = call.step(backend)
    torch.testing.assert_close(state.ema, 0.9 * call.state.ema + 0.1 * state.weights)


@pytest.mark.parametrize("rows", [1, 64, 65, 320, 1300])  # 1, 1, 2, 5 and 21 tiles, in at most eight buffers
def test_any_number_of_threads_gives_the_same_bits(native: ModuleType, rows: int) -> None:
    call = example(LAYOUTS["mixed"], rows)
    with threads(1):
        loss, alone = call.step(native)
    for count in (2, 4, 8):
        with threads(count):
            again, state = call.step(native)
        assert torch.equal(loss, again)
        for name in ("weights", "exp_avg", "exp_avg_sq", "ema"):
            assert torch.equal(getattr(alone, name), getattr(state, name))


def test_padding_stays_zero(native: ModuleType) -> None:
    call = example(LAYOUTS["mixed"], width=20)
    _, state = call.step(native)
    assert torch.equal(lay_out(unflatten(state.network, state.weights)), state.weights)  # lay_out pads with zeros


def test_a_step_without_loss_changes_no_weight(native: ModuleType) -> None:
    call = example(LAYOUTS["mixed"])
    call.state.exp_avg.zero_()
    call.loss_states = torch.full_like(call.loss_states, CLEAN)
    loss, state = call.step(native)
    assert loss.item() == 0
    assert torch.equal(state.weights, call.state.weights)


def test_hidden_and_missing_cells_are_not_seen(native: ModuleType) -> None:
    call = example(LAYOUTS["mixed"])
    table, C = call.batch.table, LAYOUTS["mixed"].num_continuous
    states, loss_states = call.batch.states.clone(), call.loss_states.clone()
    states[:, 1], loss_states[:, 1], states[:, C], loss_states[:, C] = HIDDEN, CLEAN, HIDDEN, CLEAN
    call = Call(call.state, dataclasses.replace(call.batch, states=states), loss_states)
    assert bool((states == NOISY).any())
    loss, state = call.step(native)
    assert loss > 0
    table.continuous[:, 1] = torch.where(table.continuous[:, 1].isnan(), torch.nan, torch.inf)
    table.codes[:, 0] = torch.where(table.codes[:, 0] < 0, -1, 1 - table.codes[:, 0])
    again, other = call.step(native)
    assert torch.equal(loss, again)
    assert torch.equal(state.weights, other.weights)


def test_non_contiguous_inputs_left_alone(native: ModuleType) -> None:
    call = example(LAYOUTS["mixed"])
    b, table = call.batch, call.batch.table
    assert table.values is not None
    gaps = EncodedTable(strided(table.continuous), strided(table.codes), table.layout, strided(table.values))
    before = {name: getattr(b, name).clone() for name in ("rows", "states", "sigma", "weight", "key")}
    other = dataclasses.replace(b, table=gaps, **{name: strided(value) for name, value in before.items()})
    assert call.column_weight is not None
    spread = Call(call.state, other, strided(call.loss_states), strided(call.column_weight))
    assert torch.equal(spread.step(native)[1].weights, call.step(native)[1].weights)
    assert all(torch.equal(getattr(b, name), value) for name, value in before.items())


def test_a_code_out_of_range_leaves_the_weights_as_they_are(native: ModuleType) -> None:
    call = example(LAYOUTS["mixed"])
    call.batch.table.codes[call.batch.rows[3], 0] = 9
    state, b = copy.deepcopy(call.state), call.batch
    with pytest.raises((RuntimeError, ValueError), match="code"):
        native.mlp_train_step(
            *(state, b.table, b.rows, b.states, call.loss_states, b.sigma, b.weight, b.key),
            learning_rate=0.1,
            decay=0.9,
        )
    assert state.steps == call.state.steps
    for name in ("weights", "exp_avg", "exp_avg_sq", "ema"):
        assert torch.equal(getattr(state, name), getattr(call.state, name))


def test_bad_arguments_are_named(native: ModuleType) -> None:
    good = example(LAYOUTS["mixed"], 5)
    b = good.batch
    values = {
        "table": b.table,
        "rows": b.rows,
        "states": b.states,
        "loss_states": good.loss_states,
        "sigma": b.sigma,
        "weight": b.weight,
        "key": b.key,
    }
    changes: list[tuple[dict[str, Any], str]] = [
        ({"table": make_batch(LAYOUTS["no_categorical"]).table}, "network was made for"),
        ({"table": b.double().table}, "table.continuous"),
        ({"table": dataclasses.replace(b.table, values=None)}, "table.values"),
        ({"rows": b.rows.int()}, "rows"),
        ({"states": b.states[:-1]}, "states"),
        ({"loss_states": good.loss_states.long()}, "loss_states"),
        ({"sigma": b.sigma.double()}, "sigma"),
        ({"weight": b.weight[:-1]}, "weight"),
        ({"key": b.key[:1]}, "key"),
        ({"column_weight": torch.ones(3)}, "column_weight"),
        ({"level_features": torch.ones(5, 3)}, "level_features"),
        ({"level_features": good.state.network.level_features(b.sigma)[:-1]}, "level_features"),
    ]
    for change, word in changes:
        with pytest.raises((ValueError, TypeError), match=rf"(^| to | needs ){word}\b"):
            native.mlp_train_step(good.state, **{**values, **change}, learning_rate=0.1, decay=0.9)
    weights = good.state.weights
    states: list[tuple[dict[str, Tensor], str]] = [
        ({"weights": weights.double()}, "state.weights must be float32"),
        ({"exp_avg": weights[:-16]}, "state.exp_avg must have shape"),
        ({"exp_avg_sq": torch.stack([weights, weights], 1)[:, 0]}, "state.exp_avg_sq must be contiguous"),
        ({"ema": weights.clone().requires_grad_()}, "state.ema must be contiguous and without gradient"),
    ]
    for state_change, message in states:
        with pytest.raises((ValueError, TypeError), match=message):
            native.mlp_train_step(
                dataclasses.replace(good.state, **state_change),  # type: ignore[arg-type]
                **values,
                learning_rate=0.1,
                decay=0.9,
            )
    with pytest.raises(ValueError, match="no derivative with respect to sigma"):
        native.mlp_train_step(
            good.state, **{**values, "sigma": b.sigma.clone().requires_grad_()}, learning_rate=0.1, decay=0.9
        )
    with pytest.raises(TypeError, match="Linear"):
        TrainingState.of(torch.nn.Linear(2, 2))  # type: ignore[arg-type]


def test_level_features_may_be_given(native: ModuleType) -> None:
    call = example(LAYOUTS["mixed"], 129)
    b, states = call.batch, [copy.deepcopy(call.state) for _ in range(2)]
    batch = b.table, b.rows, b.states, call.loss_states, b.sigma, b.weight, b.key
    for state, features in zip(states, (None, call.state.network.level_features(b.sigma)), strict=True):
        native.mlp_train_step(state, *batch, learning_rate=0.1, decay=0.9, level_features=features)
    assert torch.equal(states[0].weights, states[1].weights)
    zeros = torch.zeros_like(call.state.network.level_features(b.sigma))
    native.mlp_train_step(call.state, *batch, learning_rate=0.1, decay=0.9, level_features=zeros)
    assert not torch.equal(call.state.weights, states[0].weights)


def _arguments(call: Call) -> tuple[Any, ...]:
    """The arguments of the op in `torch.ops`."""
    s, b, network = call.state, call.batch, call.state.network
    schedule = torch.tensor([0.1, 1.0, 0.9], dtype=torch.float64)
    flat = (s.weights, s.exp_avg, s.exp_avg_sq, s.ema)
    cells = (b.table.continuous, b.table.codes, b.table.values, b.table.layout.offsets())
    batch = (b.rows, b.states, call.loss_states, b.sigma, network.level_features(b.sigma), b.weight, b.key, schedule)
    return *flat, *cells, *batch, b.table.layout.width, network.width, len(network.blocks), 0.3, call.column_weight


def test_registration(native: ModuleType, layout: Layout) -> None:
    torch.library.opcheck(torch.ops.missdiff_fast.mlp_train_step.default, _arguments(example(layout, 5)))


def test_compiles_whole(native: ModuleType, fresh_compiler: None) -> None:
    call = example(LAYOUTS["mixed"], 5)
    arguments, flat = _arguments(call), [tensor.clone() for tensor in _arguments(call)[:4]]

    @torch.compile(fullgraph=True, backend="aot_eager")
    def compiled(*state: Tensor) -> Tensor:
        return torch.ops.missdiff_fast.mlp_train_step(*state, *arguments[4:]) + 1

    loss = compiled(*flat)
    assert torch.equal(loss, torch.ops.missdiff_fast.mlp_train_step(*arguments) + 1)
    assert all(torch.equal(mine, theirs) for mine, theirs in zip(flat, arguments, strict=False))


def test_autograd_is_told_of_the_change(native: ModuleType) -> None:
    call = example(LAYOUTS["mixed"], 5)
    p = torch.ones_like(call.state.weights, requires_grad=True)
    product, b = (p * call.state.weights).sum(), call.batch
    native.mlp_train_step(
        *(call.state, b.table, b.rows, b.states, call.loss_states, b.sigma, b.weight, b.key),
        learning_rate=0.1,
        decay=0.9,
    )
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.backward()


def test_a_step_after_memory_ran_out(native: ModuleType) -> None:
    program = """
import resource, torch
from batches import LAYOUTS
from test_mlp_train_step import example
from missdiff_fast import ops
small = example(LAYOUTS["mixed"], 300)
expected = small.step(ops)[0]
large = example(LAYOUTS["mixed"], 300_000, weighted=False)
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 2**26, resource.RLIM_INFINITY))
try:
    large.step(ops)
except (RuntimeError, MemoryError):
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    print(torch.equal(small.step(ops)[0], expected))
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
    found = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=120
    )
    assert found.stdout.strip() == "True", found.stderr[-2000:]


def test_weights_of_another_network(native: ModuleType) -> None:
    arguments = _arguments(example(LAYOUTS["mixed"], 5))
    for weights in (arguments[0][:-16], arguments[0].double()):
        with pytest.raises(RuntimeError, match="weights"):
            torch.ops.missdiff_fast.mlp_train_step(weights, *arguments[1:])
    with pytest.raises(RuntimeError, match="blocks"):
        torch.ops.missdiff_fast.mlp_train_step(*arguments[:17], 1, 1 << 60, *arguments[19:])
    with pytest.raises(RuntimeError, match="share memory"):
        torch.ops.missdiff_fast.mlp_train_step(*arguments[:3], arguments[0], *arguments[4:])


def test_flat_weights_come_back(layout: Layout) -> None:
    network, other = make_network(layout), make_network(layout, seed=1)
    state = TrainingState.of(other)
    state.ema = flatten(network)
    state.write_ema()
    for mine, theirs in zip(network.parameters(), other.parameters(), strict=True):
        assert torch.equal(mine, theirs)
