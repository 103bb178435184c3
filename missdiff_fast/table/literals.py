"""Exact reading of numbers and dates from text."""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np
import pandas as pd

from missdiff_fast.table.date_forms import split, to_iso
from missdiff_fast.table.dates import DATE, are_partly_zoned, has_zone, parse_dates, read_dates

EXACT = 2**53  # from here on float64 cannot represent all whole numbers
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
_WHOLE = re.compile(r"[+-]?\d{1,999}", re.ASCII)


def are_whole_texts(texts: Iterable[str]) -> bool:
    """Whether all texts are whole numbers without a point or an exponent."""
    return all(_WHOLE.fullmatch(text) for text in texts)


def read_numbers(texts: list[str], decimal: str = ".") -> np.ndarray | None:
    """The numbers in texts; None if one is not a number, or no dtype holds them all.

    Parameters
    ----------
    texts : list of str
        Without white space around them.
    decimal : str
        The decimal mark.

    Returns
    -------
    ndarray or None
        int64, else uint64, where all are whole; else float64, each the nearest to its text.

    Examples
    --------
    >>> read_numbers(["9007199254740993", "-7"]), read_numbers(["1e3", "0.1"]), read_numbers(["-1", str(2**63)])
    (array([9007199254740993,               -7]), array([1.e+03, 1.e-01]), None)
    """
    plain = _plain(texts, decimal)
    if plain is None:
        return None
    if are_whole_texts(plain):
        whole = [int(text) for text in plain]
        for dtype in (np.int64, np.uint64):
            reach = np.iinfo(dtype)
            if all(reach.min <= number <= reach.max for number in whole):
                return np.array(whole, dtype=dtype)
        return None
    numbers = np.array([float(text) for text in plain])
    return numbers if np.isfinite(numbers).all() else None


def are_large(numbers: np.ndarray) -> bool:
    """Whether float64 might round some of these, which are integers."""
    if numbers.dtype.kind not in "iu" or not len(numbers):
        return False
    return int(numbers.min()) <= -EXACT or int(numbers.max()) >= EXACT


def find_unheld(texts: list[str], decimal: str) -> tuple[str, list[str]]:
    """The kind of cell that no dtype holds, in words, and such texts; "" and [] without numbers or dates."""
    plain = _plain(texts, decimal)
    if plain is not None and are_whole_texts(plain):
        least, most = np.iinfo(np.int64), np.iinfo(np.uint64)
        signed = any(int(text) < 0 for text in plain)
        top = least.max if signed else most.max
        return "no whole number of 64 bits", [text for text in plain if not least.min <= int(text) <= top]
    if plain is not None:
        far = [text for text, number in zip(texts, plain, strict=True) if np.isinf(float(number))]
        return "no number that float64 holds", far
    if texts and all(DATE.fullmatch(text) for text in texts):
        kind, lost = _find_undated(texts, [parse_dates(texts)])
        if not lost and are_partly_zoned(texts):
            bare = [text for text in texts if not has_zone(text)]
            return "a time without a zone among times with one", bare
        return kind, lost
    cells = [cell for text in texts if (cell := split(text)) is not None and cell.style != "time" and not cell.is_short]
    if texts and len(cells) == len(texts):
        orders = sorted({order for cell in cells for order in cell.orders()})
        return _find_undated(texts, [parse_dates([to_iso(cell, one) for cell in cells]) for one in orders])
    return "", []


def _find_undated(texts: list[str], readings: list[pd.Series]) -> tuple[str, list[str]]:
    """The reach of dates in words, and the texts that are dates in none of these readings of a column."""
    lost = np.logical_and.reduce([dates.isna() for dates in readings])
    # pandas 3 counts nanoseconds only where a cell has them.
    reach = "1678 to 2261" if all(dates.dt.unit == "ns" for dates in readings) else "0000 to 9999"
    return f"no date from {reach}", [text for text, gone in zip(texts, lost, strict=True) if gone]


def _is_any_date(text: str) -> bool:
    """Whether a text is a date in one of the orders that it may have."""
    written = split(text)
    return written is not None and not parse_dates([to_iso(written, one) for one in written.orders()]).isna().all()


def marks_dates(text: str) -> bool:
    """Whether a text, given as a missing value, is one in every column of dates or times of day that can hold it.

    >>> marks_dates("30.8.2022"), marks_dates("14:05"), marks_dates("31.02.2022"), marks_dates("2022-02-31")
    (True, True, False, False)
    """
    written = split(text)
    if written is None:
        return read_dates([text]) is not None
    return written.style == "time" or (not written.is_short and _is_any_date(text))


def large_number(text: str) -> int | float | None:
    """The number in a text if float64 might round it (pandas would round such a marker); else None."""
    if not _NUMBER.fullmatch(text) or abs(float(text)) < EXACT:
        return None
    return int(text) if _WHOLE.fullmatch(text) and abs(int(text)) < 2**64 else float(text)


def with_room(column: pd.Series) -> pd.Series:
    """The column, in a nullable dtype if it holds integers that floats would round (pandas makes floats of others)."""
    if not isinstance(column.dtype, np.dtype) or not are_large(column.to_numpy()):
        return column
    return column.astype("UInt64" if column.dtype.kind == "u" else "Int64")


def _plain(texts: list[str], decimal: str) -> list[str] | None:
    """Texts with a point as decimal mark; None if one is not a number."""
    if decimal == ",":
        # There a point separates thousands.
        if any("." in text for text in texts):
            return None
        texts = [text.replace(",", ".") for text in texts]
    return texts if all(_NUMBER.fullmatch(text) for text in texts) else None


def whole_numbers(column: pd.Series) -> pd.Series:
    """A column of whole numbers with missing cells, which pandas reads from text as floats, as integers."""
    if column.dtype != "float64" or not column.hasnans or not column.notna().any():
        return column
    seen = column.dropna()
    return column.astype("Int64") if bool((seen.mod(1) == 0).all() and (seen.abs() < 2**53).all()) else column
