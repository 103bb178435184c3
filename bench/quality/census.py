"""census_quality.{csv,md} of bench/results: the default model on 16,000 rows of Census, taken from the runs."""

from __future__ import annotations

import json

import pandas as pd
from script import keep
from store import describe, markdown

from missdiff_fast.datasets.census import NUM_TRAIN

_MODEL = [
    *("overall", "shapes", "trends", "overall_all_pairs", "trends_all_pairs", "accuracy", "auroc"),
    *("rmse", "category_error"),
]
_SECONDS = ["fit_s", "sample_s", "impute_s"]
_PAIR = ["mechanism", "ratio", "seed"]


def figures(runs: pd.DataFrame) -> pd.DataFrame:
    """A line for each mechanism and seed: the model's measures, means' and modes' errors, and seconds."""
    whole = runs[(runs["table"] == "census") & (runs["rows"] == NUM_TRAIN) & runs["error"].isna()]
    whole = whole[~whole["quick"].astype(bool)]
    ours = whole[whole["method"] == "missdiff_fast"][[*_PAIR, *_MODEL, *_SECONDS]]
    plain = whole[whole["method"] == "mean_mode"][[*_PAIR, "rmse", "category_error"]]
    plain = plain.rename(columns={name: f"mean_mode_{name}" for name in ("rmse", "category_error")})
    both = ours.merge(plain, on=_PAIR)
    return both[[*_PAIR, *_MODEL, "mean_mode_rmse", "mean_mode_category_error", *_SECONDS]]


def save(runs: pd.DataFrame) -> None:
    """Store them, if there are any."""
    table = figures(runs)
    if not len(table):
        return
    means = table.groupby("mechanism", sort=False).mean(numeric_only=True).drop(columns=["seed"]).reset_index()
    keep("census_quality", table, *machines(runs), markdown(means), markdown(table))


def machines(runs: pd.DataFrame) -> list[str]:
    """A line for each machine, set of versions and commit that runs were made with."""
    different = runs[["machine", "versions", "threads", "commit"]].drop_duplicates()
    return [
        describe({**row, "machine": json.loads(row["machine"]), "versions": json.loads(row["versions"])})
        for row in different.to_dict("records")
    ]
