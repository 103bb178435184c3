"""Utility: what is asked of the tables, and the figures where they are plain."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from missdiff_fast.evaluate import utility


def table(flip: bool = False) -> pd.DataFrame:
    x = np.arange(200)
    return pd.DataFrame({"x": x, "word": ["p", "q"] * 100, "y": np.where((x < 100) ^ flip, "no", "yes")})


def test_a_learnable_target_is_learnt() -> None:
    pytest.importorskip("xgboost")
    pytest.importorskip("sklearn")
    assert utility(table(), table(), "y").to_dict("records") == [{"accuracy": 100.0, "auroc": 1.0}]


def test_a_target_turned_round_is_always_wrong() -> None:
    pytest.importorskip("xgboost")
    pytest.importorskip("sklearn")
    assert utility(table(flip=True), table(), "y").to_dict("records") == [{"accuracy": 0.0, "auroc": 0.0}]


def test_the_positive_class_may_be_named_and_column_order_does_not_matter() -> None:
    pytest.importorskip("xgboost")
    pytest.importorskip("sklearn")
    result = utility(table(), table()[["y", "word", "x"]], "y", positive="no")
    assert result.to_dict("records") == [{"accuracy": 100.0, "auroc": 1.0}]


@pytest.mark.parametrize(
    ("train", "target", "positive", "message"),
    [
        (table().drop(columns="x"), "y", None, "column 'x' is in the test table only"),
        (table(), "z", None, "no column named 'z' to predict"),
        (table()[:50], "y", None, "of the train table must have two classes and no holes, not \\['no'\\]"),
        (table().assign(y="maybe"), "y", None, "of the train table must have two classes"),
        (table().mask(table()["x"] == 3), "y", None, "of the train table must have two classes and no holes"),
        (table(), "y", "maybe", "'maybe' is no class of column 'y'; it has \\['no', 'yes'\\]"),
    ],
)
def test_what_cannot_be_measured_is_refused(
    train: pd.DataFrame, target: str, positive: str | None, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        utility(train, table(), target, positive)
