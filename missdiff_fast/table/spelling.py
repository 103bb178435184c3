"""Categories that a table writes with other white space or line ends than the table of fit did.

Readers differ in what they keep: `missdiff_fast.table.read_table` removes the white space around texts, and pandas does
not. So "Friday   " is the category "Friday" where fit saw only that, and the other way round.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pandas as pd

from missdiff_fast.table.cells import ColumnCells
from missdiff_fast.table.schema import Name
from missdiff_fast.table.table_cells import TableCells


def match_spelling(cells: TableCells, known: Mapping[Name, np.ndarray]) -> TableCells:
    """Cells in which texts that are no known category, but are one without white space around them, are that one.

    Parameters
    ----------
    cells : TableCells
        What was read.
    known : mapping
        The keys that fit saw in each column of texts.
    """
    found, spelling = dict[Name, ColumnCells](), dict[Name, Mapping[str, str]]()
    for name, keys in known.items():
        column = cells.found.get(name)
        if column is None or column.family != "string" or column.codes is None:
            continue
        dtype = cells.columns[name].dtype
        if isinstance(dtype, pd.CategoricalDtype) and dtype.ordered:
            continue  # the order of the texts is that of its own categories
        own = _own_texts(column.keys.tolist(), keys.tolist())
        if own:
            found[name] = _respelled(column, own)
            given = set(column.keys)
            spelling[name] = {text: key for key, text in reversed(own.items()) if text not in given}
    return replace(cells, found={**cells.found, **found}, spelling=spelling) if found else cells


def _own_texts(given: list[str], known: list[str]) -> dict[str, str]:
    """The known category of each given text that is none itself."""
    seen = set(known)
    strange = [text for text in given if text not in seen]
    if not strange:
        return {}
    plain: dict[str, list[str]] = {}
    for text in known:
        plain.setdefault(_plain(text), []).append(text)
    matches = {text: plain.get(_plain(text), []) for text in strange}
    return {text: match[0] for text, match in matches.items() if len(match) == 1}


def _plain(text: str) -> str:
    return text.strip().replace("\r\n", "\n").replace("\r", "\n")


def _respelled(cells: ColumnCells, own: Mapping[str, str]) -> ColumnCells:
    assert cells.codes is not None
    codes, keys = pd.factorize(np.array([own.get(key, key) for key in cells.keys], dtype=object))
    return ColumnCells(cells.family, keys, cells.missing, np.append(codes, -1)[cells.codes], cells.parsed).compact()
