"""The base class of estimators and the error of an estimator that is not fitted: scikit-learn's where it is installed.

scikit-learn is an optional dependency: fitting, drawing and imputing need none of it, and with it MissDiff is a
BaseEstimator, so that `sklearn.base.clone`, pipelines and searches take it. Without it the classes below do the same
for the few methods that the package itself uses. The command has these too, and so starts most of a second earlier.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from missdiff_fast import _process

__all__ = ["BaseEstimator", "NotFittedError"]


class NotFittedError(ValueError, AttributeError):
    """The estimator is used before it is fitted."""


class BaseEstimator:
    """Parameters by name, read from the signature of the constructor, which stores each under its name."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The constructor's arguments by name; ``deep`` has no effect, for no argument is an estimator."""
        return {name: getattr(self, name) for name in sorted(_arguments(type(self)))}

    def set_params(self, **params: Any) -> Any:
        """Replace arguments of the constructor, and return the estimator; ValueError for an unknown name."""
        known = sorted(_arguments(type(self)))
        for name in params:
            if name not in known:
                raise ValueError(f"invalid parameter {name!r} for {type(self).__name__}; it has {', '.join(known)}")
        vars(self).update(params)
        return self

    def __repr__(self) -> str:
        defaults = {name: argument.default for name, argument in _arguments(type(self)).items()}
        changed = [f"{name}={value!r}" for name, value in self.get_params().items() if value is not defaults[name]]
        return f"{type(self).__name__}({', '.join(changed)})"


def _arguments(estimator: type) -> dict[str, inspect.Parameter]:
    arguments = inspect.signature(estimator.__init__).parameters  # type: ignore[misc]
    return {name: argument for name, argument in arguments.items() if name != "self"}


if not TYPE_CHECKING and not _process.is_command:
    try:
        from sklearn.base import BaseEstimator
        from sklearn.exceptions import NotFittedError
    except ImportError:
        pass
