"""The CUDA kernel of many training steps on the host, without a card: the same tiles, warps and lanes."""

from __future__ import annotations

import copy
import ctypes
from dataclasses import dataclass

import pytest
import torch
from batches import LAYOUTS
from cuda_host import compile_library, compiler
from test_mlp_train_step import Call, example
from tolerances import assert_close
from torch import Tensor

from missdiff_fast.networks.packing import TrainingState
from missdiff_fast.ops import reference
from missdiff_fast.table.encoded import Layout

FLAT = ("weights", "exp_avg", "exp_avg_sq", "ema")
PRECISIONS = ("float32", "tf32")


class _Call(ctypes.Structure):
    _fields_ = (
        *(
            (name, ctypes.c_int64)
            for name in (
                "num_continuous", "num_categorical", "width", "stored", "steps", "num_rows", "hidden", "blocks",
                "features", "row_blocks", "grid_blocks", "precision", "size"
            )
        ),
        *(
            (name, ctypes.c_void_p)
            for name in (
                "offsets", "continuous", "codes", "values", "rows", "states", "loss_states", "sigma", "weight",
                "level_features", "keys", "schedule", "column_weight", *FLAT, "losses"
            )
        ),
        ("mean_weight", ctypes.c_double),
    )  # fmt: skip


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    if compiler() is None:
        pytest.skip("there is no C++ compiler")
    found = compile_library(tmp_path_factory.mktemp("cuda_host_train_steps"), "cuda_host_train_steps")
    found.host_train_size.restype = ctypes.c_int64
    return found


@dataclass
class Steps:
    """The same batch in each of some steps, whose keys and rates differ."""

    call: Call
    rates: tuple[float, ...] = (0.01, 0.02, 0.005)
    decay: float = 0.9
    mean_weight: float = 0.4

    def __post_init__(self) -> None:
        base = self.call.state.network
        self.state = _row_major(self.call.state)
        self.keys = torch.stack([self.call.batch.key + torch.tensor([0, t]) for t in range(len(self.rates))])
        assert self.state.network is not base

    def truth(self) -> tuple[Tensor, TrainingState]:
        """Losses and state by the reference in float64."""
        call = Call(self.state, self.call.batch, self.call.loss_states, self.call.column_weight).double()
        state, b, losses = call.state, call.batch, []
        state.panels = False
        for rate, key in zip(self.rates, self.keys, strict=True):
            losses.append(
                reference.mlp_train_step(
                    *(state, b.table, b.rows, b.states, call.loss_states, b.sigma, b.weight, key),
                    learning_rate=rate,
                    decay=self.decay,
                    mean_weight=self.mean_weight,
                    column_weight=call.column_weight,
                )
            )
        return torch.stack(losses), state

    def run(
        self, library: ctypes.CDLL, precision: str = "float32", row_blocks: int = 2, grid_blocks: int = 3
    ) -> tuple[Tensor, TrainingState]:
        """Losses and state by the kernel."""
        state, b, steps = copy.deepcopy(self.state), self.call.batch, len(self.rates)
        network, table, layout = state.network, b.table, b.table.layout
        assert table.values is not None
        features = network.level_features(b.sigma)

        def each(x: Tensor) -> Tensor:
            return x.expand(steps, *x.shape).contiguous()

        first = state.steps
        schedule = torch.tensor(
            [(rate, first + t + 1, self.decay) for t, rate in enumerate(self.rates)], dtype=torch.float64
        )
        losses = torch.full((steps,), torch.nan)
        tensors = [
            layout.offsets(), table.continuous, table.codes, table.values, each(b.rows), each(b.states),
            each(self.call.loss_states), each(b.sigma), each(b.weight), each(features), self.keys, schedule,
            self.call.column_weight, *(getattr(state, name) for name in FLAT), losses
        ]  # fmt: skip
        sizes = (
            layout.num_continuous, layout.num_categorical, layout.width, len(table), steps, len(b.rows),
            network.width, len(network.blocks), features.shape[1], row_blocks, grid_blocks,
            PRECISIONS.index(precision), len(state.weights)
        )  # fmt: skip
        pointers = [None if x is None else x.data_ptr() for x in tensors]
        arguments = _Call(*sizes, *pointers, self.mean_weight)
        assert library.host_train_size(ctypes.byref(arguments)) == len(state.weights)
        library.host_train_steps(ctypes.byref(arguments))
        state.steps += steps
        return losses, state


