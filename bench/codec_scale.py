"""Time and memory of the codec as rows grow: the simulated table of MIMIC4ED's shape, 73 columns.

    python bench/codec_scale.py --rows 10000000

Each size is run in a fresh process, whose peak memory the system tells (`resource.getrusage`). A peak is that since the
process began: what a step adds to it, it needed beside all that was there before. Nothing is written.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import torch
from environment import describe
from torch import Tensor

from missdiff_fast import ops
from missdiff_fast.datasets import simulate_mimic4ed
from missdiff_fast.table import Codec, EncodedTable

PIECE = 100_000  # rows simulated or decoded at once
T = TypeVar("T")


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
    places = torch.empty(len(table), layout.num_continuous, dtype=torch.int32)
    codes = torch.empty(len(table), layout.num_categorical, dtype=torch.int16)
    for start in range(0, len(table), PIECE):
        piece = table.rows(slice(start, start + PIECE))
        x = torch.zeros(len(piece), layout.width)
        x[:, : layout.num_continuous] = piece.continuous.nan_to_num()
        x.scatter_(1, piece.codes.long().clamp(min=0) + layout.offsets()[:-1], 1.0)
        rows = slice(start, start + len(piece))
        places[rows], codes[rows] = ops.decode(x, layout.offsets(), codec.boundaries, codec.starts)
    return places, codes


def check(frame: pd.DataFrame, decoded: pd.DataFrame, filled: pd.DataFrame) -> None:
    """Observed cells came back as they were, and the others were filled."""
    for name in frame:
        observed = frame[name].notna().to_numpy()
        assert decoded[name].dtype == frame[name].dtype
        assert (decoded[name].to_numpy()[observed] == frame[name].to_numpy()[observed]).all()
        assert (filled[name].to_numpy() == decoded[name].to_numpy()).all()


def encode(codec: Codec, frame: pd.DataFrame) -> EncodedTable:
    return codec.encode(frame, seed=1)


def run(rows: int, threads: int) -> dict[str, Any]:
    """Seconds of each step and the peak after it, and what the frame takes, in bytes."""
    torch.set_num_threads(threads)
    steps: dict[str, dict[str, float]] = {}

    def step(name: str, work: Callable[..., T], *arguments: object) -> T:
        begin = time.perf_counter()
        result = work(*arguments)
        seconds = time.perf_counter() - begin
        unit = 1 if sys.platform == "darwin" else 1024
        steps[name] = {"seconds": seconds, "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit}
        return result

    step("import", int)
    frame = step("make the frame", make_frame, rows)
    codec = step("fit", Codec.fit, frame)
    table = step("encode", encode, codec, frame)
    places, codes = step("find places", find, codec, table)
    del table
    decoded = step("decode", codec.decode, places, codes)
    del places, codes
    filled = step("fill", codec.fill, frame, decoded)
    check(frame, decoded, filled)
    return {"steps": steps, "frame": int(frame.memory_usage(index=False).sum())}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=10_000_000, help="of the largest table (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), help="PyTorch's (default: %(default)s)")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        print(json.dumps(run(args.rows, args.threads)))
        return
    torch.set_num_threads(args.threads)
    print(describe())
    for rows in (args.rows // 100, args.rows // 10, args.rows):
        command = [sys.executable, __file__, "--child", f"--rows={rows}", f"--threads={args.threads}"]
        found = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
        print(f"\n{rows:,} rows; the frame takes {found['frame'] / 1e9:.2f} GB")
        print(f"{'':<16}{'seconds':>10}{'ns a cell':>12}{'peak, GB':>12}")
        for name, figures in found["steps"].items():
            seconds, peak = figures["seconds"], figures["peak"]
            print(f"{name:<16}{seconds:>10.2f}{1e9 * seconds / (73 * rows):>12.1f}{peak / 1e9:>12.2f}", flush=True)


if __name__ == "__main__":
    main()
