"""The ops on a CUDA device do not wait for it, and graphs can capture them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType

import pytest
import torch
from batches import LAYOUTS, Batch, make_batch, make_prediction
from test_codec_encode import example as encode_example
from torch import Tensor

from missdiff_fast.diffusion.states import CLEAN
from missdiff_fast.ops.reference import make_key
from missdiff_fast.table.encoded import Layout

pytestmark = pytest.mark.parametrize("device", ["cuda"], indirect=True)

OPS = ["uniform", "normal", "perturb", "masked_loss", "masked_noise_loss", "step", "encode", "decode"]
Inputs = dict[str, Tensor]
Function = Callable[[], tuple[Tensor, ...]]


def example(native: ModuleType, op: str, layout: Layout, device: torch.device) -> tuple[Function, Batch, Inputs]:
    """A call of an op, and the tensors that it reads."""
    batch = make_batch(layout, 67).to(device)
    C, D = layout.num_continuous, layout.width
    inputs = {
        "prediction": make_prediction(67, D + C).to(device).requires_grad_(),
        "noise": make_prediction(67, D).to(device).requires_grad_(),
        "x": make_prediction(67, D, seed=1).to(device),
        "coefficients": torch.tensor([0.5, 0.25, 0.0, 0.0], device=device),
        "boundaries": torch.linspace(-2, 2, 5, device=device).repeat(C),
        "starts": 5 * torch.arange(C + 1, device=device),
    }
    cells, keys, ends, between, count = (x.to(device) if isinstance(x, Tensor) else x for x in encode_example(67))
    inputs["cells"] = cells
    table, offsets = batch.table, batch.table.offsets

    def loss(prediction: str, last: Tensor) -> tuple[Tensor, ...]:
        value = getattr(native, op)(inputs[prediction], table, batch.rows, batch.states, last)
        return (value.detach(), *torch.autograd.grad(value, inputs[prediction]))

    def step() -> tuple[Tensor, ...]:
        x, c = inputs["x"], inputs["coefficients"]
        return native.step(x, inputs["noise"].detach(), x, batch.states, offsets, c, batch.rows, batch.key)

    def perturb() -> tuple[Tensor, ...]:
        return (native.perturb(table, batch.rows, batch.states, batch.alpha, batch.sigma, batch.key),)

    functions: dict[str, Function] = {
        "uniform": lambda: (native.uniform(batch.rows, D, batch.key),),
        "normal": lambda: (native.normal(batch.rows, D, batch.key),),
        "perturb": perturb,
        "masked_loss": lambda: loss("prediction", batch.weight),
        "masked_noise_loss": lambda: loss("noise", batch.key),
        "step": step,
        "encode": lambda: (native.encode(inputs["cells"], keys, ends, between, count),),
        "decode": lambda: native.decode(inputs["x"], offsets, inputs["boundaries"], inputs["starts"]),
    }
    return functions[op], batch, inputs


@contextmanager
def no_waiting() -> Iterator[None]:
    """Let PyTorch raise where it would wait for the device."""
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("op", OPS)
def test_nothing_waits_for_the_device(native: ModuleType, device: torch.device, op: str, layout: Layout) -> None:
    function, _, _ = example(native, op, layout, device)
    expected = function()
    with no_waiting():
        results = function()
    for result, wanted in zip(results, expected, strict=True):
        assert torch.equal(result, wanted)


@pytest.mark.parametrize("op", OPS)
def test_a_graph_reads_its_inputs_anew(native: ModuleType, device: torch.device, op: str) -> None:
    function, batch, inputs = example(native, op, LAYOUTS["mixed"], device)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        function()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = function()
    before = [x.clone() for x in function()]
    batch.key.copy_(make_key(-3, 2**32 - 1))
    batch.states.copy_(batch.states.flip(0))
    batch.rows.copy_(batch.rows.flip(0))
    batch.weight.mul_(2)
    inputs["coefficients"].copy_(torch.tensor([0.5, 0.25, -0.125, 0.75]))
    for name in ("x", "cells"):
        inputs[name].copy_(inputs[name].flip(0))
    graph.replay()
    for result, wanted, old in zip(results, function(), before, strict=True):
        assert torch.equal(result, wanted)
        assert op == "step" or not torch.equal(result, old)


@pytest.mark.parametrize("op", OPS)
def test_kernels_run_on_the_current_stream(native: ModuleType, device: torch.device, op: str) -> None:
    function, _, inputs = example(native, op, LAYOUTS["clinical"], device)
    expected = [x.clone() for x in function()]
    kept = {name: x.detach().clone() for name, x in inputs.items()}
    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.Stream()), torch.no_grad():
        # The inputs of the op are right only once the stream has come to the end of a long wait.
        for name in ("prediction", "noise", "x"):
            inputs[name].zero_()
        torch.cuda._sleep(50_000_000)
        for name in ("prediction", "noise", "x"):
            inputs[name].copy_(kept[name])
        with torch.enable_grad():
            results = function()
        torch.cuda.current_stream().synchronize()
    for result, wanted in zip(results, expected, strict=True):
        assert torch.equal(result, wanted)


def test_addresses_need_not_be_multiples_of_16(native: ModuleType, device: torch.device) -> None:
    layout = LAYOUTS["clinical"]
    batch = make_batch(layout, 67).to(device)
    prediction = make_prediction(67, layout.width + layout.num_continuous).to(device)

    def shifted(x: Tensor) -> Tensor:
        room = torch.empty(x.numel() + 1, dtype=x.dtype, device=device)
        return room[1:].view(x.shape).copy_(x)

    arguments = batch.table, batch.rows
    expected = native.masked_loss(prediction, *arguments, batch.states, batch.weight)
    assert torch.equal(
        native.masked_loss(shifted(prediction), *arguments, shifted(batch.states), shifted(batch.weight)), expected
    )
    x, noise = make_prediction(67, layout.width, seed=1).to(device), prediction[:, : layout.width]
    coefficients = torch.tensor([0.5, 0.25, -0.125, 0.75], device=device)
    rest = batch.states, batch.table.offsets, coefficients, batch.rows, batch.key
    wanted = native.step(x, noise, x, *rest)
    for result, same in zip(native.step(shifted(x), shifted(noise), shifted(x), *rest), wanted, strict=True):
        assert torch.equal(result, same)


def test_all_arguments_have_to_be_on_the_device(native: ModuleType, device: torch.device) -> None:
    batch = make_batch(LAYOUTS["mixed"], 5).to(device)
    with pytest.raises(RuntimeError, match="sigma must be on the same CUDA device"):
        native.perturb(batch.table, batch.rows, batch.states, batch.alpha, batch.sigma.cpu(), batch.key)
    with pytest.raises(RuntimeError, match="key must be on the same CUDA device"):
        native.normal(batch.rows, 3, batch.key.cpu())


def test_clean_rows_keep_their_bits(native: ModuleType, device: torch.device) -> None:
    layout = LAYOUTS["big_groups"]
    batch = make_batch(layout, 1001).to(device)
    x = make_prediction(1001, layout.width).to(device)
    states = torch.full_like(batch.states, CLEAN)
    nan = torch.full_like(x, torch.nan)
    coefficients = torch.ones(4, device=device)
    after, _ = native.step(x, nan, nan, states, batch.table.offsets, coefficients, batch.rows, batch.key)
    assert torch.equal(after, x)
