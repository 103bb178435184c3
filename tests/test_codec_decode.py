from __future__ import annotations

import math
from types import ModuleType
from typing import Any

import pytest
import torch
from batches import LAYOUTS, strided, threads
from tolerances import assert_close
from torch import Tensor

from missdiff_fast.ops import reference
from missdiff_fast.table.encoded import Layout

Arguments = tuple[Tensor, Tensor, Tensor, Tensor]


def example(layout: Layout, size: int = 67, dtype: torch.dtype = torch.float32, *, seed: int = 0) -> Arguments:
    """Values on a coarse grid, so that they often tie with each other and with boundaries."""
    g = torch.Generator().manual_seed(seed)
    C = layout.num_continuous
    x = (torch.randn(size, layout.width, generator=g, dtype=torch.float64) * 4).round().to(dtype) / 4
    counts = torch.randint(0, 300, (C,), generator=g)
    counts[: min(C, 2)] = torch.tensor([1, 0])[: min(C, 2)]
    columns = [(torch.randn(int(n), generator=g, dtype=torch.float64) * 8).round().to(dtype) / 8 for n in counts]
    boundaries = torch.cat([column.sort().values for column in columns]) if C else torch.zeros(0, dtype=dtype)
    starts = torch.cat([torch.zeros(1, dtype=torch.int64), counts.cumsum(0)])
    return x, layout.offsets(), boundaries, starts


def there(arguments: Arguments, device: torch.device) -> Arguments:
    x, offsets, boundaries, starts = (given.to(device) for given in arguments)
    return x, offsets, boundaries, starts


def check(results: tuple[Tensor, Tensor], expected: tuple[Tensor, Tensor], dtype: torch.dtype) -> None:
    assert results[0].dtype == torch.int32
    assert results[1].dtype == torch.int16
    for result, wanted in zip(results, expected, strict=True):
        assert_close("decode", result, wanted, dtype)


def test_by_hand(backend: ModuleType, dtype: torch.dtype) -> None:
    x = torch.tensor([[0.0, -3.0, 0.1, 0.7, 0.2], [-1.5, 9.0, 0.4, 0.1, 0.4]], dtype=dtype)
    boundaries = torch.tensor([-1.0, 0.0, 0.0, 1.0, 5.0], dtype=dtype)
    bin_index, codes = backend.decode(x, torch.tensor([2, 5]), boundaries, torch.tensor([0, 4, 5]))
    assert bin_index.tolist() == [[3, 0], [0, 1]]
    assert codes.tolist() == [[1], [0]]


def test_native_is_the_reference(native: ModuleType, device: torch.device, layout: Layout, dtype: torch.dtype) -> None:
    for seed in range(3):
        arguments = example(layout, dtype=dtype, seed=seed)
        check(native.decode(*there(arguments, device)), reference.decode(*arguments), dtype)


def test_bins_by_counting(backend: ModuleType, device: torch.device, layout: Layout, dtype: torch.dtype) -> None:
    x, offsets, boundaries, starts = there(example(layout, dtype=dtype), device)
    bin_index, codes = backend.decode(x, offsets, boundaries, starts)
    for c in range(layout.num_continuous):
        column = boundaries[starts[c] : starts[c + 1]]
        assert torch.equal(bin_index[:, c].long(), (column <= x[:, c : c + 1]).sum(1))
    for k in range(layout.num_categorical):
        group = x[:, offsets[k] : offsets[k + 1]].tolist()
        assert codes[:, k].tolist() == [row.index(max(row)) for row in group]


def test_infinities(backend: ModuleType, device: torch.device, dtype: torch.dtype) -> None:
    x = torch.tensor([[math.inf, -math.inf, -math.inf], [-math.inf, -math.inf, math.inf]], dtype=dtype)
    bin_index, codes = backend.decode(
        *there((x, torch.tensor([1, 3]), torch.tensor([0.0, 1.0], dtype=dtype), torch.tensor([0, 2])), device)
    )
    assert bin_index.tolist() == [[2], [0]]
    assert codes.tolist() == [[0], [1]]


