"""The compiled ops. `missdiff_fast.reference` has the same functions in plain PyTorch and defines what they compute.

Noise is bitwise the reference's, for any batch split and any number of threads; sums are taken in an order that does
not depend on threads either. Shapes: N rows stored, B in a batch, C continuous and K categorical columns, J = C + K, D
encoded columns. Inputs need not be contiguous. Wrong dtypes raise TypeError and wrong shapes ValueError, both naming
the argument; rows or codes that are out of range raise RuntimeError from the kernel, which alone reads them.

On a CUDA device all arguments have to be there. The kernels are put on the current stream and may be captured in a
CUDA graph: nothing waits for the device, and keys, coefficients and offsets are read there. So a kernel that finds a
number out of range ends with an error that the next call of CUDA reports, after which the process can use no device.
float16, beside bfloat16, is accepted on CUDA alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from missdiff_fast import _library
from missdiff_fast.networks import tiles
from missdiff_fast.networks.mlp import Denoiser
from missdiff_fast.networks.packing import TrainingState, check_network, pack, shifts
from missdiff_fast.reference import make_key
from missdiff_fast.table.encoded import EncodedTable

__all__ = [
    "adamw",
    "decode",
    "encode",
    "make_key",
    "masked_loss",
    "masked_noise_loss",
    "mlp_predict",
    "mlp_sample",
    "mlp_train_step",
    "normal",
    "perturb",
    "step",
    "uniform",
]

_NATIVE = _library.load()
if _NATIVE:
    from missdiff_fast import _registrations

    _registrations.register()
    with suppress(ImportError):  # which `_library.without_cuda` raises where a CUDA device is asked for
        _library.load_cuda()

_TABLE_TYPES = (torch.float32, torch.float64)


def _op(name: str) -> Any:
    if not _NATIVE:
        raise RuntimeError(
            f"missdiff_fast was installed without its compiled ops, so {name} cannot run; use backend='reference', or "
            "install again with a C++ compiler at hand"
        )
    return getattr(torch.ops.missdiff_fast, name)


def _check(name: str, x: Tensor, dtypes: tuple[torch.dtype, ...], shape: tuple[int | None, ...]) -> None:
    """Dtype and shape of an argument; None is any size."""
    if x.dtype not in dtypes:
        allowed = " or ".join(str(dtype).removeprefix("torch.") for dtype in dtypes)
        raise TypeError(f"{name} must be {allowed}, not {str(x.dtype).removeprefix('torch.')}")
    if x.shape == shape:  # a training step checks twenty tensors
        return
    if x.dim() != len(shape) or any(
        want is not None and have != want for have, want in zip(x.shape, shape, strict=True)
    ):
        wanted = ", ".join("any" if size is None else str(size) for size in shape)
        raise ValueError(f"{name} must have shape [{wanted}], not {list(x.shape)}")


def _halves(name: str, dtype: torch.dtype | None, device: torch.device) -> tuple[torch.dtype, ...]:
    """The 16-bit types that the device's kernels take."""
    if device.type == "cuda":
        return (torch.bfloat16, torch.float16)
    if dtype == torch.float16:
        raise TypeError(f"{name} is float16, which needs a CUDA device; on the CPU use bfloat16, which does not")
    return (torch.bfloat16,)


def _check_batch(
    table: EncodedTable, rows: Tensor, states: Tensor, prediction: Tensor | None = None, columns: int = 0
) -> None:
    """Table and batch, with the prediction of a loss and its width."""
    layout = table.layout
    _check("table.continuous", table.continuous, _TABLE_TYPES, (None, layout.num_continuous))
    _check("table.codes", table.codes, (torch.int16,), (len(table), layout.num_categorical))
    if table.values is not None:
        _check("table.values", table.values, (table.continuous.dtype,), (len(table), layout.num_continuous))
    _check("rows", rows, (torch.int64,), (None,))
    B = rows.shape[0]
    _check("states", states, (torch.uint8,), (B, layout.num_columns))
    if prediction is not None:
        halves = _halves("prediction", prediction.dtype, prediction.device)
        wide = table.continuous.dtype == torch.float64
        _check("prediction", prediction, (torch.float64,) if wide else (torch.float32, *halves), (B, columns))


