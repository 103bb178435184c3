"""Everything that is measured on a card, in the order of importance, into one JSON file.

    PYTHONPATH=.:bench:tests python bench/gpu/measure.py --out FILE.json [--seconds 150]

A part that fails costs no other part anything; its traceback is in the file, and the exit status is 1. A part for
which too little time is left is listed as not measured. The file is written anew after each part. With ``--device cpu``
and few ``--rows`` the script can be tried where there is no card.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from workload import make_workload

from gpu import card, ceilings, sampler, single, trainer, whole
from gpu.clock import Clock
from gpu.plan import BATCHES, FULL_SIZE, LOOPS, OPS, PARTS, WIDTHS
from gpu.summary import lines
from missdiff_fast._engine.backend import resolve_backend

Measurement = Callable[[], Mapping[str, Any]]


def functions(device: torch.device, rows: int, steps: int | None) -> dict[str, Measurement]:
    """What measures each part; ``steps`` of whole models, to try something out."""
    clock, w = Clock(device), make_workload(rows).to(device)
    backend = resolve_backend("native", device)
    fits = (trainer.FEW, trainer.MANY) if steps is None else (steps, 3 * steps)
    found: dict[str, Measurement] = {
        "ceilings": lambda: {"ceilings": ceilings.ceilings(clock)},
        "noise bits": lambda: {"noise": ceilings.noise_bits(device)},
        "fit and sample": lambda: {"whole": {"mimic": whole.mimic(clock, rows, steps)}},
        "Census": lambda: {"whole": {"census": whole.census(clock, rows, steps)}},
        "paper": lambda: {"whole": {"paper": whole.paper(clock, rows, steps and max(100, steps))}},
    }
    ops: dict[str, Callable[..., dict[str, Any]]] = {name: partial(single.measure, name, w, clock) for name in OPS}
    for name, width in zip(LOOPS, WIDTHS, strict=False):
        ops[name] = partial(sampler.measure, w, width, clock)
    for name, batch in zip(LOOPS[len(WIDTHS) :], BATCHES, strict=True):
        ops[name] = partial(trainer.measure, w, batch, backend, clock, steps=fits)

    def op(name: str, compiled: bool) -> Mapping[str, Any]:
        return {"ops": {name: ops[name](compiled=compiled)}}

    for name in ops:
        found[name] = partial(op, name, False)
        found[f"compile: {name}"] = partial(op, name, True)
    return {part.name: found[part.name] for part in PARTS}


def merge(into: dict[str, Any], found: Mapping[str, Any]) -> None:
    """Add what a part found. Of an op that was there the times of ours stay: ratios are to those beside each rival."""
    for key, value in found.items():
        if key == "ops":
            for name, new in value.items():
                old = into.setdefault("ops", {}).setdefault(name, new)
                if old is not new:
                    for field in ("seconds", "sizes", "ratios", "failed"):
                        old[field] = {**new.get(field, {}), **old.get(field, {})}
        elif isinstance(value, Mapping) and key in into:
            into[key] |= value
        else:
            into[key] = value


def write(run: Mapping[str, Any], path: Path) -> None:
    """In one move, so that the file is whole at any time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    new.write_text(json.dumps(run, indent=1) + "\n", encoding="utf-8")
    new.replace(path)


def measure(parts: Mapping[str, Measurement], run: dict[str, Any], seconds: float, path: Path) -> None:
    """Call the parts for which there is time, and write after each."""
    began = time.perf_counter()
    for part in (part for part in PARTS if part.name in parts):
        left = seconds - (time.perf_counter() - began)
        if left < part.seconds:
            continue
        run["skipped"].remove(part.name)
        run["interrupted"] = part.name
        write(run, path)
        start = time.perf_counter()
        try:
            merge(run, parts[part.name]())
        except Exception:
            run["failed"][part.name] = traceback.format_exc(limit=-12)
        run["took"][part.name] = time.perf_counter() - start
        del run["interrupted"]
        print(
            f"{part.name}: {run['took'][part.name]:.1f} s{' FAILED' if part.name in run['failed'] else ''}", flush=True
        )
        write(run, path)


def all_failed(run: Mapping[str, Any]) -> dict[str, str]:
    """Tracebacks of parts, and of rivals within a part."""
    rivals = {
        f"{name}: {rival}": trace
        for name, found in run.get("ops", {}).items()
        for rival, trace in found.get("failed", {}).items()
    }
    return {**run["failed"], **rivals}


def main() -> int:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=150.0, help="no part begins for which less is left")
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--rows", type=int, default=FULL_SIZE)
    parser.add_argument("--steps", type=int, help="training steps of whole models, to try something out")
    parser.add_argument(
        "--only", nargs="+", default=[""], metavar="TEXT", help="parts whose names have one of these in"
    )
    arguments = parser.parse_args()
    device = torch.device(arguments.device)
    if device.type == "cuda":
        device = torch.device("cuda", torch.cuda.current_device())
    run = {**card.describe(device), "rows": arguments.rows, "failed": {}, "took": {}}
    parts = functions(device, arguments.rows, arguments.steps)
    parts = {name: part for name, part in parts.items() if any(text in name for text in arguments.only)}
    run["skipped"] = [part.name for part in PARTS]
    measure(parts, run, arguments.seconds, arguments.out)
    write(run, arguments.out)
    print("\n".join(lines(run)))
    for name, trace in all_failed(run).items():
        print(f"\n{name}\n{trace}", file=sys.stderr)
    return 1 if all_failed(run) else 0


if __name__ == "__main__":
    sys.exit(main())
