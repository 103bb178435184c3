"""Where the time goes when the default model is fitted to a table of MIMIC4ED's size and draws as many rows.

    python bench/profile_fit.py [--rows 353150] [--steps N] [--threads 2] [--bare] [--save]

By Python's own profiler and the clock on the wall, where a call of a native op is one function; and, where Linux's perf
is there, by its samples of a second run, which see every thread and every kernel. With ``--bare`` nothing is profiled,
for others to look in from outside (docs/benchmarks.md). ``--save`` writes bench/results/profile.json.
"""

from __future__ import annotations

import cProfile
import pstats
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import store
from script import Steps, begin
from timing import FULL_SIZE

import missdiff_fast
from missdiff_fast import MissDiff
from missdiff_fast.datasets import simulate_mimic4ed

SHOWN = 15
PACKAGE = Path(missdiff_fast.__file__).parent.parent


def name_of(function: tuple[str, int, str]) -> str:
    """The table's name of a profiled function: module and name, or a built-in's own name."""
    file, _, name = function
    builtin = re.fullmatch(r"<built-in method (?:torch\._ops\.)?(.+)>", name)
    if builtin:
        return builtin[1]
    method = re.fullmatch(r"<method '(.+)' of '(.+)' objects>", name)
    if method:
        return f"{method[2].removeprefix('torch._C.')}.{method[1]}"
    path = Path(file)
    inside = path.relative_to(PACKAGE) if path.is_relative_to(PACKAGE) else Path(path.name)
    return f"{'.'.join(inside.with_suffix('').parts)}.{name}"


def table(stats: pstats.Stats, shown: int = SHOWN) -> list[dict[str, Any]]:
    """Functions by their own time, the longest first, and all others in one line."""
    calls: dict[str, list[float]] = {}
    for function, (_, count, own, _, _) in stats.stats.items():  # type: ignore[attr-defined]
        entry = calls.setdefault(name_of(function), [0, 0.0])
        entry[0] += count
        entry[1] += own
    total = sum(own for _, own in calls.values())
    longest = sorted(calls.items(), key=lambda item: -item[1][1])
    rest = [sum(column) for column in zip(*(entry for _, entry in longest[shown:]), strict=True)] or [0, 0.0]
    return [
        {"function": name, "calls": int(count), "seconds": round(own, 3), "share": round(own / total, 4)}
        for name, (count, own) in [*longest[:shown], ("all others", rest)]
    ]


def sampled(command: list[str], shown: int = SHOWN) -> list[dict[str, Any]]:
    """Symbols and their shares of a process's time, sampled by perf; empty without perf."""
    perf = shutil.which("perf")
    if perf is None:
        return []
    with tempfile.TemporaryDirectory() as folder:
        data = str(Path(folder) / "perf.data")
        subprocess.run([perf, "record", "-q", "-F", "199", "-o", data, "--", *command], check=True)
        report = [perf, "report", "-q", "-i", data, "--no-children", "--sort", "dso,symbol", "--field-separator", "|"]
        return symbols(subprocess.run(report, check=True, capture_output=True, text=True).stdout, shown)


def symbols(report: str, shown: int = SHOWN) -> list[dict[str, Any]]:
    """What `perf report` prints by dso and symbol, and all others in one line; shares of 1."""
    shares: dict[tuple[str, str], float] = {}
    for line in filter(str.strip, report.splitlines()):
        share, library, symbol = line.split("|")[:3]
        name = re.sub(r"^\[.\] |\(anonymous namespace\)::", "", symbol.strip())
        # Without arguments; all instances of a template count as one function, and addresses have no name.
        name = "(no name)" if name.startswith("0x") else re.sub(r"^(?:int|void) |[<(].*", "", name)
        place = name, library.strip().partition(".cpython")[0]
        shares[place] = shares.get(place, 0.0) + float(share.strip().rstrip("%")) / 100
    longest = sorted(shares.items(), key=lambda item: -item[1])
    rest = sum(share for _, share in longest[shown:])
    return [
        {"symbol": name, "file": file, "share": round(share, 4)}
        for (name, file), share in [*longest[:shown], (("all others", ""), rest)]
    ]


def fit_and_sample(rows: int, steps: int | None, call: Callable[[Callable[[], Any]], Any]) -> dict[str, float]:
    """Seconds of both, each called by ``call``."""
    frame, took = simulate_mimic4ed(rows, random_state=0), Steps()
    model = MissDiff(steps=steps, random_state=0, verbose=False)
    took.take("fit", call, lambda: model.fit(frame))
    took.take("sample", call, lambda: model.sample(rows))
    return {name: round(step["seconds"], 2) for name, step in took.found.items()}


def main() -> None:
    """Run what the command line asks for, and print it."""
    options = begin(__doc__, rows=FULL_SIZE, steps=int, threads=2, bare=False)
    if options.bare:
        print(fit_and_sample(options.rows, options.steps, lambda function: function()))
        return
    profiler = cProfile.Profile()
    seconds = fit_and_sample(options.rows, options.steps, profiler.runcall)
    found = {**options.facts, "rows": options.rows, "seconds": seconds, "functions": table(pstats.Stats(profiler))}
    again = [f"--rows={options.rows}", f"--threads={options.threads}"]
    again += [f"--steps={options.steps}"] if options.steps else []
    found["symbols"] = sampled([sys.executable, __file__, "--bare", *again])
    print(store.describe(found), seconds, sep="\n")
    for part in found["functions"]:
        print(f"{part['share']:7.1%} {part['seconds']:9.2f} s {part['calls']:9,} calls  {part['function']}")
    for part in found["symbols"]:
        print(f"{part['share']:7.1%} {part['file']}: {part['symbol']}")
    if options.save:
        store.write(store.PROFILE, found)


if __name__ == "__main__":
    main()
