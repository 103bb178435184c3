"""Conversion of NumPy arrays, and the check of fit's y."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import cast

import numpy as np
import pandas as pd


def as_frame(X: object, columns: Sequence[str | int] | None = None) -> pd.DataFrame:
    """Convert a NumPy array ``[N, D]`` to a DataFrame; return anything else unchanged, for the checks of frames.

    Parameters
    ----------
    X : ndarray or DataFrame
        The table. In an array of objects, columns that hold only numbers become numeric.
    columns : sequence, optional
        The columns that fit saw. None, in fit, names them x0, x1, ..., as scikit-learn does.

    Raises
    ------
    ValueError
        The array is not two-dimensional or is complex; in fit, it has no columns or fewer than two rows; later, it has
        another number of columns than fit saw.
    TypeError
        X is a sparse matrix.

    Examples
    --------
    >>> as_frame(np.array([[1.0, np.nan], [2.0, 3.0]])).columns.tolist()
    ['x0', 'x1']
    """
    if hasattr(X, "toarray") and hasattr(X, "nnz"):
        raise TypeError("Sparse data was passed, but dense data is required: X.toarray()")
    if not isinstance(X, np.ndarray):
        return cast(pd.DataFrame, X)
    if X.ndim != 2:
        raise ValueError(
            f"expected a 2D array of rows and columns, got {X.ndim}D. Reshape your data: X.reshape(-1, 1) if it has "
            "one column, X.reshape(1, -1) if it is one row"
        )
    if np.iscomplexobj(X):
        raise ValueError("Complex data not supported: give the real and the imaginary part a column each")
    if columns is None and len(X) < 2:
        raise ValueError(f"X has {len(X)} sample(s) (shape={X.shape}) while a minimum of 2 is required.")
    if columns is None and X.shape[1] == 0:
        raise ValueError(f"X has 0 feature(s) (shape={X.shape}) while a minimum of 1 is required.")
    names = [f"x{i}" for i in range(X.shape[1])] if columns is None else list(columns)
    if X.shape[1] != len(names):
        raise ValueError(f"X has {X.shape[1]} features, but MissDiff is expecting {len(names)} features as input")
    return pd.DataFrame(X, columns=names).infer_objects()


def refuse_column_names(y: object, X: object) -> None:
    """Raise TypeError if fit's y, which is ignored, names columns of X: a call that means ``categorical_columns``.

    Nothing else of y or X is checked here.
    """
    if isinstance(y, str):
        y = [y]
    if not isinstance(X, pd.DataFrame) or not isinstance(y, (list, tuple, pd.Index, np.ndarray)):
        return
    names = list(y) if np.iterable(y) and 0 < len(y) <= X.shape[1] else []
    if not names or not all(isinstance(name, (str, Integral)) for name in names):
        return
    if len(names) == len(X):  # one label for each row
        return
    if all(name in X.columns for name in names):
        raise TypeError(
            f"fit ignores y, got the column names {[str(name) for name in names]}: "
            "name categorical columns in the constructor, MissDiff(categorical_columns=[...])"
        )
