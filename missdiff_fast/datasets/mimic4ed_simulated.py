"""A simulated table of MIMIC4ED's shape: its columns, dtypes, ranges and missing rates, and no patient's data.

All numbers except the missing rates are invented: plausible in direction and size, but not measured. Use the table for
tests and for work on size and speed; it says nothing about patients.
"""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
import pandas as pd

from missdiff_fast._checks import MAX_ROWS, check_count
from missdiff_fast._engine.random import check_seed
from missdiff_fast.datasets.mimic4ed import MIMIC4ED_CATEGORICAL, MIMIC4ED_CONTINUOUS, VITALS
from missdiff_fast.table.dtypes import text_dtype

# Of the benchmark's training rows after cleaning.
NATURAL_MISSING = {
    "triage_temperature": 0.0410,
    "triage_heartrate": 0.0247,
    "triage_resprate": 0.0325,
    "triage_o2sat": 0.0332,
    "triage_sbp": 0.0276,
    "triage_dbp": 0.0305,
    "triage_pain": 0.0787,
    "ed_temperature_last": 0.0545,
    "ed_heartrate_last": 0.0354,
    "ed_resprate_last": 0.0365,
    "ed_o2sat_last": 0.0606,
    "ed_sbp_last": 0.0359,
    "ed_dbp_last": 0.0365,
}

# Share of rows that have a flag, and its correlations with the hidden factors that `simulate_mimic4ed` draws.
_FLAGS: dict[str, tuple[float, dict[str, float]]] = {
    "chiefcom_chest_pain": (0.08, {"age": 0.1, "illness": 0.1}),
    "chiefcom_abdominal_pain": (0.12, {"age": -0.15}),
    "chiefcom_headache": (0.05, {"age": -0.2, "illness": -0.1}),
    "chiefcom_shortness_of_breath": (0.08, {"age": 0.2, "oxygen": 0.5, "illness": 0.3}),
    "chiefcom_back_pain": (0.05, {"illness": -0.2}),
    "chiefcom_cough": (0.04, {"fever": 0.3, "oxygen": 0.2}),
    "chiefcom_nausea_vomiting": (0.04, {"age": -0.1}),
    "chiefcom_fever_chills": (0.05, {"fever": 0.75, "illness": 0.2}),
    "chiefcom_syncope": (0.02, {"age": 0.2, "pressure": -0.2}),
    "chiefcom_dizziness": (0.03, {"age": 0.15}),
    "cci_MI": (0.06, {"age": 0.35, "frailty": 0.45}),
    "cci_CHF": (0.11, {"age": 0.4, "frailty": 0.5, "oxygen": 0.1}),
    "cci_PVD": (0.06, {"age": 0.35, "frailty": 0.4}),
    "cci_Stroke": (0.06, {"age": 0.35, "frailty": 0.3}),
    "cci_Dementia": (0.03, {"age": 0.6, "frailty": 0.2}),
    "cci_Pulmonary": (0.15, {"age": 0.15, "frailty": 0.4, "oxygen": 0.25}),
    "cci_Rheumatic": (0.02, {"age": 0.1, "frailty": 0.2}),
    "cci_PUD": (0.02, {"age": 0.15, "frailty": 0.3}),
    "cci_Liver1": (0.08, {"frailty": 0.35, "use": 0.3}),
    "cci_DM1": (0.15, {"age": 0.3, "frailty": 0.4}),
    "cci_DM2": (0.08, {"age": 0.25, "frailty": 0.55}),
    "cci_Paralysis": (0.02, {"age": 0.15, "frailty": 0.3}),
    "cci_Renal": (0.12, {"age": 0.4, "frailty": 0.5, "pressure": 0.1}),
    "cci_Cancer1": (0.09, {"age": 0.35, "frailty": 0.25}),
    "cci_Liver2": (0.03, {"frailty": 0.4, "use": 0.35}),
    "cci_Cancer2": (0.04, {"age": 0.25, "frailty": 0.3, "illness": 0.15}),
    "cci_HIV": (0.01, {"age": -0.1, "use": 0.25}),
    "eci_Arrhythmia": (0.15, {"age": 0.45, "frailty": 0.45}),
    "eci_Valvular": (0.05, {"age": 0.45, "frailty": 0.3}),
    "eci_PHTN": (0.04, {"age": 0.3, "frailty": 0.5}),
    "eci_HTN1": (0.27, {"age": 0.45, "frailty": 0.3, "pressure": 0.25}),
    "eci_HTN2": (0.12, {"age": 0.4, "frailty": 0.5, "pressure": 0.1}),
    "eci_NeuroOther": (0.07, {"frailty": 0.35}),
    "eci_Hypothyroid": (0.09, {"age": 0.3, "frailty": 0.2}),
    "eci_Lymphoma": (0.01, {"age": 0.15, "frailty": 0.2}),
    "eci_Coagulopathy": (0.06, {"age": 0.15, "frailty": 0.5}),
    "eci_Obesity": (0.09, {"frailty": 0.3}),
    "eci_WeightLoss": (0.05, {"age": 0.2, "frailty": 0.5}),
    "eci_FluidsLytes": (0.18, {"age": 0.25, "frailty": 0.65}),
    "eci_BloodLoss": (0.02, {"frailty": 0.35}),
    "eci_Anemia": (0.06, {"age": 0.15, "frailty": 0.5}),
    "eci_Alcohol": (0.08, {"age": -0.1, "use": 0.75}),
    "eci_Drugs": (0.07, {"age": -0.25, "use": 0.7}),
    "eci_Psychoses": (0.04, {"age": -0.2, "use": 0.5}),
    "eci_Depression": (0.17, {"frailty": 0.35, "use": 0.4}),
}
_VITALS: dict[str, dict[str, float]] = {
    "temperature": {"fever": 0.8},
    "heartrate": {"fever": 0.4, "illness": 0.35, "age": -0.15},
    "resprate": {"illness": 0.4, "fever": 0.2, "oxygen": 0.35},
    "o2sat": {"oxygen": 0.85, "illness": 0.2, "age": 0.1},
    "sbp": {"pressure": 0.8, "age": 0.25, "illness": -0.15},
    "dbp": {"pressure": 0.7, "age": -0.1, "illness": -0.15},
}
_LASTING = 0.65  # correlation of a vital sign's latent level at triage with that at the end
_ACUITY = (0.055, 0.390, 0.930, 0.997)  # cumulative shares of 1 to 4
_HOURS = np.array([5.5, 6.5, 5.2, 3.0, 2.0])  # median length of stay, by acuity
_BOARDING = 0.02  # share of stays of several days


