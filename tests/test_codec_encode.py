from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
import torch
from batches import strided, threads
from tolerances import assert_close
from torch import Tensor

from missdiff_fast.ops import reference

Arguments = tuple[Tensor, Tensor, Tensor, Tensor, int]

KEYS = [torch.float32, torch.float64, torch.int64]


def example(size: int = 1003, keys: int = 57, dtype: torch.dtype = torch.float32, *, seed: int = 0) -> Arguments:
    """Cells at keys, between keys and beyond them; keys of one cell to thousands."""
    g = torch.Generator().manual_seed(seed)
    known = (torch.randperm(4 * keys, generator=g)[:keys].sort().values - 2 * keys).to(dtype)
    cells = torch.randint(-3 * keys, 3 * keys, (size,), generator=g).to(dtype)
    if keys > 1:
        cells[::2] = known[torch.randint(keys, (len(cells[::2]),), generator=g)]
    counts = torch.randint(1, 10, (keys,), generator=g) ** 4
    ends = torch.cat([torch.zeros(1), counts.cumsum(0)]).double() / int(counts.sum())
    boundaries = torch.special.ndtri(ends[1:-1]).float()
    return cells, known, ends, boundaries, int(counts.sum())


def tail_example() -> Arguments:
    """Cells of ranks from 1e-18 on and up to 1."""
    ends = torch.cat([torch.zeros(1).double(), torch.logspace(-18, 0, 3000).double()])
    ends = torch.cat([ends[:-1], (1 - ends).flip(0)]).unique()
    keys = torch.arange(len(ends) - 1)
    return keys, keys, ends, torch.special.ndtri(ends[1:-1]).float(), 10**17


def shares(size: int, seed: int = 0) -> Tensor:
    return torch.rand(size, generator=torch.Generator().manual_seed(seed + 9), dtype=torch.float64)


@pytest.fixture(params=KEYS, ids=["float32", "float64", "int64"])
def key_dtype(request: pytest.FixtureRequest) -> torch.dtype:
    return request.param


def test_by_hand(backend: ModuleType, key_dtype: torch.dtype) -> None:
    keys, ends = torch.tensor([1, 4, 9]).to(key_dtype), torch.tensor([0.0, 0.5, 0.6, 1.0]).double()
    boundaries, share = torch.special.ndtri(ends[1:-1]).float(), torch.tensor([0.5, 0.2, 0.0, 0.9, 0.9, 0.9]).double()
    cells = torch.tensor([1, 4, 9, 0, 2, 10]).to(key_dtype)
    ranks = torch.tensor([0.25, 0.52, 0.6, 0.05, 0.5, 0.95]).double()  # the outer ones half a cell from 0 and 1
    expected = torch.special.ndtri(ranks).float()
    scores = backend.encode(cells, keys, ends, boundaries, 10, share)
    assert scores.dtype == torch.float32
    torch.testing.assert_close(scores, expected, rtol=1e-6, atol=1e-7)
    middles = backend.encode(cells, keys, ends, boundaries, 10)
    assert (
        middles[:3].tolist()
        == backend.encode(keys, keys, ends, boundaries, 10, torch.full((3,), 0.5).double()).tolist()
    )
    assert middles[3:].tolist() == scores[3:].tolist(), "what is no key lies in no interval"


@pytest.mark.parametrize("size", [1, 255, 256, 257, 1003])
@pytest.mark.parametrize("keys", [1, 2, 57, 1000])
def test_native_is_the_reference(native: ModuleType, key_dtype: torch.dtype, size: int, keys: int) -> None:
    for seed in range(3):
        arguments = example(size, keys, key_dtype, seed=seed)
        for share in (None, shares(size, seed)):
            expected = reference.encode(*arguments, share)
            assert_close("encode", native.encode(*arguments, share), expected, torch.float32)


def test_quantiles_in_the_tails(native: ModuleType) -> None:
    """Ranks from 1e-18 on, a range in which the quantile function has three formulas."""
    arguments = tail_example()
    for share in (None, shares(len(arguments[0]))):
        assert_close("encode", native.encode(*arguments, share), reference.encode(*arguments, share), torch.float32)


def test_decode_inverts_encode(backend: ModuleType, key_dtype: torch.dtype) -> None:
    cells, keys, ends, boundaries, count = example(dtype=key_dtype)
    cells = keys[torch.randint(len(keys), (5000,), generator=torch.Generator().manual_seed(0))]
    for share in (torch.zeros(5000).double(), shares(5000), torch.full((5000,), 1 - 2**-53).double()):
        scores = backend.encode(cells, keys, ends, boundaries, count, share)
        bin_index, _ = backend.decode(
            scores[:, None], torch.tensor([1]), boundaries, torch.tensor([0, len(boundaries)])
        )
        assert torch.equal(keys[bin_index[:, 0].long()], cells)


