"""Real tables with real holes: each is read without options but for its marks, fitted, sampled and imputed.

They are read from the folder that $MISSDIFF_TEST_DATA names, or a folder ``shared/data`` beside the project; without
either they are skipped. A few steps of training are enough: what is tested is that dtypes, values and holes survive the
way there and back.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from missdiff_fast import MissDiff
from missdiff_fast.table import read_table

ROWS = 800
NO_TABLES = {"SOURCE.txt", "LICENSE.txt"}


@dataclass(frozen=True)
class Case:
    """One file, and what its user has to do.

    ``read`` are options of `read_table`, ``aside`` the columns that are not learnt, ``zeros`` those where 0 means
    missing; ``prepare`` makes a better frame. Read without any option, the warning matches ``warned``.
    """

    path: str
    read: dict[str, Any] = field(default_factory=dict)
    aside: tuple[Any, ...] = ()
    zeros: tuple[Any, ...] = ()
    prepare: Callable[[pd.DataFrame], pd.DataFrame] = lambda frame: frame
    warned: str = ""


QUESTION_MARKS = {"missing_values": ["?"]}


def days(column: str, **options: Any) -> Callable[[pd.DataFrame], pd.DataFrame]:
    return lambda frame: frame.assign(**{column: pd.to_datetime(frame[column], **options)})


DATA = r"the first line holds .* read as data: .* if it is the header, pass header=True"
UNMARKED = r"'\?' in .*missing_values=\['\?'\]"

CASES = [
    Case("adult/adult.data.gz", QUESTION_MARKS, warned=DATA),
    Case("adult/adult.test.gz", QUESTION_MARKS, warned="its name does not tell its kind"),
    Case(
        "air_quality/AirQualityUCI.csv.gz",
        {"missing_values": [-200]},
        prepare=days("Date", format="%d/%m/%Y"),
        warned="114 blank rows were dropped",
    ),
    # Each of its rows has as many cells as the header, so that nothing tells that they have been shifted.
    Case(
        "air_quality/AirQualityUCI_broken_by_comma.csv.gz",
        {"missing_values": [-200]},
        prepare=days("Date", dayfirst=True),
    ),
    Case("brfss2015/diabetes_binary_health_indicators_BRFSS2015.csv.gz"),
    Case(
        "credit_default/default_of_credit_card_clients.csv.gz",
        warned="line 2 holds texts such as 'ID'",
    ),
    Case("diabetes130/IDs_mapping.csv", aside=("description",)),
    Case(
        "diabetes130/diabetic_data.csv.gz",
        QUESTION_MARKS,
        ("encounter_id", "patient_nbr"),
        warned=UNMARKED,
    ),
    Case("mimic4_demo/admissions_wide_derived.csv.gz", QUESTION_MARKS, ("subject_id", "hadm_id"), warned=UNMARKED),
    Case("nhanes/NHANESraw.csv.gz", aside=("ID",)),
    Case("physionet2019/setB_part_hourly.psv.gz", aside=("patient", "Bilirubin_direct")),
    Case("support2/support2.csv.gz", aside=("sno",)),
    Case("survival_r/flchain.csv.gz"),
    Case("survival_r/mgus2.csv.gz", aside=("id",)),
    Case("survival_r/nafld1.csv.gz", aside=("id", "case.id")),
    Case("survival_r/pbc.csv.gz", aside=("id",)),
    Case("survival_r/pbcseq.csv.gz", aside=("id",)),
    Case("uci_clinical_small/auto_imports.csv", QUESTION_MARKS, warned=DATA),
    Case("uci_clinical_small/breast-cancer-ljubljana.csv", warned=DATA),
    Case("uci_clinical_small/breast-cancer-wisconsin.data", QUESTION_MARKS, warned=DATA),
    Case("uci_clinical_small/chronic_kidney_disease_full.arff"),
    Case("uci_clinical_small/german.csv", warned=DATA),
    Case("uci_clinical_small/hcc-data.txt", QUESTION_MARKS, warned=UNMARKED),
    Case("uci_clinical_small/heart_disease_uci.csv", aside=("id",), zeros=("chol", "trestbps")),
    Case("uci_clinical_small/hepatitis.data", QUESTION_MARKS, warned=UNMARKED),
    Case("uci_clinical_small/horse-colic.csv", QUESTION_MARKS, warned=DATA),
    Case("uci_clinical_small/hypothyroid.arff", aside=("TBG",)),
    Case(
        "uci_clinical_small/kidney_disease_raw_ragged.csv",
        QUESTION_MARKS,
        warned=r"lines 71, 74 end with a separator[\s\S]*line 371: 26 fields where the header has 25: no row is read",
    ),
    Case("uci_clinical_small/labor.arff"),
    Case("uci_clinical_small/pima-indians-diabetes.csv", zeros=(1, 2, 3, 4, 5), warned=DATA),
    Case("uci_clinical_small/soybean.arff"),
    Case("uci_clinical_small/thyroidDF.csv.gz", aside=("patient_id",)),
    Case("uci_clinical_small/vote.arff"),
    Case(
        "ugly_small/SeoulBikeData_bom_utf8.csv",
        prepare=days("Date", dayfirst=True),
    ),
    Case(
        "ugly_small/SeoulBikeData_latin1.csv",
        aside=("Row",),
        prepare=days("Date", dayfirst=True),
    ),
    Case(
        "ugly_small/titanic3.csv",
        QUESTION_MARKS,
        ("name",),
        warned=UNMARKED,
    ),
    Case("ugly_small/wdbc_kaggle.csv", aside=("id",)),
]


@pytest.fixture(autouse=True)
def _quiet_reader() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


def fewer_rows(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.sample(min(ROWS, len(frame)), random_state=0)


def told(path: Path) -> str:
    """Warnings of the reader without options."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        read_table(path)
    return "\n".join(str(warning.message) for warning in caught)