def _row_major(state: TrainingState) -> TrainingState:
    """A copy of a state in panels whose matrices are row-major."""
    rows = TrainingState.of(copy.deepcopy(state.network), panels=False)
    for name in FLAT:
        getattr(rows, name).copy_(rows.lay_out(state.unflatten(getattr(state, name))))
    rows.steps = state.steps
    return rows


def check(library: ctypes.CDLL, steps: Steps, row_blocks: int = 2) -> None:
    losses, state = steps.run(library, row_blocks=row_blocks)
    true_losses, truth = steps.truth()
    for loss, wanted in zip(losses, true_losses, strict=True):
        assert_close("masked_loss", loss, wanted, torch.float32)
    for name in FLAT:
        assert_close("mlp_train_step", getattr(state, name), getattr(truth, name))


def gradients(losses_and_state: tuple[Tensor, TrainingState]) -> Tensor:
    """Those of one step from a state without moments."""
    return 10 * losses_and_state[1].exp_avg


def test_steps_are_the_references(library: ctypes.CDLL, layout: Layout) -> None:
    check(library, Steps(example(layout, 19)))


@pytest.mark.parametrize(("width", "blocks"), [(1, 1), (8, 0), (33, 1), (130, 1)])
def test_every_width(library: ctypes.CDLL, width: int, blocks: int) -> None:
    check(library, Steps(example(LAYOUTS["mixed"], 17, width=width, blocks=blocks, weighted=False), rates=(0.01,)))


@pytest.mark.parametrize(("size", "row_blocks"), [(0, 1), (1, 1), (16, 1), (67, 1), (67, 2), (67, 5)])
def test_every_size(library: ctypes.CDLL, size: int, row_blocks: int) -> None:
    """One tile, several tiles of a block, several blocks."""
    check(library, Steps(example(LAYOUTS["mixed"], size, blocks=1), rates=(0.01, 0.01)), row_blocks)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_gradients(library: ctypes.CDLL, precision: str) -> None:
    """Within the roundings of the precision's factors."""
    steps = Steps(example(LAYOUTS["clinical"], 35, width=40), rates=(0.01,))
    steps.state.exp_avg.zero_()
    found, truth = gradients(steps.run(library, precision)), gradients(steps.truth())
    relative = float(torch.dist(found.double(), truth) / truth.norm())
    assert relative < {"float32": 2e-6, "tf32": 2e-3}[precision]
    assert precision == "float32" or relative > 1e-5  # or the factors were not rounded


def test_the_blocks_that_update_the_weights_do_not_change_the_bits(library: ctypes.CDLL) -> None:
    steps = Steps(example(LAYOUTS["mixed"], 19))
    results = [steps.run(library, grid_blocks=blocks) for blocks in (1, 7)]
    for name in FLAT:
        assert torch.equal(*(getattr(state, name) for _, state in results))
    assert torch.equal(*(losses for losses, _ in results))


def test_padding_stays_zero(library: ctypes.CDLL) -> None:
    _, state = Steps(example(LAYOUTS["mixed"], 5, width=20)).run(library)
    for name in FLAT:
        flat = getattr(state, name)
        assert torch.equal(state.lay_out(state.unflatten(flat)), flat)


def test_diverging_weights_show(library: ctypes.CDLL) -> None:
    steps = Steps(example(LAYOUTS["mixed"], 5), rates=(0.01,))
    steps.state.weights *= 1e30
    losses, _ = steps.run(library)
    assert not losses.isfinite().any()
