"""Training steps: ours as a fit takes them, against PyTorch's."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

import baselines
import torch
from plain import EagerDenoiser, PlainBackend, PlainStepper, rows_to_loss
from torch import Tensor
from workload import LAYOUT, Workload

from gpu.clock import Clock, Function, capture, precision
from gpu.plan import WIDTHS, predict, training
from gpu.rivals import Maker, entry, ready
from missdiff_fast._engine.history import History
from missdiff_fast._engine.steppers import NativeStepper, TrainBatch
from missdiff_fast._engine.training import Phase, train
from missdiff_fast.config import ObjectiveConfig
from missdiff_fast.diffusion.objective import column_weights
from missdiff_fast.diffusion.schedule import noise_weight
from missdiff_fast.networks import Denoiser

RATE, DECAY = 1e-3, 0.998
LESSONS = 16  # different batches
FEW, MANY = 100, 3100  # steps of two fits, of whose times the difference is taken


class Training:
    """Batches to learn from, made beforehand for the rivals. Ours draws its own, states and noise levels and all."""

    def __init__(self, w: Workload, batch: int, backend: ModuleType) -> None:
        self.w, self.backend, self.device = w, backend, w.x.device
        self.batch = min(batch, len(w.rows) // 2)
        count = min(LESSONS, len(w.rows) // self.batch)
        self.rows, self.states, self.sigma = (
            tensor[: count * self.batch].unflatten(0, (count, self.batch)) for tensor in (w.rows, w.states, w.sigma)
        )
        self.weight, self.objective = noise_weight(self.sigma), ObjectiveConfig()
        self.column_weight = column_weights(
            w.table.observed(), self.objective.column_power, self.objective.column_cap
        ).float()

    def network(self, kind: type[Denoiser]) -> Denoiser:
        torch.manual_seed(0)
        network = kind(LAYOUT, width=WIDTHS[0])
        torch.nn.init.normal_(network.outputs.weight, std=0.1)
        return network.to(self.device)

    def fit(self, steps: int) -> Tensor:
        """So many steps of ours; the first weight afterwards, that a caller may wait for."""
        network = self.network(Denoiser)
        phase = Phase("bench", steps, self.batch, RATE, 100, DECAY)
        train(network, self.w.table, self.objective, phase, self.backend, 0, History())
        return network.inputs.weight

    def lessons(self) -> list[TrainBatch]:
        parts = zip(self.rows, self.states, self.sigma, self.weight, strict=True)
        key = self.w.key
        return [
            TrainBatch(self.w.table, rows, states, states, sigma, weight, key) for rows, states, sigma, weight in parts
        ]

    def looped(self, make: Callable[[], Any], name: str) -> Function:
        """A stepper of the package's kind over all lessons."""
        stepper, lessons = make(), self.lessons()

        def run() -> None:
            with precision(name, self.device):
                for lesson in lessons:
                    stepper.step(lesson, RATE)

        return run

    def one_call(self) -> Any:
        """Our stepper outside of any graph."""
        return NativeStepper(self.network(Denoiser), self.objective, self.column_weight, DECAY, self.backend)

    def plain(self, compiled: bool) -> PlainStepper:
        network = self.network(EagerDenoiser)
        return PlainStepper(network, self.objective, self.column_weight, DECAY, PlainBackend(compiled))  # type: ignore[arg-type]

    def captured(self, name: str, compiled: bool, network: Denoiser | None = None) -> Function:
        """PyTorch's whole step as one graph, which finds its batch by a counter on the card; replayed for all lessons.

        Rate and decay are constants here, which ours are not.
        """
        network, table, count = network or self.network(EagerDenoiser), self.w.table, len(self.rows)
        weights = list(network.parameters())
        on_card = self.device.type == "cuda"
        optimizer = torch.optim.AdamW(weights, lr=RATE, weight_decay=0.0, fused=True, capturable=on_card)
        average = [weight.detach().clone() for weight in weights]
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
            torch._foreach_lerp_(average, [weight.detach() for weight in weights], 1 - DECAY)
            counter.add_(1).remainder_(count)

        replay = capture(step, self.device)
        return lambda: [replay() for _ in range(count)]

    def makers(self, *, compiled: bool) -> dict[str, Maker]:
        """The rivals; the first is ours in another form."""
        kinds = ("compile", "compile and graph") if compiled else ("eager", "graph")
        precisions = ("tf32",) if compiled else ("fp32", "tf32", "bf16")
        makers: dict[str, Maker] = {}
        if not compiled:
            makers["native, a call a step"] = partial(self.looped, self.one_call, "tf32")
        for name in precisions:
            makers[f"{kinds[0]} {name}"] = partial(self.looped, partial(self.plain, compiled), name)
            makers[f"{kinds[1]} {name}"] = partial(self.captured, name, compiled)
        return makers


def measure(
    w: Workload, batch: int, backend: ModuleType, clock: Clock, *, compiled: bool = False, steps: tuple[int, int]
) -> dict[str, Any]:
    """The entry of a training step: seconds of one step each."""
    case, (few, many) = Training(w, batch, backend), steps
    functions, failed = ready(case.makers(compiled=compiled))
    fits = {f"{count} steps": partial(case.fit, count) for count in steps}
    times = clock.take_turns(functions, alone=False, seconds=2.0, rounds=(5, 15)) if functions else {}
    seconds = {name: value / len(case.rows) for name, value in times.items()}
    fitted = {name: sorted(clock.wall(fit)[0] for _ in range(3))[1] for name, fit in fits.items()}
    ours = (fitted[f"{many} steps"] - fitted[f"{few} steps"]) / (many - few)
    work = predict(training(batch), case.batch)
    return {
        "rows": case.batch,
        "bytes": work.bytes,
        "flops": work.flops,
        "fits": fitted,
        **entry({"native": ours, **seconds}, failed),
    }
