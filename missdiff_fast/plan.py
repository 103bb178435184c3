"""Plans of fits: the treatment of each column of a table, and warnings, before any training."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from missdiff_fast._parameters import Parameters, configure, most_categories, treatments
from missdiff_fast.config import Config
from missdiff_fast.errors import DataError, Structured
from missdiff_fast.rules import PlannedRule, as_text, as_toml, plan_rules
from missdiff_fast.table import TableCells, read_frame
from missdiff_fast.table.aside import TREATMENTS, Asides
from missdiff_fast.table.cells import ColumnCells
from missdiff_fast.table.columns import are_whole
from missdiff_fast.table.date_writing import is_local, is_of_family
from missdiff_fast.table.dates import forms_of
from missdiff_fast.table.dtypes import INSTANTS, NUMBERS
from missdiff_fast.table.identifiers import looks_like_date, words
from missdiff_fast.table.learning import learn_columns
from missdiff_fast.table.limit_notes import limit_counts
from missdiff_fast.table.odd_texts import listed, looks_numeric, texts_among_numbers
from missdiff_fast.table.relations import Relation, find_relations
from missdiff_fast.table.schema import Name, as_names
from missdiff_fast.table.structural import StructuralHoles, find_structural

_LOW_SENTINELS = (-1, -7, -8, -9, -77, -88, -99, -99.9, -200, -777, -888, -999, -999.9, -9999, -99999)
_HIGH_SENTINELS = (77, 88, 98, 99, 99.9, 777, 888, 998, 999, 999.9, 7777, 8888, 9998, 9999, 99999, 999999)
_FEW = 12  # values of a scale, on which -1 may be one of them
_CODES = frozenset(
    ("code", "codes", "zip", "zipcode", "postal", "postcode", "icd", "atc", "ndc", "loinc", "fips", "ward")
)
_ALMOST_CONSTANT, _MOSTLY_MISSING, _MOST_TEXTS = 0.99, 0.9, 0.5


@dataclass(frozen=True)
class PlannedColumn:
    """A column of a `Plan`.

    Parameters
    ----------
    column : str or int
        Its name.
    dtype : str
        Its dtype in the frame.
    missing : float
        The share of its cells that are missing.
    distinct : int
        How many distinct values its observed cells have; None if they could not be read.
    treatment : str
        "continuous", "categorical" or "constant" where it is learnt; "identifier", "text" or "empty" where it is set
        aside; "refused" where `fit` would raise.
    warnings : tuple of str
        What to look at before a fit.

    Examples
    --------
    >>> from missdiff_fast import MissDiff
    >>> MissDiff().plan(pd.DataFrame({"x": [1.5, None, 2.5, 7.0], "y": list("abab")})).columns[0]
    PlannedColumn(column='x', dtype='float64', missing=0.25, distinct=3, treatment='continuous', warnings=())
    """

    column: Name
    dtype: str
    missing: float
    distinct: int | None
    treatment: str
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class Plan:
    """What a fit would do with a table; made by `missdiff_fast.MissDiff.plan`.

    Parameters
    ----------
    rows : int
        How many rows the table has.
    columns : tuple of PlannedColumn
        Its columns, in its order.
    refusal : str
        Why `fit` would raise for the table as a whole, such as that no column is left to learn; empty if it would not.
    rules : tuple of PlannedRule
        The rules that were given, and after them those that hold in the table and are offered.

    Examples
    --------
    >>> from missdiff_fast import MissDiff
    >>> plan = MissDiff().plan(pd.DataFrame({"bmi": [22.1, 999.0, 31.0, 24.5] * 9, "sex": ["f", None, "m", "m"] * 9}))
    >>> plan.columns[0].treatment, plan.columns[0].warnings
    ('continuous', ('999 may stand for missing cells (9 of them)',))
    >>> print(plan.to_toml())
    # Written by 'missdiff plan'. Change what is wrong, and pass the file to 'missdiff fit --config'.
    <BLANKLINE>
    [treatments]
    "bmi" = "continuous"  # 999 may stand for missing cells (9 of them)
    "sex" = "categorical"
    <BLANKLINE>
    >>> plan.frame()[["column", "missing"]].values.tolist(), plan.to_dict()["rows"]
    ([['bmi', 0.0], ['sex', 0.25]], 36)
    """

    rows: int
    columns: tuple[PlannedColumn, ...]
    refusal: str = ""
    rules: tuple[PlannedRule, ...] = ()

    def frame(self) -> pd.DataFrame:
        """A row for each column: ``column``, ``dtype``, ``missing``, ``distinct``, ``treatment`` and ``warnings``."""
        rows = [
            (one.column, one.dtype, one.missing, one.distinct, one.treatment, list(one.warnings))
            for one in self.columns
        ]
        return pd.DataFrame(rows, columns=["column", "dtype", "missing", "distinct", "treatment", "warnings"])

    def to_dict(self) -> dict[str, Any]:
        """The plan as what JSON holds."""
        columns = [{**asdict(one), "warnings": list(one.warnings)} for one in self.columns]
        rules = [asdict(one) for one in self.rules]
        return {"rows": self.rows, "refusal": self.refusal, "columns": columns, "rules": rules}

    def to_toml(self, options: Mapping[str, Any] | None = None) -> str:
        """Treatments and rules as a file for ``missdiff fit --config``; ``options`` of that command come first in it.

        Rules that are offered, and were not given, are comments.
        """
        lines = ["# Written by 'missdiff plan'. Change what is wrong, and pass the file to 'missdiff fit --config'."]
        lines += [f"{name} = {_toml(value)}" for name, value in (options or {}).items()]
        lines += [*as_toml(self.rules), "", "[treatments]"]
        for one in self.columns:
            set_here = one.treatment in TREATMENTS
            line = f"{'' if set_here else '# '}{_toml(str(one.column))} = {_toml(one.treatment)}"
            lines.append(line + (f"  # {_comment('; '.join(one.warnings))}" if one.warnings else ""))
        return "\n".join([*lines, ""])

    def __str__(self) -> str:
        """As a table."""
        frame = self.frame()
        frame["distinct"] = ["-" if one.distinct is None else f"{one.distinct:,}" for one in self.columns]
        frame["missing"] = [f"{share:.0%}" if share else "-" for share in frame["missing"]]
        frame["warnings"] = ["; ".join(found) or "-" for found in frame["warnings"]]
        table = frame.to_string(index=False, max_colwidth=None) if len(frame) else ""
        refusal = f"\na fit would be refused: {self.refusal}" if self.refusal else ""
        rules = f"\n\n{as_text(self.rules)}" if self.rules else ""
        return f"{self.rows:,} rows, {len(self.columns)} columns\n{table}{refusal}{rules}"


def read_treated(parameters: Parameters, frame: pd.DataFrame) -> tuple[TableCells, Asides]:
    """The cells of a table, and the columns that a model with these parameters sets aside."""
    chosen = treatments(parameters)
    categorical = as_names(parameters.categorical_columns) or []
    names = set(frame.columns) if isinstance(frame, pd.DataFrame) else set()
    categorical += [name for name, treatment in chosen.items() if treatment == "categorical" and name in names]
    cells = read_frame(
        frame,
        categorical_columns=categorical,
        missing_values=parameters.missing_values,
        treatments=chosen,
        verbose=parameters.verbose,
    )
    asides = Asides.find(cells, chosen, max_categories=most_categories(parameters))
    continuous = frozenset(name for name, treatment in chosen.items() if treatment == "continuous")
    return replace(cells, continuous_columns=continuous), asides


def make_plan(parameters: Parameters, frame: pd.DataFrame, dtype: Callable[[Name, str], str]) -> Plan:
    """See `missdiff_fast.MissDiff.plan`; ``dtype`` names a column's in the user's frame, given its name in pandas."""
    cells, asides = read_treated(parameters, frame)
    others = {name: aside.kind for name, aside in asides.found.items()}
    kinds, notes, refused, rules = _learn(parameters, cells.without(asides.found), others)
    kinds |= others
    planned = []
    for name in asides.columns:
        column, treatment = cells.found.get(name), kinds.get(name, "refused")
        missing = float(frame[name].isna().mean() if column is None else column.missing.mean()) if len(frame) else 0.0
        warnings = [refused[name]] if name in refused else []
        distinct = None
        if column is not None:
            column = replace(column)  # its caches are freed with it
            distinct = len(column.distinct[0])
            warnings += _warnings(name, column, treatment)
        form = forms_of(frame).get(name, "")
        if column is not None and is_local(form) and is_of_family(form, column.family):
            warnings.append(f"{'times of day' if column.family == 'timedelta' else 'dates'} written as {form}")
        warnings += notes.get(name, [])
        kind = dtype(name, str(frame[name].dtype))
        planned.append(PlannedColumn(name, kind, missing, distinct, treatment, tuple(warnings)))
    refusal = ("" if isinstance(rules, tuple) else rules) if planned and len(frame) else "the table is empty"
    try:
        asides.check_any_learnt()
    except ValueError as error:
        refusal = refusal or str(error)
    return Plan(len(frame), tuple(planned), refusal, rules if isinstance(rules, tuple) else ())


def _learn(
    parameters: Parameters, cells: TableCells, others: Mapping[Name, str]
) -> tuple[dict[Name, str], dict[Name, list[str]], dict[Name, str], tuple[PlannedRule, ...] | str]:
    """Learn the columns of a table.

    Returns
    -------
    kinds, notes, refused : dict
        By name: the kinds of the columns that can be learnt, what others tell of a column, and why it is refused.
    rules : tuple of PlannedRule or str
        The rules, or why they are refused.
    """
    refused: dict[Name, str] = {}
    while True:
        try:
            schema, coders = learn_columns(cells, max_categories=most_categories(parameters))
            break
        except Structured as error:
            found = {
                name: one.problem
                for one in (error, *error.also)
                for name in one.columns
                if isinstance(name, (str, int)) and name in cells.columns
            }
            if not found:
                raise
            refused |= found
            cells = cells.without(found)
        except ValueError as error:  # nothing is left that varies
            return {}, {}, refused | {name: str(error) for name in cells.columns}, ()
    config, relations, named = configure(parameters), list[Relation](), dict(zip(schema.names, coders, strict=True))
    notes = dict[Name, list[str]]()
    if isinstance(config, Config):
        relations = find_relations(cells, schema, named) if config.relations.enabled else []
        structural = StructuralHoles(schema, named, find_structural(cells, schema, named))
        for one in relations:
            notes.setdefault(one.column, []).append(f"follows from others: {one.formula}")
        for hole in structural.found:
            notes.setdefault(hole.column, []).append(structural.text(hole))
    rules: tuple[PlannedRule, ...] | str
    try:
        out = {**others, **dict.fromkeys(refused, "refused")}
        rules = plan_rules(parameters.rules, schema, named, cells, relations, out)
    except DataError as error:
        rules = str(error)
    return {column.name: column.kind for column in schema}, notes, refused, rules


def _warnings(name: Name, cells: ColumnCells, treatment: str) -> Iterator[str]:
    values, counts = cells.distinct
    if not len(values):
        return
    if cells.missing.mean() > _MOSTLY_MISSING:
        yield f"{cells.missing.mean():.1%} of the cells are missing"
    if len(values) > 1 and counts.max() >= _ALMOST_CONSTANT * counts.sum():
        often = values[counts.argmax()]
        value = (
            "one value" if cells.family in INSTANTS else repr(often.item() if isinstance(often, np.generic) else often)
        )
        if cells.censored is not None:
            value = repr(cells.censored.write(np.array([often]))[0])
        yield f"almost constant: {value} in {counts.max() / counts.sum():.2%} of the observed cells"
    if cells.censored is not None:
        yield f"censored: {listed(limit_counts(cells))}"
    if cells.family in NUMBERS and treatment in ("continuous", "categorical"):
        for sentinel, count in _sentinels(values, counts):
            yield f"{sentinel} may stand for missing cells ({count:,} of them)"
        if are_whole(values) and _are_days(values):
            yield "holds dates as numbers such as 20240229: write them as 2024-02-29, else none is a date when imputed"
        if treatment == "continuous" and are_whole(values) and _CODES.intersection(words(str(name))):
            yield "may be a code, not an amount: then make it categorical"
    if cells.family == "string" and treatment in ("categorical", "text"):
        yield from _warnings_of_texts(dict(zip(values.tolist(), counts.tolist(), strict=True)))


def _are_days(values: np.ndarray) -> bool:
    """Whether whole numbers are days of the years 1900 to 2099, such as 20240229."""
    if len(values) < _FEW or not ((values >= 19_000_101) & (values <= 20_991_231)).all():
        return False
    days = pd.to_datetime(pd.Series(values.astype(np.int64).astype(str)), format="%Y%m%d", errors="coerce")
    return bool(days.notna().all())


def _warnings_of_texts(counts: Mapping[str, int]) -> Iterator[str]:
    if sum(map(looks_like_date, counts)) > _MOST_TEXTS * len(counts):
        forms = "in a text file all in one form, such as 2024-02-29 or 29.02.2024"
        yield f"holds dates in text: to have them learnt as dates, make them datetimes, or write them {forms}"
    elif texts := texts_among_numbers(counts):
        yield f"holds texts among numbers or dates: {listed(texts)}"
    elif all(map(looks_numeric, counts)):
        yield "holds numbers in text"


def _sentinels(values: np.ndarray, counts: np.ndarray) -> Iterator[tuple[str, int]]:
    """Values that may stand for a missing cell, far from the others, and how many cells have them."""
    order = np.argsort(values)
    values, counts = values[order].astype(float), counts[order]
    low, high = 0, len(values)
    while low < high and values[low] in _LOW_SENTINELS:
        low += 1
    while high > low and values[high - 1] in _HIGH_SENTINELS:
        high -= 1
    if high - low < 2:
        return
    rest = values[low:high]
    scale = len(rest) < _FEW and bool((np.diff(rest) == 1).all())
    far = rest[0] if rest[0] < 0 else 0.0
    for value, count in zip(values[:low], counts[:low], strict=True):
        if count > 1 and value <= 2 * far and not (value == -1 and scale):
            yield f"{value:g}", int(count)
    for value, count in zip(values[high:], counts[high:], strict=True):
        if count > 1 and 2 * rest[-1] <= value:
            yield f"{value:g}", int(count)


def _comment(text: str) -> str:
    """A text in one line, without characters that TOML forbids."""
    return "".join(character if character.isprintable() else " " for character in " ".join(text.split()))


def _toml(value: object) -> str:
    """A string, number, truth value or list of these in TOML, whose strings are escaped as those of JSON are."""
    return re.sub("\x7f", r"\\u007f", json.dumps(value, ensure_ascii=False))
