"""Drawing rows."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tolerances import assert_close
from torch import Tensor, nn

from missdiff_fast._engine import tiling
from missdiff_fast._engine.backend import Backend, NativeBackend, ReferenceBackend
from missdiff_fast._engine.protocols import Tile
from missdiff_fast._engine.sampling import draw, fill
from missdiff_fast._engine.tiling import TILE, shrinking, tiles, unknown
from missdiff_fast.config import SolverConfig
from missdiff_fast.diffusion.states import NOISY
from missdiff_fast.networks import Denoiser
from missdiff_fast.table.encoded import EncodedTable, Layout

LAYOUT = Layout(2, (3,))
CPU = torch.device("cpu")


class Exact(nn.Module):
    """The exact denoiser of two independent standard normal scores and a category with probabilities 1, 2, 3 sixths."""

    def forward(self, x: Tensor, sigma: Tensor, states: Tensor) -> Tensor:
        variance = sigma[:, None] ** 2
        scores = torch.where(states[:, :2] == NOISY, x[:, :2] / (1 + variance), x[:, :2])
        prior = torch.log(torch.tensor([1.0, 2.0, 3.0]))
        return torch.cat([scores, prior + x[:, 2:] / variance, torch.zeros(len(x), 2)], 1)


def _draw(known: EncodedTable, backend: Backend, seed: int = 0, steps: int = 20, first_row: int = 0) -> Tensor:
    solver = SolverConfig(steps=steps, sigma_min=0.02, rho=5.0)
    return torch.cat([x for _, _, x in draw(Exact(), known, solver, backend, seed, first_row=first_row)])


def test_the_right_distribution(any_backend: Backend) -> None:
    x = _draw(unknown(20_000, LAYOUT, CPU), any_backend)
    assert x.shape == (20_000, 5)
    torch.testing.assert_close(x[:, :2].mean(0), torch.zeros(2), rtol=0, atol=0.03)
    torch.testing.assert_close(x[:, :2].std(0), torch.ones(2), rtol=0, atol=0.03)
    shares = torch.bincount(x[:, 2:].argmax(1), minlength=3) / len(x)
    torch.testing.assert_close(shares, torch.tensor([1.0, 2.0, 3.0]) / 6, rtol=0, atol=0.02)


def test_known_cells_are_held(any_backend: Backend) -> None:
    known = unknown(100, LAYOUT, CPU)
    known.continuous[::2, 0] = 1.25
    known.codes[::3, 0] = 2
    x = _draw(known, any_backend)
    assert bool((x[::2, 0] == 1.25).all())
    assert not bool((x[1::2, 0] == 1.25).any())
    assert torch.equal(x[::3, 2:], torch.tensor([0.0, 0.0, 1.0]).expand(34, 3))


def test_a_row_depends_on_its_number_alone(any_backend: Backend) -> None:
    longer = _draw(unknown(TILE + 50, LAYOUT, CPU), any_backend)
    assert torch.equal(_draw(unknown(7, LAYOUT, CPU), any_backend), longer[:7])
    assert torch.equal(_draw(unknown(TILE + 1, LAYOUT, CPU), any_backend), longer[: TILE + 1])
    assert not torch.equal(longer[:50], longer[TILE:])


@pytest.mark.parametrize("first", [0, 7, TILE - 1, TILE, TILE + 20])
def test_a_table_may_begin_at_any_row(any_backend: Backend, first: int) -> None:
    known = unknown(TILE + 50, LAYOUT, CPU)
    known.continuous[::3, 1] = 0.5
    whole = _draw(known, any_backend)
    assert torch.equal(_draw(known.rows(slice(first, None)), any_backend, first_row=first), whole[first:])
    assert _draw(known.rows(slice(first, first + 9)), any_backend, first_row=first).shape == (9, 5)
    if first:
        assert not torch.equal(_draw(known.rows(slice(first, None)), any_backend), whole[first:])


def test_smaller_tiles_keep_the_rows_numbers() -> None:
    table, numbers = unknown(700, LAYOUT, CPU), []

    def work(start: int, piece: EncodedTable) -> Tensor:
        if len(piece) > 256:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory")
        numbers.append(start)
        return torch.arange(start, start + len(piece))[:, None]

    with pytest.warns(RuntimeWarning, match="going on with 256"):
        parts = list(shrinking(table, Tile(1024, padded=True), work, first_row=600))
    assert numbers == [512, 768, 1024, 1280]
    assert [(start, stop) for start, stop, _ in parts] == [(0, 168), (168, 424), (424, 680), (680, 700)]
    assert torch.cat([x for _, _, x in parts])[:, 0].tolist() == list(range(600, 1300))


@pytest.mark.parametrize("tile", [Tile(8, padded=True), Tile(8, padded=False)])
@pytest.mark.parametrize("first_row", [0, 5])
def test_no_rows_are_no_work(tile: Tile, first_row: int) -> None:
    def work(start: int, piece: EncodedTable) -> Tensor:
        raise AssertionError(f"a tile from row {start} on, of a table without rows")

    assert list(shrinking(unknown(0, LAYOUT, CPU), tile, work, first_row=first_row)) == []


def test_native_rows_need_no_company(native_backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    network, solver, sizes = Denoiser(LAYOUT, 8, 1), SolverConfig(), []
    nn.init.normal_(network.outputs.weight)
    known = unknown(250, LAYOUT, CPU)
    known.continuous[::2, 0] = 1.25

    class Counted(NativeBackend):
        def mlp_sample(self, network: nn.Module, x: Tensor, *rest: Any, **options: Any) -> Tensor:
            sizes.append(len(x))
            return super().mlp_sample(network, x, *rest, **options)

    native_backend = Counted()
    [(start, stop, whole)] = draw(network, known, solver, native_backend, 0)
    assert (start, stop) == (0, 250)
    monkeypatch.setitem(tiling.NATIVE_TILE, "cpu", 100)
    parts = list(draw(network, known, solver, native_backend, 0))
    assert [(start, stop) for start, stop, _ in parts] == [(0, 100), (100, 200), (200, 250)]
    assert torch.equal(torch.cat([x for _, _, x in parts]), whole)
    assert sizes == [250, 100, 100, 50]
    plain = torch.cat([x for _, _, x in draw(network, known, solver, ReferenceBackend(), 0)])
    assert_close("mlp_sample", whole, plain)


class Small(Denoiser):
    """A network for which a GPU has no memory where a call has more rows than this."""

    most = 512

    def forward(self, x: Tensor, *rest: Any) -> Tensor:
        if len(x) > self.most:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory")
        return super().forward(x, *rest)


def test_tiles_shrink_where_a_gpu_has_no_memory(any_backend: Backend) -> None:
    torch.manual_seed(0)
    network, solver, known = Small(LAYOUT, 8, 1), SolverConfig(), unknown(1200, LAYOUT, CPU)
    nn.init.normal_(network.outputs.weight)
    with pytest.warns(RuntimeWarning, match="GPU's memory does not hold") as told:
        parts = list(draw(network, known, solver, any_backend, 0))
    assert [str(warning.message).rpartition(" ")[2] for warning in told] == ["1,024", "512"]
    assert [(start, stop) for start, stop, _ in parts] == [(0, 512), (512, 1024), (1024, 1200)]
    network.most = 10_000
    [(_, _, whole)] = draw(network, known, solver, any_backend, 0)
    torch.testing.assert_close(torch.cat([x for _, _, x in parts]), whole, rtol=1e-4, atol=1e-5)
    network.most = 512
    with pytest.warns(RuntimeWarning):
        assert len(fill(network, known, solver, any_backend, 0)) == 1200
    network.most = 100
    with (
        pytest.warns(RuntimeWarning),
        pytest.raises(torch.cuda.OutOfMemoryError, match=r"does not hold 256 rows at once: .* use device='cpu'"),
    ):
        list(draw(network, known, solver, any_backend, 0))


def test_native_tiles_shrink_without_a_change(native_backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    network, solver, known = Denoiser(LAYOUT, 8, 1), SolverConfig(), unknown(1200, LAYOUT, CPU)
    nn.init.normal_(network.outputs.weight)
    [(_, _, whole)] = draw(network, known, solver, native_backend, 0)
    calls = iter(range(100))

    class Full(NativeBackend):
        def mlp_sample(self, network: nn.Module, x: Tensor, *rest: Any, **options: Any) -> Tensor:
            if next(calls) in (0, 2):  # other programs took the memory, the second time in the midst of the table
                raise torch.cuda.OutOfMemoryError("CUDA out of memory")
            return super().mlp_sample(network, x, *rest, **options)

    native_backend = Full()
    monkeypatch.setitem(tiling.NATIVE_TILE, "cpu", 1024)
    with pytest.warns(RuntimeWarning, match="going on with (512|256)"):
        parts = list(draw(network, known, solver, native_backend, 0))
    assert [(start, stop) for start, stop, _ in parts] == [(0, 512), (512, 768), (768, 1024), (1024, 1200)]
    assert torch.equal(torch.cat([x for _, _, x in parts]), whole)


def test_no_rows(any_backend: Backend) -> None:
    assert list(draw(Exact(), unknown(0, LAYOUT, CPU), SolverConfig(), any_backend, 0)) == []


def test_tiles_are_whole_and_lose_nothing() -> None:
    table = unknown(2 * TILE + 5, LAYOUT, CPU)
    table.continuous[:, 0] = torch.arange(len(table))
    pieces = list(tiles(table, TILE))
    assert [(start, stop) for start, stop, _ in pieces] == [(0, TILE), (TILE, 2 * TILE), (2 * TILE, 2 * TILE + 5)]
    assert all(len(piece) == TILE for _, _, piece in pieces)
    last = pieces[-1][2]
    assert last.continuous[:5, 0].tolist() == list(range(2 * TILE, 2 * TILE + 5))
    assert not bool(last.observed()[5:].any())


def test_fill_draws_the_holes_alone(any_backend: Backend) -> None:
    table = unknown(64, LAYOUT, CPU)
    table.continuous[:, 1] = torch.linspace(-2, 2, 64)
    table.codes[:32, 0] = 1
    filled = fill(Exact(), table, SolverConfig(), any_backend, 0)
    assert bool(filled.observed().all())
    assert torch.equal(filled.continuous[:, 1], table.continuous[:, 1])
    assert torch.equal(filled.codes[:32], table.codes[:32])
    assert filled.continuous[:, 0].unique().numel() == 64
    assert set(filled.codes[32:, 0].tolist()) <= {0, 1, 2}


def test_cells_that_are_not_finite_are_an_error(any_backend: Backend) -> None:
    class Broken(Exact):
        def forward(self, x: Tensor, sigma: Tensor, states: Tensor) -> Tensor:
            return super().forward(x, sigma, states) * torch.nan

    with pytest.raises(FloatingPointError, match="lower learning_rate"):
        list(draw(Broken(), unknown(3, LAYOUT, CPU), SolverConfig(), any_backend, 0))


def test_an_ops_error_that_a_gpu_had_no_memory_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ops of the stable ABI raise a plain RuntimeError: the allocator's own count tells it from others."""
    refusals, table = iter([0, 1, 1, 1, 1, 1]), unknown(600, LAYOUT, CPU)
    monkeypatch.setattr(tiling, "_out_of_memory_count", lambda device: next(refusals))

    def work(start: int, piece: EncodedTable) -> Tensor:
        if len(piece) > 300:
            raise RuntimeError("new_empty API call failed")
        return piece.continuous

    with pytest.warns(RuntimeWarning, match="does not hold 600 rows at once: going on with 300"):
        parts = list(tiling.shrinking(table, Tile(600, padded=False), work))
    assert [(start, stop) for start, stop, _ in parts] == [(0, 300), (300, 600)]
    with pytest.raises(RuntimeError, match="API call failed"):
        list(tiling.shrinking(table, Tile(600, padded=False), work))
