from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

import pytest
import torch
from batches import LAYOUTS, SMALL_LAYOUTS, make_prediction, strided, threads
from tolerances import assert_close
from torch import Tensor

from missdiff_fast.diffusion.states import CLEAN, HIDDEN, NOISY
from missdiff_fast.ops import reference
from missdiff_fast.ops.reference import make_key
from missdiff_fast.table.encoded import Layout


@dataclass(frozen=True)
class Call:
    """The arguments of `step`."""

    x: Tensor
    prediction: Tensor
    previous: Tensor | None
    states: Tensor
    offsets: Tensor
    coefficients: Tensor
    rows: Tensor
    key: Tensor

    def arguments(self) -> tuple[Any, ...]:
        return tuple(vars(self).values())

    def to(self, device: torch.device | str) -> Call:
        return Call(*(None if x is None else x.to(device) for x in self.arguments()))

    def run(self, module: ModuleType, *, softmax: bool = True) -> tuple[Tensor, Tensor]:
        return module.step(*self.arguments(), softmax=softmax)


COEFFICIENTS = {
    "first": (0.7, 0.4, 0.0, 0.0),
    "second order": (0.6, 0.9, -0.3, 0.0),
    "stochastic": (0.8, -0.2, 0.0, 0.5),
    "all": (0.5, 0.6, -0.4, 0.3),
    "last": (0.0, 1.0, 0.0, 0.0),
}


def example(
    layout: Layout,
    size: int = 67,
    dtype: torch.dtype = torch.float32,
    *,
    coefficients: str = "all",
    half: torch.dtype | None = None,
    seed: int = 0,
    device: torch.device | str = "cpu",
) -> Call:
    g = torch.Generator().manual_seed(seed + 5)
    c = COEFFICIENTS[coefficients]
    previous = make_prediction(size, layout.width, dtype, seed=seed + 1) if c[2] else None
    call = Call(
        make_prediction(size, layout.width, dtype, seed=seed + 2),
        make_prediction(size, layout.width, half or dtype, seed=seed + 3),
        previous,
        torch.randint(3, (size, layout.num_columns), generator=g).to(torch.uint8),
        layout.offsets(),
        torch.tensor(c, dtype=dtype),
        torch.randint(2**34, (size,), generator=g),
        make_key(-77 - seed, 2**32 - 1),
    )
    return call.to(device)


def test_by_hand(backend: ModuleType, dtype: torch.dtype) -> None:
    call = Call(
        torch.tensor([[1.0, 0.2, 0.8], [5.0, 1.0, 0.0]], dtype=dtype),
        torch.tensor([[3.0, 0.0, math.log(3)], [7.0, 1.0, 1.0]], dtype=dtype),
        torch.tensor([[2.0, 1.0, 0.0], [9.0, 0.0, 1.0]], dtype=dtype),
        torch.tensor([[NOISY, HIDDEN], [CLEAN, NOISY]], dtype=torch.uint8),
        torch.tensor([1, 3]),
        torch.tensor([0.5, 2.0, -1.0, 0.0], dtype=dtype),
        torch.tensor([0, 1]),
        make_key(0, 0),
    )
    after, p = call.run(backend)
    assert_close("step", p, torch.tensor([[3.0, 0.25, 0.75], [7.0, 0.5, 0.5]], dtype=torch.float64))
    expected = [[0.5 + 6 - 2, 0.1 + 0.5 - 1, 0.4 + 1.5], [5.0, 0.5 + 1, 0.0 + 1 - 1]]
    assert_close("step", after, torch.tensor(expected, dtype=torch.float64))


def test_noise_by_hand(backend: ModuleType) -> None:
    zeros = torch.zeros(1, 2)
    states = torch.full((1, 2), NOISY, dtype=torch.uint8)
    coefficients = torch.tensor([0.0, 0.0, 0.0, 2.0])
    offsets = torch.tensor([2])
    after, _ = backend.step(
        zeros, zeros, None, states, offsets, coefficients, torch.tensor([0]), make_key(0, 0), softmax=False
    )
    # Random123's answer for counter 0 and key 0 is 6627e8d5 e169c58d ...: columns 0 and 1 of row 0.
    u, turn = ((0x6627E8D5 >> 9) * 2 + 1) / 2**24, ((0xE169C58D >> 9) * 2 + 1) / 2**24
    length = 2 * math.sqrt(-2 * math.log(u))
    expected = [[length * math.cos(2 * math.pi * turn), length * math.sin(2 * math.pi * turn)]]
    assert_close("step", after, torch.tensor(expected, dtype=torch.float64))


@pytest.mark.parametrize("coefficients", COEFFICIENTS)
@pytest.mark.parametrize("softmax", [True, False])
def test_native_is_the_reference(
    native: ModuleType, device: torch.device, layout: Layout, dtype: torch.dtype, coefficients: str, softmax: bool
) -> None:
    call = example(layout, dtype=dtype, coefficients=coefficients)
    results, expected = call.to(device).run(native, softmax=softmax), call.run(reference, softmax=softmax)
    for result, wanted in zip(results, expected, strict=True):
        assert result.dtype == dtype
        assert_close("step", result, wanted)


