"""The columns of a table: their names, kinds and dtypes, and the checks of a frame that is to be learnt."""

from __future__ import annotations

import numbers
from collections.abc import Collection, Hashable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from missdiff_fast.errors import DataError, DataTypeError, Structured
from missdiff_fast.remedies import Adjust, CapCategories, Convert, Do, Drop, MakeFrame, Pass, Remedy, RenameColumns
from missdiff_fast.table.cells import RefusedError
from missdiff_fast.table.censored import Censored
from missdiff_fast.table.date_writing import is_of_family
from missdiff_fast.table.dtypes import Dtype

Name = str | int


@dataclass(frozen=True)
class Column:
    """One column of a schema.

    Parameters
    ----------
    name : str or int
        As in the frame.
    kind : {"continuous", "categorical", "constant"}
        Its kind in the model; a constant column is not modelled.
    dtype : dtype
        The dtype of the decoded column.
    family : str
        The family of its cells; see `missdiff_fast.table.dtypes`.
    parsed : bool
        Whether the frame held its numbers as strings among which missing values were marked.
    form : str
        The form of its dates or times of day in the text file that the frame was read from (see
        `missdiff_fast.table.dates`), else "".
    censored : Censored, optional
        How its cells are written, if some are limits such as ``<0.1``; ``dtype`` is then that of the numbers.
    """

    name: Name
    kind: str
    dtype: Dtype
    family: str
    parsed: bool = False
    form: str = ""
    censored: Censored | None = None


@dataclass(frozen=True)
class Schema:
    """The columns in their original order.

    Examples
    --------
    >>> from missdiff_fast._engine.backend import ReferenceBackend
    >>> from missdiff_fast.table import Codec, read_frame
    >>> frame = pd.DataFrame({"age": [31, 45, 27], "sex": ["f", "m", "f"], "year": [2024, 2024, 2024]})
    >>> schema = Codec.fit(read_frame(frame), ops=ReferenceBackend()).schema
    >>> schema.continuous, schema.categorical, schema.constant
    (('age',), ('sex',), ('year',))
    >>> schema["sex"].kind
    'categorical'
    """

    columns: tuple[Column, ...]

    def __len__(self) -> int:
        return len(self.columns)

    def __iter__(self) -> Iterator[Column]:
        return iter(self.columns)

    def __getitem__(self, name: Name) -> Column:
        for column in self.columns:
            if column.name == name:
                return column
        raise KeyError(name)

    def __contains__(self, name: object) -> bool:
        return any(column.name == name for column in self.columns)

    @property
    def names(self) -> tuple[Name, ...]:
        """All columns' names."""
        return tuple(column.name for column in self.columns)

    @property
    def continuous(self) -> tuple[Name, ...]:
        """The names of the continuous columns, in the order of the layout."""
        return self._named("continuous")

    @property
    def categorical(self) -> tuple[Name, ...]:
        """The names of the categorical columns, in the order of the layout."""
        return self._named("categorical")

    @property
    def constant(self) -> tuple[Name, ...]:
        """The names of the constant columns, which are not in the layout."""
        return self._named("constant")

    @property
    def forms(self) -> dict[Hashable, str]:
        """The forms of the dates that were read from text, by the column's name."""
        return {column.name: column.form for column in self.columns if column.form}

    def with_forms(self, forms: Mapping[Hashable, str]) -> Schema:
        """The schema with the forms of its columns of dates and times; those of other columns are passed over."""
        own = {column.name: forms.get(column.name, "") for column in self.columns}
        return Schema(
            tuple(
                replace(column, form=own[column.name] if is_of_family(own[column.name], column.family) else "")
                for column in self.columns
            )
        )

    def _named(self, kind: str) -> tuple[Name, ...]:
        return tuple(column.name for column in self.columns if column.kind == kind)


def check_frame(frame: object) -> list[Name]:
    """The column names of a frame as Python objects; TypeError or ValueError if it is no frame with distinct names."""
    if not isinstance(frame, pd.DataFrame):
        method = next((name for name in ("collect", "to_pandas", "toPandas") if hasattr(frame, name)), "")
        problem = f"expected a pandas or polars DataFrame or a pyarrow Table, got {type(frame).__name__}"
        raise DataTypeError("frame", problem, value=type(frame), remedy=MakeFrame(method))
    names: list[Name] = []
    given: list[object] = list(frame.columns)
    for name in given:
        if isinstance(name, str):
            names.append(name)
        elif not isinstance(name, bool) and isinstance(name, numbers.Integral):
            names.append(int(name))
        else:
            problem = f"column name {name!r} is a {type(name).__name__}: names must be strings or integers"
            raise DataTypeError("name", problem, columns=[name], remedy=RenameColumns(), joint="; ")
    twice = list(frame.columns[frame.columns.duplicated()].unique())
    if twice:
        problem, remedy = f"duplicate column names {_list(twice)}", Do("give each column a name of its own")
        raise DataError("duplicate", problem, columns=twice, remedy=remedy)
    return names


