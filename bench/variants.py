"""Changes of the default model's training that an ablation compares; the package has no switch for those that lose."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any
from unittest.mock import patch

import torch
from muon import MuonBackend
from torch import Tensor

from missdiff_fast._engine import refinement, training
from missdiff_fast._engine.batches import TrainBatch, TrainBatches
from missdiff_fast._engine.history import History
from missdiff_fast._engine.imputation import probe_loss
from missdiff_fast._engine.protocols import Backend
from missdiff_fast._engine.random import derive
from missdiff_fast._engine.sampling import fill
from missdiff_fast._engine.steppers import FusedStepper
from missdiff_fast._engine.training import Phase
from missdiff_fast.config import Config, ObjectiveConfig
from missdiff_fast.diffusion.objective import draw_states
from missdiff_fast.diffusion.states import HIDDEN
from missdiff_fast.networks import Denoiser
from missdiff_fast.table.encoded import EncodedTable

_ENGINE = "missdiff_fast._engine"


@dataclass(frozen=True)
class Variant:
    """One change of the default.

    Parameters
    ----------
    what : str
        For the page.
    settings : mapping
        As of `missdiff_fast.MissDiff`.
    change : callable
        A context within which the package trains otherwise.
    """

    what: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    change: Callable[[], AbstractContextManager[Any]] = nullcontext


def copied_states(uniform: Tensor, observed: Tensor, shown: Tensor, config: ObjectiveConfig, *, share: float) -> Tensor:
    """As `draw_states`, but in a share of the rows the picked columns are those that another row of the batch lacks.

    In rows with clean columns these are noisy and the others clean, as when they are drawn given the others. A row
    that observes none of them keeps its uniform fraction.
    """
    lacked = observed & ~observed.roll(1, 0)  # rows come in random order
    copies = (_second(uniform) < share) & lacked.any(1, keepdim=True)
    picked = torch.where(uniform[:, :1] < config.clean_share, observed & ~lacked, lacked)
    columns = torch.where(copies, torch.where(picked, -1.0, 2.0), uniform[:, 2:])
    return draw_states(torch.cat([uniform[:, :2], columns], 1), observed, shown, config)


def paired_states(uniform: Tensor, observed: Tensor, shown: Tensor, config: ObjectiveConfig, *, share: float) -> Tensor:
    """As `draw_states`, but a share of the rows shows two observed columns, noisy, and predicts all others from them.

    These rows are taken from those whose columns would all be noisy.
    """
    states = draw_states(uniform, observed, shown, config)
    noisy = 1 - config.clean_share - config.hidden_share - config.impute_share
    chosen = (uniform[:, :1] >= 1 - noisy) & (_second(uniform) * noisy < share)
    number = torch.where(observed, uniform[:, 2:], 2.0)  # partners share their number
    first = number.amin(1, keepdim=True)
    second = torch.where(number > first, number, 2.0).amin(1, keepdim=True)
    return states.masked_fill(chosen & ((number > second) | (number == 2.0)), HIDDEN)


def _second(uniform: Tensor) -> Tensor:
    """A second uniform number of each row, ``[B, 1]``: the last digits of that of its fraction."""
    return (uniform[:, 1:2] * 1024) % 1


@contextmanager
def states_by(draw: Callable[..., Tensor]) -> Iterator[None]:
    """Within, training draws its states by another function."""
    with patch(f"{_ENGINE}.training.draw_states", draw):
        yield


@contextmanager
def fresh_fills(times: int) -> Iterator[None]:
    """Within, a round of refinement draws the missing cells ``times`` times, each with the weights so far."""
    plain_train, plain_draw, config = training.train, training._draw_batches, Config()

    def train(
        network: Denoiser,
        table: EncodedTable,
        objective: ObjectiveConfig,
        phase: Phase,
        backend: Backend,
        seed: int,
        history: History,
        *,
        filled: EncodedTable | None = None,
        **options: Any,
    ) -> None:
        if filled is None:
            plain_train(network, table, objective, phase, backend, seed, history, **options)
            return
        made, watched = list[FusedStepper](), copy.copy(backend)

        def stepper(*arguments: Any) -> FusedStepper:
            made.append(type(backend).stepper(watched, *arguments))
            return made[0]

        def draw(*arguments: Any) -> Iterator[TrainBatches]:
            current, done, part = filled, 0, 0
            for batches in plain_draw(*arguments):
                if done * times // phase.steps > part:
                    part += 1
                    made[0].state.write_ema()
                    current = fill(
                        network, table, config.solver, backend, derive(seed, "fill", phase.first_step + part)
                    )
                yield replace(batches, table=current)
                done += len(batches)

        watched.stepper = stepper  # type: ignore[method-assign]
        with patch(f"{_ENGINE}.training._draw_batches", draw):
            plain_train(network, table, objective, phase, watched, seed, history, filled=filled, **options)

    with patch(f"{_ENGINE}.refinement.train", train):
        yield


def _decay_over(share: float) -> Callable[..., float]:
    """The decay of update number ``count`` of an average over about this share of the updates before it."""
    return lambda count, ema=1.0: min(ema, (1 + count) / (1 + 1 / share + count))


@contextmanager
def average_over(share: float) -> Iterator[None]:
    """Within, weights are averaged over this share of the steps before, not over a ninth.

    `training.ema` bounds that length, and does so only in phases of more than 4,500 steps.
    """
    with patch(f"{_ENGINE}.steppers.decay_of", lambda count, _: _decay_over(share)(count)):
        yield


class _Averages(FusedStepper):
    """A step that keeps further moving averages."""

    others: Mapping[float, Tensor]

    def step(self, batch: TrainBatch, learning_rate: float, level_features: Tensor | None = None) -> Tensor:
        loss = super().step(batch, learning_rate, level_features)
        for share, average in self.others.items():
            average.lerp_(self.state.weights, 1 - _decay_over(share)(self.state.steps - 1))
        return loss


@contextmanager
def best_average(shares: Sequence[float]) -> Iterator[None]:
    """Within, every phase keeps averages of several lengths and ends with the one that imputes held-out rows best."""
    plain_train, plain_hold_out = training.train, refinement._hold_out
    held_out: EncodedTable | None = None

    def hold_out(table: EncodedTable, seed: int) -> tuple[EncodedTable, EncodedTable | None]:
        nonlocal held_out
        table, held_out = plain_hold_out(table, seed)
        return table, held_out

    def train(
        network: Denoiser,
        table: EncodedTable,
        objective: ObjectiveConfig,
        phase: Phase,
        backend: Backend,
        seed: int,
        history: History,
        **options: Any,
    ) -> None:
        made, watched = list[_Averages](), copy.copy(backend)

        def stepper(*arguments: Any) -> _Averages:
            made.append(_Averages(*arguments, watched))
            made[0].others = {share: made[0].state.weights.clone() for share in shares}
            return made[0]

        watched.stepper = stepper  # type: ignore[method-assign]
        plain_train(network, table, objective, phase, watched, seed, history, **options)
        if held_out is None:
            return
        state = made[0].state
        candidates = [state.ema, *made[0].others.values()]
        losses = []
        for candidate in candidates:
            state.ema = candidate
            state.write_ema()
            losses.append(probe_loss(network, held_out, backend, seed))
        state.ema = candidates[losses.index(min(losses))]
        state.write_ema()

    with patch(f"{_ENGINE}.refinement.train", train), patch(f"{_ENGINE}.refinement._hold_out", hold_out):
        yield


@contextmanager
def on(backend: Backend) -> Iterator[None]:
    """Within, models are fitted on this backend."""
    with patch("missdiff_fast.model.resolve_backend", lambda name, device: backend):
        yield


@contextmanager
def no_judge() -> Iterator[None]:
    """Within, every round of refinement is accepted."""
    with patch(f"{_ENGINE}.refinement._distance", lambda *_: 0.0):
        yield


@contextmanager
def judge_pairs_of(rows: int) -> Iterator[None]:
    """Within, refinement is judged by pairs of columns that at least so many rows hold both."""
    with patch(f"{_ENGINE}.resemblance._MIN_PAIRS", rows):
        yield


def _setting(**values: Any) -> dict[str, Any]:
    return {name.replace("__", "."): value for name, value in values.items()}


VARIANTS: dict[str, Variant] = {
    "default": Variant("as it is"),
    "copy_half": Variant(
        "half of the masks are another row's holes", change=partial(states_by, partial(copied_states, share=0.5))
    ),
    "copy_all": Variant(
        "all masks are another row's holes", change=partial(states_by, partial(copied_states, share=1.0))
    ),
    "fresh_fills": Variant("refinement draws its cells four times", change=partial(fresh_fills, 4)),
    "ema_short": Variant("EMA over a 30th of the steps before", change=partial(average_over, 1 / 30)),
    "ema_long": Variant("EMA over a third of the steps before", change=partial(average_over, 1 / 3)),
    "ema_best": Variant(
        "EMA over a 30th, a ninth or a third, the best on held-out rows", change=partial(best_average, (1 / 30, 1 / 3))
    ),
    "muon": Variant("Muon for the blocks' matrices, in PyTorch", change=lambda: on(MuonBackend(muon=True))),
    "adamw_torch": Variant("AdamW in PyTorch, for Muon's seconds", change=lambda: on(MuonBackend(muon=False))),
    "pairs": Variant(
        "15 % of the rows show two columns", change=partial(states_by, partial(paired_states, share=0.15))
    ),
    "no_refinement": Variant("no refinement", _setting(refine__rounds=0)),
    "no_refinement_long": Variant(
        "no refinement, one and a half times the steps", _setting(refine__rounds=0, training__effort=1.5)
    ),
    "one_round": Variant("one round of refinement", _setting(refine__rounds=1)),
    "two_rounds": Variant("two rounds of refinement", _setting(refine__rounds=2)),
    "judge_100": Variant("refinement judged by pairs of 100 rows or more", change=partial(judge_pairs_of, 100)),
    "no_judge": Variant("every round of refinement is accepted", change=no_judge),
}
