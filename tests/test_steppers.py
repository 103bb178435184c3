"""Training-step implementations."""

from __future__ import annotations

import copy

import pytest
import torch
from batches import LAYOUTS, make_table
from torch import nn

from missdiff_fast._engine.backend import Backend, ReferenceBackend
from missdiff_fast._engine.batches import TrainBatch, TrainBatches
from missdiff_fast._engine.history import History, Progress
from missdiff_fast._engine.steppers import FusedStepper, TorchStepper, decay_of
from missdiff_fast.config import ObjectiveConfig
from missdiff_fast.diffusion.schedule import noise_weight
from missdiff_fast.diffusion.states import CLEAN, HIDDEN
from missdiff_fast.networks import Denoiser
from missdiff_fast.networks.packing import TrainingState, flatten
from missdiff_fast.ops import reference

LAYOUT = LAYOUTS["mixed"]


def _batches(count: int, seed: int = 0) -> list[TrainBatch]:
    g = torch.Generator().manual_seed(seed)
    table, batches = make_table(LAYOUT, 300), []
    for step in range(count):
        rows = torch.randperm(300, generator=g)[:128]
        states = torch.randint(3, (128, LAYOUT.num_columns), generator=g).to(torch.uint8)
        states = torch.where(table.observed()[rows], states, HIDDEN).to(torch.uint8)
        loss_states = states.masked_fill(torch.rand(states.shape, generator=g) < 0.1, CLEAN)
        sigma = torch.exp(torch.randn(128, generator=g) - 0.5)
        batches.append(
            TrainBatch(table, rows, states, loss_states, sigma, noise_weight(sigma), reference.make_key(seed, step))
        )
    return batches


def _together(parts: list[TrainBatch]) -> TrainBatches:
    tensors = [[getattr(batch, name) for batch in parts] for name in list(vars(parts[0]))[1:]]
    return TrainBatches(parts[0].table, *(torch.stack(x) for x in tensors))


def _network() -> Denoiser:
    torch.manual_seed(0)
    return Denoiser(LAYOUT, width=32, blocks=2)


WEIGHTS = torch.linspace(0.5, 1.5, LAYOUT.num_columns)


def test_the_loss_curve_is_the_same_for_a_hundred_steps(native_backend: Backend) -> None:
    network, objective = _network(), ObjectiveConfig()
    ours, theirs = copy.deepcopy(network), copy.deepcopy(network)
    steppers = (
        native_backend.stepper(ours, objective, WEIGHTS, 0.99),
        TorchStepper(theirs, objective, WEIGHTS, 0.99, native_backend),
    )
    assert isinstance(steppers[0], FusedStepper)
    losses = torch.tensor([[stepper.step(batch, 2e-3).item() for stepper in steppers] for batch in _batches(100)])
    assert losses[-10:].mean() < 0.9 * losses[:10].mean()
    torch.testing.assert_close(losses[:, 0], losses[:, 1], rtol=1e-4, atol=0)
    for stepper in steppers:
        stepper.finish()
    torch.testing.assert_close(flatten(ours), flatten(theirs), rtol=0, atol=1e-3)
    assert float((flatten(ours) - flatten(network)).abs().max()) > 0.05


def test_pytorchs_step_is_the_reference(any_backend: Backend) -> None:
    network, objective = _network(), ObjectiveConfig(mean_weight=0.7)
    state, stepper = (
        TrainingState.of(copy.deepcopy(network)),
        TorchStepper(network, objective, WEIGHTS, 0.99, any_backend),
    )
    for step, batch in enumerate(_batches(3)):
        loss = reference.mlp_train_step(
            state,
            batch.table,
            batch.rows,
            batch.states,
            batch.loss_states,
            batch.sigma,
            batch.weight,
            batch.key,
            learning_rate=1e-3,
            decay=decay_of(step, 0.99),
            mean_weight=0.7,
            column_weight=WEIGHTS,
        )
        torch.testing.assert_close(stepper.step(batch, 1e-3).detach(), loss)
    stepper.finish()
    state.write_ema()
    torch.testing.assert_close(flatten(network), flatten(state.network), rtol=1e-3, atol=1e-4)


