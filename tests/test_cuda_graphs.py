"""Steps that are recorded and replayed; on the CPU the same steps, called as they are."""

from __future__ import annotations

import copy
from types import ModuleType
from typing import Any

import pytest
import torch
from batches import LAYOUTS, make_table
from test_mlp_sample import make_network

from missdiff_fast._engine import steppers, training
from missdiff_fast._engine.backend import Backend, NativeBackend
from missdiff_fast._engine.cuda_graphs import CapturedStep, StepBuffer, allow_tf32, warm_up
from missdiff_fast._engine.device import to_device
from missdiff_fast._engine.history import History, Progress
from missdiff_fast._engine.protocols import Stepper
from missdiff_fast._engine.steppers import FusedStepper, GraphStepper, TorchStepper
from missdiff_fast._engine.training import Phase, train
from missdiff_fast.config import ObjectiveConfig
from missdiff_fast.networks import Denoiser
from missdiff_fast.networks.packing import TrainingState, flatten, lay_out, unflatten
from missdiff_fast.table.encoded import EncodedTable, Layout


def _filled(table: EncodedTable) -> EncodedTable:
    values = None if table.values is None else table.values.nan_to_num(0.3)
    return EncodedTable(table.continuous.nan_to_num(0.5), table.codes.clamp(min=0), table.layout, values)


class Stepping(NativeBackend):
    """The compiled ops with one kind of stepper for every network and device."""

    def __init__(self, kind: type) -> None:
        self.kind = kind

    def stepper(self, network: Any, objective: ObjectiveConfig, column_weight: torch.Tensor, ema: float) -> Stepper:
        backend = [] if issubclass(self.kind, GraphStepper) else [self]
        stepper: Stepper = self.kind(network, objective, column_weight, ema, *backend)
        return stepper


def _train(
    kind: type,
    monkeypatch: pytest.MonkeyPatch,
    layout: Layout = LAYOUTS["mixed"],
    device: str = "cpu",
    *,
    steps: int = 73,
    rows: int = 300,
    refine: bool = False,
    drawn: int = 640,
) -> tuple[Denoiser, History]:
    """A short training; ``drawn`` rows of 64 at once leave a remainder of steps."""
    monkeypatch.setattr(training, "_DRAWN_ROWS", {"cpu": drawn, "cuda": drawn})
    network, table, history = make_network(layout, 24, 2).to(device), make_table(layout, rows).to(device), History()
    extra: dict[str, Any] = {"show": 0.7, "trusted_rate": 0.5, "trusted_sigma": 0.8} if refine else {}
    phase = Phase("fit", steps, 64, 2e-3, 10, 0.9, first_step=5, **extra)
    filled = _filled(table) if refine else None
    train(network, table, ObjectiveConfig(), phase, Stepping(kind), 7, history, filled=filled)
    return network, history


@pytest.mark.parametrize("refine", [False, True])
@pytest.mark.parametrize("kind", [FusedStepper, TorchStepper])
def test_the_weights_are_those_of_the_other_steppers(
    native_backend: Backend, monkeypatch: pytest.MonkeyPatch, kind: type, refine: bool
) -> None:
    ours, history = _train(GraphStepper, monkeypatch, refine=refine)
    theirs, other = _train(kind, monkeypatch, refine=refine)
    assert history.step == other.step == [55, 78]
    torch.testing.assert_close(torch.tensor(history.loss), torch.tensor(other.loss), rtol=1e-4, atol=0)
    torch.testing.assert_close(flatten(ours), flatten(theirs), rtol=0, atol=5e-4)
    assert float((flatten(ours) - flatten(make_network(LAYOUTS["mixed"], 24, 2))).abs().max()) > 0.01


def test_every_layout(native_backend: Backend, monkeypatch: pytest.MonkeyPatch, layout: Layout) -> None:
    ours, _ = _train(GraphStepper, monkeypatch, layout, steps=12)
    theirs, _ = _train(FusedStepper, monkeypatch, layout, steps=12)
    torch.testing.assert_close(flatten(ours), flatten(theirs), rtol=0, atol=5e-4)


@pytest.mark.parametrize(("steps", "rows"), [(1, 300), (2, 40), (50, 64), (101, 65)])
def test_few_steps_and_few_rows(
    native_backend: Backend, monkeypatch: pytest.MonkeyPatch, steps: int, rows: int
) -> None:
    ours, history = _train(GraphStepper, monkeypatch, steps=steps, rows=rows)
    theirs, other = _train(FusedStepper, monkeypatch, steps=steps, rows=rows)
    assert history.step == other.step
    torch.testing.assert_close(flatten(ours), flatten(theirs), rtol=0, atol=5e-4)


