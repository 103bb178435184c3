"""A training step made of the other ops and of PyTorch's matrix products, in which the host never waits for a GPU."""

from __future__ import annotations

import torch
from torch import Tensor

from missdiff_fast.networks.mlp import Prepared
from missdiff_fast.networks.packing import TrainingState
from missdiff_fast.ops.adamw import adamw
from missdiff_fast.ops.loss import loss_and_gradient
from missdiff_fast.ops.perturb import perturb
from missdiff_fast.table.encoded import EncodedTable


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
    prepared: Prepared,
    *,
    mean_weight: float,
    column_weight: Tensor | None,
) -> Tensor:
    """`missdiff_fast.ops.mlp_train_step` for a state whose weights are not in panels.

    Leaves ``state.steps`` as it is: the kernel reads the step's number from ``schedule``. So a CUDA graph can capture
    the call and replay it with other numbers in the same memory.

    Parameters
    ----------
    state, table, rows, states, loss_states, sigma, weight, key, mean_weight, column_weight
        As in `missdiff_fast.ops.mlp_train_step`.
    schedule : Tensor
        As in `missdiff_fast.ops.adamw`.
    prepared : Prepared
        ``state.network.prepare(sigma, states)``.

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
    >>> schedule, prepared = torch.tensor([0.1, 1.0, 0.9]).double(), state.network.prepare(sigma, noisy)
    >>> composed_train_step(state, table, *batch, schedule, prepared, mean_weight=0.3, column_weight=None).shape
    torch.Size([])
    """
    x = perturb(table, rows, states, torch.ones_like(sigma), sigma, key)
    weights = state.current()
    with torch.enable_grad():
        prediction = torch.func.functional_call(state.network, weights, (x, sigma, states, prepared))
    # The gradient comes from the op and not from autograd, which would multiply it by 1.
    loss, gradient = loss_and_gradient(
        prediction.detach(), table, rows, loss_states, weight, mean_weight=mean_weight, column_weight=column_weight
    )
    gradients = torch.autograd.grad(prediction, list(weights.values()), gradient, materialize_grads=True)
    adamw(*state.flat(), state.lay_out(gradients), schedule)
    return loss