@pytest.mark.parametrize("softmax", [True, False])
def test_bfloat16_prediction(native: ModuleType, device: torch.device, layout: Layout, softmax: bool) -> None:
    call = example(layout, half=torch.bfloat16)
    for result, wanted in zip(
        call.to(device).run(native, softmax=softmax), call.run(reference, softmax=softmax), strict=True
    ):
        assert result.dtype == torch.float32
        assert_close("step", result, wanted)


def test_float16_prediction_is_refused(native: ModuleType, device: torch.device, layout: Layout) -> None:
    with pytest.raises(TypeError, match="prediction must be float32 or bfloat16, not float16"):
        example(layout, half=torch.float16).to(device).run(native)


def test_bfloat16_errs_no_more_than_twice_plain_pytorch(backend: ModuleType) -> None:
    call = example(LAYOUTS["mixed"], 211, half=torch.bfloat16, coefficients="second order")
    assert call.previous is not None
    exact = replace(
        call,
        x=call.x.double(),
        prediction=call.prediction.double(),
        previous=call.previous.double(),
        coefficients=call.coefficients.double(),
    )
    truth, exact_p = exact.run(reference)
    bounds = call.offsets.tolist()
    groups = [torch.softmax(call.prediction[:, a:b], 1) for a, b in itertools.pairwise(bounds)]
    plain_p = torch.cat([call.prediction[:, : bounds[0]], *groups], 1)
    c0, c1, c2, _ = call.coefficients.bfloat16()
    plain = c0 * call.x.bfloat16() + c1 * plain_p + c2 * call.previous.bfloat16()
    clean = (call.states == CLEAN)[:, LAYOUTS["mixed"].groups()]
    plain = torch.where(clean, call.x, plain.float())
    for result, half, wanted in zip(call.run(backend), (plain, plain_p), (truth, exact_p), strict=True):
        error, bound = (result.double() - wanted).abs(), (half.double() - wanted).abs()
        assert float(error.max()) <= 2 * float(bound.max()) + 1e-6
        assert float(error.mean()) <= 2 * float(bound.mean()) + 1e-7


def test_groups_of_p_sum_to_one(backend: ModuleType, device: torch.device, layout: Layout, dtype: torch.dtype) -> None:
    _, p = example(layout, dtype=dtype, device=device).run(backend)
    bounds = layout.offsets().tolist()
    for a, b in itertools.pairwise(bounds):
        torch.testing.assert_close(p[:, a:b].sum(1), torch.ones(p.shape[0], dtype=dtype, device=device))


def test_extreme_logits(backend: ModuleType, dtype: torch.dtype) -> None:
    call = example(Layout(0, (3,)), 2, dtype, coefficients="last")
    logits = torch.tensor([[1e4, -1e4, 1e4], [-math.inf, 0.0, -math.inf]], dtype=dtype)
    states = torch.full_like(call.states, NOISY)
    after, p = replace(call, prediction=logits, states=states).run(backend)
    expected = torch.tensor([[0.5, 0.0, 0.5], [0.0, 1.0, 0.0]], dtype=dtype)
    assert_close("step", p, expected)
    assert_close("step", after, expected)


def test_clean_cells_are_kept_whatever_is_predicted(
    backend: ModuleType, device: torch.device, layout: Layout, dtype: torch.dtype
) -> None:
    call = example(layout, dtype=dtype, device=device)
    clean = (call.states == CLEAN)[:, layout.groups(device)]
    assert call.previous is not None
    spoilt = replace(
        call,
        prediction=torch.where(clean, math.nan, call.prediction),
        previous=torch.where(clean, math.nan, call.previous),
    )
    after, _ = spoilt.run(backend)
    assert torch.equal(after[clean], call.x[clean])
    assert torch.equal(after, call.run(backend)[0])


def test_inputs_are_left_alone(backend: ModuleType, device: torch.device) -> None:
    call = example(LAYOUTS["mixed"], device=device)
    before = [x.clone() for x in call.arguments()]
    call.run(backend)
    assert all(torch.equal(a, b) for a, b in zip(before, call.arguments(), strict=True))


def test_wider_prediction(backend: ModuleType, device: torch.device, layout: Layout) -> None:
    call = example(layout, device=device)
    extra = torch.full((call.x.shape[0], layout.num_continuous + 1), math.nan, device=device)
    wider = replace(call, prediction=torch.cat([call.prediction, extra], 1))
    for result, wanted in zip(wider.run(backend), call.run(backend), strict=True):
        assert torch.equal(result, wanted)


def test_empty_batch(backend: ModuleType, device: torch.device, layout: Layout) -> None:
    for result in example(layout, 0, device=device).run(backend):
        assert result.shape == (0, layout.width)


def test_non_contiguous(backend: ModuleType, device: torch.device, dtype: torch.dtype) -> None:
    call = example(LAYOUTS["mixed"], dtype=dtype, device=device)
    gaps = Call(*(strided(x) for x in call.arguments()))
    for result, wanted in zip(gaps.run(backend), call.run(backend), strict=True):
        assert_close("step", result, wanted)