def test_how_many_rows_are_drawn_at_once_changes_nothing(
    native_backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, _ = _train(GraphStepper, monkeypatch, drawn=64)
    many, _ = _train(GraphStepper, monkeypatch, drawn=1 << 14)
    assert torch.equal(flatten(one), flatten(many))


def test_the_average_is_left_also_by_an_interruption(native_backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    add = Progress.add

    def interrupt(self: Progress, loss: torch.Tensor, steps: int = 1) -> None:
        add(self, loss, steps)
        raise KeyboardInterrupt

    seen: list[GraphStepper] = []

    class Spy(GraphStepper):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            seen.append(self)

    monkeypatch.setattr(Progress, "add", interrupt)
    with pytest.raises(KeyboardInterrupt):
        _train(Spy, monkeypatch)
    state = seen[0].state
    assert state.steps == 10
    assert torch.equal(flatten(state.network, panels=False), state.ema)
    assert not torch.equal(state.ema, state.weights)


def test_divergence_is_an_error(native_backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make_table(LAYOUTS["mixed"], 300)
    phase = Phase("fit", 200, 64, 1e9, 1, 0.9)
    with pytest.raises(FloatingPointError, match=r"the loss is .* at step \d+: training diverged"):
        train(
            make_network(LAYOUTS["mixed"], 24, 2), table, ObjectiveConfig(), phase, Stepping(GraphStepper), 0, History()
        )


@pytest.mark.parametrize("device", ["cuda"], indirect=True)
@pytest.mark.parametrize("refine", [False, True])
def test_a_replayed_step_is_the_step(
    device: torch.device, native_backend: Backend, monkeypatch: pytest.MonkeyPatch, refine: bool
) -> None:
    ours, history = _train(GraphStepper, monkeypatch, device=str(device), refine=refine)
    monkeypatch.setattr(steppers, "CapturedStep", lambda step, *_: _Plain(step))
    called, other = _train(GraphStepper, monkeypatch, device=str(device), refine=refine)
    torch.testing.assert_close(history.loss, other.loss, rtol=1e-5, atol=0)
    torch.testing.assert_close(flatten(ours), flatten(called), rtol=0, atol=1e-5)
    cpu, _ = _train(FusedStepper, monkeypatch, refine=refine)
    torch.testing.assert_close(flatten(ours).cpu(), flatten(cpu), rtol=0, atol=2e-2)  # TF32


class _Plain:
    """Calls a step as it is, wherever it works."""

    def __init__(self, step: Any) -> None:
        self.step = step

    def __call__(self) -> None:
        self.step()

    def release(self) -> None:
        """Nothing was recorded."""


def test_weights_row_by_row_are_views(layout: Layout) -> None:
    network = make_network(layout)
    state = TrainingState.of(network, panels=False)
    for parameter, (name, weight) in zip(network.parameters(), state.current().items(), strict=True):
        assert torch.equal(parameter, weight), name
        assert weight.is_contiguous()
        assert (weight.data_ptr() - state.weights.data_ptr()) % 64 == 0
    views = unflatten(network, state.weights, panels=False)
    assert torch.equal(lay_out(views, panels=False), state.weights)
    views[0].fill_(3.0)
    assert bool((state.weights[: views[0].numel()] == 3.0).all())
    assert TrainingState.of(network).panels  # on the CPU


def test_the_ops_training_step_takes_both_forms(native_backend: Backend) -> None:
    from test_mlp_train_step import example

    call = example(LAYOUTS["mixed"])
    rows = TrainingState.of(call.state.network, panels=False)
    rows.exp_avg, rows.exp_avg_sq, rows.ema = (
        lay_out(unflatten(rows.network, x), panels=False) for x in call.state.flat()[1:]
    )
    rows.steps = call.state.steps
    b, other = call.batch, copy.deepcopy(call.state)
    for state in (rows, other):
        loss = native_backend.mlp_train_step(
            *(state, b.table, b.rows, b.states, call.loss_states, b.sigma, b.weight, b.key),
            learning_rate=0.01,
            decay=0.9,
            column_weight=call.column_weight,
        )
        torch.testing.assert_close(loss, call.step(native_backend)[0], rtol=0.5, atol=0)  # of another mean_weight
    assert rows.steps == other.steps == call.state.steps + 1
    for mine, theirs in zip(rows.flat(), other.flat(), strict=True):
        torch.testing.assert_close(mine, lay_out(unflatten(rows.network, theirs), panels=False), rtol=1e-4, atol=1e-5)


def test_a_buffer_gives_each_step_its_own(native: ModuleType, device: torch.device) -> None:
    g = torch.Generator().manual_seed(0)
    shapes = [
        (torch.uint8, (5, 3)),
        (torch.float64, (3,)),
        (torch.float32, (7, 0)),
        (torch.int64, ()),
        (torch.float32, (2,)),
    ]
    buffer = StepBuffer(4, [torch.zeros(shape, dtype=dtype, device=device) for dtype, shape in shapes])
    for count in (4, 3):
        given = [torch.randint(100, (count, *shape), generator=g).to(device, dtype) for dtype, shape in shapes]
        buffer.load(given)
        for step in range(count):
            buffer.take()
            assert all(torch.equal(now, x[step]) for now, x in zip(buffer.now, given, strict=True))
            assert all(now.data_ptr() % 16 == 0 for now in buffer.now)
            buffer.give(torch.tensor(float(step + 10 * count), device=device))
        assert buffer.given[:count].tolist() == [step + 10 * count for step in range(count)]


def test_recording_leaves_no_trace(device: torch.device) -> None:
    x, made, calls = torch.zeros(3, device=device), [], []

    def step() -> None:
        calls.append(1)
        if not made:
            made.append(torch.zeros(3, device=device))
        made[0] += 1
        x.add_(made[0])

    warm_up(step, lambda: [x.detach(), *made])
    assert len(calls) == 3
    assert x.tolist() == made[0].tolist() == [0.0] * 3
    recorded = CapturedStep(step, lambda: [x.detach(), *made], device)
    for _ in range(3):
        recorded()
    assert x.tolist() == [6.0] * 3
    recorded.release()


def test_tf32_is_the_callers_choice_again(device: torch.device) -> None:
    before = torch.backends.cuda.matmul.allow_tf32
    with allow_tf32(device):
        assert torch.backends.cuda.matmul.allow_tf32 == (device.type == "cuda" or before)
    assert torch.backends.cuda.matmul.allow_tf32 == before


def test_moved_to_the_device(device: torch.device) -> None:
    x = torch.arange(5)
    assert to_device(x, device).device.type == device.type
    assert torch.equal(to_device(x, device).cpu(), x)
