"""Many training steps of the default network in one call; on a CUDA device in one launch."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from missdiff_fast.networks.packing import TrainingState
from missdiff_fast.ops._checks import check_batch, check_tensor, mark_changed, table_offsets
from missdiff_fast.ops._native import op, when_loaded
from missdiff_fast.ops.adamw import FLAT, check_flat
from missdiff_fast.ops.mlp import mlp_train_step
from missdiff_fast.table.encoded import EncodedTable

PRECISIONS = ("float32", "tf32")  # a precision's index is its number in the kernel


def mlp_train_steps(
    state: TrainingState,
    table: EncodedTable,
    rows: Tensor,
    states: Tensor,
    loss_states: Tensor,
    sigma: Tensor,
    weight: Tensor,
    keys: Tensor,
    *,
    learning_rates: Sequence[float],
    decays: Sequence[float],
    mean_weight: float = 0.3,
    column_weight: Tensor | None = None,
    precision: str = "tf32",
) -> Tensor:
    """As many calls of `missdiff_fast.ops.mlp_train_step` as there are rates, S of them.

    On a CUDA device they are one launch, whose blocks stay on their multiprocessors: each takes its share of the rows
    through the network and back, all wait for one another, each updates its share of the weights, all wait again, and
    so on. The order of sums depends on the shapes and on the device's number of multiprocessors. Elsewhere
    `mlp_train_step` is called for each step.

    Parameters
    ----------
    state
        As in `missdiff_fast.ops.mlp_train_step`; on a CUDA device not in panels.
    table, mean_weight, column_weight
        As in `missdiff_fast.ops.mlp_train_step`.
    rows, states, loss_states, sigma, weight, keys : Tensor
        As rows, states, loss_states, sigma, weight and key there, with a first dimension of S.
    learning_rates, decays : sequence of float
        Of each step.
    precision : str
        Of the factors of matrix products on a CUDA device, whose sums are float32: "tf32", or "float32", which takes
        three products of TF32 numbers for each.

    Returns
    -------
    Tensor
        The loss before each step, ``[S]``.

    Raises
    ------
    ValueError
        Arguments do not fit together, or the precision is unknown.

    Examples
    --------
    >>> from missdiff_fast.networks import Denoiser
    >>> from missdiff_fast.ops import make_key
    >>> from missdiff_fast.table.encoded import Layout
    >>> cells, codes = torch.tensor([[0.5], [torch.nan]]), torch.tensor([[1], [-1]], dtype=torch.int16)
    >>> table = EncodedTable(cells, codes, Layout(1, (2,)), cells)
    >>> state = TrainingState.of(Denoiser(table.layout, width=8, blocks=1))
    >>> noisy, ones = torch.ones(9, 2, 2, dtype=torch.uint8), torch.ones(9, 2)
    >>> batches = torch.arange(2).repeat(9, 1), noisy, noisy, ones, ones, make_key(0, 0).repeat(9, 1)
    >>> losses = mlp_train_steps(state, table, *batches, learning_rates=[0.1] * 9, decays=[0.9] * 9)
    >>> bool(losses[-1] < losses[0]), state.steps
    (True, 9)
    """
    steps = len(learning_rates)
    if precision not in PRECISIONS:
        raise ValueError(f"precision must be one of {', '.join(map(repr, PRECISIONS))}, not {precision!r}")
    if len(decays) != steps:
        raise ValueError(f"decays must be as many as learning_rates, {steps}, not {len(decays)}")
    check_tensor("rows", rows, (torch.int64,), (steps, None))
    size, columns = rows.shape[1], table.layout.num_columns
    for name, tensor in (("states", states), ("loss_states", loss_states)):
        check_tensor(name, tensor, (torch.uint8,), (steps, size, columns))
    for name, tensor in (("sigma", sigma), ("weight", weight)):
        check_tensor(name, tensor, (torch.float32,), (steps, size))
    check_tensor("keys", keys, (torch.int64,), (steps, 2))
    if table.device.type != "cuda":
        losses = [
            mlp_train_step(
                *(state, table, *batch),
                learning_rate=rate,
                decay=decay,
                mean_weight=mean_weight,
                column_weight=column_weight,
            )
            for *batch, rate, decay in zip(
                *(rows, states, loss_states, sigma, weight, keys), learning_rates, decays, strict=True
            )
        ]
        return torch.stack(losses) if losses else sigma.new_empty(0)
    return _launch(
        state, table, rows, states, loss_states, sigma, weight, keys, learning_rates, decays, mean_weight,
        column_weight, precision
    )  # fmt: skip


def _launch(
    state: TrainingState,
    table: EncodedTable,
    rows: Tensor,
    states: Tensor,
    loss_states: Tensor,
    sigma: Tensor,
    weight: Tensor,
    keys: Tensor,
    learning_rates: Sequence[float],
    decays: Sequence[float],
    mean_weight: float,
    column_weight: Tensor | None,
    precision: str,
) -> Tensor:
    network, flat = state.network, {name: getattr(state, name) for name in FLAT}
    check_flat(flat, "state.")
    if state.panels:
        raise ValueError("state must not be in panels on a CUDA device, as TrainingState.of makes it there")
    if table.values is None:
        raise ValueError("mlp_train_steps needs table.values, the standardised raw values")
    if table.layout != network.layout:
        raise ValueError(f"network was made for {network.layout}, not for the table's {table.layout}")
    check_tensor("table.continuous", table.continuous, (torch.float32,), table.continuous.shape)
    check_batch(table, rows.flatten(), states.flatten(0, 1))
    if column_weight is not None:
        check_tensor("column_weight", column_weight, (torch.float32,), (table.layout.num_columns,))
    numbers = [(rate, state.steps + t + 1, decays[t]) for t, rate in enumerate(learning_rates)]
    schedule = torch.tensor(numbers, dtype=torch.float64).view(-1, 3)
    losses: Tensor = op("mlp_train_steps")(
        *flat.values(),
        table.continuous,
        table.codes,
        table.values,
        table_offsets(table),
        rows.flatten(),
        states.flatten(0, 1),
        loss_states.flatten(0, 1),
        sigma.flatten(),
        network.level_features(sigma.flatten()),
        weight.flatten(),
        keys,
        schedule.pin_memory().to(table.device, non_blocking=True),
        table.layout.width,
        network.width,
        len(network.blocks),
        float(mean_weight),
        PRECISIONS.index(precision),
        column_weight,
    )
    mark_changed(list(flat.values()))
    state.steps += len(learning_rates)
    return losses


def _fake(weights: Tensor, *rest: Tensor) -> Tensor:
    return weights.new_empty(len(rest[14]))  # the schedule's


@when_loaded
def _register() -> None:
    torch.library.register_fake("missdiff_fast::mlp_train_steps", _fake)
