"""Fixtures shared by the tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch
from batches import LAYOUTS
from commands import make_table

from missdiff_fast import ops
from missdiff_fast._engine.backend import Backend, NativeBackend, ReferenceBackend
from missdiff_fast.cli import main
from missdiff_fast.ops import _library, _native, reference
from missdiff_fast.table.encoded import Layout


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that run on a card."""
    for item in items:
        spec = getattr(item, "callspec", None)
        if spec is not None and spec.params.get("device") == "cuda":
            item.add_marker("cuda")


@pytest.fixture(autouse=True)
def _fill_uninitialised_memory() -> Iterator[None]:
    """Let ``torch.empty`` return NaN (or the largest integer), so that an output not written in full shows."""
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = True  # type: ignore[attr-defined]
    yield
    torch.use_deterministic_algorithms(before[0], warn_only=before[1])


@pytest.fixture
def native(request: pytest.FixtureRequest) -> ModuleType:
    """The module of the compiled ops; skips if the package was installed without them for the test's device."""
    if not _native.load():
        pytest.skip("missdiff_fast was installed without its compiled ops")
    device = request.getfixturevalue("device") if "device" in request.fixturenames else torch.device("cpu")
    if device.type == "cuda" and not _library.load_cuda():
        pytest.skip("missdiff_fast was installed without its CUDA kernels")
    return ops


@pytest.fixture(params=["reference", "native"])
def backend(request: pytest.FixtureRequest) -> ModuleType:
    """Each module of ops in turn: `missdiff_fast.ops.reference` and `missdiff_fast.ops`."""
    if request.param == "reference":
        return reference
    module: ModuleType = request.getfixturevalue("native")
    return module


@pytest.fixture
def native_backend(native: ModuleType) -> Backend:
    """The compiled ops as a model takes them; skips as `native`."""
    return NativeBackend()


@pytest.fixture(params=["reference", "native"])
def any_backend(request: pytest.FixtureRequest) -> Backend:
    """Each backend in turn, as a model takes it."""
    if request.param == "reference":
        return ReferenceBackend()
    backend: Backend = request.getfixturevalue("native_backend")
    return backend


@pytest.fixture(params=list(LAYOUTS))
def layout(request: pytest.FixtureRequest) -> Layout:
    """Layouts with odd sizes, and with columns of only one kind."""
    return LAYOUTS[request.param]


@pytest.fixture(params=[torch.float32, torch.float64], ids=["float32", "float64"])
def dtype(request: pytest.FixtureRequest) -> torch.dtype:
    """The dtypes of a table."""
    return request.param


@pytest.fixture(params=["cpu", "cuda"])
def device(request: pytest.FixtureRequest) -> torch.device:
    """Each kind of device; skips CUDA where PyTorch sees none."""
    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("PyTorch sees no CUDA device")
    return torch.device(request.param)


@pytest.fixture
def fresh_compiler() -> Iterator[None]:
    """Forget what torch.compile has compiled, before and after."""
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real tables that $MISSDIFF_TEST_DATA names, or a folder ``shared/data`` beside the project."""
    named = os.environ.get("MISSDIFF_TEST_DATA")
    folder = Path(named) if named else Path(__file__).resolve().parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"no folder of real tables at {folder}; set MISSDIFF_TEST_DATA to one")
    return folder


@pytest.fixture(scope="session")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with data.csv and the model that was fitted on it."""
    folder = tmp_path_factory.mktemp("cli")
    make_table().to_csv(folder / "data.csv", index=False)
    line = f"fit {folder}/data.csv -o {folder}/m.missdiff --steps 20 --seed 1 --drop patient --categorical ward"
    assert main(line.split()) == 0
    return folder


@pytest.fixture
def data(fitted: Path) -> str:
    """A CSV file with missing cells."""
    return str(fitted / "data.csv")


@pytest.fixture
def model(fitted: Path) -> str:
    """The file of a model that the command fitted on ``data``."""
    return str(fitted / "m.missdiff")
