"""The paper's encoding."""

from __future__ import annotations

import pytest
import torch

from missdiff_fast.diffusion.states import NOISY
from missdiff_fast.ops import reference
from missdiff_fast.table.encoded import EncodedTable, Layout
from missdiff_fast.table.min_max import MinMax

_NAN = float("nan")
_SCALES = torch.tensor([2.0, 50.0], dtype=torch.float64)  # the ranges are 8 and 100 raw units


def _table() -> EncodedTable:
    values = torch.tensor([[-1.0, 0.0], [3.0, _NAN], [1.0, 2.0]])
    codes = torch.tensor([[0], [2], [-1]], dtype=torch.int16)
    return EncodedTable(values * 0, codes, Layout(2, (3,)), values)


def _encoded(min_max: MinMax, table: EncodedTable) -> torch.Tensor:
    cells, (low, high) = min_max.encode(table), min_max.levels
    states = torch.full((3, 3), NOISY, dtype=torch.uint8)
    ones, zeros, key = torch.ones(3), torch.zeros(3), reference.make_key(0, 0, "cpu")
    return reference.perturb(cells, torch.arange(3), states, ones, zeros, key, low=low, high=high)


def test_a_missing_category_is_one_more_as_printed() -> None:
    min_max = MinMax.fit(_table(), _SCALES, "category")
    expected = [[0.0, 0.0, 1, 0, 0, 0], [1.0, 0.0, 0, 0, 1, 0], [0.5, 1.0, 0, 0, 0, 1]]
    assert _encoded(min_max, _table()).tolist() == expected


def test_missing_cells_are_zero_as_released() -> None:
    # (x - least + 1) / (range + 1)
    min_max = MinMax.fit(_table(), _SCALES, "zero")
    expected = [[1 / 9, 1 / 101, 1, -1, -1], [1.0, 0.0, -1, -1, 1], [5 / 9, 1.0, 0, 0, 0]]
    torch.testing.assert_close(_encoded(min_max, _table()), torch.tensor(expected))


@pytest.mark.parametrize("missing", ["category", "zero"])
def test_values_come_back(missing: str) -> None:
    table = _table()
    min_max = MinMax.fit(table, _SCALES, missing)
    seen = ~table.values.isnan()
    torch.testing.assert_close(min_max.values(_encoded(min_max, table))[seen], table.values[seen])


def test_a_drawn_row_is_never_missing() -> None:
    min_max = MinMax.fit(_table(), _SCALES, "category")
    groups = min_max.categories(torch.tensor([[0.0, 0.0, 0.2, 0.3, 0.1, 0.9]]))
    assert int(groups.argmax()) == 1
    assert torch.isinf(groups[0, 3])


def test_a_table_without_raw_values() -> None:
    table = _table()
    with pytest.raises(ValueError, match="min-max encoding needs"):
        MinMax.fit(EncodedTable(table.continuous, table.codes, table.layout), _SCALES)