def small_model() -> MissDiff:
    return MissDiff(steps=5, width=32, blocks=1, batch_size=128, refine=0, structural_missing="fill", random_state=0)


def check_sample(frame: pd.DataFrame, sample: pd.DataFrame, relations: pd.DataFrame) -> None:
    # A column of a relation is computed, or moved so that another one holds: in range, but not always a seen value.
    formulas = relations[~relations["kind"].isin(["determined", "step"])]
    computed = {*formulas["column"], *formulas["from"].explode()}
    pd.testing.assert_series_equal(sample.dtypes, frame.dtypes)
    for name in frame.columns:
        assert not sample[name].isna().any(), name
        if name in computed:
            assert sample[name].between(frame[name].min(), frame[name].max()).all(), f"{name}: values out of range"
        else:
            assert sample[name].isin(frame[name].dropna()).all(), f"{name}: values that were never observed"


def check_aside(frame: pd.DataFrame, sample: pd.DataFrame, kinds: dict[Any, str]) -> None:
    """Fresh identifiers, no text, and empty columns."""
    assert list(sample.columns) == [name for name in frame.columns if kinds.get(name) != "text"]
    for name, kind in kinds.items():
        if kind == "identifier":
            assert sample[name].dtype == frame[name].dtype
            assert sample[name].is_unique
            assert not set(sample[name]) & set(frame[name])
        elif kind == "empty":
            assert sample[name].isna().all()


def check_imputed(learnt: pd.DataFrame, frame: pd.DataFrame, filled: pd.DataFrame) -> None:
    pd.testing.assert_series_equal(filled.dtypes, frame.dtypes)
    pd.testing.assert_index_equal(filled.index, frame.index)
    for name in frame.columns:
        seen, before, after = frame[name].notna().to_numpy(), frame[name].to_numpy(), filled[name].to_numpy()
        assert not filled[name].isna().any(), name
        if isinstance(frame[name].dtype, np.dtype) and before.dtype != object:
            assert before[seen].tobytes() == after[seen].tobytes(), f"{name}: observed cells are not the same bits"
        else:
            assert (before[seen] == after[seen]).all(), name
        if pd.api.types.is_numeric_dtype(frame[name].dtype) or pd.api.types.is_datetime64_any_dtype(frame[name].dtype):
            assert filled[name].between(learnt[name].min(), learnt[name].max()).all(), name
        else:
            assert filled[name].isin(learnt[name].dropna()).all(), name


def test_every_file_has_a_case(real_data: Path) -> None:
    files = {path.relative_to(real_data).as_posix() for path in real_data.rglob("*") if path.is_file()}
    assert {name for name in files if name.rpartition("/")[2] not in NO_TABLES} == {case.path for case in CASES}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.path)
def test_fits(real_data: Path, case: Case) -> None:
    path = real_data / case.path
    if case.warned:
        assert re.search(case.warned, told(path))
    whole = read_table(path, **case.read)
    frame = fewer_rows(case.prepare(whole))
    for name in case.zeros:
        frame[name] = frame[name].replace(0, np.nan)
    model = small_model().fit(frame)
    kinds = dict(model.set_aside_[["column", "kind"]].to_numpy())
    assert tuple(kinds) == case.aside
    sample, part = model.sample(100), frame.head(100)
    filled, (draw,) = model.impute(part), model.impute_draws(part, num_draws=1)
    check_aside(frame, sample, kinds)
    pd.testing.assert_frame_equal(filled[[*kinds]], part[[*kinds]])
    pd.testing.assert_frame_equal(draw[[*kinds]], part[[*kinds]])
    learnt = frame.drop(columns=[*kinds])
    check_sample(learnt, sample.drop(columns=[*kinds], errors="ignore"), model.relations_)
    check_imputed(learnt, part.drop(columns=[*kinds]), filled.drop(columns=[*kinds]))
    check_imputed(learnt, part.drop(columns=[*kinds]), draw.drop(columns=[*kinds]))
