"""AdamW with an exponential moving average of the weights, in plain PyTorch."""

from __future__ import annotations

from torch import Tensor


def adamw(
    weights: Tensor, exp_avg: Tensor, exp_avg_sq: Tensor, ema: Tensor, gradient: Tensor, schedule: Tensor
) -> None:
    """One step of AdamW without weight decay, and of the weights' exponential moving average, in place.

    AdamW's betas are 0.9 and 0.999, its epsilon 1e-8.

    Parameters
    ----------
    weights : Tensor
        ``[P]``.
    exp_avg, exp_avg_sq : Tensor
        Exponential moving averages of the gradient and of its square, ``[P]``.
    ema : Tensor
        Exponential moving average of the weights, ``[P]``.
    gradient : Tensor
        ``[P]``.
    schedule : Tensor
        Learning rate, number of this step from 1, and decay of ``ema``: float64 ``[3]``.

    References
    ----------
    Loshchilov and Hutter (2019), Decoupled Weight Decay Regularization.

    Examples
    --------
    >>> import torch
    >>> weights, exp_avg, exp_avg_sq, ema = torch.zeros(4, 3).unbind()
    >>> gradient, schedule = torch.tensor([2.0, -1.0, 0.0]), torch.tensor([0.1, 1.0, 0.5], dtype=torch.float64)
    >>> adamw(weights, exp_avg, exp_avg_sq, ema, gradient, schedule)
    >>> weights, ema
    (tensor([-0.1000,  0.1000,  0.0000]), tensor([-0.0500,  0.0500,  0.0000]))
    """
    rate, step, decay = schedule.tolist()
    exp_avg.lerp_(gradient, 1 - 0.9)
    exp_avg_sq.mul_(0.999).addcmul_(gradient, gradient, value=1 - 0.999)
    root = (exp_avg_sq / (1 - 0.999**step)).sqrt() + 1e-8
    weights.addcdiv_(exp_avg, root, value=-rate / (1 - 0.9**step))
    ema.lerp_(weights, 1 - decay)
