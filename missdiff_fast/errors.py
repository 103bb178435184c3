"""Errors and warnings that carry their parts: kind, columns, value and remedies.

The same error is read by two users. Python's user is told of arguments and code, the command's user of options. So a
message is not one text: what the two call differently is a `Term` in it, and `Structured.worded` writes the message in
the words of either. ``str(error)`` is Python's wording; `missdiff_fast.cli.errors` has the command's.

This module imports nothing of the package.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal


class Term:
    """Part of a message that Python and the command line word differently; `str` gives Python's words."""


@dataclass(frozen=True)
class Argument(Term):
    """An argument of a function, such as ``random_state``; an option, such as ``--seed``, for the command."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Table(Term):
    """A table by its role in a comparison, such as ``synthetic``."""

    role: str

    def __str__(self) -> str:
        return f"the {self.role} table"


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


@dataclass(frozen=True)
class Remedy(Term):
    """What the user can do about an error.

    Parameters
    ----------
    when : str
        The condition under which this helps, such as "if it holds dates"; empty for none.
    """

    _: KW_ONLY
    when: str = ""

    def __str__(self) -> str:
        return self.conditional(self._python())

    def conditional(self, text: str) -> str:
        """The text after the condition."""
        return f"{self.when}, {text}" if self.when else text

    def _python(self) -> str:
        raise NotImplementedError


@dataclass(frozen=True)
class Do(Remedy):
    """Something outside of the program, such as mending a line of a file: the same words in Python and the command."""

    text: str

    def _python(self) -> str:
        return self.text


@dataclass(frozen=True)
class Pass(Remedy):
    """Give an argument this value, and others theirs; ``goal`` is said before them."""

    argument: str
    value: object
    goal: str = "pass"
    more: tuple[Pass, ...] = ()

    def _python(self) -> str:
        settings = [f"{one.argument}={one.value!r}" for one in (self, *self.more)]
        return f"{self.goal} {' and '.join(settings)}"


@dataclass(frozen=True)
class LeaveOut(Remedy):
    """Leave out an argument that has this value."""

    argument: str
    value: object

    def _python(self) -> str:
        return f"leave out {self.argument}={self.value!r}"


@dataclass(frozen=True)
class Adjust(Remedy):
    """Raise or lower a numeric argument, or one of several."""

    verb: Literal["raise", "lower"]
    arguments: tuple[str, ...]

    def _python(self) -> str:
        return f"{self.verb} {' or '.join(self.arguments)}"


@dataclass(frozen=True)
class Give(Remedy):
    """Give the right value of an argument."""

    argument: str

    def _python(self) -> str:
        return f"give the right {self.argument}"


@dataclass(frozen=True)
class AtLeast(Remedy):
    """Give a numeric argument at least this value."""

    argument: str
    least: str

    def _python(self) -> str:
        return f"give a {self.argument} of at least {self.least}"


@dataclass(frozen=True)
class Drop(Remedy):
    """Leave columns out; ``what`` is what they are called: the column or the columns, unless given."""

    columns: tuple[Hashable, ...]
    what: str = ""

    @property
    def noun(self) -> str:
        """What the columns are called."""
        return self.what or ("the column" if len(self.columns) == 1 else "the columns")

    def _python(self) -> str:
        return f"drop {self.noun}, frame.drop(columns={list(self.columns)!r})"


@dataclass(frozen=True)
class CapCategories(Remedy):
    """Keep the most frequent categories of a column, and call the rest one name; the command has no option for it."""

    def _python(self) -> str:
        return (
            "keep the most frequent and call the rest other, "
            "frame[column] = missdiff_fast.table.cap_categories(frame[column], keep=50)"
        )


@dataclass(frozen=True)
class RenameColumns(Remedy):
    """Make the names of columns strings, as names read from a file are."""

    def _python(self) -> str:
        return "rename the columns, frame.columns = [str(name) for name in frame.columns]"


@dataclass(frozen=True)
class MakeFrame(Remedy):
    """Make a pandas frame of what was given; ``method`` is the method of it that does so, if it has one."""

    method: str = ""

    def _python(self) -> str:
        return f"convert it, .{self.method}()" if self.method else "wrap it in pandas.DataFrame(...)"


@dataclass(frozen=True)
class ReadWith(Remedy):
    """Read a file with a function of pandas, and pass the frame."""

    function: str

    def _python(self) -> str:
        return f"read it with {self.function}"


@dataclass(frozen=True)
class FitAgain(Remedy):
    """Fit the model again, with a lower value of ``lower`` if that is given."""

    lower: str = ""

    def _python(self) -> str:
        return f"fit it again with a lower {self.lower}" if self.lower else "fit it again"


Target = Literal["plain", "learnt", "one type", "utc", "datetime", "microseconds", "coarser unit", "unordered"]
CONVERSIONS: Mapping[Target, str] = {
    "plain": "convert to numbers, strings, booleans, categories, datetimes or timedeltas (lists and dicts: to columns "
    "of their own; periods: .dt.to_timestamp(); intervals: .astype('string'); sparse: .sparse.to_dense())",
    "learnt": "convert, e.g. frame[column].astype(...)",
    # Not astype(str), which makes the text "nan" of a missing cell.
    "one type": "make the cells one type, e.g. frame[column].astype('string')",
    "utc": "convert them, frame[column] = pandas.to_datetime(frame[column], utc=True)",
    "datetime": "convert them, frame[column] = pandas.to_datetime(frame[column])",
    "microseconds": "convert them, frame[column] = pandas.to_datetime(frame[column]), of durations pandas.to_timedelta",
    "coarser unit": "use a coarser unit (.dt.as_unit('s'))",
    "unordered": "give its dtype no order (.cat.as_unordered())",
}


@dataclass(frozen=True)
class Convert(Remedy):
    """Convert a column's cells."""

    to: Target

    def _python(self) -> str:
        return CONVERSIONS[self.to]


