"""Correlations of drawn rows between columns that few rows observe."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

import missdiff_fast._engine.correlations as correlations_module
from missdiff_fast import MissDiff
from missdiff_fast._engine.backend import Backend, NativeBackend, ReferenceBackend
from missdiff_fast._engine.correlations import LinearMap, _Regressions, correction
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


def test_regressions_over_the_rows_that_observe_a_column() -> None:
    scores = _normal(400, [[1.0, 0.6, 0.3], [0.6, 1.0, -0.4], [0.3, -0.4, 1.0]], 0)
    scores[torch.rand(400, generator=torch.Generator().manual_seed(0)) < 0.5, 1] = torch.nan
    transform = torch.eye(2, dtype=torch.float64)
    found = _Regressions.of(scores, torch.tensor([0, 2]), torch.tensor([1]), transform)
    rows = scores[~scores[:, 1].isnan()].double().numpy()
    design = np.column_stack([np.ones(len(rows)), rows[:, [0, 2]]])
    want, (squares,), *_ = np.linalg.lstsq(design, rows[:, 1], rcond=None)
    np.testing.assert_allclose(found.slopes[0].numpy(), want[1:], atol=2e-3)  # the ridge is 1e-3
    errors = np.linalg.inv(design.T @ design).diagonal()[1:] * squares / len(rows)
    np.testing.assert_allclose(found.variances[0].numpy(), errors, rtol=0.02)
    assert torch.equal(found.left[:, 0].isnan(), scores[:, 1].isnan())
    assert float(found.left.nanmean()) == pytest.approx(0, abs=1e-9)


def test_correlations_of_what_two_regressions_leave() -> None:
    left = _normal(400, [[1.0, 0.6], [0.6, 1.0]], 0).double()
    left -= left.mean(0)
    left[:100, 0] = torch.nan
    found, cells = correlations_module._correlations(left)
    want = (left[100:, 0] @ left[100:, 1]) / (left[100:].square().sum(0).prod()).sqrt()
    assert float(found[0, 1]) == pytest.approx(float(want))
    assert cells.tolist() == [[300, 300], [300, 400]]


def test_a_linear_map_moves_its_columns_alone_and_each_row_on_its_own() -> None:
    generator = torch.Generator().manual_seed(0)
    columns, shift = torch.tensor([1, 4]), torch.randn(2, generator=generator)
    linear = LinearMap(columns, torch.randn(2, 5, generator=generator), shift)
    x = torch.randn(1000, 5, generator=generator)
    mapped = linear(x)
    assert torch.equal(mapped[:, [0, 2, 3]], x[:, [0, 2, 3]])
    torch.testing.assert_close(mapped[:, columns], x @ linear.factors.T + shift, atol=1e-5, rtol=0)
    assert torch.equal(torch.cat([linear(x[:1]), linear(x[1:18]), linear(x[18:])]), mapped)


def test_factors_change_regressions_and_what_they_leave() -> None:
    before = torch.tensor([[1.0, 0.5, 0.2], [0.5, 1.0, 0.1], [0.2, 0.1, 1.0]], dtype=torch.float64)
    stay, move = torch.tensor([0]), torch.tensor([1, 2])
    # Of slopes .5 and .2, what is left has variances .75 and .96, and a covariance of 0.
    steeper, change = torch.tensor([[-0.1], [0.3]]).double(), torch.tensor([[0.0, 0.4], [0.4, 0.0]]).double()
    factors = correlations_module._factors(before, steeper, change, stay, move)
    whole = torch.cat([torch.eye(3, dtype=torch.float64)[:1], factors])
    both = 0.4 * 0.5 + 0.4 * (0.75 * 0.96) ** 0.5
    after = torch.tensor([[1.0, 0.4, 0.5], [0.4, 0.75 + 0.16, both], [0.5, both, 0.96 + 0.25]], dtype=torch.float64)
    torch.testing.assert_close(whole @ before @ whole.T, after, atol=2e-3, rtol=0)  # the ridge is 1e-3
    nothing = correlations_module._factors(before, 0 * steeper, 0 * change, stay, move)
    torch.testing.assert_close(nothing, torch.eye(3, dtype=torch.float64)[1:], atol=1e-9, rtol=0)


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


class Drawing:
    """Draws two rare columns given a common one: y = curve(x) and normal noise, as a network would."""

    def __init__(self, curves: list[Callable[[torch.Tensor], torch.Tensor]], correlation: float, noise: float) -> None:
        self.curves, self.noise = curves, noise
        covariance = torch.tensor([[1.0, correlation], [correlation, 1.0]])
        self.root = torch.linalg.cholesky(covariance)
        self.scale, self.mean = torch.ones(2), torch.zeros(2)
        self.generator = torch.Generator().manual_seed(0)

    def rows(self, x: torch.Tensor) -> torch.Tensor:
        """Scores ``[N, 3]``: x, and the drawn ones."""
        e = torch.randn(len(x), 2, generator=self.generator) @ self.root.T
        y = torch.stack([curve(x) for curve in self.curves], 1) + self.noise * e
        return torch.cat([x[:, None], (y - self.mean) / self.scale], 1)

    def scored(self, table: torch.Tensor) -> torch.Tensor:
        """The table with rare columns in standard deviations of their observed cells, as draws are from now on."""
        seen = table[:, 1:].double()
        self.mean = seen.nanmean(0).float()
        self.scale = (seen - seen.nanmean(0)).square().nanmean(0).sqrt().float()
        return torch.cat([table[:, :1], (table[:, 1:] - self.mean) / self.scale], 1)

    def fill(self, network: object, known: EncodedTable, *_: object) -> EncodedTable:
        """As `sampling.fill`."""
        assert known.continuous[:, 1:].isnan().all()
        x = known.continuous[:, 0]
        new = torch.randn(len(x), generator=self.generator)
        return _numbers(self.rows(torch.where(x.isnan(), new, x)))


def _line(slope: float, at: float = 0.0) -> Callable[[torch.Tensor], torch.Tensor]:
    """A line through (at, .7 at): the wrong slopes of a network are right where it has seen cells."""
    return lambda x: 0.7 * at + slope * (x - at)


Selection = Callable[[torch.Tensor], torch.Tensor]
SELECTIONS: dict[str, Selection] = {
    "any": lambda x: torch.rand(len(x), generator=torch.Generator().manual_seed(5)) < 0.1,
    "high": lambda x: x > 1,
    "middle": lambda x: x.abs() < 0.5,
    "ends": lambda x: x.abs() > 1.5,
}


def _corrected(
    monkeypatch: pytest.MonkeyPatch, truth: Drawing, network: Drawing, seen: torch.Tensor, x: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Drawn complete rows and corrected ones, in units of the values; rare cells are observed where ``seen`` says."""
    table = truth.rows(x)
    table[:, 1:][~seen] = torch.nan
    scores = network.scored(table)
    monkeypatch.setattr(correlations_module, "fill", network.fill)
    drawn = network.rows(torch.randn(30_000, generator=torch.Generator().manual_seed(3)))
    linear = correction(nn.Module(), _numbers(scores), _numbers(drawn), [0], SOLVER, ReferenceBackend(), 1 << 17, 0)
    scale, mean = (torch.cat([torch.tensor([one]), more]) for one, more in ((1.0, network.scale), (0.0, network.mean)))
    return drawn * scale + mean, linear(drawn) * scale + mean


