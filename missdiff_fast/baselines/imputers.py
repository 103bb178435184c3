"""Classical imputation: mean and mode, MICE with linear models, MissForest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from missdiff_fast._checks import check_count, check_positive
from missdiff_fast.baselines._chained import ChainedImputer, means_and_modes
from missdiff_fast.baselines._encoding import EncodedCells, Encoder
from missdiff_fast.baselines._imputer import Imputer

_RIDGE = 1e-5  # relative to each predictor's sum of squares, as in the R package mice


class MeanModeImputer(Imputer):
    """Fills each hole with its column's mean, or its most frequent category (the first in order among equals).

    Means are rounded as the observed values are; see `missdiff_fast.evaluate.fill_mean_mode` for the bare mean.

    Examples
    --------
    >>> import pandas as pd
    >>> table = pd.DataFrame({"x": [1.0, 3.0, None, 5.0], "y": ["a", "b", None, "a"]})
    >>> MeanModeImputer().fit(table).impute(table).iloc[2].to_dict()
    {'x': 3.0, 'y': 'a'}
    """

    def _learn(self, encoder: Encoder, cells: EncodedCells, seed: int) -> None:
        self._means, self._modes = means_and_modes(cells, encoder.layout.cardinalities)

    def _fill(self, cells: EncodedCells) -> EncodedCells:
        return EncodedCells(
            np.where(np.isnan(cells.values), self._means, cells.values),
            np.where(cells.codes < 0, self._modes, cells.codes),
        )


class MICEImputer(ChainedImputer):
    """Multiple imputation by chained equations with linear regressions (van Buuren and Groothuis-Oudshoorn, 2011).

    One imputation, by conditional means, as it is run where the error of cells is measured. On tables of numbers it
    gives what scikit-learn's ``IterativeImputer(LinearRegression())`` gives. Categories are one-hot, and the whole
    group of a column is regressed at once on the other columns, then decoded by the greatest. (IterativeImputer
    predicts each one-hot column from the rest of its group as well. These sum to 1, so its regressions learn that sum
    in place of what the other columns tell, and it gets fewer categories right.) Regressions have the slight ridge of
    the R package mice, as one-hot groups are collinear. Numbers are kept in the observed range.

    Parameters
    ----------
    max_rounds : int
        The most rounds.
    tolerance : float
        Rounds end once no filled cell changes by more than this share of its column's range.
    **settings
        As of `missdiff_fast.baselines.MeanModeImputer`: random_state, verbose, missing_values, max_categories.

    Examples
    --------
    >>> import pandas as pd
    >>> table = pd.DataFrame({"x": [0, 1, 2, 3, 4], "y": [1.0, 3.0, None, 7.0, 9.0]})
    >>> MICEImputer().fit(table).impute(table)["y"].tolist()
    [1.0, 3.0, 5.0, 7.0, 9.0]
    """

    def __init__(self, max_rounds: int = 10, tolerance: float = 1e-3, **settings: Any) -> None:
        super().__init__(**settings)
        self.max_rounds = max_rounds
        self.tolerance = tolerance

    def _check(self) -> None:
        super()._check()
        check_positive("tolerance", self.tolerance)

    def _matrix_blocks(self, encoder: Encoder) -> list[slice]:
        return encoder.blocks()

    def _matrix(self, cells: EncodedCells) -> np.ndarray:
        return self._encoding.dense(cells)

    def _as_cells(self, matrix: np.ndarray) -> EncodedCells:
        return self._encoding.cells(matrix)

    def _first_guess(self, cells: EncodedCells) -> np.ndarray:
        return np.nanmean(self._matrix(cells), axis=0)

    def _fit_model(self, inputs: np.ndarray, targets: np.ndarray, j: int, seed: int) -> Any:
        return linear_regression(inputs, targets)

    def _predict_model(self, model: Any, inputs: np.ndarray, j: int) -> np.ndarray:
        weights, intercept = model
        predicted = inputs @ weights + intercept
        # One-hot columns are left as they are: they sum to 1, which clipping would break.
        return np.clip(predicted, 0, 1) if j < self._encoding.layout.num_continuous else predicted

    def _change(self, old: np.ndarray, new: np.ndarray, missing: np.ndarray) -> Mapping[str, float]:
        return {"greatest": float(np.abs(new - old).max(initial=0.0))}

    def _judge(self, change: Mapping[str, float], previous: Mapping[str, float] | None) -> tuple[bool, bool]:
        return True, change["greatest"] < self.tolerance


class MissForestImputer(ChainedImputer):
    """MissForest (Stekhoven and Buehlmann, 2012): chained random forests, regressors for numbers, else classifiers.

    Rounds go on until the difference between two successive rounds grows for the first time in all kinds of columns
    that have holes; the round before is the result. Forests are as in the R package missForest: 100 trees, the square
    root of the number of columns tried at each split, nodes of at most 5 rows not split in regression. Categories
    enter as codes: successive splits can pick out any set of them. Needs scikit-learn.

    Parameters
    ----------
    max_rounds, num_trees : int
        The most rounds, trees of each forest.
    n_jobs : int, optional
        Threads of a forest, as in scikit-learn.
    **settings
        As of `missdiff_fast.baselines.MeanModeImputer`: random_state, verbose, missing_values, max_categories.

    Examples
    --------
    >>> import pandas as pd
    >>> table = pd.DataFrame({"x": range(20), "y": ["low"] * 10 + ["high"] * 10})
    >>> table.loc[[2, 17], "y"] = None
    >>> MissForestImputer(num_trees=10, random_state=0).fit(table).impute(table)["y"][[2, 17]].tolist()
    ['low', 'high']
    """

    def __init__(self, max_rounds: int = 10, num_trees: int = 100, n_jobs: int | None = None, **settings: Any) -> None:
        super().__init__(**settings)
        self.max_rounds = max_rounds
        self.num_trees = num_trees
        self.n_jobs = n_jobs

    def _check(self) -> None:
        super()._check()
        check_count("num_trees", self.num_trees, least=1)

    def _matrix_blocks(self, encoder: Encoder) -> list[slice]:
        return [slice(j, j + 1) for j in range(encoder.layout.num_columns)]

    def _matrix(self, cells: EncodedCells) -> np.ndarray:
        return np.concatenate([cells.values, np.where(cells.codes < 0, np.nan, cells.codes)], axis=1)

    def _as_cells(self, matrix: np.ndarray) -> EncodedCells:
        C = self._encoding.layout.num_continuous
        return EncodedCells(matrix[:, :C], matrix[:, C:].astype(np.int64))

    def _first_guess(self, cells: EncodedCells) -> np.ndarray:
        return np.concatenate(means_and_modes(cells, self._encoding.layout.cardinalities))

    def _fit_model(self, inputs: np.ndarray, targets: np.ndarray, j: int, seed: int) -> Any:
        try:
            from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
        except ModuleNotFoundError as error:
            raise ImportError(
                f"MissForest needs the package '{error.name}': pip install 'missdiff_fast[evaluate]'", name=error.name
            ) from error
        numbers = j < self._encoding.layout.num_continuous
        forest = (RandomForestRegressor if numbers else RandomForestClassifier)(
            n_estimators=self.num_trees,
            max_features=max(1, int(np.sqrt(len(self._blocks)))),
            min_samples_split=6 if numbers else 2,
            n_jobs=self.n_jobs,
            random_state=seed % 2**32,
        )
        return forest.fit(inputs, targets[:, 0] if numbers else targets[:, 0].astype(np.int64))

    def _predict_model(self, model: Any, inputs: np.ndarray, j: int) -> np.ndarray:
        return model.predict(inputs)[:, None]

    def _change(self, old: np.ndarray, new: np.ndarray, missing: np.ndarray) -> Mapping[str, float]:
        C = self._encoding.layout.num_continuous
        change = {}
        if missing[:, :C].any():
            change["continuous"] = float(((new - old)[:, :C] ** 2).sum() / (new[:, :C] ** 2).sum())
        if missing[:, C:].any():
            change["categorical"] = float((new != old)[:, C:].sum() / missing[:, C:].sum())
        return change

    def _judge(self, change: Mapping[str, float], previous: Mapping[str, float] | None) -> tuple[bool, bool]:
        falls = previous is None or any(change[kind] < previous[kind] for kind in change)
        return falls, not falls


def linear_regression(inputs: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weights ``[P, Q]`` and intercepts ``[Q]`` of the regression of targets ``[n, Q]`` on inputs ``[n, P]``.

    By the normal equations, whose diagonal is raised by a factor of 1 + 1e-5.
    """
    centre, mean = inputs.mean(0), targets.mean(0)
    apart = inputs - centre
    gram = apart.T @ apart
    diagonal = np.diagonal(gram) * _RIDGE
    # A predictor that does not vary gets weight 0.
    gram[np.diag_indices_from(gram)] += np.where(diagonal > 0, diagonal, 1.0)
    weights = np.linalg.solve(gram, apart.T @ (targets - mean))
    return weights, mean - centre @ weights


__all__: Sequence[str] = ["MICEImputer", "MeanModeImputer", "MissForestImputer"]
