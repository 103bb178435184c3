"""Drawn rows on their way from a GPU to the host: what waits for what, with a stand-in for a GPU, and on one."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from missdiff_fast import MissDiff
from missdiff_fast._engine import device as module
from missdiff_fast._engine import sampling, tiling
from missdiff_fast._engine.backend import ReferenceBackend
from missdiff_fast._engine.device import one_behind, to_host
from missdiff_fast._engine.tiling import unknown
from missdiff_fast.config import SolverConfig
from missdiff_fast.errors import DivergedError
from missdiff_fast.networks import Denoiser
from missdiff_fast.table import Codec, read_frame
from missdiff_fast.table.encoded import Layout


class _FakeGpu:
    """Records what is asked of streams, events and pinned memory."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.told: list[str] = []
        monkeypatch.setattr(module, "_copy_stream", lambda device: _FakeStream(self, "side"))
        monkeypatch.setattr(module, "_pinned_like", lambda x: _FakeTensor(self, f"pinned {x.name}"))
        monkeypatch.setattr(torch.cuda, "current_stream", lambda device=None: _FakeStream(self, "main"))
        monkeypatch.setattr(torch.cuda, "stream", self._on)

    @contextmanager
    def _on(self, stream: _FakeStream) -> Iterator[None]:
        self.told.append(f"on {stream.name}")
        yield
        self.told.append(f"off {stream.name}")


class _FakeStream:
    def __init__(self, gpu: _FakeGpu, name: str) -> None:
        self.gpu, self.name = gpu, name

    def wait_stream(self, other: _FakeStream) -> None:
        self.gpu.told.append(f"{self.name} waits for {other.name}")

    def record_event(self) -> _FakeStream:
        self.gpu.told.append(f"event on {self.name}")
        return self

    def synchronize(self) -> None:
        self.gpu.told.append(f"host waits for the event on {self.name}")


class _FakeTensor:
    device = torch.device("cuda", 0)

    def __init__(self, gpu: _FakeGpu, name: str) -> None:
        self.gpu, self.name = gpu, name

    def contiguous(self) -> _FakeTensor:
        return self

    def copy_(self, other: _FakeTensor, *, non_blocking: bool) -> _FakeTensor:
        assert non_blocking
        self.gpu.told.append(f"copy {other.name}")
        return self

    def record_stream(self, stream: _FakeStream) -> None:
        self.gpu.told.append(f"{self.name} is used on {stream.name}")


def test_a_copy_waits_for_the_work_and_nothing_waits_for_the_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = _FakeGpu(monkeypatch)
    given: Any = _FakeTensor(gpu, "bins"), _FakeTensor(gpu, "codes")
    wait = to_host(*given)
    begun = [
        "side waits for main",
        *("on side", "copy bins", "copy codes", "event on side", "off side"),
        *("bins is used on side", "codes is used on side"),
    ]
    assert gpu.told == begun
    copies: Any = wait()
    assert [x.name for x in copies] == ["pinned bins", "pinned codes"]
    assert gpu.told == [*begun, "host waits for the event on side"]


def test_a_tile_is_finished_while_the_next_one_is_computed() -> None:
    told: list[str] = []

    def tiles() -> Iterator[int]:
        for i in range(3):
            told.append(f"compute {i}")
            yield i

    def begin(i: int) -> Callable[[], None]:
        told.append(f"copy {i}")
        return lambda: told.append(f"finish {i}")

    one_behind(tiles(), begin)
    assert told == [
        *("compute 0", "copy 0", "compute 1", "copy 1", "finish 0"),
        *("compute 2", "copy 2", "finish 1", "finish 2"),
    ]
    one_behind([], begin)
    assert len(told) == 9


def test_what_fails_before_a_tile_is_finished_leaves_it_unfinished() -> None:
    finished: list[int] = []

    def tiles() -> Iterator[int]:
        yield 0
        yield 1
        raise ValueError("tile 1 is not finite")

    with pytest.raises(ValueError, match="tile 1"):
        one_behind(tiles(), lambda i: lambda: finished.append(i))
    assert finished == [0]


