"""A table in and out of its encoded form, against pandas, NumPy and SciPy: the simulated table of MIMIC4ED's shape."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from baseline_codec import PandasCodec, fill
from codec_scale import encode, fit
from timing import Timer
from torch import Tensor
from workload import Workload

from missdiff_fast import ops
from missdiff_fast.datasets import simulate_mimic4ed
from missdiff_fast.table import EncodedTable

IMPLEMENTATIONS = ["native", "pandas"]
SEED = 1


class Both:
    """A frame, the codecs that learnt it, and the complete rows that they decode."""

    def __init__(self, rows: int) -> None:
        self.frame = simulate_mimic4ed(rows, random_state=0)
        self.ours, self.plain = fit(self.frame), PandasCodec.fit(self.frame)
        table = encode(self.ours, self.frame, SEED)
        assert table.values is not None
        self.values, self.codes = table.values.nan_to_num(), table.codes.clamp(min=0)
        self.scores = table.continuous.nan_to_num()
        self.bin_index = self.find(self.scores)
        self.filled = self.ours.decode(self.bin_index, self.codes)

    def find(self, scores: Tensor) -> Tensor:
        """Where the scores lead in the value tables."""
        return ops.decode(scores, torch.tensor([scores.shape[1]]), self.ours.boundaries, self.ours.starts)[0]

    def our_round_trip(self) -> pd.DataFrame:
        table = encode(self.ours, self.frame, SEED)
        return self.ours.decode(self.find(table.continuous), table.codes)

    def plain_round_trip(self) -> pd.DataFrame:
        scores, _, codes = self.plain.encode(self.frame, SEED)
        return self.plain.decode(self.plain.find(scores), codes)


def assert_same_table(ours: EncodedTable, plain: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    scores, values, codes = plain
    assert np.array_equal(ours.codes.numpy(), codes)
    np.testing.assert_allclose(ours.continuous.numpy(), scores, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(ours.values.numpy(), values, rtol=1e-5, atol=1e-6)


@pytest.fixture(scope="module")
def both(workload: Workload) -> Both:
    """Both, which do the same."""
    both = Both(len(workload.rows))
    frame, ours, plain = both.frame, both.ours, both.plain
    for seed in (SEED, None):
        assert_same_table(encode(ours, frame, seed), plain.encode(frame, seed))
    assert np.array_equal(both.bin_index.numpy(), plain.find(both.scores.numpy()))
    arrays = [tensor.numpy() for tensor in (both.bin_index, both.codes, both.values)]
    pd.testing.assert_frame_equal(both.filled, plain.decode(*arrays[:2]), check_exact=True)
    pd.testing.assert_frame_equal(ours.decode_means(both.values, both.codes), plain.decode_means(arrays[2], arrays[1]))
    for filled in (ours.fill(ours.read(frame), both.filled), fill(frame, both.filled)):
        pd.testing.assert_frame_equal(filled, both.filled, check_exact=True)
    return both


def bench_codec_fit(timer: Timer, both: Both, implementation: str) -> None:
    learn = fit if implementation == "native" else PandasCodec.fit
    timer("codec fit", implementation, lambda: learn(both.frame))


@pytest.mark.parametrize("seed", [SEED, None])
def bench_codec_encode(timer: Timer, both: Both, seed: int | None, implementation: str) -> None:
    name = "codec encode" if seed is None else "codec encode, seed"
    if implementation == "native":
        timer(name, implementation, lambda: encode(both.ours, both.frame, seed))
    else:
        timer(name, implementation, lambda: both.plain.encode(both.frame, seed))


@pytest.mark.parametrize("method", ["decode", "decode_means"])
def bench_codec_decode(timer: Timer, both: Both, method: str, implementation: str) -> None:
    cells = both.bin_index if method == "decode" else both.values
    if implementation == "native":
        ours = getattr(both.ours, method)
        timer(f"codec {method}", implementation, lambda: ours(cells, both.codes))
    else:
        plain, arrays = getattr(both.plain, method), (cells.numpy(), both.codes.numpy())
        timer(f"codec {method}", implementation, lambda: plain(*arrays))


def bench_codec_round_trip(timer: Timer, both: Both, implementation: str) -> None:
    timer(
        "codec round trip", implementation, both.our_round_trip if implementation == "native" else both.plain_round_trip
    )


def bench_codec_fill(timer: Timer, both: Both, implementation: str) -> None:
    if implementation == "native":
        timer("codec fill", implementation, lambda: both.ours.fill(both.ours.read(both.frame), both.filled))
    else:
        timer("codec fill", implementation, lambda: fill(both.frame, both.filled))
