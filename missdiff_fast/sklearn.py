"""MissDiff as a transformer of scikit-learn: `MissDiffImputer`. It needs scikit-learn 1.6 or later.

    pip install "missdiff_fast[sklearn]"

scikit-learn is optional: the model and the command line do without it. Where it is installed, `missdiff_fast.MissDiff`
itself derives from its BaseEstimator, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

try:
    from sklearn import get_config
    from sklearn.base import OneToOneFeatureMixin, TransformerMixin
    from sklearn.utils.validation import check_array, check_is_fitted, validate_data
except ImportError as error:
    raise ImportError(
        'missdiff_fast.sklearn needs scikit-learn 1.6 or later: pip install "missdiff_fast[sklearn]"'
    ) from error

from missdiff_fast._frames import to_pandas
from missdiff_fast._inputs import as_frame
from missdiff_fast._parameters import Parameters
from missdiff_fast.model import MissDiff

if TYPE_CHECKING:
    from sklearn.utils import Tags
    from typing_extensions import Self

__all__ = ["MissDiffImputer"]


_EXACT = 1 << 53  # up to here float64 holds every integer


class MissDiffImputer(OneToOneFeatureMixin, TransformerMixin, Parameters):  # type: ignore[misc]
    """Fill missing cells by `MissDiff`, in scikit-learn's pipelines, column transformers and searches.

    It takes the keyword arguments of `missdiff_fast.MissDiff`, with the same defaults but one: structural holes are
    filled unless ``structural_missing`` is "keep", as most estimators take no missing cells. Columns that are not
    learnt (a warning names them: identifiers, free text, columns without an observed cell) stay as they are, holes too:
    leave them out where the next step takes no missing cells.

    Attributes
    ----------
    model_ : MissDiff
        The fitted model, for draws, probabilities and synthetic rows.
    n_features_in_ : int
        The number of columns.
    feature_names_in_ : ndarray of str
        The names of the columns, if fit got a DataFrame whose names are all strings.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> X, y = np.array([[1.0, 2.0], [np.nan, 3.0], [4.0, np.nan], [5.0, 1.0]] * 8), [0, 0, 1, 1] * 8
    >>> imputer = MissDiffImputer(steps=2, refine=0, random_state=0)
    >>> bool(np.isnan(imputer.fit_transform(X)).any())
    False
    >>> make_pipeline(imputer, LogisticRegression()).fit(X, y).predict(X[:2]).shape
    (2,)
    """

    def fit(self, X: Any, y: object = None) -> Self:
        """Learn the table's distribution from its observed cells.

        Parameters
        ----------
        X : DataFrame or array-like
            N rows; missing cells are NaN, None, NaT, pd.NA or one of ``missing_values``.
        y : ignored
            Present by scikit-learn's convention.

        Returns
        -------
        MissDiffImputer
            Itself. As with `MissDiff.fit`, an interrupted fit keeps the model trained so far. One that fails keeps no
            model, not even that of an earlier fit.

        Raises
        ------
        ValueError, TypeError
            The parameters or the table cannot be used, or X is sparse.
        FloatingPointError
            Training diverged.
        """
        self.__dict__.pop("model_", None)  # validation learns the names of the columns: no model of others stays
        table = self._validated(to_pandas(X)[0], reset=True)
        parameters = self.get_params(deep=False)
        if parameters["structural_missing"] is None:
            parameters["structural_missing"] = "fill"
        model = MissDiff(**parameters)
        try:
            model.fit(X if isinstance(table, pd.DataFrame) else table, y)
        finally:
            if model.fitted:
                self.model_ = model
        return self

    def transform(self, X: Any) -> Any:
        """Fill missing cells with conditional means (numbers, times) and most probable categories.

        Parameters
        ----------
        X : DataFrame or array-like
            Rows with the columns that fit saw.

        Returns
        -------
        DataFrame or ndarray
            Of a DataFrame of pandas or polars, or a pyarrow Table, one of its kind with its dtypes and index. Of an
            array, an array of floats, or of objects if any column is not numeric. `set_output` overrides this.

        Raises
        ------
        NotFittedError
            fit was not called.
        ValueError, TypeError
            X does not have the columns, dtypes and categories that fit saw, or is sparse.
        """
        check_is_fitted(self)
        own = X
        X, kind = to_pandas(own)
        if self._output() != "default":  # scikit-learn converts from pandas
            kind = kind.named("pandas")
        X = self._validated(X, reset=False)
        if isinstance(X, pd.DataFrame):
            if not self.model_._fitted_on_array:
                return kind.give(self.model_.impute(X), own)
            filled = self.model_.impute(X.set_axis(self.model_.columns_, axis=1))
            return kind.give(filled.set_axis(X.columns, axis=1), own)
        frame = as_frame(X, self.model_.columns_)
        filled = self.model_.impute(frame)
        if not all(pd.api.types.is_numeric_dtype(dtype) for dtype in filled.dtypes):
            return filled.to_numpy(dtype=object)
        for name, column in filled.items():
            if pd.api.types.is_integer_dtype(column.dtype) and (column.abs() > _EXACT).any():
                raise ValueError(
                    f"column {name!r} holds integers beyond 2**53, which an array of floats does not hold exactly: "
                    "pass a DataFrame"
                )
        return filled.to_numpy(dtype=X.dtype if X.dtype.kind == "f" else np.float64)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def _output(self) -> str:
        """The kind of result that `set_output` chose."""
        own: dict[str, str] = getattr(self, "_sklearn_output_config", {})
        return own.get("transform", get_config()["transform_output"])

    def _validated(self, X: Any, *, reset: bool) -> Any:
        """X as a DataFrame or an array of two axes, its number and names of columns checked."""
        array = None
        if isinstance(X, (list, tuple)) and any(isinstance(cell, str) for row in X if np.iterable(row) for cell in row):
            X = np.array(X, dtype=object)  # NumPy would make texts of the numbers and of NaN
        if not isinstance(X, pd.DataFrame):
            array = check_array(
                X,
                dtype=None,
                ensure_all_finite=False,
                ensure_min_samples=2 if reset else 0,
                estimator=self,
                input_name="X",
            )
        validate_data(self, X, reset=reset, skip_check_array=True)
        return X if array is None else array
