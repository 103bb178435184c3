"""The length of training: chosen from the rows, or from a budget of time."""

from __future__ import annotations

import copy
import math
import time
from dataclasses import replace

from torch import nn

from missdiff_fast._engine.history import History
from missdiff_fast._engine.phase import Phase
from missdiff_fast._engine.protocols import Backend
from missdiff_fast._engine.training import train
from missdiff_fast.config import Config
from missdiff_fast.table.encoded import EncodedTable

_PILOT_STEPS, _SHORT_STEPS = 30, 6
_PILOT_SHARE = 0.1  # of a budget, after which no longer training is tried to find the time of a step
_TRAINING_SHARE = 0.85  # of a budget; the rest is for drawing missing cells and for calibration


def choose_length(
    network: nn.Module,
    table: EncodedTable,
    config: Config,
    backend: Backend,
    seed: int,
    history: History,
    *,
    rounds: int,
) -> tuple[int, int]:
    """The steps of the first training and the batch size; the history gets both with the reasons.

    A complete table, which is not refined, gets the steps of one round of refinement in addition, unless refinement was
    turned off.

    Parameters
    ----------
    network : nn.Module
        The new network; a copy of it is trained for some steps to measure their time if there is a budget.
    table : EncodedTable
        The training rows.
    config : Config
        Settings.
    backend : Backend
        The ops, the network's passes and the training step.
    seed : int
        Everything random follows from it.
    history : History
        Extended in place.
    rounds : int
        Number of refinement rounds.
    """
    training, refine = config.training, config.refine
    steps, batch_size = training.resolve(len(table))
    reason = f"{len(table):,} rows" if training.chosen else "as set"
    if training.chosen and rounds == 0 and refine.rounds is None:
        steps, reason = round(steps * (1 + refine.step_share)), f"{reason}, none of which has missing cells"
    if training.budget is not None:
        phase = Phase("pilot", _PILOT_STEPS, batch_size, training.learning_rate, training.warmup, training.ema)
        pace = _pace(copy.deepcopy(network), table, config, phase, backend, seed)
        left = _TRAINING_SHARE * training.budget - (time.perf_counter() - history.started)
        further = refine.step_share * rounds + config.imputer.share(len(table)) + _last_share(config, table)
        steps = max(_PILOT_STEPS, int(left / pace / (1 + further)))
        reason = f"a budget of {training.budget:g} s, at {1e3 * pace:.2g} ms a step"
    history.choose("training.steps", steps, reason)
    history.choose(
        "training.batch_size", batch_size, f"{len(table):,} rows" if training.batch_size is None else "as set"
    )
    history.choose("refine.rounds", rounds, "the share of missing cells" if refine.rounds is None else "as set")
    return steps, batch_size


def as_chosen(config: Config, history: History, num_rows: int) -> Config:
    """The settings with the steps that a budget or early stopping led to; without either, the settings as they are."""
    training = config.training
    if training.budget is not None:
        steps = next(int(value) for setting, value, _ in history.choices if setting == "training.steps")
        training = replace(training, steps=steps, budget=None)
    if history.kept_steps is not None:
        steps = min(history.kept_steps, training.resolve(num_rows)[0])
        training = replace(training, steps=steps, epochs=None)
    return replace(config, training=training)


def _last_share(config: Config, table: EncodedTable) -> float:
    """The steps of incomplete rows' network and of refits, as a share of those of the first training."""
    incomplete = 0.0 if bool(table.observed().all()) else config.incomplete.step_share
    return incomplete + config.refits.step_share * config.refits.number


def spare_seconds(config: Config, table: EncodedTable, history: History) -> float:
    """Seconds of a budget that are left for the fit of joint draws, once the network is trained; inf without a budget.

    What the networks still to be trained need and half of what is for drawing and calibration is not counted.
    """
    training = config.training
    if training.budget is None:
        return math.inf
    spent = time.perf_counter() - history.started
    pace = history.seconds[-1] / history.step[-1]
    steps = as_chosen(config, history, 0).training.steps or 0
    return (1 + _TRAINING_SHARE) / 2 * training.budget - spent - pace * steps * _last_share(config, table)


def _pace(network: nn.Module, table: EncodedTable, config: Config, phase: Phase, backend: Backend, seed: int) -> float:
    """Seconds of a training step: the difference of a long and a short training, after one that warms up.

    What a training costs before its first step, which grows with the table, is none of a step. The long training is
    made longer until most of its time is that of steps, or a share of the budget is spent: other work of the machine
    may make the short one as long as it. A step is never taken to be shorter than half of the long one's mean.
    """

    def seconds(steps: int) -> float:
        started = time.perf_counter()
        train(network, table, config.objective, replace(phase, steps=steps), backend, seed, History())
        return time.perf_counter() - started

    spent = seconds(phase.steps)
    short = seconds(_SHORT_STEPS)
    most, count = _PILOT_SHARE * (config.training.budget or 0.0), phase.steps
    while True:
        long = seconds(count + _SHORT_STEPS)
        spent += long
        if long > 2 * short or spent > most:
            return max(long - short, long / 2) / count
        count *= 2