def test_large_integers_are_told_apart(backend: ModuleType) -> None:
    keys = torch.tensor([2**62, 2**62 + 1, 2**62 + 3])
    ends, boundaries = torch.tensor([0.0, 0.25, 0.5, 1.0]).double(), torch.tensor([-0.6745, 0.0])
    scores = backend.encode(torch.tensor([2**62, 2**62 + 1, 2**62 + 2]), keys, ends, boundaries, 4)
    assert scores.tolist() == sorted(set(scores.tolist()))


def test_empty(backend: ModuleType, key_dtype: torch.dtype) -> None:
    cells, *rest = example(0, dtype=key_dtype)
    assert backend.encode(cells, *rest).shape == (0,)


def test_non_contiguous(backend: ModuleType, key_dtype: torch.dtype) -> None:
    *tensors, count = example(dtype=key_dtype)
    share = shares(1003)
    gaps = backend.encode(*(strided(x) for x in tensors), count, strided(share))
    assert_close("encode", gaps, backend.encode(*tensors, count, share), torch.float32)


def test_threads_and_splits_change_nothing(backend: ModuleType) -> None:
    cells, *rest = example(100_003)
    share = shares(100_003)
    with threads(1):
        once = backend.encode(cells, *rest, share)
    with threads(2):
        assert_close("encode", backend.encode(cells, *rest, share), once)
        parts = [backend.encode(cells[a : a + 777], *rest, share[a : a + 777]) for a in range(0, 100_003, 777)]
        assert_close("encode", torch.cat(parts), once)


def test_native_on_every_device(native: ModuleType, device: torch.device, key_dtype: torch.dtype) -> None:
    for *tensors, count in (example(dtype=key_dtype), tail_example()):
        for share in (None, shares(len(tensors[0]))):
            on_device = [x.to(device) for x in tensors], None if share is None else share.to(device)
            scores = native.encode(*on_device[0], count, on_device[1])
            assert_close("encode", scores.cpu(), reference.encode(*tensors, count, share))


def test_reference_on_every_device(device: torch.device, key_dtype: torch.dtype) -> None:
    *tensors, count = example(dtype=key_dtype)
    scores = reference.encode(*(x.to(device) for x in tensors), count, shares(1003).to(device))
    torch.testing.assert_close(scores.cpu(), reference.encode(*tensors, count, shares(1003)), rtol=1e-6, atol=1e-7)


def test_bad_arguments_are_named(native: ModuleType) -> None:
    cells, keys, ends, boundaries, count = example()
    cases: list[tuple[tuple[Any, ...], str]] = [
        ((cells.half(), keys, ends, boundaries, count), "cells"),
        ((cells[None], keys, ends, boundaries, count), "cells"),
        ((cells, keys.double(), ends, boundaries, count), "keys"),
        ((cells, keys[:0], ends[:1], boundaries[:0], count), "keys must not be empty"),
        ((cells, keys, ends.float(), boundaries, count), "ends"),
        ((cells, keys, ends[1:], boundaries, count), "ends"),
        ((cells, keys, ends, boundaries.double(), count), "boundaries"),
        ((cells, keys, ends, boundaries[1:], count), "boundaries"),
        ((cells, keys, ends, boundaries, 0), "count"),
        ((cells, keys, ends, boundaries, count, cells), "share"),
        ((cells, keys, ends, boundaries, count, shares(3)), "share"),
    ]
    for arguments, word in cases:
        with pytest.raises((ValueError, TypeError), match=word):
            native.encode(*arguments)
        if word != "keys must not be empty":
            with pytest.raises(RuntimeError, match=word):
                torch.ops.missdiff_fast.encode(*arguments)


def test_gradients_are_refused(native: ModuleType) -> None:
    keys, ends = torch.arange(3.0), torch.linspace(0, 1, 4, dtype=torch.float64)
    boundaries = torch.tensor([-0.5, 0.5])
    with pytest.raises(ValueError, match="no derivative with respect to cells"):
        native.encode(keys.clone().requires_grad_(), keys, ends, boundaries, 4)
    with torch.no_grad():
        assert native.encode(keys.clone().requires_grad_(), keys, ends, boundaries, 4).shape == (3,)


def test_registration(native: ModuleType, key_dtype: torch.dtype) -> None:
    for share in (None, shares(7)):
        torch.library.opcheck(torch.ops.missdiff_fast.encode.default, (*example(7, dtype=key_dtype), share))


def test_compiles_whole(native: ModuleType, fresh_compiler: None) -> None:
    @torch.compile(fullgraph=True, backend="aot_eager")
    def compiled(cells: Tensor, *rest: Any) -> Tensor:
        return native.encode(cells * 2, *rest)

    for size in (6, 11):
        cells, *rest = example(size)
        assert_close("encode", compiled(cells, *rest, shares(size)), native.encode(cells * 2, *rest, shares(size)))
