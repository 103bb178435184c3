"""Bounds of cells that follow from known cells, through linear rules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from missdiff_fast.rules.expressions import Call, Expression, Moment, Number, Variable
from missdiff_fast.rules.rows import Network, Rows
from missdiff_fast.rules.rule import Derived, Inequality, Rule
from missdiff_fast.table.schema import Name

_SLACK = 1e-9  # of the resolution, by which rounding may move a bound


@dataclass(frozen=True)
class Linear:
    """A sum of columns and a number, which a rule wants to be at most 0: name to factor, and the number."""

    factors: Mapping[Name, float]
    constant: float
    rule: Rule


def bounds(rows: Rows, network: Network) -> dict[Name, tuple[np.ndarray, np.ndarray]]:
    """The least and the greatest number of each column that known cells allow, float64 ``[N]``; infinite for none.

    Where the bounds of a row contradict one another they are infinite.

    Examples
    --------
    Of ``a <= b <= c`` with a known as 3 and c as 5, b is from 3 to 5.
    """
    low = {name: np.where(rows.free[name], -np.inf, one) for name, one in rows.numbers.items()}
    high = {name: np.where(rows.free[name], np.inf, one) for name, one in rows.numbers.items()}
    wanted = [one for rule in network.parts for one in _linear(rule, rows)]
    for _ in range(1 + len(rows.columns)):
        changed = False
        for one in wanted:
            applies = rows.applies(one.rule)
            least = {n: f * (low[n] if f > 0 else high[n]) for n, f in one.factors.items()}
            for name, factor in one.factors.items():
                others = one.constant + sum(value for n, value in least.items() if n != name)
                limit = np.where(applies & rows.free[name], -others / factor, np.inf if factor > 0 else -np.inf)
                if factor > 0:
                    changed |= bool((limit < high[name]).any())
                    high[name] = np.minimum(high[name], limit)
                else:
                    changed |= bool((limit > low[name]).any())
                    low[name] = np.maximum(low[name], limit)
        if not changed:
            break
    result = {}
    for name, column in rows.columns.items():
        slack = _SLACK * (column.quantum or float(np.abs(column.values).max()))
        good = low[name] <= high[name] + 2 * slack
        result[name] = np.where(good, low[name] - slack, -np.inf), np.where(good, high[name] + slack, np.inf)
    return result


def _linear(rule: Rule, rows: Rows) -> list[Linear]:
    """The bounds that a rule sets to its columns; none if it is not linear in them.

    Of columns with a resolution, a number that is to be less than another is so by the least difference of them. A
    limit of measurement such as ``<0.1`` is just below its number: columns with limits have no least difference.
    """
    if isinstance(rule, Inequality):
        ((left, sign, right),) = rule.parts
        if sign in (">", ">="):
            left, right = right, left
        found = _sum(Call("-", (left, right)))
        if found is None:
            return []
        factors, constant = found
        own = {name: rows.columns[name] for name in factors}
        steps = [abs(f) * own[name].quantum * (own[name].column.censored is None) for name, f in factors.items()]
        strict = min(steps) if "=" not in sign and steps and min(steps) == max(steps) else 0.0
        return [Linear(factors, constant + strict, rule)] if factors else []
    if isinstance(rule, Derived) and (found := _sum(Call("-", (Variable(rule.column), rule.expression)))) is not None:
        factors, constant = found
        slack = 0.5 * rows.columns[rule.column].quantum
        opposite = {name: -factor for name, factor in factors.items()}
        return [Linear(factors, constant - slack, rule), Linear(opposite, -constant - slack, rule)]
    return []


def _sum(expression: Expression) -> tuple[dict[Name, float], float] | None:
    """An expression as a sum of columns and a number; None if it is none."""
    match expression:
        case Number(value):
            return {}, value
        case Moment(_, days):
            return {}, days
        case Variable(name):
            return {name: 1.0}, 0.0
        case Call("negative", (inner,)):
            return _scaled(_sum(inner), -1.0)
        case Call("+" | "-" as sign, (left, right)):
            one, other = _sum(left), _scaled(_sum(right), 1.0 if sign == "+" else -1.0)
            if one is None or other is None:
                return None
            factors = {name: one[0].get(name, 0.0) + other[0].get(name, 0.0) for name in {**one[0], **other[0]}}
            return {name: factor for name, factor in factors.items() if factor}, one[1] + other[1]
        case Call("*", (left, right)):
            one, other = _sum(left), _sum(right)
            if one is not None and other is not None and not (one[0] and other[0]):
                return _scaled(other, one[1]) if not one[0] else _scaled(one, other[1])
        case Call("/", (left, right)):
            one, other = _sum(left), _sum(right)
            if one is not None and other is not None and not other[0] and other[1]:
                return _scaled(one, 1 / other[1])
    return None


def _scaled(found: tuple[dict[Name, float], float] | None, factor: float) -> tuple[dict[Name, float], float] | None:
    if found is None:
        return None
    return {name: one * factor for name, one in found[0].items() if factor}, found[1] * factor