def simulate_mimic4ed(num_rows: int, random_state: int | None = None) -> pd.DataFrame:
    """Simulate a table of MIMIC4ED's shape. It holds NO patient's data, and its numbers are invented.

    Vital signs depend on common factors and on those at triage; comorbidities and visits become more common with age
    and frailty; length of stay depends on acuity. Measurements are missing at the benchmark's own rates, often several
    together in a row.

    Parameters
    ----------
    num_rows : int
        N. (353,150, the number of training rows of the real table, takes a few seconds.)
    random_state : int, optional
        Makes the rows repeatable.

    Returns
    -------
    DataFrame
        ``[N, 73]``, with the columns, dtypes and units that `load_mimic4ed` gives. Its ``attrs`` say
        ``{"simulated": True}``.

    Raises
    ------
    TypeError, ValueError
        Negative `num_rows`, or a bad `random_state`.

    Examples
    --------
    >>> rows = simulate_mimic4ed(1000, random_state=0)
    >>> rows.shape, rows.attrs
    ((1000, 73), {'simulated': True})
    >>> bool(rows["ed_sbp_last"].isna().any())
    True
    """
    num_rows = check_count("num_rows", num_rows, least=0, most=MAX_ROWS)
    random = np.random.default_rng(check_seed(random_state))
    names = ("frailty", "fever", "oxygen", "pressure", "use")
    factors = {name: random.standard_normal(num_rows) for name in names}
    age = np.floor(18 + 78 * random.beta(1.15, 1.4, num_rows))
    factors["age"] = (age - 52.7) / 20.5
    factors["illness"] = _mix({"frailty": 0.3, "age": 0.3}, factors, random)
    urgency = _mix({"illness": 0.7}, factors, random)
    acuity = 1 + np.searchsorted([NormalDist().inv_cdf(share) for share in _ACUITY], -urgency)
    columns: dict[str, np.ndarray] = {
        "gender": np.where(random.random(num_rows) < 0.54, "F", "M").astype(object),
        "age": age.astype(np.int64),
        "triage_acuity": acuity.astype(np.float64),
        "ed_los": _stay(acuity, factors["age"], random),
        "triage_pain": _pain(factors["age"], random),
        **_visits(factors, random),
        "n_med": random.poisson(np.exp(0.5 + 0.4 * factors["illness"])),
        "n_medrecon": random.poisson(np.exp(1.1 + 0.45 * factors["frailty"] + 0.4 * factors["age"])),
    }
    for name, (share, loads) in _FLAGS.items():
        columns[name] = _mix(loads, factors, random) > NormalDist().inv_cdf(1 - share)
    for name in VITALS:
        level = _mix(_VITALS[name], factors, random)
        later = _LASTING * level + (1 - _LASTING**2) ** 0.5 * random.standard_normal(num_rows)
        columns[f"triage_{name}"], columns[f"ed_{name}_last"] = _measure(name, level), _measure(name, 0.8 * later)
    haste = {start: random.standard_normal(num_rows) for start in ("triage", "ed")}
    for name, share in NATURAL_MISSING.items():
        missing = _mix({name.split("_")[0]: 0.85}, haste, random) > NormalDist().inv_cdf(1 - share)
        columns[name] = np.where(missing, np.nan, columns[name])
    frame = pd.DataFrame({name: columns[name] for name in (*MIMIC4ED_CATEGORICAL, *MIMIC4ED_CONTINUOUS)})
    frame["gender"] = frame["gender"].astype(text_dtype())  # for no rows pandas 3 would leave objects
    frame.attrs["simulated"] = True
    return frame


