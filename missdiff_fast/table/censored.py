"""How a column of numbers is written of which some are known by a limit only, such as ``<0.1`` (censored numbers)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from missdiff_fast.table.dtypes import Dtype, as_series, dtype_from_json, dtype_to_json, restore
from missdiff_fast.table.limits import Ends, read_texts


@dataclass(frozen=True)
class NumberStyle:
    """How a column of texts spells numbers.

    Parameters
    ----------
    decimals : int
        The least number of decimals.
    exponent : bool
        Whether very large and very small numbers have exponents.
    leading_zero : bool
        Whether a fraction begins with 0, and not with the decimal mark.

    Examples
    --------
    >>> style = NumberStyle.of(["5.20", "0.35"], ".")
    >>> style.write(7.0, "."), style.write(7.125, ",")
    ('7.00', '7,125')
    """

    decimals: int = 0
    exponent: bool = False
    leading_zero: bool = True

    @classmethod
    def of(cls, numbers: Sequence[str], decimal: str) -> NumberStyle:
        """The style of numbers in texts."""
        plain = [text for text in numbers if "e" not in text.lower()]
        decimals = min((len(text.partition(decimal)[2]) for text in plain), default=0)
        fractions = [text.lstrip("+-") for text in numbers]
        bare = any(text.startswith(decimal) for text in fractions)
        zero = any(text.startswith(f"0{decimal}") for text in fractions)
        return cls(decimals, len(plain) < len(numbers), zero or not bare)

    def write(self, number: float, decimal: str) -> str:
        """The text of a number, which reads as the same number."""
        text = repr(number)
        if "e" in text and self.exponent:
            return text.replace(".", decimal)
        whole, _, rest = np.format_float_positional(number + 0.0, trim="-").partition(".")
        rest = rest.ljust(self.decimals, "0")
        if not self.leading_zero and rest and whole.lstrip("-") == "0":
            whole = whole[:-1]
        return f"{whole}{decimal}{rest}" if rest else whole


@dataclass(frozen=True)
class Censored:
    """How a column of numbers with limits is written.

    Within the package its cells are float64; a limit is the number that `missdiff_fast.table.limits.read_texts` gives.

    Parameters
    ----------
    dtype : dtype
        Of the column: one of texts, or of objects.
    limits : tuple
        The place of each limit and its most frequent text, ascending.
    decimal : str
        The decimal mark of the texts.
    style : NumberStyle or None
        How texts spell numbers; None where numbers are Python's or NumPy's, as objects beside the texts of limits.
    whole : bool
        Whether numbers that are objects are integers.

    Examples
    --------
    >>> column = Censored.learn(pd.Series(["<0.1", "0.50", "2.25", "7.10"]).dtype, ["<0.1", "0.50", "2.25", "7.10"])
    >>> places, texts = zip(*column.limits)
    >>> column.write(np.array([places[0], 3.5])).tolist(), texts
    (['<0.1', '3.50'], ('<0.1',))
    """

    dtype: Dtype
    limits: tuple[tuple[float, str], ...]
    decimal: str = "."
    style: NumberStyle | None = None
    whole: bool = False

    @classmethod
    def learn(
        cls,
        dtype: Dtype,
        texts: Sequence[str],
        counts: Sequence[int] | None = None,
        *,
        objects: bool = False,
        whole: bool = False,
        decimal: str | None = None,
    ) -> Censored:
        """How a column is written, by its distinct texts, which are all numbers or limits.

        Parameters
        ----------
        dtype : dtype
            Of the column.
        texts : sequence of str
            The distinct texts, without white space around them.
        counts : sequence of int, optional
            How many cells have each.
        objects, whole : bool
            Whether its numbers are objects, and these integers.
        decimal : str, optional
            The decimal mark, where it is known.
        """
        found = read_texts(texts, decimal)
        assert found is not None
        often: dict[float, tuple[int, str]] = {}
        each = [1] * len(texts) if counts is None else counts
        for text, place, step, count in zip(texts, found.places.tolist(), found.steps.tolist(), each, strict=True):
            if step and (place not in often or (-count, text) < (-often[place][0], often[place][1])):
                often[place] = count, text
        limits = tuple((place, text) for place, (_, text) in sorted(often.items()))
        numbers = [text for text, step in zip(texts, found.steps.tolist(), strict=True) if not step]
        style = None if objects else NumberStyle.of(numbers, found.decimal)
        return cls(dtype, limits, found.decimal, style, whole)

    def ends(self, keys: np.ndarray) -> Ends:
        """The limits beyond all numbers of the column, whose distinct values ``[V]``, limits among them, ascend."""
        places = np.array([place for place, _ in self.limits])
        below = np.array([text[0] in "<≤" for _, text in self.limits], dtype=bool)
        return Ends.of(places[below], places[~below], keys)

    def are_limits(self, values: np.ndarray) -> np.ndarray:
        """Which values are limits of the column: bool of their shape."""
        return np.isin(values, [place for place, _ in self.limits])

    def write(self, values: np.ndarray) -> np.ndarray:
        """The cells that values ``[N]`` stand for, none of them missing: objects ``[N]``."""
        distinct, places = np.unique(values, return_inverse=True)
        texts = dict(self.limits)
        cells = np.empty(len(distinct), dtype=object)
        cells[:] = [texts.get(value) or self._number(value) for value in distinct.tolist()]
        return cells[places]

    def column(self, values: np.ndarray, index: pd.Index | None = None) -> pd.Series:
        """The column whose cells are these values ``[N]``, in its dtype."""
        return as_series(restore(self.write(values), self.dtype, "string"), index)

    def cast(self, column: pd.Series) -> pd.Series:
        """Given cells, numbers or texts of which none is missing, in the column's dtype and style."""
        cells = np.empty(len(column), dtype=object)
        cells[:] = [self._cast(cell) for cell in column]
        return as_series(restore(cells, self.dtype, "string"), column.index)

    def as_in(self, own: Censored) -> Censored:
        """How a table writes the cells that are filled in, if its column has some of them in its own way."""
        style = None if own.style is None else self.style or own.style
        limits = tuple(sorted({**dict(self.limits), **dict(own.limits)}.items()))
        return replace(self, dtype=own.dtype, limits=limits, decimal=own.decimal, style=style, whole=own.whole)

    def state(self) -> dict[str, Any]:
        """As JSON, which `from_state` reads."""
        style = None if self.style is None else vars(self.style)
        plain = {"limits": [list(limit) for limit in self.limits], "decimal": self.decimal, "whole": self.whole}
        return {"dtype": dtype_to_json(self.dtype), "style": style, **plain}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Censored:
        """From what `state` gave; ValueError, TypeError or KeyError if it does not hold together."""
        limits = tuple((float(place), str(text)) for place, text in state["limits"])
        style = None if state["style"] is None else NumberStyle(**state["style"])
        return cls(dtype_from_json(state["dtype"]), limits, str(state["decimal"]), style, bool(state["whole"]))

    def _number(self, value: float) -> object:
        if self.style is not None:
            return self.style.write(value, self.decimal)
        return int(value) if self.whole and value == int(value) else value

    def _cast(self, cell: Any) -> object:
        if not isinstance(cell, str):
            return self._number(float(cell))
        found = read_texts([cell.strip()], self.decimal) if self.style is None else None
        return cell.strip() if found is None or found.steps[0] else self._number(float(found.places[0]))
