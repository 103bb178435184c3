"""Twenty training steps of 512 rows, in one call each and as PyTorch takes them."""

from __future__ import annotations

import copy

import baselines
import pytest
import torch
from timing import Timer
from tolerances import assert_close
from torch import Tensor
from workload import Workload

from missdiff_fast import ops, reference
from missdiff_fast.learner import WeightAverage
from missdiff_fast.networks import Denoiser
from missdiff_fast.networks.packing import TrainingState, lay_out

STEPS, ROWS = 20, 512
RATE, DECAY, MEAN_WEIGHT = 1e-3, 0.998, 0.3


class Plain:
    """The network, AdamW and the average of the weights in PyTorch; one graph from rows to loss if compiled."""

    def __init__(self, network: Denoiser, compile_it: bool) -> None:
        self.network = network
        self.optimizer = torch.optim.AdamW(network.parameters(), lr=RATE, weight_decay=0.0, fused=True)
        self.average = WeightAverage(network, DECAY)
        self.loss = baselines.compiled(self._loss) if compile_it else self._loss

    def _loss(
        self, continuous: Tensor, codes: Tensor, values: Tensor, rows: Tensor, states: Tensor, sigma: Tensor,
        weight: Tensor, column_weight: Tensor, noise: Tensor | None,
    ) -> Tensor:  # fmt: skip
        x = baselines.perturb(continuous, codes, rows, states, torch.ones_like(sigma), sigma, noise)
        prediction = self.network(x, sigma, states)
        cells = (continuous, codes, values, rows, states)
        return baselines.masked_loss(prediction, *cells, weight, MEAN_WEIGHT, column_weight)

    def step(self, w: Workload, noise: Tensor | None = None) -> Tensor:
        t = w.table
        cells = (t.continuous, t.codes, t.values, w.rows, w.states)
        loss: Tensor = self.loss(*cells, w.sigma, w.weight, w.column_weight, noise)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        self.average.update()
        return loss.detach()


class Native:
    """`missdiff_fast.ops.mlp_train_step`."""

    def __init__(self, network: Denoiser) -> None:
        self.state = TrainingState.of(network)

    def step(self, w: Workload) -> Tensor:
        options = {"learning_rate": RATE, "decay": DECAY, "mean_weight": MEAN_WEIGHT}
        return ops.mlp_train_step(
            *(self.state, w.table, w.rows, w.states, w.states, w.sigma, w.weight, w.key),
            **options,
            column_weight=w.column_weight,
        )


def make_network(workload: Workload) -> Denoiser:
    """The default network with an output that is not 0."""
    torch.manual_seed(0)
    network = Denoiser(workload.table.layout)
    torch.nn.init.normal_(network.outputs.weight, std=0.1)
    return network


@pytest.fixture(scope="module")
def batches(workload: Workload) -> list[Workload]:
    """Batches of a workload, which the step that all take first holds to be the same."""
    w, network = workload.head(ROWS), make_network(workload)
    noise = reference.normal(w.rows, w.x.shape[1], w.key)
    native = Native(copy.deepcopy(network))
    loss = native.step(w)
    for compiled in (False, True):
        plain = Plain(copy.deepcopy(network), compiled)
        assert_close("masked_loss", loss, plain.step(w, noise))
        gradients = [p.grad for p in plain.network.parameters() if p.grad is not None]
        assert_close("mlp_train_step.grad", 10 * native.state.mean, lay_out(gradients))
    return [workload.piece(i * ROWS, (i + 1) * ROWS) for i in range(STEPS)]


def bench_mlp_train_step(timer: Timer, workload: Workload, batches: list[Workload], implementation: str) -> None:
    network = make_network(workload)
    learner = Native(network) if implementation == "native" else Plain(network, implementation == "compile")
    timer("mlp_train_step", implementation, lambda: [learner.step(batch) for batch in batches])
