"""The network's passes on a CUDA device at sizes that fill it, and whole fits there."""

from __future__ import annotations

from dataclasses import fields, replace
from types import ModuleType

import numpy as np
import pandas as pd
import pytest
import torch
from batches import LAYOUTS
from test_cuda_errors import FEW, LAYOUTS_AND_WIDTHS, ON_CARD, TOO_WIDE, few_rows, too_wide_rows
from test_cuda_host_mlp import error
from test_mlp_sample import Call, example
from torch import Tensor

from missdiff_fast import MissDiff
from missdiff_fast.networks.packing_cuda import PRECISIONS
from missdiff_fast.ops import reference
from missdiff_fast.table.encoded import Layout

pytestmark = pytest.mark.parametrize("device", ["cuda"], indirect=True)

# Rows for several turns of blocks of eight warps on a large card, and some more.
MANY = 132 * 8 * 16 * 2 + 5


def on(device: torch.device, call: Call) -> Call:
    moved = {field.name: getattr(call, field.name).to(device) for field in fields(call)}
    return Call(**moved)


def of_rows(call: Call, rows: slice) -> Call:
    return replace(call, x=call.x[rows], states=call.states[rows], rows=call.rows[rows])


@torch.no_grad()
def both(native: ModuleType, call: Call, precision: str) -> tuple[Tensor, Tensor]:
    """Drawn and predicted rows."""
    drawn = native.mlp_sample(*vars(call).values(), precision=precision)
    return drawn, native.mlp_predict(call.network, call.x, call.states, call.sigmas[:1], precision=precision)


def fits(device: torch.device, width: int, precision: str) -> bool:
    """Whether the card has the shared memory for a wide network in this precision."""
    panels = -(-width // 16)
    most = getattr(torch.cuda.get_device_properties(device), "shared_memory_per_block_optin", 0)
    return panels <= 16 or precision == "bfloat16" or most >= 200_000


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize(("name", "width"), FEW)
def test_few_rows(device: torch.device, native: ModuleType, name: str, width: int, precision: str) -> None:
    if not fits(device, width, precision):
        pytest.skip("the card has too little shared memory")
    call = few_rows(name, width)
    drawn, predicted = both(native, on(device, call), precision)
    assert error(drawn.cpu(), call.sample(reference)) < ON_CARD[precision]
    assert error(predicted.cpu(), call.predict(reference)) < ON_CARD[precision]


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize(("name", "width"), LAYOUTS_AND_WIDTHS)
def test_many_rows_are_what_few_are(
    device: torch.device, native: ModuleType, name: str, width: int, precision: str
) -> None:
    """Bit for bit, as a row depends on itself alone: blocks of many warps, which go on to further rows."""
    if not fits(device, width, precision):
        pytest.skip("the card has too little shared memory")
    call = on(device, example(LAYOUTS[name], MANY, width=width, noise=0.3))
    whole = both(native, call, precision)
    for rows in (slice(0, 3), slice(MANY // 2, MANY // 2 + 40), slice(MANY - 7, MANY)):
        for large, small in zip(whole, both(native, of_rows(call, rows), precision), strict=True):
            assert torch.equal(large[rows], small)


@pytest.mark.parametrize("width", [96, 256])
def test_many_rows_of_the_usual_table(device: torch.device, native: ModuleType, width: int) -> None:
    """119 encoded columns: at a width of 96 one block of seven warps on an H100, at 256 blocks of four strips."""
    call = on(device, example(Layout(27, (2,) * 46), MANY, width=width))
    whole = both(native, call, "bfloat16")
    for rows in (slice(0, 3), slice(MANY // 2, MANY // 2 + 40), slice(MANY - 7, MANY)):
        for large, small in zip(whole, both(native, of_rows(call, rows), "bfloat16"), strict=True):
            assert torch.equal(large[rows], small)
    few = of_rows(call, slice(0, 40))
    assert error(whole[0][:40].cpu(), on(torch.device("cpu"), few).sample(reference)) < ON_CARD["bfloat16"]


@pytest.mark.parametrize("width", TOO_WIDE)
def test_rows_too_wide_for_shared_memory(device: torch.device, native: ModuleType, width: int) -> None:
    call = too_wide_rows(width)
    drawn, predicted = both(native, on(device, call), "float32")
    assert error(drawn.cpu(), call.sample(reference)) < ON_CARD["float32"]
    assert error(predicted.cpu(), call.predict(reference)) < ON_CARD["float32"]


def test_the_passes_may_be_captured(device: torch.device, native: ModuleType) -> None:
    """Weights are packed anew in every replay, so that a network in training may be drawn from."""
    call = on(device, example(LAYOUTS["mixed"], 67, width=96, noise=0.3))
    before = both(native, call, "bfloat16")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = both(native, call, "bfloat16")
    graph.replay()
    for result, wanted in zip(results, before, strict=True):
        assert torch.equal(result, wanted)


def holey(rows: int) -> pd.DataFrame:
    g = np.random.default_rng(0)
    x = g.normal(size=rows)
    frame = pd.DataFrame({"x": x, "y": x + g.normal(size=rows), "c": np.where(x > 0, "a", "b")})
    return frame.mask(g.random(frame.shape) < 0.2)


@pytest.mark.parametrize("preset", ["default", "paper"])
def test_a_model_learns_there_as_on_the_cpu(device: torch.device, native: ModuleType, preset: str) -> None:
    frame = holey(600)
    settings = {"diffusion.steps": 20} if preset == "paper" else {}
    found = {}
    for where in ("cpu", str(device)):
        model = MissDiff(preset, steps=300, random_state=0, device=where, verbose=False, settings=settings).fit(frame)
        found[where] = model.history_["loss"].to_numpy()
        assert not model.impute(frame).isna().any(axis=None)
    here, there = found.values()
    # Dropout is drawn by the device's own generator, and products are in other types.
    np.testing.assert_allclose(there, here, rtol=0.25 if preset == "paper" else 0.05)
    drawn = model.sample(2_000)
    assert not drawn.isna().any(axis=None)
    if preset == "default":
        assert abs(drawn["x"].corr(drawn["y"]) - frame["x"].corr(frame["y"])) < 0.1
