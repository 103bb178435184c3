"""One phase of training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch

from missdiff_fast._engine.backend import Backend
from missdiff_fast._engine.batches import TrainBatch, TrainBatches
from missdiff_fast._engine.history import History, Progress
from missdiff_fast._engine.protocols import Stepper
from missdiff_fast._engine.steppers import WeightAverage
from missdiff_fast._engine.training import Phase, batches, train
from missdiff_fast.config import ObjectiveConfig
from missdiff_fast.diffusion.schedule import noise_weight
from missdiff_fast.diffusion.states import CLEAN, NOISY
from missdiff_fast.networks import Denoiser
from missdiff_fast.table.encoded import EncodedTable, Layout

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


def _train(backend: Backend, steps: int, seed: int = 0, **changes: float) -> tuple[Denoiser, History]:
    torch.manual_seed(1)
    network, history = Denoiser(LAYOUT, width=32, blocks=1), History()
    settings = {"batch_size": 64, "learning_rate": 5e-3, "warmup": 10, "ema": 0.99} | changes
    # Of little noise and few hidden columns, so that a short training shows.
    objective = ObjectiveConfig(log_sigma_mean=-0.5, log_sigma_std=1.4, impute_share=0.1, mean_weight=0.3)
    train(network, _table(), objective, Phase("fit", steps, **settings), backend, seed, history)  # type: ignore[arg-type]
    return network, history


def test_the_loss_falls(any_backend: Backend) -> None:
    _, history = _train(any_backend, 300)
    assert history.step == [50, 100, 150, 200, 250, 300]
    untrained = _train(any_backend, 1)[1].loss[0]
    assert history.loss[-1] < 0.75 * untrained
    assert history.seconds == sorted(history.seconds)


def test_steps_that_are_no_multiple_of_fifty_are_logged(any_backend: Backend) -> None:
    assert _train(any_backend, 73)[1].step == [50, 73]


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


def test_an_interruption_leaves_the_average(any_backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    add, steps = Progress.add, iter(range(5))

    def interrupt(self: Progress, loss: torch.Tensor, count: int = 1) -> None:
        add(self, loss, count)
        if next(steps, None) is None:
            raise KeyboardInterrupt

    monkeypatch.setattr(Progress, "add", interrupt)
    torch.manual_seed(1)
    network = Denoiser(LAYOUT, width=32, blocks=1)
    phase = Phase("fit", 100, 64, 5e-3, 1, 0.99)
    with pytest.raises(KeyboardInterrupt):
        train(network, _table(), ObjectiveConfig(), phase, any_backend, 0, History())
    assert not network.training
    assert bool(network.outputs.weight.any())


def test_divergence_is_an_error(any_backend: Backend) -> None:
    with pytest.raises(FloatingPointError, match=r"the loss is .* at step \d+: training diverged"):
        _train(any_backend, 100, learning_rate=1e9)


def test_missing_values_never_enter(any_backend: Backend) -> None:
    network, history = _train(any_backend, 60)
    assert all(bool(torch.isfinite(weight).all()) for weight in network.parameters())
    assert all(loss > 0 for loss in history.loss)


@pytest.fixture
def seen(any_backend: Backend, monkeypatch: pytest.MonkeyPatch) -> list[tuple[TrainBatch, torch.Tensor]]:
    """Inputs of every step that the backend takes, and the column weights."""
    seen: list[tuple[TrainBatch, torch.Tensor]] = []
    make = type(any_backend).stepper

    def stepper(self: Backend, network: Denoiser, objective: Any, column_weight: torch.Tensor, ema: float) -> Stepper:
        made = make(self, network, objective, column_weight, ema)
        run = made.run

        def record(batches: TrainBatches, rates: Sequence[float], progress: Progress) -> None:
            seen.extend((batch, column_weight) for batch in batches)
            run(batches, rates, progress)

        made.run = record  # type: ignore[method-assign]
        return made

    monkeypatch.setattr(type(any_backend), "stepper", stepper)
    return seen


def _weights(
    seen: list[tuple[TrainBatch, torch.Tensor]],
    backend: Backend,
    table: EncodedTable,
    objective: ObjectiveConfig,
    **options: Any,
) -> list[torch.Tensor]:
    """The column weights of three steps."""
    seen.clear()
    network, phase = Denoiser(LAYOUT, width=8, blocks=1), Phase("fit", 3, 64, 5e-3, 1, 0.99, show=0.5)
    train(network, table, objective, phase, backend, 0, History(), **options)
    return [weight for _, weight in seen]


def test_columns_seldom_observed_weigh_more(any_backend: Backend, seen: list[tuple[TrainBatch, torch.Tensor]]) -> None:
    cells = torch.randn(400, 2, generator=torch.Generator().manual_seed(0))
    cells[100:, 1] = torch.nan
    table = EncodedTable(cells, torch.ones(400, 1, dtype=torch.int16), LAYOUT, cells)
    # Rates 1, 1/4 and 1: raw weights 1, 2 and 1, times (9/4) / (5/2) = 9/10.
    weights = _weights(seen, any_backend, table, ObjectiveConfig())
    assert len(weights) == 3
    for given in weights:
        torch.testing.assert_close(given, torch.tensor([0.9, 1.8, 0.9]))
    even = _weights(seen, any_backend, table, ObjectiveConfig(column_power=0.0))
    assert all(torch.equal(given, torch.ones(3)) for given in even)
    capped = _weights(seen, any_backend, table, ObjectiveConfig(column_power=3.0, column_cap=2.0))
    torch.testing.assert_close(capped[0], torch.tensor([0.9, 1.8, 0.9]))


def test_what_is_drawn_for_many_steps_at_once_is_each_steps_own(
    any_backend: Backend, seen: list[tuple[TrainBatch, torch.Tensor]]
) -> None:
    network, phase = Denoiser(LAYOUT, width=8, blocks=1), Phase("fit", 200, 64, 5e-3, 1, 0.99, first_step=7)
    train(network, _table(400), ObjectiveConfig(), phase, any_backend, 0, History())
    assert len(seen) == 200
    assert [int(batch.key[1]) for batch, _ in seen] == list(range(7, 207))
    assert len({int(batch.key[0]) for batch, _ in seen}) == 1
    assert len({float(batch.sigma[0]) for batch, _ in seen}) == 200
    for batch, _ in seen:
        assert torch.equal(batch.weight, noise_weight(batch.sigma))


def test_filled_cells_do_not_count_as_observed(
    any_backend: Backend, seen: list[tuple[TrainBatch, torch.Tensor]]
) -> None:
    table = _table(400)
    filled = EncodedTable(table.continuous.nan_to_num(0.0), table.codes.clamp(min=0), LAYOUT, table.values)
    weights = _weights(seen, any_backend, table, ObjectiveConfig(), filled=filled)
    assert torch.equal(weights[0], _weights(seen, any_backend, table, ObjectiveConfig())[0])
    assert not torch.equal(weights[0], torch.ones(3))


def test_a_complete_table_has_weights_of_one(any_backend: Backend, seen: list[tuple[TrainBatch, torch.Tensor]]) -> None:
    table = _table()
    complete = EncodedTable(
        table.continuous.nan_to_num(0.0), table.codes.clamp(min=0), LAYOUT, table.continuous.nan_to_num(0.0)
    )
    assert torch.equal(_weights(seen, any_backend, complete, ObjectiveConfig())[0], torch.ones(3))


def test_draws_are_learnt_from_in_noisy_rows_and_where_a_column_is_mostly_observed(
    any_backend: Backend, seen: list[tuple[TrainBatch, torch.Tensor]]
) -> None:
    generator = torch.Generator().manual_seed(0)
    cells = torch.randn(400, 2, generator=generator)
    cells[300:, 0], cells[160:, 1] = torch.nan, torch.nan  # observed in 75 and in 40 % of the rows
    codes = torch.ones(400, 1, dtype=torch.int16)
    codes[200:] = -1
    table = EncodedTable(cells, codes, LAYOUT, cells)
    complete = cells.nan_to_num(0.5)
    filled = EncodedTable(complete, codes.clamp(min=0), LAYOUT, complete)
    phase = Phase("fit", 20, 64, 5e-3, 1, 0.99, show=0.5, trusted_rate=0.5, trusted_sigma=1.0)
    train(
        Denoiser(LAYOUT, width=8, blocks=1), table, ObjectiveConfig(), phase, any_backend, 0, History(), filled=filled
    )
    assert len(seen) == 20
    assert all(batch.table is filled for batch, _ in seen)
    steps = [
        {
            "states": batch.states,
            "sigma": batch.sigma,
            "learnt": batch.loss_states,
            "observed": table.observed()[batch.rows],
        }
        for batch, _ in seen
    ]
    rows = {name: torch.cat([step[name] for step in steps]) for name in steps[0]}
    hole, shown, noisy = ~rows["observed"], rows["states"] == NOISY, rows["sigma"][:, None] > 1.0
    trusted = torch.tensor([True, False, True])
    assert torch.equal(rows["learnt"][~hole], rows["states"][~hole])
    assert torch.equal((rows["learnt"] != CLEAN)[hole], (shown & noisy & trusted)[hole])
    assert (hole & shown & noisy)[:, [0, 2]].any(0).all()
