"""The loader of MIMIC4ED, on a small hand-made file of the benchmark's shape with every trap in it."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from frames import fit_codec

from missdiff_fast.datasets import MIMIC4ED_CATEGORICAL, MIMIC4ED_CONTINUOUS, load_mimic4ed
from missdiff_fast.datasets.mimic4ed import _flag

ROWS = 30
COLUMNS = [*MIMIC4ED_CATEGORICAL, *MIMIC4ED_CONTINUOUS]


def master() -> pd.DataFrame:
    """30 stays with cells as the benchmark writes them, of which row i has age 20 + i and is kept."""
    i = np.arange(ROWS)
    columns: dict[str, object] = {
        "index": i,
        "subject_id": 10_000_000 + i,
        "hadm_id": np.where(i % 2, np.nan, 20_000_000.0 + i),
        "intime": "2180-05-06 19:17:00",
        "age": 20 + i,
        "gender": np.where(i % 2, "F", "M"),
        "ed_los": [f"0 days {h:02}:30:00" for h in i % 24],
        "ed_los_hours": np.round(i % 24 + 0.5, 2),
        "chiefcomplaint": "Chest pain, cough",
        "outcome_hospitalization": i % 2 == 0,
        "triage_temperature": 98.6,
        "ed_temperature_last": 97.7,
        "ed_pain_last": "unable",
        "eci_CHF": 1,
        "n_med": 2.0,
        "n_medrecon": 3.0,
    }
    for name in COLUMNS:
        if name.startswith("chiefcom_"):
            columns[name] = i % 5 == 0
        elif name.startswith(("cci_", "eci_")):
            columns[name] = (i % 3 == 0).astype(int)
        elif name.startswith("n_") and name not in columns:
            columns[name] = i % 4
    levels = {"heartrate": 80.0, "resprate": 18.0, "o2sat": 98.0, "sbp": 120.0, "dbp": 70.0, "pain": 4.0, "acuity": 3.0}
    for name, level in levels.items():
        columns[f"triage_{name}"] = level
        if name not in ("pain", "acuity"):
            columns[f"ed_{name}_last"] = level
    return pd.DataFrame(columns)


def load(frame: pd.DataFrame, folder: Path, **options: bool) -> pd.DataFrame:
    """The loaded file, its two parts together, by age, which is another one in each row."""
    frame.to_csv(folder / "master_dataset.csv", index=False)
    parts = load_mimic4ed(folder / "master_dataset.csv", **options)
    return pd.concat(parts).set_index("age", drop=False).sort_index()


def test_the_columns() -> None:
    assert len(MIMIC4ED_CATEGORICAL) == 46
    assert len(MIMIC4ED_CONTINUOUS) == 27
    assert len(set(COLUMNS)) == 73
    assert {"gender", "chiefcom_dizziness", "cci_HIV", "eci_PHTN"} <= set(MIMIC4ED_CATEGORICAL)
    assert {"age", "n_icu_365d", "triage_pain", "ed_dbp_last", "ed_los", "n_med", "n_medrecon"} <= set(
        MIMIC4ED_CONTINUOUS
    )
    starts = [name.split("_")[0] for name in COLUMNS]
    assert {start: starts.count(start) for start in dict.fromkeys(starts)} == {
        "gender": 1,
        "chiefcom": 10,
        "cci": 17,
        "eci": 18,
        "age": 1,
        "n": 11,
        "triage": 8,
        "ed": 7,
    }


def test_dtypes_and_the_split(tmp_path: Path) -> None:
    master().to_csv(tmp_path / "master_dataset.csv.gz", index=False)
    train, test = load_mimic4ed(tmp_path / "master_dataset.csv.gz")
    assert list(train.columns) == list(test.columns) == COLUMNS
    # pandas' sample(frac=0.8, random_state=10).
    assert train["age"].tolist() == (20 + np.random.RandomState(10).choice(ROWS, 24, replace=False)).tolist()
    assert test["age"].tolist() == sorted(set(range(20, 50)) - set(train["age"]))
    assert train.index.equals(pd.RangeIndex(24))
    assert test.index.equals(pd.RangeIndex(6))
    dtypes = train.dtypes.astype(str)
    assert dtypes["gender"] == "object"
    assert set(dtypes[list(MIMIC4ED_CATEGORICAL[1:])]) == {"bool"}
    assert set(dtypes[dtypes == "int64"].index) == {
        "age",
        *(name for name in MIMIC4ED_CONTINUOUS if name.startswith("n_")),
    }
    assert (dtypes == "float64").sum() == 15
    assert not train.isna().to_numpy().any()


def test_flags_keep_their_cells(tmp_path: Path) -> None:
    rows = load(master().astype({"cci_MI": bool, "eci_HTN1": float, "chiefcom_cough": int}), tmp_path)
    i = np.arange(ROWS)
    assert rows["cci_MI"].tolist() == rows["eci_HTN1"].tolist() == (i % 3 == 0).tolist()
    assert rows["chiefcom_cough"].tolist() == (i % 5 == 0).tolist()
    assert rows["n_icu_90d"].tolist() == (i % 4).tolist()


def test_flags_that_are_read_as_strings_keep_their_meaning() -> None:
    assert _flag(pd.Series(["True", "False"], name="cci_MI"), "file").tolist() == [True, False]


def test_temperatures_become_celsius(tmp_path: Path) -> None:
    rows = load(master(), tmp_path)
    assert rows["triage_temperature"].to_numpy() == pytest.approx(37.0)
    assert rows["ed_temperature_last"].to_numpy() == pytest.approx(36.5)


@pytest.mark.parametrize(
    ("column", "cells"),
    [
        # As the file has them, and as they come back: below and above all belief, to be clamped, at the bounds.
        ("triage_temperature", [(57.5, None), (57.6, 26), (70, 26), (113, 45), (116, 45), (116.7, None), (36.6, None)]),
        ("ed_temperature_last", [(0, None), (97.7, 36.5), (114, 45), (986, None)]),
        ("triage_heartrate", [(-1, None), (0, 0), (350, 350), (360, 350), (390, 350), (391, None)]),
        ("ed_heartrate_last", [(1228, None), (388, 350)]),
        ("triage_resprate", [(301, 300), (330, 300), (331, None), (0, 0)]),
        ("ed_o2sat_last", [(101, 100), (150, 100), (151, None), (9.0, 9)]),
        ("triage_sbp", [(375, 375), (376, None), (-5, None)]),
        ("ed_dbp_last", [(375, 375), (9099, None)]),
        ("triage_pain", [(10, 10), (13, None), (-1, None), (0, 0), (2.5, 2.5)]),
        ("triage_acuity", [(1, 1), (5, 5)]),
    ],
)
def test_cleaning(column: str, cells: list[tuple[float, float | None]], tmp_path: Path) -> None:
    frame = master().astype({column: float})
    frame.loc[: len(cells) - 1, column] = [written for written, _ in cells]
    rows = load(frame, tmp_path)
    expected = [np.nan if read is None else read for _, read in cells]
    assert rows[column].iloc[: len(cells)].tolist() == pytest.approx(expected, nan_ok=True)
    assert rows[column].iloc[len(cells) :].nunique() == 1
    assert int(rows.isna().to_numpy().sum()) == sum(read is None for _, read in cells)


def test_whole_days_of_a_stay_are_kept(tmp_path: Path) -> None:
    frame = master()
    frame.loc[:4, "ed_los"] = [
        *("2 days 03:15:00", "0 days 00:00:36", "1 days", "-1 days +23:00:00", "0 days 01:00:00.500000")
    ]
    hours = load(frame, tmp_path)["ed_los"]
    assert hours.iloc[:5].tolist() == pytest.approx([51.25, 0.01, 24, -1, 1 + 0.5 / 3600])
    assert hours.iloc[5:].tolist() == pytest.approx(master()["ed_los_hours"].iloc[5:].tolist())


def test_children_and_stays_without_acuity_are_left_out(tmp_path: Path) -> None:
    frame = master().astype({"triage_acuity": float})
    frame.loc[:2, "age"] = [17, 0, 18]
    frame.loc[5, "triage_acuity"] = np.nan
    rows = load(frame, tmp_path)
    assert rows["age"].tolist() == [18, *range(23, 25), *range(26, 50)]
    parts = load_mimic4ed(tmp_path / "master_dataset.csv")
    assert [len(part) for part in parts] == [22, 5]  # 0.8 of 27 is 21.6


def test_medicines_that_are_not_recorded_are_none(tmp_path: Path) -> None:
    frame = master()
    frame.loc[:1, "n_med"] = np.nan
    assert load(frame, tmp_path)["n_med"].tolist() == [0, 0, *[2] * 28]


def test_medians_of_the_training_rows_fill_both_parts(tmp_path: Path) -> None:
    frame = master()
    frame["triage_pain"] = np.arange(ROWS) % 7
    frame.loc[::3, "triage_pain"] = 99
    plain, filled = load(frame, tmp_path), load(frame, tmp_path, fill_median=True)
    train = plain.loc[20 + np.random.RandomState(10).choice(ROWS, 24, replace=False), "triage_pain"]
    assert filled["triage_pain"].tolist() == plain["triage_pain"].fillna(train.median()).tolist()
    assert plain["triage_pain"].isna().sum() == 10


def test_the_model_takes_it_as_46_categorical_and_27_continuous_columns(tmp_path: Path) -> None:
    frame = master()
    for j, name in enumerate(MIMIC4ED_CONTINUOUS):
        if name not in ("age", "ed_los"):
            frame[name] = frame[name] + (np.arange(ROWS) + j) % 3
    rows = load(frame, tmp_path)
    kinds = {column.name: column.kind for column in fit_codec(rows.reset_index(drop=True)).schema}
    assert {name for name, kind in kinds.items() if kind == "categorical"} == set(MIMIC4ED_CATEGORICAL)
    assert {name for name, kind in kinds.items() if kind == "continuous"} == set(MIMIC4ED_CONTINUOUS)


class TestRefusals:
    @pytest.mark.parametrize(
        ("column", "cell", "message"),
        [
            ("gender", "X", "column 'gender' has the cell 'X', where F and M are expected"),
            ("gender", None, "column 'gender' has an empty cell, where F and M"),
            ("cci_MI", 2, "column 'cci_MI' has the cell '2', where 0 and 1, or False and True, are expected"),
            ("eci_Drugs", None, "column 'eci_Drugs' has an empty cell"),
            ("chiefcom_cough", "yes", "column 'chiefcom_cough' has the cell 'yes'"),
            ("age", 33.5, "column 'age' has the cell '33.5', where whole numbers of 0 or more are expected"),
            ("age", None, "column 'age' has an empty cell, where whole numbers of 0 or more are expected"),
            (
                "n_ed_30d",
                "many",
                "column 'n_ed_30d' has the cell 'many', where whole numbers of 0 or more are expected",
            ),
            ("n_ed_30d", -1, "column 'n_ed_30d' has the cell '-1', where whole numbers of 0 or more are expected"),
            ("n_med", 1e30, "column 'n_med' has the cell '1e+30', where whole numbers of 0 or more are expected"),
            ("triage_sbp", "120/80", "column 'triage_sbp' has the cell '120/80', where numbers are expected"),
            ("triage_sbp", np.inf, "column 'triage_sbp' has the cell 'inf', where numbers are expected"),
            ("ed_los", "4.22", "column 'ed_los' has the cell '4.22', where durations such as '0 days 04:13:00'"),
        ],
    )
    def test_cells_of_another_kind(self, column: str, cell: object, message: str, tmp_path: Path) -> None:
        frame = master().astype({column: object})
        frame.loc[3, column] = cell
        with pytest.raises(ValueError, match=re.escape(f"{tmp_path}/master_dataset.csv: {message}")):
            load(frame, tmp_path)

    def test_absent_columns(self, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match=r"is not the benchmark's master_dataset.csv: it has no column 'ed_los'$"):
            load(master().drop(columns="ed_los"), tmp_path)
        with pytest.raises(ValueError, match=r"it has no column 'gender', .*_shortness_of_breath' \(and 68 others\)$"):
            load(pd.DataFrame({"a": [1]}), tmp_path)

    def test_other_files(self, tmp_path: Path) -> None:
        with pytest.raises(FileNotFoundError):
            load_mimic4ed(tmp_path / "none.csv")
        for content in (b"", b"\xff\xfe\x00\x81", b"PAR1\x00\x00"):
            (tmp_path / "other").write_bytes(content)
            with pytest.raises(ValueError, match=r"is not the benchmark's master_dataset.csv"):
                load_mimic4ed(tmp_path / "other")

    def test_temperatures_that_are_celsius_already(self, tmp_path: Path) -> None:
        with pytest.raises(
            ValueError, match=r"'triage_temperature' has a median of 36\.8, which is no temperature in de"
        ):
            load(master().assign(triage_temperature=36.8), tmp_path)

    def test_no_stay_left(self, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match="no stay of an adult with a triage acuity"):
            load(master().assign(age=3), tmp_path)
