"""MIMIC4ED: emergency department stays, as the benchmark of Xie et al. makes them from MIMIC-IV-ED.

The data are credentialed (https://physionet.org/content/mimic-iv-ed/) and no part of this package: the loader reads the
file ``master_dataset.csv`` that the benchmark's own script (https://github.com/nliulab/mimic4ed-benchmark) writes.
`simulate_mimic4ed` makes a table of the same shape without them.

Source: Xie et al. (2022), Benchmarking emergency department prediction models with machine learning and public
electronic health records, Scientific Data 9:658.
"""

from __future__ import annotations

from os import PathLike

import numpy as np
import pandas as pd

COMPLAINTS = (
    *("chest_pain", "abdominal_pain", "headache", "shortness_of_breath", "back_pain", "cough", "nausea_vomiting"),
    *("fever_chills", "syncope", "dizziness"),
)
CHARLSON = (
    *("MI", "CHF", "PVD", "Stroke", "Dementia", "Pulmonary", "Rheumatic", "PUD", "Liver1", "DM1", "DM2", "Paralysis"),
    *("Renal", "Cancer1", "Liver2", "Cancer2", "HIV"),
)
ELIXHAUSER = (
    *("Arrhythmia", "Valvular", "PHTN", "HTN1", "HTN2", "NeuroOther", "Hypothyroid", "Lymphoma", "Coagulopathy"),
    *("Obesity", "WeightLoss", "FluidsLytes", "BloodLoss", "Anemia", "Alcohol", "Drugs", "Psychoses", "Depression"),
)
FLAGS = (
    *(f"chiefcom_{name}" for name in COMPLAINTS),
    *(f"cci_{name}" for name in CHARLSON),
    *(f"eci_{name}" for name in ELIXHAUSER),
)
COUNTS = tuple(f"n_{unit}_{days}d" for unit in ("ed", "hosp", "icu") for days in (30, 90, 365))
VITALS = ("temperature", "heartrate", "resprate", "o2sat", "sbp", "dbp")
MEASURED = (
    *(f"triage_{name}" for name in (*VITALS, "pain", "acuity")),
    *(f"ed_{name}_last" for name in VITALS),
)
MIMIC4ED_CATEGORICAL = ("gender", *FLAGS)
MIMIC4ED_CONTINUOUS = ("age", *COUNTS, *MEASURED, "ed_los", "n_med", "n_medrecon")

# Outside the outer two, a measurement is an error and becomes missing; outside the inner two, it is clamped.
VALID_RANGES = {
    "temperature": (14.2, 26.0, 45.0, 47.0),  # degrees Celsius
    "heartrate": (0.0, 0.0, 350.0, 390.0),
    "resprate": (0.0, 0.0, 300.0, 330.0),
    "o2sat": (0.0, 0.0, 100.0, 150.0),
    "sbp": (0.0, 0.0, 375.0, 375.0),
    "dbp": (0.0, 0.0, 375.0, 375.0),
    "pain": (0.0, 0.0, 10.0, 10.0),
    "acuity": (1.0, 1.0, 5.0, 5.0),
}
_LEAST_AGE = 18
_DURATION = r"-?\d+ days?(?: [+-]?\d\d:\d\d:\d\d(?:\.\d+)?)?"


