"""Utility: what a classifier trained on synthetic rows is worth on real ones."""

from __future__ import annotations

import pandas as pd

from missdiff_fast.evaluate._common import check_same_columns, require


def utility(train: pd.DataFrame, test: pd.DataFrame, target: str, positive: object = None) -> pd.DataFrame:
    """Train XGBoost (100 trees, depth 6) on one table and test it on another.

    Parameters
    ----------
    train : DataFrame
        The rows to learn from, synthetic or real.
    test : DataFrame
        Real rows that the maker of `train` has not seen, with the same columns.
    target : str
        The column to predict, with two classes.
    positive : object, optional
        The class that counts as positive; default: the last in sorted order.

    Returns
    -------
    DataFrame
        One row: ``accuracy`` in per cent, ``auroc`` in [0, 1].

    Raises
    ------
    ImportError
        Without xgboost or scikit-learn.
    ValueError
        Unlike columns, an unknown target, not two classes in either table, or an unknown `positive`.

    Examples
    --------
    >>> table = pd.DataFrame({"x": range(100), "y": ["no"] * 50 + ["yes"] * 50})
    >>> utility(table, table, target="y").iloc[0].to_dict()
    {'accuracy': 100.0, 'auroc': 1.0}
    """
    check_same_columns(train, test, ("train", "test"))
    if target not in train:
        raise ValueError(f"no column named {target!r} to predict; the table has {list(train.columns)}")
    classes = sorted(test[target].dropna().unique())
    for name, table in (("train", train), ("test", test)):
        found = sorted(table[target].dropna().unique())
        if len(found) != 2 or found != classes or table[target].isna().any():
            raise ValueError(f"column {target!r} of the {name} table must have two classes and no holes, not {found}")
    positive = classes[-1] if positive is None else positive
    if positive not in classes:
        raise ValueError(f"{positive!r} is no class of column {target!r}; it has {classes}")
    xgboost, metrics = require("xgboost"), require("sklearn.metrics")
    both = pd.concat([train, test[train.columns]]).drop(columns=target)
    features = pd.get_dummies(both).astype("float64").to_numpy()
    learn, truth = ((table[target] == positive).astype(int).to_numpy() for table in (train, test))
    model = xgboost.XGBClassifier(n_estimators=100, max_depth=6).fit(features[: len(train)], learn)
    score = model.predict_proba(features[len(train) :])[:, 1]
    accuracy = 100 * float(((score > 0.5) == truth).mean())
    return pd.DataFrame({"accuracy": [accuracy], "auroc": [float(metrics.roc_auc_score(truth, score))]})
