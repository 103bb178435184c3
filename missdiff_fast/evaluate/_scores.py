"""Scores of predictions: those of classifiers are shares in [0, 1], those of regressors in the target's units."""

from __future__ import annotations

import numpy as np


def class_f1(truth: np.ndarray, predicted: np.ndarray, num_classes: int) -> np.ndarray:
    """Give the F1 of each class against the rest, float64 ``[K]``: 2 TP / (2 TP + FP + FN), 0 for 0/0.

    Parameters
    ----------
    truth, predicted : ndarray
        int ``[N]``, codes of classes.
    num_classes : int
        K, larger than any code.

    Examples
    --------
    >>> class_f1(np.array([0, 0, 1, 1]), np.array([0, 1, 1, 1]), 2).round(3).tolist()
    [0.667, 0.8]
    """
    hits = np.bincount(truth[truth == predicted], minlength=num_classes)
    named = np.bincount(truth, minlength=num_classes) + np.bincount(predicted, minlength=num_classes)
    return np.asarray(2 * hits / np.maximum(named, 1), dtype=float)


def weighted_f1(f1: np.ndarray, shares: np.ndarray) -> float:
    """Average the F1 of K classes with the weights (1 - p_i) / (K - 1), which favour rare classes and add up to 1.

    Source: Ouyang et al. (2023), MissDiff, appendix; Kim et al. (2023), STaSy. This is not scikit-learn's
    ``average="weighted"``, which favours frequent classes.

    Parameters
    ----------
    f1 : ndarray
        float64 ``[K]``.
    shares : ndarray
        float64 ``[K]``, each class's share p of the rows; their sum is 1.

    Examples
    --------
    >>> weighted_f1(np.array([0.9, 0.5]), np.array([0.8, 0.2]))  # 0.2 * 0.9 + 0.8 * 0.5
    0.58
    """
    return float(((1 - shares) / (len(f1) - 1) * f1).sum())


def classification_scores(
    truth: np.ndarray, predicted: np.ndarray, probability: np.ndarray, shares: np.ndarray
) -> dict[str, float]:
    """Score a classifier's predictions.

    Parameters
    ----------
    truth, predicted : ndarray
        int ``[N]``. The codes 0 ... K - 1 are the classes of the real data; with two of them 1 is the positive one. A
        prediction may be a higher code, of a class that only the rows learnt from have.
    probability : ndarray
        float ``[N, K]``, of the classes of the real data.
    shares : ndarray
        float64 ``[K]``, the shares of the classes for `weighted_f1`.

    Returns
    -------
    dict
        ``accuracy``; ``binary_f1`` of the positive class, with two classes only; ``macro_f1``, the mean over classes
        that are in `truth` or predicted; ``weighted_f1``; ``auroc``, with more than two classes the mean over those in
        `truth` of one against the rest.
    """
    count = len(shares)
    f1 = class_f1(truth, predicted, max(count, int(predicted.max()) + 1))
    seen = np.union1d(truth, predicted)
    scores = {"accuracy": float((truth == predicted).mean())}
    if count == 2:
        scores["binary_f1"] = float(f1[1])
    scores["macro_f1"] = float(f1[seen].mean())
    scores["weighted_f1"] = weighted_f1(f1[:count], shares)
    asked = [1] if count == 2 else np.unique(truth)
    scores["auroc"] = float(np.mean([auroc(truth == k, probability[:, k]) for k in asked]))
    return scores


def regression_scores(truth: np.ndarray, predicted: np.ndarray) -> dict[str, float]:
    """Give ``rmse``, in the target's units, and ``r2``, the share of the target's variance that is explained.

    Examples
    --------
    >>> regression_scores(np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.0, 4.0]))["r2"]  # 1 - 1/2
    0.5
    """
    squares = (truth - predicted) ** 2
    spread = (truth - truth.mean()) ** 2
    return {"rmse": float(np.sqrt(squares.mean())), "r2": float(1 - squares.sum() / spread.sum())}


def auroc(positive: np.ndarray, score: np.ndarray) -> float:
    """Area under the ROC curve of scores ``[N]``, given which rows are positive, bool ``[N]``.

    Examples
    --------
    >>> auroc(np.array([False, True, True]), np.array([0.2, 0.2, 0.9]))
    0.75
    """
    # Mann and Whitney's statistic: the share of pairs in the right order, a tie counting one half.
    _, place, count = np.unique(score, return_inverse=True, return_counts=True)
    rank = (np.cumsum(count) - (count - 1) / 2)[place]
    ones = int(positive.sum())
    return float((rank[positive].sum() - ones * (ones + 1) / 2) / (ones * (len(positive) - ones)))
