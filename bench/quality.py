"""Quality of the default model on the Census table: fidelity, utility and imputation, by mechanism and seed.

    python bench/quality.py [--mechanisms row column independent mar nmar] [--seeds 0 1 2] [--ratio 0.2] [--save]

Each run hides cells of 16,000 training rows, fits on what is left, writes 16,000 rows and fills the holes. The seed
picks the hidden cells and everything random in the model; the split into training and test rows is that of seed 0. The
4,000 test rows serve the utility alone. ``--save`` writes bench/results/census_quality.{csv,md}.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import pandas as pd
from store import describe, markdown

from missdiff_fast import MissDiff
from missdiff_fast.datasets.census import CENSUS_CONTINUOUS, census_split
from missdiff_fast.evaluate import fidelity, fill_mean_mode, imputation, utility
from missdiff_fast.missingness import MECHANISMS, hide

RESULTS = Path(__file__).parent / "results"


def run(mechanism: str, ratio: float, seed: int) -> dict[str, object]:
    """Fit, sample, impute and measure once."""
    train, test = census_split(seed=0)
    holes, observed = hide(train, mechanism, ratio, seed)
    began = time.perf_counter()
    model = MissDiff(random_state=seed).fit(holes)
    fitted = time.perf_counter()
    synthetic = model.sample(len(train))
    sampled = time.perf_counter()
    filled = model.impute(holes)
    imputed = time.perf_counter()
    continuous = list(CENSUS_CONTINUOUS)
    scores = utility(synthetic, test, "income", models="xgboost").set_index("metric")["value"]
    errors = ["rmse", "category_error"]
    plain = fill_mean_mode(holes, continuous)
    measures = [
        fidelity(train, synthetic, continuous),
        pd.DataFrame({"accuracy": [100 * scores["accuracy"]], "auroc": [scores["auroc"]]}),
        imputation(train, filled, observed, continuous)[errors],
        imputation(train, plain, observed, continuous)[errors].add_prefix("mean_mode_"),
    ]
    row = pd.concat(measures, axis=1).iloc[0].to_dict()
    seconds = {"fit_s": fitted - began, "sample_s": sampled - fitted, "impute_s": imputed - sampled}
    return {"mechanism": mechanism, "ratio": ratio, "seed": seed, **row, **seconds}


def main() -> None:
    """Run what the command line asks for, and print it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mechanisms", nargs="+", default=list(MECHANISMS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--ratio", type=float, default=0.2)
    parser.add_argument("--save", action="store_true")
    arguments = parser.parse_args()
    machine = describe()  # before results are written, which would look like a change of the commit
    rows = []
    for mechanism in arguments.mechanisms:
        for seed in arguments.seeds:
            rows.append(run(mechanism, arguments.ratio, seed))
            print(
                {key: round(value, 4) if isinstance(value, float) else value for key, value in rows[-1].items()},
                flush=True,
            )
    table = pd.DataFrame(rows)
    means = table.groupby("mechanism", sort=False).mean(numeric_only=True).drop(columns=["seed"])
    print(means.round(4).to_string())
    if arguments.save:
        RESULTS.mkdir(exist_ok=True)
        table.round(5).to_csv(RESULTS / "census_quality.csv", index=False)
        report = f"{machine}\n\n{markdown(means.reset_index())}\n\n{markdown(table)}\n"
        (RESULTS / "census_quality.md").write_text(report)


if __name__ == "__main__":
    main()
