"""One phase of training."""

from __future__ import annotations

from types import ModuleType

import pytest
import torch

from missdiff_fast.config import ObjectiveConfig
from missdiff_fast.history import History
from missdiff_fast.networks import Denoiser
from missdiff_fast.table.encoded import EncodedTable, Layout
from missdiff_fast.training import Phase, WeightAverage, batches, train

LAYOUT = Layout(2, (3,))


def _table(rows: int = 200) -> EncodedTable:
    torch.manual_seed(0)
    x = torch.randn(rows, 1)
    continuous = torch.cat([x, x + 0.1 * torch.randn(rows, 1)], 1)
    codes = (x > 0).to(torch.int16) + (x > 1).to(torch.int16)
    values = continuous.clone()
    hole = torch.rand(rows, 2) < 0.2
    continuous[hole], values[hole] = torch.nan, torch.nan
    return EncodedTable(continuous, torch.where(torch.rand(rows, 1) < 0.2, -1, codes).to(torch.int16), LAYOUT, values)


def _train(backend: ModuleType, steps: int, seed: int = 0, **changes: float) -> tuple[Denoiser, History]:
    torch.manual_seed(1)
    network, history = Denoiser(LAYOUT, width=32, blocks=1), History()
    settings = {"batch_size": 64, "learning_rate": 5e-3, "warmup": 10, "ema": 0.99} | changes
    train(network, _table(), ObjectiveConfig(), Phase("fit", steps, **settings), backend, seed, history)  # type: ignore[arg-type]
    return network, history


def test_the_loss_falls(backend: ModuleType) -> None:
    _, history = _train(backend, 300)
    assert history.step == [50, 100, 150, 200, 250, 300]
    untrained = _train(backend, 1)[1].loss[0]
    assert history.loss[-1] < 0.75 * untrained
    assert history.seconds == sorted(history.seconds)


def test_steps_that_are_no_multiple_of_fifty_are_logged(backend: ModuleType) -> None:
    assert _train(backend, 73)[1].step == [50, 73]


def test_batches_are_passes_over_the_rows() -> None:
    order = batches(12, 4, torch.Generator().manual_seed(0))
    rows = torch.cat([next(order) for _ in range(6)])
    assert sorted(rows[:12].tolist()) == list(range(12))
    assert sorted(rows[12:].tolist()) == list(range(12))
    assert rows[:12].tolist() != rows[12:].tolist()


@pytest.mark.parametrize(("rows", "size"), [(3, 7), (10, 4), (10, 10), (1, 1)])
def test_no_row_comes_twice_in_a_batch(rows: int, size: int) -> None:
    order = batches(rows, size, torch.Generator().manual_seed(0))
    for _ in range(30):
        batch = next(order)
        assert len(batch) == len(batch.unique()) == min(rows, size)


def test_every_row_comes_in_time() -> None:
    order = batches(10, 4, torch.Generator().manual_seed(0))
    assert torch.cat([next(order) for _ in range(40)]).unique().tolist() == list(range(10))


def test_average_by_hand() -> None:
    layer = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.zeros_(layer.weight)
    average = WeightAverage(layer, decay=0.15)
    with torch.no_grad():
        layer.weight.fill_(1.0)
    average.update()  # decay min(0.15, 1/10)
    average.update()  # decay min(0.15, 2/11)
    average.apply()
    assert layer.weight.item() == pytest.approx(1 - 0.1 * 0.15)


def test_an_interruption_leaves_the_average(backend: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    update = WeightAverage.update

    def interrupt(self: WeightAverage) -> None:
        update(self)
        if self.count == 5:
            raise KeyboardInterrupt

    monkeypatch.setattr(WeightAverage, "update", interrupt)
    torch.manual_seed(1)
    network = Denoiser(LAYOUT, width=32, blocks=1)
    phase = Phase("fit", 100, 64, 5e-3, 1, 0.99)
    with pytest.raises(KeyboardInterrupt):
        train(network, _table(), ObjectiveConfig(), phase, backend, 0, History())
    assert not network.training
    assert bool(network.outputs.weight.any())


def test_divergence_is_an_error(backend: ModuleType) -> None:
    with pytest.raises(FloatingPointError, match=r"the loss is .* at step \d+: training diverged"):
        _train(backend, 100, learning_rate=1e9)


def test_missing_values_never_enter(backend: ModuleType) -> None:
    network, history = _train(backend, 60)
    assert all(bool(torch.isfinite(weight).all()) for weight in network.parameters())
    assert all(loss > 0 for loss in history.loss)
