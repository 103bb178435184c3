"""Fidelity: how much synthetic rows look like real ones, column by column and pair by pair."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from missdiff_fast._frames import Frame
from missdiff_fast.errors import DataWarning, Text, warn
from missdiff_fast.evaluate._comparison import check_comparable
from missdiff_fast.evaluate._tables import is_time, require
from missdiff_fast.remedies import Table

if TYPE_CHECKING:
    from collections.abc import Sequence


class Fidelity(NamedTuple):
    """The scores of synthetic rows as a whole, by column and by pair of columns; all in per cent.

    Attributes
    ----------
    scores : DataFrame
        What `fidelity` gives.
    columns : DataFrame
        ``column`` and ``score`` of each column, the worst first.
    pairs : DataFrame
        ``first``, ``second`` and ``score`` of each pair of columns whose correlation is defined, the worst first; pairs
        that are hardly associated in the real table are among them, as in ``trends_all_pairs``.
    """

    scores: pd.DataFrame
    columns: pd.DataFrame
    pairs: pd.DataFrame


def fidelity(real: Frame, synthetic: Frame, continuous: Sequence[str] | None = None) -> pd.DataFrame:
    """Score synthetic rows by the SDMetrics Quality Report, in per cent; 100 is best.

    Parameters
    ----------
    real, synthetic : DataFrame
        Tables with the same columns; any number of rows each. Missing cells are left out of the comparison.
    continuous : sequence of str, optional
        The columns to be compared as numbers; dates and durations always are. Default: all with a numeric dtype.
        The others are compared as categories.

    Returns
    -------
    DataFrame
        One row: ``shapes`` (marginals: 1 - Kolmogorov-Smirnov distance, or 1 - total variation, averaged over columns),
        ``trends`` (correlations and contingency tables, averaged over pairs, NaN without any) and ``overall``, the mean
        of the two. Newer releases of SDMetrics leave pairs out that are hardly associated in the real table (0.32
        counts 13 of Census's 105), older ones do not: ``trends_all_pairs`` and ``overall_all_pairs`` count all pairs
        under every release.

    Raises
    ------
    ImportError
        Without sdmetrics.
    TypeError, ValueError
        No tables or rows; different or unknown columns; a column of numbers or dates in one table only, or of
        categories that are written alike and are not equal; one without any value, or with infinite ones.

    Warns
    -----
    UserWarning
        Of a column whose categories are all others in the synthetic table.

    Examples
    --------
    >>> table = pd.DataFrame({"x": range(100), "y": ["a"] * 50 + ["b"] * 50})
    >>> fidelity(table, table).iloc[0].to_dict()
    {'overall': 100.0, 'shapes': 100.0, 'trends': 100.0, 'overall_all_pairs': 100.0, 'trends_all_pairs': 100.0}
    """
    return fidelity_details(real, synthetic, continuous).scores


def fidelity_details(real: Frame, synthetic: Frame, continuous: Sequence[str] | None = None) -> Fidelity:
    """The scores of `fidelity`, and those of each column and each pair of columns, which tell where rows are unlike.

    Parameters
    ----------
    real, synthetic, continuous
        As of `fidelity`, which tells the errors and warnings too.

    Returns
    -------
    Fidelity
        ``scores``, ``columns`` and ``pairs``.

    Examples
    --------
    >>> table = pd.DataFrame({"x": range(100), "y": ["a"] * 50 + ["b"] * 50})
    >>> found = fidelity_details(table, table.assign(y=["a"] * 75 + ["b"] * 25))
    >>> found.columns.values.tolist()
    [['y', 75.0], ['x', 100.0]]
    >>> found.pairs.values.tolist()
    [['x', 'y', 75.0]]
    """
    real, synthetic, numbers = check_comparable(real, synthetic, continuous)
    kinds = {column: _kind(real[column], column in numbers) for column in real.columns}
    categorical = [column for column, kind in kinds.items() if kind == "categorical"]
    for column in categorical:
        if not synthetic[column].dropna().astype("object").isin(real[column].astype("object")).any():
            template = "column {column!r}: no category of {synthetic} is one of {real}"
            told = Text(template, column=column, synthetic=Table("synthetic"), real=Table("real"))
            warn(DataWarning("categories", told, columns=[column]))
    metadata = {"columns": {column: {"sdtype": kind} for column, kind in kinds.items()}}
    real, synthetic = _plain(real, kinds), _plain(synthetic, kinds)
    for column, kind in kinds.items():
        if kind == "numerical":
            real[column], synthetic[column] = _near_one(real[column], synthetic[column])
    found = _report(real, synthetic, metadata, all_pairs=False)
    shapes, trends = found.get_properties()["Score"]
    every = _report(real, synthetic, metadata, all_pairs=True)
    scores = {
        "overall": found.get_score(),
        "shapes": shapes,
        "trends": trends,
        "overall_all_pairs": every.get_score(),
        "trends_all_pairs": every.get_properties()["Score"][1],
    }
    columns, pairs = every.get_details("Column Shapes"), every.get_details("Column Pair Trends")
    return Fidelity(
        pd.DataFrame({name: [100 * float(score)] for name, score in scores.items()}),
        _worst_first(columns, {"Column": "column"}),
        _worst_first(pairs, {"Column 1": "first", "Column 2": "second"}),
    )


def _worst_first(details: pd.DataFrame, names: dict[str, str]) -> pd.DataFrame:
    """Names and scores of a report's details, those without a score left out."""
    found = details.dropna(subset="Score")
    found = found.assign(Score=100 * found["Score"].astype(float)).sort_values("Score", kind="stable")
    return found[[*names, "Score"]].rename(columns={**names, "Score": "score"}).reset_index(drop=True)


def _report(real: pd.DataFrame, synthetic: pd.DataFrame, metadata: dict[str, Any], *, all_pairs: bool) -> Any:
    """A Quality Report."""
    with warnings.catch_warnings():
        # Its successor needs other metadata and gives the same figures; older releases have only this one.
        warnings.simplefilter("ignore", FutureWarning)
        report = require("sdmetrics.reports.single_table").QualityReport()
    if all_pairs:
        report.real_correlation_threshold = report.real_association_threshold = 0
    report.generate(real, synthetic, metadata, verbose=False)
    return report


def _kind(column: pd.Series, number: bool) -> str:
    if is_time(column):
        return "datetime"
    return "numerical" if number else "categorical"


def _plain(frame: pd.DataFrame, kinds: dict[str, str]) -> pd.DataFrame:
    # SDMetrics knows neither nullable dtypes nor the pandas dtype "category" with unlike category sets.
    dtypes = {"numerical": "float64", "categorical": "object"}
    return frame.astype({column: dtypes[kind] for column, kind in kinds.items() if kind in dtypes})


def _near_one(real: pd.Series, synthetic: pd.Series) -> tuple[pd.Series, pd.Series]:
    """Scale numbers that are all tiny or huge: SDMetrics rounds to 15 decimals, and multiplies. It changes no score."""
    greatest = max(real.abs().max(), synthetic.abs().max())
    if greatest == 0 or 1e-6 < greatest < 1e100:
        return real, synthetic
    power = -int(np.frexp(greatest)[1])
    return pd.Series(np.ldexp(real, power)), pd.Series(np.ldexp(synthetic, power))
