"""What the network of a training step reads, and what its output comes to, in plain PyTorch."""

from __future__ import annotations

import torch
from torch import Tensor

from missdiff_fast.diffusion.states import NOISY
from missdiff_fast.networks.mlp import encoded_variance, input_scales
from missdiff_fast.ops.reference.loss import masked_loss
from missdiff_fast.ops.reference.perturb import perturb
from missdiff_fast.table.encoded import EncodedTable


def mlp_input(table: EncodedTable, rows: Tensor, states: Tensor, sigma: Tensor, key: Tensor) -> Tensor:
    """Input of the default network for noisy rows: cells times `Prepared`'s scale, then its flags.

    Parameters
    ----------
    table, rows, states, sigma, key
        As in `perturb`, whose alpha is 1.

    Returns
    -------
    Tensor
        ``[B, D + 2 J]``.

    Examples
    --------
    >>> from missdiff_fast.ops.reference import make_key
    >>> from missdiff_fast.table.encoded import Layout
    >>> cells, codes = torch.tensor([[0.5], [2.0]]), torch.tensor([[1], [-1]], dtype=torch.int16)
    >>> table, states = EncodedTable(cells, codes, Layout(1, (2,))), torch.tensor([[2, 2], [0, 2]], dtype=torch.uint8)
    >>> mlp_input(table, torch.arange(2), states, torch.ones(2), make_key(0, 0))
    tensor([[0.5000, 0.0000, 2.0000, 0.0000, 0.0000, 1.0000, 1.0000],
            [0.0000, 0.0000, 0.0000, 0.0000, 0.0000, 0.0000, 1.0000]])
    """
    x = perturb(table, rows, states, torch.ones_like(sigma), sigma, key)
    flags, scale, _, _ = _scales(table, states, sigma)
    return torch.cat([x * scale, flags], 1)


def mlp_loss(
    output: Tensor,
    bias: Tensor,
    input: Tensor,
    table: EncodedTable,
    rows: Tensor,
    states: Tensor,
    loss_states: Tensor,
    sigma: Tensor,
    weight: Tensor,
    count: Tensor,
    *,
    mean_weight: float = 0.3,
    column_weight: Tensor | None = None,
) -> Tensor:
    """`masked_loss` of the prediction that the default network's output gives, and its gradient.

    Parameters
    ----------
    output : Tensor
        Of the network's last layer without its bias, ``[B, D + C]``; becomes the gradient with respect to it.
    bias : Tensor
        Bias of the last layer, ``[D + C]``.
    input : Tensor
        `mlp_input` of the rows, ``[B, D + 2 J]``.
    table, rows, weight, mean_weight, column_weight
        As in `masked_loss`.
    states, loss_states : Tensor
        States as the network saw them, and as `masked_loss` takes them, uint8 ``[B, J]``.
    sigma : Tensor
        Noise level of each row, ``[B]``.
    count : Tensor
        Number of observed cells of the rows, by which the loss is divided, int64 ``[1]``.

    Returns
    -------
    Tensor
        The loss, a scalar.

    Examples
    --------
    >>> from missdiff_fast.table.encoded import Layout
    >>> cells, codes = torch.tensor([[0.5], [torch.nan]]), torch.tensor([[1], [-1]], dtype=torch.int16)
    >>> table, noisy = EncodedTable(cells, codes, Layout(1, (2,)), cells), torch.ones(2, 2, dtype=torch.uint8)
    >>> output, one = torch.zeros(2, 4), torch.ones(2)
    >>> batch = table, torch.arange(2), noisy, noisy, one, one, torch.tensor([2])
    >>> mlp_loss(output, torch.zeros(4), torch.zeros(2, 7), *batch)
    tensor(0.5091)
    >>> output[0]
    tensor([-0.3536,  0.2500, -0.2500, -0.1500])
    """
    with torch.enable_grad():
        leaf = output.detach().clone().requires_grad_()
        loss = masked_loss(
            prediction_of(leaf + bias, input, table, states, sigma),
            *(table, rows, loss_states, weight),
            mean_weight=mean_weight,
            column_weight=column_weight,
        )
        loss = loss * divided_by(count, table, rows)
        (gradient,) = torch.autograd.grad(loss, leaf)
    output.copy_(gradient)
    return loss.detach()


def prediction_of(output: Tensor, input: Tensor, table: EncodedTable, states: Tensor, sigma: Tensor) -> Tensor:
    """The default network's prediction, given the output of its last layer and its input: ``[B, D + C]``."""
    C = table.layout.num_continuous
    # The input of a noisy score is the score times its factor in the prediction.
    skipped = torch.where(states[:, :C] == NOISY, input[:, :C], 0.0)
    return torch.cat([skipped + output_gain(table, states, sigma) * output[:, :C], output[:, C:]], 1)


def output_gain(table: EncodedTable, states: Tensor, sigma: Tensor) -> Tensor:
    """Factors of the network's output in the prediction of the scores: ``[B, C]``."""
    return _scales(table, states, sigma)[3]


def divided_by(count: Tensor, table: EncodedTable, rows: Tensor) -> Tensor:
    """The factor that makes a loss over the number of the rows' observed cells one over ``count``."""
    return table.observed()[rows].sum().clamp(min=1) / count[0].clamp(min=1)


def _scales(table: EncodedTable, states: Tensor, sigma: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    layout = table.layout
    variance = encoded_variance(layout).to(sigma)
    return input_scales(sigma, states, layout.groups(sigma.device), variance, layout.num_continuous)
