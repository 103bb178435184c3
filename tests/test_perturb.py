from __future__ import annotations

import dataclasses
import math
from types import ModuleType
from typing import Any

import pytest
import torch
from batches import LAYOUTS, SMALL_LAYOUTS, Batch, make_batch, strided, threads
from tolerances import assert_close
from torch import Tensor

from missdiff_fast.diffusion.states import CLEAN, HIDDEN, NOISY
from missdiff_fast.ops import reference
from missdiff_fast.ops.reference import make_key
from missdiff_fast.table.encoded import EncodedTable, Layout


def run(module: ModuleType, batch: Batch, **options: Any) -> Tensor:
    return module.perturb(batch.table, batch.rows, batch.states, batch.alpha, batch.sigma, batch.key, **options)


def test_by_hand(backend: ModuleType) -> None:
    scores = torch.tensor([[1.5, 4.0], [math.nan, -2.0]])
    table = EncodedTable(scores, torch.tensor([[1, 2], [0, -1]], dtype=torch.int16), Layout(2, (2, 3)))
    states = torch.tensor([[NOISY, HIDDEN, NOISY, CLEAN], [NOISY, CLEAN, CLEAN, NOISY]], dtype=torch.uint8)
    x = backend.perturb(
        table, torch.tensor([0, 1]), states, torch.tensor([0.5, 0.25]), torch.tensor([2.0, 0.0]), make_key(0, 0)
    )
    # Random123's answer for counter 0 and key 0 is 6627e8d5 e169c58d ...: columns 0 and 1 of row 0.
    u, turn = ((0x6627E8D5 >> 9) * 2 + 1) / 2**24, ((0xE169C58D >> 9) * 2 + 1) / 2**24
    first = math.sqrt(-2 * math.log(u)) * math.cos(2 * math.pi * turn)
    u, turn = ((0xBC57AC4C >> 9) * 2 + 1) / 2**24, ((0x9B00DBD8 >> 9) * 2 + 1) / 2**24
    length = math.sqrt(-2 * math.log(u))
    third, fourth = length * math.cos(2 * math.pi * turn), length * math.sin(2 * math.pi * turn)
    expected = [
        [0.5 * 1.5 + 2 * first, 0.0, 2 * third, 0.5 * 1 + 2 * fourth, 0.0, 0.0, 1.0],
        [0.0, -2.0, 1.0, 0.0, 0.0, 0.0, 0.0],
    ]
    assert_close("perturb", x, torch.tensor(expected, dtype=torch.float64))


def test_native_is_the_reference(native: ModuleType, device: torch.device, layout: Layout, dtype: torch.dtype) -> None:
    batch = make_batch(layout, dtype=dtype)
    x = run(native, batch.to(device))
    assert x.dtype == dtype
    assert_close("perturb", x, run(reference, batch))


@pytest.mark.parametrize(("low", "high"), [(-1.0, 1.0), (0.0, 1.0), (-0.25, 0.75), (0.1, 0.7)])
def test_levels(native: ModuleType, device: torch.device, dtype: torch.dtype, low: float, high: float) -> None:
    batch = make_batch(LAYOUTS["mixed"], dtype=dtype, seed=5)
    assert_close(
        "perturb", run(native, batch.to(device), low=low, high=high), run(reference, batch, low=low, high=high)
    )


def test_states(backend: ModuleType, device: torch.device, layout: Layout, dtype: torch.dtype) -> None:
    batch = make_batch(layout, dtype=dtype).to(device)
    x = run(backend, batch)
    state = batch.states[:, layout.groups(device)]
    assert not x.isnan().any()
    assert bool((x[state == HIDDEN] == 0).all())
    clean = run(backend, dataclasses.replace(batch, states=torch.full_like(batch.states, CLEAN)))
    assert torch.equal(x[state == CLEAN], clean[state == CLEAN])
    observed = batch.table.observed()[batch.rows]
    start = layout.num_continuous
    assert torch.equal(clean[:, :start], batch.table.continuous[batch.rows].nan_to_num(nan=0.0))
    for k, size in enumerate(layout.cardinalities):
        group = clean[:, start : start + size]
        seen = observed[:, layout.num_continuous + k]
        codes = batch.table.codes[batch.rows, k].long().clamp(min=0)
        assert torch.equal(group, torch.nn.functional.one_hot(codes, size).to(dtype) * seen[:, None])
        start += size


