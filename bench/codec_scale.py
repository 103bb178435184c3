"""Time and memory of the codec as rows grow: the simulated table of MIMIC4ED's shape, 73 columns.

    python bench/codec_scale.py [--rows 10000000] [--threads 2] [--save]

A hundredth of the rows, 353,150 and all of them, each in a fresh process, whose peak memory the system tells. A peak is
that since the process began, so a step's share of it comes on top of all that was there before. ``--save`` writes
bench/results/codec_scale.json.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd
import store
import torch
from script import Steps, begin, run_alone
from timing import FULL_SIZE
from torch import Tensor

from missdiff_fast import ops
from missdiff_fast._engine.backend import NativeBackend
from missdiff_fast.datasets import simulate_mimic4ed
from missdiff_fast.table import Codec, EncodedTable, read_frame

PIECE = 100_000  # rows simulated or decoded at once


def make_frame(rows: int) -> pd.DataFrame:
    """The table, written piece by piece into its own memory."""
    first = simulate_mimic4ed(min(PIECE, rows), random_state=0)
    columns = {name: np.empty(rows, dtype=dtype) for name, dtype in first.dtypes.items()}
    for i, start in enumerate(range(0, rows, PIECE)):
        piece = simulate_mimic4ed(min(PIECE, rows - start), random_state=i) if i else first
        for name, column in columns.items():
            column[start : start + PIECE] = piece[name]
    return pd.DataFrame(columns, copy=False)


def find(codec: Codec, table: EncodedTable) -> tuple[Tensor, Tensor]:
    """Places and codes of encoded rows, by `ops.decode` of as many rows at a time as a sampler draws."""
    layout = table.layout
    bin_index = torch.empty(len(table), layout.num_continuous, dtype=torch.int32)
    codes = torch.empty(len(table), layout.num_categorical, dtype=torch.int16)
    for start in range(0, len(table), PIECE):
        piece = table.rows(slice(start, start + PIECE))
        x = torch.zeros(len(piece), layout.width)
        x[:, : layout.num_continuous] = piece.continuous.nan_to_num()
        x.scatter_(1, piece.codes.long().clamp(min=0) + layout.offsets()[:-1], 1.0)
        rows = slice(start, start + len(piece))
        bin_index[rows], codes[rows] = ops.decode(x, layout.offsets(), codec.boundaries, codec.starts)
    return bin_index, codes


def check(frame: pd.DataFrame, decoded: pd.DataFrame, filled: pd.DataFrame) -> None:
    """Observed cells came back as they were, and the others were filled."""
    for name in frame:
        observed = frame[name].notna().to_numpy()
        assert decoded[name].dtype == frame[name].dtype
        assert (decoded[name].to_numpy()[observed] == frame[name].to_numpy()[observed]).all()
        assert (filled[name].to_numpy() == decoded[name].to_numpy()).all()


def fit(frame: pd.DataFrame) -> Codec:
    """A codec, from reading the frame on."""
    return Codec.fit(read_frame(frame), ops=NativeBackend())


def encode(codec: Codec, frame: pd.DataFrame, seed: int | None) -> EncodedTable:
    """The frame encoded, from reading it on."""
    return codec.encode(codec.read(frame), seed=seed)


def fill(codec: Codec, frame: pd.DataFrame, decoded: pd.DataFrame) -> pd.DataFrame:
    return codec.fill(codec.read(frame), decoded)


def run(rows: int) -> dict[str, Any]:
    """Seconds of each step and the peak after it, and what the frame takes, in bytes."""
    steps = Steps()
    steps.take("import", int)
    frame = steps.take("make the frame", make_frame, rows)
    codec = steps.take("fit", fit, frame)
    table = steps.take("encode", encode, codec, frame, 1)
    bin_index, codes = steps.take("find bin_index", find, codec, table)
    del table
    decoded = steps.take("decode", codec.decode, bin_index, codes)
    del bin_index, codes
    filled = steps.take("fill", fill, codec, frame, decoded)
    check(frame, decoded, filled)
    return {"rows": rows, "steps": steps.found, "frame": int(frame.memory_usage(index=False).sum())}


def main() -> None:
    """Run what the command line asks for, and print it."""
    options = begin(__doc__, rows=10_000_000, threads=2, child=False)
    most, runs = options.rows, []
    if options.child:
        print(json.dumps(run(most)))
        return
    print(store.describe(options.facts))
    for rows in sorted({most // 100, min(FULL_SIZE, most), most}):
        found = run_alone(__file__, rows=rows, threads=options.threads)
        runs.append(found)
        print(f"\n{rows:,} rows; the frame takes {found['frame'] / 1e9:.2f} GB")
        print(f"{'':<16}{'seconds':>10}{'ns a cell':>12}{'peak, GB':>12}")
        for name, figures in found["steps"].items():
            seconds, peak = figures["seconds"], figures["peak"]
            print(f"{name:<16}{seconds:>10.2f}{1e9 * seconds / (73 * rows):>12.1f}{peak / 1e9:>12.2f}", flush=True)
    if options.save:
        store.write(store.CODEC, {**options.facts, "runs": runs})


if __name__ == "__main__":
    main()
