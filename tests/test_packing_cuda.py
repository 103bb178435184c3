"""The network's weights as CUDA kernels read them; that these read them aright is in test_cuda_host_mlp.py."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from batches import LAYOUTS
from test_mlp_sample import make_network
from torch.utils._python_dispatch import TorchDispatchMode

from missdiff_fast.networks.packing_cuda import PRECISIONS, _split, pack

VIEWS = ("detach", "view", "slice", "permute", "transpose", "_unsafe_view", "as_strided")


class Launches(TorchDispatchMode):
    """Counts the operations that a device would run, which are no mere views."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        self.names += [] if name in VIEWS else [name]
        return func(*args, **kwargs or {})


@pytest.mark.parametrize(
    ("width", "precision", "most"), [(40, "bfloat16", 10), (40, "float32", 19), (200, "float32", 10)]
)
def test_packing_takes_few_launches_however_many_blocks(width: int, precision: str, most: int) -> None:
    """The weights of a narrow network in float32 are split besides."""
    for blocks in (1, 6):
        network = make_network(LAYOUTS["mixed"], width, blocks)
        pack(network, precision)  # finds the order of the weights
        with Launches() as launches:
            pack(network, precision)
        assert 0 < len(launches.names) <= most, launches.names


def test_a_weight_is_split_into_two_tf32_numbers() -> None:
    """Each has 11 significant bits; ties go away from zero, and no weight that is no number becomes one."""
    ulp = 2.0**-10  # of TF32 above 1
    numbers = torch.tensor([1.0, -1.0, 1 + ulp / 2, -1 - ulp / 2, 1 + ulp / 4, 0.0, -0.0])
    high, low = _split(numbers).chunk(2)
    assert high.tolist() == [1.0, -1.0, 1 + ulp, -1 - ulp, 1.0, 0.0, 0.0]
    assert torch.equal(high + low, numbers)
    many = torch.randn(1000)
    high, low = _split(many).chunk(2)
    for part in (high, low):
        assert not (part.view(torch.int32) & 0x1FFF).any()
    torch.testing.assert_close(high.double() + low.double(), many.double(), rtol=2.0**-22, atol=0.0)
    nan = torch.tensor([0x7FFFFFFF, 0x7FC00000, -1], dtype=torch.int32).view(torch.float32)  # -1 has all bits set
    assert _split(nan)[:3].isnan().all()


def test_weights_that_change_are_packed_anew() -> None:
    network = make_network(LAYOUTS["mixed"], 40, 2)
    before = pack(network, "float32")
    network.inputs.weight.data[0, 0] += 1  # does not count as a new version of the weight
    assert not torch.equal(pack(network, "float32"), before)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.usefixtures("fresh_compiler")
def test_a_compiled_call_packs_alike(precision: str) -> None:
    network = make_network(LAYOUTS["mixed"], 40, 2)
    compiled = torch.compile(lambda: pack(network, precision), fullgraph=True, backend="aot_eager")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = compiled()
    assert torch.equal(found, pack(network, precision))
