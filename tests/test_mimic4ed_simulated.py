"""The simulated stand-in for MIMIC4ED: shape, ranges, missing rates, and the dependence it promises."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from frames import TEXT, fit_codec

from missdiff_fast.datasets import MIMIC4ED_CATEGORICAL, MIMIC4ED_CONTINUOUS, simulate_mimic4ed
from missdiff_fast.datasets.mimic4ed import COUNTS, FLAGS, MEASURED, VALID_RANGES
from missdiff_fast.datasets.mimic4ed_simulated import _FLAGS, _VITALS, NATURAL_MISSING
from missdiff_fast.missingness import hide

ROWS = 50_000


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    return simulate_mimic4ed(ROWS, random_state=0)


def test_shape_and_dtypes_are_those_of_the_loader(rows: pd.DataFrame) -> None:
    assert list(rows.columns) == [*MIMIC4ED_CATEGORICAL, *MIMIC4ED_CONTINUOUS]
    dtypes = rows.dtypes.astype(str)
    assert rows["gender"].dtype == TEXT
    assert set(rows["gender"]) == {"F", "M"}
    assert set(dtypes[list(FLAGS)]) == {"bool"}
    assert set(dtypes[["age", *COUNTS, "n_med", "n_medrecon"]]) == {"int64"}
    assert set(dtypes[[*MEASURED, "ed_los"]]) == {"float64"}
    schema = fit_codec(rows).schema
    assert set(schema.categorical) == set(MIMIC4ED_CATEGORICAL)
    assert set(schema.continuous) == set(MIMIC4ED_CONTINUOUS)


def test_it_says_that_it_is_simulated(rows: pd.DataFrame) -> None:
    assert rows.attrs == {"simulated": True}
    assert simulate_mimic4ed.__doc__ is not None
    assert "NO patient's data" in simulate_mimic4ed.__doc__


def test_ranges(rows: pd.DataFrame) -> None:
    for column in MEASURED:
        _, low, high, _ = VALID_RANGES[column.split("_")[1]]
        assert rows[column].dropna().between(low, high).all()
    assert rows["age"].between(18, 95).all()
    assert set(rows["triage_acuity"]) == {1, 2, 3, 4, 5}
    assert set(rows["triage_pain"].dropna()) == set(range(11))
    assert rows["ed_los"].between(1 / 60, 24 * 14).all()
    assert (rows["ed_los"] > 24).any()
    for unit in ("ed", "hosp", "icu"):
        assert (rows[f"n_{unit}_30d"] <= rows[f"n_{unit}_90d"]).all()
        assert (rows[f"n_{unit}_90d"] <= rows[f"n_{unit}_365d"]).all()
    for days in (30, 90, 365):
        assert (rows[f"n_icu_{days}d"] <= rows[f"n_hosp_{days}d"]).all()
    whole = rows[["triage_heartrate", "ed_sbp_last", "triage_o2sat"]].dropna()
    assert (whole % 1 == 0).all(axis=None)


def test_missing_rates_are_the_natural_ones(rows: pd.DataFrame) -> None:
    rates = rows.isna().mean()
    assert set(rates[rates > 0].index) == set(NATURAL_MISSING)
    for column, rate in NATURAL_MISSING.items():
        assert abs(rates[column] - rate) < 4 * (rate * (1 - rate) / ROWS) ** 0.5
    together = rows[["triage_sbp", "triage_heartrate"]].isna().all(axis=1).mean()
    assert together > 5 * rates["triage_sbp"] * rates["triage_heartrate"]


def test_flags_have_their_shares(rows: pd.DataFrame) -> None:
    assert set(_FLAGS) == set(FLAGS)
    for name, (share, _) in _FLAGS.items():
        assert rows[name].mean() == pytest.approx(share, rel=0.15)


def test_loads_leave_room_for_chance() -> None:
    for loads in [*(loads for _, loads in _FLAGS.values()), *_VITALS.values()]:
        assert sum(load**2 for load in loads.values()) < 1


def test_vital_signs_are_correlated(rows: pd.DataFrame) -> None:
    pairs = {
        ("triage_sbp", "triage_dbp"): 0.55,
        ("triage_temperature", "triage_heartrate"): 0.3,
        ("triage_o2sat", "triage_resprate"): -0.25,
        ("triage_sbp", "ed_sbp_last"): 0.6,
        ("triage_heartrate", "ed_heartrate_last"): 0.6,
    }
    for (first, second), least in pairs.items():
        r = rows[first].corr(rows[second])
        assert abs(r) > abs(least) - 0.05
        assert np.sign(r) == np.sign(least)


def test_comorbidities_come_with_age_and_stays_with_acuity(rows: pd.DataFrame) -> None:
    old = rows["age"] >= 65
    for name in ("cci_CHF", "cci_Renal", "cci_Dementia", "eci_Arrhythmia", "eci_HTN1"):
        assert rows[name][old].mean() > 1.5 * rows[name][~old].mean()
    assert rows["eci_Drugs"][old].mean() < rows["eci_Drugs"][~old].mean()
    hours = rows.groupby("triage_acuity")["ed_los"].median()
    assert hours[2] > hours[3] > hours[4] > hours[5]
    ill = rows["triage_acuity"] <= 2
    assert rows["triage_o2sat"][ill].mean() < rows["triage_o2sat"][~ill].mean()


def test_seeds_and_sizes() -> None:
    assert simulate_mimic4ed(200, 1).equals(simulate_mimic4ed(200, 1))
    assert not simulate_mimic4ed(200, 1).equals(simulate_mimic4ed(200, 2))
    empty = simulate_mimic4ed(0)
    assert empty.shape == (0, 73)
    assert empty.dtypes.equals(simulate_mimic4ed(5).dtypes)
    with pytest.raises(ValueError, match="num_rows must be at least 0, got -1"):
        simulate_mimic4ed(-1)


def test_masks_of_it_attain_their_ratio(rows: pd.DataFrame) -> None:
    table = rows[:2000].drop(columns=list(NATURAL_MISSING))
    for mechanism in ("mar", "nmar"):
        _, observed = hide(table, mechanism, 0.2, random_state=0)
        assert abs((~observed).mean() - 0.2) < 4 * 0.4 / observed.size**0.5
