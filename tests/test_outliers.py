"""A few numbers far beyond all others cost their own cells only: conditional means have the scale of the rest."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from frames import encode, fit_codec

from missdiff_fast import MissDiff
from missdiff_fast._engine.backend import ReferenceBackend
from missdiff_fast.baselines import MeanModeImputer
from missdiff_fast.table import Codec

RANDOM = np.random.default_rng(0)
PH = RANDOM.normal(7.4, 0.06, 2000).round(2)
STAYS = RANDOM.lognormal(1, 1.2, 2000)
DAYS = pd.Timestamp("2012-01-01") + pd.to_timedelta(RANDOM.integers(0, 3000, 2000), unit="D")
COSTS = np.append(np.zeros(20_000), RANDOM.pareto(1.5, 300).round(2) + 10)  # mostly 0, the others a heavy tail


def with_values(column: Any, values: list[Any]) -> pd.Series:
    return pd.concat([pd.Series(column), pd.Series(values)], ignore_index=True).astype(pd.Series(column).dtype)


def scale(column: pd.Series) -> tuple[Any, ...]:
    """The range of means, mean and deviation of a fitted column."""
    resolution = fit_codec(pd.DataFrame({"x": column}))._continuous[0].resolution
    return resolution.low, resolution.high, resolution.mean + float(resolution.centre), resolution.sd


WRONG: dict[str, tuple[Any, list[Any]]] = {
    "one": (PH, [99_999_999.0]),
    "below": (PH, [-99_999_999.0]),
    "both sides": (PH, [-1e9, 1e9]),
    "a few": (PH, [94.0, 94.0, 95.0, 99.0, 100.0]),
    "fifteen": (PH, [740.0] * 15),
    "integers": (np.arange(2000), [2**60]),
    "the widest integers": (np.arange(2000), [-(2**63), 2**63 - 1]),
    "a century too late": (DAYS, [pd.Timestamp("2262-01-01")]),
    "a sentinel": (DAYS, [pd.Timestamp("1900-01-01")] * 12),
    "few rows": (np.arange(25.0), [1e6]),
}


@pytest.mark.parametrize("name", WRONG)
def test_means_have_the_scale_of_the_rest(name: str) -> None:
    column, wrong = WRONG[name]
    low, high, mean, sd = scale(with_values(column, wrong))
    plain = pd.Series(column)
    if plain.dtype.kind == "M":
        plain = plain.astype("int64")
    assert (low, high) == (plain.min(), plain.max())
    assert mean == pytest.approx(plain.mean(), abs=plain.std() / 4)
    assert sd == pytest.approx(plain.std(), rel=0.25)


KEPT = {
    "normal": PH,
    "heavy tail": STAYS,
    "mostly zero": COSTS,
    "a share of two per cent": np.append(PH, [94.0] * 45),
    "the greatest is three times the rest": np.append(np.arange(100.0), 390.0),
    "two values, one rare": np.append(np.zeros(5000), 0.5),
    "rare counts": np.repeat([0.0, 1.0, 2.0, 3.0, 9.0], [5000, 12, 4, 2, 1]),
    "few rows": np.append(np.arange(12.0), 1e6),
}


@pytest.mark.parametrize("name", KEPT)
def test_other_columns_keep_their_scale(name: str) -> None:
    column = KEPT[name]
    low, high, mean, sd = scale(pd.Series(column))
    assert (low, high) == (None, None)
    assert mean == pytest.approx(column.mean(), rel=1e-12)
    assert sd == pytest.approx(column.std(), rel=1e-12)


def test_outliers_are_encoded_and_decoded_as_they_are() -> None:
    frame = pd.DataFrame({"x": np.append(PH, 94.0)})
    codec = fit_codec(frame)
    table = encode(codec, frame)
    codes = torch.zeros(len(frame), 0, dtype=torch.int16)
    pd.testing.assert_frame_equal(codec.decode_means(table.values.double(), codes), frame)
    assert table.continuous[-1, 0] == table.continuous.max()


def test_without_outliers_values_and_means_are_those_of_the_rest() -> None:
    frame = pd.DataFrame({"x": [*PH, 94.0, -3.0]})
    codec = fit_codec(frame)
    table = encode(codec, frame)
    clipped = codec.without_outliers(table)
    greatest, least = table.values[:-2].max(), table.values[:-2].min()
    assert torch.equal(clipped.values, table.values.clamp(least, greatest))
    means = codec.decode_means(torch.tensor([[-99.0], [99.0]]), torch.zeros(2, 0, dtype=torch.int16), outliers=False)
    assert means["x"].tolist() == [PH.min(), PH.max()]


def test_a_table_without_outliers_comes_back_itself() -> None:
    frame = pd.DataFrame({"x": PH, "y": STAYS})
    codec = fit_codec(frame)
    table = encode(codec, frame)
    assert codec.without_outliers(table) is table


@pytest.mark.parametrize("column", [with_values(PH, [94.0]), with_values(DAYS, [pd.Timestamp("2262-01-01")])])
def test_the_state_keeps_the_range(column: pd.Series) -> None:
    codec = fit_codec(pd.DataFrame({"x": column}))
    again = Codec.from_state(*codec.state(), ops=ReferenceBackend())
    assert again._continuous[0].resolution == codec._continuous[0].resolution


def holed(seed: int, wrong: list[float]) -> tuple[pd.DataFrame, pd.Series]:
    """Ages and incomes that follow them, a fifth hidden, the first ones mistyped; and the true incomes."""
    random = np.random.default_rng(seed)
    age = random.normal(50, 10, 1500)
    income = np.exp(10 + 0.03 * (age - 50) + random.normal(0, 0.1, 1500)).round()
    hidden = random.random(1500) < 0.2
    hidden[: len(wrong)] = False
    frame = pd.DataFrame({"age": age, "income": np.where(hidden, np.nan, income)})
    frame.loc[: len(wrong) - 1, "income"] = wrong
    return frame, pd.Series(income)


@pytest.mark.parametrize(("seed", "wrong"), [(0, [99_999_999.0]), (1, [-1e7, 8e7, 8e7]), (2, [3e6])])
def test_imputation_with_mistyped_values(seed: int, wrong: list[float]) -> None:
    errors = {}
    for name, values in (("plain", []), ("mistyped", wrong)):
        frame, truth = holed(seed, values)
        model = MissDiff(steps=500, batch_size=64, width=32, refine=0, random_state=seed).fit(frame)
        hidden = frame["income"].isna()
        filled = model.impute(frame)
        errors[name] = float((filled["income"] - truth)[hidden].abs().median())
        median = float((frame["income"].median() - truth)[hidden].abs().median())
        usual = frame["income"].drop(range(len(values)))
        assert filled.loc[hidden, "income"].between(usual.min(), usual.max()).all()
        assert filled["income"][~hidden].equals(frame["income"][~hidden])
    assert errors["mistyped"] < 1.25 * errors["plain"]
    assert errors["mistyped"] < 0.7 * median


def test_drawn_rows_hold_outliers_as_often_as_the_table() -> None:
    frame, _ = holed(0, [9e7] * 12)
    rows = (
        MissDiff(steps=500, batch_size=64, width=32, refine=0, random_state=0).fit(frame).sample(4000, random_state=0)
    )
    share = (frame["income"] == 9e7).sum() / frame["income"].notna().sum()
    assert (rows["income"] == 9e7).mean() == pytest.approx(share, abs=0.005)


def test_baselines_fill_the_mean_of_all_values() -> None:
    frame = pd.DataFrame({"x": [*PH, 2e6, np.nan]})
    assert MeanModeImputer().fit(frame).impute(frame)["x"].iloc[-1] == pytest.approx(frame["x"].mean(), abs=0.01)
