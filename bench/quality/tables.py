"""The tables: the bundled Census, and files that are known by name, wherever in a folder they lie.

A table is made ready in one way for all methods: identifiers and dates go, values that stand for "missing" become
missing, codes and numbers of two values are categories, of more than 50 categories the rarer ones become "other", and
columns that are nearly empty or constant go. Its own holes stay.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from missdiff_fast.datasets.census import census_split
from missdiff_fast.table import cap_categories
from quality.formats import read_file

MOST_CATEGORIES, LEAST_OBSERVED = 50, 30
_SPLIT_SEED = 0


@dataclass(frozen=True)
class Table:
    """How one file is read.

    Parameters
    ----------
    file : str
        Its name, without folders; "" for the bundled Census.
    target : str, optional
        The column that a classifier predicts; none where rows belong to the same persons, or no column is a class.
    read : mapping
        Options of `missdiff_fast.table.read_table`.
    names : sequence of str
        Names of the columns, of a file without a header.
    drop, categories, zeros : sequence of str
        Columns to leave out; columns of numbers that are names; columns where 0 means missing.
    prepare : callable
        Changes the frame before all that, but not before the names.
    """

    file: str
    target: str | None = None
    read: Mapping[str, Any] = field(default_factory=dict)
    names: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    zeros: tuple[str, ...] = ()
    prepare: Callable[[pd.DataFrame], pd.DataFrame] = lambda frame: frame

    def load(self, folder: Path | None, rows: int) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Training and test rows: at most ``rows``, and a quarter as many, of a random order that never changes.

        Raises
        ------
        FileNotFoundError
            The folder has no such file, or there is no folder.
        """
        if not self.file:
            train, test = census_split(seed=0)
            return train.head(rows), test
        frame = self.ready(read_file(self._path(folder), **self.read))
        frame = frame.sample(min(len(frame), rows + rows // 4), random_state=_SPLIT_SEED).reset_index(drop=True)
        cut = min(rows, round(0.8 * len(frame)))
        train = _informative(frame[:cut])
        return train, frame.loc[cut:, train.columns].reset_index(drop=True)

    def ready(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The table as methods get it."""
        if self.names:
            frame = frame.set_axis(list(self.names), axis=1)
        frame = self.prepare(frame.rename(columns=str))
        frame = frame.drop(columns=list(self.drop)).assign(**{c: frame[c].replace(0, np.nan) for c in self.zeros})
        if self.target is not None:
            frame = frame[frame[self.target].notna()]
        return pd.DataFrame({name: self._column(frame[name]) for name in frame.columns})

    def _column(self, column: pd.Series) -> pd.Series:
        number = pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)
        if number and column.name != self.target and column.name not in self.categories and column.nunique() > 2:
            return column
        names = column.astype("object").map(_name, na_action="ignore")
        return cap_categories(names, MOST_CATEGORIES) if names.nunique() > MOST_CATEGORIES else names

    def _path(self, folder: Path | None) -> Path:
        if folder is None:
            raise FileNotFoundError(f"{self.file} is read from a folder: pass --data FOLDER")
        found = sorted(folder.rglob(self.file))
        if not found:
            raise FileNotFoundError(f"no file {self.file} in {folder}")
        return found[0]


def _name(value: object) -> str:
    """A category as a string; 1.0 is "1"."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _informative(frame: pd.DataFrame) -> pd.DataFrame:
    least = min(LEAST_OBSERVED, len(frame) // 4)
    return frame[[c for c in frame.columns if frame[c].count() >= least and frame[c].nunique() > 1]]


def _air(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(Time=pd.to_numeric(frame["Time"].astype(str).str[:2], errors="coerce"))


def _first_stays(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.drop_duplicates("patient_nbr")


def _adults(frame: pd.DataFrame) -> pd.DataFrame:
    """Ages of 65526 are slips of the pen."""
    return frame.assign(age=frame["age"].where(frame["age"] < 120))


def _sick(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(num=frame["num"] > 0)


_MARKS = {"missing_values": ["?"]}
_BARE = {"header": False, **_MARKS}
_ADULT = "age workclass fnlwgt education education-num marital-status occupation relationship race sex capital-gain"
_ADULT += " capital-loss hours-per-week native-country income"
_PIMA = "pregnancies glucose pressure skin insulin bmi pedigree age diabetes"
_GERMAN = "status months history purpose amount savings employed rate personal debtors since property age plans housing"
_GERMAN += " credits job dependants telephone foreign risk"
_CREDIT = ("SEX", "EDUCATION", "MARRIAGE")
_STAY = ("admission_type_id", "discharge_disposition_id", "admission_source_id")
_DATES = ("admittime", "dischtime", "deathtime", "edregtime", "edouttime")

TABLES = {
    "census": Table("", "income"),
    "adult": Table("adult.data.gz", "income", _BARE, tuple(_ADULT.split())),
    "credit_default": Table(
        "default_of_credit_card_clients.csv.gz",
        "default payment next month",
        {"skip_rows": 1},
        drop=("ID",),
        categories=_CREDIT,
    ),
    "diabetes130": Table(
        "diabetic_data.csv.gz",
        "readmitted",
        _MARKS,
        drop=("encounter_id", "patient_nbr"),
        categories=_STAY,
        prepare=_first_stays,
    ),
    "physionet2019": Table("setB_part_hourly.psv.gz", drop=("patient",)),
    "support2": Table("support2.csv.gz", "hospdead", drop=("sno",)),
    "nhanes": Table("NHANESraw.csv.gz", "Diabetes", drop=("ID",), categories=("SDMVPSU", "SDMVSTRA")),
    "brfss2015": Table("diabetes_binary_health_indicators_BRFSS2015.csv.gz", "Diabetes_binary"),
    "mimic4_demo": Table("admissions_wide_derived.csv.gz", None, _MARKS, drop=("subject_id", "hadm_id", *_DATES)),
    "air_quality": Table("AirQualityUCI.csv.gz", None, {"missing_values": [-200]}, drop=("Date",), prepare=_air),
    "flchain": Table("flchain.csv.gz", "death"),
    "mgus2": Table("mgus2.csv.gz", "death", drop=("id",)),
    "nafld1": Table("nafld1.csv.gz", "status", drop=("id", "case.id")),
    "pbc": Table("pbc.csv.gz", drop=("id",), categories=("status", "trt")),
    "pbcseq": Table("pbcseq.csv.gz", drop=("id",), categories=("status", "trt")),
    "thyroid": Table("thyroidDF.csv.gz", drop=("patient_id",), prepare=_adults),
    "hypothyroid": Table("hypothyroid.arff"),
    "kidney": Table("chronic_kidney_disease_full.arff", "class"),
    "heart": Table("heart_disease_uci.csv", "num", drop=("id",), zeros=("chol", "trestbps"), prepare=_sick),
    "german": Table("german.csv", "risk", {"header": False}, tuple(_GERMAN.split())),
    "pima": Table(
        "pima-indians-diabetes.csv",
        "diabetes",
        {"header": False},
        tuple(_PIMA.split()),
        zeros=("glucose", "pressure", "skin", "insulin", "bmi"),
    ),
    "hepatitis": Table("hepatitis.data", None, _MARKS),
    "hcc": Table("hcc-data.txt", None, _MARKS),
    "seoul_bikes": Table("SeoulBikeData_bom_utf8.csv", drop=("Date",)),
    "wdbc": Table("wdbc_kaggle.csv", "diagnosis", drop=("id",)),
}
