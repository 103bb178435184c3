"""Limits of measurement among numbers, such as ``<0.1`` and ``> 89``: their texts, and their places among numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from missdiff_fast.table.literals import EXACT, read_numbers

LEAST_NUMBERS = 3  # distinct numbers beside limits, from which a column of texts is one of numbers
_STEPS = {"<": -2, "<=": -1, "≤": -1, "≥": 1, ">=": 1, "+": 1, ">": 2}
_NUMBER = r"[+-]?(?:[0-9]+[.,]?[0-9]*|[.,][0-9]+)(?:[eE][+-]?[0-9]+)?"
_LIMIT = re.compile(rf"(?P<sign><=|>=|[<>≤≥])\s*(?P<after>{_NUMBER})|(?P<before>{_NUMBER})\s*(?P<plus>\+)")
_BARE = re.compile(_NUMBER)
_THOUSANDS = re.compile(r"[+-]?[1-9][0-9]{0,2}(,[0-9]{3})+")
_SMALLEST = np.finfo(np.float64).tiny  # smaller numbers may be flushed to 0


class ReadTexts(NamedTuple):
    """Texts that are all numbers or limits.

    Parameters
    ----------
    places : ndarray
        The number, or the place of the limit, of each text: float64 ``[V]``.
    steps : ndarray
        How many of the next float64 numbers the place lies above the limit's number, int64 ``[V]``: -2 for ``<``, -1
        for ``<=``, 1 for ``>=`` and a plus after the number, 2 for ``>``; 0 for numbers.
    pluses : ndarray
        Which texts are numbers with a plus after them, bool ``[V]``.
    decimal : str
        The decimal mark.
    """

    places: np.ndarray
    steps: np.ndarray
    pluses: np.ndarray
    decimal: str

    def are_censored(self, numbers: np.ndarray | None = None) -> bool:
        """Whether the texts are those of a column of numbers some of which are known by a limit only.

        A plus is a limit only if one number has it and no number is greater: elsewhere it is a grade, as in ``1+``,
        ``2+``, ``3+``.

        Parameters
        ----------
        numbers : ndarray, optional
            Other numbers of the column, ``[n]``.
        """
        plain = self.places[self.steps == 0]
        plain = np.unique(plain if numbers is None else np.append(plain, numbers))
        tops = np.unique(self.places[self.pluses])
        grades = len(tops) > 1 or (len(tops) == 1 and len(plain) > 0 and plain[-1] > tops[0])
        return bool(self.steps.any()) and len(plain) >= LEAST_NUMBERS and not grades


def is_limit(text: str) -> bool:
    """Whether a text is a limit of a measurement: a number and on which side of it the measured value lies.

    >>> is_limit("<0.1"), is_limit("> 89"), is_limit("89+"), is_limit("3.2*"), is_limit("<LOD")
    (True, True, True, False, False)
    """
    return _LIMIT.fullmatch(text) is not None


def read_texts(texts: Sequence[str], decimal: str | None = None) -> ReadTexts | None:
    """The numbers and limits that texts are; None if one is neither, or float64 does not tell them apart.

    The place of a limit is just beyond its number, so that it has its order among the numbers, and none of them is
    equal to it: ``<0.1``, ``<=0.1``, ``0.1``, ``>=0.1`` and ``>0.1`` ascend.

    Parameters
    ----------
    texts : sequence of str
        Without white space around them.
    decimal : str, optional
        The decimal mark; by default a comma where no text has a point, and the commas cannot all separate thousands.

    Examples
    --------
    >>> found = read_texts(["<0.1", "0.1", "2", "> 89"])
    >>> found.places.round(3).tolist(), found.places.argsort().tolist(), found.steps.tolist()
    ([0.1, 0.1, 2.0, 89.0], [0, 1, 2, 3], [-2, 0, 0, 2])
    >>> read_texts(["<0.1", "?"]), read_texts(["0,5", "<0,1"]).decimal
    (None, ',')
    """
    bare, steps, pluses = list[str](), list[int](), list[bool]()
    for text in texts:
        limit = None if _BARE.fullmatch(text) else _LIMIT.fullmatch(text)
        if limit is not None:
            bare.append(limit["after"] or limit["before"])
        elif _BARE.fullmatch(text):
            bare.append(text)
        else:
            return None
        steps.append(0 if limit is None else _STEPS[limit["sign"] or "+"])
        pluses.append(limit is not None and limit["plus"] is not None)
    decimal = _find_decimal(bare) if decimal is None else decimal
    numbers = read_numbers(bare, decimal) if bare else None
    if numbers is None:
        return None
    numbers, beside = numbers.astype(np.float64), np.array(steps)
    with np.errstate(over="ignore"):
        places = numbers + beside * np.maximum(np.spacing(np.abs(numbers)), _SMALLEST)
    # From 2**53 on the next number may be a whole one.
    exact = np.abs(numbers).max() < EXACT and not np.isin(places[beside != 0], numbers).any()
    return ReadTexts(places, beside, np.array(pluses), decimal) if exact else None


class Ends(NamedTuple):
    """The limits that lie beyond all numbers of a column: ``below`` ascending and ``above`` ascending, float64 both."""

    below: np.ndarray
    above: np.ndarray

    @classmethod
    def of(cls, below: np.ndarray, above: np.ndarray, keys: np.ndarray) -> Ends:
        """Of limits from below and from above, and the column's distinct values, ascending, limits among them."""
        numbers = keys[~np.isin(keys, np.append(below, above))]
        if not len(numbers):
            return cls(below, above)
        return cls(below[below < numbers[0]], above[above > numbers[-1]])

    def within(self, least: float, greatest: float) -> Ends:
        """Those of the limits that lie in a range."""
        return Ends(self.below[self.below >= least], self.above[self.above <= greatest])

    def put(self, rounded: np.ndarray, exact: np.ndarray, slack: np.ndarray) -> np.ndarray:
        """Numbers, of which those beyond the innermost limit on a side are the nearest limit that holds for them.

        Parameters
        ----------
        rounded, exact : ndarray
            The numbers with and without rounding, float64 ``[B]``.
        slack : ndarray
            How far on the numbers' side of a limit a number is still the limit, ``[2, B]``: of those below, and of
            those above. If negative, how far beyond a limit it is not yet the limit.

        Examples
        --------
        >>> ends = Ends(np.array([0.1, 0.5]), np.array([]))
        >>> ends.put(np.array([0.0, 0.3, 0.7]), np.array([0.04, 0.3, 0.7]), np.zeros((2, 3))).tolist()
        [0.1, 0.5, 0.7]
        """
        result = rounded.copy()
        if len(self.below):
            last = self.below[-1]
            hit = (exact <= last + slack[0]) | (rounded < last)
            place = np.searchsorted(self.below, (exact - slack[0])[hit])
            result[hit] = self.below[place.clip(max=len(self.below) - 1)]
        if len(self.above):
            first = self.above[0]
            hit = (exact >= first - slack[1]) | (rounded > first)
            place = np.searchsorted(self.above, (exact + slack[1])[hit], side="right") - 1
            result[hit] = self.above[place.clip(min=0)]
        return result


def _find_decimal(numbers: Sequence[str]) -> str:
    commas = [number for number in numbers if "," in number]
    sure = bool(commas) and not all(map(_THOUSANDS.fullmatch, commas))
    return "," if sure and not any("." in number for number in numbers) else "."
