"""Numbers and dates as text writes them, read exactly or not at all."""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np
import pandas as pd

EXACT = 2**53  # from here on float64 passes over whole numbers
DATE = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d{1,9})?)?)?", re.ASCII)
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
_WHOLE = re.compile(r"[+-]?\d{1,999}", re.ASCII)


def are_whole_texts(texts: Iterable[str]) -> bool:
    """Whether all texts are whole numbers without a point or an exponent."""
    return all(_WHOLE.fullmatch(text) for text in texts)


def read_numbers(texts: list[str], decimal: str = ".") -> np.ndarray | None:
    """The numbers that texts write; None if one is no number, or is beyond what holds the others.

    Parameters
    ----------
    texts : list of str
        Without white space around them.
    decimal : str
        The decimal mark.

    Returns
    -------
    ndarray or None
        int64, else uint64, where all are whole; else float64, each the nearest to what is written.

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
    """Those of texts that write numbers, or dates, which no dtype holds, and what they are none of; else "", []."""
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
        dates = pd.to_datetime(pd.Series(texts, dtype=object), format="ISO8601", errors="coerce")
        return "no date from 1678 to 2261", [text for text, lost in zip(texts, dates.isna(), strict=True) if lost]
    return "", []


def large_number(text: str) -> int | float | None:
    """The number that a text writes if float64 might round it, as pandas does where it is a mark; else None."""
    if not _NUMBER.fullmatch(text) or abs(float(text)) < EXACT:
        return None
    return int(text) if _WHOLE.fullmatch(text) and abs(int(text)) < 2**64 else float(text)


def with_room(column: pd.Series) -> pd.Series:
    """A column with integers that floats would round in a dtype that can miss some; others, pandas makes floats of."""
    if not isinstance(column.dtype, np.dtype) or not are_large(column.to_numpy()):
        return column
    return column.astype("UInt64" if column.dtype.kind == "u" else "Int64")


def _plain(texts: list[str], decimal: str) -> list[str] | None:
    """Texts with a point for decimal mark; None if one is no number."""
    if decimal == ",":
        # A point would stand before thousands.
        if any("." in text for text in texts):
            return None
        texts = [text.replace(",", ".") for text in texts]
    return texts if all(_NUMBER.fullmatch(text) for text in texts) else None
