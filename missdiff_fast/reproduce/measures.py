"""Measures of synthetic rows and of filled holes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from missdiff_fast.evaluate import fidelity, imputation, utility
from missdiff_fast.evaluate._scores import classification_scores, regression_scores
from missdiff_fast.evaluate._tables import in_order

if TYPE_CHECKING:
    from missdiff_fast.evaluate._models import Grid
    from missdiff_fast.reproduce.data import DataSet


def synthesis_measures(
    data: DataSet, synthetic: pd.DataFrame, *, grid: Grid | None, all_pairs: bool, seed: int
) -> dict[str, float]:
    """Measure the fidelity of synthetic rows, and their utility by each of the data set's models.

    Returns
    -------
    dict
        ``fidelity.overall``, ``.shapes``, ``.trends`` and, with `all_pairs`, ``.all_pairs``, in per cent; then
        ``<model>.<metric>`` as of `missdiff_fast.evaluate.utility`, and for regression also ``<model>.log_<metric>``,
        of log(1 + y).
    """
    continuous = list(data.continuous)
    report = fidelity(data.train, synthetic, continuous).iloc[0]
    found = {f"fidelity.{name}": float(report[name]) for name in ("overall", "shapes", "trends")}
    if all_pairs:
        found["fidelity.all_pairs"] = float(report["overall_all_pairs"])
    if not data.models:
        return found
    for log_target in (False, True) if data.regression else (False,):
        prefix = "log_" if log_target else ""
        for (model, metric), value in _utility(data, synthetic, grid, seed, log_target).items():
            found[f"{model}.{prefix}{metric}"] = value
    return found


def imputation_measures(
    data: DataSet, filled: pd.DataFrame, observed: np.ndarray, train: pd.DataFrame, test: pd.DataFrame
) -> dict[str, float]:
    """Measure how far filled test rows are from the truth, in units of the ranges of training and test rows together.

    Parameters
    ----------
    data : DataSet
        For its columns of numbers.
    filled : DataFrame
        ``[M, J]``: the test rows, filled.
    observed : ndarray
        bool ``[M, J]``, False where a cell of the test rows was hidden.
    train, test : DataFrame
        The true rows.
    """
    truth = pd.concat([train, test], ignore_index=True)
    whole = pd.concat([train, filled[list(train.columns)]], ignore_index=True)
    mask = np.concatenate([np.ones(train.shape, dtype=bool), observed])
    row = imputation(truth, whole, mask, list(data.continuous)).iloc[0]
    return {str(name): float(value) for name, value in row.items()}


def _utility(
    data: DataSet, synthetic: pd.DataFrame, grid: Grid | None, seed: int, log_target: bool
) -> dict[tuple[str, str], float]:
    train, test = data.complete()
    if synthetic[data.target].nunique() == 1:
        scores = _constant(train[data.target], test[data.target], synthetic[data.target].iloc[0], log_target)
        return {(model, metric): value for model in data.models for metric, value in scores.items()}
    choice: dict[str, Any] = {} if grid is None else {"grid": grid, "real_train": train}
    table = utility(
        synthetic,
        test,
        data.target,
        models=list(data.models),
        task="regression" if data.regression else "classification",
        continuous=list(data.continuous),
        random_state=seed,
        n_jobs=-1,
        log_target=log_target,
        **choice,
    )
    return {
        (str(model), str(metric)): float(value)
        for model, metric, value in zip(table["model"], table["metric"], table["value"], strict=True)
    }


def _constant(train: pd.Series, test: pd.Series, value: Any, log_target: bool) -> dict[str, float]:
    """Scores of a constant prediction: rows of one class teach no other."""
    if pd.api.types.is_numeric_dtype(test):
        truth, guess = test.to_numpy(float), np.full(len(test), float(value))
        return regression_scores(*((np.log1p(truth), np.log1p(guess)) if log_target else (truth, guess)))
    both = pd.concat([train, test]).astype("object")
    classes = pd.Index(in_order(both), dtype="object")
    code = int(classes.get_indexer(pd.Index([value], dtype="object"))[0])
    shares = np.bincount(classes.get_indexer(pd.Index(both)), minlength=len(classes)) / len(both)
    probability = np.zeros((len(test), len(classes)))
    probability[:, code] = 1
    truth = classes.get_indexer(pd.Index(test, dtype="object"))
    return classification_scores(truth, np.full(len(test), code), probability, shares)
