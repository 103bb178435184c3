"""A table's columns shared among threads: the same results, the same errors, and little memory beside the result."""

from __future__ import annotations

import threading
import tracemalloc
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
import torch
from batches import threads
from frames import assert_same_cells, encode, every_dtype, fill, fit_codec, missing_cells, through

from missdiff_fast.table.chunks import chunks
from missdiff_fast.table.threads import LEAST_ROWS, in_threads

ROWS = LEAST_ROWS + 100


def long_frame(rows: int = ROWS) -> pd.DataFrame:
    """Columns of every dtype, long enough for threads."""
    bin_index = np.random.default_rng(0).integers(0, 8, rows)
    frame = pd.DataFrame(
        {name: column.take(bin_index).reset_index(drop=True) for name, column in every_dtype().items()}
    )
    frame["normal"] = np.random.default_rng(1).normal(size=rows)
    frame["constant"] = 7
    return frame


def test_results_are_in_order_and_threads_as_many_as_torch_has() -> None:
    meeting = threading.Barrier(3, timeout=60)

    def work(piece: int) -> tuple[int, str]:
        meeting.wait()  # passes only if three are at work
        return piece**2, threading.current_thread().name

    with threads(3):
        results = list(in_threads(work, range(9), ROWS))
    assert [square for square, _ in results] == [piece**2 for piece in range(9)]
    assert len({name for _, name in results}) == 3


@pytest.mark.parametrize(("count", "rows"), [(1, ROWS), (3, LEAST_ROWS - 1)])
def test_one_thread_or_few_rows_start_none(count: int, rows: int) -> None:
    with threads(count):
        names = set(in_threads(lambda _: threading.current_thread().name, range(5), rows))
    assert names == {threading.current_thread().name}


def test_the_first_error_is_raised_and_threads_end() -> None:
    def work(piece: int) -> int:
        if piece in (2, 4):
            raise ValueError(f"piece {piece}")
        return piece

    before, seen = threading.active_count(), []
    with threads(3), pytest.raises(ValueError, match="piece 2"):
        seen += in_threads(work, range(6), ROWS)
    assert threading.active_count() == before


def test_the_callers_treatment_of_floating_point_errors_holds() -> None:
    with threads(2), np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        list(in_threads(lambda piece: np.ones(1) / np.zeros(1), range(2), ROWS))


@pytest.mark.parametrize("count", [1, 2, 5, 100])
def test_chunks_are_all_columns_once(count: int) -> None:
    schema = fit_codec(long_frame(50)).schema
    with threads(count):
        found = chunks(schema)
    assert [name for chunk in found for name in chunk.names] == [
        *schema.continuous,
        *schema.categorical,
        *schema.constant,
    ]
    assert all(getattr(schema, chunk.kind)[chunk.columns] == chunk.names for chunk in found)


def test_threads_change_no_bit() -> None:
    frame, count = long_frame(), 5

    def everything() -> tuple[list[torch.Tensor], list[pd.DataFrame]]:
        codec = fit_codec(frame)
        tensors, frames = list(codec.state()[1].values()), []
        for seed in (None, 3):
            table = encode(codec, frame, seed=seed)
            decoded = through(codec, table)
            means = codec.decode_means(table.values.nan_to_num(), table.codes.clamp(min=0))
            tensors += [table.continuous, table.values, table.codes]
            frames += [decoded, means, fill(codec, frame, decoded)]
        return tensors, frames

    with threads(1):
        tensors, frames = everything()
    with threads(count):
        others, other_frames = everything()
    for tensor, other in zip(tensors, others, strict=True):
        assert tensor.numpy().tobytes() == other.numpy().tobytes()
    for one, other in zip(frames, other_frames, strict=True):
        pd.testing.assert_frame_equal(one, other, check_exact=True)
    assert_same_cells(frames[0], frame, ~missing_cells(frame))


def bad_fit(frame: pd.DataFrame) -> object:
    bad = frame.assign(a=np.inf, b=None, c=[[1]] * len(frame), d=np.where(np.arange(len(frame)) % 2, 1, "x"))
    return fit_codec(bad.astype({"d": object}))


def bad_dtypes(frame: pd.DataFrame) -> object:
    return encode(fit_codec(frame), frame.assign(normal="x", **{"string object": 1.5, "number int8": np.inf}))


def other_dtypes(frame: pd.DataFrame) -> object:
    return encode(fit_codec(frame), frame.assign(normal="x", **{"string object": 1.5}))


def unseen(frame: pd.DataFrame) -> object:
    return encode(fit_codec(frame), frame.assign(**{"string object": "z", "string category": "y"}))


def not_filled(frame: pd.DataFrame) -> object:
    return fill(fit_codec(frame), frame, frame.head(3))


@pytest.mark.parametrize("work", [bad_fit, bad_dtypes, other_dtypes, unseen, not_filled])
def test_errors_tell_of_all_columns_in_their_order(work: Callable[[pd.DataFrame], object]) -> None:
    frame, told = long_frame(), []
    for count in (1, 4):
        with threads(count), pytest.raises((TypeError, ValueError)) as error:
            work(frame)
        told.append((error.type, str(error.value)))
    assert told[0] == told[1]


def test_frames_share_no_memory_with_what_they_are_made_of() -> None:
    frame = long_frame().astype({"number int8": "float64"})
    codec = fit_codec(frame)
    decoded = through(codec, encode(codec, frame))
    filled = fill(codec, frame, decoded)
    before = frame.copy(deep=True)
    for name in frame:
        for changed, kept in ((filled, frame), (filled, decoded)):
            if isinstance(kept[name].dtype, np.dtype):
                assert not np.shares_memory(changed[name].to_numpy(), kept[name].to_numpy())
    filled.loc[0, "constant"] = 8
    filled["new"] = 0
    pd.testing.assert_frame_equal(frame, before)


def test_a_wide_frame_is_in_one_piece(recwarn: pytest.WarningsRecorder) -> None:
    """pandas warns of a frame in more than a hundred pieces when a column is added."""
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(30, 120))).add_prefix("x")
    codec = fit_codec(frame)
    decoded = through(codec, encode(codec, frame))
    for made in (decoded, fill(codec, frame, decoded)):
        made["new"] = 1
    assert len(recwarn) == 0


def test_memory_is_that_of_the_result_and_a_few_columns() -> None:
    rows = 200_000
    random = np.random.default_rng(0)
    numbers = {f"x{i}": random.integers(0, 50, rows) / 4 for i in range(40)}
    flags = {f"b{i}": random.random(rows) < 0.5 for i in range(40)}
    frame = pd.DataFrame({**numbers, **flags})
    encoded, decoded = rows * (40 * 8 + 40 * 2), rows * (40 * 8 + 40)

    def peak(work: Callable[[], object]) -> int:
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        work()
        return tracemalloc.get_traced_memory()[1] - before

    codec = fit_codec(frame)
    bin_index, codes = torch.zeros(rows, 40, dtype=torch.int32), torch.zeros(rows, 40, dtype=torch.int16)
    with threads(2):
        tracemalloc.start()
        try:
            fitted = peak(lambda: fit_codec(frame))
            taken = peak(lambda: encode(codec, frame, seed=0))
            given = peak(lambda: codec.decode(bin_index, codes))
        finally:
            tracemalloc.stop()
    assert fitted < 0.2 * decoded, "a few columns of each thread"
    assert encoded <= taken < 1.35 * encoded
    assert decoded <= given < 1.35 * decoded
