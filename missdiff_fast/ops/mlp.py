"""Prediction, sampling and training step of the default network."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from missdiff_fast.networks import packing_cuda
from missdiff_fast.networks.mlp import Denoiser
from missdiff_fast.networks.packing import TrainingState, check_network, pack, shifts
from missdiff_fast.ops._checks import (
    check_batch,
    check_offsets,
    check_tensor,
    mark_changed,
    refuse_gradients,
    table_offsets,
)
from missdiff_fast.ops._native import op, when_loaded
from missdiff_fast.ops.adamw import FLAT, check_flat
from missdiff_fast.ops.mlp_composed import composed_train_step
from missdiff_fast.table.encoded import EncodedTable


def mlp_predict(network: Denoiser, x: Tensor, states: Tensor, sigma: Tensor, *, precision: str | None = None) -> Tensor:
    """The network's prediction at one noise level, in one pass over tiles of rows. Not differentiable.

    Activations stay in the cache for a tile of 60 rows, or in registers for a tile of 16 rows on a CUDA device. A row's
    result depends on that row alone. The weights are read at each call. Arguments and result as in
    `missdiff_fast.ops.reference.mlp_predict`, except:

    Parameters
    ----------
    network : Denoiser
        float32, on x's device (else TypeError); on a CUDA device at most 512 wide (else ValueError).
    x, sigma : Tensor
        float32.
    precision : str, optional
        Of the factors of matrix products on a CUDA device, whose sums are float32: "float32" or "bfloat16". By default
        float32 up to a width of 256, for which every GPU has the shared memory, and bfloat16 beyond. The CPU computes
        in float32.

    Examples
    --------
    >>> from missdiff_fast.table.encoded import Layout
    >>> network = Denoiser(Layout(1, (2,)), width=8, blocks=1)
    >>> mlp_predict(network, torch.ones(1, 3), torch.ones(1, 2, dtype=torch.uint8), torch.ones(1))
    tensor([[0.5000, 0.0000, 0.0000, 0.0000]])
    """
    offsets = _check_network(network, x, states)
    check_tensor("sigma", sigma, (torch.float32,), (1,))
    refuse_gradients("mlp_predict", {"sigma": sigma})
    if precision is None:
        precision = "float32" if network.width <= 256 else "bfloat16"
    weights, number = _packed(network, precision)
    return op("mlp_predict")(x, states, weights, offsets, sigma, shifts(network, sigma), number)


def mlp_sample(
    network: Denoiser,
    x: Tensor,
    states: Tensor,
    offsets: Tensor,
    sigmas: Tensor,
    coefficients: Tensor,
    rows: Tensor,
    keys: Tensor,
    *,
    precision: str = "bfloat16",
) -> Tensor:
    """All steps of a solver in one pass over tiles of rows. Not differentiable.

    Activations stay in the cache, or in registers on a CUDA device, where all steps are one launch. Row i of the result
    depends on row i of the arguments alone. Arguments and result as in `missdiff_fast.ops.reference.mlp_sample`,
    except:

    Parameters
    ----------
    network : Denoiser
        As in `mlp_predict`.
    x, sigmas, coefficients : Tensor
        float32.
    offsets : Tensor
        The network's, else ValueError.
    precision : str
        As in `mlp_predict`. Cells, normalisation, probabilities and the solver are float32 in any case.

    Examples
    --------
    A new network predicts x / (sigma^2 + 1), and equal probabilities:

    >>> from missdiff_fast.ops import make_key
    >>> from missdiff_fast.table.encoded import Layout
    >>> layout = Layout(1, (2,))
    >>> network = Denoiser(layout, width=8, blocks=1)
    >>> states, last = torch.ones(1, 2, dtype=torch.uint8), torch.tensor([[0.0, 1.0, 0.0, 0.0]])
    >>> x, keys = torch.ones(1, 3), make_key(0, 0)[None]
    >>> mlp_sample(network, x, states, layout.offsets(), torch.ones(1), last, torch.arange(1), keys)
    tensor([[0.5000, 0.5000, 0.5000]])
    """
    own = _check_network(network, x, states)
    check_offsets(offsets, x.shape[1])
    # On a CUDA device the kernel compares them, so that the host does not wait.
    if not torch.compiler.is_compiling() and not offsets.is_cuda and not torch.equal(offsets, own):
        raise ValueError(f"offsets must be the network's, {own.tolist()}, not {offsets.tolist()}")
    check_tensor("sigmas", sigmas, (torch.float32,), (None,))
    refuse_gradients("mlp_sample", {"sigmas": sigmas, "coefficients": coefficients})
    steps = sigmas.shape[0]
    check_tensor("coefficients", coefficients, (torch.float32,), (steps, 4))
    check_tensor("rows", rows, (torch.int64,), x.shape[:1])
    check_tensor("keys", keys, (torch.int64,), (steps, 2))
    weights, number = _packed(network, precision)
    return op("mlp_sample")(
        x, states, weights, offsets, sigmas, shifts(network, sigmas), coefficients, rows, keys, number
    )


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
    """One training step in one call, float32.

    Tiles of 64 rows are gathered, noised and predicted, and their gradients are added in an order that does not depend
    on the number of threads. Where the state's weights are not in panels, as on a GPU, the step is
    `missdiff_fast.ops.mlp_composed.composed_train_step`. Arguments and result as in
    `missdiff_fast.ops.reference.mlp_train_step`.

    Raises
    ------
    ValueError
        The table has no ``values``, or its layout is not the network's.

    Examples
    --------
    >>> from missdiff_fast.ops import make_key
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
    flat = {name: getattr(state, name) for name in FLAT}
    check_flat(flat, "state.")
    refuse_gradients(
        "mlp_train_step",
        {"sigma": sigma, "weight": weight, "table.continuous": table.continuous, "column_weight": column_weight},
    )
    if table.values is None:
        raise ValueError("mlp_train_step needs table.values, the standardised raw values")
    if table.layout != network.layout:
        raise ValueError(f"network was made for {network.layout}, not for the table's {table.layout}")
    check_tensor("table.continuous", table.continuous, (own,), table.continuous.shape)
    check_batch(table, rows, states)
    check_tensor("loss_states", loss_states, (torch.uint8,), states.shape)
    for name, tensor in (("sigma", sigma), ("weight", weight)):
        check_tensor(name, tensor, (own,), rows.shape)
    check_tensor("key", key, (torch.int64,), (2,))
    if column_weight is not None:
        check_tensor("column_weight", column_weight, (own,), (table.layout.num_columns,))
    level_features = network.level_features(sigma) if level_features is None else level_features
    check_tensor("level_features", level_features, (own,), (len(rows), 2 * len(network.frequency)))
    schedule = torch.tensor([learning_rate, state.steps + 1, decay], dtype=torch.float64)
    if not state.panels:
        if table.device.type == "cuda":
            schedule = schedule.pin_memory().to(table.device, non_blocking=True)
        count = table.observed()[rows].sum()[None]
        loss = composed_train_step(
            state,
            table,
            rows,
            states,
            loss_states,
            sigma,
            weight,
            key,
            schedule,
            level_features,
            count,
            mean_weight=mean_weight,
            column_weight=column_weight,
        )
        state.steps += 1
        return loss
    loss = op("mlp_train_step")(
        state.weights,
        state.exp_avg,
        state.exp_avg_sq,
        state.ema,
        table.continuous,
        table.codes,
        table.values,
        table_offsets(table),
        rows,
        states,
        loss_states,
        sigma,
        level_features,
        weight,
        key,
        schedule,
        table.layout.width,
        network.width,
        len(network.blocks),
        float(mean_weight),
        column_weight,
    )
    mark_changed(list(flat.values()))
    state.steps += 1
    return loss