class Structured(Exception):  # noqa: N818  (a base of warnings too)
    """Base of the errors and warnings that carry their parts.

    Parameters
    ----------
    kind : str
        A stable name of what is wrong, such as ``"cardinality"``.
    problem : str or Text
        What is wrong; a `Text` if it mentions what the command calls otherwise.
    columns : sequence of str or int
        The columns that it is about.
    value : object
        The offending value.
    remedy : Remedy or sequence of Remedy
        What the user can do: one of these.
    joint : str
        Between the problem and its remedies.
    also : sequence of Structured
        Further problems, told after this one.

    Examples
    --------
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
        """What is wrong, in Python's words and without the remedies."""
        return str(self._problem)

    def worded(self, words: Callable[[Term], str | None]) -> str:
        """The message.

        Parameters
        ----------
        words : callable
            A term's words; None for a remedy that is none here, which is left out.
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
    """The texts as alternatives; semicolons keep those apart that have commas of their own."""
    if len(texts) == 1:
        return texts[0]
    comma = len(texts) == 2 or not any("," in text for text in texts)
    separator = ", " if comma else "; "
    last = f", {texts[-1]}" if texts[-1].startswith("if ") else f" {texts[-1]}"
    return f"{separator.join(texts[:-1])}{separator}or{last}"


class DataError(Structured, ValueError):
    """A table, a value or an argument that cannot be taken."""


class DataTypeError(Structured, TypeError):
    """A table, a value or an argument of a type that cannot be taken."""


class DivergedError(Structured, FloatingPointError):
    """Numbers that are no longer finite, in training or in drawing."""


class DataWarning(Structured, UserWarning):
    """A table that was taken, but probably not as it was meant."""


def argument_error(
    name: str, rule: str, value: object = None, *, kind: str = "argument", remedy: Remedy | Sequence[Remedy] = ()
) -> DataError:
    """An error of an argument's value.

    Parameters
    ----------
    name : str
        The argument.
    rule : str
        What it breaks, as the rest of a sentence: "must be at least 1, got 0".
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