def _diverged(layout: Layout) -> Denoiser:
    network = Denoiser(layout, width=8, blocks=1)
    with torch.no_grad():
        for weights in network.parameters():
            weights.fill_(torch.nan)
    return network


def test_the_last_tile_is_checked_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a check is answered late, as on a GPU, it is asked for all the same: after the tile, and at the end."""
    answered: list[int] = []

    def late(x: Tensor, verb: str) -> Callable[[], None]:
        return lambda: answered.append(len(x))

    monkeypatch.setattr(sampling, "begin_check", late)
    layout, seen = Layout(2, (3,)), []
    network, solver = Denoiser(layout, width=8, blocks=1), SolverConfig(steps=2)
    for start, _, _ in sampling.draw(
        network, unknown(5000, layout, torch.device("cpu")), solver, ReferenceBackend(), 0
    ):
        seen.append((start, len(answered)))
    assert seen == [(0, 0), (2048, 1), (4096, 2)]
    assert sum(answered) == 5000


@pytest.mark.parametrize("device", ["cpu", "cuda"], indirect=True)
def test_rows_that_are_not_finite_are_told_before_they_are_taken(device: torch.device) -> None:
    layout = Layout(2, (3,))
    network, finished = _diverged(layout).to(device), []
    drawn = sampling.draw(network, unknown(10, layout, device), SolverConfig(steps=2), ReferenceBackend(), 0)
    with pytest.raises(DivergedError, match="not finite"):
        one_behind(drawn, lambda part: lambda: finished.append(part[0]))
    assert not finished


@pytest.mark.parametrize("device", ["cpu", "cuda"], indirect=True)
def test_copies_are_the_tensors(device: torch.device) -> None:
    x = torch.arange(300_000, device=device).view(1000, 300)
    waits = [to_host(x + i, (x * i)[:, ::2]) for i in range(5)]
    for i, wait in enumerate(waits):
        whole, half = wait()
        assert whole.device.type == half.device.type == "cpu"
        assert torch.equal(whole, x.cpu() + i)
        assert torch.equal(half, (x.cpu() * i)[:, ::2])


@pytest.mark.parametrize("device", ["cuda"], indirect=True)
def test_a_copy_begins_without_a_wait(device: torch.device) -> None:
    x = torch.arange(1 << 20, device=device)
    to_host(x)()  # makes the stream and the memory
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        wait = to_host(x + 1)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert torch.equal(wait()[0], x.cpu() + 1)


@pytest.mark.parametrize("device", ["cuda"], indirect=True)
def test_atoms_are_settled_on_a_gpu_as_on_the_cpu(device: torch.device) -> None:
    generator = np.random.default_rng(0)
    paid = np.where(generator.random(2000) < 0.4, 0.0, generator.exponential(100, 2000).round(1))
    codec = Codec.fit(read_frame(pd.DataFrame({"paid": paid})), ops=ReferenceBackend())
    atoms = codec.atoms(share=0.1, count=10, budget=10)
    bins = torch.from_numpy(generator.integers(0, codec.boundaries.numel() + 1, (2000, 1))).int()
    codes, x = torch.from_numpy(generator.integers(0, 2, (2000, 1))).short(), torch.randn(2000, 1)
    there = atoms.settle(bins.to(device), codes.to(device), x.to(device))
    for theirs, ours in zip(there, atoms.settle(bins, codes, x), strict=True):
        assert theirs.device.type == device.type
        assert torch.equal(theirs.cpu(), ours)


# Calls for which the host would wait for a GPU: they read a tensor's values, or copy to a device.
_READS = {"item", "tolist", "cpu", "numpy", "__bool__", "__int__", "__float__", "nonzero", "masked_select"}
_COPIES = {"tensor", "as_tensor"}
# Places that read values of tensors of the CPU alone: file and function.
_ON_THE_CPU = {("_checks.py", "check_offsets"), ("calibration.py", "rows"), ("atoms.py", "settle")}


class _Waits(TorchFunctionMode):
    """Counts the calls of the package for which the host would wait for a GPU, by file and function."""

    def __init__(self) -> None:
        super().__init__()
        self.count: Counter[tuple[str, str, str]] = Counter()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if self._waits(name, [*args, *kwargs.values()]):
            frame = sys._getframe(1)
            while "missdiff_fast" not in frame.f_code.co_filename and frame.f_back is not None:
                frame = frame.f_back
            place = frame.f_code.co_filename.rpartition("/")[2], frame.f_code.co_name
            if place not in _ON_THE_CPU:
                self.count[(name, *place)] += 1
        return func(*args, **kwargs)

    @staticmethod
    def _waits(name: str, arguments: list[Any]) -> bool:
        if name in ("__getitem__", "__setitem__"):  # a mask's number of cells; that of a scalar to set is not needed
            index = arguments[1] if isinstance(arguments[1], tuple) else (arguments[1],)
            masks = any(isinstance(i, Tensor) and i.dtype == torch.bool for i in index)
            return masks and (name == "__getitem__" or isinstance(arguments[2], Tensor))
        if name == "to":
            return any(isinstance(argument, torch.device | str) for argument in arguments)
        return name in _READS | _COPIES


def _mixed_table(num_rows: int) -> pd.DataFrame:
    """Numbers with and without atoms, few and many categories, and holes."""
    generator = np.random.default_rng(0)
    x = generator.normal(size=num_rows)
    table = pd.DataFrame(
        {
            "x": x,
            "y": 2 * x + generator.normal(size=num_rows),
            "paid": np.where(generator.random(num_rows) < 0.4, 0.0, generator.exponential(100, num_rows).round(1)),
            "code": [f"c{i}" for i in (generator.random(num_rows) ** 2 * 300).astype(int)],
            "sex": generator.choice(["f", "m"], num_rows),
        }
    )
    return table.mask(generator.random(table.shape) < 0.2)


@contextmanager
def _no_waits(device: torch.device) -> Iterator[None]:
    """Fails where the host waits for a GPU, and on the CPU where it would."""
    if device.type == "cuda":
        torch.cuda.set_sync_debug_mode("error")
        try:
            yield
        finally:
            torch.cuda.set_sync_debug_mode("default")
    else:
        with _Waits() as waits:
            yield
        assert not waits.count


@pytest.mark.parametrize("device", ["cpu", "cuda"], indirect=True)
def test_tiles_are_queued_without_waits(
    monkeypatch: pytest.MonkeyPatch, native: ModuleType, device: torch.device
) -> None:
    monkeypatch.setitem(tiling.NATIVE_TILE, device.type, 1024)
    # An answer that is late on a GPU, where asking for it begins with a copy.
    if device.type == "cpu":
        monkeypatch.setattr(sampling, "begin_check", lambda x, verb: lambda: None)
    model = MissDiff(
        steps=30, random_state=0, backend="native", device=device, settings={"blend.rows_per_feature": 1000}
    )
    method: Any = model.fit(_mixed_table(4000))._method
    assert method.wide.layout.num_columns == method.wide.plain.num_columns + 1
    assert method.atoms.layout.num_columns == method.wide.layout.num_columns + 1
    assert method._blend is not None
    numbers = []

    def watched(items: Iterable[Any], begin: Callable[[Any], Callable[[], None]]) -> None:
        """As `one_behind`; after the first tile, with which tensors are copied to the device once, nothing waits."""
        items = iter(items)
        finish = [begin(next(items))]
        with _no_waits(device):
            finish += [begin(item) for item in items]
        for finished in finish:
            finished()
        numbers.append(len(finish))

    monkeypatch.setattr("missdiff_fast.methods.column_states.one_behind", watched)
    known = method.codec.encode(method.codec.read(_mixed_table(3 * 1024))).to(device)
    method.impute(known, 0)
    method.draw(unknown(len(known), known.layout, device), 0)
    assert numbers == [3, 3]
