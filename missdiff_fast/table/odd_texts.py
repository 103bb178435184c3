"""Texts among numbers or dates: marks of missing cells, limits of measurement such as ``<0.1``, and codes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from missdiff_fast.remedies import Do, Pass, Remedy
from missdiff_fast.table.date_forms import is_date_or_time
from missdiff_fast.table.dates import DATE, DURATION
from missdiff_fast.table.limits import is_limit, read_texts
from missdiff_fast.table.literals import marks_dates
from missdiff_fast.table.schema import Name

MOST_NAMED = 12  # a column of more such texts is not mended by naming each
SHOWN = 3
_MOST_GIVEN = 30  # texts that one remedy names
_NUMBER = r"[+-]?(\d+[.,]?\d*|[.,]\d+)(e[+-]?\d+)?"
_IS_NUMBER = re.compile(_NUMBER, re.IGNORECASE)
_RATIO = re.compile(r"\d+:\d+", re.ASCII)
_NOTE = re.compile(rf"([<>]=?|[≤≥~≈])\s*{_NUMBER}|{_NUMBER}\s*[*+!^†‡]+", re.IGNORECASE)


def looks_numeric(text: str) -> bool:
    """Whether a text is a number, with either decimal mark."""
    return _IS_NUMBER.fullmatch(text) is not None


def has_note(text: str) -> bool:
    """Whether a text is a number with a sign of its own: a limit of measurement, or a note beside a value.

    >>> has_note("<0.1"), has_note("> 89"), has_note("3.2*"), has_note("V45")
    (True, True, True, False)
    """
    return _NOTE.fullmatch(text) is not None


def is_mark(text: str) -> bool:
    """Whether a text is no word, number or code: it has no letter and no digit, or is an error of a spreadsheet.

    >>> is_mark("?"), is_mark("#REF!"), is_mark("V45")
    (True, True, False)
    """
    return text.startswith("#") or not any(sign.isalnum() for sign in text)


def texts_among_numbers(counts: Mapping[str, int], decimal: str | None = None) -> dict[str, int]:
    """The texts of a column of mostly numbers or dates that are none, with their counts, the most frequent first.

    Parameters
    ----------
    counts : mapping
        Each distinct text, and how many cells have it.
    decimal : str, optional
        The decimal mark, if it is known.

    Returns
    -------
    dict
        Empty for a column of texts. Limits such as ``<0.1`` are numbers where the column is read as numbers but for the
        other texts.

    Examples
    --------
    >>> texts_among_numbers({"1.5": 3, "<0.1": 2, "2": 4, "#REF!": 1}), texts_among_numbers({"a": 5, "1": 2, "?": 1})
    ({'<0.1': 2, '#REF!': 1}, {})
    >>> texts_among_numbers({"1.5": 3, "<0.1": 2, "2": 4, "3": 1, "#REF!": 1})
    {'#REF!': 1}
    >>> texts_among_numbers({"2022-08-27": 3, "0": 1})
    {'0': 1}
    """
    odd, words = dict[str, int](), 0
    numbers, dates = dict[str, int](), dict[str, int]()
    # Among ratios and titres, such as 1:80, those like 1:40 are no times of day.
    ratios = any(_RATIO.fullmatch(text) and not is_date_or_time(text) for text in counts)
    for text, count in counts.items():
        local = is_date_or_time(text) and not (ratios and _RATIO.fullmatch(text))
        if looks_numeric(text):
            numbers[text] = count
        elif DATE.fullmatch(text) or DURATION.fullmatch(text) or local:
            dates[text] = count
        else:
            odd[text] = count
            words += not (has_note(text) or is_mark(text))
    # Dates among numbers are as odd as numbers among dates.
    all_, of_dates, of_numbers = sum(counts.values()), sum(dates.values()), sum(numbers.values())
    alike = of_dates + of_numbers + sum(count for text, count in odd.items() if has_note(text))
    few, many = (numbers, of_dates) if of_dates > of_numbers else (dates, of_numbers)
    odd |= few if 3 * sum(few.values()) <= many else {}
    # Few distinct numbers beside words may be codes; dates are none.
    are_codes = words >= len(numbers) + len(dates) and 2 * of_dates <= all_
    if not (numbers or dates) or 2 * alike <= all_ or are_codes:
        return {}
    limits = {text for text in odd if is_limit(text.strip())}
    if limits:
        rest = [text.strip() for text in counts if text not in odd or text in limits]
        found = read_texts(rest, decimal)
        if found is not None and found.are_censored():
            odd = {text: count for text, count in odd.items() if text not in limits}
    return dict(sorted(odd.items(), key=lambda item: (-item[1], item[0])))


def listed(texts: Mapping[str, int]) -> str:
    """Texts with their counts, the first few of them.

    >>> listed({"<0.1": 1200, "*": 1})
    "'<0.1' in 1,200 cells, '*' in 1 cell"
    """
    shown = [f"{text!r} in {in_cells(count)}" for text, count in list(texts.items())[:SHOWN]]
    more = f", and {len(texts) - SHOWN:,} more" if len(texts) > SHOWN else ""
    return ", ".join(shown) + more


def by_text(found: Mapping[Name, Mapping[str, int]]) -> dict[str, dict[Name, int]]:
    """How many cells of which columns have each text; those of the most columns and cells come first.

    Parameters
    ----------
    found : mapping
        The texts of each column, with their counts.

    Examples
    --------
    >>> by_text({"a": {"?": 1}, "b": {"-": 2, "?": 3}})
    {'?': {'a': 1, 'b': 3}, '-': {'b': 2}}
    """
    places: dict[str, dict[Name, int]] = {}
    for name, texts in found.items():
        for text, count in texts.items():
            places.setdefault(text, {})[name] = count
    return dict(sorted(places.items(), key=lambda item: (-len(item[1]), -sum(item[1].values()), item[0])))


def listed_with_columns(places: Mapping[str, Mapping[Name, int]]) -> str:
    """The first few of what `by_text` gives, in words.

    >>> listed_with_columns({"?": {"a": 1, "b": 3}, "-": {"b": 2}})
    "'?' in 4 cells of 2 columns ('a', 'b'); '-' in 2 cells of column 'b'"
    """
    each = []
    for text, counts in list(places.items())[:SHOWN]:
        names = ", ".join(map(repr, list(counts)[:SHOWN])) + (", ..." if len(counts) > SHOWN else "")
        columns = f"column {names}" if len(counts) == 1 else f"{len(counts)} columns ({names})"
        each.append(f"{text!r} in {in_cells(sum(counts.values()))} of {columns}")
    return "; ".join(each) + (f"; and {len(places) - SHOWN} more" if len(places) > SHOWN else "")


def as_missing(texts: Sequence[str]) -> list[Remedy]:
    """How to have cells with these texts missing: by naming those that empty no cells of other columns.

    >>> print(*as_missing(["later", "14:05"]), sep="; ")
    if they stand for missing cells, name them, missing_values=['later']; if they stand for missing cells, leave the \
cells of '14:05' empty
    """
    missing = "if they stand for missing cells"
    remedies: list[Remedy] = []
    # As missing values of the table, numbers, dates and times would empty cells of other columns.
    others = [text for text in texts if looks_numeric(text) or marks_dates(text)]
    if named := [text for text in texts if text not in others][:_MOST_GIVEN]:
        remedies.append(Pass("missing_values", named, goal="name them,", when=missing))
    if others:
        shown = " and ".join(map(repr, others[:SHOWN])) + (" and the like" if len(others) > SHOWN else "")
        remedies.append(Do(f"leave the cells of {shown} empty", when=missing))
    return remedies


def in_cells(count: int) -> str:
    """A number of cells in words."""
    return f"{count:,} cell{'' if count == 1 else 's'}"