def test_one_stepper_serves_both_backends(any_backend: Backend) -> None:
    ours, theirs = _network(), _network()
    stepper, other = (
        any_backend.stepper(ours, ObjectiveConfig(), WEIGHTS, 0.99),
        TorchStepper(theirs, ObjectiveConfig(), WEIGHTS, 0.99, any_backend),
    )
    assert isinstance(stepper, FusedStepper)
    losses = torch.tensor([[s.step(batch, 1e-3).item() for s in (stepper, other)] for batch in _batches(20)])
    torch.testing.assert_close(losses[:, 0], losses[:, 1], rtol=1e-4, atol=0)
    stepper.finish()
    other.finish()
    torch.testing.assert_close(flatten(ours), flatten(theirs), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("panels", [False, True])
def test_the_reference_step_has_the_bits_of_pytorchs_optimiser(panels: bool) -> None:
    ours, theirs, backend = _network(), _network(), ReferenceBackend()
    stepper = FusedStepper(ours, ObjectiveConfig(), WEIGHTS, 0.99, backend, panels=panels)
    other = TorchStepper(theirs, ObjectiveConfig(), WEIGHTS, 0.99, backend)
    batches, losses = _together(_batches(50)), []
    for each in (stepper, other):
        history = History()
        with Progress(history, "fit", 50, verbose=False) as progress:
            each.run(batches, [2e-3] * 50, progress)
        losses.append(history.loss)
    assert losses[0] == losses[1]
    stepper.finish()
    other.finish()
    assert torch.equal(flatten(ours), flatten(theirs))


def test_training_goes_on_from_one_to_the_other(native_backend: Backend) -> None:
    first = _network()
    stepper = native_backend.stepper(first, ObjectiveConfig(), WEIGHTS, 0.9)
    for batch in _batches(20):
        stepper.step(batch, 2e-3)
    stepper.finish()
    second = _network()
    second.load_state_dict(first.state_dict())
    batch = _batches(1, seed=1)[0]
    going_on = native_backend.stepper(first, ObjectiveConfig(), WEIGHTS, 0.9).step(batch, 2e-3)
    other = TorchStepper(second, ObjectiveConfig(), WEIGHTS, 0.9, ReferenceBackend()).step(batch, 2e-3)
    torch.testing.assert_close(going_on, other.detach())


def test_a_run_is_its_steps(native_backend: Backend) -> None:
    parts, history = _batches(6), History()
    batches = _together(parts)
    rates = [1e-3 * (step + 1) for step in range(6)]
    for kind in (native_backend.stepper, ReferenceBackend().stepper):
        together, single = (kind(_network(), ObjectiveConfig(), WEIGHTS, 0.9) for _ in range(2))
        with Progress(history, "fit", 6, verbose=False) as progress:
            together.run(batches, rates, progress)
        losses = [single.step(batch, rate).item() for batch, rate in zip(parts, rates, strict=True)]
        assert history.loss[-1] == pytest.approx(sum(losses) / 6)
        for stepper in (together, single):
            stepper.finish()
        mine, theirs = (getattr(x, "state", x).network for x in (together, single))
        torch.testing.assert_close(flatten(mine), flatten(theirs))


def test_other_networks_learn_in_pytorch(native_backend: Backend) -> None:
    class Other(Denoiser):
        pass

    for network in (Other(LAYOUT, 8, 1), nn.Linear(2, 2)):
        assert isinstance(native_backend.stepper(network, ObjectiveConfig(), WEIGHTS, 0.9), TorchStepper)
        assert isinstance(ReferenceBackend().stepper(network, ObjectiveConfig(), WEIGHTS, 0.9), TorchStepper)
    assert isinstance(native_backend.stepper(_network(), ObjectiveConfig(), WEIGHTS.double(), 0.9), TorchStepper)


@pytest.mark.parametrize(("count", "expected"), [(0, 0.1), (1, 2 / 11), (10_000, 0.998)])
def test_a_new_average_forgets_quickly(count: int, expected: float) -> None:
    assert decay_of(count, 0.998) == pytest.approx(expected)
