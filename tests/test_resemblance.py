"""How far drawn rows are from the observed cells of a table."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import ks_2samp

from missdiff_fast._engine.resemblance import _correlations, distance
from missdiff_fast.table.encoded import EncodedTable, Layout

LAYOUT = Layout(2, (3,))


def _table(rows: int, seed: int, holes: float = 0.0) -> EncodedTable:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, 1, generator=generator)
    continuous = torch.cat([x, 0.8 * x + 0.6 * torch.randn(rows, 1, generator=generator)], 1)
    codes = ((x > 0).long() + (x > 1).long()).to(torch.int16)
    continuous[torch.rand(rows, 2, generator=generator) < holes] = torch.nan
    codes[torch.rand(rows, 1, generator=generator) < holes] = -1
    return EncodedTable(continuous, codes, LAYOUT)


def _numbers(rows: int, seed: int) -> EncodedTable:
    x = torch.randn(rows, 3, generator=torch.Generator().manual_seed(seed))
    return EncodedTable(x.cumsum(1), torch.zeros(rows, 0, dtype=torch.int16), Layout(3))


def test_a_table_is_near_to_itself_and_to_its_like() -> None:
    table = _table(5000, 0)
    assert distance(table, table).total == 0.0
    assert distance(_table(5000, 0, holes=0.3), _table(5000, 1)).total < 0.06


def test_marginals_by_hand_and_by_scipy() -> None:
    table, drawn = _table(500, 0, holes=0.2), _table(300, 1)
    gaps = []
    for c in range(2):
        seen = table.continuous[:, c]
        gaps.append(ks_2samp(seen[~seen.isnan()].numpy(), drawn.continuous[:, c].numpy()).statistic)
    seen = table.codes[table.codes >= 0].long()
    shares = torch.bincount(seen, minlength=3) / len(seen) - torch.bincount(drawn.codes[:, 0].long(), minlength=3) / 300
    gaps.append(float(shares.abs().sum()) / 2)
    assert distance(table, drawn).marginals == pytest.approx(np.mean(gaps), abs=1e-6)


def test_correlations_are_those_of_pandas() -> None:
    table = _table(400, 0, holes=0.3)
    frame = pd.DataFrame(table.continuous.numpy())
    codes = table.codes[:, 0].numpy()
    for value in range(3):
        frame[f"c{value}"] = np.where(codes < 0, np.nan, (codes == value).astype(float))
    got, count = _correlations(table)
    np.testing.assert_allclose(got.numpy(), frame.corr().to_numpy(), atol=1e-9)
    present = frame.notna().to_numpy().astype(int)
    np.testing.assert_array_equal(count.numpy(), present.T @ present)


def test_a_lost_dependence_is_seen() -> None:
    table, drawn = _table(4000, 0, holes=0.2), _table(4000, 1)
    shuffled = EncodedTable(
        torch.stack([drawn.continuous[:, 0], drawn.continuous[:, 1].roll(1)], 1), drawn.codes, LAYOUT
    )
    assert distance(table, shuffled).pairs > distance(table, drawn).pairs + 0.2
    assert distance(table, shuffled).marginals == pytest.approx(distance(table, drawn).marginals)


def test_a_lost_dependence_is_seen_where_few_rows_hold_both() -> None:
    table, drawn = _table(1000, 0), _table(4000, 1)
    table.continuous[:450, 0], table.continuous[500:, 1] = torch.nan, torch.nan  # 50 rows hold both
    table.codes[:] = -1
    lost = EncodedTable(torch.stack([drawn.continuous[:, 0], drawn.continuous[:, 1].roll(1)], 1), drawn.codes, LAYOUT)
    assert distance(table, lost).pairs > distance(table, drawn).pairs + 0.4


def test_a_pair_counts_by_its_rows_up_to_a_hundred() -> None:
    """By hand, of three columns: pairs of 300, 30 and 60 rows."""
    table, drawn = _numbers(330, 0), _numbers(3000, 1)
    table.continuous[:300, 2], table.continuous[300:, 0] = torch.nan, torch.nan
    table.continuous[:30, 2] = torch.randn(30, generator=torch.Generator().manual_seed(2))
    want, got = (pd.DataFrame(each.continuous.numpy()).corr().to_numpy() for each in (table, drawn))
    pairs, rows = [(0, 1), (0, 2), (1, 2)], [300, 30, 60]
    weights = np.minimum(rows, 100) / 100
    by_hand = np.average([abs(want - got)[pair] for pair in pairs], weights=weights)
    assert distance(table, drawn).pairs == pytest.approx(by_hand, abs=1e-6)


def test_pairs_that_are_never_seen_together_are_left_out() -> None:
    table = _table(4000, 0)
    table.continuous[::2, 0], table.continuous[1::2, 1] = torch.nan, torch.nan
    table.codes[:] = -1
    table.codes[0] = 1
    assert distance(table, _table(4000, 1)).pairs == 0.0


def test_a_constant_drawn_column_is_no_fault() -> None:
    drawn = _table(200, 1)
    drawn.continuous[:, 0] = 0.0
    assert np.isfinite(distance(_table(200, 0), drawn).total)


def test_a_column_without_an_observed_cell_says_nothing() -> None:
    # A part of a large table may hold no cell of a rare column.
    table, drawn = _table(1000, 0), _table(1000, 1)
    without = _table(1000, 0)
    without.continuous[:, 1], without.codes[:] = torch.nan, -1
    assert np.isfinite(distance(without, drawn).total)
    seen = table.continuous[:, 0].numpy()
    want = ks_2samp(seen, drawn.continuous[:, 0].numpy()).statistic
    assert distance(without, drawn).marginals == pytest.approx(want, abs=1e-6)
