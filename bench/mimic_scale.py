"""A fit of the default model and as many rows drawn, as rows grow: the simulated table of MIMIC4ED's shape.

    python bench/mimic_scale.py [--rows 353150] [--seeds 0 1 2] [--threads 2] [--save]

A tenth of the rows with the first seed, then all of them with each. Every run is a fresh process, whose peak memory the
system tells. Fidelity is that of 100,000 of the rows drawn to 100,000 of those fitted, both chosen at random: of fewer
rows the correlations of rare counts vary too much. Beside it that of as many fresh rows of the simulation. ``--save``
writes bench/results/mimic_scale.json.
"""

from __future__ import annotations

import json
from typing import Any

import pandas as pd
import store
from script import Steps, begin, run_alone, show
from timing import FULL_SIZE

from missdiff_fast import MissDiff
from missdiff_fast.datasets import simulate_mimic4ed
from missdiff_fast.datasets.mimic4ed import MIMIC4ED_CONTINUOUS
from missdiff_fast.evaluate import fidelity

COMPARED = 100_000


def run(rows: int, seed: int) -> dict[str, Any]:
    """Seconds, peak memory and fidelity of one fit and its draws."""
    frame, steps = simulate_mimic4ed(rows, random_state=seed), Steps()
    model = steps.take("fit", MissDiff(random_state=seed, verbose=False).fit, frame)
    drawn = steps.take("sample", model.sample, rows)
    real, drawn = (table.sample(min(COMPARED, rows), random_state=seed) for table in (frame, drawn))
    fresh = simulate_mimic4ed(len(real), random_state=1000 + seed)
    found = {name: _scores(real, table) for name, table in (("fidelity", drawn), ("fidelity_of_fresh_rows", fresh))}
    return {"rows": rows, "seed": seed, "steps": steps.found, **found}


def _scores(real: pd.DataFrame, other: pd.DataFrame) -> dict[str, float]:
    scores = fidelity(real, other, continuous=list(MIMIC4ED_CONTINUOUS)).iloc[0]
    return {name: float(scores[name]) for name in ("overall", "shapes", "trends", "overall_all_pairs")}


def main() -> None:
    """Run what the command line asks for, and print it."""
    options = begin(__doc__, rows=FULL_SIZE, seeds=[0, 1, 2], threads=2, child=False)
    rows, seeds, threads = options.rows, options.seeds, options.threads
    if options.child:
        print(json.dumps(run(rows, seeds[0])))
        return
    print(store.describe(options.facts))
    runs = []
    for size, seed in [(rows // 10, seeds[0]), *((rows, seed) for seed in seeds)]:
        runs.append(run_alone(__file__, rows=size, seeds=seed, threads=threads))
        show(runs[-1])
    if options.save:
        store.write(store.SCALE, {**options.facts, "runs": runs})


if __name__ == "__main__":
    main()
