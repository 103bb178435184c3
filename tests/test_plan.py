"""The plan of a fit: treatments, warnings, and its files."""

from __future__ import annotations

import sys
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest

from missdiff_fast import MissDiff
from missdiff_fast.plan import Plan

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def plan_of(frame: pd.DataFrame, **settings: Any) -> Plan:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return MissDiff(**settings).plan(frame)


def column(frame: pd.DataFrame, name: str, **settings: Any) -> tuple[str, tuple[str, ...]]:
    found = next(one for one in plan_of(frame, **settings).columns if one.column == name)
    return found.treatment, found.warnings


N = 200
ROWS = np.arange(N)
SENTINELS = "may stand for missing cells (23 of them)"
COLUMNS: dict[str, tuple[Any, str, str]] = {
    "age": (ROWS % 70 + 18.0, "continuous", ""),
    "sex": (np.where(ROWS % 3 == 0, "f", "m"), "categorical", ""),
    "year": (np.full(N, 2024), "constant", ""),
    "patient_id": (ROWS * 7 + 10**6, "identifier", ""),
    "note": ([f"no {number} complaint" for number in ROWS], "text", ""),
    "empty": (pd.Series([None] * N), "empty", ""),
    "infinite": (np.where(ROWS == 3, np.inf, ROWS % 9), "refused", "(1 of 200 cells) has infinite values"),
    "mixed": ([1.5 if number % 2 else "x" for number in ROWS], "refused", "mixes types"),
    "low sentinel": (np.where(ROWS % 9 == 0, -9.0, ROWS % 50), "continuous", f"-9 {SENTINELS}"),
    "high sentinel": (np.where(ROWS % 9 == 0, 999, ROWS % 50), "continuous", f"999 {SENTINELS}"),
    "two sentinels": (np.where(ROWS % 9 < 2, -8.0 - ROWS % 9, ROWS % 50), "continuous", "-8 may stand for"),
    "scale": (ROWS % 7 - 1.0, "continuous", ""),
    "laboratory": (np.where(ROWS % 9 == 0, -999.0, ROWS % 50 - 8.0), "continuous", "-999 may stand for"),
    "bounds": (np.where(ROWS % 9 == 0, 99, np.where(ROWS % 9 == 1, -1, ROWS % 98 - 5.0)), "continuous", ""),
    "pressure": ([f"{number % 90 + 90}/{number % 70 + 50}" for number in ROWS], "text", ""),
    "no sentinel": (np.where(ROWS % 9 == 0, 99, ROWS % 90), "continuous", ""),
    "temperatures": (np.where(ROWS % 9 == 0, -9.0, ROWS % 50 - 8.0), "continuous", ""),
    "zip_code": (ROWS % 40 + 10_115, "continuous", "may be a code, not an amount: then make it categorical"),
    "rare": (np.where(ROWS % 17 == 0, ROWS / 9, np.nan), "continuous", "94.0% of the cells are missing"),
    "nearly 0": (np.where(ROWS == 5, 1.5, np.where(ROWS == 8, 2.5, 0.0)), "continuous", "0.0 in 99.00% of the"),
    "day": ([f"{number % 28 + 1}.{number % 7 + 1}.2024" for number in ROWS], "categorical", "holds dates in text"),
    "level": (["<5", *(f"{number % 19 + 5}" for number in ROWS[1:])], "continuous", "censored: '<5' in 1 cell"),
    "noted": (["5*", *(f"{number % 19 + 5}" for number in ROWS[1:])], "categorical", "numbers or dates: '5*' in"),
}  # fmt: skip


@pytest.mark.parametrize("name", COLUMNS)
def test_treatments_and_warnings(name: str) -> None:
    frame = pd.DataFrame({name: COLUMNS[name][0], "age": COLUMNS["age"][0], "sex": COLUMNS["sex"][0]})
    treatment, found = column(frame, name)
    assert treatment == COLUMNS[name][1]
    assert bool(found) == bool(COLUMNS[name][2])
    assert COLUMNS[name][2] in "".join(found)