def test_noise_is_that_of_normal(backend: ModuleType, device: torch.device, dtype: torch.dtype) -> None:
    batch = make_batch(LAYOUTS["clinical"], dtype=dtype).to(device)
    ones = torch.ones_like(batch.sigma)
    states = torch.full_like(batch.states, NOISY)
    pure = dataclasses.replace(batch, states=states, alpha=torch.zeros_like(ones), sigma=ones)
    assert torch.equal(run(backend, pure), reference.normal(batch.rows, 119, batch.key).to(dtype))


def test_empty_batch(backend: ModuleType, device: torch.device, layout: Layout) -> None:
    assert run(backend, make_batch(layout, 0).to(device)).shape == (0, layout.width)


def test_missing_rows_carry_noise_alone(backend: ModuleType, device: torch.device, layout: Layout) -> None:
    batch = make_batch(layout, 3).to(device)
    batch = dataclasses.replace(batch, rows=torch.zeros_like(batch.rows), states=torch.full_like(batch.states, NOISY))
    noise = batch.sigma[:, None] * reference.normal(batch.rows, layout.width, batch.key)
    assert_close("perturb", run(backend, batch), noise)


def test_non_contiguous(backend: ModuleType, device: torch.device, dtype: torch.dtype) -> None:
    batch = make_batch(LAYOUTS["mixed"], dtype=dtype).to(device)
    table = EncodedTable(strided(batch.table.continuous), strided(batch.table.codes), batch.table.layout)
    gaps = Batch(
        table,
        strided(batch.rows),
        strided(batch.states),
        strided(batch.alpha),
        strided(batch.sigma),
        strided(batch.weight),
        batch.key,
    )
    assert torch.equal(run(backend, gaps), run(backend, batch))


def test_batch_splits_and_threads_change_no_bit(backend: ModuleType, device: torch.device) -> None:
    batch = make_batch(LAYOUTS["clinical"], 5003).to(device)
    with threads(1):
        whole = run(backend, batch)
    with threads(2):
        assert torch.equal(run(backend, batch), whole)
        assert torch.equal(run(backend, batch), whole)
    parts = [
        backend.perturb(batch.table, batch.rows[a:b], batch.states[a:b], batch.alpha[a:b], batch.sigma[a:b], batch.key)
        for a, b in [(0, 1), (1, 2500), (2500, 5003)]
    ]
    assert torch.equal(torch.cat(parts), whole)


def test_infinite_cells_are_passed_on(backend: ModuleType, dtype: torch.dtype) -> None:
    scores = torch.tensor([[math.inf, -math.inf, math.inf, math.nan]], dtype=dtype)
    table = EncodedTable(scores, torch.zeros(1, 0, dtype=torch.int16), Layout(4))
    states = torch.tensor([[NOISY, CLEAN, HIDDEN, CLEAN]], dtype=torch.uint8)
    one = torch.ones(1, dtype=dtype)
    x = backend.perturb(table, torch.tensor([0]), states, one, one, make_key(0, 0))
    assert x.tolist() == [[math.inf, -math.inf, 0.0, 0.0]]


def gradients(module: ModuleType, batch: Batch) -> tuple[Tensor, ...]:
    """Gradients of a sum of squares with respect to scores, alpha and sigma."""
    leaves = [x.detach().clone().requires_grad_() for x in (batch.table.continuous, batch.alpha, batch.sigma)]
    table = EncodedTable(leaves[0], batch.table.codes, batch.table.layout)
    held = dataclasses.replace(batch, table=table, alpha=leaves[1], sigma=leaves[2])
    return torch.autograd.grad((run(module, held, low=0.1, high=0.7) ** 2).sum(), leaves)


def test_gradients_of_native_are_those_of_the_reference(
    native: ModuleType, device: torch.device, layout: Layout
) -> None:
    batch = make_batch(layout, dtype=torch.float64)
    for gradient, wanted in zip(gradients(native, batch.to(device)), gradients(reference, batch), strict=True):
        torch.testing.assert_close(gradient.cpu(), wanted, rtol=1e-13, atol=1e-13)