def _dependence(rows: torch.Tensor) -> torch.Tensor:
    """Both slopes on the first column, the correlation of what they leave, and both means."""
    x, y = rows[:, 0] - rows[:, 0].mean(), rows[:, 1:] - rows[:, 1:].mean(0)
    slopes = (x @ y) / (x @ x)
    left = torch.corrcoef((y - x[:, None] * slopes).T)[0, 1]
    return torch.cat([slopes, left[None], rows[:, 1:].mean(0)])


@pytest.mark.parametrize("selection", SELECTIONS)
def test_dependence_becomes_that_of_complete_rows_under_mar(selection: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.randn(60_000, generator=torch.Generator().manual_seed(2))
    seen = SELECTIONS[selection](x)
    at = float(x[seen].mean())
    truth = Drawing([_line(0.7), _line(0.7)], 0.5, 0.6)
    network = Drawing([_line(0.4, at), _line(0.9, at)], 0.2, 0.6)
    before, after = _corrected(monkeypatch, truth, network, seen[:, None].expand(-1, 2), x)
    want = torch.tensor([0.7, 0.7, 0.5, 0.0, 0.0])
    assert (_dependence(before) - want).abs().max() > 0.25
    torch.testing.assert_close(_dependence(after), want, atol=0.05, rtol=0)


def test_columns_that_other_rows_observe_are_corrected_each_on_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.randn(60_000, generator=torch.Generator().manual_seed(2))
    seen = torch.stack([x > 1, x < -1], 1)  # never together: what the regressions leave stays
    truth = Drawing([_line(0.7), _line(0.7)], 0.5, 0.6)
    network = Drawing([_line(0.4, 1.5), _line(0.4, -1.5)], 0.2, 0.6)
    _, after = _corrected(monkeypatch, truth, network, seen, x)
    want = torch.tensor([0.7, 0.7, 0.2, 0.0, 0.0])
    torch.testing.assert_close(_dependence(after), want, atol=0.05, rtol=0)
    torch.testing.assert_close(after.std(0)[1:], torch.full((2,), (0.7**2 + 0.6**2) ** 0.5), atol=0.03, rtol=0)


@pytest.mark.parametrize("curve", [torch.square, torch.abs, lambda x: (x / 2).exp()])
@pytest.mark.parametrize("cells", [60, 6000])
def test_an_exact_network_is_not_corrected(
    curve: Callable[[torch.Tensor], torch.Tensor], cells: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = torch.randn(60_000, generator=torch.Generator().manual_seed(2))
    seen = (x > 1) & ((x > 1).cumsum(0) <= cells)
    truth, exact = (Drawing([curve, lambda x: -curve(x)], 0.5, 0.5) for _ in range(2))
    truth.generator.manual_seed(1)
    before, after = _corrected(monkeypatch, truth, exact, seen[:, None].expand(-1, 2), x)
    assert ((after - before).std(0) / before.std(0)).max() < 0.05


@pytest.fixture(scope="module")
def panel() -> MissDiff:
    """A model of two columns that are measured together where a third is high."""
    random = np.random.default_rng(1)
    age = random.normal(size=4000)
    one = 0.7 * age + 0.7 * random.normal(size=4000)
    table = pd.DataFrame({"age": age, "one": one, "other": 0.6 * one - 0.8 * random.normal(size=4000)})
    table.loc[random.random(4000) > 0.4 / (1 + np.exp(-3 * (age - 0.5))), ["one", "other"]] = np.nan
    return MissDiff(steps=100, width=32, random_state=1).fit(table)


def test_a_loaded_model_draws_the_same_rows_in_parts(panel: MissDiff, tmp_path: Path) -> None:
    assert len(panel._method._calibration.linear.columns)  # type: ignore[attr-defined]
    rows = panel.sample(300)
    panel.save(tmp_path / "m")
    loaded = MissDiff.load(tmp_path / "m")
    parts = [loaded.sample(7), loaded.sample(293, first_row=7)]
    pd.testing.assert_frame_equal(pd.concat(parts, ignore_index=True), rows)


def test_rows_with_known_cells_are_not_mapped(panel: MissDiff) -> None:
    given, free = panel.sample(given={"age": 0.0}, num_rows=200), panel.sample(200)
    method = cast(ColumnStates, panel._method)
    before, method._calibration = method._calibration, replace(method._calibration, linear=LinearMap.none(3))
    try:
        assert panel.sample(given={"age": 0.0}, num_rows=200).equals(given)
        assert not panel.sample(200).equals(free)
    finally:
        method._calibration = before
