"""Each op over all rows against the same in PyTorch."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import baselines
import bench_decode
import bench_masked_loss
import bench_step
import torch
from tolerances import assert_close
from torch import Tensor
from workload import CONTINUOUS, LAYOUT, Workload

from gpu.clock import Clock, Function, precision
from gpu.plan import WIDTHS, predict
from gpu.rivals import PRECISIONS, Maker, compare, hold, relative_error
from missdiff_fast import ops
from missdiff_fast.networks import Denoiser
from missdiff_fast.ops import reference
from missdiff_fast.table.encoded import EncodedTable

CHECKED = 2000  # rows that are held to the reference before a time is taken


@dataclass(frozen=True)
class Case:
    """One op.

    Parameters
    ----------
    native : callable
        Ours.
    check : callable
        Raises AssertionError where ours is not what the reference computes.
    eager, compiled : dict
        Makers of the rivals.
    """

    native: Function
    check: Function
    eager: dict[str, Maker]
    compiled: dict[str, Maker]


def _plain(call: Callable[[Callable[..., Any]], Any], function: Callable[..., Any]) -> dict[str, Any]:
    """A rival that ``call`` calls, eager and compiled."""
    return {
        "eager": {"eager": lambda: lambda: call(function)},
        "compiled": {"compile": lambda: lambda: call(baselines.compiled(function))},
    }


def _perturb_in_bf16(*cells: Tensor) -> Tensor:
    return baselines.perturb(*cells).bfloat16()


def _loss_of_bf16(prediction: Tensor, *rest: Any) -> Tensor:
    return baselines.masked_loss(prediction.float(), *rest)


def _noise_loss_of_bf16(prediction: Tensor, *rest: Any) -> Tensor:
    return baselines.masked_noise_loss(prediction.float(), *rest)


def _step_of_bf16(x: Tensor, prediction: Tensor, *rest: Any, **options: Any) -> tuple[Tensor, Tensor]:
    return baselines.step(x, prediction.float(), *rest, **options)


def _in_float64(w: Workload) -> Workload:
    """For the truth of a sum, which float32 adds up differently on each device."""
    t = w.table
    assert t.values is not None
    table = EncodedTable(t.continuous.double(), t.codes, t.layout, t.values.double())
    floats = {name: getattr(w, name).double() for name in ("weight", "column_weight", "prediction", "x")}
    return replace(w, table=table, **floats)


def perturb(w: Workload, half: bool) -> Case:
    dtype = torch.bfloat16 if half else None
    cells = w.table.continuous, w.table.codes, w.rows, w.states, w.alpha, w.sigma

    def run(module: Any, w: Workload) -> Tensor:
        return module.perturb(w.table, w.rows, w.states, w.alpha, w.sigma, w.key, dtype=dtype)

    head = w.head(CHECKED)
    return Case(
        lambda: run(ops, w),
        lambda: assert_close("perturb", run(ops, head), run(reference, head)),
        **_plain(lambda f: f(*cells), _perturb_in_bf16 if half else baselines.perturb),
    )


def masked_loss(w: Workload, half: bool) -> Case:
    w = replace(w, prediction=w.prediction.bfloat16()) if half else w
    head = w.head(CHECKED)

    def check() -> None:
        v = _in_float64(head)
        options = {"mean_weight": bench_masked_loss.MEAN_WEIGHT, "column_weight": v.column_weight}
        truth = bench_masked_loss.with_gradient(
            lambda p: reference.masked_loss(p, v.table, v.rows, v.states, v.weight, **options), v.prediction
        )
        rounded = truth[0], truth[1].to(w.prediction.dtype)
        bench_masked_loss.compare("masked_loss", [bench_masked_loss.native(head, w.column_weight)], rounded)

    return Case(
        lambda: bench_masked_loss.native(w, w.column_weight),
        check,
        **_plain(
            lambda f: bench_masked_loss.plain(w, f, w.column_weight),
            _loss_of_bf16 if half else baselines.masked_loss,
        ),
    )


def masked_noise_loss(w: Workload, half: bool) -> Case:
    w = replace(w, x=w.x.bfloat16()) if half else w
    head = w.head(CHECKED)

    def check() -> None:
        v = _in_float64(head)
        truth = bench_masked_loss.with_gradient(
            lambda p: reference.masked_noise_loss(p, v.table, v.rows, v.states, v.key), v.x
        )
        rounded = truth[0], truth[1].to(w.x.dtype)
        bench_masked_loss.compare("masked_noise_loss", [bench_masked_loss.native_noise(head)], rounded)

    return Case(
        lambda: bench_masked_loss.native_noise(w),
        check,
        **_plain(
            lambda f: bench_masked_loss.plain_noise(w, f), _noise_loss_of_bf16 if half else baselines.masked_noise_loss
        ),
    )


def step(w: Workload, name: str, half: bool) -> Case:
    w = replace(w, prediction=w.prediction.bfloat16()) if half else w
    numbers = bench_step.COEFFICIENTS[name]
    c, head, noisy = torch.tensor(numbers, device=w.x.device), w.head(CHECKED), bool(numbers[3])

    def check() -> None:
        arguments = head.x, head.prediction, head.previous, head.states, head.table.offsets, c, head.rows, head.key
        for result, wanted in zip(bench_step.native(head, c), reference.step(*arguments), strict=True):
            assert_close("step", result, wanted)

    plain = _step_of_bf16 if half else baselines.step
    cells = w.x, w.prediction, w.previous, w.states
    return Case(
        lambda: bench_step.native(w, c),
        check,
        {"eager": lambda: lambda: plain(*cells, numbers, noisy=noisy)},
        {"compile": lambda: lambda: baselines.compiled(plain)(*cells, c, noisy=noisy)},
    )


def decode(w: Workload) -> Case:
    head, boundaries = w.head(CHECKED), baselines.filled(w.boundaries, w.starts)

    def check() -> None:
        truth = reference.decode(head.x, head.table.offsets, head.boundaries, head.starts)
        for result, wanted in zip(bench_decode.native(head), truth, strict=True):
            assert_close("decode", result, wanted, torch.float32)

    return Case(
        lambda: bench_decode.native(w), check, **_plain(lambda f: f(w.x, boundaries, CONTINUOUS), baselines.decode)
    )


def noise(w: Workload, name: str) -> Case:
    """Against PyTorch's own generator, which is another."""
    columns, head = w.table.layout.width, w.head(CHECKED)

    def run(module: Any, w: Workload) -> Tensor:
        return getattr(module, name)(w.rows, columns, w.key)

    plain = {"uniform": torch.rand, "normal": torch.randn}[name]
    return Case(
        lambda: run(ops, w),
        lambda: assert_close(name, run(ops, head), run(reference, head)),
        {"eager": lambda: lambda: plain(len(w.rows), columns, device=w.rows.device)},
        {},
    )


