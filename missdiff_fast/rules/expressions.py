"""Arithmetic over a table's columns: a tree of a few kinds of nodes, none of which runs code of the user's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from missdiff_fast.table.schema import Name


@dataclass(frozen=True)
class Number:
    """A number."""

    value: float


@dataclass(frozen=True)
class Moment:
    """A date or time, in days since the epoch; in the time zone of the columns that it is compared with."""

    text: str
    days: float


@dataclass(frozen=True)
class Variable:
    """The cells of a column."""

    name: Name


@dataclass(frozen=True)
class Call:
    """A function of `FUNCTIONS` of other expressions."""

    function: str
    arguments: tuple[Expression, ...]


Expression = Number | Moment | Variable | Call


def _round(x: np.ndarray, digits: np.ndarray | float = 0.0) -> np.ndarray:
    return np.asarray(np.round(x, int(np.max(digits, initial=0))))


def _least(*arguments: np.ndarray) -> np.ndarray:
    return np.asarray(np.minimum.reduce(np.broadcast_arrays(*arguments)))


def _greatest(*arguments: np.ndarray) -> np.ndarray:
    return np.asarray(np.maximum.reduce(np.broadcast_arrays(*arguments)))


# Name to function, and the least and most arguments that it takes.
FUNCTIONS: Mapping[str, tuple[Callable[..., np.ndarray], int, int]] = {
    "+": (np.add, 2, 2),
    "-": (np.subtract, 2, 2),
    "*": (np.multiply, 2, 2),
    "/": (np.true_divide, 2, 2),
    "**": (np.float_power, 2, 2),
    "negative": (np.negative, 1, 1),
    "round": (_round, 1, 2),
    "floor": (np.floor, 1, 1),
    "ceil": (np.ceil, 1, 1),
    "abs": (np.abs, 1, 1),
    "log": (np.log, 1, 1),
    "exp": (np.exp, 1, 1),
    "sqrt": (np.sqrt, 1, 1),
    "min": (_least, 2, 20),
    "max": (_greatest, 2, 20),
}
NAMED = tuple(name for name in FUNCTIONS if name.isidentifier() and name != "negative")


def evaluate(expression: Expression, numbers: Mapping[Name, np.ndarray]) -> np.ndarray:
    """The value of an expression in each row.

    Parameters
    ----------
    expression : Expression
        The expression.
    numbers : mapping
        Name to the cells of each column, float64 of one shape.

    Returns
    -------
    ndarray
        float64 of that shape, or of none where the expression names no column; NaN or infinite where it has no value.

    Examples
    --------
    >>> evaluate(Call("/", (Variable("w"), Number(2.0))), {"w": np.array([1.0, 4.0])}).tolist()
    [0.5, 2.0]
    """
    match expression:
        case Number(value):
            return np.asarray(value, dtype=np.float64)
        case Moment(_, days):
            return np.asarray(days, dtype=np.float64)
        case Variable(name):
            return numbers[name]
        case Call(function, arguments):
            values = [evaluate(one, numbers) for one in arguments]
            with np.errstate(all="ignore"):
                return np.asarray(FUNCTIONS[function][0](*values), dtype=np.float64)


def variables(expression: Expression) -> Iterator[Name]:
    """The columns that an expression names, from left to right, each as often as it does."""
    if isinstance(expression, Variable):
        yield expression.name
    elif isinstance(expression, Call):
        for one in expression.arguments:
            yield from variables(one)


def moments(expression: Expression) -> Iterator[Moment]:
    """The dates that an expression names."""
    if isinstance(expression, Moment):
        yield expression
    elif isinstance(expression, Call):
        for one in expression.arguments:
            yield from moments(one)


def replaced(expression: Expression, new: Callable[[Expression], Expression]) -> Expression:
    """The expression with every column, number and date replaced by what ``new`` gives for it."""
    if isinstance(expression, Call):
        return Call(expression.function, tuple(replaced(one, new) for one in expression.arguments))
    return new(expression)


def kind_of(expression: Expression, kinds: Mapping[Name, str]) -> str:
    """Whether an expression is a "number" or a "time"; the difference of two times is a number, of days.

    Parameters
    ----------
    expression : Expression
        The expression.
    kinds : mapping
        Name to the kind of each column.

    Raises
    ------
    ValueError
        Times are added, multiplied or the like; the message is the rest of a sentence about the rule.
    """
    match expression:
        case Number():
            return "number"
        case Moment():
            return "time"
        case Variable(name):
            return kinds[name]
        case Call(function, arguments):
            found = [kind_of(one, kinds) for one in arguments]
            if "time" not in found:
                return "number"
            if function == "-" and found == ["time", "time"]:
                return "number"
            if (function == "-" and found == ["time", "number"]) or (function == "+" and found.count("time") == 1):
                return "time"
            if function in ("min", "max") and set(found) == {"time"}:
                return "time"
    raise ValueError(f"{function!r} does not go with dates: subtract two of them, which gives days, or add days to one")
