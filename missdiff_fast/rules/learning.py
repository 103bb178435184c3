"""Learning rules from a table: their columns looked up, and the rows that break them counted."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from torch import Tensor

from missdiff_fast.errors import DataWarning, warn
from missdiff_fast.remedies import Do
from missdiff_fast.rules.columns import RuleColumn
from missdiff_fast.rules.contradictions import check_limits
from missdiff_fast.rules.expressions import Expression, Moment, Variable, kind_of, moments, replaced
from missdiff_fast.rules.parse import days_of, parse_rules, rule_error
from missdiff_fast.rules.rows import Rows
from missdiff_fast.rules.rule import Combinations, Derived, Inequality, Rule
from missdiff_fast.rules.rules import Rules, network_of
from missdiff_fast.table.columns import Coder
from missdiff_fast.table.schema import Name, Schema
from missdiff_fast.table.table_cells import TableCells


def learn_rules(
    texts: object,
    schema: Schema,
    coders: Mapping[Name, Coder],
    cells: TableCells,
    others: Mapping[Name, str] | None = None,
) -> Rules:
    """Rules with what the training table tells of them.

    Parameters
    ----------
    texts : sequence of str
        The rules.
    schema : Schema
        The learnt columns.
    coders : mapping
        Name to the coder of each.
    cells : TableCells
        The training table.
    others : mapping, optional
        Columns that are not learnt, name to kind.

    Raises
    ------
    ValueError, TypeError
        A text is no rule; a rule names a column that is not known, not learnt or of a kind that does not suit; derived
        columns go in a circle or are computed twice; ranges contradict one another; all rows to which a rule applies
        break it, or each row breaks some rule.
    """
    bound, columns = _bind(texts, schema, coders, others or {})
    check_limits(bound)
    rows = Rows.known(columns, cells)
    learnt = [_learnt(rule, rows) for rule in bound]
    broken = [rows.broken(rule) for rule in learnt]
    _check_satisfied(learnt, broken, rows)
    applied = tuple(int(np.count_nonzero(rows.applies(rule))) for rule in learnt)
    return Rules(network_of(learnt), columns, applied, tuple(int(np.count_nonzero(one)) for one in broken))


def load_rules(
    texts: object,
    schema: Schema,
    coders: Mapping[Name, Coder],
    state: Sequence[Mapping[str, Any]],
    tensors: Mapping[str, Tensor],
) -> Rules:
    """The rules of a model file; ValueError or KeyError where its parts do not fit."""
    bound, columns = _bind(texts, schema, coders, {})
    return Rules.of(bound, columns, state, tensors)


def warn_of_broken(rules: Rules) -> None:
    """Warn of the rules that rows of the training table break, at the line outside of this package that called."""
    told = [
        (rule, rows, count) for rule, rows, count in zip(rules.all, rules.applied, rules.broken, strict=True) if count
    ]
    if told:
        each = "; ".join(f"{rule.text!r} in {count:,} of {rows:,} rows" for rule, rows, count in told)
        problem = f"the training table breaks rules that rows drawn will keep: {each}"
        names = list(dict.fromkeys(name for rule, _, _ in told for name in rule.columns))
        remedy = Do("look at these rows, as they are learnt too")
        warn(DataWarning("rules", problem, columns=names, remedy=remedy, joint="; "))


def _bind(
    texts: object, schema: Schema, coders: Mapping[Name, Coder], others: Mapping[Name, str]
) -> tuple[list[Rule], dict[Name, RuleColumn]]:
    """The rules with the table's own names, checked, and the columns that they name."""
    columns: dict[Name, RuleColumn] = {}
    bound = []
    for rule in parse_rules(texts):
        names = {name: _name(str(name), rule, schema, others) for name in rule.columns}
        for name in names.values():
            if name not in columns:
                columns[name] = RuleColumn(schema[name], coders[name])
        bound.append(_checked(_renamed(rule, names), columns))
    _check_derived(bound)
    return bound, columns


def _name(name: str, rule: Rule, schema: Schema, others: Mapping[Name, str]) -> Name:
    """The column that a rule means; Python's parser writes some letters of names in another form."""
    forms = {name, unicodedata.normalize("NFKC", name)}
    for known in (*schema.names, *others):
        if str(known) == name:
            break
    else:
        alike = [one for one in (*schema.names, *others) if unicodedata.normalize("NFKC", str(one)) in forms]
        if len(alike) != 1:
            each = ", ".join(map(str, schema.names))
            raise rule_error(rule.text, f"there is no column {name!r}; the columns are {each}", columns=[name])
        known = alike[0]
    if known in others:
        problem = f"column {known!r} is not learnt, it is {others[known]}"
        raise rule_error(
            rule.text, problem, columns=[known], remedy="leave the rule out, or treat the column otherwise"
        )
    return known


def _renamed(rule: Rule, names: Mapping[Name, Name]) -> Rule:
    def new(expression: Expression) -> Expression:
        return Variable(names[expression.name]) if isinstance(expression, Variable) else expression

    if isinstance(rule, Inequality):
        return replace(rule, terms=tuple(replaced(term, new) for term in rule.terms))
    if isinstance(rule, Derived):
        return replace(rule, column=names[rule.column], expression=replaced(rule.expression, new))
    return replace(rule, columns=tuple(names[name] for name in rule.columns))


