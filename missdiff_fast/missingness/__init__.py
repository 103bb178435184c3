"""Hiding cells of a table: completely at random, at random, and not at random.

The paper's five mechanisms. Completely at random (MCAR): ``row``, ``column`` and ``independent``. At random (``mar``)
and not at random (``nmar``): the logistic masks of Muzellec et al. (2020), Missing Data Imputation using Optimal
Transport, whose inputs are the columns that the mask of every other column depends on.

Tables may be DataFrames of pandas or polars or Tables of pyarrow; `hide` gives one of the same kind.
"""

from missdiff_fast.missingness.mechanisms import (
    MECHANISMS,
    TARGETS,
    Mechanism,
    Target,
    hide,
    missing_probability,
    observed_mask,
)

__all__ = ["MECHANISMS", "TARGETS", "Mechanism", "Target", "hide", "missing_probability", "observed_mask"]
