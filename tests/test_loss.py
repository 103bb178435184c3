"""`masked_loss` and `masked_noise_loss`: the two training losses, which share their kernel file."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
import torch
from batches import LAYOUTS, SMALL_LAYOUTS, Batch, make_batch, make_prediction, strided, threads
from tolerances import assert_close
from torch import Tensor
from torch.nn import functional

from missdiff_fast.diffusion.states import CLEAN, HIDDEN, NOISY
from missdiff_fast.ops import reference
from missdiff_fast.ops.reference import make_key
from missdiff_fast.table.encoded import EncodedTable, Layout

LOSSES = ["masked_loss", "masked_noise_loss"]
DTYPES = [torch.float32, torch.float64, torch.bfloat16]


def columns(name: str, layout: Layout) -> int:
    return layout.width + (layout.num_continuous if name == "masked_loss" else 0)


def used_columns(name: str, batch: Batch) -> Tensor:
    plain = name == "masked_loss"
    return batch.used_columns(hidden=plain, means=plain)


def call(module: ModuleType, name: str, prediction: Tensor, batch: Batch, **options: Any) -> Tensor:
    last = batch.weight if name == "masked_loss" else batch.key
    return getattr(module, name)(prediction, batch.table, batch.rows, batch.states, last, **options)


def value_and_gradient(
    module: ModuleType, name: str, prediction: Tensor, batch: Batch, **options: Any
) -> tuple[Tensor, Tensor]:
    leaf = prediction.detach().requires_grad_()
    loss = call(module, name, leaf, batch, **options)
    (gradient,) = torch.autograd.grad(loss, leaf)
    return loss.detach(), gradient


def example(
    name: str,
    layout: Layout,
    size: int = 67,
    dtype: torch.dtype = torch.float32,
    *,
    device: torch.device | str = "cpu",
    **options: Any,
) -> tuple[Tensor, Batch]:
    held = torch.float64 if dtype == torch.float64 else torch.float32
    prediction, batch = make_prediction(size, columns(name, layout), dtype), make_batch(layout, size, held, **options)
    return prediction.to(device), batch.to(device)


def test_by_hand(backend: ModuleType) -> None:
    table = EncodedTable(
        torch.tensor([[1.0], [math.nan]]),
        torch.tensor([[0], [1]], dtype=torch.int16),
        Layout(1, (2,)),
        torch.tensor([[2.0], [math.nan]]),
    )
    states = torch.tensor([[NOISY, HIDDEN], [NOISY, CLEAN]], dtype=torch.uint8)
    prediction = torch.tensor([[2.0, 5.0, 5.0, 4.0], [7.0, 1.0, 2.0, 8.0]], requires_grad=True)
    loss = backend.masked_loss(prediction, table, torch.tensor([0, 1]), states, torch.tensor([3.0, 9.0]))
    # Three cells are observed, one of them clean: 3 (2 - 1)^2 + 0.3 (4 - 2)^2 + ln 2.
    assert loss.item() == pytest.approx((3 + 1.2 + math.log(2)) / 3, rel=1e-6)
    loss.backward()
    expected = [[6 / 3, -0.5 / 3, 0.5 / 3, 1.2 / 3], [0.0, 0.0, 0.0, 0.0]]
    assert prediction.grad is not None
    torch.testing.assert_close(prediction.grad, torch.tensor(expected))


def test_noise_loss_by_hand(backend: ModuleType) -> None:
    table = EncodedTable(
        torch.tensor([[1.0], [math.nan]]), torch.tensor([[0], [1]], dtype=torch.int16), Layout(1, (2,))
    )
    states = torch.tensor([[NOISY, HIDDEN], [NOISY, NOISY]], dtype=torch.uint8)
    # Random123's answer for counter 0 and key 0 is 6627e8d5 e169c58d ...: columns 0 and 1 of row 0.
    u, turn = ((0x6627E8D5 >> 9) * 2 + 1) / 2**24, ((0xE169C58D >> 9) * 2 + 1) / 2**24
    first = math.sqrt(-2 * math.log(u)) * math.cos(2 * math.pi * turn)
    second_row = reference.normal(torch.tensor([1]), 3, make_key(0, 0))[0]
    prediction = torch.zeros(2, 3)
    prediction[0, 0] = first + 2
    prediction[1] = second_row + torch.tensor([100.0, 3.0, -1.0])
    prediction.requires_grad_()
    loss = backend.masked_noise_loss(prediction, table, torch.tensor([0, 1]), states, make_key(0, 0))
    # Three encoded cells are observed and noisy: one of the first row, a group of two of the second.
    assert loss.item() == pytest.approx((2**2 + 3**2 + 1) / 3, rel=1e-6)
    loss.backward()
    assert prediction.grad is not None
    expected = torch.tensor([[4 / 3, 0.0, 0.0], [0.0, 2.0, -2 / 3]])
    torch.testing.assert_close(prediction.grad, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("kind", DTYPES, ids=str)
def test_native_is_the_reference(
    native: ModuleType, device: torch.device, name: str, layout: Layout, kind: torch.dtype
) -> None:
    prediction, batch = example(name, layout, dtype=kind)
    loss, gradient = value_and_gradient(native, name, prediction.to(device), batch.to(device))
    assert loss.shape == ()
    assert loss.dtype == (torch.float64 if kind == torch.float64 else torch.float32)
    assert gradient.dtype == kind
    # The loss is compared with float64, in which the reference's own rounding error is negligible.
    truth = call(reference, name, prediction.double(), batch.double())
    assert_close(name, loss, truth, kind)
    assert_close(f"{name}.grad", gradient, value_and_gradient(reference, name, prediction, batch)[1])


@pytest.mark.parametrize("name", LOSSES)
def test_float16_is_refused(native: ModuleType, device: torch.device, name: str, layout: Layout) -> None:
    prediction, batch = example(name, layout, dtype=torch.float16)
    with pytest.raises(TypeError, match="prediction must be float32 or bfloat16, not float16"):
        call(native, name, prediction.to(device), batch.to(device))


@pytest.mark.parametrize("name", LOSSES)
def test_reruns_change_no_bit(native: ModuleType, device: torch.device, name: str) -> None:
    prediction, batch = example(name, LAYOUTS["clinical"], 10_007, device=device)
    loss, gradient = value_and_gradient(native, name, prediction, batch)
    for _ in range(3):
        again = value_and_gradient(native, name, prediction, batch)
        assert torch.equal(loss, again[0])
        assert torch.equal(gradient, again[1])


@pytest.mark.parametrize("name", LOSSES)
def test_large_batch_has_no_bias(native: ModuleType, device: torch.device, name: str) -> None:
    prediction, batch = example(name, LAYOUTS["clinical"], 20_011)
    loss, gradient = value_and_gradient(native, name, prediction.to(device), batch.to(device))
    truth, exact = value_and_gradient(reference, name, prediction.double(), batch.double())
    assert_close(name, loss, truth)
    assert_close(f"{name}.grad", gradient, exact)
    for part in (gradient[:, :27].cpu(), gradient[:, 27:119].cpu()):
        wanted = exact[:, :27] if part.shape[1] == 27 else exact[:, 27:119]
        bias = abs(float((part.double() - wanted).sum())) / float(wanted.abs().sum())
        assert bias < 1e-7


def test_agrees_with_torch_losses(backend: ModuleType, dtype: torch.dtype) -> None:
    layout = LAYOUTS["mixed"]
    prediction, batch = example("masked_loss", layout, dtype=dtype)
    used, observed = batch.used(), batch.table.observed()[batch.rows]
    C, D = layout.num_continuous, layout.width
    weight = torch.where(batch.states[:, :C] == NOISY, batch.weight[:, None], 1.0)
    assert batch.table.values is not None
    scores, values = batch.table.continuous[batch.rows], batch.table.values[batch.rows]
    seen = used[:, :C]
    squares = functional.mse_loss(prediction[:, :C][seen], scores[seen], reduction="none")
    total = (weight[seen] * squares).sum()
    total += 0.7 * functional.mse_loss(prediction[:, D:][seen], values[seen], reduction="sum")
    offsets = layout.offsets().tolist()
    for k, (a, b) in enumerate(itertools.pairwise(offsets)):
        codes = torch.where(used[:, C + k], batch.table.codes[batch.rows, k].long(), -1)
        total += functional.cross_entropy(prediction[:, a:b], codes, ignore_index=-1, reduction="sum")
    loss = call(backend, "masked_loss", prediction, batch, mean_weight=0.7)
    torch.testing.assert_close(loss, total / observed.sum())


def test_noise_loss_agrees_with_torch_losses(backend: ModuleType, dtype: torch.dtype) -> None:
    prediction, batch = example("masked_noise_loss", LAYOUTS["mixed"], dtype=dtype)
    used = used_columns("masked_noise_loss", batch)
    noise = reference.normal(batch.rows, prediction.shape[1], batch.key).to(dtype)
    loss = call(backend, "masked_noise_loss", prediction, batch)
    torch.testing.assert_close(loss, functional.mse_loss(prediction[used], noise[used]))


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("kind", DTYPES, ids=str)
@pytest.mark.parametrize("filling", [math.nan, math.inf, 1e30])
def test_unused_predictions_do_not_matter(
    backend: ModuleType, device: torch.device, name: str, layout: Layout, kind: torch.dtype, filling: float
) -> None:
    prediction, batch = example(name, layout, dtype=kind, device=device)
    used = used_columns(name, batch)
    spoilt = torch.where(used, prediction, filling)
    loss, gradient = value_and_gradient(backend, name, spoilt, batch)
    plain, expected = value_and_gradient(backend, name, prediction, batch)
    assert bool(loss.isfinite())
    assert torch.equal(loss, plain)
    assert torch.equal(gradient, expected)
    assert bool((gradient[~used] == 0).all())
    assert bool(((gradient != 0) & used).any())


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("kind", DTYPES, ids=str)
def test_nan_in_a_used_prediction_is_not_swallowed(
    backend: ModuleType, device: torch.device, name: str, layout: Layout, kind: torch.dtype
) -> None:
    prediction, batch = example(name, layout, dtype=kind, device=device)
    used = used_columns(name, batch)
    for column in range(used.shape[1]):  # scores, each place of each group, means
        spoilt = prediction.clone()
        spoilt[used[:, column].nonzero()[0], column] = math.nan
        assert bool(call(backend, name, spoilt, batch).isnan()), column


def test_nan_in_a_used_value_is_not_swallowed(backend: ModuleType, dtype: torch.dtype) -> None:
    prediction, batch = example("masked_loss", LAYOUTS["mixed"], dtype=dtype)
    row, column = batch.used()[:, :5].nonzero()[0].tolist()
    assert batch.table.values is not None
    batch.table.values[batch.rows[row], column] = math.nan
    assert bool(call(backend, "masked_loss", prediction, batch).isnan())


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("infinite", [math.inf, -math.inf])
def test_infinite_cells_are_passed_on(backend: ModuleType, name: str, dtype: torch.dtype, infinite: float) -> None:
    prediction, batch = example(name, LAYOUTS["mixed"], dtype=dtype)
    plain = call(backend, name, prediction, batch)
    used, table = batch.used(), batch.table
    assert table.values is not None
    first = int(used[:, 0].nonzero()[0])
    row = batch.rows[first]
    table.continuous[row, 0] = table.values[row, 0] = infinite
    loss, gradient = value_and_gradient(backend, name, prediction, batch)
    if name == "masked_loss":
        assert float(loss) == math.inf
        assert float(gradient[first, 0]) == float(gradient[first, -5]) == -infinite
    else:
        assert torch.equal(loss, plain)
    batch.states[batch.rows == row, 0] = CLEAN
    loss, gradient = value_and_gradient(backend, name, prediction, batch)
    assert bool(loss.isfinite())
    assert bool(gradient.isfinite().all())


def test_extreme_logits(backend: ModuleType, dtype: torch.dtype) -> None:
    table = EncodedTable(
        torch.zeros(2, 0, dtype=dtype),
        torch.tensor([[0], [2]], dtype=torch.int16),
        Layout(0, (3,)),
        torch.zeros(2, 0, dtype=dtype),
    )
    states = torch.full((2, 1), NOISY, dtype=torch.uint8)
    prediction = torch.tensor([[1e4, -1e4, 0.0], [1e4, -1e4, 0.0]], dtype=dtype)
    ones = torch.ones(2, dtype=dtype)
    batch = Batch(table, torch.arange(2), states, ones, ones, ones, make_key(0, 0))
    loss, gradient = value_and_gradient(backend, "masked_loss", prediction, batch)
    assert float(loss) == pytest.approx(1e4 / 2)
    torch.testing.assert_close(gradient, torch.tensor([[0.0, 0.0, 0.0], [0.5, 0.0, -0.5]], dtype=dtype))


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("kind", DTYPES, ids=str)
def test_no_cell_enters(
    backend: ModuleType, device: torch.device, name: str, layout: Layout, kind: torch.dtype
) -> None:
    prediction, batch = example(name, layout, 5, kind, device=device)
    missing = dataclasses.replace(batch, rows=torch.zeros_like(batch.rows))
    clean = dataclasses.replace(batch, states=torch.full_like(batch.states, CLEAN))
    empty_prediction, empty = example(name, layout, 0, kind, device=device)
    for given, case in [(prediction, missing), (prediction, clean), (empty_prediction, empty)]:
        loss, gradient = value_and_gradient(backend, name, given, case)
        assert float(loss) == 0
        assert torch.equal(gradient, torch.zeros_like(given))


def test_hidden_cells_have_weight_one(backend: ModuleType, device: torch.device) -> None:
    prediction, batch = example("masked_loss", LAYOUTS["no_categorical"], device=device)
    hidden = dataclasses.replace(batch, states=torch.full_like(batch.states, HIDDEN))
    noisy = dataclasses.replace(
        batch, states=torch.full_like(batch.states, NOISY), weight=torch.ones_like(batch.weight)
    )
    assert torch.equal(
        call(backend, "masked_loss", prediction, hidden), call(backend, "masked_loss", prediction, noisy)
    )


@pytest.mark.parametrize("name", LOSSES)
def test_non_contiguous(backend: ModuleType, device: torch.device, name: str, dtype: torch.dtype) -> None:
    prediction, batch = example(name, LAYOUTS["mixed"], dtype=dtype, device=device)
    table = batch.table
    assert table.values is not None
    gaps = Batch(
        EncodedTable(strided(table.continuous), strided(table.codes), table.layout, strided(table.values)),
        strided(batch.rows),
        strided(batch.states),
        strided(batch.alpha),
        strided(batch.sigma),
        strided(batch.weight),
        batch.key,
    )
    loss, gradient = value_and_gradient(backend, name, strided(prediction), gaps)
    expected_loss, expected = value_and_gradient(backend, name, prediction, batch)
    assert_close(name, loss, expected_loss)
    assert_close(f"{name}.grad", gradient, expected)
    wide = torch.cat([prediction, prediction], 1).requires_grad_()
    call(backend, name, wide[:, : prediction.shape[1]], batch).backward()
    assert wide.grad is not None
    assert_close(f"{name}.grad", wide.grad[:, : prediction.shape[1]], expected)
    assert bool((wide.grad[:, prediction.shape[1] :] == 0).all())


@pytest.mark.parametrize("name", LOSSES)
def test_bfloat16_errs_no_more_than_twice_plain_pytorch(backend: ModuleType, name: str) -> None:
    layout = LAYOUTS["mixed"]
    prediction, batch = example(name, layout, 211, torch.bfloat16)
    truth = value_and_gradient(reference, name, prediction.double(), batch.double())
    plain = plain_half(name, prediction, batch)
    ours = value_and_gradient(backend, name, prediction, batch)
    assert abs(float(ours[0]) - float(truth[0])) <= 2 * abs(float(plain[0]) - float(truth[0])) + 1e-6 * float(truth[0])
    error, bound = (ours[1].double() - truth[1]).abs(), (plain[1].double() - truth[1]).abs()
    scale = float(truth[1].abs().max())
    assert float(error.max()) <= 2 * float(bound.max()) + 1e-6 * scale
    assert float(error.mean()) <= 2 * float(bound.mean()) + 1e-7 * scale


def plain_half(name: str, prediction: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
    """The loss and its gradient with every operation in bfloat16, as PyTorch does it."""
    leaf, layout = prediction.detach().requires_grad_(), batch.table.layout
    if name == "masked_noise_loss":
        used = used_columns(name, batch)
        noise = reference.normal(batch.rows, leaf.shape[1], batch.key).bfloat16()
        loss = functional.mse_loss(leaf[used], noise[used])
        return loss.detach(), torch.autograd.grad(loss, leaf)[0]
    used, C, D = batch.used(), layout.num_continuous, layout.width
    assert batch.table.values is not None
    scores, values = batch.table.continuous[batch.rows].bfloat16(), batch.table.values[batch.rows].bfloat16()
    weight = torch.where(batch.states[:, :C] == NOISY, batch.weight.bfloat16()[:, None], 1.0)
    seen = used[:, :C]
    total = (weight[seen] * (leaf[:, :C][seen] - scores[seen]) ** 2).sum()
    total = total + 0.3 * ((leaf[:, D:][seen] - values[seen]) ** 2).sum()
    offsets = layout.offsets().tolist()
    for k, (a, b) in enumerate(itertools.pairwise(offsets)):
        codes = torch.where(used[:, C + k], batch.table.codes[batch.rows, k].long(), -1)
        total = total + functional.cross_entropy(leaf[:, a:b], codes, ignore_index=-1, reduction="sum")
    loss = total / batch.table.observed()[batch.rows].sum()
    return loss.detach(), torch.autograd.grad(loss, leaf)[0]


@pytest.mark.parametrize("name", LOSSES)
def test_reruns_and_threads_change_no_bit(backend: ModuleType, name: str) -> None:
    prediction, batch = example(name, LAYOUTS["clinical"], 10_007)
    with threads(1):
        loss, gradient = value_and_gradient(backend, name, prediction, batch)
    for count in (1, 2, 2):
        with threads(count):
            again = value_and_gradient(backend, name, prediction, batch)
        assert torch.equal(gradient, again[1])
        if backend is not reference:  # only the kernels promise this: torch.sum depends on the number of threads
            assert torch.equal(loss, again[0])


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("case", SMALL_LAYOUTS)
def test_gradcheck(backend: ModuleType, device: torch.device, name: str, case: str) -> None:
    prediction, batch = example(name, SMALL_LAYOUTS[case], 4, torch.float64, device=device)
    leaf = prediction.requires_grad_()
    function: Callable[[Tensor], Tensor] = lambda x: call(backend, name, x, batch)  # noqa: E731
    assert torch.autograd.gradcheck(function, leaf)


@pytest.mark.parametrize("name", LOSSES)
def test_second_derivative_is_refused(native: ModuleType, device: torch.device, name: str) -> None:
    prediction, batch = example(name, LAYOUTS["mixed"], dtype=torch.float64, device=device)
    leaf = prediction.requires_grad_()
    loss = call(native, name, leaf, batch) ** 2
    (gradient,) = torch.autograd.grad(loss, leaf, create_graph=True)
    torch.testing.assert_close(
        gradient, torch.autograd.grad(call(reference, name, leaf, batch) ** 2, leaf)[0], rtol=1e-12, atol=1e-14
    )
    with pytest.raises(RuntimeError, match="differentiate twice"):
        gradient.sum().backward()


@pytest.mark.parametrize("name", LOSSES)
def test_a_second_backward_gives_the_same_gradient(backend: ModuleType, device: torch.device, name: str) -> None:
    prediction, batch = example(name, LAYOUTS["mixed"], device=device)
    _, expected = value_and_gradient(backend, name, prediction, batch)
    leaf = prediction.requires_grad_()
    loss = call(backend, name, leaf, batch)
    for times in (1, 2):
        loss.backward(retain_graph=True)
        assert leaf.grad is not None
        assert torch.equal(leaf.grad, times * expected)
    (halved,) = torch.autograd.grad(loss, leaf, torch.tensor(0.5, device=device), retain_graph=True)
    assert torch.equal(halved, expected / 2)
    batched = torch.autograd.grad(loss, leaf, torch.tensor([1.0, 4.0], device=device), is_grads_batched=True)[0]
    assert torch.equal(batched, torch.stack([expected, 4 * expected]))


@pytest.mark.parametrize("name", LOSSES)
def test_gradient_changed_in_place_is_not_taken_again(native: ModuleType, name: str) -> None:
    prediction, batch = example(name, LAYOUTS["mixed"])
    leaf = prediction.requires_grad_()
    loss = call(native, name, leaf, batch)
    (gradient,) = torch.autograd.grad(loss, leaf, retain_graph=True)
    gradient.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


@pytest.mark.parametrize("name", LOSSES)
def test_gradient_is_scaled_by_what_follows(backend: ModuleType, device: torch.device, name: str) -> None:
    prediction, batch = example(name, LAYOUTS["mixed"], device=device)
    _, gradient = value_and_gradient(backend, name, prediction, batch)
    leaf = prediction.requires_grad_()
    (-4 * call(backend, name, leaf, batch)).backward()
    assert leaf.grad is not None
    assert torch.equal(leaf.grad, -4 * gradient)
    with torch.no_grad():
        assert not call(backend, name, leaf, batch).requires_grad


@pytest.mark.parametrize("name", LOSSES)
def test_reference_on_every_device(device: torch.device, name: str, layout: Layout) -> None:
    prediction, batch = example(name, layout)
    loss, gradient = value_and_gradient(reference, name, prediction.to(device), batch.to(device))
    expected_loss, expected = value_and_gradient(reference, name, prediction, batch)
    assert_close(name, loss, expected_loss)
    assert_close(f"{name}.grad", gradient, expected)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("row", [211, -1, 2**40])
def test_rows_out_of_range(native: ModuleType, name: str, row: int) -> None:
    prediction, batch = example(name, LAYOUTS["mixed"], 5)
    rows = batch.rows.clone()
    rows[3] = row
    with pytest.raises((IndexError, ValueError, RuntimeError), match="row"):
        call(native, name, prediction, dataclasses.replace(batch, rows=rows))


@pytest.mark.parametrize("name", LOSSES)
def test_bad_arguments_are_named(native: ModuleType, name: str) -> None:
    prediction, good = example(name, LAYOUTS["mixed"], 5)
    changes: list[tuple[dict[str, Any], str]] = [
        ({"rows": good.rows.int()}, "rows"),
        ({"rows": good.rows[:-1]}, "rows|states"),
        ({"states": good.states.long()}, "states"),
        ({"states": good.states[:, :-1]}, "states"),
        ({"states": good.states[:-1]}, "states"),
    ]
    if name == "masked_loss":
        changes += [({"weight": good.weight[:-1]}, "weight"), ({"weight": good.weight.double()}, "weight")]
    else:
        changes += [({"key": good.key.int()}, "key"), ({"key": good.key[:1]}, "key")]
    for change, word in changes:
        with pytest.raises((ValueError, TypeError), match=word):
            call(native, name, prediction, dataclasses.replace(good, **change))
    for bad in (prediction[:, :-1], prediction[0], prediction.half(), prediction.long(), prediction.double()):
        with pytest.raises((ValueError, TypeError), match="prediction"):
            call(native, name, bad, good)


def test_only_the_prediction_has_a_gradient(native: ModuleType) -> None:
    prediction, batch = example("masked_loss", LAYOUTS["mixed"], 5)
    weight = batch.weight.clone().requires_grad_()
    with pytest.raises(ValueError, match="weight"):
        call(native, "masked_loss", prediction, dataclasses.replace(batch, weight=weight)).backward()


def test_values_are_needed(backend: ModuleType) -> None:
    prediction, batch = example("masked_loss", LAYOUTS["mixed"], 5)
    table = EncodedTable(batch.table.continuous, batch.table.codes, batch.table.layout)
    with pytest.raises(ValueError, match="values"):
        call(backend, "masked_loss", prediction, dataclasses.replace(batch, table=table))


def raw_arguments(name: str, prediction: Tensor, batch: Batch) -> tuple[Any, ...]:
    table = batch.table
    if name == "masked_loss":
        cells = (table.continuous, table.codes, table.values, table.offsets, batch.rows, batch.states)
        return (prediction, *cells, batch.weight, 0.3)
    return (prediction, table.continuous, table.codes, table.offsets, batch.rows, batch.states, batch.key)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("kind", DTYPES, ids=str)
@pytest.mark.parametrize("differentiable", [False, True])
def test_registration(
    native: ModuleType, device: torch.device, name: str, kind: torch.dtype, differentiable: bool
) -> None:
    op = getattr(torch.ops.missdiff_fast, name).default
    for case in ("mixed", "no_continuous", "no_categorical"):
        prediction, batch = example(name, LAYOUTS[case], 5, kind, device=device)
        torch.library.opcheck(op, raw_arguments(name, prediction.requires_grad_(differentiable), batch))


@pytest.mark.parametrize("name", LOSSES)
def test_compiles_whole(native: ModuleType, device: torch.device, name: str, fresh_compiler: None) -> None:
    table = make_batch(LAYOUTS["mixed"]).table.to(device)

    @torch.compile(fullgraph=True, backend="aot_eager")
    def compiled(prediction: Tensor, rows: Tensor, states: Tensor, last: Tensor) -> Tensor:
        return 2 * getattr(native, name)(prediction * 3, table, rows, states, last)

    for size in (6, 11):
        prediction, batch = example(name, LAYOUTS["mixed"], size, device=device)
        leaf, same = prediction.clone().requires_grad_(), prediction.clone().requires_grad_()
        last = batch.weight if name == "masked_loss" else batch.key
        loss = compiled(leaf, batch.rows, batch.states, last)
        loss.backward()
        expected = 2 * call(native, name, same * 3, batch)
        expected.backward()
        assert torch.equal(loss, expected)
        assert leaf.grad is not None
        assert same.grad is not None
        assert torch.equal(leaf.grad, same.grad)


def test_compiles_with_inductor(native: ModuleType, fresh_compiler: None) -> None:
    prediction, batch = example("masked_loss", LAYOUTS["mixed"], 11)
    leaf, same = prediction.clone().requires_grad_(), prediction.clone().requires_grad_()

    @torch.compile(fullgraph=True)
    def compiled(prediction: Tensor) -> Tensor:
        return call(native, "masked_loss", torch.tanh(prediction), batch)

    compiled(leaf).backward()
    call(native, "masked_loss", torch.tanh(same), batch).backward()
    assert leaf.grad is not None
    assert same.grad is not None
    torch.testing.assert_close(leaf.grad, same.grad)


def make_column_weight(layout: Layout, dtype: torch.dtype = torch.float32, *, seed: int = 0) -> Tensor:
    """Weights of the table columns between 0.1 and 10, ``[J]``."""
    g = torch.Generator().manual_seed(seed + 3)
    return (10 ** (2 * torch.rand(layout.num_columns, generator=g, dtype=torch.float64) - 1)).to(dtype)


def test_column_weights_by_hand(backend: ModuleType) -> None:
    table = EncodedTable(
        torch.tensor([[1.0], [math.nan]]),
        torch.tensor([[0], [1]], dtype=torch.int16),
        Layout(1, (2,)),
        torch.tensor([[2.0], [math.nan]]),
    )
    states = torch.full((2, 2), NOISY, dtype=torch.uint8)
    prediction = torch.tensor([[2.0, 5.0, 5.0, 4.0], [7.0, 2.0, 2.0, 8.0]], requires_grad=True)
    loss = backend.masked_loss(
        prediction,
        table,
        torch.tensor([0, 1]),
        states,
        torch.tensor([3.0, 9.0]),
        column_weight=torch.tensor([2.0, 0.5]),
    )
    # Three cells are observed: 2 (3 (2 - 1)^2 + 0.3 (4 - 2)^2) + 0.5 (ln 2 + ln 2).
    assert loss.item() == pytest.approx((8.4 + math.log(2)) / 3, rel=1e-6)
    loss.backward()
    expected = [[12 / 3, -0.25 / 3, 0.25 / 3, 2.4 / 3], [0.0, 0.25 / 3, -0.25 / 3, 0.0]]
    assert prediction.grad is not None
    torch.testing.assert_close(prediction.grad, torch.tensor(expected))


@pytest.mark.parametrize("size", [1, 67, 131])
@pytest.mark.parametrize("kind", DTYPES, ids=str)
def test_column_weights_native_is_the_reference(
    native: ModuleType, device: torch.device, layout: Layout, kind: torch.dtype, size: int
) -> None:
    prediction, batch = example("masked_loss", layout, size, kind, seed=size)
    column_weight = make_column_weight(layout, batch.weight.dtype)
    loss, gradient = value_and_gradient(
        native, "masked_loss", prediction.to(device), batch.to(device), column_weight=column_weight.to(device)
    )
    truth = call(reference, "masked_loss", prediction.double(), batch.double(), column_weight=column_weight.double())
    assert_close("masked_loss", loss, truth, kind)
    expected = value_and_gradient(reference, "masked_loss", prediction, batch, column_weight=column_weight)[1]
    assert_close("masked_loss.grad", gradient, expected)


@pytest.mark.parametrize("kind", DTYPES, ids=str)
def test_column_weights_of_one_change_no_bit(backend: ModuleType, layout: Layout, kind: torch.dtype) -> None:
    prediction, batch = example("masked_loss", layout, 131, kind)
    ones = torch.ones(layout.num_columns, dtype=batch.weight.dtype)
    loss, gradient = value_and_gradient(backend, "masked_loss", prediction, batch, column_weight=ones)
    plain, expected = value_and_gradient(backend, "masked_loss", prediction, batch)
    assert torch.equal(loss, plain)
    assert torch.equal(gradient, expected)


def test_a_column_weight_affects_its_column_alone(
    backend: ModuleType, device: torch.device, layout: Layout, dtype: torch.dtype
) -> None:
    prediction, batch = example("masked_loss", layout, dtype=dtype, device=device)
    loss, gradient = value_and_gradient(backend, "masked_loss", prediction, batch)
    groups = layout.groups(device)
    columns_of = torch.cat([groups, torch.arange(layout.num_continuous, device=device)])  # the means' columns come last
    for column in range(layout.num_columns):
        column_weight = torch.ones(layout.num_columns, dtype=dtype, device=device)
        column_weight[column] = 4  # a power of two scales without rounding
        alone = torch.where(columns_of == column, 4 * gradient, gradient)
        weighed = value_and_gradient(backend, "masked_loss", prediction, batch, column_weight=column_weight)
        assert torch.equal(weighed[1], alone)
        column_weight[column] = 0
        without = call(backend, "masked_loss", prediction, batch, column_weight=column_weight)
        torch.testing.assert_close(weighed[0] - without, 4 * (loss - without), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", DTYPES, ids=str)
@pytest.mark.parametrize("filling", [math.nan, math.inf, 1e30])
def test_columns_of_weight_zero_do_not_enter(
    backend: ModuleType, device: torch.device, layout: Layout, kind: torch.dtype, filling: float
) -> None:
    prediction, batch = example("masked_loss", layout, dtype=kind, device=device)
    column_weight = make_column_weight(layout, batch.weight.dtype).to(device)
    column_weight[::2] = 0
    weightless = (column_weight == 0).expand_as(batch.states)
    clean = dataclasses.replace(batch, states=torch.where(weightless, CLEAN, batch.states).to(torch.uint8))
    used = used_columns("masked_loss", clean)
    spoilt = torch.where(used, prediction, filling)
    loss, gradient = value_and_gradient(backend, "masked_loss", spoilt, batch, column_weight=column_weight)
    expected = value_and_gradient(backend, "masked_loss", prediction, clean, column_weight=column_weight)
    assert bool(loss.isfinite())
    assert torch.equal(loss, expected[0])
    assert torch.equal(gradient, expected[1])
    assert bool((gradient[~used] == 0).all())
    assert bool((gradient[used] != 0).any()) or not bool(used.any())


def test_column_weights_all_zero(backend: ModuleType, device: torch.device, layout: Layout, dtype: torch.dtype) -> None:
    prediction, batch = example("masked_loss", layout, dtype=dtype, device=device)
    zeros = torch.zeros(layout.num_columns, dtype=dtype, device=device)
    loss, gradient = value_and_gradient(backend, "masked_loss", prediction, batch, column_weight=zeros)
    assert float(loss) == 0
    assert torch.equal(gradient, torch.zeros_like(prediction))


def test_column_weights_need_not_be_contiguous(backend: ModuleType, device: torch.device, dtype: torch.dtype) -> None:
    prediction, batch = example("masked_loss", LAYOUTS["mixed"], dtype=dtype, device=device)
    column_weight = make_column_weight(LAYOUTS["mixed"], dtype).to(device)
    loss, gradient = value_and_gradient(backend, "masked_loss", prediction, batch, column_weight=strided(column_weight))
    expected = value_and_gradient(backend, "masked_loss", prediction, batch, column_weight=column_weight)
    assert torch.equal(loss, expected[0])
    assert torch.equal(gradient, expected[1])


@pytest.mark.parametrize("case", SMALL_LAYOUTS)
def test_column_weights_gradcheck(backend: ModuleType, device: torch.device, case: str) -> None:
    layout = SMALL_LAYOUTS[case]
    prediction, batch = example("masked_loss", layout, 4, torch.float64, device=device)
    column_weight = make_column_weight(layout, torch.float64).to(device)
    column_weight[0] = 0
    leaf = prediction.requires_grad_()
    function: Callable[[Tensor], Tensor] = lambda x: call(  # noqa: E731
        backend, "masked_loss", x, batch, column_weight=column_weight
    )
    assert torch.autograd.gradcheck(function, leaf)


def test_bad_column_weights_are_named(native: ModuleType) -> None:
    prediction, batch = example("masked_loss", LAYOUTS["mixed"], 5)
    good = make_column_weight(LAYOUTS["mixed"])
    for shape in (good[:-1], good[None], good[0], torch.cat([good, good])):
        with pytest.raises(ValueError, match=r"column_weight must have shape \[10\]"):
            call(native, "masked_loss", prediction, batch, column_weight=shape)
    for kind in (good.double(), good.long(), good.bfloat16()):
        with pytest.raises(TypeError, match="column_weight must be float32"):
            call(native, "masked_loss", prediction, batch, column_weight=kind)
    op, arguments = torch.ops.missdiff_fast.masked_loss, raw_arguments("masked_loss", prediction, batch)
    for bad in (good[:-1], good[None], good.double()):
        with pytest.raises(RuntimeError, match="column_weight"):
            op(*arguments, bad)
    leaf = prediction.clone().requires_grad_()
    with pytest.raises(ValueError, match="column_weight"):
        call(native, "masked_loss", leaf, batch, column_weight=good.requires_grad_()).backward()


@pytest.mark.parametrize("kind", DTYPES, ids=str)
@pytest.mark.parametrize("differentiable", [False, True])
def test_column_weights_registration(
    native: ModuleType, device: torch.device, kind: torch.dtype, differentiable: bool
) -> None:
    for case in ("mixed", "no_continuous", "no_categorical"):
        prediction, batch = example("masked_loss", LAYOUTS[case], 5, kind, device=device)
        arguments = raw_arguments("masked_loss", prediction.requires_grad_(differentiable), batch)
        column_weight = make_column_weight(LAYOUTS[case], batch.weight.dtype).to(device)
        torch.library.opcheck(torch.ops.missdiff_fast.masked_loss.default, (*arguments, column_weight))


def test_column_weights_compile_whole(native: ModuleType, fresh_compiler: None) -> None:
    table, column_weight = make_batch(LAYOUTS["mixed"]).table, make_column_weight(LAYOUTS["mixed"])

    @torch.compile(fullgraph=True, backend="aot_eager")
    def compiled(prediction: Tensor, rows: Tensor, states: Tensor, weight: Tensor, column_weight: Tensor) -> Tensor:
        return native.masked_loss(prediction * 3, table, rows, states, weight, column_weight=column_weight * 2)

    for size in (6, 11):
        prediction, batch = example("masked_loss", LAYOUTS["mixed"], size)
        leaf, same = prediction.clone().requires_grad_(), prediction.clone().requires_grad_()
        loss = compiled(leaf, batch.rows, batch.states, batch.weight, column_weight)
        loss.backward()
        expected = call(native, "masked_loss", same * 3, batch, column_weight=column_weight * 2)
        expected.backward()
        assert torch.equal(loss, expected)
        assert leaf.grad is not None
        assert same.grad is not None
        assert torch.equal(leaf.grad, same.grad)
