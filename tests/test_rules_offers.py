"""Rules in a plan: how many rows break those that were given, and which hold in the table; and in the command."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from commands import refused

from missdiff_fast import MissDiff
from missdiff_fast.cli import main

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FIT = ("--steps", "2", "--no-refine", "--width", "8", "--blocks", "1", "--seed", "0", "--quiet")


def make_table(rows: int = 300) -> pd.DataFrame:
    random = np.random.default_rng(0)
    table = pd.DataFrame(
        {"weight": random.normal(75, 10, rows).round(1), "height": random.normal(1.7, 0.1, rows).round(2)}
    )
    table["bmi"] = (table["weight"] / table["height"] ** 2).round(1)
    table["admitted on"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(random.integers(0, 300, rows), unit="D")
    table["seen"] = table["admitted on"] + pd.to_timedelta(random.integers(0, 40, rows), unit="D")
    table["stay"] = random.integers(40, 99, rows)
    table["discharged"] = table["admitted on"] + pd.to_timedelta(table["stay"], unit="D")
    table["ward"] = random.choice(list("ABCDEF"), rows)
    table["hospital"] = table["ward"].map(dict(zip("ABCDEF", ["I", "I", "II", "II", "III", "III"], strict=True)))
    table["pain"] = random.integers(0, 11, rows)
    table["age"] = random.integers(18, 99, rows)
    return table


OFFERED = [
    "bmi = weight / height**2",
    "discharged = `admitted on` + stay",
    "combinations(ward, hospital)",
    "`admitted on` <= seen",
    "seen <= discharged",
]


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return make_table()


def offers(table: pd.DataFrame, **settings: object) -> list[str]:
    return [one.rule for one in MissDiff(**settings).plan(table).rules if not one.given]  # type: ignore[arg-type]


def test_what_holds_is_offered_and_keeps_when_given(table: pd.DataFrame) -> None:
    assert sorted(offers(table)) == sorted(OFFERED)
    planned = MissDiff(rules=OFFERED).plan(table).rules
    assert [(one.rule, one.rows, one.broken, one.given) for one in planned] == [
        (rule, 300, 0, True) for rule in OFFERED
    ]


def test_chance_and_trivial_orders_are_not_offered() -> None:
    random = np.random.default_rng(0)
    table = pd.DataFrame({f"x{k}": random.normal(size=150) for k in range(30)})
    table["high"] = random.normal(50, 1, 150)  # above all others, whatever they are
    assert offers(table) == []
    few = make_table(90)[["admitted on", "seen"]]
    assert offers(few) == []  # too few rows to tell


def test_at_most_a_dozen_orders_are_offered_the_tightest() -> None:
    random = np.random.default_rng(0)
    low = random.normal(size=(300, 20))
    width = random.exponential(1, (300, 20)) * np.linspace(0.1, 2, 20)
    columns = {f"low{k}": low[:, k] for k in range(20)} | {f"high{k}": low[:, k] + width[:, k] for k in range(20)}
    found = offers(pd.DataFrame(columns), settings={"relations.enabled": False})
    assert len(found) == 12
    assert found[0] == "low0 <= high0"
    assert all(rule.split(" <= ")[1] == rule.split(" <= ")[0].replace("low", "high") for rule in found)


def test_rules_given_are_told_with_the_rows_that_break_them(table: pd.DataFrame) -> None:
    plan = MissDiff(rules=["age <= 80", "bmi = weight / height**2"]).plan(table)
    broken = int((table["age"] > 80).sum())
    assert [(one.rule, one.broken) for one in plan.rules if one.given] == [
        ("age <= 80", broken),
        ("bmi = weight / height**2", 0),
    ]
    assert "bmi = weight / height**2" not in [one.rule for one in plan.rules if not one.given]
    lines = str(plan).splitlines()
    assert f'    "age <= 80",  # broken in {broken} of 300 rows' in lines
    assert '    "`admitted on` <= seen",  # 300 rows' in lines
    assert tomllib.loads(plan.to_toml())["rules"] == ["age <= 80", "bmi = weight / height**2"]
    offered = plan.to_toml().replace("    # ", "    ")
    assert set(tomllib.loads(offered)["rules"]) == {"age <= 80", *OFFERED}
    assert plan.to_dict()["rules"][0] == {
        "rule": "age <= 80",
        "kind": "range",
        "rows": 300,
        "broken": broken,
        "given": True,
    }


def test_the_command(table: pd.DataFrame, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, toml, model = tmp_path / "data.csv", tmp_path / "plan.toml", tmp_path / "model"
    table.mask(np.random.default_rng(0).random(table.shape) < 0.1).to_csv(data, index=False)

    def run(*arguments: object) -> str:
        assert main([*map(str, arguments)]) == 0
        return capsys.readouterr().out

    assert '"age <= 90",' in run("plan", data, "--rule", "age <= 90", "-o", toml)
    assert [one["given"] for one in json.loads(run("plan", data, "--json"))["rules"]] == [False] * 5
    toml.write_text(toml.read_text().replace('    # "combinations', '    "combinations'))
    run("fit", data, "-o", model, "--config", toml, "--rule", "`admitted on` <= seen", *FIT)
    told = run("info", model)
    assert "rules, and the training rows that break them:" in told
    for rule in ("age <= 90", "combinations(ward, hospital)", "`admitted on` <= seen"):
        assert rule in told
    assert MissDiff.load(model).rules == ("age <= 90", "combinations(ward, hospital)", "`admitted on` <= seen")
    run("sample", model, "-n", "50", "-o", tmp_path / "rows.csv")
    rows = pd.read_csv(tmp_path / "rows.csv", parse_dates=["admitted on", "seen"])
    assert (rows["age"] <= 90).all()
    assert (rows["admitted on"] <= rows["seen"]).all()


def test_what_the_command_refuses(table: pd.DataFrame, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = tmp_path / "data.csv"
    table.to_csv(data, index=False)
    told = refused(capsys, "fit", str(data), "-o", str(tmp_path / "model"), "--rule", "age <= agee", *FIT)
    assert "--rule holds 'age <= agee': there is no column 'agee'" in told
    toml = tmp_path / "plan.toml"
    toml.write_text('rules = "age <= 90"\n')
    told = refused(capsys, "fit", str(data), "-o", str(tmp_path / "model"), "--config", str(toml), *FIT)
    assert "'rules' must be a list of texts" in told
    toml.write_text('rule = ["age <= 90"]\n')
    told = refused(capsys, "fit", str(data), "-o", str(tmp_path / "model"), "--config", str(toml), *FIT)
    assert "'rule' is no option of a file" in told
    assert "rules" in told
