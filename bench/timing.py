"""How often benchmarks are timed, and the least ratios of a run."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

IMPLEMENTATIONS = ["native", "eager", "compile"]
OTHERS = ["pandas"]  # of the codec, which is no op
# The machine's greatest rates, see roofline.py; a ratio to one of these is a share of its rate.
YARDSTICKS = ["copy", "sgemm", "noise"]
LEAST_RATIO = {"eager": 3.0, "compile": 1.0, "pandas": 3.0}
LEAST_OF_OP = {
    "perturb": {"eager": 5.0, "compile": 1.0},
    "masked_loss": {"eager": 5.0, "compile": 1.0},
    "mlp_sample": {"eager": 1.8, "compile": 1.4, "sgemm": 0.75},
    "mlp_train_step": {"eager": 1.8, "compile": 1.4},
    # Both read three rows and write two, at more than half of a copy's rate, so eager PyTorch can hardly be slower.
    "step": {"eager": 4.0, "compile": 1.0},
    "codec fit": {"pandas": 2.0},
    # Look-ups in a table of values, which NumPy does as fast as one core can.
    **{op: {"pandas": 1.2} for op in ("codec decode", "codec decode_means", "codec fill")},
    # Much of their time is in what all share: reading the rows, or the codec.
    "mlp_predict": {"eager": 1.0, "compile": 1.0},
    "fit and sample": {"eager": 1.0, "compile": 1.0},
}
TOLERATED_FALL = 0.15
FEWEST_ROUNDS = 7
STATISTICS = {"median": "medians", "min": "least times"}

Timer = Callable[..., None]  # op, implementation, function; once=True for one that takes minutes
Run = Mapping[str, Any]  # as `make bench-save` stores it


@dataclass(frozen=True)
class Settings:
    """Settings of a run.

    Parameters
    ----------
    rows : int
        Rows of table and batch.
    threads : int
        Threads of PyTorch.
    rounds : int
        The most rounds of an implementation.
    seconds : float
        Time after which no round begins, once there are seven.
    warm_ups : int
        Calls before the rounds: the first one compiles, and the first few allocate memory.
    clock : callable
        Returns seconds.
    statistic : callable
        Of the rounds' times, such as their median.
    implementations : tuple of str
        Those to time; empty for all that a benchmark offers.
    """

    rows: int
    threads: int
    rounds: int
    seconds: float
    warm_ups: int
    clock: Callable[[], float]
    statistic: Callable[[Sequence[float]], float]
    implementations: tuple[str, ...] = ()

    def longer(self) -> Settings:
        """Three times as many rounds, for results to store."""
        return replace(self, rounds=3 * self.rounds, seconds=3 * self.seconds)

    def rounds_of(self, seconds: float) -> int:
        """The number of rounds that take so many seconds each."""
        return int(min(self.rounds, max(FEWEST_ROUNDS, self.seconds / seconds))) if seconds > 0 else self.rounds

    def ratio(self, native: Sequence[float], other: Sequence[float]) -> float:
        """How many times as long as native an implementation takes."""
        return self.statistic(other) / self.statistic(native)


FULL_SIZE = 353_150
FULL = Settings(FULL_SIZE, 2, 11, math.inf, 3, time.perf_counter, statistics.median)
# Small and on one thread, whose processor time is taken, so that what else runs on the machine hardly matters. Eager
# PyTorch is measure enough: torch.compile would take longer to compile than all the rest. Least times, since what else
# runs on a machine only ever adds to one. Twelve runs of twenty rounds each (perturb, masked loss, step, decode,
# training step), while one other process ran on two cores: standard deviations of their quotient from 0.6 to 3.2 %,
# the lowest run 1 to 4 % below the mean; with four others, 2.6 to 5.2 %, and 4 to 10 %. Of the quotient of medians,
# 1.0 to 3.3 and 3.2 to 6.2 %, and the lowest run 15 % below; of the median of the rounds' quotients much the same.
# Kept memory steadies all of them (`conftest.keep_memory`): without it the quotient varied by 1.7 to
# 19.4 %. By the clock on the wall it varied by 0.6 to 3.4 %, but with four others by 5 to 24 %.
CHECK = Settings(8192, 1, 60, 3.0, 3, time.process_time, min, ("native", "eager", *OTHERS))


class Stopwatch:
    """A function that records how long each of its calls takes."""

    def __init__(self, function: Callable[[], Any], clock: Callable[[], float]) -> None:
        self.function, self.clock = function, clock
        self.seconds: list[float] = []

    def __call__(self) -> None:
        begin = self.clock()
        self.function()
        self.seconds.append(self.clock() - begin)


def take_turns(
    native: Callable[[], Any], other: Callable[[], Any], rounds: int, clock: Callable[[], float]
) -> tuple[list[float], list[float]]:
    """Seconds of both, each called once a round."""
    watches = Stopwatch(native, clock), Stopwatch(other, clock)
    for _ in range(rounds):
        for watch in watches:
            watch()
    return watches[0].seconds, watches[1].seconds


def too_slow(ops: Mapping[str, Mapping[str, Any]], rows: int) -> list[str]:
    """A line for each ratio below the least one; none with fewer rows than the full size."""
    return [
        f"{op}: {name} / native is {found:.2f}, below {least[name]:g}"
        for op, entry in ops.items()
        for least in [LEAST_OF_OP.get(op, LEAST_RATIO)]
        for name, found in entry["ratios"].items()
        if rows >= FULL_SIZE and found < least.get(name, 0)
    ]


def least_to_pass(stored: Run | None, op: str, implementation: str) -> float:
    """The least ratio that a check lets pass; 0 without a stored one."""
    ratios = stored["ops"].get(op, {}).get("ratios", {}) if stored else {}
    return (1 - TOLERATED_FALL) * ratios.get(implementation, 0.0)


def why_incomparable(checks: Mapping[str, Run], here: Run) -> str:
    """The reason why no stored run's ratios compare with those of a run here; empty if one's do.

    A ratio holds for one kind of processor: at the same commit, masked_loss is 6.1 times as fast as eager PyTorch on
    one AMD EPYC and 4.7 times on an older one, with the same instruction set.
    """
    processor = here["machine"]["processor"]
    if processor not in checks:
        return f"none is stored of {processor}, only of {', '.join(checks)}; --save-results adds it"
    stored = checks[processor]
    facts = {
        "SIMD": [run["machine"]["simd"] for run in (stored, here)],
        "torch": [run["versions"]["torch"].split("+")[0] for run in (stored, here)],
        "rows": [run["rows"] for run in (stored, here)],
        "threads": [run["threads"] for run in (stored, here)],
    }
    return ", ".join(f"{name} was {a}, here it is {b}" for name, (a, b) in facts.items() if a != b)


def as_lines(ops: Mapping[str, Mapping[str, Any]], stored: Run | None = None) -> list[str]:
    """A table: milliseconds of each implementation, its ratio to native, and native's share of a yardstick's rate."""
    names = [name for name in (*IMPLEMENTATIONS, *OTHERS) if any(name in entry["seconds"] for entry in ops.values())]
    rivals = [name for name in names if name != "native"]
    lines = [
        f"{'ms':<18}" + "".join(f"{name:>10}" for name in names) + "".join(f"{f'{n} / native':>18}" for n in rivals)
    ]
    for op, entry in ops.items():
        cells = [f"{1e3 * entry['seconds'][name]:.1f}" if name in entry["seconds"] else "-" for name in names]
        times = [f"{entry['ratios'][name]:.2f}" if name in entry["ratios"] else "-" for name in rivals]
        if stored:
            before = stored["ops"].get(op, {}).get("ratios", {})
            times = [f"{t} ({before[n]:.2f})" if n in before else t for t, n in zip(times, rivals, strict=True)]
        shares = [f"  {100 * entry['ratios'][name]:.0f} % of {name}" for name in YARDSTICKS if name in entry["ratios"]]
        lines.append(
            f"{op:<18}" + "".join(f"{c:>10}" for c in cells) + "".join(f"{t:>18}" for t in times) + "".join(shares)
        )
    return lines
