"""Texts among numbers or dates: marks of missing cells, limits of measurement such as ``<0.1``, and codes."""

from __future__ import annotations

import re
from collections.abc import Mapping

from missdiff_fast.table.dates import DATE, DURATION

MOST_NAMED = 12  # a column of more such texts is not mended by naming each
SHOWN = 3
_NUMBER = r"[+-]?(\d+[.,]?\d*|[.,]\d+)(e[+-]?\d+)?"
_LIMIT = re.compile(rf"([<>]=?|[≤≥~≈])\s*{_NUMBER}|{_NUMBER}\s*[*+!^†‡]+", re.IGNORECASE)


def looks_numeric(text: str) -> bool:
    """Whether a text is a number, with either decimal mark."""
    return re.fullmatch(_NUMBER, text, re.IGNORECASE) is not None


def is_limit(text: str) -> bool:
    """Whether a text is a number with a sign of its own: a limit of measurement, or a note beside a value.

    >>> is_limit("<0.1"), is_limit("> 89"), is_limit("3.2*"), is_limit("V45")
    (True, True, True, False)
    """
    return _LIMIT.fullmatch(text) is not None


def is_mark(text: str) -> bool:
    """Whether a text is no word, number or code: it has no letter and no digit, or is an error of a spreadsheet.

    >>> is_mark("?"), is_mark("#REF!"), is_mark("V45")
    (True, True, False)
    """
    return text.startswith("#") or not any(sign.isalnum() for sign in text)


def texts_among_numbers(counts: Mapping[str, int]) -> dict[str, int]:
    """The texts of a column of mostly numbers or dates that are none, with their counts, the most frequent first.

    Parameters
    ----------
    counts : mapping
        Each distinct text, and how many cells have it.

    Returns
    -------
    dict
        Empty for a column of texts.

    Examples
    --------
    >>> texts_among_numbers({"1.5": 3, "<0.1": 2, "2": 4, "#REF!": 1}), texts_among_numbers({"a": 5, "1": 2, "?": 1})
    ({'<0.1': 2, '#REF!': 1}, {})
    """
    odd, plain, words, like_numbers = dict[str, int](), 0, 0, 0
    for text, count in counts.items():
        if looks_numeric(text) or DATE.fullmatch(text) or DURATION.fullmatch(text):
            plain, like_numbers = plain + 1, like_numbers + count
            continue
        odd[text] = count
        if is_limit(text):
            like_numbers += count
        words += not (is_limit(text) or is_mark(text))
    if not plain or 2 * like_numbers <= sum(counts.values()) or words >= plain:
        return {}
    return dict(sorted(odd.items(), key=lambda item: (-item[1], item[0])))


def listed(texts: Mapping[str, int]) -> str:
    """Texts with their counts, the first few of them.

    >>> listed({"<0.1": 1200, "*": 1})
    "'<0.1' in 1,200 cells, '*' in 1 cell"
    """
    shown = [f"{text!r} in {in_cells(count)}" for text, count in list(texts.items())[:SHOWN]]
    more = f", and {len(texts) - SHOWN:,} more" if len(texts) > SHOWN else ""
    return ", ".join(shown) + more


def in_cells(count: int) -> str:
    """A number of cells in words."""
    return f"{count:,} cell{'' if count == 1 else 's'}"