def test_nan_is_above_all_and_no_category(backend: ModuleType, device: torch.device, dtype: torch.dtype) -> None:
    x = torch.tensor([[math.nan, 0.5, math.nan], [0.5, math.nan, 0.5]], dtype=dtype)
    bin_index, codes = backend.decode(
        *there((x, torch.tensor([1, 3]), torch.tensor([0.0, 1.0], dtype=dtype), torch.tensor([0, 2])), device)
    )
    assert bin_index.tolist() == [[2], [1]]
    assert codes.tolist() == [[2], [2]]


def test_many_boundaries(native: ModuleType, device: torch.device, dtype: torch.dtype) -> None:
    g = torch.Generator().manual_seed(1)
    boundaries = torch.randn(100_003, generator=g, dtype=torch.float64).to(dtype).sort().values
    x = torch.cat([torch.randn(500, generator=g).to(dtype), boundaries[::997]])[:, None]
    arguments = x, torch.tensor([1]), boundaries, torch.tensor([0, 100_003])
    check(native.decode(*there(arguments, device)), reference.decode(*arguments), dtype)


def test_empty_batch(backend: ModuleType, device: torch.device, layout: Layout) -> None:
    bin_index, codes = backend.decode(*there(example(layout, 0), device))
    assert bin_index.shape == (0, layout.num_continuous)
    assert codes.shape == (0, layout.num_categorical)


def test_non_contiguous(backend: ModuleType, device: torch.device, layout: Layout, dtype: torch.dtype) -> None:
    x, offsets, boundaries, starts = there(example(layout, dtype=dtype), device)
    gaps = backend.decode(strided(x), strided(offsets), strided(boundaries), strided(starts))
    check(gaps, backend.decode(x, offsets, boundaries, starts), dtype)


def test_threads_change_nothing(backend: ModuleType) -> None:
    arguments = example(LAYOUTS["clinical"], 10_007)
    with threads(1):
        once = backend.decode(*arguments)
    with threads(2):
        check(backend.decode(*arguments), once, torch.float32)


def test_reference_on_every_device(device: torch.device, layout: Layout) -> None:
    arguments = example(layout)
    check(reference.decode(*there(arguments, device)), reference.decode(*arguments), torch.float32)


def test_bad_arguments_are_named(native: ModuleType) -> None:
    x, offsets, boundaries, starts = example(LAYOUTS["mixed"], 5)
    cases: list[tuple[tuple[Any, ...], str]] = [
        ((x.half(), offsets, boundaries, starts), "x"),
        ((x[0], offsets, boundaries, starts), "x"),
        ((x, offsets.int(), boundaries, starts), "offsets"),
        ((x, offsets[None], boundaries, starts), "offsets"),
        ((x, offsets, boundaries.double(), starts), "boundaries"),
        ((x, offsets, boundaries[None], starts), "boundaries"),
        ((x, offsets, boundaries, starts.int()), "starts"),
        ((x, offsets, boundaries, starts[None]), "starts"),
    ]
    for arguments, word in cases:
        with pytest.raises((ValueError, TypeError), match=word):
            native.decode(*arguments)


def test_starts_and_offsets_that_do_not_fit(native: ModuleType) -> None:
    x, offsets, boundaries, starts = example(LAYOUTS["mixed"], 5)
    for wrong in (starts + 1, starts[:-1], starts.flip(0)):
        with pytest.raises((ValueError, RuntimeError), match="starts"):
            native.decode(x, offsets, boundaries, wrong)
    for wrong in (offsets + 1, offsets.flip(0)):
        with pytest.raises((ValueError, RuntimeError), match="offsets"):
            native.decode(x, wrong, boundaries, starts)


def test_registration(native: ModuleType, device: torch.device, layout: Layout, dtype: torch.dtype) -> None:
    torch.library.opcheck(torch.ops.missdiff_fast.decode.default, there(example(layout, 5, dtype), device))


def test_compiles_whole(native: ModuleType, device: torch.device, fresh_compiler: None) -> None:
    @torch.compile(fullgraph=True, backend="aot_eager")
    def compiled(x: Tensor, offsets: Tensor, boundaries: Tensor, starts: Tensor) -> tuple[Tensor, Tensor]:
        return native.decode(x * 2, offsets, boundaries, starts)

    for size in (6, 11):
        x, *rest = there(example(LAYOUTS["mixed"], size), device)
        check(compiled(x, *rest), native.decode(x * 2, *rest), torch.float32)
