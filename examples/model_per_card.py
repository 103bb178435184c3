"""Several models, each in a process of its own on a card of its own, and one estimate from all of them.

Run ``torchrun --standalone --nproc-per-node 8 examples/model_per_card.py [--steps N]`` on a machine with eight cards;
without cards it runs on the processors.

Every process fits on its own seed, fills the holes by its own model and writes its own file, ``imputed-<rank>.csv``.
Rubin's rules then pool the estimates of all files: unlike the draws of one model, those of several also tell how far
models differ that learnt from other random numbers.
"""

from __future__ import annotations

import argparse
import os

import numpy as np
import torch.distributed as dist
from pooled_mean import patients, pool

from missdiff_fast import MissDiff


def main() -> None:
    """Fit, impute and write; the first process waits for all files and pools their means."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, help="training steps; default: the model's choice")
    options = parser.parse_args()
    rank = int(os.environ.get("RANK", "0"))

    complete, table = patients(2000)
    model = MissDiff(steps=options.steps, random_state=rank).fit(table)
    imputed = model.impute_draws(table, num_draws=1)[0]
    imputed.to_csv(f"imputed-{rank}.csv", index=False)
    print(f"process {rank}: imputed-{rank}.csv, from a model on {model.device_}", flush=True)

    pressure = imputed["pressure"]
    estimates = [(pressure.mean(), pressure.var() / len(pressure))]
    if "RANK" in os.environ:  # torchrun started this process
        dist.init_process_group("gloo")
        everyone: list[list[tuple[float, float]]] = [[] for _ in range(dist.get_world_size())]
        dist.all_gather_object(everyone, estimates)
        dist.destroy_process_group()
        estimates = [estimate for own in everyone for estimate in own]
    if rank == 0 and len(estimates) > 1:
        means, variances = np.array(estimates).T
        estimate, error = pool(means, variances)
        print(f"mean pressure {estimate:.2f}, standard error {error:.2f}, from {len(estimates)} models")
        print(f"of all patients {complete['pressure'].mean():.2f}")


if __name__ == "__main__":
    main()