def _checked(rule: Rule, columns: Mapping[Name, RuleColumn]) -> Rule:
    """A rule whose columns are of kinds that go together, with its dates in their time zone; else ValueError."""
    own = {name: columns[name] for name in rule.columns}
    for name, column in own.items():
        if not isinstance(rule, Combinations) and column.kind == "text":
            problem = f"column {name!r} holds texts, which are neither compared nor computed"
            raise rule_error(rule.text, problem, columns=[name], remedy="rules for texts are combinations(...)")
        if isinstance(rule, Derived) and column.column.censored is not None:
            limit = column.column.censored.limits[0][1]
            problem = f"column {name!r} holds limits of measurement such as {limit!r}, which are not computed with"
            remedy = "leave the rule out, or write numbers in place of the limits"
            raise rule_error(rule.text, problem, columns=[name], remedy=remedy)
        if not column.exact:
            raise rule_error(
                rule.text, f"column {name!r} holds numbers that float64 does not tell apart", columns=[name]
            )
    if isinstance(rule, Combinations):
        return rule
    if not own:
        raise rule_error(rule.text, "it names no column")
    times = [column for column in own.values() if column.kind == "time"]
    if len({column.zoned for column in times}) > 1:
        names = [column.name for column in times]
        raise rule_error(rule.text, f"some of {names} have a time zone, and some have none", columns=names)
    kinds = {name: column.kind for name, column in own.items()}
    terms = rule.terms if isinstance(rule, Inequality) else (Variable(rule.column), rule.expression)
    try:
        found = [kind_of(term, kinds) for term in terms]
    except ValueError as error:
        raise rule_error(rule.text, str(error), columns=rule.columns) from None
    if len(set(found)) > 1:
        verb = "compares" if isinstance(rule, Inequality) else "computes"
        problem = f"it {verb} dates and numbers; the difference of two dates is a number of days"
        raise rule_error(rule.text, problem, columns=rule.columns)
    zone = next((column.zone for column in times if column.zoned), None)
    if zone is None or not any(moment for term in terms for moment in moments(term)):
        return rule

    def local(expression: Expression) -> Expression:
        if not isinstance(expression, Moment):
            return expression
        moment = pd.Timestamp(expression.text).tz_localize(zone, ambiguous="NaT", nonexistent="NaT")
        if moment is pd.NaT:
            problem = f"the clocks of {zone} have {expression.text!r} twice or never, as they are put back or forward"
            names = [column.name for column in times]
            raise rule_error(rule.text, problem, columns=names, remedy="give a time an hour earlier or later")
        return Moment(expression.text, days_of(moment))

    if isinstance(rule, Inequality):
        return replace(rule, terms=tuple(replaced(term, local) for term in rule.terms))
    return replace(rule, expression=replaced(rule.expression, local))


def _check_derived(rules: Sequence[Rule]) -> None:
    seen: dict[Name, Derived] = {}
    for rule in rules:
        if isinstance(rule, Derived):
            if not rule.sources:
                raise rule_error(rule.text, "it computes a column from no other", columns=[rule.column])
            if rule.column in seen:
                problem = f"{seen[rule.column].text!r} computes column {rule.column!r} too: give one of them"
                raise rule_error(rule.text, problem, columns=[rule.column])
            seen[rule.column] = rule
    try:
        network_of(rules)
    except ValueError as error:
        rule = next(one for one in seen.values() if repr(one.column) in str(error))
        raise rule_error(rule.text, str(error), columns=[rule.column], remedy="leave one of these rules out") from None


def _learnt(rule: Rule, rows: Rows) -> Rule:
    """A rule with what the table tells of it: combinations, and whether a derived column is rounded."""
    if isinstance(rule, Combinations):
        places = rows.places(rule)[rows.applies(rule)]
        known = places[(places >= 0).all(1)]
        if not len(known):
            raise rule_error(rule.text, "no row has a cell in all of these columns", columns=rule.columns)
        found, counts = np.unique(known, axis=0, return_counts=True)
        return replace(rule, places=found, counts=counts)
    if isinstance(rule, Derived):
        exact = replace(rule, rounded=False)
        tested = rows.applies(rule) & ~rows.broken(rule)
        return exact if tested.any() and not (rows.broken(exact) & tested).any() else rule
    return rule


def _check_satisfied(rules: Sequence[Rule], broken: Sequence[np.ndarray], rows: Rows) -> None:
    """Refuse rules that no row keeps."""
    complete, kept = np.ones(len(rows), dtype=bool), np.ones(len(rows), dtype=bool)
    for rule, breaks in zip(rules, broken, strict=True):
        applies = rows.applies(rule)
        if applies.any() and breaks[applies].all():
            problem = f"all {int(applies.sum()):,} rows that it applies to break it"
            raise rule_error(rule.text, problem, columns=rule.columns, remedy="correct the rule, or leave it out")
        complete &= applies
        kept &= ~breaks
    if complete.any() and not kept[complete].any():
        problem = f"each of the {int(complete.sum()):,} rows with all cells of the rules breaks some rule"
        raise rule_error(rules[-1].text, problem, remedy="correct the rules, or leave some out")
