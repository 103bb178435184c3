"""`sample_by_layers`: the sampler by PyTorch's matrix products, as `mlp_sample` draws."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType

import pytest
import torch
from batches import LAYOUTS
from benchmarks import bench_on_the_path, load  # noqa: F401
from test_mlp_sample import Call, example
from tolerances import assert_close
from torch import Tensor

from missdiff_fast.diffusion.states import HIDDEN
from missdiff_fast.networks import Denoiser
from missdiff_fast.ops import reference
from missdiff_fast.table.encoded import Layout


def drawn(call: Call, precision: str = "float32", tile: int = 32) -> Tensor:
    return load("mlp_layers").sample_by_layers(*vars(call).values(), precision=precision, tile=tile)


@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_it_draws_what_the_op_draws(native: ModuleType, layout: Layout, noise: float) -> None:
    call = example(layout, noise=noise)
    assert_close("mlp_sample", drawn(call), call.sample(native))
    assert_close("mlp_sample", drawn(call), call.sample(reference))


@pytest.mark.parametrize(("width", "blocks"), [(8, 0), (200, 2)])
@pytest.mark.usefixtures("native")
def test_any_network(width: int, blocks: int) -> None:
    call = example(LAYOUTS["mixed"], width=width, blocks=blocks)
    assert_close("mlp_sample", drawn(call), call.sample(reference))


@pytest.mark.usefixtures("native")
def test_in_bfloat16_it_errs_no_more_than_twice_what_autocast_does() -> None:
    call = example(LAYOUTS["mixed"], width=96, noise=0.3)
    truth = call.sample(reference)
    with torch.autocast("cpu", torch.bfloat16):
        rival = torch.dist(call.sample(reference), truth)
    assert 0 < torch.dist(drawn(call, "bfloat16"), truth) <= 2 * rival


@pytest.mark.usefixtures("native")
def test_a_hidden_cell_is_not_read() -> None:
    """Whatever it holds, the cells of other columns are drawn alike."""
    call = example(LAYOUTS["mixed"])
    hidden = (call.states == HIDDEN)[:, call.network.layout.groups()]
    spoilt = replace(call, x=call.x.masked_fill(hidden, torch.nan))
    assert torch.equal(drawn(spoilt)[~hidden], drawn(call)[~hidden])


def test_what_it_cannot_draw_by_is_refused() -> None:
    call = example(LAYOUTS["mixed"], 3)
    with pytest.raises(ValueError, match="precision must be one of 'float32', 'bfloat16', not 'float16'"):
        drawn(call, "float16")

    class Own(Denoiser):
        pass

    with pytest.raises(TypeError, match="network must be a Denoiser, not Own"):
        drawn(replace(call, network=Own(LAYOUTS["mixed"], 8)))
