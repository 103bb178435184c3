"""AdamW with a moving average of the weights, in plain PyTorch."""

from __future__ import annotations

from torch import Tensor


def adamw(weights: Tensor, mean: Tensor, square: Tensor, average: Tensor, gradient: Tensor, schedule: Tensor) -> None:
    """One step of AdamW without weight decay, and of the moving average of the weights, in place.

    AdamW's betas are 0.9 and 0.999, its epsilon 1e-8.

    Parameters
    ----------
    weights, mean, square, average : Tensor
        ``[P]``: the weights, the moving averages of the gradient and of its square, and that of the weights.
    gradient : Tensor
        ``[P]``.
    schedule : Tensor
        Learning rate, number of this step from 1, and how much of itself the average of the weights keeps: float64
        ``[3]``.

    References
    ----------
    Loshchilov and Hutter (2019), Decoupled Weight Decay Regularization.

    Examples
    --------
    >>> weights, mean, square, average = torch.zeros(4, 3).unbind()
    >>> adamw(weights, mean, square, average, torch.tensor([2.0, -1.0, 0.0]), torch.tensor([0.1, 1.0, 0.5]).double())
    >>> weights, average
    (tensor([-0.1000,  0.1000,  0.0000]), tensor([-0.0500,  0.0500,  0.0000]))
    """
    rate, step, decay = schedule.tolist()
    mean.lerp_(gradient, 1 - 0.9)
    square.mul_(0.999).addcmul_(gradient, gradient, value=1 - 0.999)
    root = (square / (1 - 0.999**step)).sqrt() + 1e-8
    weights.addcdiv_(mean, root, value=-rate / (1 - 0.9**step))
    average.lerp_(weights, 1 - decay)
