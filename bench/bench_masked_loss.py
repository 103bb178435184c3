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
    w = workload.head(2000)
    for v in (None, w.column_weight):
        options: dict[str, Any] = {"mean_weight": MEAN_WEIGHT, "column_weight": v}
        loss = with_gradient(
            lambda p, options=options: reference.masked_loss(p, w.table, w.rows, w.states, w.weight, **options),  # type: ignore[misc]
            w.prediction,
        )
        compare("masked_loss", [native(w, v), plain(w, baselines.masked_loss, v)], loss)
    width = w.x.shape[1]
    noise_loss = with_gradient(lambda p: reference.masked_noise_loss(p, w.table, w.rows, w.states, w.key), w.x)
    noise = reference.normal(w.rows, width, w.key)
    compare("masked_noise_loss", [native_noise(w), plain_noise(w, baselines.masked_noise_loss, noise)], noise_loss)
    return workload


PLAIN: dict[str, Callable[..., Any]] = {"eager": lambda function: function, "compile": baselines.compiled}


def moved_bytes(w: Workload) -> int:
    """The batch, its values, weights and prediction are read, and the gradient written."""
    assert w.table.values is not None
    return batch_bytes(w, w.table.values, w.weight) + 2 * w.prediction.nbytes


def moved_noise_bytes(w: Workload) -> int:
    """The batch and the prediction are read, and the gradient written; the noise is drawn again."""
    return batch_bytes(w) + 2 * w.x.nbytes


def bench_masked_loss(timer: Timer, checked: Workload, implementation: str) -> None:
    if implementation == "native":
        timer("masked_loss", implementation, lambda: native(checked, checked.column_weight))
        return
    if implementation == "copy":
        timer("masked_loss", implementation, Copy(moved_bytes(checked)))
        return
    if implementation == "noise":
        pytest.skip("no noise is drawn")
    loss = PLAIN[implementation](baselines.masked_loss)
    timer("masked_loss", implementation, lambda: plain(checked, loss, checked.column_weight))


def bench_masked_noise_loss(timer: Timer, checked: Workload, implementation: str) -> None:
    if implementation == "native":
        timer("masked_noise_loss", implementation, lambda: native_noise(checked))
        return
    if implementation == "copy":
        timer("masked_noise_loss", implementation, Copy(moved_noise_bytes(checked)))
        return
    if implementation == "noise":
        timer("masked_noise_loss", implementation, Noise(checked))
        return
    loss = PLAIN[implementation](baselines.masked_noise_loss)
    timer("masked_noise_loss", implementation, lambda: plain_noise(checked, loss))
