"""Tables that the tests of the baselines share."""

from __future__ import annotations

import numpy as np
import pandas as pd


def mixed_table(rows: int = 60, seed: int = 0) -> pd.DataFrame:
    """Holes in columns of many dtypes, and an index that is not 0, 1, 2, ..."""
    generator = np.random.default_rng(seed)
    x = generator.normal(size=rows).round(2)
    frame = pd.DataFrame(
        {
            "float": x,
            "whole": pd.array((10 * x).round().astype(int), dtype="Int64"),
            "text": np.where(x > 0.5, "high", np.where(x > -0.5, "middle", "low")),
            "flag": pd.array(x > 0, dtype="boolean"),
            "level": pd.Categorical(np.where(x > 0, "b", "a"), categories=["b", "a", "never"], ordered=True),
            "day": pd.Timestamp("2024-01-01") + pd.to_timedelta((10 * x).round().astype(int), unit="D"),
            "always": "same",
        },
        index=np.arange(rows) * 3 + 5,
    )
    for j, column in enumerate(frame.columns):
        frame.loc[frame.index[generator.random(rows) < 0.2], column] = pd.NaT if column == "day" else None
        assert frame[column].notna().any(), j
    return frame


def check_filled(before: pd.DataFrame, after: pd.DataFrame) -> None:
    """Assert that only holes were filled: the rest is the same bit for bit, with dtypes and index."""
    assert not after.isna().any(axis=None)
    pd.testing.assert_index_equal(before.index, after.index)
    assert after.dtypes.to_dict() == before.dtypes.to_dict()
    for column in before:
        kept = before[column].notna()
        assert before[column][kept].tolist() == after[column][kept].tolist()
        if pd.api.types.is_numeric_dtype(before[column]) or column == "day":
            assert after[column].min() >= before[column].min()
            assert after[column].max() <= before[column].max()
        else:
            assert set(after[column]) <= set(before[column].dropna())
