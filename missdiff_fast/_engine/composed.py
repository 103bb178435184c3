"""A training step made of ops and of PyTorch's matrix products, with nothing in it that a GPU's host waits for."""

from __future__ import annotations

import torch
from torch import Tensor

from missdiff_fast import ops
from missdiff_fast.networks.mlp import Prepared
from missdiff_fast.networks.packing import TrainingState
from missdiff_fast.table.encoded import EncodedTable


def training_step(
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
    """One step of `missdiff_fast.ops.mlp_train_step` on a state whose weights do not lie in panels.

    It does not count the state's steps: their number is read where ``schedule`` is. So it may be captured in a CUDA
    graph and replayed with other numbers in the same memory.

    Parameters
    ----------
    state, table, rows, states, loss_states, sigma, weight, key, mean_weight, column_weight
        As in `missdiff_fast.ops.mlp_train_step`; the table with ``values``.
    schedule : Tensor
        As in `missdiff_fast.ops.adamw`.
    prepared : Prepared
        ``state.network.prepare(sigma, states)``.

    Returns
    -------
    Tensor
        The loss before the step, a scalar.
    """
    assert table.values is not None
    x = ops.perturb(table, rows, states, torch.ones_like(sigma), sigma, key)
    weights = state.current()
    with torch.enable_grad():
        prediction = torch.func.functional_call(state.network, weights, (x, sigma, states, prepared))
    # The op's own gradient, not autograd's: that would multiply it by 1.
    cells = table.continuous, table.codes, table.values, table.offsets
    loss, gradient = torch.ops.missdiff_fast.masked_loss(
        prediction.detach(), *cells, rows, loss_states, weight, float(mean_weight), column_weight
    )
    gradients = torch.autograd.grad(prediction, list(weights.values()), gradient, materialize_grads=True)
    ops.adamw(*state.flat(), state.lay_out(gradients), schedule)
    return loss
