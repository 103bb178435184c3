"""The network's weights as CUDA kernels read them; that these read them aright is in test_cuda_host_mlp.py."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from batches import LAYOUTS
from test_mlp_sample import make_network
from torch.utils._python_dispatch import TorchDispatchMode

from missdiff_fast.networks.packing_cuda import PRECISIONS, pack

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


@pytest.mark.parametrize("precision", PRECISIONS)
def test_packing_takes_few_launches_however_many_blocks(precision: str) -> None:
    for blocks in (1, 6):
        network = make_network(LAYOUTS["mixed"], 40, blocks)
        pack(network, precision)  # finds the order of the weights
        with Launches() as launches:
            pack(network, precision)
        assert 0 < len(launches.names) <= 10, launches.names


def test_weights_that_change_are_packed_anew() -> None:
    network = make_network(LAYOUTS["mixed"], 40, 2)
    before = pack(network, "float32")
    network.inputs.weight.data[0, 0] += 1  # does not count as a new version of the weight
    assert not torch.equal(pack(network, "float32"), before)


@pytest.mark.usefixtures("fresh_compiler")
def test_a_compiled_call_packs_alike() -> None:
    network = make_network(LAYOUTS["mixed"], 40, 2)
    compiled = torch.compile(lambda: pack(network, "bfloat16"), fullgraph=True, backend="aot_eager")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = compiled()
    assert torch.equal(found, pack(network, "bfloat16"))
