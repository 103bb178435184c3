"""Calls the CUDA ops' glue with tensors of the CPU, and prints what came of each as JSON; see tests/cuda_glue.c.

Run by tests/test_cuda_glue.py in a process of its own, as torch is lied to in it.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import sys
from typing import Any

import torch
from batches import LAYOUTS, make_batch, make_prediction
from test_mlp_composed import arguments
from test_mlp_sample import example

from missdiff_fast.networks import Denoiser
from missdiff_fast.networks import packing_cuda as tiles
from missdiff_fast.networks.packing import TrainingState, shifts
from missdiff_fast.ops import _library

CUDA = torch._C.DispatchKeySet(torch._C.DispatchKey.CUDA)


def calls(size: int) -> dict[str, tuple[Any, ...]]:
    """Every op's name and arguments, as `missdiff_fast.ops` gives them."""
    batch, layout = make_batch(LAYOUTS["mixed"], size), LAYOUTS["mixed"]
    D, C, table = layout.width, layout.num_continuous, batch.table
    cells = table.continuous, table.codes, table.offsets
    x, weights = make_prediction(size, D), torch.zeros(48)
    starts = torch.zeros(C + 1, dtype=torch.int64)
    found: dict[str, tuple[Any, ...]] = {
        "uniform": (batch.rows, 5, batch.key),
        "normal": (batch.rows, 5, batch.key),
        "masked_loss": (
            *(make_prediction(size, D + C), table.continuous, table.codes, table.values, table.offsets),
            *(batch.rows, batch.states, batch.weight, 0.3, None),
        ),
        "masked_noise_loss": (x, *cells, batch.rows, batch.states, batch.key),
        "step": (x, x, None, batch.states, table.offsets, torch.ones(4), batch.rows, batch.key, True),
        "encode": (torch.zeros(size), torch.zeros(1), torch.tensor([0.0, 1.0]).double(), torch.empty(0), 1, None),
        "decode": (x, table.offsets, torch.empty(0), starts),
        "adamw": (*(weights.clone() for _ in range(4)), weights, torch.ones(3, dtype=torch.float64)),
    }
    flat = TrainingState.of(Denoiser(layout, width=20, blocks=1), panels=False).weights
    features, schedule = torch.zeros(size, 64), torch.ones(1, 3, dtype=torch.float64)
    found["mlp_train_steps"] = (
        *(*(flat.clone() for _ in range(4)), table.continuous, table.codes, table.values, table.offsets, batch.rows),
        *(batch.states, batch.states, batch.sigma, features, batch.weight, batch.key[None], schedule, D, 20, 1, 0.3, 1),
        None,
    )
    found |= arguments(torch.device("cpu"), size)
    scales = batch.rows, batch.states, batch.alpha, batch.sigma, batch.key
    found["perturb"] = (*cells, *scales, D, 0.0, 1.0)
    for width in (20, 300):
        call = example(layout, size, width=width)
        for number, precision in enumerate(tiles.PRECISIONS):
            packed, level_shifts = tiles.pack(call.network, precision), shifts(call.network, call.sigmas)
            first = call.x, call.states, packed, call.offsets
            rest = call.coefficients, call.rows, call.keys, number
            found[f"mlp_sample {width} {precision}"] = (*first, call.sigmas, level_shifts, *rest)
            found[f"mlp_predict {width} {precision}"] = (*first, call.sigmas[:1], level_shifts[:1], number)
    return found


def outcome(name: str, arguments: tuple[Any, ...]) -> str:
    try:
        result = getattr(torch.ops.missdiff_fast, name.split()[0]).default.redispatch(CUDA, *arguments)
    except RuntimeError as error:
        return str(error).splitlines()[0]
    results = result if isinstance(result, tuple) else (result,)
    return "done: " + ", ".join(str(list(x.shape)) for x in results if x is not None)


def main(stub: str) -> None:
    assert _library.load()  # the ops' schemas
    ctypes.CDLL(stub, mode=ctypes.RTLD_GLOBAL)
    importlib.import_module("missdiff_fast._cuda")
    with torch.no_grad():
        found = {size: {name: outcome(name, given) for name, given in calls(size).items()} for size in (0, 7)}
        given = calls(7)
        perturb, predict, train = given["perturb"], given["mlp_predict 20 float32"], given["mlp_train_steps"]
        states, weights = torch.zeros(7, 3, dtype=torch.uint8), torch.zeros(8, dtype=torch.uint8)
        wrong = {
            "states": outcome("perturb", (*perturb[:4], states, *perturb[5:])),
            "weights": outcome("mlp_predict", (*predict[:2], weights, *predict[3:])),
            "flat weights": outcome("mlp_train_steps", (*(weights.float() for _ in range(4)), *train[4:])),
            "columns": outcome("silu_forward", (torch.zeros(6, 7).T, *given["silu_forward"][1:])),
            "level": outcome("norm_forward", (*given["norm_forward"][:5], None, *given["norm_forward"][6:])),
            "places": outcome("column_sums", (*given["column_sums"][:1], torch.arange(5), torch.zeros(9))),
            "input": outcome("mlp_loss", (*given["mlp_loss"][:2], torch.zeros(7, 4), *given["mlp_loss"][3:])),
        }
    print(json.dumps({"empty": found[0], "rows": found[7], "wrong": wrong}))


if __name__ == "__main__":
    main(sys.argv[1])
