from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tolerances import assert_close, markdown


def test_documented_table_is_the_one_in_use() -> None:
    text = (Path(__file__).parent.parent / "docs" / "numerics.md").read_text(encoding="utf-8")
    assert markdown() in text


def test_a_bias_within_the_elementwise_bounds_is_found() -> None:
    expected = torch.linspace(1.0, 2.0, 1000, dtype=torch.float64)
    assert_close("masked_loss.grad", expected * (1 + 3e-7), expected, torch.float32)
    with pytest.raises(AssertionError, match="aggregate"):
        assert_close("masked_loss.grad", expected * (1 + 7e-7), expected, torch.float32)


def test_nan_and_shape_are_compared() -> None:
    with pytest.raises(AssertionError, match="NaN"):
        assert_close("step", torch.tensor([1.0, torch.nan]), torch.tensor([1.0, 2.0]))
    with pytest.raises(AssertionError, match="shape"):
        assert_close("step", torch.ones(2, 1), torch.ones(1, 2))
    with pytest.raises(AssertionError, match="not equal"):
        assert_close("normal", torch.tensor([1.0]), torch.tensor([1.0000001]))
