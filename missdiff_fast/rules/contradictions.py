"""Ranges of single columns that contradict one another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from missdiff_fast.rules.expressions import Call, Expression, Moment, Number, Variable
from missdiff_fast.rules.parse import rule_error
from missdiff_fast.rules.rule import Inequality, Rule
from missdiff_fast.table.schema import Name


@dataclass(frozen=True)
class _Limit:
    value: float
    strict: bool
    rule: Rule


def check_limits(rules: Sequence[Rule]) -> None:
    """Raise ValueError where a column is to be above a number and below one that is no greater."""
    above: dict[Name, _Limit] = {}
    below: dict[Name, _Limit] = {}
    for rule in rules:
        for left, sign, right in rule.parts if isinstance(rule, Inequality) else ():
            if sign in (">", ">="):
                left, right = right, left
            if isinstance(right, Variable) and (least := _constant(left)) is not None:
                limit, old = _Limit(least, "=" not in sign, rule), above.get(right.name)
                if old is None or (limit.value, limit.strict) > (old.value, old.strict):
                    above[right.name] = limit
            elif isinstance(left, Variable) and (most := _constant(right)) is not None:
                limit, old = _Limit(most, "=" not in sign, rule), below.get(left.name)
                if old is None or (-limit.value, limit.strict) > (-old.value, old.strict):
                    below[left.name] = limit
    for name, low in above.items():
        high = below.get(name)
        if high is not None and (low.value > high.value or (low.value == high.value and (low.strict or high.strict))):
            other = "" if low.rule is high.rule else f", with {low.rule.text!r}"
            problem = f"no value of column {name!r} keeps it{other}"
            raise rule_error(high.rule.text, problem, columns=[name], remedy="correct the range")


def _constant(expression: Expression) -> float | None:
    if isinstance(expression, Number):
        return expression.value
    if isinstance(expression, Moment):
        return expression.days
    if isinstance(expression, Call) and expression.function == "negative":
        value = _constant(expression.arguments[0])
        return None if value is None else -value
    return None
