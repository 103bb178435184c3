"""STaSy's two phases of training: self-paced, and fine-tuning on the rows that are least likely."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from missdiff_fast._engine.history import History
from missdiff_fast._engine.random import derive
from missdiff_fast._engine.steppers import WeightAverage
from missdiff_fast._progress import progress_bar
from missdiff_fast.baselines._training import epoch
from missdiff_fast.baselines.stasy import self_paced
from missdiff_fast.baselines.stasy.sde import START, VESDE, random_signs

_CLIP = 1.0  # maximum norm of a gradient
_TILE = 4096  # rows of one likelihood computation


@dataclass(frozen=True)
class StasyPhase:
    """Settings of one phase of training, with the names of `missdiff_fast.baselines.STaSy`.

    ``self_paced`` of None gives all rows weight 1. ``ema`` of None keeps the weights of the last step.
    """

    name: str
    epochs: int
    batch_size: int
    learning_rate: float
    warmup: int = 0
    ema: float | None = None
    self_paced: tuple[float, float] | None = None


def train_phase(
    network: nn.Module, sde: VESDE, x: Tensor, phase: StasyPhase, seed: int, history: History, quiet: bool
) -> None:
    """Train the network in place on rows ``[N, D]``, and add each epoch's mean loss to the history.

    Raises
    ------
    FloatingPointError
        The loss is no longer finite.
    """
    index = 0 if phase.self_paced else 1
    order = torch.Generator().manual_seed(derive(seed, "batches", index))
    draws = torch.Generator(x.device).manual_seed(derive(seed, "noise", index))
    optimizer = torch.optim.Adam(network.parameters(), lr=phase.learning_rate, fused=True)
    average = WeightAverage(network, phase.ema) if phase.ema is not None else None
    first = history.step[-1] if history.step else 0
    step = 0
    network.train()
    with progress_bar(total=phase.epochs, desc=phase.name, unit="epoch", verbose=not quiet) as bar:
        for turn in range(1, phase.epochs + 1):
            total, batches = torch.zeros((), device=x.device), 0
            for rows in epoch(len(x), phase.batch_size, order):
                batch = x[rows.to(x.device)]
                t = START + (1 - START) * torch.rand((len(batch), 1), generator=draws, device=x.device)
                noise = torch.randn(batch.shape, generator=draws, device=x.device)
                losses = sde.losses(network, batch, t, noise)
                if phase.self_paced:
                    low, high = (self_paced.share(step, start) for start in phase.self_paced)
                    losses = losses * self_paced.weights(losses, low, high)
                optimizer.param_groups[0]["lr"] = phase.learning_rate * min(1.0, (step + 1) / max(phase.warmup, 1))
                optimizer.zero_grad(set_to_none=True)
                loss = losses.mean()
                loss.backward()
                nn.utils.clip_grad_norm_(network.parameters(), _CLIP)
                optimizer.step()
                if average is not None:
                    average.update()
                total += loss.detach()
                batches, step = batches + 1, step + 1
            mean = float(total) / batches
            if not math.isfinite(mean):
                raise FloatingPointError(f"the loss is {mean} in epoch {turn}: training diverged; lower learning_rate")
            history.add(first + step, mean)
            bar.update()
    if average is not None:
        average.apply()
    network.eval()


def unlikely(network: nn.Module, sde: VESDE, x: Tensor, num_probes: int, seed: int, quiet: bool) -> Tensor:
    """The rows whose log-likelihood is at most the median: ``[N / 2 or more, D]``."""
    draws = torch.Generator(x.device).manual_seed(derive(seed, "probe"))
    found = []
    network.requires_grad_(False)
    for part in progress_bar(x.split(_TILE), desc="likelihood", unit="tile", verbose=not quiet):
        probes = random_signs((num_probes, *part.shape), draws)
        found.append(sde.log_likelihood(network, part, probes))
    network.requires_grad_(True)
    likelihood = torch.cat(found)
    return x[likelihood <= likelihood.median()]
