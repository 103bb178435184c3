"""Passes and training step of the default network."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from missdiff_fast.networks import packing_cuda as tiles
from missdiff_fast.networks.mlp import Denoiser
from missdiff_fast.networks.packing import TrainingState, check_network, pack, shifts
from missdiff_fast.ops._checks import (
    _check,
    _check_batch,
    _check_offsets,
    _offsets,
    _refuse_gradients,
)
from missdiff_fast.ops._native import op
from missdiff_fast.ops.adamw import _FLAT, _check_flat
from missdiff_fast.table.encoded import EncodedTable


def mlp_predict(network: Denoiser, x: Tensor, states: Tensor, level: Tensor, *, precision: str | None = None) -> Tensor:
    """What the network predicts of rows at one noise level; see `missdiff_fast.ops.reference.mlp_predict`.

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
        Of the factors of matrix products on a CUDA device, whose sums are float32: "float32" or "bfloat16". By default
        float32 up to a width of 256, for which every card has the shared memory, and bfloat16 beyond. The CPU
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
    return op("mlp_predict")(x, states, weights, offsets, level, shifts(network, level), number)


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
    """All steps of a solver in one pass over tiles of rows; see `missdiff_fast.ops.reference.mlp_sample`.

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
    return op("mlp_sample")(x, states, weights, offsets, levels, levels_shifts, coefficients, rows, keys, number)


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
    features: Tensor | None = None,
) -> Tensor:
    """One training step in one call; see `missdiff_fast.ops.reference.mlp_train_step`.

    Rows are gathered, noised, predicted and loss_states, and the weights' gradients made, by tiles of 128 rows, whose
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
    states, loss_states : Tensor
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
    _check("loss_states", loss_states, (torch.uint8,), states.shape)
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
        from missdiff_fast._engine.composed import training_step  # which imports this module

        if table.device.type == "cuda":
            schedule = schedule.pin_memory().to(table.device, non_blocking=True)
        prepared = network.prepare(sigma, states)
        if features is not None:
            prepared = replace(prepared, features=features)
        batch = table, rows, states, loss_states, sigma, weight, key
        loss = training_step(state, *batch, schedule, prepared, mean_weight=mean_weight, column_weight=column_weight)
        state.steps += 1
        return loss
    cells = (table.continuous, table.codes, table.values, _offsets(table))
    loss = op("mlp_train_step")(
        *(*flat.values(), *cells, rows, states, loss_states, sigma, features, weight, key, schedule),
        *(table.layout.width, network.width, len(network.blocks), float(mean_weight), column_weight),
    )
    if not torch.compiler.is_compiling():  # an op of the stable ABI does not tell autograd what it changed
        torch.autograd.graph.increment_version(list(flat.values()))
    state.steps += 1
    return loss


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
