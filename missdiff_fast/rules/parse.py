"""Rules from text. Python's parser reads it, and only a few kinds of its nodes are taken: nothing is evaluated."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Collection, Hashable, Mapping, Sequence

import numpy as np
import pandas as pd

from missdiff_fast.errors import DataError, argument_error, argument_type_error
from missdiff_fast.remedies import Do
from missdiff_fast.rules.expressions import FUNCTIONS, NAMED, Call, Expression, Moment, Number, Variable
from missdiff_fast.rules.rule import Combinations, Derived, Inequality, Rule
from missdiff_fast.table.dates import ISO_DATE

_LONGEST, _DEEPEST = 1_000, 60  # characters, and nested operations
_QUOTED = re.compile(r"`((?:[^`]|``)*)`")
_OPERATORS: Mapping[type[ast.operator], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.Pow: "**",
}
_COMPARED: Mapping[type[ast.cmpop], str] = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}
FORMS = (
    "write a range or an inequality such as '0 <= age <= 120' or 'admission <= discharge', a formula such as "
    "'bmi = weight / height**2', or 'combinations(ward, hospital)'"
)


class _FaultError(Exception):
    """A fault of a rule, as the rest of a sentence."""


def parse_rules(texts: object) -> list[Rule]:
    """Rules from a list of texts, whose columns are not yet looked up.

    Parameters
    ----------
    texts : sequence of str
        A rule each.

    Raises
    ------
    ValueError, TypeError
        ``texts`` is no list of strings, or one of them is no rule; the message names it.

    Examples
    --------
    >>> [type(rule).__name__ for rule in parse_rules(["0 <= age <= 120", "bmi = weight / height**2"])]
    ['Inequality', 'Derived']
    """
    if isinstance(texts, str):
        raise argument_type_error("rules", f"must be a list such as [{texts!r}], not the string {texts!r}", texts)
    if isinstance(texts, (bytes, Mapping)) or not isinstance(texts, Collection):
        raise argument_type_error("rules", f"must be a list of texts, got {texts!r}", texts)
    for text in texts:
        if not isinstance(text, str):
            raise argument_type_error("rules", f"holds {text!r}, which is no text", text)
    return [parse_rule(text.strip()) for text in dict.fromkeys(texts)]


def parse_rule(text: str) -> Rule:
    """A rule from a text; ValueError if it is none."""
    try:
        if not text:
            raise _FaultError("it is empty")
        if len(text) > _LONGEST:
            raise _FaultError(f"it is longer than {_LONGEST:,} characters")
        plain, names = _without_quotes(text)
        return _Reader(text, names).rule(_tree(plain))
    except _FaultError as fault:
        raise rule_error(text, str(fault), remedy=FORMS) from None


def rule_error(text: str, problem: str, *, columns: Sequence[Hashable] = (), remedy: str = "") -> DataError:
    """The error of a rule: what is wrong with it, and what to do."""
    shown = text if len(text) <= 80 else f"{text[:77]}..."
    error = argument_error(
        "rules", f"holds {shown!r}: {problem}", text, kind="rules", remedy=Do(remedy) if remedy else ()
    )
    error.columns = tuple(columns)
    return error


def quoted(name: object) -> str:
    """A column's name as a rule writes it: in backticks where it is no Python name.

    Examples
    --------
    >>> quoted("age"), quoted("body weight"), quoted("class")
    ('age', '`body weight`', '`class`')
    """
    text = str(name)
    try:
        node = ast.parse(text, mode="eval").body
        plain = isinstance(node, ast.Name) and node.id == text
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        plain = False
    return text if plain else "`" + text.replace("`", "``") + "`"


def _without_quotes(text: str) -> tuple[str, dict[str, str]]:
    """The text with a Python name for each name in backticks, and what these stand for."""
    prefix, names = "name_", dict[str, str]()
    while prefix in text:
        prefix += "_"

    def name(found: re.Match[str]) -> str:
        own = f"{prefix}{len(names)}"
        names[own] = found[1].replace("``", "`")
        return own

    return _QUOTED.sub(name, text), names


def _tree(text: str) -> ast.stmt:
    """The only statement in a text."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of odd numbers and escapes
            body = ast.parse(text).body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        raise _FaultError("it cannot be read (names that are no Python names go in backticks: `body weight`)") from None
    if len(body) != 1:
        raise _FaultError("it is not one rule")
    return body[0]


