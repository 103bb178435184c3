"""The phases of a fit, and what refinement is for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from missdiff_fast import MissDiff
from missdiff_fast._engine import refinement
from missdiff_fast._engine.backend import Backend
from missdiff_fast._engine.history import History
from missdiff_fast._engine.refinement import Networks, _hold_out, run_phases
from missdiff_fast.config import Config, NetworkConfig, TrainingConfig
from missdiff_fast.networks import Denoiser
from missdiff_fast.table.encoded import EncodedTable, Layout

LAYOUT = Layout(2, (3,))
CONFIG = replace(Config(), network=NetworkConfig(width=16, blocks=1), training=TrainingConfig(steps=6, batch_size=32))


def _table(rows: int = 300) -> EncodedTable:
    generator = torch.Generator().manual_seed(0)
    continuous = torch.randn(rows, 2, generator=generator)
    continuous[torch.rand(rows, 2, generator=generator) < 0.3] = torch.nan
    codes = torch.randint(-1, 3, (rows, 1), generator=generator).to(torch.int16)
    return EncodedTable(continuous, codes, LAYOUT, continuous.clone())


def _run(backend: Backend, rounds: int, table: EncodedTable | None = None) -> tuple[Networks, History]:
    torch.manual_seed(0)
    network, history = Denoiser(LAYOUT, **vars(CONFIG.network)), History()
    networks = Networks(network, network)
    run_phases(networks, table or _table(), CONFIG, backend, 0, history, rounds=rounds)
    return networks, history


@pytest.fixture
def distances(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Distances of the next networks to the table, nearer from round to round unless changed."""
    planned = [4.0, 3.0, 2.0, 1.0]
    monkeypatch.setattr(refinement, "_distance", lambda *_: planned.pop(0))
    return planned


def test_steps_of_all_phases(any_backend: Backend, distances: list[float]) -> None:
    assert _run(any_backend, 0)[1].step == [6]
    assert _run(any_backend, 2)[1].step == [6, 9, 12]


def test_without_rounds_one_network_does_both(any_backend: Backend) -> None:
    networks, _ = _run(any_backend, 0)
    assert networks.imputer is networks.generator


@pytest.mark.parametrize(("losses", "kept"), [((3.0, 2.0, 1.0), 2), ((1.0, 2.0, 3.0), 0), ((2.0, 1.0, 3.0), 1)])
def test_the_weights_that_impute_best_impute(
    any_backend: Backend, monkeypatch: pytest.MonkeyPatch, distances: list[float], losses: tuple[float, ...], kept: int
) -> None:
    seen: list[Denoiser] = []

    def probe(network: Denoiser, *_: object) -> float:
        seen.append(network)
        return losses[len(seen) - 1]

    monkeypatch.setattr(refinement, "probe_loss", probe)
    networks, _ = _run(any_backend, 2)
    assert len(seen) == 3
    assert networks.imputer is seen[kept]
    assert networks.generator is seen[-1]


@pytest.mark.parametrize(
    ("planned", "steps"),
    [([1.0, 2.0], [6, 9]), ([3.0, 2.0, 2.5], [6, 9, 12]), ([3.0, 2.0, 1.0, 0.5], [6, 9, 12, 15])],
)
def test_rounds_end_where_they_lead_away_from_the_table(
    any_backend: Backend,
    distances: list[float],
    monkeypatch: pytest.MonkeyPatch,
    planned: list[float],
    steps: list[int],
) -> None:
    distances[:] = planned
    trained: list[Denoiser] = []
    train = refinement.train

    def record(network: Denoiser, *arguments: object, **options: object) -> None:
        train(network, *arguments, **options)  # type: ignore[arg-type]
        trained.append(network)

    monkeypatch.setattr(refinement, "train", record)
    networks, history = _run(any_backend, 3)
    assert history.step == steps
    assert networks.generator is trained[planned.index(min(planned))]


def test_rows_held_out_are_not_trained_on() -> None:
    table = _table(400)
    table.continuous[:, 0] = torch.arange(400)
    kept, held_out = _hold_out(table, seed=0)
    assert held_out is not None
    assert (len(kept), len(held_out)) == (380, 20)
    assert sorted(torch.cat([kept.continuous[:, 0], held_out.continuous[:, 0]]).tolist()) == list(range(400))


@pytest.mark.parametrize("patience", [None, 1])
def test_rows_are_held_out_without_rounds_where_training_may_end_early(
    any_backend: Backend, patience: int | None
) -> None:
    config, complete = replace(CONFIG, training=replace(CONFIG.training, patience=patience)), _table(400)
    complete.codes.clamp_(min=0)
    for cells in (complete.continuous, complete.values):
        assert cells is not None
        cells.nan_to_num_(0.5)
    for table, has_holes in ((_table(400), True), (complete, False)):
        network, history = Denoiser(LAYOUT, **vars(CONFIG.network)), History()
        trained, held_out = run_phases(Networks(network, network), table, config, any_backend, 0, history, rounds=0)
        if patience is not None and has_holes:
            assert held_out is not None
            assert (len(trained), len(held_out), list(history.checks)) == (380, 20, [6])
        else:
            assert (trained, held_out, history.checks) == (table, None, {})


