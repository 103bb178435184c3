"""Errors and warnings that carry their parts: kind, columns, value and remedies.

Users of Python read about arguments and code, users of the command about options. So a message is not one text: each
part that the two word differently is a `Term`, and `Structured.worded` writes the message for either. ``str(error)`` is
Python's wording; `missdiff_fast.cli.errors` has the command's.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from missdiff_fast.remedies import Argument, Remedy, Term

__all__ = [
    "DataError",
    "DataTypeError",
    "DataWarning",
    "DivergedError",
    "Structured",
    "Text",
    "argument_error",
    "argument_type_error",
    "warn",
]


class Text:
    """A sentence with terms in it.

    Parameters
    ----------
    template : str
        As `str.format` takes it; fields are named.
    **fields : object
        Their values: terms, other errors, and anything else, which reads the same in both wordings.

    Examples
    --------
    >>> str(Text("{argument} must be at least 0, got {value:,}", argument=Argument("random_state"), value=-1000))
    'random_state must be at least 0, got -1,000'
    """

    def __init__(self, template: str, **fields: object) -> None:
        self.template, self.fields = template, fields

    def worded(self, words: Callable[[Term], str | None]) -> str:
        """The sentence, with what ``words`` makes of each term; Python's words where that is None."""
        return self.template.format(**{name: _field(field, words) for name, field in self.fields.items()})

    def __str__(self) -> str:
        return self.worded(str)


def _field(field: object, words: Callable[[Term], str | None]) -> object:
    if isinstance(field, Term):
        return words(field) or str(field)
    return field.worded(words) if isinstance(field, Structured) else field


class Structured(Exception):  # noqa: N818  (a base of warnings too)
    """Base of the errors and warnings that carry their parts.

    Parameters
    ----------
    kind : str
        A stable name of what is wrong, such as ``"cardinality"``.
    problem : str or Text
        What is wrong; a `Text` if Python and the command word a part of it differently.
    columns : sequence of str or int
        The columns concerned.
    value : object
        The offending value.
    remedy : Remedy or sequence of Remedy
        What the user can do: one of these.
    joint : str
        Text between the problem and its remedies.
    also : sequence of Structured
        Further problems, told after this one.

    Examples
    --------
    >>> from missdiff_fast.remedies import Do
    >>> error = DataError("infinite", "column 'x' has infinite values", columns=["x"], remedy=Do("replace them"))
    >>> str(error), error.kind, error.columns, error.remedy
    ("column 'x' has infinite values: replace them", 'infinite', ('x',), (Do(when='', text='replace them'),))
    """

    def __init__(
        self,
        kind: str,
        problem: str | Text,
        *,
        columns: Sequence[Hashable] = (),
        value: object = None,
        remedy: Remedy | Sequence[Remedy] = (),
        joint: str = ": ",
        also: Sequence[Structured] = (),
    ) -> None:
        self.kind, self.columns, self.value = kind, tuple(columns), value
        self.remedy = (remedy,) if isinstance(remedy, Remedy) else tuple(remedy)
        self.also = tuple(also)
        self._problem, self._joint = problem, joint
        super().__init__(self.worded(str))

    @property
    def problem(self) -> str:
        """The problem in Python's words, without the remedies."""
        return str(self._problem)

    def worded(self, words: Callable[[Term], str | None]) -> str:
        """The message.

        Parameters
        ----------
        words : callable
            A term's words; None leaves out a remedy that does not apply there.
        """
        problem = self._problem if isinstance(self._problem, str) else self._problem.worded(words)
        remedies = [text for text in map(words, self.remedy) if text]
        told = f"{problem}{self._joint}{_alternatives(remedies)}" if remedies else problem
        return ". Also, ".join([told, *(other.worded(words) for other in self.also)])

    def __str__(self) -> str:
        return self.worded(str)

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (type(self), self.__dict__.copy(), self.worded(str))


def _restored(cls: type[BaseException], state: dict[str, Any], message: str) -> BaseException:
    error = cls.__new__(cls, message)
    error.__dict__.update(state)
    return error


def _alternatives(texts: Sequence[str]) -> str:
    """The texts as alternatives; semicolons separate them where one contains a comma."""
    if len(texts) == 1:
        return texts[0]
    comma = len(texts) == 2 or not any("," in text for text in texts)
    separator = ", " if comma else "; "
    last = f", {texts[-1]}" if texts[-1].startswith("if ") else f" {texts[-1]}"
    return f"{separator.join(texts[:-1])}{separator}or{last}"


class DataError(Structured, ValueError):
    """A table, value or argument that cannot be used."""


class DataTypeError(Structured, TypeError):
    """A table, value or argument of a type that cannot be used."""


class DivergedError(Structured, FloatingPointError):
    """Training or sampling produced a number that is not finite."""


class DataWarning(Structured, UserWarning):
    """A table that was accepted, but was probably misread."""


def argument_error(
    name: str, rule: str, value: object = None, *, kind: str = "argument", remedy: Remedy | Sequence[Remedy] = ()
) -> DataError:
    """An error of an argument's value.

    Parameters
    ----------
    name : str
        The argument.
    rule : str
        The rule that the value breaks, as the rest of a sentence: "must be at least 1, got 0".
    value : object
        The offending value.
    kind : str
        As of `Structured`.
    remedy : Remedy or sequence of Remedy
        As of `Structured`.

    Examples
    --------
    >>> str(argument_error("steps", "must be at least 1, got 0", 0))
    'steps must be at least 1, got 0'
    """
    problem = Text("{argument} {rule}", argument=Argument(name), rule=rule)
    return DataError(kind, problem, value=value, remedy=remedy)


def argument_type_error(name: str, rule: str, value: object = None) -> DataTypeError:
    """An error of an argument's type; parameters as of `argument_error`.

    Examples
    --------
    >>> str(argument_type_error("steps", "must be an integer, got '5'", "5"))
    "steps must be an integer, got '5'"
    """
    return DataTypeError("argument", Text("{argument} {rule}", argument=Argument(name), rule=rule), value=value)


def warn(warning: Warning | str) -> None:
    """Warn at the line outside of this package that called; a text is a UserWarning."""
    frame, level = sys._getframe(1), 2
    ours = ("missdiff_fast", "contextlib")  # which runs methods within `plain_settings`
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] in ours:
        frame, level = frame.f_back, level + 1
    warnings.warn(warning, stacklevel=level)
