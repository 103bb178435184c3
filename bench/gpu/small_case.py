"""Each op once on a few odd sizes, compared with the reference on the CPU: what the memory and race checkers run over.

PYTHONPATH=.:bench:tests python bench/gpu/small_case.py [--device cuda] [--apart [--seconds N] | --only NAME]

With --apart each op has a process of its own, since an error in a kernel makes the card unusable for its process; one
that does not end within --seconds is named and ended.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import torch
from batches import LAYOUTS, Batch, make_batch, make_prediction
from tolerances import assert_close
from torch import Tensor

from missdiff_fast import ops
from missdiff_fast.networks import Denoiser
from missdiff_fast.networks.packing import TrainingState
from missdiff_fast.ops import mlp_train_steps as persistent
from missdiff_fast.ops import reference

PRECISIONS = {"bfloat16": 2e-2, "float32": 1e-4}  # with the greatest relative error of a pass in each
WIDTHS = (96, 40, 200)  # narrow networks, and a wide one, whose kernel is another
# Width, precision and rows for each multiprocessor: narrow networks whose blocks have several warps, and a wide one
# whose blocks have four strips. The few rows of the other cases give one warp, and two strips.
MANY = ((40, "bfloat16", 32), (96, "float32", 32), (200, "bfloat16", 64))

Case = Callable[[Batch, torch.device], None]


def on(device: torch.device, batch: Batch) -> Batch:
    """The batch on a device."""
    return Batch(**{field.name: getattr(batch, field.name).to(device) for field in fields(batch)})


def uniform(batch: Batch, device: torch.device) -> None:
    for columns in (1, 7):
        for name in ("uniform", "normal"):
            there = getattr(ops, name)(batch.rows.to(device), columns, batch.key.to(device))
            assert_close(name, there.cpu(), getattr(reference, name)(batch.rows, columns, batch.key))


def perturb(batch: Batch, device: torch.device) -> None:
    there, here = (
        module.perturb(b.table, b.rows, b.states, b.alpha, b.sigma, b.key)
        for module, b in ((ops, on(device, batch)), (reference, batch))
    )
    assert_close("perturb", there.cpu(), here)


def _losses(name: str, columns: int, batch: Batch, device: torch.device, loss: Callable[..., Tensor]) -> None:
    for dtype in (torch.float32, torch.bfloat16):
        found = []
        for module, where in ((ops, device), (reference, torch.device("cpu"))):
            leaf = make_prediction(len(batch.rows), columns, dtype).to(where).requires_grad_()
            value = loss(getattr(module, name), leaf, on(where, batch))
            found.append((value.detach().cpu(), torch.autograd.grad(value, leaf)[0].cpu()))
        assert_close(name, found[0][0], found[1][0], dtype)
        assert_close(f"{name}.grad", found[0][1], found[1][1])


def masked_loss(batch: Batch, device: torch.device) -> None:
    layout = batch.table.layout
    _losses(
        "masked_loss",
        layout.width + layout.num_continuous,
        batch,
        device,
        lambda f, p, b: f(
            p, b.table, b.rows, b.states, b.weight, column_weight=b.weight.new_ones(layout.num_columns) / 2
        ),
    )


def masked_noise_loss(batch: Batch, device: torch.device) -> None:
    width = batch.table.layout.width
    _losses("masked_noise_loss", width, batch, device, lambda f, p, b: f(p, b.table, b.rows, b.states, b.key))


def step(batch: Batch, device: torch.device) -> None:
    """Without noise and with it."""
    layout, count = batch.table.layout, len(batch.rows)
    x, prediction, previous = (make_prediction(count, layout.width, seed=seed) for seed in range(3))
    for numbers in ((0.6, 0.9, -0.3, 0.0), (0.6, 0.9, -0.3, 0.4)):
        rest = torch.tensor(numbers), batch.rows, batch.key
        arguments = x, prediction, previous, batch.states, layout.offsets(), *rest
        there = ops.step(*(tensor.to(device) for tensor in arguments))
        for result, wanted in zip(there, reference.step(*arguments), strict=True):
            assert_close("step", result.cpu(), wanted)


def encode(batch: Batch, device: torch.device) -> None:
    """Cells that are keys, and others between and beyond them."""
    cells, keys = batch.rows.double() % 50, torch.arange(1, 48, 2).double()
    ends = torch.linspace(0, 1, len(keys) + 1, dtype=torch.float64)
    arguments = cells, keys, ends, torch.special.ndtri(ends[1:-1]).float()
    there = ops.encode(*(tensor.to(device) for tensor in arguments), 1000)
    assert_close("encode", there.cpu(), reference.encode(*arguments, 1000))


def decode(batch: Batch, device: torch.device) -> None:
    layout = batch.table.layout
    x = make_prediction(len(batch.rows), layout.width)
    sizes = torch.arange(layout.num_continuous)
    boundaries = torch.cat([torch.linspace(-2, 2, int(size)) for size in sizes] or [torch.empty(0)])
    starts = torch.cat([torch.zeros(1, dtype=torch.int64), sizes.cumsum(0)])
    arguments = x, layout.offsets(), boundaries, starts
    there = ops.decode(*(tensor.to(device) for tensor in arguments))
    for result, wanted in zip(there, reference.decode(*arguments), strict=True):
        assert_close("decode", result.cpu(), wanted, torch.float32)


def _network(batch: Batch, width: int) -> Denoiser:
    torch.manual_seed(0)
    network = Denoiser(batch.table.layout, width=width, blocks=2)
    torch.nn.init.normal_(network.outputs.weight, std=0.1)
    return network.requires_grad_(False)


def _near(result: Tensor, truth: Tensor, greatest: float) -> None:
    error = float(torch.dist(result.cpu().double(), truth.double()) / truth.double().norm())
    assert error <= greatest, f"relative error {error:.3g}"


def mlp_predict(batch: Batch, device: torch.device) -> None:
    for width in WIDTHS:
        network, x = _network(batch, width), make_prediction(len(batch.rows), batch.table.layout.width)
        truth = reference.mlp_predict(network, x, batch.states, torch.ones(1))
        there = [tensor.to(device) for tensor in (x, batch.states, torch.ones(1))]
        for precision, greatest in PRECISIONS.items():
            _near(ops.mlp_predict(network.to(device), *there, precision=precision), truth, greatest)


def mlp_sample(batch: Batch, device: torch.device) -> None:
    for width in WIDTHS:
        network, x = _network(batch, width), make_prediction(len(batch.rows), batch.table.layout.width)
        coefficients = torch.tensor([[0.5, 0.5, 0.0, 0.0], [0.5, 0.75, -0.25, 0.3], [0.0, 1.0, 0.0, 0.0]])
        keys = torch.stack([reference.make_key(3, i) for i in range(3)])
        levels, offsets = torch.tensor([4.0, 2.0, 1.0]), batch.table.layout.offsets()
        arguments = x, batch.states, offsets, levels, coefficients, batch.rows, keys
        truth = reference.mlp_sample(network, *arguments)
        there = [tensor.to(device) for tensor in arguments]
        for precision, greatest in PRECISIONS.items():
            _near(ops.mlp_sample(network.to(device), *there, precision=precision), truth, greatest)


def many_rows(batch: Batch, device: torch.device) -> None:
    """Rows among so many that they share blocks and weights are what they are by themselves."""
    processors = torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 1
    for width, precision, rows in MANY:
        _many_rows(batch, device, width, precision, repeats(len(batch.rows), rows * processors))


def repeats(size: int, rows: int) -> int:
    """Of a batch, for more rows than those."""
    return rows // size + 1


def _many_rows(batch: Batch, device: torch.device, width: int, precision: str, times: int) -> None:
    many = batch.rows.repeat(times)
    network = _network(batch, width).to(device)
    x, states = (
        make_prediction(len(many), batch.table.layout.width),
        batch.states.repeat(times, 1),
    )
    keys, levels = reference.make_key(3, 0)[None], torch.tensor([2.0])
    rest = batch.table.layout.offsets(), levels, torch.tensor([[0.5, 0.5, 0.0, 0.3]])
    there = [tensor.to(device) for tensor in (x, states, *rest, many, keys)]
    few = [*(tensor[:20] for tensor in there[:2]), *there[2:5], there[5][:20], there[6]]
    found, alone = (ops.mlp_sample(network, *arguments, precision=precision) for arguments in (there, few))
    assert torch.equal(found[:20], alone)


def mlp_train_step(batch: Batch, device: torch.device) -> None:
    """Two steps: the losses, and the weights afterwards."""
    found = []
    for module, where in ((ops, device), (reference, torch.device("cpu"))):
        network = _network(batch, WIDTHS[0]).to(where)
        state, b = TrainingState.of(network), on(where, batch)
        arguments = state, b.table, b.rows, b.states, b.states, b.sigma, b.weight, b.key
        losses = torch.stack([module.mlp_train_step(*arguments, learning_rate=1e-3, decay=0.9) for _ in range(2)])
        state.write_ema()
        found.append([losses, *network.parameters()])
    for result, truth in zip(*found, strict=True):
        _near(result, truth, PRECISIONS["bfloat16"])


def mlp_train_steps(batch: Batch, device: torch.device) -> None:
    """Two steps in one launch."""
    found = []
    for module, where in ((persistent, device), (reference, torch.device("cpu"))):
        network = _network(batch, WIDTHS[0]).to(where)
        state, b = TrainingState.of(network), on(where, batch)
        tensors = b.rows, b.states, b.states, b.sigma, b.weight, b.key
        if module is persistent:
            batches = (x.expand(2, *x.shape) for x in tensors)
            losses = module.mlp_train_steps(
                state, b.table, *batches, learning_rates=[1e-3] * 2, decays=[0.9] * 2, precision="float32"
            )
        else:
            steps = (module.mlp_train_step(state, b.table, *tensors, learning_rate=1e-3, decay=0.9) for _ in range(2))
            losses = torch.stack(list(steps))
        state.write_ema()
        found.append([losses, *network.parameters()])
    for result, truth in zip(*found, strict=True):
        _near(result, truth, PRECISIONS["float32"])


CASES: dict[str, Case] = {
    case.__name__: case
    for case in (
        uniform, perturb, masked_loss, masked_noise_loss, step, encode, decode, mlp_predict, mlp_sample, many_rows,
        mlp_train_step, mlp_train_steps,
    )
}  # fmt: skip


def apart(device: str, seconds: float) -> int:
    """Each op in a process of its own; 1 if one is wrong, or does not end."""
    command = [sys.executable, __file__, "--device", device, "--only"]
    processes = {name: subprocess.Popen([*command, name]) for name in CASES}
    end, failed = time.monotonic() + seconds, 0
    for name, process in processes.items():
        try:
            failed += process.wait(max(0.0, end - time.monotonic())) != 0
        except subprocess.TimeoutExpired:
            process.kill()
            failed += 1
            print(f"{name}: STOPPED, as it did not end within {seconds:g} s", flush=True)
    return int(failed > 0)


def main() -> int:
    """Print a line for each op and layout; 1 if one is wrong or missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--apart", action="store_true")
    parser.add_argument("--seconds", type=float, default=50)
    parser.add_argument("--only", choices=list(CASES))
    arguments = parser.parse_args()
    if arguments.apart:
        return apart(arguments.device, arguments.seconds)
    device, failed = torch.device(arguments.device), 0
    for layout in ("mixed", "no_continuous", "no_categorical"):
        batch: Any = make_batch(LAYOUTS[layout], batch=67)
        for name, case in CASES.items():
            if arguments.only not in (None, name):
                continue
            try:
                case(batch, device)
            except Exception:
                failed += 1
                print(f"{layout}, {name}: WRONG\n{traceback.format_exc(limit=-4)}", flush=True)
            else:
                print(f"{layout}, {name}: right", flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