def _check_noise(rows: Tensor, columns: int, key: Tensor) -> None:
    _check("rows", rows, (torch.int64,), (None,))
    _check("key", key, (torch.int64,), (2,))
    if columns < 0:
        raise ValueError(f"columns must not be negative, but is {columns}")


def _check_offsets(offsets: Tensor, width: int) -> int | None:
    """Number of continuous columns.

    None in a compiled graph, which reading numbers would break, and on a CUDA device, which would have to be waited
    for: there the kernel checks.
    """
    _check("offsets", offsets, (torch.int64,), (None,))
    if torch.compiler.is_compiling() or offsets.device.type != "cpu":
        return None
    bounds = offsets.tolist()
    if not bounds or bounds[0] < 0 or bounds[-1] != width or any(a >= b for a, b in pairwise(bounds)):
        raise ValueError(
            f"offsets must ascend from the number of continuous columns to the width {width}, not {bounds}"
        )
    return bounds[0]


def _offsets(table: EncodedTable) -> Tensor:
    # Dynamo cannot enter the lock that cached_property holds in Python before 3.12.
    return table.layout.offsets(table.device) if torch.compiler.is_compiling() else table.offsets


def uniform(rows: Tensor, columns: int, key: Tensor) -> Tensor:
    """Uniform numbers in (0, 1), float32 ``[B, columns]``; see `missdiff_fast.reference.uniform`.

    Examples
    --------
    >>> uniform(torch.arange(2), 3, make_key(0, 0))
    tensor([[0.3990, 0.8805, 0.7357],
            [0.9722, 0.3621, 0.6939]])
    """
    _check_noise(rows, columns, key)
    return _op("uniform")(rows, columns, key)


def normal(rows: Tensor, columns: int, key: Tensor) -> Tensor:
    """Standard normal numbers, float32 ``[B, columns]``; see `missdiff_fast.reference.normal`.

    Examples
    --------
    >>> normal(torch.arange(2), 3, make_key(0, 0))
    tensor([[ 0.9911, -0.9247, -0.6176],
            [-0.1536,  0.1808,  0.8317]])
    """
    _check_noise(rows, columns, key)
    return _op("normal")(rows, columns, key)


