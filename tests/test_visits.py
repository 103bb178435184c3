"""Rows that hold rarely observed columns are visited more often, without a change of what is learnt."""

from __future__ import annotations

import pytest
import torch

import missdiff_fast._engine.visits as visits_module
from missdiff_fast._engine.backend import Backend
from missdiff_fast._engine.phase import Phase
from missdiff_fast._engine.training import _draw_batches
from missdiff_fast._engine.visits import Visits
from missdiff_fast.config import ObjectiveConfig
from missdiff_fast.diffusion.states import CLEAN
from missdiff_fast.table.encoded import EncodedTable, Layout


def _observed(rows: int = 2000, *shares: float) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.rand((rows, len(shares)), generator=generator) < torch.tensor(shares)


def _panel(rows: int = 2000, *shares: float) -> torch.Tensor:
    """As `_observed`, with another column beside each but the first, which the same rows hold."""
    observed = _observed(rows, *shares)
    return torch.cat([observed, observed[:, 1:]], 1)


@pytest.mark.parametrize("shares", [(1.0, 1.0), (0.8, 0.8, 0.75), (0.3, 0.3), (0.9, 0.5), (0.9, 0.0)])
def test_rows_of_even_columns_are_visited_equally_often(shares: tuple[float, ...]) -> None:
    assert Visits.of(_observed(2000, *shares), 64) is None


def test_a_row_is_visited_by_its_rarest_column() -> None:
    observed = torch.ones((1000, 4), dtype=torch.bool)
    observed[400:, 1] = False  # two and a half times as rare
    observed[:950, 2] = False  # twenty times, and at most four are told apart
    observed[600:, 3] = False  # not rare
    observed = torch.cat([observed, observed[:, 1:3]], 1)
    visits = Visits.of(observed, 32)
    assert visits is not None
    assert visits.rows[[0, 500, 980]].tolist() == [2.5, 1.0, 4.0]
    assert visits.columns.tolist() == [1.0, 2.5, 4.0, 1.0, 2.5, 4.0]


def test_rows_are_visited_in_proportion_and_once_in_a_batch() -> None:
    visits = Visits.of(_panel(1000, 1.0, 0.03, 0.2), 50)
    assert visits is not None
    order = visits.order(50, torch.Generator().manual_seed(0))
    taken = [next(order) for _ in range(4000)]
    assert all(len(rows.unique()) == 50 for rows in taken)
    found = torch.bincount(torch.cat(taken), minlength=1000) / 200_000 * visits.rows.sum() / visits.rows
    torch.testing.assert_close(found, torch.ones(1000, dtype=torch.float64), rtol=0, atol=0.3)  # 5 deviations
    for visited in visits.rows.unique():
        assert float(found[visits.rows == visited].mean()) == pytest.approx(1, abs=0.01)


def test_each_cell_of_a_column_is_equally_often_in_the_loss() -> None:
    observed = _panel(500, 1.0, 0.1, 0.3)
    visits = Visits.of(observed, 20)
    assert visits is not None
    generator = torch.Generator().manual_seed(0)
    order, count = visits.order(20, generator), torch.zeros(500, 5)
    for _ in range(10_000):
        rows = next(order)
        count[rows] += visits.counted(rows, torch.rand(20, 5, generator=generator))
    for j in range(5):
        cells = count[observed[:, j], j]
        torch.testing.assert_close(cells / cells.mean(), torch.ones(len(cells)), rtol=0, atol=0.25)  # 4.5 deviations
    assert count[observed[:, 1], 1].mean() > 3 * count[:, 0].mean()


def test_rare_columns_that_most_rows_hold_do_not_crowd_out_the_others() -> None:
    """Each row holds two of 40 columns: more visits to all of them are more to none."""
    number = torch.arange(4000)
    each = number[:, None] % 20 == torch.arange(20)
    observed = torch.cat([torch.ones(4000, 1, dtype=torch.bool), each, each], 1)
    assert Visits.of(observed, 64) is None
    observed[number % 10 < 3, 1:] = False
    assert Visits.of(observed, 64) is None
    observed[number % 100 < 36, 1:] = False  # 46 % of the rows hold one
    visits = Visits.of(observed, 64)
    assert visits is not None
    assert visits.rows.unique().tolist() == [1.0, 3.0]  # 1.92^2 < 1.3 * 3, but of four visits 2.38^2 > 1.3 * 4
    assert visits.columns[0] == 1


def test_rare_columns_that_do_not_meet_are_visited_evenly() -> None:
    number = torch.arange(4000)
    apart = torch.cat([number[:, None] >= 0, number[:, None] % 20 == torch.arange(5)], 1)
    assert Visits.of(apart, 64) is None
    both = torch.cat([apart, apart[:, 1:]], 1)
    assert Visits.of(both, 64) is not None
    # The atoms of a column are no column that it meets.
    assert Visits.of(both, 64, whole=torch.tensor([True] * 6 + [False] * 5)) is None


def test_drawn_cells_count_as_often_as_observed_ones() -> None:
    """A column all of whose observers hold a rare one is learnt in rows that do not observe it too."""
    number = torch.arange(4000)
    panels = torch.stack([(number >= first) & (number < first + 600) for first in (0, 600, 1200)], 1)
    observed = torch.cat([number[:, None] % 10 < 9, number[:, None] < 1800, panels, panels], 1)
    alone, filled = (
        Visits.of(observed, 64, filled=cells) for cells in (None, torch.tensor([True, True, *[False] * 6]))
    )
    assert alone is not None
    assert filled is not None
    assert alone.columns.tolist() == [1, *[3] * 7]
    assert filled.columns.tolist() == [1, 1, *[3] * 6]
    assert torch.equal(alone.rows, filled.rows)


def test_wide_and_long_tables_are_read_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    observed = _panel(3000, 1.0, 0.1, 0.9, 0.03)
    whole = Visits.of(observed, 64)
    monkeypatch.setattr(visits_module, "_CELLS", 400)
    pieces = Visits.of(observed, 64)
    assert whole is not None
    assert pieces is not None
    assert torch.equal(whole.rows, pieces.rows)
    assert torch.equal(whole.columns, pieces.columns)


@pytest.mark.parametrize("rows", [20, 90, 127])  # of 127, a row may be visited twice
def test_tables_of_few_batches_are_visited_evenly(rows: int) -> None:
    assert Visits.of(_panel(rows, 1.0, 0.05), 32) is None


def test_batches_of_a_phase_follow_the_visits(any_backend: Backend) -> None:
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(2000, 3, generator=generator).where(_panel(2000, 1.0, 0.1), torch.nan)
    table = EncodedTable(scores, torch.zeros(2000, 0, dtype=torch.int16), Layout(3), scores)
    phase = Phase("fit", 100, 64, 1e-3, 10, 0.9)
    objective = ObjectiveConfig(clean_share=0.0, hidden_share=0.0, impute_share=0.0)
    parts = list(_draw_batches(table, table.observed(), None, objective, phase, any_backend, 0))
    rare = torch.cat([table.observed()[part.rows.flatten(), 1] for part in parts])
    assert 0.25 < float(rare.float().mean()) < 0.36  # 4 visits of a tenth, beside 0.9
    left_out = torch.cat([(part.loss_states == CLEAN).flatten(0, 1) for part in parts])
    assert float(left_out[rare, 0].float().mean()) == pytest.approx(3 / 4, abs=0.02)
    assert not left_out[rare, 1].any()
    assert not left_out[~rare].any()
    assert all((part.states != CLEAN).all() for part in parts)
