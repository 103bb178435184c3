"""Rules in the plan of a fit: those that its user gave, and those that hold in the table."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from missdiff_fast.rules.learning import learn_rules
from missdiff_fast.rules.offers import found_rules
from missdiff_fast.rules.rule import Derived
from missdiff_fast.rules.rules import Rules
from missdiff_fast.table.columns import Coder
from missdiff_fast.table.relations import Relation
from missdiff_fast.table.schema import Name, Schema
from missdiff_fast.table.table_cells import TableCells

_MOST_BROKEN = 0.01  # share of the rows that break a formula that is offered, as a mistyped cell does


@dataclass(frozen=True)
class PlannedRule:
    """A rule in a `missdiff_fast.plan.Plan`.

    Parameters
    ----------
    rule : str
        The rule.
    kind : {"range", "inequality", "derived", "combinations"}
        What it is.
    rows : int
        In how many rows all of its cells are observed.
    broken : int
        How many of these break it.
    given : bool
        Whether the rule was given; else it is offered.

    Examples
    --------
    >>> import pandas as pd
    >>> from missdiff_fast import MissDiff
    >>> ages = pd.DataFrame({"age": [31, 52, 47, 28] * 30, "since": [12, 60, 3, 5] * 30})
    >>> MissDiff(rules=["since <= age"]).plan(ages).rules[0]
    PlannedRule(rule='since <= age', kind='inequality', rows=120, broken=30, given=True)
    """

    rule: str
    kind: str
    rows: int
    broken: int
    given: bool

    @property
    def note(self) -> str:
        """In how many rows it holds."""
        if self.broken:
            return f"broken in {self.broken:,} of {self.rows:,} rows"
        return f"{self.rows:,} row{'s' * (self.rows != 1)}"


def plan_rules(
    texts: object,
    schema: Schema,
    coders: Mapping[Name, Coder],
    cells: TableCells,
    relations: Sequence[Relation],
    others: Mapping[Name, str],
) -> tuple[PlannedRule, ...]:
    """The rules that were given, and after them those that hold in the table; errors of `learn_rules`.

    Parameters
    ----------
    texts, schema, coders, cells, others
        As of `learn_rules`.
    relations : sequence of Relation
        What was found in the table.
    """
    given = learn_rules(texts, schema, coders, cells, others)
    planned = list(_planned(given, given=True))
    known = {" ".join(rule.text.split()) for rule in given.all}
    computed = {rule.column for rule in given.all if isinstance(rule, Derived)}
    for text in found_rules(cells, schema, coders, relations):
        if text in known:
            continue
        try:
            offered = learn_rules([text], schema, coders, cells)
        except ValueError:  # such as a formula of dates that rules do not have
            continue
        rule = offered.all[0]
        few = offered.broken[0] <= _MOST_BROKEN * offered.applied[0]
        if few and not (isinstance(rule, Derived) and rule.column in computed):
            planned += _planned(offered, given=False)
    return tuple(planned)


def as_toml(rules: Sequence[PlannedRule]) -> list[str]:
    """Lines of TOML that give the rules, with those that are offered as comments; none for none."""
    if not rules:
        return []
    lines = [f"    {'' if one.given else '# '}{_text(one.rule)},  # {one.note}" for one in rules]
    return ["rules = [", *lines, "]"]


def as_text(rules: Sequence[PlannedRule]) -> str:
    """The rules for people, in a form that can be pasted; empty for none."""
    parts = []
    for given, title in ((True, "rules"), (False, "rules that hold here, to be given if they are to be kept")):
        lines = [f"    {_text(one.rule)},  # {one.note}" for one in rules if one.given == given]
        if lines:
            parts += [f"{title}:", "rules = [", *lines, "]"]
    return "\n".join(parts)


def _planned(rules: Rules, *, given: bool) -> Iterator[PlannedRule]:
    for rule, rows, broken in zip(rules.all, rules.applied, rules.broken, strict=True):
        yield PlannedRule(rule.text, rule.kind, rows, broken, given)


def _text(rule: str) -> str:
    """A string of TOML and of Python."""
    return json.dumps(rule, ensure_ascii=False).replace("\x7f", "\\u007f")
