"""Rules from text: what is taken, and what is refused before anything runs."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

from missdiff_fast import MissDiff
from missdiff_fast.rules import parse_rules
from missdiff_fast.rules.expressions import Call, Number, Variable, evaluate
from missdiff_fast.rules.parse import parse_rule, quoted
from missdiff_fast.rules.rule import Combinations, Derived, Inequality


def test_the_three_kinds() -> None:
    range_, order, formula, combinations = parse_rules(
        ["0 <= age <= 120", "a < b", "bmi = weight / height**2", "combinations(ward, `the hospital`)"]
    )
    assert isinstance(range_, Inequality)
    assert (range_.terms, range_.signs) == ((Number(0), Variable("age"), Number(120)), ("<=", "<="))
    assert (range_.kind, order.kind, formula.kind) == ("range", "inequality", "derived")
    assert isinstance(formula, Derived)
    height = Call("**", (Variable("height"), Number(2)))
    assert (formula.column, formula.expression) == ("bmi", Call("/", (Variable("weight"), height)))
    assert isinstance(combinations, Combinations)
    assert combinations.columns == ("ward", "the hospital")


def test_python_decides_on_precedence() -> None:
    rule = parse_rule("x = -a**2 + 3 * (b - 1) / +c")
    assert isinstance(rule, Derived)
    numbers = {"a": np.array([3.0]), "b": np.array([5.0]), "c": np.array([2.0])}
    assert evaluate(rule.expression, numbers).tolist() == [-(3.0**2) + 3 * 4 / 2]


@pytest.mark.parametrize("name", ["body weight", "class", "2nd", "a`b", "größe", "x<y", "", " ", "__import__('os')"])
def test_any_name_goes_in_backticks(name: str) -> None:
    rule = parse_rule(f"{quoted(name)} <= 3")
    assert rule.columns == (name,)
    assert quoted("plain") == "plain"


HOSTILE = [
    "__import__('os').system('true') <= 1",
    "x = __import__('os')",
    "x = eval('1')",
    "x = (lambda: 1)()",
    "x = a.b",
    "x = a[0]",
    "x = [a]",
    "x = {a}",
    "x = a if b else c",
    "x = (y := 3)",
    "x = f'{a}'",
    "x = exp(a, b)",
    "x = exp(*a)",
    "x = exp(x=a)",
    "x = getattr(a, 'b')",
    "x = a @ b",
    "x = a // b",
    "x = a % b",
    "x = a << 9",
    "x = ~a",
    "x = not a",
    "x = a and b",
    "x = True",
    "x = None",
    "x = ...",
    "x = 1j",
    "x = b'1'",
    "x = 'text'",
    "x = 1e999",
    "x = 9" + "9" * 500,
    "x = round(a, b)",
    "x = round(a, -1)",
    "x = round(a, 99)",
    "x = min(a)",
    "import os",
    "x: int = 3",
    "x += a",
    "x = y = a",
    "x, y = a",
    "x[0] = a",
    "x.y = a",
    "del x",
    "a <= b; c <= d",
    "a <= b\nc <= d",
    "a == b",
    "a != b",
    "a is b",
    "a in b",
    "a",
    "3",
    "a + b",
    "combinations()",
    "combinations(a)",
    "combinations(a, a)",
    "combinations(a, 3)",
    "combinations(a, b=c)",
    "combinations(*a)",
    "'soon' <= a",
    "'2024-13-45' <= a",
    "'2024-01-01T00:00+01:00' <= a",
    "a <=",
    "<= a",
    "`a <= b",
    "a < = b",
    "x = (" + "(" * 400 + "a" + ")" * 400 + ")",
    "x = " + "-" * 900 + "a",
    "x = " + "+".join(["a"] * 400),
    "a <= " + "b" * 2000,
    "x = \x00",
    "",
    "   ",
    "# a <= b",
]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE)
def test_everything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"^rules holds "):
        parse_rules([text])


def test_large_powers_end() -> None:
    rule = parse_rule("x = 9**9**9**9 * a")
    assert isinstance(rule, Derived)
    assert evaluate(rule.expression, {"a": np.array([1.0])}).tolist() == [np.inf]


@pytest.mark.parametrize("rules", ["a <= b", b"a <= b", 3, {"a <= b": 1}, iter(["a <= b"]), ["a <= b", 3], [None]])
def test_rules_are_a_list_of_texts(rules: object) -> None:
    with pytest.raises(TypeError, match=r"^rules "):
        parse_rules(rules)


def test_a_rule_that_comes_twice_counts_once() -> None:
    assert len(parse_rules(["a <= b", "a <= b"])) == 1


TABLE = pd.DataFrame(
    {
        "a": np.arange(60.0),
        "b": np.arange(60.0) + 5,
        "sex": ["f", "m"] * 30,
        "start": pd.date_range("2024-01-01", periods=60),
        "utc": pd.date_range("2024-01-01", periods=60, tz="UTC"),
        "id": [f"P{number:04}" for number in range(60)],
        "empty": [None] * 60,
    }
)


@pytest.mark.parametrize(
    ("rules", "problem"),
    [
        (["a <= c"], "there is no column 'c'; the columns are a, b, sex, start, utc"),
        (["a <= id"], "column 'id' is not learnt, it is identifier"),
        (["empty <= a"], "column 'empty' is not learnt, it is empty"),
        (["sex <= a"], "column 'sex' holds texts, which are neither compared nor computed"),
        (["start <= a"], "it compares dates and numbers; the difference of two dates is a number of days"),
        (["a <= '2024-01-01'"], "it compares dates and numbers"),
        (["a = start"], "it computes dates and numbers"),
        (["start = start + utc"], "have a time zone, and some have none"),
        (["start * 2 <= start"], "'*' does not go with dates: subtract two of them, which gives days"),
        (["1 <= 2"], "it names no column"),
        (["a = 3"], "it computes a column from no other"),
        (["a = b", "a = 2 * b"], "'a = b' computes column 'a' too"),
        (["a = b - 5", "b = a + 5"], "the columns ['a', 'b'] are computed from one another"),
        (["a = a"], "are computed from one another"),
        (["a >= 30", "a < 30"], "no value of column 'a' keeps it, with 'a >= 30'"),
        (["50 < a < 40"], "no value of column 'a' keeps it: correct the range"),
        (["start > '2024-02-01'", "start < '2024-01-20'"], "no value of column 'start' keeps it"),
        (["a > 100"], "all 60 rows that it applies to break it"),
        (["b <= a"], "all 60 rows that it applies to break it"),
        (["a <= 20", "b >= 40"], "each of the 60 rows with all cells of the rules breaks some rule"),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_rules_that_do_not_suit_the_table(rules: list[str], problem: str) -> None:
    with pytest.raises(ValueError, match=f"^rules holds .*{re.escape(problem)}"):
        MissDiff(rules=rules, steps=2, random_state=0).fit(TABLE)
    plan = MissDiff(rules=rules).plan(TABLE)
    assert problem in plan.refusal


def test_a_bad_rule_is_told_before_the_table_is_read() -> None:
    with pytest.raises(ValueError, match="rules holds 'a <'"):
        MissDiff(rules=["a <"]).fit(None)  # type: ignore[arg-type]
