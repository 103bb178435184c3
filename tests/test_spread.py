"""The least noise level of draws of missing cells."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor, nn

from missdiff_fast import MissDiff
from missdiff_fast._engine import spread
from missdiff_fast._engine.backend import Backend, ReferenceBackend
from missdiff_fast._engine.spread import choose_sigma_min
from missdiff_fast.config import SolverConfig
from missdiff_fast.diffusion.states import NOISY
from missdiff_fast.table.encoded import EncodedTable, Layout

LAYOUT = Layout(2, ())


class Wide(nn.Module):
    """The denoiser of independent normal scores of a standard deviation, which is exact for tables of that one."""

    def __init__(self, std: float) -> None:
        super().__init__()
        self.variance = std**2

    def forward(self, x: Tensor, sigma: Tensor, states: Tensor) -> Tensor:
        shrunk = x * self.variance / (self.variance + sigma[:, None] ** 2)
        return torch.cat([torch.where(states == NOISY, shrunk, x), torch.zeros_like(x)], 1)


def _level(std: float, backend: Backend, highest: float = 0.65, rows: int = 4000) -> float:
    x = torch.randn(rows, 2, generator=torch.Generator().manual_seed(0))
    table = EncodedTable(x, torch.zeros(rows, 0, dtype=torch.int16), LAYOUT, x)
    return choose_sigma_min(Wide(std), table, SolverConfig(), highest, backend, 0)


def test_an_exact_network_draws_down_to_the_lowest_level(any_backend: Backend) -> None:
    assert _level(1.0, any_backend) < 0.2


def test_a_network_whose_draws_spread_too_much_ends_at_a_higher_level(any_backend: Backend) -> None:
    assert _level(1.5, any_backend) == 0.65
    assert 0.2 < _level(1.1, any_backend) < 0.6
    assert _level(1.5, any_backend, highest=0.1) == 0.15  # the solver's own level is higher
    assert _level(10.0, any_backend, highest=25.0) == 10.0  # half of the level that draws begin at


def test_draws_that_agree_and_are_wrong_are_the_worst(monkeypatch: pytest.MonkeyPatch) -> None:
    truth = torch.randn(4000, 2, generator=torch.Generator().manual_seed(0))
    table = EncodedTable(truth, torch.zeros(4000, 0, dtype=torch.int16), LAYOUT)

    def fill(network: object, holes: EncodedTable, solver: SolverConfig, *_: object) -> EncodedTable:
        noise = torch.randn(holes.continuous.shape, generator=torch.Generator().manual_seed(1))
        drawn = 1.2 * noise if solver.sigma_min < 0.2 else torch.full_like(noise, 3.0)
        return EncodedTable(torch.where(holes.continuous.isnan(), drawn, holes.continuous), holes.codes, LAYOUT)

    monkeypatch.setattr(spread, "fill", fill)
    assert choose_sigma_min(Wide(1.0), table, SolverConfig(), 0.65, ReferenceBackend(), 0) < 0.22


def test_few_hidden_cells_or_none_keep_the_lowest_level(any_backend: Backend) -> None:
    assert _level(1.5, any_backend, rows=700) == 0.15
    nothing = EncodedTable(torch.full((50, 2), torch.nan), torch.zeros(50, 0, dtype=torch.int16), LAYOUT)
    assert choose_sigma_min(Wide(1.0), nothing, SolverConfig(), 0.65, any_backend, 0) == 0.15


def test_categories_tell_the_level_of_a_table_without_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    layout, generator = Layout(0, (2, 2)), torch.Generator().manual_seed(0)
    codes = (torch.rand(2000, 2, generator=generator) < 0.3).to(torch.int16)
    table = EncodedTable(torch.zeros(2000, 0), codes, layout)

    def fill(network: object, holes: EncodedTable, solver: SolverConfig, *_: object) -> EncodedTable:
        # At the lowest level .1 too few of the second category, at the highest as much too many.
        share = 0.2 if solver.sigma_min < 0.2 else 0.4
        drawn = (torch.rand(holes.codes.shape, generator=generator) < share).to(torch.int16)
        return EncodedTable(holes.continuous, torch.where(holes.codes < 0, drawn, holes.codes), layout)

    monkeypatch.setattr(spread, "fill", fill)
    level = choose_sigma_min(Wide(1.0), table, SolverConfig(), 0.65, ReferenceBackend(), 0)
    # 2 * .2 * .8 of two draws differ at the lowest level, and .2 * .7 + .8 * .3 from the truth; .48 and .46 then.
    low, high = np.log(0.32 / 0.38), np.log(0.48 / 0.46)
    assert level == pytest.approx(0.15 + 0.5 * low / (low - high), abs=0.06)


def _table() -> pd.DataFrame:
    random = np.random.default_rng(0)
    x = random.normal(size=600)
    table = pd.DataFrame({"x": x, "y": x + random.normal(size=600), "z": random.choice(list("ab"), 600)})
    return table.mask(random.random(table.shape) < 0.2)


def test_draws_of_missing_cells_alone_end_at_that_level(tmp_path: Path) -> None:
    settings = {"blend.draws": False}
    model = MissDiff(steps=20, width=16, refits=1, random_state=0, settings=settings).fit(_table())
    holes = _table().head(80)
    holes.loc[::2] = np.nan  # nothing of these is known, and they are drawn as samples are
    holes = holes.astype({"z": object})

    def rows() -> list[pd.DataFrame]:
        refitted = model.impute_draws(holes, 1, random_state=1)[0]
        refits, model._method._refits = model._method._refits, []  # type: ignore[attr-defined]
        draws = model.impute_draws(holes, 1, random_state=1)[0]
        model._method._refits = refits  # type: ignore[attr-defined]
        return [model.sample(50), model.sample(50, given={"z": "a"}), refitted, draws[::2], draws[1::2]]

    before, calibration = rows(), model._method._calibration  # type: ignore[attr-defined]
    assert 0.15 <= float(calibration.sigma_min) <= 0.65
    told = model.training_.set_index("setting").loc["last noise level of draws"]
    assert told["value"] == round(float(calibration.sigma_min), 3)
    assert re.fullmatch(r"from 0\.15 to 0\.65, by \d+ held-out rows; of too few the lowest", told["reason"])
    model.save(tmp_path / "m")
    loaded = MissDiff.load(tmp_path / "m")._method._calibration.sigma_min  # type: ignore[attr-defined]
    assert torch.equal(loaded, calibration.sigma_min)
    calibration.sigma_min.fill_(5.0)
    after = rows()
    for one, other in zip(before[:4], after[:4], strict=True):
        pd.testing.assert_frame_equal(one, other)
    assert not before[4].equals(after[4])


def test_draws_of_a_fit_spread_as_the_truth_does() -> None:
    random = np.random.default_rng(0)
    x, noise = random.normal(size=(2, 3000))
    table = pd.DataFrame({"x": x, "y": 0.9 * x + 0.436 * noise}).mask(random.random((3000, 2)) < 0.2)
    model = MissDiff(steps=1500, width=64, random_state=0, settings={"blend.draws": False}).fit(table)
    known = pd.DataFrame({"x": np.repeat([-1.0, 0.0, 1.0], 1000), "y": np.nan})
    spread = model.impute_draws(known, 1)[0].groupby("x")["y"].std()
    assert spread.between(0.8 * 0.436, 1.2 * 0.436).all()


def test_without_held_out_rows_or_calibration_the_level_is_the_solvers() -> None:
    complete = _table().ffill().bfill()
    for table, rounds in ((complete, 3), (_table(), 0)):
        model = MissDiff(steps=5, width=16, random_state=0, settings={"calibration.rounds": rounds}).fit(table)
        calibration = model._method._calibration  # type: ignore[attr-defined]
        assert calibration.solver(SolverConfig()) == SolverConfig()
        assert "last noise level of draws" not in set(model.training_["setting"])
    with pytest.raises(ValueError, match=r"calibration\.sigma_min must be greater than 0"):
        MissDiff(settings={"calibration.sigma_min": 0}).fit(complete)
