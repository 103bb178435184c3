"""Texts that usually stand for a missing cell, such as ``?``, and the columns of numbers or dates that have them."""

from __future__ import annotations

from collections.abc import Mapping

from missdiff_fast.errors import DataWarning, warn
from missdiff_fast.remedies import Pass
from missdiff_fast.table.odd_texts import SHOWN, by_text, listed_with_columns
from missdiff_fast.table.schema import Name

_DASHES = ("-", "--", "---", "\u2013", "\u2014")
_SIGNS = frozenset(("?", "??", "???", ".", "..", "...", *_DASHES, "*", "**", "***", "#", "##", "###"))
# In small letters. Not "none" or "nil", which may be 0; not "nd", "neg" or "bdl", which may be below a limit of
# detection; not "refused" or "not applicable", which are answers.
_WORDS = frozenset(
    (
        *("na", "n.a.", "nan", "-nan", "nat", "null", "#na", "unknown", "unk", "unkn", "missing", "miss"),
        *("not done", "not known", "not recorded", "not measured", "not available", "no data", "n.d.", "n. d."),
        *("k.a.", "k. a.", "k.a", "keine angabe", "unbekannt", "fehlt"),
    )
)


def is_usual_mark(text: str) -> bool:
    """Whether a text, without white space around it, usually stands for a missing cell.

    >>> is_usual_mark("?"), is_usual_mark("Unknown"), is_usual_mark("k.A."), is_usual_mark("none"), is_usual_mark("+")
    (True, True, True, False, False)
    """
    return text in _SIGNS or text.lower() in _WORDS


def warn_of_usual_marks(found: Mapping[Name, Mapping[str, int]], source: str) -> None:
    """Warn of marks that were read as missing: their counts, by column and text."""
    if not found:
        return
    places = by_text(found)
    often = list(places)
    were = "were" if len(often) > 1 else "was"
    problem = f"{source}: {listed_with_columns(places)}, among numbers or dates, {were} read as missing"
    columns = [str(name) for name in found]
    goal = f"read the column{'s' if len(columns) > 1 else ''} as text,"
    if len(columns) > SHOWN:  # a table may have hundreds
        goal = f"read the {len(columns):,} columns as text, the first of them by"
    remedies = [
        Pass("string_columns", columns[:SHOWN], goal=goal, when="if they are values"),
        Pass("missing_values", often, goal="name them,", when="if they are missing in columns of text, too"),
    ]
    warn(DataWarning("usual marks", problem, columns=list(found), value=often, remedy=remedies, joint="; "))