def test_batch_splits_and_threads_change_no_bit(backend: ModuleType, device: torch.device) -> None:
    call = example(LAYOUTS["clinical"], 5003, device=device)
    assert call.previous is not None
    with threads(1):
        whole = call.run(backend)
    with threads(2):
        for again in (call.run(backend), call.run(backend)):
            assert torch.equal(again[0], whole[0])
            assert torch.equal(again[1], whole[1])
    parts = [
        replace(
            call,
            x=call.x[a:b],
            prediction=call.prediction[a:b],
            previous=call.previous[a:b],
            states=call.states[a:b],
            rows=call.rows[a:b],
        ).run(backend)[0]
        for a, b in [(0, 1), (1, 2500), (2500, 5003)]
    ]
    assert torch.equal(torch.cat(parts), whole[0])


@pytest.mark.parametrize("case", SMALL_LAYOUTS)
@pytest.mark.parametrize("softmax", [True, False])
def test_gradcheck(backend: ModuleType, device: torch.device, case: str, softmax: bool) -> None:
    call = example(SMALL_LAYOUTS[case], 3, torch.float64, device=device)

    def function(x: Tensor, prediction: Tensor, previous: Tensor) -> tuple[Tensor, Tensor]:
        return replace(call, x=x, prediction=prediction, previous=previous).run(backend, softmax=softmax)

    assert call.previous is not None
    leaves = [x.requires_grad_() for x in (call.x, call.prediction, call.previous)]
    assert torch.autograd.gradcheck(function, leaves)


def test_reference_on_every_device(device: torch.device, layout: Layout) -> None:
    call = example(layout)
    for result, wanted in zip(call.to(device).run(reference), call.run(reference), strict=True):
        assert_close("step", result, wanted)


def test_bad_arguments_are_named(native: ModuleType) -> None:
    good = example(LAYOUTS["mixed"], 5)
    assert good.previous is not None
    changes: list[tuple[dict[str, Any], str]] = [
        ({"x": good.x.half()}, "x"),
        ({"x": good.x[:, 0]}, "x"),
        ({"prediction": good.prediction[:, :-1]}, "prediction"),
        ({"prediction": good.prediction[:-1]}, "prediction"),
        ({"prediction": good.prediction.half()}, "prediction"),
        ({"previous": good.previous[:, :-1]}, "previous"),
        ({"previous": good.previous.double()}, "previous"),
        ({"states": good.states.long()}, "states"),
        ({"states": good.states[:, :-1]}, "states"),
        ({"offsets": good.offsets.int()}, "offsets"),
        ({"coefficients": good.coefficients[:3]}, "coefficients"),
        ({"coefficients": good.coefficients.double()}, "coefficients"),
        ({"rows": good.rows[:-1]}, "rows"),
        ({"rows": good.rows.int()}, "rows"),
        ({"key": good.key[:1]}, "key"),
    ]
    for change, word in changes:
        with pytest.raises((ValueError, TypeError), match=word):
            replace(good, **change).run(native)


@pytest.mark.parametrize("offsets", [[5, 7, 10, 11, 18, 21], [5, 7, 10, 9, 18, 20], [-1, 7, 10, 11, 18, 20]])
def test_offsets_that_do_not_fit(native: ModuleType, offsets: list[int]) -> None:
    call = replace(example(LAYOUTS["mixed"], 5), offsets=torch.tensor(offsets))
    with pytest.raises((ValueError, RuntimeError), match=r"offsets|categories|states"):
        call.run(native)


@pytest.mark.parametrize("coefficients", ["first", "all"])
@pytest.mark.parametrize("half", [None, torch.bfloat16], ids=str)
def test_registration(
    native: ModuleType, device: torch.device, layout: Layout, coefficients: str, half: torch.dtype | None
) -> None:
    call = example(layout, 5, coefficients=coefficients, half=half, device=device)
    torch.library.opcheck(torch.ops.missdiff_fast.step.default, (*call.arguments(), True))


@pytest.mark.parametrize("coefficients", ["first", "all"])
def test_compiles_whole(native: ModuleType, device: torch.device, coefficients: str, fresh_compiler: None) -> None:
    @torch.compile(fullgraph=True, backend="aot_eager")
    def compiled(
        x: Tensor, prediction: Tensor, previous: Tensor | None, states: Tensor, rows: Tensor
    ) -> tuple[Tensor, Tensor]:
        after, p = native.step(
            x, prediction * 2, previous, states, call.offsets, call.coefficients, rows, call.key, softmax=True
        )
        return after + 1, p

    for size in (6, 11):
        call = example(LAYOUTS["mixed"], size, coefficients=coefficients, device=device)
        after, p = compiled(call.x, call.prediction, call.previous, call.states, call.rows)
        wanted = replace(call, prediction=call.prediction * 2).run(native)
        assert torch.equal(after, wanted[0] + 1)
        assert torch.equal(p, wanted[1])