def perturb(
    table: EncodedTable,
    rows: Tensor,
    states: Tensor,
    alpha: Tensor,
    sigma: Tensor,
    key: Tensor,
    *,
    low: float = 0.0,
    high: float = 1.0,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """Gather rows, expand one-hot groups, and hide, noise or keep each column; see `missdiff_fast.reference.perturb`.

    One pass over memory. Differentiable with respect to ``table.continuous``, ``alpha`` and ``sigma``. Infinite cells
    are not expected in a table and are passed on as they are.

    Parameters
    ----------
    table : EncodedTable
        float32 or float64.
    rows : Tensor
        int64 ``[B]``, each in [0, N).
    states : Tensor
        uint8 ``[B, J]``.
    alpha, sigma : Tensor
        ``[B]``, the table's dtype.
    key : Tensor
        int64 ``[2]``.
    low, high : float
        What one-hot columns hold off and on.
    dtype : torch.dtype, optional
        The table's (default) or bfloat16; on CUDA also float16.

    Returns
    -------
    Tensor
        x_t, ``[B, D]``.

    Examples
    --------
    >>> from missdiff_fast.table.encoded import Layout
    >>> codes = torch.tensor([[1], [-1]], dtype=torch.int16)
    >>> table = EncodedTable(torch.tensor([[0.5], [2.0]]), codes, Layout(1, (2,)))
    >>> clean, one = torch.full((2, 2), 2, dtype=torch.uint8), torch.ones(2)
    >>> perturb(table, torch.arange(2), clean, one, one, make_key(0, 0))
    tensor([[0.5000, 0.0000, 1.0000],
            [2.0000, 0.0000, 0.0000]])
    """
    _check_batch(table, rows, states)
    own = table.continuous.dtype
    _check("alpha", alpha, (own,), rows.shape)
    _check("sigma", sigma, (own,), rows.shape)
    _check("key", key, (torch.int64,), (2,))
    halves = _halves("dtype", dtype, table.device)
    if dtype not in (None, own, *halves):
        raise TypeError(f"dtype must be the table's, {own}, or {' or '.join(map(str, halves))}, not {dtype}")
    cells = (table.continuous, table.codes, _offsets(table), rows, states, alpha, sigma, key)
    return _op("perturb")(*cells, table.layout.width, float(low), float(high), dtype or own)


def masked_loss(
    prediction: Tensor,
    table: EncodedTable,
    rows: Tensor,
    states: Tensor,
    weight: Tensor,
    *,
    mean_weight: float = 0.3,
    column_weight: Tensor | None = None,
) -> Tensor:
    """Loss of a prediction of x0 over observed cells that are not clean; see `missdiff_fast.reference.masked_loss`.

    The gradient is made in the same pass as the value, so that the backward pass only scales it; it is exactly 0 at
    every cell that does not enter. Differentiable once, with respect to ``prediction``.

    Parameters
    ----------
    prediction : Tensor
        ``[B, D + C]``: float64 for a float64 table, else float32 or bfloat16, on CUDA also float16, which are
        accumulated in float. The gradient of a large batch is divided by many cells: from tens of thousands on float16
        is too narrow for it.
    table : EncodedTable
        With ``values``.
    rows, states : Tensor
        As in `perturb`.
    weight : Tensor
        ``[B]``, the table's dtype.
    mean_weight : float
        Weight of the conditional mean.
    column_weight : Tensor, optional
        Weight of each table column's loss, ``[J]``, the table's dtype; a column of weight 0 does not enter. Ones by
        default.

    Returns
    -------
    Tensor
        A scalar, float32 or float64.

    Examples
    --------
    >>> from missdiff_fast.table.encoded import Layout
    >>> cells, codes = torch.tensor([[0.5], [torch.nan]]), torch.tensor([[1], [-1]], dtype=torch.int16)
    >>> table = EncodedTable(cells, codes, Layout(1, (2,)), cells)
    >>> noisy, one = torch.ones(2, 2, dtype=torch.uint8), torch.ones(2)
    >>> masked_loss(torch.zeros(2, 4), table, torch.arange(2), noisy, one)
    tensor(0.5091)
    """
    if table.values is None:
        raise ValueError("masked_loss needs table.values, the standardised raw values")
    _check_batch(table, rows, states, prediction, table.layout.width + table.layout.num_continuous)
    _check("weight", weight, (table.continuous.dtype,), rows.shape)
    if column_weight is not None:
        _check("column_weight", column_weight, (table.continuous.dtype,), (table.layout.num_columns,))
    cells = (table.continuous, table.codes, table.values, _offsets(table))
    return _op("masked_loss")(prediction, *cells, rows, states, weight, float(mean_weight), column_weight)[0]


def masked_noise_loss(prediction: Tensor, table: EncodedTable, rows: Tensor, states: Tensor, key: Tensor) -> Tensor:
    """Squared error of a prediction of eps; see `missdiff_fast.reference.masked_noise_loss`.

    The noise is made again from ``key`` inside the kernel. ``prediction`` is ``[B, D]``; all else as in `masked_loss`.

    Examples
    --------
    >>> from missdiff_fast.table.encoded import Layout
    >>> table = EncodedTable(torch.zeros(2, 3), torch.zeros(2, 0, dtype=torch.int16), Layout(3))
    >>> rows, noisy, key = torch.arange(2), torch.ones(2, 3, dtype=torch.uint8), make_key(0, 0)
    >>> masked_noise_loss(normal(rows, 3, key), table, rows, noisy, key)
    tensor(0.)
    """
    _check_batch(table, rows, states, prediction, table.layout.width)
    _check("key", key, (torch.int64,), (2,))
    cells = (table.continuous, table.codes, _offsets(table))
    return _op("masked_noise_loss")(prediction, *cells, rows, states, key)[0]


def step(
    x: Tensor,
    prediction: Tensor,
    previous: Tensor | None,
    states: Tensor,
    offsets: Tensor,
    coefficients: Tensor,
    rows: Tensor,
    key: Tensor,
    *,
    softmax: bool = True,
) -> tuple[Tensor, Tensor]:
    """One solver step with its noise, known cells held; see `missdiff_fast.reference.step`.

    Differentiable with respect to ``x``, ``prediction`` and ``previous``.

    Parameters
    ----------
    x : Tensor
        ``[B, D]``, float32 or float64.
    prediction : Tensor
        ``[B, D]`` or wider, x's dtype or bfloat16, on CUDA also float16.
    previous : Tensor, optional
        ``[B, D]``, x's dtype.
    states : Tensor
        uint8 ``[B, J]``.
    offsets : Tensor
        int64 ``[K + 1]``.
    coefficients : Tensor
        ``[4]``, x's dtype.
    rows, key : Tensor
        int64 ``[B]`` and ``[2]``.
    softmax : bool
        Whether one-hot groups of the prediction are logits.

    Returns
    -------
    next, p : Tensor
        Both ``[B, D]``, x's dtype.

    Examples
    --------
    >>> x, states, offsets = torch.zeros(1, 3), torch.ones(1, 2, dtype=torch.uint8), torch.tensor([1, 3])
    >>> logits, coefficients = torch.tensor([[2.0, 0.0, 0.0]]), torch.tensor([0.5, 2.0, 0.0, 0.0])
    >>> step(x, logits, None, states, offsets, coefficients, torch.arange(1), make_key(0, 0))
    (tensor([[4., 1., 1.]]), tensor([[2.0000, 0.5000, 0.5000]]))
    """
    _check("x", x, _TABLE_TYPES, (None, None))
    B, D = x.shape
    halves = _halves("prediction", prediction.dtype, prediction.device)
    _check("prediction", prediction, (x.dtype, *halves), (B, None))
    if prediction.shape[1] < D:
        raise ValueError(f"prediction must have at least x's {D} columns, not {prediction.shape[1]}")
    if previous is not None:
        _check("previous", previous, (x.dtype,), (B, D))
    continuous = _check_offsets(offsets, D)
    columns = None if continuous is None else continuous + offsets.shape[0] - 1
    _check("states", states, (torch.uint8,), (B, columns))
    _check("coefficients", coefficients, (x.dtype,), (4,))
    _check("rows", rows, (torch.int64,), (B,))
    _check("key", key, (torch.int64,), (2,))
    return _op("step")(x, prediction, previous, states, offsets, coefficients, rows, key, softmax)


def encode(
    cells: Tensor, keys: Tensor, ends: Tensor, boundaries: Tensor, count: int, share: Tensor | None = None
) -> Tensor:
    """The normal scores of a continuous column's cells; see `missdiff_fast.reference.encode`.

    Computed in the calling thread, so that columns can be encoded in several. Not differentiable.

    Parameters
    ----------
    cells : Tensor
        float32, float64 or int64 ``[N]``, none of them NaN.
    keys : Tensor
        cells' dtype ``[V]``, strictly ascending.
    ends : Tensor
        float64 ``[V + 1]``, ascending from 0 to 1.
    boundaries : Tensor
        float32 ``[V - 1]``, strictly ascending.
    count : int
        At least 1.
    share : Tensor, optional
        float64 ``[N]``, from 0 up to 1; 0.5 by default.

    Returns
    -------
    Tensor
        float32 ``[N]``.

    Examples
    --------
    >>> keys, ends = torch.tensor([1.0, 2.0, 5.0]), torch.tensor([0.0, 0.25, 0.75, 1.0], dtype=torch.float64)
    >>> encode(torch.tensor([2.0, 5.0, 3.0]), keys, ends, torch.tensor([-0.6745, 0.6745]), 4)
    tensor([0.0000, 1.1503, 0.6745])
    """
    _check("cells", cells, (*_TABLE_TYPES, torch.int64), (None,))
    _check("keys", keys, (cells.dtype,), (None,))
    V = keys.shape[0]
    if V < 1 or count < 1:
        raise ValueError(f"keys must not be empty, nor count less than 1, but there are {V} keys and count is {count}")
    _check("ends", ends, (torch.float64,), (V + 1,))
    _check("boundaries", boundaries, (torch.float32,), (V - 1,))
    if share is not None:
        _check("share", share, (torch.float64,), (cells.shape[0],))
    tensors = {"cells": cells, "keys": keys, "ends": ends, "boundaries": boundaries, "share": share}
    _refuse_gradients("encode", tensors)
    return _op("encode")(cells, keys, ends, boundaries, count, share)


def decode(x: Tensor, offsets: Tensor, boundaries: Tensor, starts: Tensor) -> tuple[Tensor, Tensor]:
    """Scores to places in each column's value table, and one-hot groups to codes; see `missdiff_fast.reference.decode`.

    As in the reference a NaN score is above all boundaries, and a group with a NaN gets its number of categories, which
    is no code. Not differentiable.

    Parameters
    ----------
    x : Tensor
        ``[B, D]``, float32 or float64.
    offsets, starts : Tensor
        int64 ``[K + 1]`` and ``[C + 1]``.
    boundaries : Tensor
        ``[M]``, x's dtype, ascending within each column.

    Returns
    -------
    places, codes : Tensor
        int32 ``[B, C]`` and int16 ``[B, K]``.

    Examples
    --------
    >>> x = torch.tensor([[0.3, 0.1, 0.9], [-2.0, 0.5, 0.2]])
    >>> decode(x, torch.tensor([1, 3]), torch.tensor([-1.0, 0.0]), torch.tensor([0, 2]))
    (tensor([[2],
            [0]], dtype=torch.int32), tensor([[1],
            [0]], dtype=torch.int16))
    """
    _check("x", x, _TABLE_TYPES, (None, None))
    continuous = _check_offsets(offsets, x.shape[1])
    _check("boundaries", boundaries, (x.dtype,), (None,))
    _check("starts", starts, (torch.int64,), (None if continuous is None else continuous + 1,))
    return _op("decode")(x, offsets, boundaries, starts)


def mlp_predict(network: Denoiser, x: Tensor, states: Tensor, level: Tensor, *, precision: str | None = None) -> Tensor:
    """What the network predicts of rows at one noise level; see `missdiff_fast.reference.mlp_predict`.

    One pass over tiles of 60 rows, whose activations stay in the cache; on a CUDA device of 16 rows, in registers. A
    row's result depends on that row alone. The weights are read as they are now. Not differentiable.

    Parameters
    ----------
    network : Denoiser
        float32, where x is; on a CUDA device at most 512 wide.
    x : Tensor
        ``[B, D]``, float32.
    states : Tensor
        uint8 ``[B, J]``.
    level : Tensor
        sigma, ``[1]``, float32.
    precision : str, optional
        Of the factors of matrix products on a CUDA device, whose sums are float32: "float32", "tf32" or "bfloat16". By
        default float32 up to a width of 256, for which every card has the shared memory, and bfloat16 beyond. The CPU
        computes in float32.

    Returns
    -------
    Tensor
        ``[B, D + C]``.

    Examples
    --------
    >>> from missdiff_fast.table.encoded import Layout
    >>> network = Denoiser(Layout(1, (2,)), width=8, blocks=1)
    >>> mlp_predict(network, torch.ones(1, 3), torch.ones(1, 2, dtype=torch.uint8), torch.ones(1))
    tensor([[0.5000, 0.0000, 0.0000, 0.0000]])
    """
    offsets = _check_network(network, x, states)
    _check("level", level, (torch.float32,), (1,))
    _refuse_gradients("mlp_predict", {"level": level})
    if precision is None:
        precision = "float32" if network.width <= 256 else "bfloat16"
    weights, number = _packed(network, precision)
    return _op("mlp_predict")(x, states, weights, offsets, level, shifts(network, level), number)


def mlp_sample(
    network: Denoiser,
    x: Tensor,
    states: Tensor,
    offsets: Tensor,
    levels: Tensor,
    coefficients: Tensor,
    rows: Tensor,
    keys: Tensor,
    *,
    precision: str = "bfloat16",
) -> Tensor:
    """All steps of a solver in one pass over tiles of rows; see `missdiff_fast.reference.mlp_sample`.

    Activations of a tile of 60 rows stay in the cache through every step; on a CUDA device they stay in registers, and
    all steps are one launch. Row i of the result depends on row i of the arguments alone. Not differentiable.

    Parameters
    ----------
    network : Denoiser
        float32, where x is; on a CUDA device at most 512 wide.
    x : Tensor
        ``[B, D]``, float32.
    states : Tensor
        uint8 ``[B, J]``.
    offsets : Tensor
        int64 ``[K + 1]``.
    levels : Tensor
        ``[steps]``, float32.
    coefficients : Tensor
        ``[steps, 4]``, float32.
    rows : Tensor
        int64 ``[B]``.
    keys : Tensor
        int64 ``[steps, 2]``.
    precision : str
        As in `mlp_predict`. The cells themselves, normalisation, probabilities and the solver are float32 in any case.

    Returns
    -------
    Tensor
        ``[B, D]``.

    Examples
    --------
    >>> from missdiff_fast.table.encoded import Layout
    >>> layout = Layout(1, (2,))
    >>> network = Denoiser(layout, width=8, blocks=1)  # which predicts nothing yet: x / (sigma^2 + 1), and even chances
    >>> states, last = torch.ones(1, 2, dtype=torch.uint8), torch.tensor([[0.0, 1.0, 0.0, 0.0]])
    >>> x, keys = torch.ones(1, 3), make_key(0, 0)[None]
    >>> mlp_sample(network, x, states, layout.offsets(), torch.ones(1), last, torch.arange(1), keys)
    tensor([[0.5000, 0.5000, 0.5000]])
    """
    own = _check_network(network, x, states)
    _check_offsets(offsets, x.shape[1])
    # On a CUDA device the kernel looks at them.
    if not torch.compiler.is_compiling() and not offsets.is_cuda and not torch.equal(offsets, own):
        raise ValueError(f"offsets must be the network's, {own.tolist()}, not {offsets.tolist()}")
    _check("levels", levels, (torch.float32,), (None,))
    _refuse_gradients("mlp_sample", {"levels": levels, "coefficients": coefficients})
    steps = levels.shape[0]
    _check("coefficients", coefficients, (torch.float32,), (steps, 4))
    _check("rows", rows, (torch.int64,), x.shape[:1])
    _check("keys", keys, (torch.int64,), (steps, 2))
    (weights, number), levels_shifts = _packed(network, precision), shifts(network, levels)
    return _op("mlp_sample")(x, states, weights, offsets, levels, levels_shifts, coefficients, rows, keys, number)


def mlp_train_step(
    state: TrainingState,
    table: EncodedTable,
    rows: Tensor,
    states: Tensor,
    judged: Tensor,
    sigma: Tensor,
    weight: Tensor,
    key: Tensor,
    *,
    learning_rate: float,
    decay: float,
    mean_weight: float = 0.3,
    column_weight: Tensor | None = None,
    features: Tensor | None = None,
) -> Tensor:
    """One training step in one call; see `missdiff_fast.reference.mlp_train_step`.

    Rows are gathered, noised, predicted and judged, and the weights' gradients made, by tiles of 128 rows, whose
    gradients are added up in an order that does not depend on the number of threads. Where the state's weights do not
    lie in panels, as on a GPU, PyTorch multiplies the matrices and the other ops do the rest. Float32.

    Parameters
    ----------
    state : TrainingState
        Changed in place, and taken one step further.
    table : EncodedTable
        With ``values``.
    rows : Tensor
        int64 ``[B]``, each in [0, N).
    states, judged : Tensor
        uint8 ``[B, J]``.
    sigma, weight : Tensor
        ``[B]``.
    key : Tensor
        int64 ``[2]``.
    learning_rate, decay, mean_weight : float
        As in the reference.
    column_weight : Tensor, optional
        ``[J]``.
    features : Tensor, optional
        ``state.network.features(sigma)``, where they are known already: of many steps together they take less time.

    Returns
    -------
    Tensor
        The loss before the step, a scalar.

    Examples
    --------
    >>> from missdiff_fast.table.encoded import Layout
    >>> cells, codes = torch.tensor([[0.5], [torch.nan]]), torch.tensor([[1], [-1]], dtype=torch.int16)
    >>> table = EncodedTable(cells, codes, Layout(1, (2,)), cells)
    >>> state = TrainingState.of(Denoiser(table.layout, width=8, blocks=1))
    >>> noisy, one = torch.ones(2, 2, dtype=torch.uint8), torch.ones(2)
    >>> batch = torch.arange(2), noisy, noisy, one, one, make_key(0, 0)
    >>> losses = [mlp_train_step(state, table, *batch, learning_rate=0.1, decay=0.9).item() for _ in range(9)]
    >>> losses[-1] < losses[0], state.steps
    (True, 9)
    """
    network, own = state.network, torch.float32
    flat = {name: getattr(state, name) for name in _FLAT}
    _check_flat(flat, "state.")
    _refuse_gradients(
        "mlp_train_step",
        {"sigma": sigma, "weight": weight, "table.continuous": table.continuous, "column_weight": column_weight},
    )
    if table.values is None:
        raise ValueError("mlp_train_step needs table.values, the standardised raw values")
    if table.layout != network.layout:
        raise ValueError(f"network was made for {network.layout}, not for the table's {table.layout}")
    _check("table.continuous", table.continuous, (own,), table.continuous.shape)
    _check_batch(table, rows, states)
    _check("judged", judged, (torch.uint8,), states.shape)
    for name, tensor in (("sigma", sigma), ("weight", weight)):
        _check(name, tensor, (own,), rows.shape)
    _check("key", key, (torch.int64,), (2,))
    if column_weight is not None:
        _check("column_weight", column_weight, (own,), (table.layout.num_columns,))
    if features is not None or state.panels:
        features = network.features(sigma) if features is None else features
        _check("features", features, (own,), (len(rows), 2 * len(network.frequency)))
    schedule = torch.tensor([learning_rate, state.steps + 1, decay], dtype=torch.float64)
    if not state.panels:
        from missdiff_fast.composed import training_step  # which imports this module

        if table.device.type == "cuda":
            schedule = schedule.pin_memory().to(table.device, non_blocking=True)
        prepared = network.prepare(sigma, states)
        if features is not None:
            prepared = replace(prepared, features=features)
        batch = table, rows, states, judged, sigma, weight, key
        loss = training_step(state, *batch, schedule, prepared, mean_weight=mean_weight, column_weight=column_weight)
        state.steps += 1
        return loss
    cells = (table.continuous, table.codes, table.values, _offsets(table))
    loss = _op("mlp_train_step")(
        *(*flat.values(), *cells, rows, states, judged, sigma, features, weight, key, schedule),
        *(table.layout.width, network.width, len(network.blocks), float(mean_weight), column_weight),
    )
    if not torch.compiler.is_compiling():  # an op of the stable ABI does not tell autograd what it changed
        torch.autograd.graph.increment_version(list(flat.values()))
    state.steps += 1
    return loss


_FLAT = ("weights", "mean", "square", "average")


def adamw(weights: Tensor, mean: Tensor, square: Tensor, average: Tensor, gradient: Tensor, schedule: Tensor) -> None:
    """One step of AdamW and of the moving average of the weights, in place; see `missdiff_fast.reference.adamw`.

    One pass over memory. On a GPU the schedule is read there, so that the next step's may be written into it without
    the host's waiting. Not differentiable.

    Parameters
    ----------
    weights, mean, square, average : Tensor
        ``[P]``, float32, contiguous; on a GPU aligned to 16 bytes.
    gradient : Tensor
        ``[P]``, float32.
    schedule : Tensor
        float64 ``[3]``, on the same device.

    Examples
    --------
    >>> weights, mean, square, average = torch.zeros(4, 3).unbind()
    >>> adamw(weights, mean, square, average, torch.tensor([2.0, -1.0, 0.0]), torch.tensor([0.1, 1.0, 0.5]).double())
    >>> weights, average
    (tensor([-0.1000,  0.1000,  0.0000]), tensor([-0.0500,  0.0500,  0.0000]))
    """
    flat = dict(zip(_FLAT, (weights, mean, square, average), strict=True))
    _check("weights", weights, (torch.float32,), (None,))
    _check_flat(flat)
    _check("gradient", gradient, (torch.float32,), weights.shape)
    _check("schedule", schedule, (torch.float64,), (3,))
    _refuse_gradients("adamw", {"gradient": gradient})
    _op("adamw")(weights, mean, square, average, gradient, schedule)
    if not torch.compiler.is_compiling():  # an op of the stable ABI does not tell autograd what it changed
        torch.autograd.graph.increment_version(list(flat.values()))


def _check_flat(flat: Mapping[str, Tensor], owner: str = "") -> None:
    """Check what a step of training changes."""
    for name, tensor in flat.items():
        _check(f"{owner}{name}", tensor, (torch.float32,), flat["weights"].shape)
        if not tensor.is_contiguous() or tensor.requires_grad:
            raise ValueError(f"{owner}{name} must be contiguous and without gradient, as TrainingState.of makes it")


def _check_network(network: Denoiser, x: Tensor, states: Tensor) -> Tensor:
    """Check what both passes have in common; the network's offsets."""
    check_network(network)
    for weight in network.parameters():
        if weight.dtype != torch.float32 or weight.device != x.device:
            raise TypeError(f"network must be float32 and on x's {x.device}, not {weight.dtype} on {weight.device}")
    layout = network.layout
    _check("x", x, (torch.float32,), (None, layout.width))
    _check("states", states, (torch.uint8,), (x.shape[0], layout.num_columns))
    _refuse_gradients("the network's native pass", {"x": x})
    return layout.offsets(x.device)


def _packed(network: Denoiser, precision: str) -> tuple[Tensor, int]:
    """The network's weights as the kernels of its device read them, and the precision's number."""
    if precision not in tiles.PRECISIONS:
        raise ValueError(f"precision must be one of {', '.join(map(repr, tiles.PRECISIONS))}, not {precision!r}")
    if network.outputs.weight.is_cuda:
        return tiles.pack(network, precision), tiles.PRECISIONS.index(precision)
    return pack(network), tiles.PRECISIONS.index("float32")


def _refuse_gradients(op: str, arguments: Mapping[str, Tensor | None]) -> None:
    """No gradient is better than a wrong one."""
    for name, tensor in arguments.items():
        if tensor is not None and tensor.requires_grad and torch.is_grad_enabled():
            raise ValueError(f"{op} has no derivative with respect to {name}; detach it")
