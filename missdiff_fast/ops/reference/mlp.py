"""Prediction, sampling and training step of the default network in plain PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.optim.adamw import adamw as torch_adamw

from missdiff_fast.networks.packing import TrainingState
from missdiff_fast.ops.reference.loss import masked_loss
from missdiff_fast.ops.reference.perturb import perturb
from missdiff_fast.ops.reference.step import step
from missdiff_fast.table.encoded import EncodedTable


def mlp_predict(network: nn.Module, x: Tensor, states: Tensor, sigma: Tensor) -> Tensor:
    """A network's prediction at one noise level: ``[B, D + C]``.

    Parameters
    ----------
    network : nn.Module
        A `missdiff_fast.networks.Denoiser`, or any callable with its arguments.
    x : Tensor
        ``[B, D]``.
    states : Tensor
        uint8 ``[B, J]``.
    sigma : Tensor
        Noise level, ``[1]``.

    Examples
    --------
    >>> network = lambda x, sigma, states: x / (sigma**2 + 1)
    >>> mlp_predict(network, torch.ones(1, 2), torch.ones(1, 2, dtype=torch.uint8), torch.ones(1))
    tensor([[0.5000, 0.5000]])
    """
    prediction: Tensor = network(x, sigma, states)
    return prediction


def mlp_sample(
    network: nn.Module,
    x: Tensor,
    states: Tensor,
    offsets: Tensor,
    sigmas: Tensor,
    coefficients: Tensor,
    rows: Tensor,
    keys: Tensor,
    *,
    step: Callable[..., tuple[Tensor, Tensor]] = step,
) -> Tensor:
    """All steps of a solver: at each noise level the network's prediction, then `step` with it and the previous one.

    Parameters
    ----------
    network : nn.Module
        As in `mlp_predict`.
    x : Tensor
        Rows to start from, noisy columns at the first noise level, ``[B, D]``.
    states : Tensor
        uint8 ``[B, J]``.
    offsets : Tensor
        `Layout.offsets`, int64 ``[K + 1]``.
    sigmas : Tensor
        Noise level of each step, ``[steps]``.
    coefficients : Tensor
        Coefficients of each `step`, ``[steps, 4]``; the first step has no previous prediction, so its c2 is 0.
    rows : Tensor
        Global row numbers, int64 ``[B]``.
    keys : Tensor
        Key of each step's noise, int64 ``[steps, 2]``.
    step : callable
        Implementation of `step`.

    Returns
    -------
    Tensor
        ``[B, D]``.

    Examples
    --------
    >>> from missdiff_fast.ops.reference import make_key
    >>> network = lambda x, sigma, states: x / (sigma[:, None] ** 2 + 1)
    >>> last = torch.tensor([[0.0, 1.0, 0.0, 0.0]])  # the prediction itself
    >>> noisy, keys = torch.ones(1, 2, dtype=torch.uint8), make_key(0, 0)[None]
    >>> mlp_sample(network, torch.ones(1, 2), noisy, torch.tensor([2]), torch.ones(1), last, torch.arange(1), keys)
    tensor([[0.5000, 0.5000]])
    """
    previous = None
    for i in range(len(sigmas)):
        prediction = mlp_predict(network, x, states, sigmas[i : i + 1])
        x, previous = step(x, prediction, previous, states, offsets, coefficients[i], rows, keys[i])
    return x


def mlp_train_step(
    state: TrainingState,
    table: EncodedTable,
    rows: Tensor,
    states: Tensor,
    loss_states: Tensor,
    sigma: Tensor,
    weight: Tensor,
    key: Tensor,
    *,
    learning_rate: float,
    decay: float,
    mean_weight: float = 0.3,
    column_weight: Tensor | None = None,
    level_features: Tensor | None = None,
) -> Tensor:
    """One training step: `perturb`, network, `masked_loss`, backward, and AdamW with the weights' moving average.

    AdamW is PyTorch's own, called tensor by tensor: the bits are those of ``torch.optim.AdamW(fused=True)`` on the
    network's parameters. `adamw`, the op, computes the same on the flat weights.

    Parameters
    ----------
    state : TrainingState
        Changed in place, ``steps`` by one.
    table, rows, states
        As in `perturb`, whose alpha is 1; the table with ``values`` and of the network's layout.
    loss_states : Tensor
        States as `masked_loss` takes them, uint8 ``[B, J]``: clean columns do not enter the loss.
    sigma, weight : Tensor
        Noise level and loss weight of each row, ``[B]``, as in `perturb` and `masked_loss`.
    key : Tensor
        Key of the noise, int64 ``[2]``.
    learning_rate : float
        Learning rate of this step.
    decay : float
        Decay of the weights' moving average.
    mean_weight, column_weight
        As in `masked_loss`.
    level_features : Tensor, optional
        ``state.network.level_features(sigma)``: a caller can compute those of many steps at once, which is faster.

    Returns
    -------
    Tensor
        The loss before the step, a scalar.

    Examples
    --------
    >>> from missdiff_fast.networks import Denoiser
    >>> from missdiff_fast.ops.reference import make_key
    >>> from missdiff_fast.table.encoded import Layout
    >>> cells, codes = torch.tensor([[0.5], [torch.nan]]), torch.tensor([[1], [-1]], dtype=torch.int16)
    >>> table = EncodedTable(cells, codes, Layout(1, (2,)), cells)
    >>> state = TrainingState.of(Denoiser(table.layout, width=8, blocks=1))
    >>> noisy, one = torch.ones(2, 2, dtype=torch.uint8), torch.ones(2)
    >>> mlp_train_step(
    ...     state, table, torch.arange(2), noisy, noisy, one, one, make_key(0, 0), learning_rate=0.1, decay=0.9
    ... ).shape
    torch.Size([])
    """
    x = perturb(table, rows, states, torch.ones_like(sigma), sigma, key)
    prepared = state.network.prepare(sigma, states)
    if level_features is not None:
        prepared = replace(prepared, level_features=level_features)
    with torch.enable_grad():
        weights = state.current()
        prediction = torch.func.functional_call(state.network, weights, (x, sigma, states, prepared))
        loss = masked_loss(
            prediction, table, rows, loss_states, weight, mean_weight=mean_weight, column_weight=column_weight
        )
        gradients = torch.autograd.grad(loss, list(weights.values()), materialize_grads=True)
    _update(state, gradients, learning_rate, decay)
    return loss.detach()


@torch.no_grad()
def _update(state: TrainingState, gradients: Sequence[Tensor], learning_rate: float, decay: float) -> None:
    """AdamW and the moving average of the weights."""
    weights, exp_avg, exp_avg_sq, ema = parts = [state.unflatten(flat) for flat in state.flat()]
    # The number of steps before this one, in a tensor for each weight: PyTorch adds 1 to each.
    steps = list(torch.full((len(weights),), state.steps, dtype=torch.float32, device=weights[0].device).unbind())
    torch_adamw(
        weights,
        list(gradients),
        exp_avg,
        exp_avg_sq,
        [],
        steps,
        fused=True,
        lr=learning_rate,
        beta1=0.9,
        beta2=0.999,
        eps=1e-8,
        weight_decay=0.0,
        amsgrad=False,
        maximize=False,
    )
    torch._foreach_lerp_(ema, weights, 1 - decay)
    if state.panels:  # the parts are copies
        for flat, part in zip(state.flat(), parts, strict=True):
            flat.copy_(state.lay_out(part))
    state.steps += 1
