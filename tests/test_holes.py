"""Holes: which cells of a table's rows are missing together, and rows with such holes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import missdiff_fast.table.holes as module
from missdiff_fast.table import read_frame
from missdiff_fast.table.holes import Holes


def _learnt(missing: np.ndarray) -> Holes:
    frame = pd.DataFrame(np.where(missing, np.nan, 1.0), columns=[f"c{j}" for j in range(missing.shape[1])])
    return Holes.learn(read_frame(frame), seed=0)


def _shares(missing: np.ndarray) -> pd.Series:
    return pd.DataFrame(missing).value_counts(normalize=True).sort_index()


@pytest.mark.parametrize("columns", [1, 7, 8, 9, 20])
def test_holes_are_drawn_as_often_as_rows_have_them(columns: int) -> None:
    random = np.random.default_rng(0)
    missing = random.random((400, columns)) < random.choice([0.0, 0.02, 0.5], (400, 1))
    holes = _learnt(missing)
    drawn = holes.draw((np.arange(400) + 0.5) / 400)
    assert list(drawn.columns) == [f"c{j}" for j in range(columns)]
    pd.testing.assert_series_equal(_shares(drawn.to_numpy()), _shares(missing))


def test_of_a_complete_table_no_cell_is_missing() -> None:
    assert not _learnt(np.zeros((5, 3), dtype=bool)).draw(np.array([0.0, 0.5, 0.999999])).to_numpy().any()


@pytest.mark.parametrize(("rows", "most_bytes"), [(100, 1 << 23), (1 << 17, 200)])
def test_of_many_rows_some_are_kept(monkeypatch: pytest.MonkeyPatch, rows: int, most_bytes: int) -> None:
    monkeypatch.setattr(module, "_MOST_ROWS", rows)
    monkeypatch.setattr(module, "_MOST_BYTES", most_bytes)
    missing = np.random.default_rng(0).random((5000, 9)) < 0.3
    holes = _learnt(missing)
    assert holes.counts.sum() == 100
    assert abs(holes.draw(np.linspace(0, 1, 1000, endpoint=False)).to_numpy().mean() - 0.3) < 0.06


def test_a_model_file_has_them() -> None:
    holes = _learnt(np.random.default_rng(0).random((50, 9)) < 0.3)
    again = Holes.of(holes.columns, holes.tensors())
    uniform = np.linspace(0, 1, 70, endpoint=False)
    pd.testing.assert_frame_equal(again.draw(uniform), holes.draw(uniform))


@pytest.mark.parametrize(
    "change",
    [
        {"patterns": torch.zeros(2, 3, dtype=torch.uint8)},
        {"patterns": torch.zeros(2, 2, dtype=torch.int64)},
        {"counts": torch.tensor([1, 0])},
        {"counts": torch.tensor([1.0, 2.0])},
        {"counts": torch.tensor([[1], [2]])},
        {"counts": torch.tensor([1, 2**62])},
        {"patterns": torch.zeros(0, 2, dtype=torch.uint8), "counts": torch.zeros(0, dtype=torch.int64)},
    ],
)
def test_damaged_ones_are_refused(change: dict[str, torch.Tensor]) -> None:
    columns = [f"c{j}" for j in range(9)]
    whole = {"patterns": torch.zeros(2, 2, dtype=torch.uint8), "counts": torch.tensor([1, 2])}
    assert len(Holes.of(columns, whole).counts) == 2
    with pytest.raises(ValueError, match="do not hold together"):
        Holes.of(columns, whole | change)


@pytest.mark.parametrize(
    ("values", "dtype", "result"),
    [
        ([1, 2, 3], "int64", "Int64"),
        ([2**63 + 5, 2, 3], "uint64", "UInt64"),
        ([1, 2, 3], "int8", "Int8"),
        ([True, False, True], "bool", "boolean"),
        ([1.5, 2.5, 3.5], "float32", "float32"),
        (["a", "b", "c"], "object", "object"),
        (["a", "b", "c"], "category", "category"),
        (["a", "b", "c"], "string", "string"),
        ([1, 2, 3], "Int64", "Int64"),
        ([1, 2, 3], "int64[pyarrow]", "int64[pyarrow]"),
        (["2020-01-01", "2020-01-02", "2020-01-03"], "datetime64[s]", "datetime64[s]"),
        (["2020-01-01", "2020-01-02", "2020-01-03"], "datetime64[ns, Europe/Berlin]", "datetime64[ns, Europe/Berlin]"),
    ],
)
def test_a_column_keeps_its_values_and_a_dtype_that_holds_a_hole(values: list[Any], dtype: str, result: str) -> None:
    rows = pd.DataFrame({"x": pd.Series(values, dtype=dtype), "whole": [1, 2, 3]})
    holes = _learnt(np.array([[False, False], [True, False]]))
    holes = Holes(("x", "whole"), holes.patterns, holes.counts)
    blanked = holes.blank(rows, pd.DataFrame({"x": [False, True, False], "whole": [False] * 3}))
    assert str(blanked["x"].dtype) == result
    assert blanked["x"].isna().tolist() == [False, True, False]
    assert blanked["x"].dropna().tolist() == rows["x"][[0, 2]].tolist()
    pd.testing.assert_series_equal(blanked["whole"], rows["whole"])
    assert not rows["x"].isna().any()
    # Rows without a hole have the same dtypes.
    whole = holes.blank(rows, pd.DataFrame({"x": [False] * 3, "whole": [False] * 3}))
    assert whole.dtypes.equals(blanked.dtypes)
    assert whole["x"].tolist() == rows["x"].tolist()
