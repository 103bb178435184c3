"""Twenty training steps of as many rows as the default takes, in one call each and as PyTorch takes them.

On a card a native step is what a fit takes for one more step. PyTorch's rivals get their batches, states and noise
levels, which the fit draws.
"""

from __future__ import annotations

from functools import partial

import baselines
import plan
import pytest
import torch
from card import CardRun
from clock import PRECISIONS, Function, capture, precision
from plain import EagerDenoiser, PlainBackend, PlainStepper, make_network, rows_to_loss
from roofline import Products, training_sizes
from timing import FULL_SIZE, Timer
from timing import IMPLEMENTATIONS as USUAL
from tolerances import assert_close
from workload import Workload

from missdiff_fast._engine.backend import NativeBackend
from missdiff_fast._engine.batches import TrainBatch
from missdiff_fast._engine.history import History
from missdiff_fast._engine.steppers import FusedStepper
from missdiff_fast._engine.training import Phase, train
from missdiff_fast.config import ObjectiveConfig, TrainingConfig
from missdiff_fast.diffusion.objective import column_weights
from missdiff_fast.diffusion.schedule import noise_weight
from missdiff_fast.networks import Denoiser
from missdiff_fast.networks.packing import TrainingState, lay_out
from missdiff_fast.ops.mlp_train_steps import PRECISIONS as TRAIN_PRECISIONS
from missdiff_fast.ops.mlp_train_steps import mlp_train_steps

IMPLEMENTATIONS = [*USUAL, "sgemm"]
STEPS, ROWS = 20, TrainingConfig().resolve(FULL_SIZE)[1]
RATE, DECAY = 1e-3, 0.998
CARD = ["native"]
CARD += [f"{kind} {name}" for name in PRECISIONS for kind in ("eager", "graph")]
CARD += [f"{kind} tf32" for kind in ("compile", "compile and graph")]
CARD += [f"native persistent {name}" for name in TRAIN_PRECISIONS]
BATCHES = 16  # different ones, that a rival on a card goes through
FEW, MANY = 100, 3100  # steps of two fits, whose times are subtracted


def make_stepper(w: Workload, implementation: str, *, philox: bool = False) -> FusedStepper | PlainStepper:
    """A stepper for a network with an output that is not 0; ``philox`` as of `plain.PlainBackend`."""
    network = make_network(w, Denoiser if implementation == "native" else EagerDenoiser)
    arguments = network, ObjectiveConfig(), w.column_weight, DECAY
    if implementation == "native":
        return FusedStepper(*arguments, NativeBackend())
    return PlainStepper(*arguments, PlainBackend(implementation == "compile", philox=philox))


def batch_of(w: Workload) -> TrainBatch:
    return TrainBatch(w.table, w.rows, w.states, w.states, w.sigma, noise_weight(w.sigma), w.key)


