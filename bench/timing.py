"""What is timed, how often, and the ratios that a run is held to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

FULL_SIZE = 353_150  # rows
ROUNDS = 11
WARM_UPS = 3  # the first compiles, and the first few get memory that the machine has not yet handed out
IMPLEMENTATIONS = ["native", "eager", "compile"]
# An implementation's median time by that of native, in one run.
LEAST_RATIO = {"eager": 3.0, "compile": 1.0, "pandas": 3.0}
# Matrix products take most of the time of whole networks, and PyTorch's are as good as ours.
LEAST_OF_OP = {op: {"eager": 1.0, "compile": 1.0} for op in ("mlp_sample", "mlp_train_step")}

Timer = Callable[[str, str, Callable[[], Any]], None]  # op, implementation, what to time


def ratios(seconds: Mapping[str, float]) -> dict[str, float]:
    """How many times as long as native each other implementation took, of those that were timed."""
    return {name: seconds[name] / seconds["native"] for name in LEAST_RATIO if {name, "native"} <= seconds.keys()}


def too_slow(medians: Mapping[str, Mapping[str, float]], rows: int) -> list[str]:
    """A line for each ratio below the least one; none for fewer rows than the full size, which are for trying out."""
    return [
        f"{op}: {name} / native is {ratio:.2f}, below {LEAST_OF_OP.get(op, LEAST_RATIO)[name]:g}"
        for op, seconds in medians.items()
        for name, ratio in ratios(seconds).items()
        if rows >= FULL_SIZE and ratio < LEAST_OF_OP.get(op, LEAST_RATIO)[name]
    ]
