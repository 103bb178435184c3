"""Both losses, forward and backward; `masked_loss` with column weights, as training calls it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import baselines
import pytest
import torch
from roofline import Copy, Noise, batch_bytes
from timing import IMPLEMENTATIONS as USUAL
from timing import Timer
from tolerances import assert_close
from torch import Tensor
from workload import Workload

from missdiff_fast import ops
from missdiff_fast.ops import reference

IMPLEMENTATIONS = [*USUAL, "copy", "noise"]
MEAN_WEIGHT = 0.3


def with_gradient(loss: Callable[[Tensor], Tensor], prediction: Tensor) -> tuple[Tensor, Tensor]:
    leaf = prediction.detach().requires_grad_()
    value = loss(leaf)
    return value.detach(), torch.autograd.grad(value, leaf)[0]


def native(w: Workload, column_weight: Tensor | None = None) -> tuple[Tensor, Tensor]:
    options: dict[str, Any] = {"mean_weight": MEAN_WEIGHT, "column_weight": column_weight}
    return with_gradient(lambda p: ops.masked_loss(p, w.table, w.rows, w.states, w.weight, **options), w.prediction)


def native_noise(w: Workload) -> tuple[Tensor, Tensor]:
    return with_gradient(lambda p: ops.masked_noise_loss(p, w.table, w.rows, w.states, w.key), w.x)


def plain(w: Workload, loss: Callable[..., Tensor], column_weight: Tensor | None = None) -> tuple[Tensor, Tensor]:
    cells = (w.table.continuous, w.table.codes, w.table.values)
    return with_gradient(
        lambda p: loss(p, *cells, w.rows, w.states, w.weight, MEAN_WEIGHT, column_weight), w.prediction
    )


def plain_noise(w: Workload, loss: Callable[..., Tensor], noise: Tensor | None = None) -> tuple[Tensor, Tensor]:
    t = w.table
    return with_gradient(lambda p: loss(p, t.continuous, t.codes, w.rows, w.states, noise), w.x)


def compare(op: str, results: list[tuple[Tensor, Tensor]], truth: tuple[Tensor, Tensor]) -> None:
    for value, gradient in results:
        assert_close(op, value, truth[0])
        assert_close(f"{op}.grad", gradient, truth[1])


@pytest.fixture(scope="module")
def checked(workload: Workload) -> Workload:
    for w in (workload.head(2000), workload.head(2000).halved()):
        d, dtype, width = w.double(), w.prediction.dtype, w.x.shape[1]
        for v, exact in ((None, None), (w.column_weight, d.column_weight)):
            options: dict[str, Any] = {"mean_weight": MEAN_WEIGHT, "column_weight": exact}
            loss, gradient = with_gradient(
                lambda p, options=options: reference.masked_loss(p, d.table, d.rows, d.states, d.weight, **options),  # type: ignore[misc]  # noqa: B023
                d.prediction,
            )
            compare("masked_loss", [native(w, v), plain(w, baselines.masked_loss, v)], (loss, gradient.to(dtype)))
        loss, gradient = with_gradient(
            lambda p: reference.masked_noise_loss(p, d.table, d.rows, d.states, d.key),  # noqa: B023
            d.x,
        )
        noise = reference.normal(w.rows, width, w.key)
        found = [native_noise(w), plain_noise(w, baselines.masked_noise_loss, noise)]
        compare("masked_noise_loss", found, (loss, gradient.to(dtype)))
    return workload


def moved_bytes(w: Workload) -> int:
    """The batch, its values, weights and prediction are read, and the gradient written."""
    assert w.table.values is not None
    return batch_bytes(w, w.table.values, w.weight) + 2 * w.prediction.nbytes


def moved_noise_bytes(w: Workload) -> int:
    """The batch and the prediction are read, and the gradient written; the noise is drawn again."""
    return batch_bytes(w) + 2 * w.x.nbytes


@pytest.mark.parametrize("op", ["masked_loss", "masked_loss, bf16"])
def bench_masked_loss(timer: Timer, checked: Workload, op: str, implementation: str) -> None:
    w = checked.halved() if op.endswith("bf16") else checked
    if implementation == "native":
        timer(op, implementation, lambda: native(w, w.column_weight))
    elif implementation == "copy":
        timer(op, implementation, Copy(moved_bytes(w)))
    elif implementation == "noise":
        pytest.skip("no noise is drawn")
    else:
        loss = baselines.rival(implementation, baselines.masked_loss)
        timer(op, implementation, lambda: plain(w, loss, w.column_weight))


@pytest.mark.parametrize("op", ["masked_noise_loss", "masked_noise_loss, bf16"])
def bench_masked_noise_loss(timer: Timer, checked: Workload, op: str, implementation: str) -> None:
    w = checked.halved() if op.endswith("bf16") else checked
    if implementation == "native":
        timer(op, implementation, lambda: native_noise(w))
    elif implementation == "copy":
        timer(op, implementation, Copy(moved_noise_bytes(w)))
    elif implementation == "noise":
        timer(op, implementation, Noise(w))
    else:
        loss = baselines.rival(implementation, baselines.masked_noise_loss)
        timer(op, implementation, lambda: plain_noise(w, loss))
