"""The choice of a backend."""

from __future__ import annotations

import copy
import pickle
import re
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
import torch
from batches import LAYOUTS, make_table
from torch import nn

import missdiff_fast
from missdiff_fast._engine.backend import NativeBackend, ReferenceBackend, resolve_backend
from missdiff_fast._engine.device import resolve_device
from missdiff_fast._engine.history import History
from missdiff_fast._engine.imputation import one_pass
from missdiff_fast._engine.protocols import Tile
from missdiff_fast._engine.random import make_key
from missdiff_fast._engine.refinement import Networks, run_phases
from missdiff_fast._engine.sampling import fill
from missdiff_fast._engine.tiling import NATIVE_TILE, TILE
from missdiff_fast._progress import progress_bar
from missdiff_fast.config import Config, SolverConfig, TrainingConfig
from missdiff_fast.networks import Denoiser
from missdiff_fast.networks.packing_cuda import MOST_WIDTH
from missdiff_fast.ops import _library, _native
from missdiff_fast.table import Layout

CPU = torch.device("cpu")


def test_auto_takes_the_compiled_ops_on_the_cpu() -> None:
    assert type(resolve_backend("auto", CPU)) is (NativeBackend if _library.load() else ReferenceBackend)


def test_reference_is_there_everywhere() -> None:
    assert isinstance(resolve_backend("reference", CPU), ReferenceBackend)
    assert isinstance(resolve_backend("reference", torch.device("cuda")), ReferenceBackend)


def test_auto_runs_in_plain_pytorch_where_the_extension_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_library, "load", lambda: False)
    assert isinstance(resolve_backend("auto", CPU), ReferenceBackend)


def test_native_asked_for_and_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_library, "load", lambda: False)
    with pytest.raises(ValueError, match=r"no compiled extension; use backend='reference'"):
        resolve_backend("native", CPU)


