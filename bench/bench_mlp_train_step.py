"""Twenty training steps of as many rows as the default takes, in one call each and as PyTorch takes them."""

from __future__ import annotations

import pytest
import torch
from plain import EagerDenoiser, PlainBackend, PlainStepper
from roofline import Products, training_sizes
from timing import FULL_SIZE, Timer
from timing import IMPLEMENTATIONS as USUAL
from tolerances import assert_close
from workload import Workload

from missdiff_fast import ops
from missdiff_fast._engine.steppers import NativeStepper, TrainBatch
from missdiff_fast.config import ObjectiveConfig, TrainingConfig
from missdiff_fast.diffusion.schedule import noise_weight
from missdiff_fast.networks import Denoiser
from missdiff_fast.networks.packing import lay_out

IMPLEMENTATIONS = [*USUAL, "sgemm"]
STEPS, ROWS = 20, TrainingConfig().resolve(FULL_SIZE)[1]
RATE, DECAY = 1e-3, 0.998


def make_stepper(w: Workload, implementation: str, *, philox: bool = False) -> NativeStepper | PlainStepper:
    """One that learns a network with an output that is not 0; ``philox`` as of `plain.PlainBackend`."""
    torch.manual_seed(0)
    network = (Denoiser if implementation == "native" else EagerDenoiser)(w.table.layout)
    torch.nn.init.normal_(network.outputs.weight, std=0.1)
    arguments = network, ObjectiveConfig(), w.column_weight, DECAY
    if implementation == "native":
        return NativeStepper(*arguments, ops)
    return PlainStepper(*arguments, PlainBackend(implementation == "compile", philox=philox))


def lesson(w: Workload) -> TrainBatch:
    return TrainBatch(w.table, w.rows, w.states, w.states, w.sigma, noise_weight(w.sigma), w.key)


@pytest.fixture(scope="module")
def lessons(workload: Workload, implementations: list[str]) -> list[TrainBatch]:
    """Batches of a workload, of which all learn the same from the first."""
    w = workload.head(ROWS)
    native = make_stepper(w, "native")
    loss = native.step(lesson(w), RATE)
    for implementation in implementations[1:]:
        plain = make_stepper(w, implementation, philox=True)
        assert_close("masked_loss", loss, plain.step(lesson(w), RATE))
        gradients = [p.grad for p in plain.network.parameters() if p.grad is not None]
        assert_close("mlp_train_step.grad", 10 * native.state.exp_avg, lay_out(gradients))
    count = min(STEPS, len(workload.rows) // ROWS)
    return [lesson(workload.piece(i * ROWS, (i + 1) * ROWS)) for i in range(count)]


def bench_mlp_train_step(timer: Timer, workload: Workload, lessons: list[TrainBatch], implementation: str) -> None:
    if implementation == "sgemm":
        network = Denoiser(workload.table.layout)
        timer("mlp_train_step", implementation, Products(training_sizes(network, ROWS), times=len(lessons)))
        return
    stepper = make_stepper(workload, implementation)
    timer("mlp_train_step", implementation, lambda: [stepper.step(lesson, RATE) for lesson in lessons])