def test_rare_columns_lose_no_cell() -> None:
    table = _table(400)
    table.continuous[5:, 1] = torch.nan
    _, held_out = _hold_out(table, seed=0)
    assert held_out is not None
    assert len(held_out) == 20
    assert bool(held_out.continuous[:, 1].isnan().all())


def test_where_every_row_has_a_rare_cell_nothing_is_held_out() -> None:
    table = _table(400)
    table.continuous[:], table.codes[:] = torch.nan, -1
    for c in range(2):
        table.continuous[c * 99 : c * 99 + 99, c] = 0.0
    table.codes[198:297] = 0
    table = table.rows(slice(0, 297))
    assert _hold_out(table, seed=0) == (table, None)


def test_small_tables_hold_nothing_out(any_backend: Backend) -> None:
    table = _table(150)
    assert _hold_out(table, seed=0) == (table, None)
    networks, _ = _run(any_backend, 1, table)
    assert networks.imputer is networks.generator


@pytest.mark.parametrize(("planned", "kept"), [((1.0, 2.0), 0), ((2.0, 1.0), 1)])
def test_without_held_out_rows_the_generator_imputes(
    any_backend: Backend,
    monkeypatch: pytest.MonkeyPatch,
    distances: list[float],
    planned: tuple[float, ...],
    kept: int,
) -> None:
    distances[:] = planned
    trained: list[Denoiser] = []
    monkeypatch.setattr(refinement, "train", lambda network, *_, **__: trained.append(network))
    networks, _ = _run(any_backend, 1, _table(150))
    assert networks.generator is networks.imputer is trained[kept]


def test_an_interruption_while_refining_keeps_the_first_training(
    any_backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(refinement, "fill", interrupt)
    torch.manual_seed(0)
    network = Denoiser(LAYOUT, **vars(CONFIG.network))
    networks = Networks(network, network)
    with pytest.raises(KeyboardInterrupt):
        run_phases(networks, _table(), CONFIG, any_backend, 0, History(), rounds=1)
    assert networks.generator is network
    assert not network.training


# Settings of a fit without the networks that impute and that draw rows with holes.
DRAWING_ALONE = {"imputer.step_share": 0, "imputer.new_share": 0, "incomplete.step_share": 0}


def test_a_dependence_that_few_rows_show_whole_is_learnt(native_backend: Backend) -> None:
    # A pair of correlation 0.9 that one row in ten holds together. Zeros for what is missing and no word of it to the
    # network would give 0.71 in the limit: `drawn_moments` with 9/11 missing, of whose rows that hold a cell one in ten
    # holds both.
    random = np.random.default_rng(0)
    pair = pd.DataFrame(random.multivariate_normal([0, 0], [[1, 0.9], [0.9, 1]], 4000), columns=["x", "y"])
    alone, first = random.random(4000) < 0.9, random.random(4000) < 0.5
    pair.loc[alone & first, "y"] = np.nan
    pair.loc[alone & ~first, "x"] = np.nan
    model = MissDiff(steps=1500, width=64, blocks=2, random_state=0, settings=DRAWING_ALONE, verbose=False).fit(pair)
    assert abs(model.sample(4000).corr().iloc[0, 1] - 0.9) < 0.05


def test_refinement_does_no_harm_where_it_fails(native_backend: Backend) -> None:
    # Eight columns of pairwise correlation 0.8, of which a row holds two: draws of six columns given two are poor, and
    # training on them would end at a correlation of 0.3.
    random = np.random.default_rng(0)
    full = random.multivariate_normal(np.zeros(8), np.full((8, 8), 0.8) + 0.2 * np.eye(8), 3000)
    holes = random.random(full.shape).argsort(1) >= 2
    table = pd.DataFrame(np.where(holes, np.nan, full), columns=list("abcdefgh"))
    error = {}
    for refine in (0, None):
        settings: dict[str, Any] = {"settings": DRAWING_ALONE, "refine": refine}
        model = MissDiff(steps=500, width=64, blocks=2, random_state=0, **settings).fit(table)
        error[refine] = np.abs(model.sample(3000).corr().to_numpy() - 0.8)[np.triu_indices(8, 1)].mean()
    assert error[None] < error[0] + 0.03


def test_a_marginal_is_mended_where_another_column_decides_what_is_missing() -> None:
    random = np.random.default_rng(0)
    a = random.normal(size=3000)
    b = 0.8 * a + 0.6 * random.normal(size=3000)
    hidden = random.random(3000) < 1 / (1 + np.exp(0.9 - 2 * a))  # the greater a, the more often
    table = pd.DataFrame({"a": a, "b": np.where(hidden, np.nan, b)})
    off = {}
    for sigma in (1e6, 1.0):
        settings = {**DRAWING_ALONE, "refine.trusted_sigma": sigma, "calibration.scores": False}  # which mends it too
        model = MissDiff(steps=300, width=64, blocks=2, random_state=0, verbose=False, settings=settings).fit(table)
        off[sigma] = abs(model.sample(4000)["b"].mean() - b.mean())
    assert table["b"].mean() < -0.3
    assert off[1.0] < 0.85 * off[1e6] < 0.3