def test_a_gpu_without_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked for it is an error, else a warning: never is plain PyTorch taken in silence."""
    monkeypatch.setattr(_library, "without_cuda", lambda device: "there are no kernels")
    with pytest.raises(ValueError, match="compiled ops on cuda, but there are no kernels; use backend='reference'"):
        resolve_backend("native", torch.device("cuda"))
    with pytest.warns(RuntimeWarning, match="plain PyTorch on cuda: there are no kernels"):
        assert isinstance(resolve_backend("auto", torch.device("cuda")), ReferenceBackend)


def test_a_gpu_with_kernels(native: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_library, "without_cuda", lambda device: None)
    assert isinstance(resolve_backend("auto", torch.device("cuda")), NativeBackend)
    assert isinstance(resolve_backend("native", torch.device("cuda")), NativeBackend)


def test_a_broken_extension_is_never_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> bool:
        raise ImportError("built for torch 2.13, found 2.9")

    monkeypatch.setattr(_library, "load", broken)
    with pytest.raises(ImportError, match="built for torch"):
        resolve_backend("auto", CPU)


def test_the_reference_trains_draws_and_imputes_without_the_extension(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> bool:
        raise ImportError("built for torch 2.13, found 2.9")

    for name in ("load", "load_cuda", "without_cuda"):
        monkeypatch.setattr(_library, name, broken)
    monkeypatch.setattr(_native, "_loaded", None)  # whatever an earlier test has loaded
    with pytest.raises(ImportError, match="built for torch"):
        NativeBackend().uniform(torch.arange(2), 1, make_key(0, 0))
    backend, table = resolve_backend("reference", CPU), make_table(LAYOUTS["mixed"], 300)
    network = Denoiser(table.layout, 8, 1)
    networks = Networks(network, network)
    config = replace(Config(), training=TrainingConfig(steps=3, batch_size=32), solver=SolverConfig(steps=2))
    run_phases(networks, table, config, backend, 0, History(), rounds=1)
    assert bool(fill(networks.generator, table, config.solver, backend, 0).observed().all())
    assert len(list(one_pass(networks.imputer, table, backend))) == 1


@pytest.mark.parametrize("kind", [NativeBackend, ReferenceBackend])
def test_backends_can_be_pickled_and_copied(kind: type) -> None:
    for other in (pickle.loads(pickle.dumps(kind())), copy.deepcopy(kind())):
        assert type(other) is kind
        assert vars(other) == vars(kind())


def test_networks_without_a_native_pass_run_in_pytorch(native: ModuleType) -> None:
    class Other(Denoiser):
        pass

    backend, layout, cuda = NativeBackend(), Layout(1, (2,)), torch.device("cuda")
    assert backend.tile(Denoiser(layout, 8, 1), CPU) == Tile(NATIVE_TILE["cpu"], padded=False)
    assert backend.tile(Other(layout, 8, 1), CPU) == Tile(TILE, padded=True)
    assert backend.tile(Denoiser(layout, MOST_WIDTH, 1), cuda) == Tile(NATIVE_TILE["cuda"], padded=False)
    assert backend.tile(Denoiser(layout, MOST_WIDTH + 8, 1), cuda) == Tile(TILE, padded=True)
    x, states, level = torch.randn(5, 3), torch.ones(5, 2, dtype=torch.uint8), torch.ones(1)
    with torch.inference_mode():
        network = Other(layout, 8, 1)
        nn.init.normal_(network.outputs.weight)
        assert torch.equal(backend.mlp_predict(network, x, states, level), network(x, level, states))


def test_unknown_names() -> None:
    with pytest.raises(ValueError, match="unknown backend 'gpu'; use one of 'auto', 'native', 'reference'"):
        resolve_backend("gpu", CPU)
    with pytest.raises(ValueError, match="unknown device 'gpu'"):
        resolve_device("gpu")
    with pytest.raises(ValueError, match="'meta' is not supported"):
        resolve_device("meta")
    with pytest.raises(ValueError, match="unknown device None; use 'auto', 'cpu' or 'cuda'"):
        resolve_device(None)  # type: ignore[arg-type]


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is there")
def test_a_gpu_that_is_not_there() -> None:
    assert resolve_device("auto") == CPU
    with pytest.raises(ValueError, match=r"finds no CUDA device: .+; use device='cpu'"):
        resolve_device("cuda")


def test_a_driver_that_is_too_old_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def init() -> None:
        raise RuntimeError("The NVIDIA driver on your system is too old (found version 12020)")

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.cuda, "init", init)
    with pytest.raises(ValueError, match=r"finds no CUDA device: The NVIDIA driver .* too old .*; use device='cpu'"):
        resolve_device("cuda:0")


def test_a_second_gpu_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert resolve_device("cuda:0") == torch.device("cuda:0")
    with pytest.raises(ValueError, match="'cuda:3' asked for, but there are 1 CUDA devices, from 0"):
        resolve_device("cuda:3")


@pytest.mark.parametrize(
    ("current", "rank", "count", "expected"),
    [
        (0, None, 8, 0),
        (3, None, 8, 3),  # torch.cuda.set_device
        (0, "0", 8, 0),
        (0, "5", 8, 5),  # started by torchrun
        (2, "5", 8, 2),  # the process has chosen
        (0, "5", 1, 0),  # each process sees one card
        (0, "x", 8, 0),
    ],
)
@pytest.mark.parametrize("name", ["auto", "cuda", torch.device("cuda")])
def test_each_process_has_a_gpu_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
    current: int,
    rank: str | None,
    count: int,
    expected: int,
    name: str | torch.device,
) -> None:
    _show_gpus(monkeypatch, count, current, rank)
    assert resolve_device(name) == torch.device("cuda", expected)
    assert resolve_device("cuda:0") == torch.device("cuda:0")
    assert resolve_device("cpu") == CPU


def test_more_processes_than_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    _show_gpus(monkeypatch, 4, 0, "4")
    with pytest.raises(
        ValueError, match=r"LOCAL_RANK is 4, but there are 4 CUDA devices, .* start at most 4 processes"
    ):
        resolve_device("auto")


def _show_gpus(monkeypatch: pytest.MonkeyPatch, count: int, current: int, rank: str | None) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: current)
    if rank is None:
        monkeypatch.delenv("LOCAL_RANK", raising=False)
    else:
        monkeypatch.setenv("LOCAL_RANK", rank)


def test_one_process_of_several_draws_bars(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[object] = []
    monkeypatch.setattr("missdiff_fast._progress.tqdm", lambda **options: told.append(options["disable"]))
    for rank, verbose in (("1", True), ("0", True), ("0", False)):
        monkeypatch.setenv("LOCAL_RANK", rank)
        progress_bar(total=2, desc="train", unit="step", verbose=verbose)
    assert told == [True, None, True]


def test_bars_are_drawn_in_one_way() -> None:
    """A module that made a bar of its own would draw it in every process."""
    package = Path(missdiff_fast.__file__).parent
    makers = [path.name for path in package.rglob("*.py") if re.search(r"\btqdm\(", path.read_text())]
    assert makers == ["_progress.py"]
