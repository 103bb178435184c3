"""What a training step takes on cores that other programs use too, by how long threads look for work before they sleep.

    python bench/busy_cores.py [--threads 2] [--others 2]

Each line is a process of its own that takes steps of 256 rows with GOMP_SPINCOUNT as given, alone and beside as many
other programs as ``--others`` that never pause. "default" is GNU OpenMP's own; the command missdiff takes 3000.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time

import numpy as np
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

SPINS = ("default", "0", "1000", "3000", "10000", "100000")
ROWS, ROUNDS, STEPS = 256, 40, 5


def median_step() -> float:
    """The median milliseconds of a step in rounds of a few."""
    w = make_workload(ROWS)
    stepper = FusedStepper(make_network(w, Denoiser), ObjectiveConfig(), w.column_weight, 0.998, NativeBackend())
    batch = TrainBatch(w.table, w.rows, w.states, w.states, w.sigma, noise_weight(w.sigma), w.key)
    times = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        for _ in range(STEPS):
            stepper.step(batch, 1e-3)
        times.append((time.perf_counter() - began) / STEPS)
    return 1e3 * float(np.median(times[2:]))


def measure(spins: str, threads: int, others: int) -> float:
    """`median_step` in a process with these spins, beside other programs."""
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
        print(median_step())
        return
    rows: list[dict[str, str | float]] = []
    for spins in SPINS:
        times = {f"ms beside {n} others": measure(spins, options.threads, n) for n in (0, options.others)}
        rows.append({"GOMP_SPINCOUNT": spins} | {name: round(time, 2) for name, time in times.items()})
    print(store.describe(options.facts))
    print(store.markdown(pd.DataFrame(rows)))


if __name__ == "__main__":
    main()
