"""Imputation in one pass."""

from __future__ import annotations

import pytest
import torch
from tolerances import assert_close
from torch import Tensor, nn

from missdiff_fast._engine import tiling
from missdiff_fast._engine.backend import Backend, ReferenceBackend
from missdiff_fast._engine.imputation import one_pass, probe_loss
from missdiff_fast._engine.tiling import TILE
from missdiff_fast.diffusion.states import CLEAN, HIDDEN
from missdiff_fast.networks import Denoiser
from missdiff_fast.table.encoded import EncodedTable, Layout

LAYOUT = Layout(1, (2,))


class Record(nn.Module):
    """Answers with what it was shown."""

    def __init__(self) -> None:
        super().__init__()
        self.states: list[Tensor] = []

    def forward(self, x: Tensor, sigma: Tensor, states: Tensor) -> Tensor:
        self.states.append(states)
        return torch.cat([x, x[:, :1] * 10], 1)


def _table(rows: int) -> EncodedTable:
    continuous = torch.arange(rows, dtype=torch.float32)[:, None]
    continuous[::2] = torch.nan
    codes = torch.ones((rows, 1), dtype=torch.int16)
    codes[::3] = -1
    return EncodedTable(continuous, codes, LAYOUT, continuous.clone())


def test_observed_columns_are_clean_and_missing_ones_hidden(any_backend: Backend) -> None:
    network, table = Record(), _table(TILE + 9)
    parts = list(one_pass(network, table, any_backend))
    assert [(start, stop) for start, stop, _, _ in parts] == [(0, TILE), (TILE, TILE + 9)]
    states = torch.cat(network.states)[: len(table)]
    assert torch.equal(states, torch.where(table.observed(), CLEAN, HIDDEN).to(torch.uint8))
    means = torch.cat([mean for *_, mean in parts])
    assert torch.equal(means, torch.nan_to_num(table.continuous) * 10)
    logits = torch.cat([logits for *_, logits, _ in parts])
    assert torch.equal(logits, torch.where(table.codes == 1, torch.tensor([0.0, 1.0]), torch.zeros(2)))


def test_native_rows_need_no_company(native_backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    network, table = Denoiser(LAYOUT, 8, 1), _table(250)
    nn.init.normal_(network.outputs.weight)
    [(_, _, logits, means)] = one_pass(network, table, native_backend)
    monkeypatch.setitem(tiling.NATIVE_TILE, "cpu", 100)
    parts = list(one_pass(network, table, native_backend))
    assert [(start, stop) for start, stop, _, _ in parts] == [(0, 100), (100, 200), (200, 250)]
    assert torch.equal(torch.cat([part[2] for part in parts]), logits)
    assert torch.equal(torch.cat([part[3] for part in parts]), means)
    [(_, _, *plain)] = one_pass(network, table, ReferenceBackend())
    assert_close("mlp_predict", torch.cat([logits, means], 1), torch.cat(plain, 1))


def test_tiles_shrink_where_a_gpu_has_no_memory(any_backend: Backend) -> None:
    network, table = Record(), _table(TILE + 9)
    [*_, (_, _, expected, _)] = one_pass(network, table, any_backend)
    shown = network.forward

    def full(x: Tensor, *rest: Tensor) -> Tensor:
        if len(x) > TILE // 2:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory")
        return shown(x, *rest)

    network.forward = full  # type: ignore[method-assign]
    with pytest.warns(RuntimeWarning, match="going on with 1,024"):
        parts = list(one_pass(network, table, any_backend))
    assert [(start, stop) for start, stop, _, _ in parts] == [(0, 1024), (1024, TILE), (TILE, TILE + 9)]
    assert torch.equal(parts[-1][2], expected)


def test_the_probe_counts_hidden_observed_cells_alone(any_backend: Backend) -> None:
    class Perfect(nn.Module):
        def forward(self, x: Tensor, sigma: Tensor, states: Tensor) -> Tensor:
            assert not bool((states == 1).any())
            return torch.tensor([0.0, -50.0, 50.0, 0.0]).expand(len(x), 4)

    table = EncodedTable(torch.zeros(3000, 1), torch.ones((3000, 1), dtype=torch.int16), LAYOUT, torch.zeros(3000, 1))
    table.continuous[::2] = torch.nan
    assert table.values is not None
    table.values[::2] = torch.nan
    assert probe_loss(Perfect(), table, any_backend, 0) == pytest.approx(0.0, abs=1e-6)


def test_the_probe_is_repeatable_and_tells_networks_apart(any_backend: Backend) -> None:
    table = _table(3000)
    good, bad = Record(), Record()
    bad.forward = lambda x, sigma, states: torch.cat([x, x[:, :1] * 10], 1) + 3.0  # type: ignore[method-assign]
    assert probe_loss(good, table, any_backend, 0) == probe_loss(good, table, any_backend, 0)
    assert probe_loss(good, table, any_backend, 0) != probe_loss(bad, table, any_backend, 0)


def test_cells_that_are_not_finite_are_an_error(any_backend: Backend) -> None:
    class Broken(nn.Module):
        def forward(self, x: Tensor, sigma: Tensor, states: Tensor) -> Tensor:
            return torch.full((len(x), 4), torch.inf)

    with pytest.raises(FloatingPointError, match="not finite"):
        list(one_pass(Broken(), _table(3), any_backend))
