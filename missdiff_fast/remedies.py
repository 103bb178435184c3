"""Remedies of errors, and the other parts of a message that Python and the command word differently.

``str`` of a term gives Python's words, with code for the library of the last frame that was given;
`missdiff_fast.cli.errors` has the command's. This module imports nothing of the package.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from contextvars import ContextVar
from dataclasses import KW_ONLY, dataclass
from typing import Literal

LIBRARY: ContextVar[str] = ContextVar("library", default="pandas")
"""Whose frames the user has: "pandas", "polars" or "pyarrow"."""


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


@dataclass(frozen=True)
class Remedy(Term):
    """A way to correct an error.

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
    """An action outside of the program, such as mending a line of a file; Python and the command word it alike."""

    text: str

    def _python(self) -> str:
        return self.text


@dataclass(frozen=True)
class Pass(Remedy):
    """Give arguments these values; ``goal`` precedes them in the text."""

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
    """Leave columns out; ``what`` is the noun for them, by default "the column" or "the columns"."""

    columns: tuple[Hashable, ...]
    what: str = ""

    @property
    def noun(self) -> str:
        """The noun for the columns."""
        return self.what or ("the column" if len(self.columns) == 1 else "the columns")

    def _python(self) -> str:
        names = list(self.columns)
        code = {"polars": f"frame.drop({names!r})", "pyarrow": f"table.drop_columns({names!r})"}
        return f"drop {self.noun}, {code.get(LIBRARY.get(), f'frame.drop(columns={names!r})')}"


@dataclass(frozen=True)
class Treat(Remedy):
    """Say how columns are to be treated: name to treatment."""

    treatments: Mapping[str | int, str]

    def _python(self) -> str:
        return f"pass treatments={dict(self.treatments)!r}"


@dataclass(frozen=True)
class CapCategories(Remedy):
    """Keep the most frequent categories of a column, and give the rest one name; the command has no option for it."""

    def _python(self) -> str:
        if LIBRARY.get() != "pandas":
            return "keep its most frequent categories and call the rest other"
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
    """Convert the object to a pandas frame; ``method`` is its own method for that, if it has one."""

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
_ANYWHERE: Mapping[Target, str] = {
    "plain": "convert to numbers, texts, booleans, categories, dates, times or durations (lists and structs: to "
    "columns of their own)",
    "learnt": "cast its cells to what they were in fit",
    "one type": "make the cells one type",
    "utc": "convert them to UTC",
    "datetime": "convert them to timestamps",
    "microseconds": "convert them to timestamps of microseconds",
    "coarser unit": "use a coarser unit",
    "unordered": "give its dtype no order",
}
CONVERSIONS_ELSEWHERE: Mapping[str, Mapping[Target, str]] = {
    "polars": {
        **_ANYWHERE,
        "learnt": "cast, e.g. frame.with_columns(polars.col(column).cast(...))",
        "datetime": "convert them, frame.with_columns(polars.col(column).str.to_datetime())",
        "coarser unit": "use a coarser unit, frame.with_columns(polars.col(column).dt.cast_time_unit('ms'))",
    },
    "pyarrow": _ANYWHERE,
}


@dataclass(frozen=True)
class Convert(Remedy):
    """Convert a column's cells."""

    to: Target

    def _python(self) -> str:
        return CONVERSIONS_ELSEWHERE.get(LIBRARY.get(), CONVERSIONS)[self.to]
