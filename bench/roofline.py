"""The machine's greatest rates, as yardsticks: timed like a rival, so that a native op's rate is a share of one.

`copy` moves as many bytes as the op has to, half of them read and half written; `sgemm` does the op's matrix products
in PyTorch; `noise` draws as many normal numbers as the op by the package's own generator, written to memory. All use
as many threads as the op. Copies and products allocate beforehand, which the op does not.
"""

from __future__ import annotations

import torch
from torch import Tensor
from workload import Workload

from missdiff_fast import ops
from missdiff_fast.networks import Denoiser


class Copy:
    """A copy that moves so many bytes."""

    def __init__(self, num_bytes: int) -> None:
        self.work = {"bytes": num_bytes}
        self.source = torch.ones(num_bytes // 8)
        self.target = torch.empty_like(self.source)

    def __call__(self) -> None:
        self.target.copy_(self.source)


class Products:
    """Products of matrices of these sizes, (M, K, N) for ``[M, K] @ [K, N]``, all of them so many times."""

    def __init__(self, sizes: list[tuple[int, int, int]], times: int = 1) -> None:
        self.work = {"flops": times * sum(2 * m * k * n for m, k, n in sizes)}
        self.times = times
        self.operands = [(torch.randn(m, k), torch.randn(k, n), torch.empty(m, n)) for m, k, n in sizes]

    def __call__(self) -> None:
        for _ in range(self.times):
            for left, right, out in self.operands:
                torch.mm(left, right, out=out)


class Noise:
    """The normal numbers of a batch."""

    def __init__(self, w: Workload) -> None:
        self.columns = w.table.layout.width
        self.work = {"numbers": len(w.rows) * self.columns}
        self.rows, self.key = w.rows, w.key

    def __call__(self) -> None:
        ops.normal(self.rows, self.columns, self.key)


def batch_bytes(w: Workload, *others: Tensor) -> int:
    """Bytes that an op on a batch reads once: row numbers, states, scores, codes, and other tensors given."""
    table = w.table
    per_row = (w.rows, w.states, table.continuous, table.codes, *others)
    return len(w.rows) * sum(tensor[0].nbytes for tensor in per_row)


def forward_sizes(network: Denoiser, rows: int, inputs: int | None = None) -> list[tuple[int, int, int]]:
    """The products of a pass without those of the noise level; ``inputs`` of the first layer, by default all."""
    linear = [layer for block in network.blocks for layer in (block.up, block.down)]
    inputs = network.inputs.in_features if inputs is None else inputs
    later = [(rows, layer.in_features, layer.out_features) for layer in (*linear, network.outputs)]
    return [(rows, inputs, network.width), *later]


def training_sizes(network: Denoiser, rows: int) -> list[tuple[int, int, int]]:
    """The products of a training step: forward, gradients of weights, and of rows where they are needed."""
    first, *later = forward_sizes(network, rows)
    raw, embedding = [(rows, layer.in_features, layer.out_features) for layer in (network.level[0], network.level[2])]
    forward = [raw, embedding, first, *later]
    weights = [(n, m, k) for m, k, n in forward]
    return [*forward, *weights, *((m, n, k) for m, k, n in (embedding, *later))]