class _Reader:
    def __init__(self, text: str, names: Mapping[str, str]) -> None:
        self._text, self._names = text, names

    def rule(self, tree: ast.stmt) -> Rule:
        match tree:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                return Derived(self._text, self._names.get(name, name), self._expression(value))
            case ast.Expr(value=ast.Compare(left=left, ops=ops, comparators=others)):
                terms = tuple(self._expression(one) for one in (left, *others))
                return Inequality(self._text, terms, tuple(map(self._comparison, ops)))
            case ast.Expr(value=ast.Call(func=ast.Name(id="combinations"), args=arguments, keywords=[])):
                return Combinations(self._text, self._columns(arguments))
        raise _FaultError("it is no rule")

    def _columns(self, arguments: Sequence[ast.expr]) -> tuple[str, ...]:
        names = tuple(self._names.get(one.id, one.id) for one in arguments if isinstance(one, ast.Name))
        if len(names) < len(arguments) or len(set(names)) < len(names) or len(names) < 2:
            raise _FaultError("combinations takes the names of two columns or more")
        return names

    def _comparison(self, operator: ast.cmpop) -> str:
        found = _COMPARED.get(type(operator))
        if found is None:
            equal = " (a column that is computed has one equals sign)" if isinstance(operator, ast.Eq) else ""
            raise _FaultError(f"it compares otherwise than by <, <=, > and >={equal}")
        return found

    def _expression(self, node: ast.expr, depth: int = 0) -> Expression:
        if depth > _DEEPEST:
            raise _FaultError("it is nested too deeply")

        def inner(*nodes: ast.expr) -> tuple[Expression, ...]:
            return tuple(self._expression(one, depth + 1) for one in nodes)

        match node:
            case ast.Constant(value=value):
                return _constant(value)
            case ast.Name(id=name):
                return Variable(self._names.get(name, name))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return Call("negative", inner(operand))
            case ast.UnaryOp(op=ast.UAdd(), operand=operand):
                return inner(operand)[0]
            case ast.BinOp(left=left, op=operator, right=right) if type(operator) in _OPERATORS:
                return Call(_OPERATORS[type(operator)], inner(left, right))
            case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in NAMED:
                return self._call(name, inner(*arguments))
            case ast.Call(func=ast.Name(id=name)):
                raise _FaultError(f"it calls {name!r}; the functions are {', '.join(NAMED)}")
        raise _FaultError("it holds more than columns, numbers, dates, + - * / ** and functions")

    def _call(self, name: str, arguments: tuple[Expression, ...]) -> Expression:
        _, least, most = FUNCTIONS[name]
        if not least <= len(arguments) <= most:
            wanted = f"{least}" if least == most else f"{least} to {most}"
            raise _FaultError(f"{name} takes {wanted} arguments, not {len(arguments)}")
        if name == "round" and len(arguments) == 2:
            digits = arguments[1]
            if not isinstance(digits, Number) or digits.value not in range(16):
                raise _FaultError("round takes a number of decimals from 0 to 15")
        return Call(name, arguments)


def _constant(value: object) -> Expression:
    if isinstance(value, str):
        if not ISO_DATE.fullmatch(value.strip()):
            raise _FaultError(f"{value!r} is no date such as '2024-02-29'")
        try:
            moment = pd.Timestamp(value)
        except ValueError:
            raise _FaultError(f"{value!r} is no date such as '2024-02-29'") from None
        if moment.tz is not None:
            raise _FaultError(f"{value!r} has a time zone, where that of the column is taken")
        return Moment(value, days_of(moment))
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise _FaultError(f"{value!r} is no number")
    try:
        number = float(value)
    except OverflowError:
        number = np.inf
    if not np.isfinite(number):
        raise _FaultError("it holds a number beyond float64")
    return Number(number)


def days_of(moment: pd.Timestamp) -> float:
    """A date and time in days since the epoch, in UTC if it has a zone."""
    return float(moment.to_datetime64().astype("M8[us]").astype(np.int64) / 86_400e6)
