"""The figures that the paper prints."""

from __future__ import annotations

from importlib import resources

import pandas as pd


def paper_figures() -> pd.DataFrame:
    """Read the figures of the paper's tables, as printed.

    Returns
    -------
    DataFrame
        A row for each cell: ``table``, the name here; ``label``, that in the paper's source; ``mechanism``; ``method``;
        ``metric``; ``value``, NaN where the paper has "-". Fidelity and accuracy are in per cent. The imputation table
        names no mechanism; it has ``column``, the mechanism of its protocol's source.

    Examples
    --------
    >>> figures = paper_figures()
    >>> figures.loc[0, ["table", "mechanism", "method", "metric"]].tolist(), float(figures.loc[0, "value"])
    (['table1', 'row', 'missdiff-paper', 'fidelity'], 80.59)
    """
    with resources.as_file(resources.files(__package__) / "paper_figures.csv") as path:
        return pd.read_csv(path)