def load_mimic4ed(path: str | PathLike[str], *, fill_median: bool = False) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Load the benchmark's table, cleaned and split as the benchmark does it.

    Stays of adults with a triage acuity are kept; temperatures become degrees Celsius; measurements outside
    `VALID_RANGES` become missing or are clamped; of the stays, 80 % drawn at random are for training. From MIMIC-IV-ED
    1.0 that makes 353,150 and 88,287 rows.

    Parameters
    ----------
    path : str or path
        ``master_dataset.csv``, which may be compressed. Other columns than those of the result are not read.
    fill_median : bool
        Whether missing measurements are filled with the median of the training rows, as the benchmark does it before
        it predicts. By default they stay missing: about 3 to 8 % of a column.

    Returns
    -------
    train, test : DataFrame
        73 columns, those of `MIMIC4ED_CATEGORICAL` and then those of `MIMIC4ED_CONTINUOUS`, each table with an index
        from 0: ``gender`` as strings, the 45 flags bool, ``age`` (years) and all numbers of visits and medicines
        int64, the rest float64: measurements, and ``ed_los`` in hours, whole days included.

    Raises
    ------
    OSError
        There is no such file.
    ValueError
        The file is not that table: a column is absent, or has cells of another kind; temperatures are not in degrees
        Fahrenheit; or no stay is left.

    Notes
    -----
    The paper names 46 categorical and 27 continuous columns and does not list them. These are the union of the
    variables of the benchmark's tasks 1 and 3, which is the only such choice that gives these numbers.

    Examples
    --------
    Simulated rows, written as the benchmark's file has them:

    >>> import tempfile
    >>> from pathlib import Path
    >>> from missdiff_fast.datasets import simulate_mimic4ed
    >>> rows = simulate_mimic4ed(50, random_state=0)
    >>> for name in ("triage_temperature", "ed_temperature_last"):
    ...     rows[name] = rows[name] * 9 / 5 + 32
    >>> rows["ed_los"] = pd.to_timedelta(rows["ed_los"], unit="h").dt.round("min").astype(str)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     rows.to_csv(Path(folder) / "master_dataset.csv", index=False)
    ...     train, test = load_mimic4ed(Path(folder) / "master_dataset.csv")
    >>> train.shape, test.shape
    ((40, 73), (10, 73))
    """
    frame = _read(path)
    frame = frame[(frame["age"] >= _LEAST_AGE) & frame["triage_acuity"].notna()].reset_index(drop=True)
    if frame.empty:
        raise ValueError(f"{path}: no stay of an adult with a triage acuity")
    for column in MEASURED:
        frame[column] = _clean(frame[column], column, path)
    frame["ed_los"] = _hours(frame["ed_los"], path)
    frame = frame.astype(dict.fromkeys(("age", *COUNTS, "n_med", "n_medrecon"), "int64"))
    train = frame.sample(frac=0.8, random_state=10)
    test = frame.drop(train.index)
    if fill_median:
        medians = train[list(MEASURED)].median()
        train, test = train.fillna(medians), test.fillna(medians)
    return train.reset_index(drop=True), test.reset_index(drop=True)


def _read(path: str | PathLike[str]) -> pd.DataFrame:
    columns = [*MIMIC4ED_CATEGORICAL, *MIMIC4ED_CONTINUOUS]
    try:
        header = pd.read_csv(path, nrows=0).columns
    except ValueError as error:  # pandas' errors of parsing and of decoding are of this kind
        raise ValueError(f"{path} is not the benchmark's master_dataset.csv: {error}") from error
    absent = [name for name in columns if name not in header]
    if absent:
        raise ValueError(
            f"{path} is not the benchmark's master_dataset.csv: it has no column {', '.join(map(repr, absent[:5]))}"
            + (f" (and {len(absent) - 5} others)" if len(absent) > 5 else "")
        )
    frame = pd.read_csv(path, usecols=columns, dtype={"gender": object, "ed_los": object}, low_memory=False)[columns]
    _refuse(frame["gender"], ~frame["gender"].isin(["F", "M"]), path, "F and M")
    for column in FLAGS:
        frame[column] = _flag(frame[column], path)
    for column in ("age", *COUNTS, *MEASURED, "n_med", "n_medrecon"):
        frame[column] = _number(frame[column], path, whole=column not in MEASURED)
    return frame


def _flag(cells: pd.Series, path: object) -> pd.Series:
    _refuse(cells, ~cells.isin([0, 1, "True", "False"]), path, "0 and 1, or False and True,")
    return cells.isin([1, "True"])  # of strings, astype would make "False" true


def _number(cells: pd.Series, path: object, *, whole: bool) -> pd.Series:
    numbers = pd.to_numeric(cells, errors="coerce").astype("float64")
    odd = cells.notna() & ~np.isfinite(numbers)
    if whole:
        if str(cells.name).startswith("n_med"):
            numbers = numbers.fillna(0)  # no medicine is recorded
        odd |= ~numbers.between(0, 2**53) | (numbers % 1 != 0)
    _refuse(cells, odd, path, "whole numbers of 0 or more" if whole else "numbers")
    return numbers


def _clean(cells: pd.Series, column: str, path: object) -> pd.Series:
    quantity = column.split("_")[1]
    if quantity == "temperature":
        if cells.median() < 60:
            raise ValueError(
                f"{path}: column {column!r} has a median of {cells.median():g}, which is no temperature in degrees "
                "Fahrenheit, as master_dataset.csv has them; give that file, not one made from it"
            )
        cells = (cells - 32) * 5 / 9
    least, low, high, most = VALID_RANGES[quantity]
    return cells.where(cells.between(least, most)).clip(low, high)


def _hours(cells: pd.Series, path: object) -> pd.Series:
    odd = cells.notna() & ~cells.astype(str).str.fullmatch(_DURATION)
    _refuse(cells, odd, path, "durations such as '0 days 04:13:00'")
    return pd.to_timedelta(cells).dt.total_seconds() / 3600


def _refuse(cells: pd.Series, odd: pd.Series, path: object, expected: str) -> None:
    if odd.any():
        cell = cells[odd].iloc[0]
        shown = "an empty cell" if pd.isna(cell) else f"the cell {str(cell)!r}"
        raise ValueError(f"{path}: column {cells.name!r} has {shown}, where {expected} are expected")
