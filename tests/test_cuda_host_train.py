"""The CUDA kernels of a training step on the host, without a card: the same indexing and arithmetic."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from batches import LAYOUTS, Batch, make_batch, make_prediction
from cuda_host import Drawn, Guarded, compile_library, compiler
from tolerances import assert_close
from torch import Tensor

from missdiff_fast.diffusion.states import CLEAN
from missdiff_fast.ops.reference import layers, mlp_ends
from missdiff_fast.table.encoded import Layout

SHAPES = [(0, 5), (1, 1), (3, 31), (4, 33), (67, 96), (129, 200), (2, 1024)]
# Rows with too many columns for shared memory, and for the map of columns.
WIDE = {"wide": Layout(1001, (2, 800)), "very_wide": Layout(301, (2, *(500,) * 40, 3))}
GAP = -7.5  # between the columns of a kernel's rows and those of others


class _Matrix(ctypes.Structure):
    _fields_ = (("first", ctypes.c_void_p), ("stride", ctypes.c_int64))


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """The kernels, compiled once."""
    if compiler() is None:
        pytest.skip("there is no C++ compiler")
    return compile_library(tmp_path_factory.mktemp("cuda_host_train"), "cuda_host_train")


class Columns:
    """Some columns of a matrix, whose other columns a kernel must not touch."""

    def __init__(self, cells: Tensor) -> None:
        rows, width = cells.shape
        self._matrix = torch.full((rows + 2, width + 7), GAP)
        self.tensor = self._matrix[1 : rows + 1, 3 : width + 3]
        self.tensor.copy_(cells)
        self.argument = ctypes.byref(_Matrix(self.tensor.data_ptr(), self._matrix.shape[1]))

    @classmethod
    def unwritten(cls, like: Tensor) -> Columns:
        return cls(torch.full_like(like, torch.nan))

    def check(self) -> Tensor:
        """The columns, once the others are seen to be whole."""
        found = self.tensor.clone()
        self.tensor.fill_(GAP)
        assert bool((self._matrix == GAP).all()), "a kernel wrote outside its columns"
        return found


NONE = ctypes.byref(_Matrix(None, 0))


def run(library: ctypes.CDLL, name: str, *arguments: Any) -> None:
    """Call a function of cuda_host_train.cpp."""
    kept = [x.contiguous() if isinstance(x, Tensor) else x for x in arguments]

    def argument(x: Any) -> Any:
        if isinstance(x, Tensor):
            return ctypes.c_void_p(x.data_ptr())
        if isinstance(x, Columns):
            return x.argument
        if isinstance(x, Drawn):
            return ctypes.byref(x.pointers)
        if isinstance(x, float):
            return ctypes.c_double(x)
        return ctypes.c_int64(x) if isinstance(x, int) else x

    assert getattr(library, name)(*map(argument, kept)) == 0, f"{name} wrote outside its shared memory"


@dataclass
class Normed:
    """The arguments of the normalisation, float32, and of its gradient."""

    h: Tensor
    bias: Tensor
    gain: Tensor
    shift: Tensor
    level: Tensor
    level_bias: Tensor
    grad: Tensor
    residual: Tensor

    @classmethod
    def example(cls, size: int, width: int) -> Normed:
        g = torch.Generator().manual_seed(width)
        h, level, grad, residual = torch.randn(4, size, width, generator=g)
        bias, gain, shift, level_bias = torch.randn(4, width, generator=g)
        return cls(3 * h + 1, bias, gain, shift, level, level_bias, grad, residual)

    def double(self) -> Normed:
        return Normed(**{name: x.double() for name, x in vars(self).items()})


@pytest.mark.parametrize("inner", [True, False], ids=["of a block", "the last one"])
@pytest.mark.parametrize(("size", "width"), SHAPES)
def test_normalisation(library: ctypes.CDLL, size: int, width: int, inner: bool) -> None:
    x = Normed.example(size, width)
    h, level = Columns(x.h), Columns(x.level)
    out, following, stats = Columns.unwritten(x.h), Columns.unwritten(x.h), Guarded((size, 2), torch.float32)
    optional = (level, x.level_bias) if inner else (NONE, None)
    run(
        *(library, "host_norm_forward", h, x.bias, x.gain, x.shift, *optional),
        *(out, stats.tensor, following if inner else NONE, size, width),
    )
    wide = x.double()
    true_out, true_next, true_stats = torch.empty_like(wide.h), torch.empty_like(wide.h), wide.h.new_empty(size, 2)
    levels = (wide.level, wide.level_bias) if inner else (None, None)
    layers.norm_forward(wide.h, wide.bias, wide.gain, wide.shift, *levels, true_out, true_stats, true_next)
    assert_close("norm_forward", out.check(), true_out)
    assert_close("norm_forward", stats.check(), true_stats)
    assert torch.equal(h.check(), x.h)
    if inner:
        assert torch.equal(following.check(), x.h + x.bias)


@pytest.mark.parametrize("kind", ["the last one", "first", "another"])
@pytest.mark.parametrize(("size", "width"), SHAPES)
def test_gradient_of_the_normalisation(library: ctypes.CDLL, size: int, width: int, kind: str) -> None:
    """Against autograd in float64: of a block the gradient of the level is written, or added to that of others."""
    x, inner = Normed.example(size, width), kind != "the last one"
    wide = x.double()
    leaves = [y.requires_grad_() for y in (wide.h, wide.gain, wide.shift)]
    normed = torch.nn.functional.layer_norm(wide.h + wide.bias, (width,), wide.gain, wide.shift)
    of_h, of_gain, of_shift = torch.autograd.grad(normed, leaves, wide.grad)
    stats = torch.empty(size, 2)
    layers.norm_forward(x.h, x.bias, x.gain, x.shift, None, None, torch.empty_like(x.h), stats)
    h, grad, residual, out = Columns(x.h), Columns(x.grad), Columns(x.residual), Columns.unwritten(x.h)
    level = Columns(x.level) if kind == "another" else Columns.unwritten(x.h)
    run(
        *(library, "host_norm_backward", h, x.bias, x.gain, stats, grad, residual if inner else NONE, out),
        *(level if inner else NONE, int(kind == "another"), size, width),
    )
    expected = of_h + (wide.residual if inner else 0)
    torch.testing.assert_close(out.check().double(), expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(h.check().double().sum(0), of_gain, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(grad.check().double().sum(0), of_shift, rtol=1e-12, atol=1e-12)
    if inner:
        assert torch.equal(level.check(), x.level + x.grad if kind == "another" else x.grad)


@pytest.mark.parametrize(("size", "width"), SHAPES)
def test_gradient_of_the_normalisation_is_the_references(library: ctypes.CDLL, size: int, width: int) -> None:
    x = Normed.example(size, width)
    wide, stats = x.double(), torch.empty(size, 2)
    layers.norm_forward(x.h, x.bias, x.gain, x.shift, None, None, torch.empty_like(x.h), stats)
    h, out = Columns(x.h), Columns.unwritten(x.h)
    run(
        *(library, "host_norm_backward", h, x.bias, x.gain, stats, Columns(x.grad), Columns(x.residual), out),
        *(NONE, 0, size, width),
    )
    truth = torch.empty_like(wide.h)
    layers.norm_backward(wide.h, wide.bias, wide.gain, stats.double(), wide.grad, wide.residual, truth)
    assert_close("norm_backward", out.check(), truth)
    assert_close("norm_backward", h.check(), wide.h)


@pytest.mark.parametrize(("size", "width"), SHAPES)
def test_silu(library: ctypes.CDLL, size: int, width: int) -> None:
    g = torch.Generator().manual_seed(width)
    x, grad, bias = 9 * torch.randn(size, width, generator=g), torch.randn(size, width, generator=g), torch.randn(width)
    columns, out = Columns(x), Columns.unwritten(x)
    run(library, "host_silu_forward", columns, bias, out, size, width)
    wide = (x.double() + bias).requires_grad_()
    result = torch.nn.functional.silu(wide)
    assert_close("silu", out.check(), result.detach())
    run(library, "host_silu_backward", columns, bias, Columns(grad), size, width)
    assert_close("silu", columns.check(), torch.autograd.grad(result, wide, grad.double())[0])


@pytest.mark.parametrize("size", [0, 1, 31, 32, 33, 1000])
@pytest.mark.parametrize("width", [1, 32, 33, 200])
def test_column_sums(library: ctypes.CDLL, size: int, width: int) -> None:
    g = torch.Generator().manual_seed(width)
    x, places = torch.randn(size, width, generator=g), torch.randperm(2 * width, generator=g)[:width]
    places[::3] = -1
    out = Guarded((2 * width,), torch.float32)
    out.tensor.fill_(GAP)
    run(library, "host_column_sums", Columns(x), places, out.tensor, size, width, 2 * width)
    truth = torch.full((2 * width,), GAP, dtype=torch.float64)
    layers.column_sums(x.double(), places, truth)
    assert_close("column_sums", out.check(), truth)


def test_the_next_number(library: ctypes.CDLL) -> None:
    out, place = torch.zeros(3), torch.tensor([1])
    run(library, "host_store_next", out, place, torch.tensor(5.0), 3)
    assert out.tolist() == [0.0, 5.0, 0.0]
    assert place.tolist() == [2]


def drawn(batch: Batch, states: Tensor) -> Drawn:
    table = batch.table
    tensors = {"continuous": table.continuous, "codes": table.codes, "values": table.values}
    return Drawn(table.layout, stored=len(table), rows=batch.rows, states=states, **tensors)


@pytest.mark.parametrize("size", [0, 1, 5, 67])
def test_input(library: ctypes.CDLL, layout: Layout, size: int) -> None:
    check_input(library, layout, size)


@pytest.mark.parametrize("name", WIDE)
def test_input_of_wide_rows(library: ctypes.CDLL, name: str) -> None:
    check_input(library, WIDE[name], 9)


def check_input(library: ctypes.CDLL, layout: Layout, size: int) -> None:
    batch = make_batch(layout, size)
    out = Guarded((size, layout.width + 2 * layout.num_columns), torch.float32)
    run(library, "host_mlp_input", drawn(batch, batch.states), batch.sigma, batch.key, out.tensor)
    truth = mlp_ends.mlp_input(batch.table, batch.rows, batch.states, batch.sigma, batch.key)
    assert_close("mlp_input", out.check(), truth)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 67])
def test_loss(library: ctypes.CDLL, layout: Layout, size: int, weighted: bool) -> None:
    check_loss(library, layout, size, weighted)


@pytest.mark.parametrize("name", WIDE)
def test_loss_of_wide_rows(library: ctypes.CDLL, name: str) -> None:
    check_loss(library, WIDE[name], 9, True)


def check_loss(library: ctypes.CDLL, layout: Layout, size: int, weighted: bool) -> None:
    batch, width = make_batch(layout, size), layout.width + layout.num_continuous
    g = torch.Generator().manual_seed(9)
    shown = batch.states
    judged = torch.where(torch.rand(shown.shape, generator=g) < 0.2, CLEAN, shown.int()).to(torch.uint8)
    output, bias = make_prediction(size, width), torch.randn(width, generator=g)
    cells = mlp_ends.mlp_input(batch.table, batch.rows, shown, batch.sigma, batch.key)
    count = batch.table.observed()[batch.rows].sum()[None]
    weights = torch.linspace(0.0, 5.0, layout.num_columns) if weighted and layout.num_columns > 1 else None
    columns, loss = Columns(output), Guarded((), torch.float32)
    run(
        *(library, "host_mlp_loss", drawn(batch, judged), columns, bias, cells, shown, batch.sigma, batch.weight),
        *(count, 0.7, weights, loss.tensor),
    )
    wide, truth = batch.double(), output.double()
    true_loss = mlp_ends.mlp_loss(
        *(truth, bias.double(), cells.double(), wide.table, wide.rows, shown, judged, wide.sigma, wide.weight, count),
        mean_weight=0.7,
        column_weight=None if weights is None else weights.double(),
    )
    assert_close("mlp_loss", loss.check(), true_loss)
    assert_close("mlp_loss.grad", columns.check(), truth)


def test_the_loss_is_divided_by_the_count_that_is_given(library: ctypes.CDLL) -> None:
    batch, layout = make_batch(LAYOUTS["mixed"], 67), LAYOUTS["mixed"]
    width = layout.width + layout.num_continuous
    output, bias, count = make_prediction(67, width), torch.zeros(width), torch.tensor([12])
    cells = mlp_ends.mlp_input(batch.table, batch.rows, batch.states, batch.sigma, batch.key)
    columns, loss = Columns(output), Guarded((), torch.float32)
    run(
        *(library, "host_mlp_loss", drawn(batch, batch.states), columns, bias, cells, batch.states, batch.sigma),
        *(batch.weight, count, 0.3, None, loss.tensor),
    )
    truth = output.double()
    wide = batch.double()
    arguments = truth, bias.double(), cells.double(), wide.table, wide.rows, wide.states, wide.states
    true_loss = mlp_ends.mlp_loss(*arguments, wide.sigma, wide.weight, count)
    assert_close("mlp_loss", loss.check(), true_loss)
    assert_close("mlp_loss.grad", columns.check(), truth)
