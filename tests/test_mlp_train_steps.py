"""`mlp_train_steps`: many training steps in one call."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from batches import LAYOUTS
from test_mlp_train_step import Call, example
from tolerances import assert_close
from torch import Tensor

from missdiff_fast._engine.backend import NativeBackend
from missdiff_fast._engine.history import History
from missdiff_fast._engine.phase import Phase
from missdiff_fast._engine.steppers import PersistentStepper
from missdiff_fast._engine.training import train
from missdiff_fast.config import ObjectiveConfig
from missdiff_fast.networks import Denoiser
from missdiff_fast.networks.packing import TrainingState
from missdiff_fast.ops import reference
from missdiff_fast.ops.mlp_train_steps import mlp_train_steps
from missdiff_fast.table.encoded import Layout

FLAT = ("weights", "exp_avg", "exp_avg_sq", "ema")
RATES, DECAYS = [0.01, 0.02, 0.005], [0.9, 0.95, 0.9]


def batches(call: Call) -> tuple[Tensor, ...]:
    """The call's batch in each of three steps, with other noise in each."""
    b = call.batch
    tensors = b.rows, b.states, call.loss_states, b.sigma, b.weight
    keys = torch.stack([b.key + torch.tensor([0, t]) for t in range(len(RATES))])
    return *(x.expand(len(RATES), *x.shape) for x in tensors), keys


def together(call: Call, state: TrainingState, **options: Any) -> Tensor:
    table = call.batch.table
    rest = {"mean_weight": 0.4, "column_weight": call.column_weight, "learning_rates": RATES, "decays": DECAYS}
    return mlp_train_steps(state, table, *batches(call), **(rest | options))


def one_by_one(call: Call, module: Any, state: TrainingState) -> Tensor:
    table = call.batch.table
    losses = [
        module.mlp_train_step(
            *(state, table, *batch),
            learning_rate=rate,
            decay=decay,
            mean_weight=0.4,
            column_weight=call.column_weight,
        )
        for *batch, rate, decay in zip(*batches(call), RATES, DECAYS, strict=True)
    ]
    return torch.stack(losses)


def test_on_the_cpu_they_are_single_steps(native: Any) -> None:
    call = example(LAYOUTS["mixed"])
    ours, theirs = copy.deepcopy(call.state), copy.deepcopy(call.state)
    assert torch.equal(together(call, ours), one_by_one(call, native, theirs))
    for name in FLAT:
        assert torch.equal(getattr(ours, name), getattr(theirs, name))
    assert ours.steps == theirs.steps == call.state.steps + len(RATES)


def test_no_step(native: Any) -> None:
    call = example(LAYOUTS["mixed"])
    none = tuple(x[:0] for x in batches(call))
    table = call.batch.table
    assert mlp_train_steps(call.state, table, *none, learning_rates=[], decays=[]).shape == (0,)
    assert call.state.steps == 7


def test_wrong_arguments(native: Any) -> None:
    call = example(LAYOUTS["mixed"])
    with pytest.raises(ValueError, match="precision must be one of 'float32', 'tf32', not 'half'"):
        together(call, call.state, precision="half")
    with pytest.raises(ValueError, match="decays must be as many as learning_rates, 3, not 1"):
        together(call, call.state, decays=[0.9])
    with pytest.raises(ValueError, match=r"rows must have shape \[2, any\]"):
        together(call, call.state, learning_rates=RATES[:2], decays=DECAYS[:2])


def test_a_training_is_that_of_single_steps(native: Any) -> None:
    """Points of the loss curve and weights, where parts of the batches end between points."""
    call, found = example(LAYOUTS["mixed"]), []
    objective, phase = ObjectiveConfig(), Phase("test", 130, 60, 1e-3, 10, 0.99)

    class Persistent(NativeBackend):
        def stepper(self, *arguments: Any) -> PersistentStepper:
            return PersistentStepper(*arguments)

    for backend in (NativeBackend(), Persistent()):
        network, history = copy.deepcopy(call.state.network), History()
        train(network, call.batch.table, objective, phase, backend, 0, history)
        found.append((history.loss, torch.cat([weight.detach().flatten() for weight in network.parameters()])))
    assert found[0][0] == pytest.approx(found[1][0], rel=1e-6)
    assert torch.equal(found[0][1], found[1][1])


def on(device: torch.device, call: Call) -> Call:
    """The call on a device, its state row-major."""
    network = copy.deepcopy(call.state.network).to(device)
    state = TrainingState.of(network, panels=False)
    for name in FLAT:
        flat = state.lay_out([x.to(device) for x in call.state.unflatten(getattr(call.state, name))])
        getattr(state, name).copy_(flat)
    state.steps = call.state.steps
    weight = None if call.column_weight is None else call.column_weight.to(device)
    return Call(state, call.batch.to(device), call.loss_states.to(device), weight)


@pytest.mark.parametrize("device", ["cuda"], indirect=True)
@pytest.mark.parametrize(
    ("name", "size", "width", "blocks"),
    [
        ("mixed", 67, 20, 2), ("mixed", 1, 33, 1), ("mixed", 1_100, 20, 1), ("no_continuous", 67, 20, 2),
        ("no_categorical", 67, 20, 0), ("big_groups", 300, 96, 3), ("clinical", 256, 256, 3), ("clinical", 64, 512, 4)
    ],
)  # fmt: skip
def test_steps_on_a_card(device: torch.device, native: Any, name: str, size: int, width: int, blocks: int) -> None:
    """In shared memory and, where the network is wide, in the card's memory."""
    call = example(LAYOUTS[name], size, width=width, blocks=blocks)
    there = on(device, call)
    truth = on(torch.device("cpu"), call).double()
    truth.state.panels = False
    wanted = one_by_one(truth, reference, truth.state)
    losses = together(there, there.state, precision="float32")
    for loss, true_loss in zip(losses.cpu(), wanted, strict=True):
        assert_close("masked_loss", loss, true_loss, torch.float32)
    for flat in FLAT:
        assert_close("mlp_train_step", getattr(there.state, flat).cpu(), getattr(truth.state, flat))


@pytest.mark.parametrize("device", ["cuda"], indirect=True)
def test_the_bits_on_a_card_are_those_of_another_run(device: torch.device, native: Any) -> None:
    call = on(device, example(LAYOUTS["clinical"], 256, width=96, blocks=3))
    states = [copy.deepcopy(call.state) for _ in range(2)]
    losses = [together(call, state) for state in states]
    assert torch.equal(*losses)
    for name in FLAT:
        assert torch.equal(*(getattr(state, name) for state in states))


@pytest.mark.parametrize("device", ["cuda"], indirect=True)
def test_a_training_on_a_card(device: torch.device, native: Any) -> None:
    """The loss falls as it does by the graph of single steps, whose products are in the same precision."""
    table, curves = on(device, example(Layout(5, (2, 3)), 200)).batch.table, []
    objective, phase = ObjectiveConfig(), Phase("test", 300, 128, 2e-3, 30, 0.99)
    for persistent in (False, True):
        torch.manual_seed(0)
        network, history = Denoiser(table.layout, width=64, blocks=2).to(device), History()
        train(network, table, objective, phase, NativeBackend(persistent=persistent), 0, history)
        curves.append(history.loss)
    assert curves[1] == pytest.approx(curves[0], rel=0.02)
