"""The CUDA kernels' bodies, compiled for the host by tests/cuda_host.cpp, as functions of tensors on the CPU."""

from __future__ import annotations

import ctypes
import os
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from batches import Batch
from torch import Tensor

from missdiff_fast.table.encoded import Layout

FLAGS = ("-std=c++17", "-O1", "-ffp-contract=off", "-fPIC", "-shared")
GUARD = 512  # bytes
PATTERN = 0xA5


def compiler() -> list[str] | None:
    """The command of the C++ compiler, None where there is none."""
    named = shlex.split(os.environ.get("CXX", ""))
    found = next((name for name in ("c++", "g++", "clang++") if shutil.which(name)), None)
    return named or ([found] if found else None)


def compile_library(folder: Path, name: str = "cuda_host") -> ctypes.CDLL:
    source, library = Path(__file__).with_name(f"{name}.cpp"), folder / f"{name}.so"
    command = compiler()
    assert command is not None
    result = subprocess.run([*command, *FLAGS, str(source), "-o", str(library)], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return ctypes.CDLL(str(library))


class _Run(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_int32) for name in ("table", "cell", "staged", "fill"))


class _Batch(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_int64) for name in ("num_continuous", "num_categorical", "width")),
        *((name, ctypes.c_void_p) for name in ("offsets", "continuous", "codes", "values", "rows", "states")),
        *((name, ctypes.c_int64) for name in ("num_rows", "stored")),
    )


class Guarded:
    """Memory of a result, between guards that a kernel must not touch; filled with a pattern that is no number."""

    def __init__(self, shape: tuple[int, ...], dtype: torch.dtype) -> None:
        size = int(torch.Size(shape).numel()) * dtype.itemsize
        self._memory = torch.full((GUARD + size + GUARD,), PATTERN, dtype=torch.uint8)
        assert self._memory.data_ptr() % 16 == 0
        self._size = size
        self.tensor = self._memory[GUARD : GUARD + size].view(dtype).view(shape)

    def check(self) -> Tensor:
        """The result, once the guards are seen to be whole."""
        for guard in (self._memory[:GUARD], self._memory[GUARD + self._size :]):
            assert bool((guard == PATTERN).all()), "a kernel wrote outside its result"
        return self.tensor


@dataclass(frozen=True)
class Host:
    """Whether kernels work on tiles in a stand-in for shared memory, which is filled first, or on rows in place."""

    library: ctypes.CDLL
    staged: bool = True
    fill: int = 0xFF

    def call(
        self, name: str, table: torch.dtype, cell: torch.dtype, arguments: tuple[Any, ...], *results: Guarded
    ) -> tuple[Tensor, ...]:
        """Run a function of cuda_host.cpp: table's and cells' dtypes, its arguments, and where results go."""
        run = _Run(int(table == torch.float64), int(cell == torch.bfloat16), int(self.staged), self.fill)
        kept = [x.contiguous() if isinstance(x, Tensor) else x for x in arguments]
        code = getattr(self.library, name)(
            ctypes.byref(run), *map(_argument, kept), *(_argument(result.tensor) for result in results)
        )
        assert code == 0, f"{name} wrote outside its shared memory"
        return tuple(result.check() for result in results)

    def noise(self, name: str, rows: Tensor, columns: int, key: Tensor) -> Tensor:
        out = Guarded((len(rows), columns), torch.float32)
        return self.call(f"host_{name}", torch.float32, torch.float32, (rows, len(rows), columns, key), out)[0]

    def perturb(self, batch: Batch, low: float = 0.0, high: float = 1.0) -> Tensor:
        own, layout = batch.table.continuous.dtype, batch.table.layout
        out = Guarded((len(batch.rows), layout.width), own)
        arguments = (_drawn(batch), batch.alpha, batch.sigma, batch.key, low, high)
        return self.call("host_perturb", own, own, arguments, out)[0]

    def masked_loss(
        self, prediction: Tensor, batch: Batch, mean_weight: float = 0.3, column_weight: Tensor | None = None
    ) -> tuple[Tensor, ...]:
        own = batch.table.continuous.dtype
        loss, grad = Guarded((), own), Guarded(tuple(prediction.shape), prediction.dtype)
        arguments = (_drawn(batch), prediction, batch.weight, column_weight, mean_weight)
        return self.call("host_masked_loss", own, prediction.dtype, arguments, loss, grad)

    def masked_noise_loss(self, prediction: Tensor, batch: Batch) -> tuple[Tensor, ...]:
        own = batch.table.continuous.dtype
        loss, grad = Guarded((), own), Guarded(tuple(prediction.shape), prediction.dtype)
        arguments = (_drawn(batch), prediction, batch.key)
        return self.call("host_masked_noise_loss", own, prediction.dtype, arguments, loss, grad)

    def step(
        self,
        x: Tensor,
        prediction: Tensor,
        previous: Tensor | None,
        states: Tensor,
        layout: Layout,
        coefficients: Tensor,
        rows: Tensor,
        key: Tensor,
        softmax: bool,
    ) -> tuple[Tensor, ...]:
        results = [Guarded(tuple(x.shape), x.dtype) for _ in range(2)]
        arguments = (
            Drawn(layout, rows=rows, states=states),
            *(x, prediction, prediction.shape[1], previous, coefficients, key, int(softmax)),
        )
        return self.call("host_step", x.dtype, prediction.dtype, arguments, *results)

    def encode(
        self, cells: Tensor, keys: Tensor, ends: Tensor, boundaries: Tensor, count: int, share: Tensor | None = None
    ) -> Tensor:
        scores = Guarded((len(cells),), torch.float32)
        arguments = int(cells.dtype == torch.int64), cells, len(cells), keys, len(keys), ends, boundaries, count, share
        return self.call("host_encode", cells.dtype, cells.dtype, arguments, scores)[0]

    def decode(self, x: Tensor, layout: Layout, boundaries: Tensor, starts: Tensor) -> tuple[Tensor, ...]:
        bin_index = Guarded((len(x), layout.num_continuous), torch.int32)
        codes = Guarded((len(x), layout.num_categorical), torch.int16)
        arguments = (Drawn(layout, num_rows=len(x)), x, boundaries, len(boundaries), starts)
        return self.call("host_decode", x.dtype, x.dtype, arguments, bin_index, codes)


class Drawn:
    """A batch as cuda_host.cpp takes it, and the tensors that it points to."""

    def __init__(self, layout: Layout, *, num_rows: int = 0, stored: int = 0, **tensors: Tensor | None) -> None:
        self._kept = {name: x.contiguous() for name, x in tensors.items() if x is not None}
        self._kept["offsets"] = layout.offsets()
        if "rows" in self._kept:
            num_rows = len(self._kept["rows"])
        sizes = layout.num_continuous, layout.num_categorical, layout.width
        names = "offsets", "continuous", "codes", "values", "rows", "states"
        pointers = (self._kept[name].data_ptr() if name in self._kept else None for name in names)
        self.pointers = _Batch(*sizes, *pointers, num_rows, stored)


def _drawn(batch: Batch) -> Drawn:
    table = batch.table
    tensors = {"continuous": table.continuous, "codes": table.codes, "values": table.values}
    return Drawn(table.layout, stored=len(table), rows=batch.rows, states=batch.states, **tensors)


def _argument(x: Any) -> Any:
    if isinstance(x, Tensor):
        return ctypes.c_void_p(x.data_ptr())
    if isinstance(x, Drawn):
        return ctypes.byref(x.pointers)
    if isinstance(x, float):
        return ctypes.c_double(x)
    return None if x is None else ctypes.c_int64(x)
