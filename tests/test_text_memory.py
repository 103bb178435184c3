"""Delimited text is read in memory of a few times its size."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from missdiff_fast.table.io import read_written
from missdiff_fast.table.sources import ReadOptions

MOST = 4.5  # times the size of the file; the frame alone takes as much as the file


@pytest.fixture(scope="module")
def rows() -> list[str]:
    numbers = np.random.default_rng(0).normal(size=(30_000, 10)).round(5)
    return [f"{','.join(map(str, row))},{'ab' if place % 2 else 'cd'}" for place, row in enumerate(numbers.tolist())]


@pytest.mark.parametrize("kind", ["CR LF", "quotes", "holes"])
def test_memory_is_a_few_times_the_size_of_the_file(kind: str, rows: list[str], tmp_path: Path) -> None:
    end = "\r\n" if kind == "CR LF" else "\n"
    if kind == "quotes":
        rows = [f'{row[:-2]}"{row[-2:]}, x"' for row in rows]
    if kind == "holes":
        rows = [row if place % 9 else "," * 10 for place, row in enumerate(rows)]
    path = tmp_path / "t.csv"
    path.write_bytes(end.join([",".join("abcdefghijk"), *rows, ""]).encode())
    tracemalloc.start()
    try:
        frame, written = read_written(path, ReadOptions())
        first = next(written().rows())
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(frame) == len(rows)
    assert len(first) == 11
    assert peak < MOST * path.stat().st_size
