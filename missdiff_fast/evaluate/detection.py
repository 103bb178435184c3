"""Detection: how well a classifier tells synthetic rows from real ones."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from missdiff_fast._frames import Frame
from missdiff_fast.evaluate._comparison import Cells, encode, make_features, mean, sample_alike
from missdiff_fast.evaluate._models import grid_points, make_model
from missdiff_fast.evaluate._scores import auroc
from missdiff_fast.evaluate._tables import require

if TYPE_CHECKING:
    from collections.abc import Sequence

_FOLDS = 5
_LEAST = 10
_UNSCALED = 1e-6, 1e6


def detection(
    real: Frame,
    synthetic: Frame,
    *,
    continuous: Sequence[str] | None = None,
    random_state: int = 0,
    max_rows: int | None = 20_000,
) -> dict[str, float]:
    """Train classifiers to tell synthetic rows from real ones, and score them on rows that they have not seen.

    As many rows of both tables are compared. A table with missing cells is divided at random into rows that are
    compared and as many that lend their holes to the compared rows of the other table, so that holes tell the tables
    apart only where they depend on values. Holes of a synthetic table count likewise.

    Parameters
    ----------
    real, synthetic : DataFrame
        Tables with the same columns and ten rows or more (twenty with missing cells).
    continuous : sequence of str, optional
        The columns taken as numbers; dates and durations always are. Default: all with a numeric dtype. The others are
        taken as categories.
    random_state : int
        Picks the rows, divides them into folds and seeds the models: the same figures on the same machine.
    max_rows : int, optional
        The most rows of each table that are compared, picked at random; None compares all. More rows detect smaller
        differences: compare figures of the same number of rows alone.

    Returns
    -------
    dict
        ``auroc`` of XGBoost with its library's defaults, the mean over five folds of the rows outside of its training;
        0.5 is best, 1 worst. It falls below 0.5 where rows are copies of real ones: a copy is called real if the
        original was in training, and likewise the other way. ``logistic_score`` is that of SDMetrics'
        `LogisticDetection`, 1 best and 0 worst: 2 - 2 max(AUROC, 0.5) of a logistic regression, the mean over three
        folds. It sees no dependence between columns.

    Raises
    ------
    ImportError
        Without sdmetrics, scikit-learn or xgboost.
    TypeError, ValueError
        No tables, or of fewer rows; different or unknown columns; a column of numbers or dates in one table only, or of
        categories that are written alike and are not equal; one without any value, or with infinite ones; a
        `random_state` outside [0, 2**32).

    Notes
    -----
    XGBoost has all categories and finds missing cells by itself. SDMetrics fills missing numbers with the real table's
    mean, and is given indicators of the 100 most frequent categories of both tables together, and one of the rest; of
    columns with fewer categories its figure is that of the plain table, which it refuses if a category is in the
    synthetic table alone. Its logistic regression stops after 100 iterations, often before it converges.

    Examples
    --------
    >>> x = np.arange(200.0)
    >>> real = pd.DataFrame({"x": x, "y": x % 7})
    >>> detection(real, real.assign(y=x % 7 + 0.5), random_state=1)["auroc"]
    1.0
    """
    cells = encode(real, synthetic, continuous)
    first, second = sample_alike(*cells, max_rows=max_rows, random_state=random_state, least=_LEAST)
    features = make_features(first, second, mean(cells[0].numbers))
    with warnings.catch_warnings(), require("threadpoolctl").threadpool_limits(1):
        warnings.simplefilter("ignore")  # the logistic regression does not converge in 100 iterations, as expected
        return {
            "auroc": _boosted(first, second, random_state),
            "logistic_score": _logistic(*features, random_state),
        }


def _boosted(real: Cells, synthetic: Cells, random_state: int) -> float:
    """The mean AUROC of XGBoost on each fold, trained on the other folds."""
    count = len(real.numbers)
    columns: dict[str, pd.Series | pd.Categorical] = {}
    for j, x in enumerate(np.concatenate([real.numbers, synthetic.numbers]).T):
        # Trees need the order of numbers alone, and XGBoost holds float32: ranks are exact.
        columns[f"number {j}"] = pd.Series(x).rank(method="dense").astype("float32")
    for j, codes in enumerate(np.concatenate([real.codes, synthetic.codes]).T):
        columns[f"category {j}"] = pd.Categorical.from_codes(codes, pd.RangeIndex(codes.max() + 1))
    x, is_real = pd.DataFrame(columns), np.repeat([1, 0], count)
    fold = np.tile(np.random.default_rng(random_state).permutation(count) % _FOLDS, 2)
    (point,) = grid_points("xgboost", None)
    found = []
    for k in range(_FOLDS):
        model = make_model("xgboost", "classification", point, random_state)
        model.set_params(enable_categorical=True, tree_method="hist").fit(x[fold != k], is_real[fold != k])
        found.append(auroc(is_real[fold == k] > 0, model.predict_proba(x[fold == k])[:, 1]))
    return float(np.mean(found))


def _logistic(real: np.ndarray, synthetic: np.ndarray, random_state: int) -> float:
    """SDMetrics' score of features ``[N, F]`` and ``[N, F]``."""
    # It divides by the distance of the quartiles, if that is not 0; otherwise no greater numbers than its solver copes
    # with may reach it, and no smaller ones than it takes for 0.
    greatest = np.maximum(np.abs(real).max(axis=0), np.abs(synthetic).max(axis=0))
    least, most = _UNSCALED
    odd = (greatest > 0) & ((greatest < least) | (greatest > most))
    power = np.where(odd, -np.frexp(greatest)[1], 0)
    names = [f"feature {j}" for j in range(real.shape[1])]
    tables = [pd.DataFrame(np.ldexp(x, power), columns=names) for x in (real, synthetic)]
    metadata = {"columns": {name: {"sdtype": "numerical"} for name in names}}
    state = np.random.get_state()
    np.random.seed(random_state)
    try:
        return float(require("sdmetrics.single_table").LogisticDetection.compute(*tables, metadata))
    finally:
        np.random.set_state(state)
