"""Time of a training step on cores that other programs use too, by how long threads look for work before they sleep.

    python bench/busy_cores.py [--threads 2] [--others 2]

Each figure is the mean of some seconds of steps of 256 rows, in a process of its own with GOMP_SPINCOUNT as given,
alone and beside as many other programs as ``--others`` that never pause: least and greatest of three. "default" is GNU
OpenMP's own; the command missdiff takes 10000.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pandas as pd
import script
import store
import torch
from plain import make_network
from workload import make_workload

from missdiff_fast._engine.backend import NativeBackend
from missdiff_fast._engine.batches import TrainBatch
from missdiff_fast._engine.steppers import FusedStepper
from missdiff_fast.config import ObjectiveConfig
from missdiff_fast.diffusion.schedule import noise_weight
from missdiff_fast.networks import Denoiser

SPINS = ("default", "0", "1000", "3000", "10000")
ROWS, SECONDS, PROCESSES = 256, 3.0, 3


def mean_step() -> float:
    """The mean milliseconds of a step over some seconds."""
    w = make_workload(ROWS)
    stepper = FusedStepper(make_network(w, Denoiser), ObjectiveConfig(), w.column_weight, 0.998, NativeBackend())
    batch = TrainBatch(w.table, w.rows, w.states, w.states, w.sigma, noise_weight(w.sigma), w.key)
    for _ in range(20):
        stepper.step(batch, 1e-3)
    began, steps = time.perf_counter(), 0
    while (taken := time.perf_counter() - began) < SECONDS:
        stepper.step(batch, 1e-3)
        steps += 1
    return 1e3 * taken / steps


def measure(spins: str, threads: int, others: int) -> float:
    """`mean_step` in a process with these spins, beside other programs."""
    environment = {name: text for name, text in os.environ.items() if name not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
    environment |= {"OMP_NUM_THREADS": str(threads)}
    environment |= {} if spins == "default" else {"GOMP_SPINCOUNT": spins}
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(others)]
    try:
        command = [sys.executable, __file__, "--child", "--threads", str(threads)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    finally:
        for program in busy:
            program.kill()
            program.wait()
    return float(done.stdout)


def main() -> None:
    """Print the table."""
    options = script.begin(__doc__, threads=torch.get_num_threads(), others=2, child=False)
    if options.child:
        print(mean_step())
        return
    rows = []
    for spins in SPINS:
        row = {"GOMP_SPINCOUNT": spins}
        for others in (0, options.others):
            times = [measure(spins, options.threads, others) for _ in range(PROCESSES)]
            row[f"ms beside {others} others"] = f"{min(times):.1f} to {max(times):.1f}"
        rows.append(row)
    print(store.describe(options.facts))
    print(store.markdown(pd.DataFrame(rows)))


if __name__ == "__main__":
    main()