@pytest.fixture(scope="module")
def batches(workload: Workload, implementations: list[str]) -> list[TrainBatch]:
    """Batches of a workload. From the first, all implementations learn the same."""
    w = workload.head(ROWS)
    native = make_stepper(w, "native")
    loss = native.step(batch_of(w), RATE)
    for implementation in implementations[1:]:
        plain = make_stepper(w, implementation, philox=True)
        assert_close("masked_loss", loss, plain.step(batch_of(w), RATE))
        gradients = [p.grad for p in plain.network.parameters() if p.grad is not None]
        assert_close("mlp_train_step.grad", 10 * native.state.exp_avg, lay_out(gradients))
    count = min(STEPS, len(workload.rows) // ROWS)
    return [batch_of(workload.piece(i * ROWS, (i + 1) * ROWS)) for i in range(count)]


def bench_mlp_train_step(timer: Timer, workload: Workload, batches: list[TrainBatch], implementation: str) -> None:
    if implementation == "sgemm":
        network = Denoiser(workload.table.layout)
        timer("mlp_train_step", implementation, Products(training_sizes(network, ROWS), times=len(batches)))
        return
    stepper = make_stepper(workload, implementation)
    timer("mlp_train_step", implementation, lambda: [stepper.step(batch, RATE) for batch in batches])


class Training:
    """Batches on a card, made beforehand for the rivals."""

    def __init__(self, w: Workload, batch: int) -> None:
        self.w, self.device = w, w.x.device
        self.batch = min(batch, len(w.rows) // 2)
        count = min(BATCHES, len(w.rows) // self.batch)
        self.rows, self.states, self.sigma = (
            tensor[: count * self.batch].unflatten(0, (count, self.batch)) for tensor in (w.rows, w.states, w.sigma)
        )
        self.weight, self.objective = noise_weight(self.sigma), ObjectiveConfig()
        observed, power, cap = w.table.observed(), self.objective.column_power, self.objective.column_cap
        self.column_weight = column_weights(observed, power, cap).float()

    def fit(self, steps: int, card: CardRun) -> None:
        """So many native steps, as a fit takes them."""
        phase = Phase("bench", steps, self.batch, RATE, 100, DECAY)
        train(make_network(self.w, Denoiser), self.w.table, self.objective, phase, card.backend, 0, History())

    def native_seconds(self, card: CardRun) -> float:
        """Seconds of one step: the difference of two fits by that of their steps, medians of three."""
        few, many = (2, 6) if card.trial else (FEW, MANY)
        times = {n: sorted(card.clock.wall(partial(self.fit, n, card))[0] for _ in range(3))[1] for n in (few, many)}
        assert card.trial or times[many] > times[few], f"more steps took less time: {times}"
        return (times[many] - times[few]) / (many - few)

    def called(self, name: str, stepper: PlainStepper) -> Function:
        """A stepper over all batches."""
        parts = list(zip(self.rows, self.states, self.sigma, self.weight, strict=True))
        key, table = self.w.key, self.w.table
        batches = [TrainBatch(table, rows, states, states, sigma, weight, key) for rows, states, sigma, weight in parts]

        def run() -> None:
            with precision(name, self.device):
                for batch in batches:
                    stepper.step(batch, RATE)

        return run

    def persistent(self, name: str) -> Function:
        """All batches in one launch, in a precision of `mlp_train_steps`."""
        state = TrainingState.of(make_network(self.w, Denoiser))
        batches = self.rows, self.states, self.states, self.sigma, self.weight, self.w.key.repeat(len(self.rows), 1)
        return partial(
            mlp_train_steps,
            *(state, self.w.table, *batches),
            learning_rates=[RATE] * len(self.rows),
            decays=[DECAY] * len(self.rows),
            mean_weight=self.objective.mean_weight,
            column_weight=self.column_weight,
            precision=name,
        )

    def plain(self, compiled: bool) -> PlainStepper:
        network = make_network(self.w, EagerDenoiser)
        return PlainStepper(network, self.objective, self.column_weight, DECAY, PlainBackend(compiled))  # type: ignore[arg-type]

    def captured(self, name: str, compiled: bool, network: Denoiser | None = None) -> Function:
        """PyTorch's whole step as one graph, which finds its batch by a counter on the card; replayed for all batches.

        Rate and decay are constants here, which the native step's are not.
        """
        network, table, count = network or make_network(self.w, EagerDenoiser), self.w.table, len(self.rows)
        weights, on_card = list(network.parameters()), self.device.type == "cuda"
        optimizer = torch.optim.AdamW(weights, lr=RATE, weight_decay=0.0, fused=True, capturable=on_card)
        ema = [weight.detach().clone() for weight in weights]
        counter = torch.zeros(1, dtype=torch.int64, device=self.device)
        loss_of = baselines.compiled(rows_to_loss) if compiled else rows_to_loss

        def step() -> None:
            batch = (self.rows, self.states, self.sigma, self.weight)
            rows, states, sigma, weight = (tensor.index_select(0, counter)[0] for tensor in batch)
            cells = table.continuous, table.codes, table.values
            rest = None, self.objective.mean_weight, self.column_weight
            with precision(name, self.device):
                loss = loss_of(network, *cells, rows, states, states, sigma, weight, *rest)
                optimizer.zero_grad(set_to_none=True)
                loss.backward()
                optimizer.step()
            torch._foreach_lerp_(ema, [weight.detach() for weight in weights], 1 - DECAY)
            counter.add_(1).remainder_(count)

        replay = capture(step, self.device)
        return lambda: [replay() for _ in range(count)]

    def make(self, implementation: str) -> Function:
        """A rival of `CARD`, or the native steps in one launch."""
        kind, _, name = implementation.rpartition(" ")
        if kind == "native persistent":
            return self.persistent(name)
        compiled = kind.startswith("compile")
        return self.captured(name, compiled) if kind.endswith("graph") else self.called(name, self.plain(compiled))


@pytest.fixture(scope="module", params=plan.BATCHES)
def training(request: pytest.FixtureRequest, workload: Workload) -> tuple[str, Training]:
    """A training step's name, and its batches; plain and native have learnt the same from the first."""
    case = Training(workload, request.param)
    native, plain = (make_stepper(workload, name, philox=True) for name in ("native", "eager"))
    batch = batch_of(workload.head(case.batch))
    assert_close("masked_loss", native.step(batch, RATE), plain.step(batch, RATE))
    return plan.training(request.param), case


def bench_mlp_train_step_on_card(
    timer: Timer, card: CardRun, training: tuple[str, Training], implementation: str
) -> None:
    op, case = training
    if implementation == "native":
        timer(op, implementation, seconds=case.native_seconds(card))
    else:
        timer(op, implementation, case.make(implementation), queued=False, calls=len(case.rows))
