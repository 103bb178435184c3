"""Quality of the default model on the Census table: fidelity, utility and imputation, by mechanism and seed.

    python bench/quality.py [--mechanisms row column independent mar nmar] [--seeds 0 1 2] [--ratio 0.2] [--save]

Each run hides cells of 16,000 training rows, fits on what is left, writes 16,000 rows and fills the holes. The seed
picks the hidden cells and everything random in the model; the split into training and test rows is that of seed 0. The
4,000 test rows serve the utility alone. ``--save`` writes bench/results/census_quality.{csv,md}.
"""

from __future__ import annotations

import pandas as pd
from script import Steps, begin, keep, show
from store import describe, markdown

from missdiff_fast import MissDiff
from missdiff_fast.datasets.census import CENSUS_CONTINUOUS, census_split
from missdiff_fast.evaluate import fidelity, fill_mean_mode, imputation, utility
from missdiff_fast.missingness import MECHANISMS, hide


def run(mechanism: str, ratio: float, seed: int) -> dict[str, object]:
    """Fit, sample, impute and measure once."""
    train, test = census_split(seed=0)
    holes, observed = hide(train, mechanism, ratio, seed)
    steps = Steps()
    model = steps.take("fit", MissDiff(random_state=seed).fit, holes)
    synthetic = steps.take("sample", model.sample, len(train))
    filled = steps.take("impute", model.impute, holes)
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
    return {"mechanism": mechanism, "ratio": ratio, "seed": seed, **row, **steps.seconds()}


def main() -> None:
    """Run what the command line asks for, and print it."""
    options, rows = begin(__doc__, mechanisms=list(MECHANISMS), seeds=[0, 1, 2], ratio=0.2), []
    for mechanism in options.mechanisms:
        for seed in options.seeds:
            rows.append(run(mechanism, options.ratio, seed))
            show(rows[-1])
    table = pd.DataFrame(rows)
    means = table.groupby("mechanism", sort=False).mean(numeric_only=True).drop(columns=["seed"])
    print(means.round(4).to_string())
    if options.save:
        keep("census_quality", table, describe(options.facts), markdown(means.reset_index()), markdown(table))


if __name__ == "__main__":
    main()