def test_odd_texts_are_no_trouble_for_the_file() -> None:
    frame = pd.DataFrame({'a "b".c\x7f': ["x\x01"] * 199 + ["y\n"], "x": ROWS % 9})
    text = plan_of(frame).to_toml({"missing-values": ["\t", "ü"]})
    parsed = tomllib.loads(text)
    assert parsed == {"missing-values": ["\t", "ü"], "treatments": {'a "b".c\x7f': "categorical", "x": "continuous"}}
    assert "almost constant" in text


def test_columns_that_follow_from_others_are_told() -> None:
    frame = pd.DataFrame({"minutes": ROWS % 70 * 3, "other": ROWS % 11, "charge": (0.17 * (ROWS % 70 * 3)).round(2)})
    assert column(frame, "charge") == ("continuous", ("follows from others: 0.17 * minutes",))
    assert column(frame, "charge", settings={"relations.enabled": False}) == ("continuous", ())


def test_settings_are_followed() -> None:
    frame = pd.DataFrame({name: COLUMNS[name][0] for name in ("age", "patient_id", "high sentinel", "zip_code", "sex")})
    settings = {"treatments": {"patient_id": "continuous", "sex": "text"}, "categorical_columns": ["zip_code"]}
    plan = plan_of(frame, missing_values=[999], **settings)
    assert [one.treatment for one in plan.columns] == ["continuous", "continuous", "continuous", "categorical", "text"]
    assert plan.columns[2].missing == pytest.approx(23 / N)
    assert not any(one.warnings for one in plan.columns)
    assert column(frame, "zip_code", preset="paper", max_categories=30) == (
        "continuous",
        ("may be a code, not an amount: then make it categorical",),
    )
    with pytest.raises(ValueError, match="width must be at least 1"):
        plan_of(frame, width=0)
    with pytest.raises(TypeError, match="expected a pandas or polars DataFrame or a pyarrow Table"):
        MissDiff().plan([1, 2])  # type: ignore[arg-type]


def test_a_fit_does_what_the_plan_says() -> None:
    frame = pd.DataFrame({name: values for name, (values, kind, _) in COLUMNS.items() if kind != "refused"})
    plan = plan_of(frame)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = MissDiff(steps=2, refine=0, width=8, blocks=1, random_state=0).fit(frame)
    kinds = {one.name: one.kind for one in model.codec_.schema} | dict(model.set_aside_[["column", "kind"]].to_numpy())
    assert {one.column: one.treatment for one in plan.columns} == kinds


def test_tables_of_few_columns_have_plans() -> None:
    assert column(pd.DataFrame({"x": [None, None]}), "x") == ("empty", ())
    assert column(pd.DataFrame({"x": [1, 1]}), "x")[0] == "refused"
    assert plan_of(pd.DataFrame({"x": []})).columns[0].treatment == "empty"
    assert plan_of(pd.DataFrame({"x": []})).refusal == "the table is empty"
    alone = plan_of(pd.DataFrame({"id": [f"P{number:03}" for number in range(99)], "e": [None] * 99}))
    assert "a fit would be refused: no column can be learnt: 'id' is identifier, 'e' is empty; give" in str(alone)
    assert plan_of(np.random.default_rng(0).normal(size=(9, 2))).frame()["column"].tolist() == ["x0", "x1"]  # type: ignore[arg-type]


def test_days_as_numbers_are_told() -> None:
    days = pd.date_range("2020-01-01", periods=60).strftime("%Y%m%d").astype(int)
    plan = MissDiff().plan(pd.DataFrame({"day": days, "code": range(20_240_100, 20_240_160)}))
    assert plan.columns[0].warnings[0].startswith("holds dates as numbers such as 20240229: write them as 2024-02-29")
    assert not any("dates" in text for text in plan.columns[1].warnings)