def test_gradients_beside_an_infinite_cell(backend: ModuleType) -> None:
    batch = make_batch(Layout(2, (3,)), 3, torch.float64, missing=0.0)
    batch.table.continuous[batch.rows[0], 0] = math.inf
    batch = dataclasses.replace(batch, rows=batch.rows[:1].repeat(3), sigma=torch.ones_like(batch.sigma))
    batch.states[:] = torch.tensor([[CLEAN, NOISY, NOISY], [HIDDEN, NOISY, NOISY], [NOISY, NOISY, NOISY]])
    scores, alpha, sigma = gradients(backend, batch)
    assert not scores.isnan().any()
    assert alpha.isfinite().tolist() == [True, True, False]
    assert float(alpha[2]) == math.inf
    assert sigma.isfinite().tolist() == [True, True, False]


@pytest.mark.parametrize("case", SMALL_LAYOUTS)
def test_gradcheck(backend: ModuleType, device: torch.device, case: str) -> None:
    batch = make_batch(SMALL_LAYOUTS[case], 4, torch.float64).to(device)
    table = batch.table

    def function(continuous: Tensor, alpha: Tensor, sigma: Tensor) -> Tensor:
        cells = EncodedTable(torch.where(table.continuous.isnan(), torch.nan, continuous), table.codes, table.layout)
        return backend.perturb(cells, batch.rows, batch.states, alpha, sigma, batch.key, low=0.1, high=0.7)

    leaves = [x.requires_grad_() for x in (table.continuous.nan_to_num(nan=0.0), batch.alpha, batch.sigma)]
    assert torch.autograd.gradcheck(function, leaves)


def test_reference_on_every_device(device: torch.device, layout: Layout) -> None:
    batch = make_batch(layout)
    assert_close("perturb", run(reference, batch.to(device)), run(reference, batch))


@pytest.mark.parametrize("row", [211, -1, 2**40])
def test_rows_out_of_range(native: ModuleType, row: int) -> None:
    batch = make_batch(LAYOUTS["mixed"], 5)
    rows = batch.rows.clone()
    rows[3] = row
    with pytest.raises((IndexError, ValueError, RuntimeError), match="row"):
        run(native, dataclasses.replace(batch, rows=rows))


def test_bad_arguments_are_named(native: ModuleType) -> None:
    good = make_batch(LAYOUTS["mixed"], 5)
    changes: list[tuple[dict[str, Any], str]] = [
        ({"rows": good.rows.int()}, "rows"),
        ({"rows": good.rows[:, None]}, "rows"),
        ({"states": good.states.long()}, "states"),
        ({"states": good.states[:, :-1]}, "states"),
        ({"states": good.states[:-1]}, "states"),
        ({"alpha": good.alpha[:-1]}, "alpha"),
        ({"alpha": good.alpha.double()}, "alpha"),
        ({"sigma": good.sigma[:, None]}, "sigma"),
        ({"sigma": good.sigma.double()}, "sigma"),
        ({"key": good.key.int()}, "key"),
        ({"key": good.key[:1]}, "key"),
    ]
    for change, word in changes:
        with pytest.raises((ValueError, TypeError), match=word):
            run(native, dataclasses.replace(good, **change))


def raw_arguments(batch: Batch) -> tuple[Any, ...]:
    table = batch.table
    return (
        table.continuous,
        table.codes,
        table.offsets,
        batch.rows,
        batch.states,
        batch.alpha,
        batch.sigma,
        batch.key,
        table.layout.width,
        0.0,
        1.0,
    )


def test_registration(native: ModuleType, device: torch.device, layout: Layout, dtype: torch.dtype) -> None:
    batch = make_batch(layout, 5, dtype).to(device)
    torch.library.opcheck(torch.ops.missdiff_fast.perturb.default, raw_arguments(batch))


def test_compiles_whole(native: ModuleType, device: torch.device, fresh_compiler: None) -> None:
    table = make_batch(LAYOUTS["mixed"]).to(device).table

    @torch.compile(fullgraph=True, backend="aot_eager")
    def compiled(rows: Tensor, states: Tensor, alpha: Tensor, sigma: Tensor, key: Tensor) -> Tensor:
        return native.perturb(table, rows, states, alpha, sigma, key) + 1

    for size in (6, 11):
        batch = make_batch(LAYOUTS["mixed"], size).to(device)
        x = compiled(batch.rows, batch.states, batch.alpha, batch.sigma, batch.key)
        assert torch.equal(x, run(native, batch) + 1)
