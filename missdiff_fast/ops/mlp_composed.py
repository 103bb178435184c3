"""A training step of matrix products and of ops between them, in which the host never waits for a GPU."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from missdiff_fast.networks.packing import PANEL, TrainingState
from missdiff_fast.ops.adamw import adamw
from missdiff_fast.ops.layers import column_sums, norm_backward, norm_forward, silu_backward, silu_forward
from missdiff_fast.ops.mlp_ends import mlp_input, mlp_loss
from missdiff_fast.table.encoded import EncodedTable


class Workspace:
    """The memory of a training step, and the weights by name: all that `composed_train_step` reads and writes.

    Every vector among the weights, a bias or a normalisation's gain or shift, has columns in one matrix. In the end
    their sums over the rows are its gradient. On the way there they hold other things:

    | columns of | forward | backward: gradient of |
    |---|---|---|
    | ``inputs.bias`` | | the first block's input |
    | ``level.0.bias`` | output of the layer, without its bias | the same |
    | ``level.2.bias`` | embedded noise level, without its bias | the same |
    | ``norm.weight`` | input of the normalisation, without its bias | the gain, row by row |
    | ``norm.bias`` | | the normalised rows |
    | ``up.bias`` | output of the layer, without its bias | the same |
    | ``down.bias`` | | the block's output |
    | ``outputs.bias`` | output of the layer, without its bias | the same |

    Parameters
    ----------
    state : TrainingState
        Without panels.
    rows : int
        Rows of a batch.

    Examples
    --------
    >>> from missdiff_fast.networks import Denoiser
    >>> from missdiff_fast.table.encoded import Layout
    >>> state = TrainingState.of(Denoiser(Layout(1, (2,)), width=8, blocks=1), panels=False)
    >>> workspace = Workspace(state, 5)
    >>> workspace.columns["blocks.0.up.bias"].shape, workspace.gradients["blocks.0.up.weight"].shape
    (torch.Size([5, 16]), torch.Size([16, 8]))
    """

    def __init__(self, state: TrainingState, rows: int) -> None:
        network, weights = state.network, state.weights
        W, self.blocks = network.width, len(network.blocks)
        names = [name for name, _ in network.named_parameters()]
        self.weights = dict(zip(names, state.unflatten(weights), strict=True))
        self.gradient = torch.zeros_like(weights)
        self.gradients = dict(zip(names, state.unflatten(self.gradient), strict=True))
        starts: dict[str, int] = {}
        places: list[int] = []
        for name, vector in self.gradients.items():
            # Without blocks nothing reads the noise level's embedding, and its gradient stays 0.
            if vector.dim() == 1 and (self.blocks > 0 or not name.startswith("level.")):
                starts[name] = len(places)
                places += range(vector.storage_offset(), vector.storage_offset() + len(vector))
                places += [-1] * (-len(vector) % PANEL)  # so that rows and their parts begin at multiples of 64 bytes
        self.matrix = weights.new_empty(rows, len(places))
        self.columns = {
            name: self.matrix[:, start : start + len(self.gradients[name])] for name, start in starts.items()
        }
        self.places = torch.tensor(places)
        if weights.is_cuda:
            self.places = self.places.pin_memory().to(weights.device, non_blocking=True)
        self.normed = weights.new_empty(self.blocks + 1, rows, W)
        self.stats = weights.new_empty(self.blocks + 1, rows, 2)
        self.hidden = weights.new_empty(self.blocks, rows, 2 * W)
        self.hidden_gradient = weights.new_empty(rows, 2 * W)
        self.level_hidden = weights.new_empty(rows, W)

    def entry(self, block: int) -> str:
        """Name of the bias of the rows that a block reads, or of those after the last block."""
        return f"blocks.{block - 1}.down.bias" if block else "inputs.bias"

    def norm(self, block: int) -> str:
        """Name of a block's normalisation, or of the last one."""
        return f"blocks.{block}.norm" if block < self.blocks else "norm"

    def of_blocks(self, tensors: dict[str, Tensor], name: str) -> Tensor:
        """A tensor of each block, in one view: they are equally far apart in memory."""
        return _stacked([tensors[f"blocks.{b}.{name}"] for b in range(self.blocks)])


def composed_train_step(
    state: TrainingState,
    table: EncodedTable,
    rows: Tensor,
    states: Tensor,
    loss_states: Tensor,
    sigma: Tensor,
    weight: Tensor,
    key: Tensor,
    schedule: Tensor,
    level_features: Tensor,
    count: Tensor,
    *,
    mean_weight: float,
    column_weight: Tensor | None,
    workspace: Workspace | None = None,
) -> Tensor:
    """`missdiff_fast.ops.mlp_train_step` for a state whose weights are not in panels.

    Forward and backward pass are written out, not recorded by autograd: activations and gradients lie in the
    workspace, and each product writes where the next op reads, or among the gradients that the optimiser reads. Leaves
    ``state.steps`` as it is: the kernel reads the step's number from ``schedule``. So a CUDA graph can capture the call
    and replay it with other numbers in the same memory.

    Parameters
    ----------
    state, table, rows, states, loss_states, sigma, weight, key, mean_weight, column_weight, level_features
        As in `missdiff_fast.ops.mlp_train_step`.
    schedule : Tensor
        As in `missdiff_fast.ops.adamw`.
    count : Tensor
        Number of observed cells of the rows, int64 ``[1]``.
    workspace : Workspace, optional
        Of the state and of this number of rows, if there is one already.

    Returns
    -------
    Tensor
        The loss before the step, a scalar.

    Examples
    --------
    >>> from missdiff_fast.networks import Denoiser
    >>> from missdiff_fast.ops import make_key
    >>> from missdiff_fast.table.encoded import Layout
    >>> cells, codes = torch.tensor([[0.5], [torch.nan]]), torch.tensor([[1], [-1]], dtype=torch.int16)
    >>> table = EncodedTable(cells, codes, Layout(1, (2,)), cells)
    >>> state = TrainingState.of(Denoiser(table.layout, width=8, blocks=1), panels=False)
    >>> noisy, sigma = torch.ones(2, 2, dtype=torch.uint8), torch.ones(2)
    >>> batch = torch.arange(2), noisy, noisy, sigma, torch.ones(2), make_key(0, 0)
    >>> schedule, features = torch.tensor([0.1, 1.0, 0.9]).double(), state.network.level_features(sigma)
    >>> composed_train_step(
    ...     state, table, *batch, schedule, features, torch.tensor([2]), mean_weight=0.3, column_weight=None
    ... ).shape
    torch.Size([])
    """
    w = workspace or Workspace(state, len(rows))
    inputs = mlp_input(table, rows, states, sigma, key)
    _forward(w, inputs, level_features)
    loss = mlp_loss(
        w.columns["outputs.bias"],
        w.weights["outputs.bias"],
        inputs,
        table,
        rows,
        states,
        loss_states,
        sigma,
        weight,
        count,
        mean_weight=mean_weight,
        column_weight=column_weight,
    )
    _backward(w, inputs, level_features)
    adamw(*state.flat(), w.gradient, schedule)
    return loss


