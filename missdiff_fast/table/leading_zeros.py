"""Numbers with leading zeros, such as ``007``: identifiers are read as texts, and of others it is told."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pandas as pd

from missdiff_fast.errors import DataWarning, warn
from missdiff_fast.remedies import Pass
from missdiff_fast.table.identifiers import are_identifiers
from missdiff_fast.table.odd_texts import SHOWN
from missdiff_fast.table.schema import Name
from missdiff_fast.table.text_parsing import TextParser
from missdiff_fast.table.text_rows import WHITESPACE

_PADDED = re.compile(r"[+-]?0\d")


def texts_with_zeros(parser: TextParser, columns: Sequence[Name]) -> pd.DataFrame:
    """Those of some columns of numbers in which a number has leading zeros, as texts."""
    if not len(columns) or not _may_have_zeros(parser):
        return pd.DataFrame()
    found = list[Name]()
    for part in parser.parts_of_texts(columns):
        for name in [name for name in columns if name not in found]:
            if any(_PADDED.match(text.strip()) for text in part[name].dropna().unique()):
                found.append(name)
    return parser.texts(found) if found else pd.DataFrame()


def _may_have_zeros(parser: TextParser) -> bool:
    """Whether there may be a number with leading zeros among the cells of a text."""
    mark = parser.separator
    end = r"\s" if mark == WHITESPACE else rf"{re.escape(mark)}\n"
    # The engine jumps from one zero to the next, and looks behind only those before a digit.
    start = rf'0\d(?:(?<=[{end} \t"]0\d)|(?<=[{end} \t"][+-]0\d))'
    rest = rf'\d*(?:{re.escape(parser.decimal)}\d*)?(?:[eE][+-]?\d+)?[ \t"]*(?:$|[{end}])'
    pattern = re.compile(start + rest, re.ASCII)
    return any(pattern.search(f"\n{piece}") for piece in parser.pieces())


def padded_identifiers(texts: pd.DataFrame) -> list[str]:
    """The columns of numbers that are identifiers with leading zeros; ``texts`` are their cells as written."""
    found = list[str]()
    for name in texts.columns:
        cells = texts[name].dropna().astype(str).str.strip()
        distinct = cells.unique().tolist()
        if any(map(_PADDED.match, distinct)) and are_identifiers(name, distinct, len(cells)):
            found.append(name)
    return found


def warn_of_zeros(texts: pd.DataFrame, source: str) -> None:
    """Warn of leading zeros in columns that were read as numbers; `texts` are their cells as written."""
    cells = {name: texts[name].dropna().astype(str).str.strip().unique() for name in texts.columns}
    padded = {name: next((text for text in column if _PADDED.match(text)), None) for name, column in cells.items()}
    found = {name: text for name, text in padded.items() if text is not None}
    if found:
        each = ", ".join(f"{text!r} in column {name!r}" for name, text in list(found.items())[:SHOWN])
        more = f", and in {len(found) - SHOWN} more" if len(found) > SHOWN else ""
        problem = f"{source}: columns of numbers lose leading zeros ({each}{more})"
        names = [str(name) for name in found]
        remedy = Pass("string_columns", names, goal="read them as text,", when="if they are codes")
        warn(DataWarning("zeros", problem, columns=list(found), remedy=remedy))