def _check_network(network: Denoiser, x: Tensor, states: Tensor) -> Tensor:
    """Check the arguments that prediction and sampling share, and return the network's offsets."""
    check_network(network)
    for weight in network.parameters():
        if weight.dtype != torch.float32 or weight.device != x.device:
            raise TypeError(f"network must be float32 and on x's {x.device}, not {weight.dtype} on {weight.device}")
    layout = network.layout
    check_tensor("x", x, (torch.float32,), (None, layout.width))
    check_tensor("states", states, (torch.uint8,), (x.shape[0], layout.num_columns))
    refuse_gradients("the network's native pass", {"x": x})
    return network.offsets


def _packed(network: Denoiser, precision: str) -> tuple[Tensor, int]:
    """The network's weights as the kernels of its device read them, and the precision's number."""
    packing_cuda.check_precision(precision)
    precisions = packing_cuda.PRECISIONS
    if network.outputs.weight.is_cuda:
        return packing_cuda.pack(network, precision), precisions.index(precision)
    return pack(network), precisions.index("float32")


def _fake_predict(x: Tensor, states: Tensor, weights: Tensor, offsets: Tensor, *rest: Any) -> Tensor:
    continuous = states.shape[1] - (offsets.shape[0] - 1)
    return x.new_empty((x.shape[0], x.shape[1] + continuous))


def _fake_sample(x: Tensor, *rest: Any) -> Tensor:
    return x.new_empty(x.shape)


def _fake_train_step(weights: Tensor, *rest: Any) -> Tensor:
    return weights.new_empty(())


@when_loaded
def _register() -> None:
    torch.library.register_fake("missdiff_fast::mlp_predict", _fake_predict)
    torch.library.register_fake("missdiff_fast::mlp_sample", _fake_sample)
    torch.library.register_fake("missdiff_fast::mlp_train_step", _fake_train_step)