def make_network(device: torch.device, width: int) -> Denoiser:
    """A network of the default depth with an output that is not 0."""
    torch.manual_seed(0)
    network = Denoiser(LAYOUT, width=width)
    torch.nn.init.normal_(network.outputs.weight, std=0.1)
    return network.to(device).eval().requires_grad_(False)


def mlp_predict(w: Workload, width: int) -> Case:
    device = w.x.device
    network, level, head = make_network(device, width), torch.ones(1, device=device), w.head(CHECKED)

    def run(name: str, w: Workload) -> Tensor:
        with precision(name, device):
            return network(w.x, level, w.states)

    def ours(name: str, w: Workload) -> Tensor:
        return ops.mlp_predict(network, w.x, w.states, level, precision=PRECISIONS[name])

    def check() -> None:
        truth = copy.deepcopy(network).double()(head.x.double(), level.double(), head.states)
        found = {f"native {name}": relative_error(ours(name, head), truth) for name in PRECISIONS}
        hold(found | {name: relative_error(run(name, head), truth) for name in PRECISIONS})

    natives = {f"native {name}": partial(partial, ours, name, w) for name in ("tf32", "bf16")}
    rivals = {f"eager {name}": partial(partial, run, name, w) for name in PRECISIONS}
    return Case(lambda: ours("fp32", w), check, {**natives, **rivals}, {})


def make_case(name: str, w: Workload) -> Case:
    """The case of one of `gpu.plan.OPS`."""
    op, _, kind = name.partition(", ")
    half = kind == "bf16"
    if op.startswith("step"):
        return step(w, op, half)
    if op in ("uniform", "normal"):
        return noise(w, op)
    simple = {
        "perturb": lambda: perturb(w, half),
        "masked_loss": lambda: masked_loss(w, half),
        "masked_noise_loss": lambda: masked_noise_loss(w, half),
        "decode": lambda: decode(w),
        "mlp_predict": lambda: mlp_predict(w, WIDTHS[0]),
    }
    return simple[op]()


def measure(name: str, w: Workload, clock: Clock, *, compiled: bool = False) -> dict[str, Any]:
    """The entry of an op."""
    case, work = make_case(name, w), predict(name, len(w.rows))
    case.check()
    found = compare(case.native, case.compiled if compiled else case.eager, clock, alone=True)
    return {"rows": work.rows, "bytes": work.bytes, "flops": work.flops, **found}