def as_names(columns: object) -> list[Any] | None:
    """``categorical_columns``, of an Index or an array as well, as a list; TypeError if they are no list of names."""
    if columns is None:
        return None
    if isinstance(columns, str):
        raise TypeError(f"categorical_columns must be a list such as [{columns!r}], not the string {columns!r}")
    if isinstance(columns, bytes) or not isinstance(columns, Collection):
        raise TypeError(f"categorical_columns must be a list of column names, not {columns!r}")
    names = list(columns)
    for name in names:
        if isinstance(name, bool) or not isinstance(name, (str, numbers.Integral)):
            raise TypeError(f"categorical_columns holds {name!r}, which is no column name: give strings or integers")
    return names


_DATES = Convert("datetime", when="if it holds dates")
_DROP = Drop(())  # of the columns that are refused
# Of the texts at fault.
_MARKS = Pass("missing_values", (), goal="name them,", when="if the texts stand for missing cells")
# The message for columns refused for one kind of fault: error type, problem, remedies.
_FAULTS: dict[str, tuple[type[Structured], str, tuple[Remedy, ...]]] = {
    "unsupported": (DataTypeError, "can't be taken", (Convert("plain"), _DROP)),
    "reach": (
        DataError,
        "has values out of reach (numbers must fit 64 bits, and dates and times the nanoseconds or seconds that they "
        "are counted in)",
        (Do("rescale them"), Convert("coarser unit"), _DROP),
    ),
    "zones": (DataTypeError, "holds datetimes with time zones as Python objects", (Convert("utc"),)),
    "zone": (DataTypeError, "has a time zone that has no name", (Convert("utc"), _DROP)),
    "fine": (
        DataError,
        "holds nanoseconds as Python objects, which are read to the microsecond",
        (Convert("microseconds"),),
    ),
    "mixed": (DataError, "mixes types", (Convert("one type"),)),
    "infinite": (DataError, "has infinite values", (Do("replace them"), Do("make them missing"))),
    "wide": (DataError, "has a range beyond float64", (Do("rescale the column"), _DROP)),
    "empty": (DataError, "has no observed cell", (_DROP,)),
    "texts": (
        DataError,
        "holds texts among its numbers or dates, so that each of these is a category",
        (_MARKS, Do("write numbers or dates in their place"), _DROP),
    ),
    "cardinality": (
        DataError,
        "has too many categories",
        (_DROP, _DATES, Adjust("raise", ("max_categories",)), CapCategories()),
    ),
    "identifier": (
        DataError,
        "holds a different string in nearly every row (free text or an identifier)",
        (_DROP, _DATES, CapCategories()),
    ),
}


class Refusals:
    """Collects refused columns, so that one error names all of a kind."""

    def __init__(self) -> None:
        self._found: dict[str, list[tuple[Name, RefusedError]]] = {}

    def add(self, name: Name, refused: RefusedError) -> None:
        """Note a column and its fault."""
        self._found.setdefault(refused.kind, []).append((name, refused))

    def only(self, kind: str) -> bool:
        """Whether all faults are of one kind."""
        return set(self._found) == {kind}

    def raise_any(self) -> None:
        """Raise one error, of the type of the first fault, that names all faults; return if there are none."""
        faults: list[Structured] = []
        for kind, (error, wrong, remedies) in reversed(_FAULTS.items()):
            columns = self._found.get(kind)
            if columns:
                each = "; ".join(f"{name!r}{f' ({one.detail})' if one.detail else ''}" for name, one in columns)
                wrong = wrong if len(columns) == 1 else _plural(wrong)
                names = tuple(name for name, _ in columns)
                texts = list(dict.fromkeys(text for _, one in columns for text in one.texts))
                remedy = [Drop(names) if one is _DROP else one for one in remedies if one is not _MARKS or texts]
                remedy = [replace(_MARKS, value=texts) if one is _MARKS else one for one in remedy]
                problem = f"column{'s' if len(columns) > 1 else ''} {each} {wrong}"
                faults = [error(kind, problem, columns=names, remedy=remedy, also=faults)]
        if faults:
            raise faults[0]


def _plural(wrong: str) -> str:
    first, _, rest = wrong.partition(" ")
    return f"{ {'has': 'have', 'mixes': 'mix', 'holds': 'hold'}.get(first, first) } {rest}"


def _list(names: list[Name]) -> str:
    return ", ".join(repr(name) for name in names)
