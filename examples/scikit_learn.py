"""Imputation inside cross-validation and a grid search, by scikit-learn.

python examples/scikit_learn.py [--steps N]
"""

from __future__ import annotations

import argparse

import numpy as np
from sklearn.datasets import load_wine
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from missdiff_fast.sklearn import MissDiffImputer


def main() -> None:
    """Classify wines of which 30 % of the measurements are missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, help="training steps; default: the model's choice")
    steps = parser.parse_args().steps

    X, y = load_wine(return_X_y=True, as_frame=True)
    X = X.mask(np.random.default_rng(0).random(X.shape) < 0.3)
    imputer = MissDiffImputer(steps=steps, random_state=0)
    for name, filled in (("column means", SimpleImputer()), ("MissDiffImputer", imputer)):
        pipeline = make_pipeline(filled, StandardScaler(), LogisticRegression(max_iter=1000))
        print(f"{name:16} accuracy {cross_val_score(pipeline, X, y, cv=3).mean():.3f}")

    # The pipeline of the last round: the imputer is fitted anew to the training rows of every fold.
    search = GridSearchCV(pipeline, {"missdiffimputer__refine": [0, 1]}, cv=2).fit(X, y)
    print(f"best of the search: {search.best_params_}, accuracy {search.best_score_:.3f}")


if __name__ == "__main__":
    main()