def _mix(loads: dict[str, float], factors: dict[str, np.ndarray], random: np.random.Generator) -> np.ndarray:
    """A variable of unit variance ``[N]`` with the given correlations with nearly uncorrelated factors."""
    rest = (1 - sum(load**2 for load in loads.values())) ** 0.5
    mixed = rest * random.standard_normal(len(next(iter(factors.values()))))
    for name, load in loads.items():
        mixed += load * factors[name]
    return mixed


def _measure(name: str, level: np.ndarray) -> np.ndarray:
    """Reading of a vital sign, from its standardised level."""
    if name == "temperature":
        return (np.round(98.1 + 0.9 * level, 1) - 32) * 5 / 9
    if name == "o2sat":
        return np.clip(np.round(100 - np.exp(0.5 + 0.7 * level)), 40, 100)
    mean, spread = {"heartrate": (85, 17), "resprate": (17.6, 2.4), "sbp": (134, 22), "dbp": (77, 14)}[name]
    return np.round(np.clip(mean + spread * level, 4, None))


def _stay(acuity: np.ndarray, age: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Length of stay in hours, rounded to minutes."""
    hours = _HOURS[acuity - 1] * np.exp(0.15 * age + 0.6 * random.standard_normal(len(age)))
    boarding = (random.random(len(age)) < _BOARDING) & (acuity <= 3)
    hours += np.where(boarding, random.exponential(20, len(age)), 0)
    return np.maximum(1, np.round(60 * hours)) / 60


def _pain(age: np.ndarray, random: np.random.Generator) -> np.ndarray:
    level = np.clip(np.round(6.3 - 0.4 * age + 2.4 * random.standard_normal(len(age))), 1, 10)
    return np.where(random.random(len(age)) < 0.4, 0.0, level)


def _visits(factors: dict[str, np.ndarray], random: np.random.Generator) -> dict[str, np.ndarray]:
    """Numbers of visits in the last 30, 90 and 365 days, each of which counts the visits of the shorter time too."""
    emergency = np.exp(-0.4 + 0.5 * factors["frailty"] + 0.5 * factors["use"])
    hospital = np.exp(-1.3 + 0.8 * factors["frailty"] + 0.4 * factors["age"])
    sums = dict.fromkeys(("ed", "hosp", "icu"), np.zeros(len(emergency), dtype=np.int64))
    visits: dict[str, np.ndarray] = {}
    for days, share in ((30, 0.14), (90, 0.2), (365, 0.66)):
        stays = random.poisson(share * hospital)
        new = {"ed": random.poisson(share * emergency), "hosp": stays, "icu": random.binomial(stays, 0.13)}
        sums = {unit: sums[unit] + new[unit] for unit in sums}
        visits |= {f"n_{unit}_{days}d": sums[unit] for unit in sums}
    return visits
