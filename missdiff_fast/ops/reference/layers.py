"""The layers of a training step between two matrix products, in plain PyTorch.

Biases of the products are added here, so that every product is one launch on a GPU. Gradients of biases and of the
normalisation's gain and shift are sums over rows: `column_sums` takes those of all layers at once.
"""

from __future__ import annotations

import torch
from torch import Tensor

_EPSILON = 1e-5  # torch.nn.LayerNorm's


def norm_forward(
    h: Tensor,
    bias: Tensor,
    gain: Tensor,
    shift: Tensor,
    level: Tensor | None,
    level_bias: Tensor | None,
    out: Tensor,
    stats: Tensor,
    next: Tensor | None = None,
) -> None:
    """LayerNorm of ``h + bias``, with the embedded noise level added.

    Parameters
    ----------
    h : Tensor
        ``[B, W]``.
    bias : Tensor
        Bias of the products that h is the sum of, ``[W]``.
    gain, shift : Tensor
        Weight and bias of the normalisation, ``[W]``.
    level, level_bias : Tensor, optional
        Both are added to the result: ``[B, W]`` and ``[W]``.
    out : Tensor
        Gets the result, ``[B, W]``.
    stats : Tensor
        Gets mean and 1 / standard deviation of each row, ``[B, 2]``.
    next : Tensor, optional
        Gets ``h + bias``, to which the block's residual is to be added, ``[B, W]``.

    Examples
    --------
    >>> h, zero, one = torch.tensor([[1.0, 3.0]]), torch.zeros(2), torch.ones(2)
    >>> out, stats = torch.empty(1, 2), torch.empty(1, 2)
    >>> norm_forward(h, zero, one, zero, None, None, out, stats)
    >>> out, stats
    (tensor([[-1.0000,  1.0000]]), tensor([[2.0000, 1.0000]]))
    """
    x = h + bias
    mean = x.mean(1, keepdim=True)
    centred = x - mean
    scale = 1 / torch.sqrt((centred**2).mean(1, keepdim=True) + _EPSILON)
    y = centred * scale * gain + shift
    out.copy_(y if level is None or level_bias is None else y + (level + level_bias))
    stats.copy_(torch.cat([mean, scale], 1))
    if next is not None:
        next.copy_(x)


def norm_backward(
    h: Tensor,
    bias: Tensor,
    gain: Tensor,
    stats: Tensor,
    grad: Tensor,
    residual: Tensor | None,
    out: Tensor,
    level: Tensor | None = None,
    add: bool = False,
) -> None:
    """Gradients of `norm_forward`, given that of its result.

    Parameters
    ----------
    h, bias, gain, stats : Tensor
        As in `norm_forward`. h becomes the rows whose sum is the gradient of ``gain``; that of ``shift`` is the sum of
        ``grad``.
    grad : Tensor
        Gradient of the result, ``[B, W]``.
    residual : Tensor, optional
        Gradient of h by another way, added to ``out``, ``[B, W]``.
    out : Tensor
        Gets the gradient of h, ``[B, W]``.
    level : Tensor, optional
        Gets the gradient of the level, which is ``grad``, ``[B, W]``.
    add : bool
        Whether ``level`` holds the gradients of other blocks, to which this one is added.

    Examples
    --------
    >>> h, zero, one = torch.tensor([[1.0, 3.0]]), torch.zeros(2), torch.ones(2)
    >>> stats, out = torch.tensor([[2.0, 1.0]]), torch.empty(1, 2)
    >>> norm_backward(h, zero, one, stats, torch.tensor([[0.0, 1.0]]), None, out)
    >>> out, h
    (tensor([[0., 0.]]), tensor([[-0., 1.]]))
    """
    mean, scale = stats[:, :1], stats[:, 1:]
    x = (h + bias - mean) * scale
    scaled = grad * gain
    inner = scale * (scaled - scaled.mean(1, keepdim=True) - x * (scaled * x).mean(1, keepdim=True))
    out.copy_(inner if residual is None else residual + inner)
    h.copy_(grad * x)
    if level is not None:
        level.copy_(level + grad if add else grad)


def silu_forward(x: Tensor, bias: Tensor, out: Tensor) -> None:
    """SiLU of ``x + bias``, ``[B, N]``, to ``out``.

    >>> out = torch.empty(1, 2)
    >>> silu_forward(torch.tensor([[0.0, 1.0]]), torch.zeros(2), out)
    >>> out
    tensor([[0.0000, 0.7311]])
    """
    out.copy_(torch.nn.functional.silu(x + bias))


def silu_backward(x: Tensor, bias: Tensor, grad: Tensor) -> None:
    """Replace x by its gradient, given that of `silu_forward`'s result.

    >>> x = torch.tensor([[0.0, 1.0]])
    >>> silu_backward(x, torch.zeros(2), torch.ones(1, 2))
    >>> x
    tensor([[0.5000, 0.9277]])
    """
    shifted = x + bias
    s = torch.sigmoid(shifted)
    x.copy_(grad * (s * (1 + shifted * (1 - s))))


def column_sums(x: Tensor, places: Tensor, out: Tensor) -> None:
    """Sums over the rows.

    Parameters
    ----------
    x : Tensor
        ``[B, S]``.
    places : Tensor
        Where each sum goes, int64 ``[S]``; negative for a column that is not summed.
    out : Tensor
        Gets the sums, ``[P]``. The others of its numbers stay.

    Examples
    --------
    >>> out = torch.zeros(3)
    >>> column_sums(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([2, -1]), out)
    >>> out
    tensor([0., 0., 4.])
    """
    used = places >= 0
    out[places[used]] = x[:, used].sum(0)


def store_next(out: Tensor, place: Tensor, value: Tensor) -> None:
    """Store a number at ``out[place]``, and count ``place``, int64 ``[1]``, on by one.

    >>> out, place = torch.zeros(3), torch.tensor([1])
    >>> store_next(out, place, torch.tensor(5.0))
    >>> out, place
    (tensor([0., 5., 0.]), tensor([2]))
    """
    out[place] = value
    place += 1
