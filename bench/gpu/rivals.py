"""What the comparisons have in common: rivals that may fail, and an entry of the results."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from gpu.clock import Clock, Function

Maker = Callable[[], Function]

# As `gpu.clock.precision` knows them, and as the ops do.
PRECISIONS = {"fp32": "float32", "tf32": "tf32", "bf16": "bfloat16"}


def ready(makers: Mapping[str, Maker]) -> tuple[dict[str, Function], dict[str, str]]:
    """What can be made and called, and the tracebacks of the rest: one rival that fails is to cost no other's time."""
    functions, failed = {}, {}
    for name, make in makers.items():
        try:
            function = make()
            function()
            if torch.cuda.is_available():
                torch.cuda.synchronize()
        except Exception:
            failed[name] = traceback.format_exc(limit=-8)
        else:
            functions[name] = function
    return functions, failed


def compare(native: Function, makers: Mapping[str, Maker], clock: Clock, *, alone: bool) -> dict[str, Any]:
    """Seconds of ours and of each rival that takes turns with it, and how many times as long each takes."""
    functions, failed = ready(makers)
    return entry(clock.take_turns({"native": native, **functions}, alone=alone), failed)


def entry(seconds: Mapping[str, float], failed: Mapping[str, str]) -> dict[str, Any]:
    """An entry of the results."""
    ratios = {name: value / seconds["native"] for name, value in seconds.items() if name != "native"}
    return {"seconds": dict(seconds), "ratios": ratios, "failed": dict(failed)}


def relative_error(result: Tensor, truth: Tensor) -> float:
    """Norm of the difference by norm of the truth."""
    return float(torch.dist(result.double(), truth.double()) / truth.double().norm())


def hold(errors: Mapping[str, float]) -> None:
    """Raise AssertionError where ours errs by more than twice of what PyTorch does in a precision: no time is taken.

    ``errors`` are ours by "native PRECISION" and PyTorch's by "PRECISION".
    """
    for name in PRECISIONS:
        ours, rival = errors[f"native {name}"], errors[name]
        if not ours <= 2 * rival + 1e-5:
            raise AssertionError(f"relative error {ours:.3g} in {name}, where PyTorch has {rival:.3g}")