def _forward(w: Workspace, inputs: Tensor, level_features: Tensor) -> None:
    """From the network's input to its output without the last bias, in the columns of ``outputs.bias``."""
    weights, columns, level, level_bias = w.weights, w.columns, None, None
    if w.blocks:
        level, level_bias = columns["level.2.bias"], weights["level.2.bias"]
        torch.mm(level_features, weights["level.0.weight"].T, out=columns["level.0.bias"])
        silu_forward(columns["level.0.bias"], weights["level.0.bias"], w.level_hidden)
        torch.mm(w.level_hidden, weights["level.2.weight"].T, out=level)
    torch.mm(inputs, weights["inputs.weight"].T, out=columns[f"{w.norm(0)}.weight"])
    for b in range(w.blocks + 1):
        norm, inner = w.norm(b), b < w.blocks
        following = columns[f"{w.norm(b + 1)}.weight"] if inner else None
        norm_forward(
            columns[f"{norm}.weight"],
            weights[w.entry(b)],
            weights[f"{norm}.weight"],
            weights[f"{norm}.bias"],
            level if inner else None,
            level_bias if inner else None,
            w.normed[b],
            w.stats[b],
            following,
        )
        if following is not None:
            up = columns[f"blocks.{b}.up.bias"]
            torch.mm(w.normed[b], weights[f"blocks.{b}.up.weight"].T, out=up)
            silu_forward(up, weights[f"blocks.{b}.up.bias"], w.hidden[b])
            following.addmm_(w.hidden[b], weights[f"blocks.{b}.down.weight"].T)
    torch.mm(w.normed[w.blocks], weights["outputs.weight"].T, out=columns["outputs.bias"])


def _backward(w: Workspace, inputs: Tensor, level_features: Tensor) -> None:
    """From the gradient of the output, in the columns of ``outputs.bias``, to those of all weights."""
    weights, columns, gradients, level = w.weights, w.columns, w.gradients, w.columns.get("level.2.bias")
    torch.mm(columns["outputs.bias"], weights["outputs.weight"], out=columns["norm.bias"])
    for b in range(w.blocks, -1, -1):
        norm, inner = w.norm(b), b < w.blocks
        if inner:
            up = columns[f"blocks.{b}.up.bias"]
            torch.mm(columns[w.entry(b + 1)], weights[f"blocks.{b}.down.weight"], out=w.hidden_gradient)
            silu_backward(up, weights[f"blocks.{b}.up.bias"], w.hidden_gradient)
            torch.mm(up, weights[f"blocks.{b}.up.weight"], out=columns[f"{norm}.bias"])
        norm_backward(
            columns[f"{norm}.weight"],
            weights[w.entry(b)],
            weights[f"{norm}.weight"],
            w.stats[b],
            columns[f"{norm}.bias"],
            columns[w.entry(b + 1)] if inner else None,
            columns[w.entry(b)],
            level if inner else None,
            add=b < w.blocks - 1,
        )
    torch.mm(columns["inputs.bias"].T, inputs, out=gradients["inputs.weight"])
    torch.mm(columns["outputs.bias"].T, w.normed[w.blocks], out=gradients["outputs.weight"])
    if level is not None:
        hidden_gradient = w.hidden_gradient[:, : level.shape[1]]
        torch.mm(level, weights["level.2.weight"], out=hidden_gradient)
        silu_backward(columns["level.0.bias"], weights["level.0.bias"], hidden_gradient)
        torch.mm(columns["level.0.bias"].T, level_features, out=gradients["level.0.weight"])
        torch.mm(level.T, w.level_hidden, out=gradients["level.2.weight"])
        for name, x in (("up", w.normed[: w.blocks]), ("down", w.hidden)):
            product = w.of_blocks(columns, f"{name}.bias").transpose(1, 2), x
            torch.bmm(*product, out=w.of_blocks(gradients, f"{name}.weight"))
    column_sums(w.matrix, w.places, w.gradient)


def _stacked(views: Sequence[Tensor]) -> Tensor:
    """Equally distant views of one tensor as one view, with a first dimension of them."""
    first = views[0]
    step = views[1].storage_offset() - first.storage_offset() if len(views) > 1 else first.numel()
    return first.as_strided((len(views), *first.shape), (step, *first.stride()), first.storage_offset())
