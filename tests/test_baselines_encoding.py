"""The baselines' view of a table, worked by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from baseline_tables import mixed_table

from missdiff_fast.baselines._encoding import Encoder
from missdiff_fast.table import read_frame

FRAME = pd.DataFrame(
    {"y": ["b", "a", None, "c"], "x": [10.0, 20.0, 50.0, np.nan], "n": [1, 2, 3, 5], "same": [7, 7, 7, 7]}
)


def test_numbers_come_first_in_their_range_and_categories_are_one_hot() -> None:
    encoder = Encoder.fit(read_frame(FRAME))
    expected = [[0, 0, 0, 1, 0], [0.25, 0.25, 1, 0, 0], [1, 0.5, *[np.nan] * 3], [np.nan, 1, 0, 0, 1]]
    np.testing.assert_allclose(encoder.dense(encoder.encode(encoder.codec.read(FRAME))), expected, atol=1e-6)
    assert encoder.blocks() == [slice(0, 1), slice(1, 2), slice(2, 5)]


def test_other_rows_are_scaled_by_the_learnt_range() -> None:
    encoder = Encoder.fit(read_frame(FRAME))
    other = pd.DataFrame({"x": [30.0, 90.0], "y": ["c", None], "n": [3, 9], "same": [7, 7]})
    cells = encoder.encode(encoder.codec.read(other))
    np.testing.assert_allclose(cells.values, [[0.5, 0.5], [2.0, 2.0]], atol=1e-6)
    assert cells.codes.tolist() == [[2], [-1]]


def test_decoding_clips_rounds_and_takes_the_greatest() -> None:
    encoder = Encoder.fit(read_frame(FRAME))
    dense = np.array([[0.26, 0.3, 0.1, 0.3, 0.2], [-1.0, 2.0, 5.0, 3.0, 1.0]])
    decoded = encoder.decode(encoder.cells(dense))
    expected = pd.DataFrame({"y": ["b", "a"], "x": [20.0, 10.0], "n": [2, 5], "same": [7, 7]})
    pd.testing.assert_frame_equal(decoded, expected)


def test_there_and_back() -> None:
    frame = mixed_table().dropna()
    encoder = Encoder.fit(read_frame(frame))
    cells = encoder.encode(encoder.codec.read(frame))
    back = encoder.decode(encoder.cells(encoder.dense(cells)))
    pd.testing.assert_frame_equal(back, frame.reset_index(drop=True))


def test_named_columns_are_categories() -> None:
    names = pd.Index(["n"])
    assert Encoder.fit(read_frame(FRAME, categorical_columns=names)).layout.cardinalities == (3, 4)


def test_bad_tables() -> None:
    with pytest.raises(ValueError, match="empty"):
        Encoder.fit(read_frame(FRAME[:0]))
    with pytest.raises(ValueError, match="'z'"):
        Encoder.fit(read_frame(FRAME)).codec.read(FRAME.rename(columns={"x": "z"}))
