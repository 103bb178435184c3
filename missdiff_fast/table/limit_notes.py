"""What is said of columns of numbers with limits of measurement, such as ``<0.1``."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from missdiff_fast.errors import DataWarning, warn
from missdiff_fast.remedies import Pass, Remedy, Treat
from missdiff_fast.table.cells import ColumnCells
from missdiff_fast.table.limits import is_limit
from missdiff_fast.table.odd_texts import MOST_NAMED, SHOWN, listed
from missdiff_fast.table.schema import Name
from missdiff_fast.table.table_cells import TableCells


def limit_counts(cells: ColumnCells) -> dict[str, int]:
    """The limits of a column as texts and how many cells have each, the most frequent first."""
    if cells.censored is None:
        return {}
    texts = dict(cells.censored.limits)
    values, counts = np.unique(cells.observed, return_counts=True)
    found = {texts[value]: int(count) for value, count in zip(values.tolist(), counts, strict=True) if value in texts}
    return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))


def warn_of_limits(cells: TableCells, treatments: Mapping[Name, str]) -> None:
    """Warn of numbers with limits whose column's treatment was not set, at the line outside of this package."""
    found = {name: limit_counts(column) for name, column in cells.found.items() if name not in treatments}
    found = {name: limits for name, limits in found.items() if limits}
    if not found:
        return
    each = "; ".join(f"column {name!r} holds {listed(limits)}" for name, limits in list(found.items())[:SHOWN])
    more = f"; and {len(found) - SHOWN} other columns hold some" if len(found) > SHOWN else ""
    problem = f"{each}{more}: limits of measurement are learnt as values just beyond their numbers, and written back"
    remedies: list[Remedy] = [Treat(dict.fromkeys(found, "continuous"), when="to silence this")]
    texts = list(dict.fromkeys(text for name in found for text in _spellings(cells.columns[name])))
    if len(texts) <= MOST_NAMED:
        remedies.append(Pass("missing_values", texts, goal="name them,", when="if they stand for missing cells"))
    remedies.append(Treat(dict.fromkeys(found, "categorical"), when="if they are categories"))
    warning = DataWarning("limits", problem, columns=list(found), value=texts, remedy=remedies, joint="; ")
    warn(warning)


def _spellings(column: pd.Series) -> list[str]:
    """The limits of a column, each as often as it is written in another way."""
    return [cell for cell in column.dropna().unique() if isinstance(cell, str) and is_limit(cell.strip())]
