"""How many launches one training step of a GPU takes: the list of what a CUDA graph records, and the graph itself."""

from __future__ import annotations

import ctypes
import functools
import re
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from batches import LAYOUTS, make_batch
from torch.utils._python_dispatch import TorchDispatchMode

from missdiff_fast._engine.batches import TrainBatches
from missdiff_fast._engine.cuda_graphs import CapturedStep, StepBuffer
from missdiff_fast._engine.history import History, Progress
from missdiff_fast._engine.steppers import GraphStepper
from missdiff_fast.config import ObjectiveConfig
from missdiff_fast.networks import Denoiser
from missdiff_fast.table.encoded import Layout

MOST = 60
PAGE = Path(__file__).parent.parent / "docs" / "design.md"
# Launches of each op that is not a view and does more than reserve memory. A product of matrices without a bias, whose
# result is not copied, is one kernel of cuBLAS. Where cuBLAS splits long sums among blocks, one more adds the parts;
# that is to be expected of the weights' gradients alone, whose sums run over the batch.
LAUNCHES = {
    "aten::index_select": 1,
    "aten::mm": 1,
    "aten::bmm": 1,
    "aten::addmm_": 1,
    "missdiff_fast::adamw": 1,
    "missdiff_fast::column_sums": 1,
    "missdiff_fast::mlp_input": 1,
    "missdiff_fast::mlp_loss": 2,  # of the blocks of rows, and their sum
    "missdiff_fast::norm_backward": 1,
    "missdiff_fast::norm_forward": 1,
    "missdiff_fast::silu_backward": 1,
    "missdiff_fast::silu_forward": 1,
    "missdiff_fast::store_next": 1,
}
RESERVE = {"aten::empty", "aten::new_empty", "aten::empty_strided"}


class Launches(TorchDispatchMode):
    """Lists the ops that start work on a device."""

    def __init__(self) -> None:
        super().__init__()
        self.ops: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func._schema.name
        if not func.is_view and name not in RESERVE:
            self.ops.append(name)
        return func(*args, **(kwargs or {}))

    def count(self) -> int:
        unknown = set(self.ops) - set(LAUNCHES)
        assert not unknown, f"how many launches do {sorted(unknown)} take?"
        return sum(LAUNCHES[name] for name in self.ops)


def run(network: Denoiser, layout: Layout, device: torch.device | str = "cpu", *, weighted: bool = True) -> None:
    """Take two steps of 64 rows."""
    parts = [make_batch(layout, 64, step=step).to(device) for step in range(2)]
    fields = ("rows", "states", "states", "sigma", "weight", "key")
    batches = TrainBatches(parts[0].table, *(torch.stack([getattr(part, name) for part in parts]) for name in fields))
    weight = torch.ones(layout.num_columns, device=device)
    stepper = GraphStepper(network.to(device), ObjectiveConfig(), weight, 0.9)
    with Progress(History(), "fit", 2, False) as progress:
        stepper.run(batches, [1e-3, 1e-3], progress)
    stepper.finish()


@pytest.fixture
def listed(native: ModuleType, monkeypatch: pytest.MonkeyPatch) -> list[Launches]:
    """What each step that would be captured launches."""
    found: list[Launches] = []
    call = CapturedStep.__call__

    def listen(self: CapturedStep) -> None:
        with Launches() as launches:
            call(self)
        found.append(launches)

    monkeypatch.setattr(CapturedStep, "__call__", listen)
    return found


def test_a_step_of_the_default_network_is_few_launches(listed: list[Launches]) -> None:
    run(Denoiser(LAYOUTS["clinical"]), LAYOUTS["clinical"])
    again = listed[1]  # the first step copies the table's offsets to the device
    assert again.count() == 47
    weights = sum(name in ("aten::mm", "aten::bmm") for name in again.ops[-10:])
    assert weights == 6
    assert again.count() + weights <= MOST, Counter(again.ops)


def test_launches_do_not_depend_on_the_table(listed: list[Launches], layout: Layout) -> None:
    run(Denoiser(layout, width=16), layout)
    assert listed[1].count() == 47


@pytest.mark.parametrize(("blocks", "launches"), [(0, 14), (1, 31), (3, 47), (6, 71)])
def test_launches_of_other_networks(listed: list[Launches], blocks: int, launches: int) -> None:
    run(Denoiser(LAYOUTS["mixed"], width=16, blocks=blocks), LAYOUTS["mixed"])
    assert listed[1].count() == launches


def test_the_buffer_holds_no_input_of_the_network(
    native: ModuleType, monkeypatch: pytest.MonkeyPatch, layout: Layout
) -> None:
    """Of each row it holds what was drawn, and the features of the noise level, but nothing as wide as the row."""
    sizes: list[int] = []
    load = StepBuffer.load

    def measure(self: StepBuffer, tensors: Any) -> None:
        sizes.append(sum(x.numel() * x.element_size() for x in self.now))
        load(self, tensors)

    monkeypatch.setattr(StepBuffer, "load", measure)
    run(Denoiser(layout, width=16, embedding=8), layout)
    row, step = 8 + 2 * layout.num_columns + 4 + 4 + 4 * 8, 16 + 24 + 8
    assert sizes == [64 * row + step]


def test_the_page_tells_the_number() -> None:
    text = PAGE.read_text(encoding="utf-8")
    table = text[text.index("| part of a step |") :].split("\n\n")[0]
    numbers = [int(number) for number in re.findall(r"\| (\d+) \|$", table, re.MULTILINE)]
    assert sum(numbers[:-1]) == numbers[-1] == 47


@pytest.mark.parametrize("device", ["cuda"], indirect=True)
def test_nodes_of_the_captured_graph(
    device: torch.device, native: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes: list[int] = []
    plain = torch.cuda.CUDAGraph
    release = CapturedStep.release

    def count(self: CapturedStep) -> None:
        assert self._graph is not None
        number = ctypes.c_size_t()
        graph = ctypes.c_void_p(self._graph.raw_cuda_graph())
        assert ctypes.CDLL("libcuda.so.1").cuGraphGetNodes(graph, None, ctypes.byref(number)) == 0
        nodes.append(number.value)
        release(self)

    monkeypatch.setattr(torch.utils.deterministic, "fill_uninitialized_memory", False)  # which takes launches
    monkeypatch.setattr(torch.cuda, "CUDAGraph", functools.partial(plain, keep_graph=True))
    monkeypatch.setattr(CapturedStep, "release", count)
    run(Denoiser(LAYOUTS["clinical"]), LAYOUTS["clinical"], device)
    with capsys.disabled():
        print(f"\na training step of the default network is {nodes[0]} nodes of a CUDA graph")
    assert len(nodes) == 1
    assert nodes[0] <= MOST
