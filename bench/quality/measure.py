"""One run: hide cells, let a method fill, draw and write rows, and measure them against the truth."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from missdiff_fast.evaluate import draw_scores, fidelity, imputation, utility
from missdiff_fast.missingness import hide
from quality import methods
from quality.methods import Effort
from quality.outcome import Outcome

LEVELS = 50, 80, 95
KEY = ["table", "rows", "mechanism", "ratio", "seed", "method", "quick"]
MEASURES = [
    *("overall", "shapes", "trends", "overall_all_pairs", "trends_all_pairs", "accuracy", "auroc"),
    *("rmse", "category_error", "energy", "energy_numbers", "energy_categories"),
    *(f"coverage_{level}" for level in LEVELS),
]
SECONDS = ["fit_s", "sample_s", "impute_s", "draw_s"]
COLUMNS = [
    *KEY,
    *("columns", "missing", *MEASURES, *SECONDS),
    *("method_version", "machine", "versions", "threads", "commit", "error"),
]


def run(
    train: pd.DataFrame,
    test: pd.DataFrame,
    target: str | None,
    key: dict[str, Any],
    effort: Effort,
    python: str | None = None,
) -> dict[str, Any]:
    """Run and measure once: the measures and seconds by name; ``key`` is of `KEY`'s columns."""
    holes, observed = hide(train, key["mechanism"], key["ratio"], key["seed"])
    outcome = methods.run(key["method"], holes, key["seed"], effort, python)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of rare categories that a sample has not
        found = measure(train, test, target, outcome, observed | train.isna().to_numpy(), effort)
    return {**found, **outcome.seconds, "method_version": outcome.version}


def measure(
    train: pd.DataFrame, test: pd.DataFrame, target: str | None, outcome: Outcome, kept: np.ndarray, effort: Effort
) -> dict[str, float]:
    """All measures that the outcome allows; ``kept`` is False where a known cell was hidden.

    Fidelity and utility are those of a method's own rows, or where it writes none of the table that it filled.
    """
    rows = outcome.filled if outcome.synthetic is None else outcome.synthetic
    found: dict[str, float] = {}
    if rows is not None:
        found |= fidelity(train, rows).iloc[0].to_dict()
        if target is not None:
            found |= _useful(rows, _complete(test, train), target)
    if outcome.filled is not None:
        errors = imputation(train, outcome.filled, kept).iloc[0]
        found |= {name: float(errors[name]) for name in ("rmse", "category_error")}
    n = min(len(train), effort.draw_rows)
    if outcome.draws is not None:
        found |= _draws(train.head(n), outcome.draws, kept[:n])
    elif outcome.filled is not None:
        # One filling is a distribution without spread: its score is its absolute error, and it covers nothing.
        scores = _draws(train.head(n), [outcome.filled.head(n)] * 2, kept[:n])
        found |= {name: value for name, value in scores.items() if name.startswith("energy")}
    return found


def _draws(truth: pd.DataFrame, draws: Sequence[pd.DataFrame], kept: np.ndarray) -> dict[str, float]:
    """Energy scores, means over columns; coverage, the mean over cells."""
    scores = draw_scores(truth, draws, kept)
    kinds = scores.groupby("kind")["energy_score"].mean()
    found = {
        "energy": float(scores["energy_score"].mean()),
        "energy_numbers": float(kinds.get("continuous", np.nan)),
        "energy_categories": float(kinds.get("categorical", np.nan)),
    }
    counted = scores[scores["coverage_50"].notna()]
    for level in LEVELS:
        within = (counted[f"coverage_{level}"] * counted["hidden"]).sum()
        found[f"coverage_{level}"] = float(within / counted["hidden"].sum()) if len(counted) else np.nan
    return found


def _useful(rows: pd.DataFrame, test: pd.DataFrame, target: str) -> dict[str, float]:
    """Accuracy, in per cent, and AUROC of XGBoost; none where it has a single class to learn from."""
    if rows[target].nunique() < 2:
        return {}
    scores = utility(rows, test, target, models="xgboost").set_index("metric")["value"]
    return {"accuracy": 100 * float(scores["accuracy"]), "auroc": float(scores["auroc"])}


def _complete(test: pd.DataFrame, train: pd.DataFrame) -> pd.DataFrame:
    """Test rows, their own holes filled by the training rows' means and modes, the same for all methods."""
    columns = {}
    for name in test.columns:
        column, known = test[name], train[name].dropna()
        number = pd.api.types.is_numeric_dtype(column)
        columns[name] = column.fillna(known.mean() if number else known.mode()[0]) if column.isna().any() else column
    return pd.DataFrame(columns)
