"""Correlations of drawn rows between columns that few rows observe."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
import pandas as pd
import pytest
import torch

import missdiff_fast._engine.correlations as correlations_module
from missdiff_fast import MissDiff
from missdiff_fast._engine.backend import Backend, NativeBackend, ReferenceBackend
from missdiff_fast._engine.correlations import LinearMap, correction
from missdiff_fast._engine.sampling import fill
from missdiff_fast._engine.tiling import unknown
from missdiff_fast.config import SolverConfig
from missdiff_fast.methods.column_states import ColumnStates
from missdiff_fast.networks import Denoiser
from missdiff_fast.table.encoded import EncodedTable, Layout

SOLVER = SolverConfig()
CPU = torch.device("cpu")


def _normal(rows: int, correlation: list[list[float]], seed: int) -> torch.Tensor:
    drawn = np.random.default_rng(seed).multivariate_normal([0.0] * len(correlation), correlation, rows)
    return torch.from_numpy(drawn).float()


def _numbers(scores: torch.Tensor, layout: Layout | None = None) -> EncodedTable:
    codes = torch.zeros((len(scores), 0), dtype=torch.int16)
    return EncodedTable(scores, codes, layout or Layout(scores.shape[1]), scores)


def _network(layout: Layout) -> Denoiser:
    """A new network, which draws all columns independently."""
    torch.manual_seed(0)
    return Denoiser(layout, width=16, blocks=1).eval()


def test_hidden_cells_are_neither_seen_nor_drawn(any_backend: Backend) -> None:
    torch.manual_seed(1)
    layout = Layout(3, (4, 2))
    network = Denoiser(layout, width=32, blocks=2).eval()
    torch.nn.init.normal_(network.outputs.weight, std=0.3)
    hidden = torch.rand(300, 5) < 0.4
    drawn = fill(network, unknown(300, layout, CPU), SOLVER, any_backend, 3, hidden=hidden)
    assert torch.equal(drawn.observed(), ~hidden)
    # A row with other hidden cells, of which the network sees nothing: the rest is drawn as before.
    others = fill(network, unknown(600, layout, CPU), SOLVER, any_backend, 3, hidden=hidden.repeat(2, 1)).rows(
        slice(300)
    )
    torch.testing.assert_close(others.continuous, drawn.continuous, equal_nan=True)
    assert torch.equal(others.codes, drawn.codes)
    seen = fill(network, unknown(300, layout, CPU), SOLVER, any_backend, 3)
    both = ~hidden[:, :3]
    assert (drawn.continuous - seen.continuous)[both].abs().mean() > 0.01  # because the network sees more there


def test_backends_draw_the_same_beside_hidden_cells() -> None:
    torch.manual_seed(1)
    layout = Layout(3, (4, 2))
    network = Denoiser(layout, width=32, blocks=2).eval()
    torch.nn.init.normal_(network.outputs.weight, std=0.3)
    hidden, precise = torch.rand(300, 5) < 0.4, replace(SOLVER, precision="float32")
    drawn = [fill(network, unknown(300, layout, CPU), precise, b, 3, hidden=hidden)
             for b in (ReferenceBackend(), NativeBackend())]  # fmt: skip
    torch.testing.assert_close(drawn[0].continuous, drawn[1].continuous, equal_nan=True, atol=1e-3, rtol=0)


def test_correlations_of_the_rows_that_hold_both_columns() -> None:
    scores = _normal(400, [[1.0, 0.6, 0.3], [0.6, 1.0, -0.4], [0.3, -0.4, 1.0]], 0)
    scores[torch.rand(400, 3, generator=torch.Generator().manual_seed(0)) < 0.5] = torch.nan
    found, cells, means = correlations_module._correlations(scores)
    frame = pd.DataFrame(scores.double().numpy())
    assert float(means[0, 1]) == pytest.approx(frame[0][frame[1].notna()].mean())
    np.testing.assert_allclose(found.numpy(), frame.corr().to_numpy(), atol=1e-6)
    assert cells[0, 1] == frame[[0, 1]].notna().all(axis=1).sum()


def test_a_linear_map_moves_its_columns_alone_and_each_row_on_its_own() -> None:
    generator = torch.Generator().manual_seed(0)
    columns, shift = torch.tensor([1, 4]), torch.randn(2, generator=generator)
    linear = LinearMap(columns, torch.randn(2, 5, generator=generator), shift)
    x = torch.randn(1000, 5, generator=generator)
    mapped = linear(x)
    assert torch.equal(mapped[:, [0, 2, 3]], x[:, [0, 2, 3]])
    torch.testing.assert_close(mapped[:, columns], x @ linear.factors.T + shift, atol=1e-5, rtol=0)
    assert torch.equal(torch.cat([linear(x[:1]), linear(x[1:18]), linear(x[18:])]), mapped)


def test_factors_change_the_covariance_as_wanted() -> None:
    before = torch.tensor([[1.0, 0.5, 0.2], [0.5, 1.0, 0.1], [0.2, 0.1, 1.0]], dtype=torch.float64)
    after = torch.tensor([[1.0, 0.5, 0.4], [0.5, 1.0, -0.3], [0.4, -0.3, 1.0]], dtype=torch.float64)
    stay, move = torch.tensor([0]), torch.tensor([1, 2])
    factors, _ = correlations_module._factors(before, after - before, before[:1, :1], stay, move)
    whole = torch.cat([torch.eye(3, dtype=torch.float64)[:1], factors])
    torch.testing.assert_close(whole @ before @ whole.T, after, atol=2e-3, rtol=0)  # the ridge is 1e-3
    nothing, _ = correlations_module._factors(before, torch.zeros_like(before), before[:1, :1], stay, move)
    torch.testing.assert_close(nothing, torch.eye(3, dtype=torch.float64)[1:], atol=1e-9, rtol=0)


def test_errors_within_chance_are_no_errors() -> None:
    generator = torch.Generator().manual_seed(0)
    variance = 1 / torch.randint(50, 3000, (500,), generator=generator).double()
    chance = torch.randn(500, generator=generator).double() * variance.sqrt()
    assert correlations_module._variance(chance.square(), variance) < 1e-4
    more = chance + 0.1 * torch.randn(500, generator=generator).double()
    assert correlations_module._variance(more.square(), variance) == pytest.approx(0.01, rel=0.15)
    assert correlations_module._variance(chance[:0], variance[:0]) == 0.0


def test_correlations_of_rare_columns_become_those_of_the_table(any_backend: Backend) -> None:
    want = [[1.0, 0.0, -0.5, 0.6], [0.0, 1.0, 0.2, 0.1], [-0.5, 0.2, 1.0, -0.8], [0.6, 0.1, -0.8, 1.0]]
    scores = _normal(20_000, want, 0)
    scores[torch.arange(20_000) % 10 != 0, 2:] = torch.nan  # a panel
    table, network = _numbers(scores), _network(Layout(4))
    drawn = fill(network, unknown(8192, table.layout, CPU), SOLVER, any_backend, 1)
    linear = correction(network, table, drawn, [0, 1], SOLVER, any_backend, 8192, 0)
    mapped = linear(drawn.continuous)
    assert linear.columns.tolist() == [2, 3]
    assert torch.equal(mapped[:, :2], drawn.continuous[:, :2])
    wrong = [(torch.tensor(want) - torch.corrcoef(x.T)).abs()[2:].max() for x in (drawn.continuous, mapped)]
    assert wrong[0] > 0.7
    assert wrong[1] < 0.1


@pytest.mark.parametrize("kind", ["complete", "few cells", "residuals"])
def test_nothing_is_moved_without_rare_columns_or_enough_of_their_cells(kind: str, any_backend: Backend) -> None:
    scores = _normal(2000, [[1.0, 0.8, 0.8], [0.8, 1.0, 0.8], [0.8, 0.8, 1.0]], 0)
    layout = Layout(3, parents=((0,), (1,))) if kind == "residuals" else Layout(3)
    if kind != "complete":
        scores[500 if kind == "residuals" else 40 :, 1:] = torch.nan
    table, network = _numbers(scores, layout), _network(layout)
    drawn = fill(network, unknown(2000, layout, CPU), SOLVER, any_backend, 1)
    common = [0, 1, 2] if kind == "complete" else [0]
    linear = correction(network, table, drawn, common, SOLVER, any_backend, 2048, 0)
    assert linear(drawn.continuous) is drawn.continuous


@pytest.fixture(scope="module")
def panel() -> tuple[MissDiff, pd.DataFrame, pd.DataFrame]:
    """A model of two columns that are measured together where a third is high, their cells, and the complete rows."""
    random = np.random.default_rng(1)
    age = random.normal(size=12_000)
    one = 0.7 * age + 0.7 * random.normal(size=12_000)
    other = 0.6 * one - 0.8 * random.normal(size=12_000)
    whole = pd.DataFrame({"age": age, "one": one, "other": other})
    table = whole.copy()
    table.loc[random.random(12_000) > 0.25 / (1 + np.exp(-3 * (age - 0.5))), ["one", "other"]] = np.nan
    return MissDiff(steps=600, random_state=1).fit(table), table, whole


def test_correlations_come_nearer_to_those_of_complete_rows_under_mar(
    panel: tuple[MissDiff, pd.DataFrame, pd.DataFrame],
) -> None:
    model, table, whole = panel
    want = whole.corr()
    assert want.loc["age", "one"] - table.corr().loc["age", "one"] > 0.1  # few ages are low where it is measured
    plain = copy.copy(model)
    plain._method = method = cast(ColumnStates, copy.copy(model._method))
    assert method._calibration.linear.columns.tolist() == [1, 2]
    method._calibration = replace(method._calibration, linear=LinearMap.none(3))
    without, corrected = ((rows.sample(20_000).corr() - want).abs().to_numpy().max() for rows in (plain, model))
    assert without > 0.15
    assert corrected < 0.5 * without


def test_a_loaded_model_draws_the_same_rows_in_parts(
    panel: tuple[MissDiff, pd.DataFrame, pd.DataFrame], tmp_path: Path
) -> None:
    model, *_ = panel
    rows = model.sample(300)
    model.save(tmp_path / "m")
    loaded = MissDiff.load(tmp_path / "m")
    parts = [loaded.sample(7), loaded.sample(293, first_row=7)]
    pd.testing.assert_frame_equal(pd.concat(parts, ignore_index=True), rows)
