"""Columns that are set aside: which they are, and what stands in their place."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from frames import NO_TEXT

from missdiff_fast import MissDiff
from missdiff_fast.errors import DataWarning
from missdiff_fast.evaluate import overimputation
from missdiff_fast.table import read_frame
from missdiff_fast.table.aside import Asides

SMALL: dict[str, Any] = {"steps": 2, "refine": 0, "width": 8, "blocks": 1, "random_state": 0}
SMALL["settings"] = {"blend.rows_per_feature": 0, "calibration.rounds": 0}


def kinds(frame: pd.DataFrame, **treatments: str) -> dict[object, str]:
    found = Asides.find(read_frame(frame), treatments, max_categories=10_000).found  # type: ignore[arg-type]
    return {name: aside.kind for name, aside in found.items()}


def ids(count: int = 100, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).permutation(np.arange(count) * 7 + 10**6)


def fit(frame: pd.DataFrame, **settings: Any) -> MissDiff:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return MissDiff(**{**SMALL, **settings}).fit(frame)


@pytest.fixture
def export() -> pd.DataFrame:
    """A table with one column of each kind that is set aside, and two that are learnt."""
    rows = 120
    return pd.DataFrame(
        {
            "patient_id": [None, *(f"MRN{number:05}" for number in range(1, rows))],
            "age": np.where(np.arange(rows) % 7 == 0, np.nan, np.arange(rows) % 50 + 20.0),
            "note": [f"seen by doctor {number}, no complaint" for number in range(rows)],
            "row": np.arange(1, rows + 1),
            "death": pd.Series([pd.NaT] * rows),
            "sex": ["f", "m", "m", None] * (rows // 4),
        },
        index=pd.RangeIndex(5, 5 + rows),
    )


@pytest.mark.parametrize(
    "name",
    [
        *("id", "ID", "hadm_id", "case.id", "patientId", "PatientID", "subjectid", "mrn", "patient_nbr", "subject"),
        *("index", "encounter_no", "sno", "stay-number", "PatientNumber", "eid"),
        *("SUBJID", "USUBJID", "PATNO", "patid", "ID_patient", "hospital_number"),
    ],
)
def test_numbers_that_are_named_so_are_identifiers(name: str) -> None:
    assert kinds(pd.DataFrame({name: ids(), "x": np.arange(100) % 7})) == {name: "identifier"}


@pytest.mark.parametrize(
    "values",
    [ids(101), pd.array([*ids(101), None], dtype="Int64"), [*ids(101), np.nan], ids(101).astype(str)],
    ids=["int64", "Int64", "float64", "strings"],
)
def test_identifiers_of_every_dtype(values: object) -> None:
    frame = pd.DataFrame({"x": values, "id": values})
    assert kinds(frame)["id"] == "identifier"
    drawn = fit(frame.assign(y=np.arange(len(frame)) % 9)).sample(3)["id"]
    assert drawn.dtype == frame["id"].dtype
    assert not set(drawn) & set(frame["id"].dropna())


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("id", ids(99)),
        ("id", ids() / 4),
        ("id", -ids()),
        ("id", np.repeat(ids(40), 5)),
        ("diagnosis_id", np.repeat(ids(), 5)),
        ("patient_id", np.repeat(ids(), 50)),
        ("paid", ids()),
        ("covid_index_of_something", ids()),
        ("plasma_acid", ids()),
        ("income", ids()),
        ("times", np.arange(100.0)),
        ("year", np.arange(1800, 1999)),
        ("platelet_number", ids()),
        ("lesion_no", ids()),
        ("refractive_index", ids()),
        ("sequence with a gap", np.r_[:50, 51:101]),
        (3, ids()),
        ("code", [f"c{number % 60}" for number in range(120)]),
        ("code", [f"c{number}" for number in range(29)]),
    ],
)
def test_other_columns_are_learnt(name: str | int, values: Any) -> None:
    assert kinds(pd.DataFrame({name: values, "x": np.arange(len(values)) % 7})) == {}


def test_repeated_identifiers_of_patients_are_found_by_their_name() -> None:
    visits = np.repeat(ids(150), 4)
    texts = {
        "ssn": [f"{number % 1000:03}-{number % 100:02}-{number % 10000:04}" for number in visits],
        "patient_id": [f"{number % 1000:03} {number % 999:03}" for number in visits],
        "mrn": [f"{number}.5" for number in visits],
        "USUBJID": [f"Smith_{number}" for number in visits],
    }
    frame = pd.DataFrame({"patient_nbr": visits, "id": visits, "patient": visits, "SUBJID": visits, **texts})
    assert set(kinds(frame).items()) == {(name, "identifier") for name in frame}


@pytest.mark.parametrize(
    "texts",
    [
        [f"Smith, John {number}" for number in range(40)],
        ["x" * 70 + str(number) for number in range(40)],
        [f"{chr(97 + number % 26)}{chr(97 + number // 26)}" for number in range(100)],
        [f"{number * 7}mg" for number in range(100)],
        [f"1:{number * 7}" for number in range(100)],
        [f"{'john' * (number % 9)}.{number}@example.org" for number in range(100)],
    ],
    ids=["names", "long", "no digits", "doses", "titres", "addresses"],
)
def test_texts_without_a_format_are_no_identifiers(texts: list[str]) -> None:
    texts = list(dict.fromkeys(texts))
    assert kinds(pd.DataFrame({"text": texts})) == {"text": "text"}


def test_each_kind_in_rows_drawn(export: pd.DataFrame) -> None:
    model = fit(export)
    assert model.columns_ == list(export.columns)
    assert model.codec_.columns == ["age", "sex"]
    assert model.set_aside_[["column", "kind"]].values.tolist() == [
        ["patient_id", "identifier"],
        ["note", "text"],
        ["row", "identifier"],
        ["death", "empty"],
    ]
    for missing in (False, True):
        rows = model.sample(200, missing=missing)
        assert list(rows.columns) == ["patient_id", "age", "row", "death", "sex"]
        assert rows["patient_id"].str.fullmatch(r"MRN\d{5}").all()
        assert rows["death"].isna().all()
        assert (rows["row"].dtype, rows["death"].dtype) == (export["row"].dtype, export["death"].dtype)
        for name in ("patient_id", "row"):
            assert rows[name].is_unique
            assert not set(rows[name]) & set(export[name])
        later = model.sample(50, first_row=150, missing=missing)
        pd.testing.assert_frame_equal(rows[150:].reset_index(drop=True), later)


def test_imputed_tables_keep_them_as_they_are(export: pd.DataFrame) -> None:
    model = fit(export)
    aside = ["patient_id", "note", "row", "death"]
    for filled in (model.impute(export), *model.impute_draws(export, 2)):
        pd.testing.assert_frame_equal(filled[aside], export[aside])
        assert list(filled.columns) == list(export.columns)
        assert filled[["age", "sex"]].notna().all(axis=None)
    swapped = export[["sex", "note", "age"]]
    assert list(model.impute(swapped).columns) == ["sex", "note", "age"]
    assert model.predict_proba(export, "sex").shape == (120, 2)
    assert model.score_samples(export).index.equals(export.index)
    with pytest.raises(ValueError, match="column 'note' is not learnt, it is text: name a column that is learnt"):
        model.predict_proba(export, "note")


def test_given_cells_stay(export: pd.DataFrame) -> None:
    model = fit(export)
    known = pd.DataFrame({"patient_id": ["A1", None], "note": ["new", None], "sex": ["f", None], "row": [7, None]})
    rows = model.sample(given=known)
    assert (rows["row"].dtype, rows["row"][0]) == (export["row"].dtype, 7)
    assert list(rows.columns) == list(export.columns)
    assert rows["patient_id"][0] == "A1"
    assert rows["patient_id"][1].startswith("MRN")
    assert rows["note"].tolist() == ["new", NO_TEXT]
    assert model.sample(2, given={"row": 7.0})["row"].tolist() == [7, 7]
    with pytest.raises(ValueError, match="given value 'abc' of column 'row' can't be held by its dtype int64"):
        model.sample(2, given={"row": "abc"})


def test_saved_models_know_them(export: pd.DataFrame, tmp_path: Path) -> None:
    categories = export.astype({"note": "category", "patient_id": "category"})
    model = fit(categories)
    model.save(tmp_path / "m")
    text = (tmp_path / "m").read_bytes()
    assert b"MRN00001" not in text
    assert b"seen by doctor" not in text
    same = MissDiff.load(tmp_path / "m")
    pd.testing.assert_frame_equal(same.set_aside_, model.set_aside_)
    pd.testing.assert_frame_equal(same.sample(9), model.sample(9))
    pd.testing.assert_frame_equal(same.impute(export), model.impute(export))


def test_each_kind_is_warned_of_once(export: pd.DataFrame) -> None:
    with pytest.warns(DataWarning, match="not learnt") as caught:
        MissDiff(**SMALL).fit(export)
    assert [str(warning.message) for warning in caught] == [
        "columns 'patient_id' (119 distinct texts in 119 cells), 'row' (120 distinct whole numbers in 120 cells) look "
        "like identifiers, so they are not learnt: rows drawn have fresh ones, never one of the table's; to learn them "
        "all the same, pass treatments={'patient_id': 'categorical', 'row': 'continuous'}",
        "column 'note' (120 distinct texts in 120 cells) holds free text, so it is not learnt: rows drawn lack it, and "
        "imputed tables keep it as it is; if it holds dates, convert them, frame[column] = "
        "pandas.to_datetime(frame[column]); keep the most frequent and call the rest other, frame[column] = "
        "missdiff_fast.table.cap_categories(frame[column], keep=50); or to silence this, drop the column, "
        "frame.drop(columns=['note'])",
        "column 'death' has no observed cell, so it is not learnt: it stays missing in rows drawn and in imputed "
        "tables; to silence this, drop the column, frame.drop(columns=['death'])",
    ]
    assert {warning.filename for warning in caught} == {__file__}


class TestTreatments:
    def test_they_are_followed(self, export: pd.DataFrame) -> None:
        export["flag"] = np.arange(len(export)) % 2
        export["ward"] = np.arange(len(export)) % 11
        chosen = {"patient_id": "text", "row": "continuous", "flag": "continuous", "ward": "categorical", "sex": "text"}
        model = fit(export, treatments=chosen)
        assert {c.name: c.kind for c in model.codec_.schema} == {
            "age": "continuous",
            "row": "continuous",
            "flag": "continuous",
            "ward": "categorical",
        }
        assert set(model.set_aside_["column"]) == {"patient_id", "note", "death", "sex"}
        drawn = fit(export, treatments={"ward": "identifier"}).sample(20)["ward"]
        assert drawn.is_unique
        assert not set(drawn) & set(export["ward"])
        assert fit(export[:60], treatments={"note": "categorical"}).sample(3)["note"].isin(export["note"]).all()

    @pytest.mark.parametrize(
        ("treatments", "error", "text"),
        [
            ({"ag": "text"}, ValueError, "treatments names ['ag'], not in the table"),
            (
                {"age": "number"},
                ValueError,
                "gives column 'age' the treatment 'number': the known ones are continuous,",
            ),
            ({"sex": "continuous"}, ValueError, "column 'sex' cannot be continuous: it has string cells"),
            ({"code": "continuous"}, ValueError, "column 'code' cannot be continuous: it has categories"),
            ({"half": "identifier"}, ValueError, "column 'half' cannot be identifier: it has float cells"),
            (["age"], TypeError, "treatments must be a mapping"),
        ],
    )
    def test_others_are_refused(self, treatments: Any, error: type[Exception], text: str, export: pd.DataFrame) -> None:
        export["half"] = np.arange(len(export)) / 2
        export["code"] = pd.Categorical(np.arange(len(export)) % 3)
        with pytest.raises(error, match=re.escape(text)):
            MissDiff(treatments=treatments, **SMALL).fit(export)

    def test_two_arguments_may_not_differ(self, export: pd.DataFrame) -> None:
        with pytest.raises(ValueError, match="categorical_columns names it: give one of them"):
            MissDiff(categorical_columns=["row"], treatments={"row": "continuous"}, **SMALL).fit(export)


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        (np.arange(10**17, 10**17 + 120 * 16, 16), "float64"),
        (np.arange(2**24 - 500, 2**24 - 380), "float32"),
        (np.arange(120), "int8"),
        (np.arange(31_000, 31_120), "int16"),
        (np.arange(120), "uint8"),
        (np.arange(2**63, 2**63 + 120, dtype=np.uint64), "uint64"),
        (np.arange(10**18, 10**18 + 120), "int64[pyarrow]"),
        (np.arange(120), object),
        ([f"p{number}" for number in range(1000, 1120)], "string[pyarrow]"),
        ([f"p{number}" for number in range(1000, 1120)], "category"),
    ],
)
def test_fresh_identifiers_are_exact_in_every_dtype(values: Any, dtype: Any) -> None:
    frame = pd.DataFrame({"id": pd.Series(values).astype(dtype), "x": np.arange(120) % 7})
    model = fit(frame)
    drawn = pd.concat([model.sample(300)["id"], model.sample(300, first_row=20_000)["id"]])
    assert drawn.dtype == model.sample(1)["id"].dtype
    assert drawn.is_unique
    assert not set(drawn.tolist()) & set(frame["id"].tolist())


@pytest.mark.parametrize("kind", [str, int])
def test_whether_identifiers_repeat_is_kept(kind: type) -> None:
    numbers = [*range(100, 219), 218]
    cells = [kind(number) for number in numbers]
    frame = pd.DataFrame({"id": cells, "once": [kind(n) for n in range(100, 220)], "x": np.arange(120) % 7})
    asides = Asides.find(read_frame(frame), {"id": "identifier", "once": "identifier"}, max_categories=100)
    assert [one.distinct for one in asides.found.values()] == [False, True]
    state = asides.state()
    assert Asides.from_state(state) == asides
    for entry in state["found"]:  # as in a model file of an earlier version
        del entry["distinct"]
    assert [one.distinct for one in Asides.from_state(state).found.values()] == [None, None]


def test_what_is_refused_can_be_set_aside(export: pd.DataFrame) -> None:
    export["mixed"] = [1.5 if number % 2 else "x" for number in range(len(export))]
    with pytest.raises((TypeError, ValueError), match="mixes types"):
        fit(export)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        every = {"mixed": "text", "patient_id": "identifier", "note": "text", "row": "identifier", "death": "text"}
        model = MissDiff(**SMALL, treatments=every).fit(export)  # what is set is not warned of
    assert list(model.sample(2)) == ["patient_id", "age", "row", "death", "sex"]
    assert model.impute(export)["mixed"].tolist() == export["mixed"].tolist()


def test_categories_of_an_empty_column_are_not_saved(export: pd.DataFrame, tmp_path: Path) -> None:
    export["empty"] = pd.Categorical([None] * len(export), categories=["John Smith"])
    export["dates"] = pd.Categorical([None] * len(export), categories=[pd.Timestamp("2024-01-01").date()])
    fit(export).save(tmp_path / "m")
    assert b"John Smith" not in (tmp_path / "m").read_bytes()
    assert MissDiff.load(tmp_path / "m").sample(2)[["empty", "dates"]].isna().all(axis=None)


def test_many_such_columns_are_no_burden(export: pd.DataFrame) -> None:
    wide = pd.concat([export, pd.DataFrame(np.nan, index=export.index, columns=[f"e{i}" for i in range(120)])], axis=1)
    model = fit(wide)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert model.impute(wide).shape == model.sample(120, given={"note": "x"}).shape == wide.shape


def test_overimputation_leaves_them_out(export: pd.DataFrame) -> None:
    found = overimputation(fit(export), export, share=0.3, num_draws=3, random_state=0)
    assert found["column"].tolist() == ["age", "sex"]


def test_a_table_of_such_columns_alone_is_refused(export: pd.DataFrame) -> None:
    with pytest.raises(ValueError, match="no column can be learnt: 'patient_id' is identifier, 'note' is text"):
        fit(export[["patient_id", "note", "death"]])
    with pytest.raises(ValueError, match="no cell of the frame is observed"):
        fit(export[["death"]])


def test_rows_of_arrays_keep_empty_columns() -> None:
    table = np.random.default_rng(0).normal(size=(40, 3))
    table[:, 1], table[0, 0] = np.nan, np.nan
    filled = fit(table).impute(table)  # type: ignore[arg-type]
    assert filled["x1"].isna().all()
    assert filled[["x0", "x2"]].notna().all(axis=None)


@pytest.mark.parametrize("form", ["{:,.2f}", "1.{:03d},50"])
def test_amounts_with_thousands_separators_are_no_identifiers(form: str) -> None:
    numbers = np.random.default_rng(0).permutation(900)[:120] + 100
    cells = [form.format(number * 11 if "f" in form else number) for number in numbers]
    assert kinds(pd.DataFrame({"cost": cells, "x": range(120)})).get("cost") != "identifier"
