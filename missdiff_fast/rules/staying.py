"""The table's relations beside its rules: as formulas where cells are moved, and which moved cells they leave."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from missdiff_fast.rules.expressions import Call, Expression, Number, Variable
from missdiff_fast.rules.rows import Network, Rows
from missdiff_fast.rules.rule import Derived, Inequality
from missdiff_fast.rules.rules import Rules, network_of
from missdiff_fast.table.relations import Determined, Numeric, Relation, Relations
from missdiff_fast.table.schema import Name


def with_relations(rules: Rules, relations: Relations) -> Network:
    """The rules, and the exact formulas between numbers that are all named by rules, as if these were rules too.

    So no cell is moved to where the others of its formula break another rule.
    """
    network = rules.network
    for one in relations.found:
        names = (one.column, *one.sources)
        if not isinstance(one, Numeric) or one.residual is not None or one.column in network.derived:
            continue
        if not rules.columns.keys() >= set(names) or any(rules.columns[n].column.censored is not None for n in names):
            continue
        if not any(relations.fields[name].timed for name in names):  # which are seconds there, and days in rules
            try:
                network = network_of([*network.rules, Derived(one.formula, one.column, _expression(one))])
            except ValueError:  # in a circle with the user's own formulas, which come first
                continue
    return network


def _expression(relation: Numeric) -> Expression:
    """The formula of a relation, as an expression of a rule."""
    result: Expression = Number(relation.intercept)
    for coefficient, name in zip(relation.coefficients, relation.sources, strict=True):
        term: Expression = Call("log", (Variable(name),)) if relation.log else Variable(name)
        result = Call("+", (result, Call("*", (Number(coefficient), term))))
    return Call("exp", (result,)) if relation.log else result


def staying(
    rows: Rows, moved: Mapping[Name, np.ndarray], rules: Rules, relations: Sequence[Relation]
) -> dict[Name, np.ndarray]:
    """The cells that stay where relations are settled: name to bool ``[N]``.

    They are those that were moved, and those beside a moved one in a formula or a combination. Other cells follow from
    them. Where a whole relation was moved, its column follows from the others.

    Parameters
    ----------
    rows : Rows
        The rows, after rules moved their cells.
    moved : mapping
        Name of each column that rules name to the cells that were moved, bool ``[N]``.
    rules : Rules
        The rules.
    relations : sequence
        The table's.
    """
    stay = {name: moved[name] & rows.there[name] for name in rules.columns}
    for rule in rules.all:
        if not isinstance(rule, Inequality):
            touched = np.logical_or.reduce([moved[name] for name in rule.columns]) & rows.applies(rule)
            for name in rule.columns:
                stay[name] = stay[name] | touched
    for relation in reversed(relations):
        names = (relation.column, *relation.sources)
        exact = isinstance(relation, Determined) or relation.residual is None
        if exact and stay.keys() >= set(names) and relation.column not in rules.network.derived:
            known = {name: rows.there[name] & ~rows.free[name] for name in names}
            whole = np.logical_and.reduce([stay[name] | known[name] for name in names])
            stay[relation.column] = stay[relation.column] & ~whole
    return stay
